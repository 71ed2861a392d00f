/* SPDX-License-Identifier: Apache-2.0 */
/* What a value of the rendezvous is, in the fields of a message.
 *
 * Threads:  pure functions.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT.
 * Memory:   none is taken.
 */
#ifndef PS_PROTO_VALUE_FACTS_CODEC_H
#define PS_PROTO_VALUE_FACTS_CODEC_H

#include "base/buffer.h"
#include "proto/rendezvous_messages.h"
#include "proto/wire.h"

/* Reads the field, if it is one of a value's; false: it is another one. What is malformed is the
 * reader's status. */
bool ps_value_facts_read(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                         struct ps_value_facts *facts);

/* The shape alone, for messages that have the other facts under numbers of their own. Its extents
 * are added to those that there are: packed, or a field for each. */
void ps_value_shape_read(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                         struct ps_value_facts *facts);

/* Has a value of these facts so many bytes? PS_ERR_BAD_INPUT: no. Elements without a size have any
 * number of bytes, and a dead value may have none. */
PS_MUST_USE enum ps_status ps_value_facts_check(const struct ps_value_facts *facts, uint64_t size,
                                                struct ps_error *error);

void ps_value_facts_put(const struct ps_value_facts *facts, struct ps_buffer *head);

#endif
