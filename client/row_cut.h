/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of one call on a table, cut into pieces: each piece is what one message brings to one
 * shard.
 *
 *     ps_row_cut_read(memory, &partition, keys, count, piece_rows_max, &cut, &error);
 *     ... the answer to piece i lies at `cut.pieces[i].first` of `answers` ...
 *     ps_row_cut_scatter(&cut, answers, row_bytes, rows);
 *     ps_row_cut_fini(&cut);
 *
 *     ps_row_cut_push(memory, &partition, &gradients, piece_rows_max, &cut, &error);
 *     ps_row_cut_pack(&cut, i);                  ... for each piece, in this order
 *     ... cut.pieces[i].content may be sent ...
 *     ps_row_cut_fini(&cut);
 *
 * A push has all gradients of a key in one piece: were they in two, the rule would be applied
 * twice. So the rows of a shard that gets more than a piece holds are dealt to pieces by the hashes
 * of their keys, and the server sums those of one key. Where one piece would still get too many (a
 * key that comes again and again, rows so wide that few make a piece) the gradients of equal keys
 * become one here, of the same bits as at the server (optimizer/repeats.h).
 *
 * Rows of a piece are in the order of those hashes, in which a server walks its table: a server
 * need not bring them into it, and has many clients.
 *
 * Threads:  pure but for the memory.
 * Blocking: never.
 * Errors:   PS_ERR_OUT_OF_RANGE: a key that no shard has, or too many. PS_ERR_NO_MEMORY.
 * Memory:   of the allocator, given back by ps_row_cut_fini. Keys of a read are copied; what a push
 *           has is borrowed until its last piece is packed.
 */
#ifndef PS_CLIENT_ROW_CUT_H
#define PS_CLIENT_ROW_CUT_H

#include "base/bytes.h"
#include "base/dtype.h"
#include "client/row_deal.h"
#include "optimizer/repeats.h"

#include <stdbool.h>

/* Content of one message. Small enough that several of them are on their way at once. */
#define PS_ROW_PIECE_BYTES ((size_t)1 << 20)

/* Keys of one message of a read, and of a push that needs several. A server looks so many up in a
 * millisecond; a batch of narrow rows in one message would be one lane's work, and the others
 * idle. */
#define PS_ROW_PIECE_KEYS ((size_t)32 * 1024)

struct ps_row_piece {
    uint32_t shard;
    size_t first; /* of its rows, in the order of the cut */
    size_t count;
    struct ps_bytes content; /* of a push: its keys, then its gradients */
    /* Of a push: which of the caller's rows come into it. More of them than it holds are summed by
     * key. */
    size_t given_first; /* in `order` */
    size_t given;
    bool is_sorted; /* they are in the order in which they go */
};

/* The rows of a push, as the caller gave them. */
struct ps_row_gradients {
    const uint64_t *keys;
    size_t count;
    const void *rows;
    enum ps_dtype dtype;
    size_t width;                /* elements of a row */
    enum ps_row_repeats repeats; /* what becomes of several gradients of a key */
    uint64_t seed; /* of the order in which the servers have the table's rows: base/row_hash.h */
};

struct ps_row_cut {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    size_t count;                      /* rows of all pieces */
    uint32_t *order;  /* owned; the caller's positions: of a read, in the order of the cut */
    uint64_t *keys;   /* owned; of a read: in the order of the cut */
    uint8_t *content; /* owned; of a push: what the pieces point to */
    struct ps_row_piece *pieces; /* owned; by shard */
    size_t piece_count;
    struct ps_row_gradients gradients; /* of a push */
    size_t piece_rows_max;
    uint64_t *sorting; /* owned; of a push: scratch for so many rows */
    size_t sorting_rows;
};

/* How many rows go in one piece, when each of them takes so many bytes with its key. */
size_t ps_row_piece_rows(size_t bytes);

/* How many keys go in one message of a read of rows of so many bytes. A piece is as large as the
 * larger of its two sides: keys go, rows come back. */
size_t ps_row_piece_reads(size_t row_bytes);

/* Cuts a read, into pieces of about the same size. Nothing is to be released after a failure. */
PS_MUST_USE enum ps_status ps_row_cut_read(const struct ps_allocator *memory,
                                           const struct ps_partition *partition,
                                           const uint64_t *keys, size_t count,
                                           size_t piece_rows_max, struct ps_row_cut *cut,
                                           struct ps_error *error);

/* Cuts a push. The pieces have room for their content, which is yet to be packed. */
PS_MUST_USE enum ps_status ps_row_cut_push(const struct ps_allocator *memory,
                                           const struct ps_partition *partition,
                                           const struct ps_row_gradients *gradients,
                                           size_t piece_rows_max, struct ps_row_cut *cut,
                                           struct ps_error *error);

/* Writes the content of piece i of a push. Pieces are packed one after the other, from the first
 * on; each may be sent while later ones are packed. */
void ps_row_cut_pack(struct ps_row_cut *cut, size_t i);

/* Puts rows that came in the order of a read into the caller's order. */
void ps_row_cut_scatter(const struct ps_row_cut *cut, const uint8_t *answers, size_t row_bytes,
                        uint8_t *rows);

/* Of zeros nothing is released. */
void ps_row_cut_fini(struct ps_row_cut *cut);

#endif
