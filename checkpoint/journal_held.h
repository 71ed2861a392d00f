/* SPDX-License-Identifier: Apache-2.0 */
/* The content of a PS_RECORD_HELD: which worker's contribution it is and with which weight it
 * counts, then the gradient as it was received (docs/journal-format.md). Parameter, element type,
 * encoding and request stand in the record's own head; its version is the parameter's present one,
 * and the contribution is to the round that makes the next.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_CORRUPT for bytes that no writer has made so.
 * Memory:   the gradient borrows from the content.
 */
#ifndef PS_CHECKPOINT_JOURNAL_HELD_H
#define PS_CHECKPOINT_JOURNAL_HELD_H

#include "base/bytes.h"
#include "base/status.h"

/* A multiple of 8: the gradient behind it is aligned as a push's is. */
#define PS_HELD_HEAD_BYTES ((size_t)8)

struct ps_held_head {
    uint32_t worker; /* rank, from 0; below PS_ROUND_WORKERS_MAX */
    float weight;    /* finite and not negative; 0 counts as 1, as in a request */
};

/* A head beyond those bounds aborts. */
void ps_held_head_write(const struct ps_held_head *head, uint8_t to[PS_HELD_HEAD_BYTES]);

/* Both results are set on PS_OK only. Nothing is said of the gradient's length. */
PS_MUST_USE enum ps_status ps_held_head_read(struct ps_bytes content, struct ps_held_head *head,
                                             struct ps_bytes *gradient, struct ps_error *error);

#endif
