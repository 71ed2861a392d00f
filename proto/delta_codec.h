/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of messages that make a pull a delta pull: Held and Delta. Private to proto/.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   reading: in the reader's status.
 * Memory:   what is read stays where it lies.
 */
#ifndef PS_PROTO_DELTA_CODEC_H
#define PS_PROTO_DELTA_CODEC_H

#include "base/bounds.h"
#include "proto/messages.h"
#include "proto/wire.h"

/* Most bytes of runs, and that either message takes in a head. */
enum {
    PS_DELTA_RUNS_BYTES_MAX = 8 * (PS_DELTA_BYTES_MAX / PS_BLOCK_BYTES),
    PS_DELTA_HEAD_BYTES_MAX = PS_DELTA_RUNS_BYTES_MAX + 128
};

/* Nothing is written unless it is present. */
void ps_held_put(struct ps_buffer *head, uint32_t number, const struct ps_held *held);
void ps_delta_put(struct ps_buffer *head, uint32_t number, const struct ps_delta *delta);

/* A field that comes twice is merged, as protobuf says. A chain that is none of ours is read as no
 * chain at all. */
void ps_held_read(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                  struct ps_held *held);
/* The runs are found, not kept. */
void ps_delta_read(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                   struct ps_delta *delta, struct ps_wire_range *runs);

#endif
