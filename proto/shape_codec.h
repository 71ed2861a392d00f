/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes in messages: two fields, the lengths (repeated, packed or not) and a flag for a scalar,
 * which has none. The numbers of the fields are the caller's: each message has its own.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   in the reader's status: more lengths than PS_SHAPE_RANK_MAX, a scalar with lengths.
 * Memory:   in place.
 */
#ifndef PS_PROTO_SHAPE_CODEC_H
#define PS_PROTO_SHAPE_CODEC_H

#include "base/shape.h"
#include "proto/wire.h"

/* The field with the lengths. Those of several fields follow each other, as protobuf says. */
void ps_shape_read_lengths(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                           struct ps_shape *shape);

/* The field with the flag. */
void ps_shape_read_scalar(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                          struct ps_shape *shape);

/* Appends the fields of these numbers; nothing for a shape that is not given. */
void ps_shape_put(struct ps_buffer *head, uint32_t lengths_number, uint32_t scalar_number,
                  const struct ps_shape *shape);

#endif
