/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients in another encoding: encoded once, before they are numbered, so that a push that is
 * sent again is the same bytes again; and what int8 and top-k leave out, kept for the next push of
 * the same parameter ("error feedback").
 *
 * What a push leaves out counts only when the push does: when it failed, what had been kept before
 * it is kept again. A push whose end is unknown counts as one that went through. Several pushes of
 * one parameter may be under way: what they leave out is added up.
 *
 * Threads:  encode and settle from any thread; a push belongs to one at a time.
 * Blocking: on a lock held for as long as adding two gradients takes.
 * Errors:   what is wrong with one gradient is noted in its item.
 * Memory:   one gradient's size per parameter, and up to as much again while a push is under way;
 *           `bytes_max` bounds the sum.
 */
#ifndef PS_CLIENT_PUSH_ENCODER_H
#define PS_CLIENT_PUSH_ENCODER_H

#include "base/thread.h"
#include "client/engine/engine.h"
#include "client/engine/placement.h"

/* What one parameter's pushes left out so far. Private. */
struct ps_residual;

struct ps_push_encoder {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    enum ps_encoding encoding;
    double share;       /* TOP_K: of the elements, in (0, 1] */
    uint64_t bytes_max; /* of everything that is kept */

    struct ps_mutex lock;           /* PS_RANK_CLIENT; guards what follows */
    struct ps_residual **residuals; /* owned; sorted by name */
    size_t count, capacity;
    uint64_t bytes; /* that are kept, those under way included */
};

/* The other fields above `lock` are the caller's to set before the first use. */
void ps_push_encoder_init(struct ps_push_encoder *encoder, const struct ps_allocator *memory);
void ps_push_encoder_fini(struct ps_push_encoder *encoder);

/* Encodes the content of a PUSH item, cut into the ranges that it will be sent as, and sets
 * item->encoded. What needs no encoding, or is wrong in itself, is left as it is. */
void ps_push_encoder_encode(struct ps_push_encoder *encoder, struct ps_item *item,
                            const struct ps_layout *layout);

/* Sets item->encoded to a content that is encoded already (`content`: elements of an encoding of
 * elements), which is sent from where it lies. The item's size counts elements of its own type. */
void ps_push_encoder_pass(struct ps_push_encoder *encoder, struct ps_item *item,
                          enum ps_encoding encoding, const uint8_t *content,
                          const struct ps_layout *layout);

/* The item's batch is over, or was never begun (then its status is set): ends item->encoded. */
void ps_push_encoder_settle(struct ps_push_encoder *encoder, struct ps_item *item);

/* What is kept for this parameter is for nobody any more: it was dropped. A push of it that is
 * under way puts back what it took. */
void ps_push_encoder_forget(struct ps_push_encoder *encoder, struct ps_bytes name);

/* Bytes that are kept at the moment. */
uint64_t ps_push_encoder_bytes(struct ps_push_encoder *encoder);

#endif
