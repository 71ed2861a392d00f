/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of one call on a table, cut into pieces: each piece is what one message brings to one
 * shard. What goes to a shard keeps the caller's order, so that the gradients of a key are summed
 * in the order in which they were given.
 *
 *     ps_row_cut_read(memory, &partition, keys, count, piece_rows_max, &cut, &error);
 *     ... the answer to piece i lies at `cut.pieces[i].first` of `answers` ...
 *     ps_row_cut_scatter(&cut, answers, row_bytes, rows);
 *     ps_row_cut_fini(&cut);
 *
 * A push has all gradients of a key in one piece: were they in two, the rule would be applied
 * twice. So where a shard gets more rows than a piece holds, the gradients of equal keys are summed
 * here, as the server would have done.
 *
 * Threads:  pure but for the memory.
 * Blocking: never.
 * Errors:   PS_ERR_OUT_OF_RANGE: a key that no shard has, or too many. PS_ERR_NO_MEMORY.
 * Memory:   of the allocator, given back by ps_row_cut_fini; keys are copied.
 */
#ifndef PS_CLIENT_ROW_CUT_H
#define PS_CLIENT_ROW_CUT_H

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/dtype.h"
#include "base/partition.h"
#include "base/status.h"

/* Most keys of one call: positions have 32 bits. */
#define PS_ROW_CUT_KEYS_MAX ((size_t)1 << 31)

/* Content of one message. Small enough that several of them are on their way at once. */
#define PS_ROW_PIECE_BYTES ((size_t)1 << 20)

struct ps_row_piece {
    uint32_t shard;
    size_t first; /* of its rows, in the order of the cut */
    size_t count;
    struct ps_bytes content; /* of a push: its keys, then its gradients */
};

struct ps_row_cut {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    size_t count;                      /* rows of all pieces */
    uint32_t *order;  /* owned; of a read: where each of them stands in the caller's order */
    uint64_t *keys;   /* owned; of a read: in the order of the cut */
    uint8_t *content; /* owned; of a push: what the pieces point to */
    struct ps_row_piece *pieces; /* owned; by shard */
    size_t piece_count;
};

/* How many rows go in one piece, when each of them takes so many bytes with its key. */
size_t ps_row_piece_rows(size_t bytes);

/* Cuts a read. Nothing is to be released after a failure. */
PS_MUST_USE enum ps_status ps_row_cut_read(const struct ps_allocator *memory,
                                           const struct ps_partition *partition,
                                           const uint64_t *keys, size_t count,
                                           size_t piece_rows_max, struct ps_row_cut *cut,
                                           struct ps_error *error);

/* The rows of a push, as the caller gave them. */
struct ps_row_gradients {
    const uint64_t *keys;
    size_t count;
    const void *rows;
    enum ps_dtype dtype;
    size_t width; /* elements of a row */
};

/* Cuts a push, and packs the content of each piece. */
PS_MUST_USE enum ps_status ps_row_cut_push(const struct ps_allocator *memory,
                                           const struct ps_partition *partition,
                                           const struct ps_row_gradients *gradients,
                                           size_t piece_rows_max, struct ps_row_cut *cut,
                                           struct ps_error *error);

/* Puts rows that came in the order of a read into the caller's order. */
void ps_row_cut_scatter(const struct ps_row_cut *cut, const uint8_t *answers, size_t row_bytes,
                        uint8_t *rows);

/* Adds a row to another, in their type: whole numbers wrap. Neither need be aligned. */
void ps_row_add(enum ps_dtype dtype, uint8_t *to, const uint8_t *from, size_t width);

/* Of zeros nothing is released. */
void ps_row_cut_fini(struct ps_row_cut *cut);

#endif
