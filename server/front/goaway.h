/* SPDX-License-Identifier: Apache-2.0 */
/* The last words to a peer that is turned away.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   none: a peer that takes nothing hears nothing.
 * Memory:   none.
 */
#ifndef PS_SERVER_FRONT_GOAWAY_H
#define PS_SERVER_FRONT_GOAWAY_H

#include <stdbool.h>

/* Ends both directions of the connection. With `says_why` a GOAWAY frame with the text goes out
 * before (ENHANCE_YOUR_CALM, RFC 9113, 7): only where no other frame is half written. */
void ps_goaway(int descriptor, bool says_why, const char *text);

#endif
