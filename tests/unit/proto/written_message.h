/* SPDX-License-Identifier: Apache-2.0 */
/* A message that a test writes and reads again.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   none.
 * Memory:   everything is given back by message_end.
 */
#ifndef PS_TESTS_UNIT_PROTO_WRITTEN_MESSAGE_H
#define PS_TESTS_UNIT_PROTO_WRITTEN_MESSAGE_H

#include "proto/codec.h"

extern struct ps_buffer message;
extern struct ps_decoded decoded; /* of the last reading */
extern struct ps_error error;

/* Before and behind each test. */
void message_begin(void);
void message_end(void);

/* All that was written. */
struct ps_bytes message_bytes(void);

#endif
