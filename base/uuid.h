/* SPDX-License-Identifier: Apache-2.0 */
/* Names that nobody else gives, and that sort by age.
 *
 * Threads:  `random` belongs to one thread, as ever.
 * Blocking: never, but for ps_random_system.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_BASE_UUID_H
#define PS_BASE_UUID_H

#include "base/random.h"

/* Of a uuid as text, with its NUL. */
#define PS_UUID_BYTES 37

/* A uuid of version 7 (RFC 9562, section 5.7), in lower case. The bits that are not time come from
 * `random`, so that the same seed gives the same names; NULL: from the system. */
void ps_uuid_make(struct ps_random *random, uint64_t unix_ns, char uuid[PS_UUID_BYTES]);

#endif
