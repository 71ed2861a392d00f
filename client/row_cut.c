/* SPDX-License-Identifier: Apache-2.0 */
/* Reads, and what reads and pushes have in common. A push is in row_cut_push.c. */
#include "client/row_cut.h"

#include "base/assert.h"

#include <string.h>

static enum ps_status make_pieces(struct ps_row_cut *cut, const struct ps_row_dealt *dealt,
                                  struct ps_error *error);

/* A row that is as large as a piece still goes: the widest has 32 KiB. Pieces of a mebibyte are too
 * small to go in ranges. Ranges are parts of one array of elements, which a table does not have:
 * the engine would send them as one message all the same. */
size_t ps_row_piece_rows(size_t bytes)
{
    PS_ASSERT(bytes > 0);
    return bytes < PS_ROW_PIECE_BYTES ? PS_ROW_PIECE_BYTES / bytes : 1;
}

/* The keys alone are 8 bytes each, however narrow the rows are. */
size_t ps_row_piece_reads(size_t row_bytes)
{
    size_t rows = ps_row_piece_rows(row_bytes > sizeof(uint64_t) ? row_bytes : sizeof(uint64_t));
    return rows < PS_ROW_PIECE_KEYS ? rows : PS_ROW_PIECE_KEYS;
}

/* The keys are asked for in the order of the shards; which of the caller's rows an answer is stays
 * in `order`. */
enum ps_status ps_row_cut_read(const struct ps_allocator *memory,
                               const struct ps_partition *partition, const uint64_t *keys,
                               size_t count, size_t piece_rows_max, struct ps_row_cut *cut,
                               struct ps_error *error)
{
    struct ps_row_dealt dealt = {0};
    *cut = (struct ps_row_cut){.memory = memory, .count = count, .piece_rows_max = piece_rows_max};
    PS_TRY(ps_row_deal(memory, partition, keys, count, &dealt, error));
    cut->keys = ps_plain(memory, count * sizeof *cut->keys);
    enum ps_status status = PS_ERR_NO_MEMORY;
    if (cut->keys == NULL) {
        status = ps_fail(error, status, "no memory for %zu keys", count);
    } else {
        for (size_t i = 0; i < count; i++)
            cut->keys[i] = keys[dealt.order[i]];
        status = make_pieces(cut, &dealt, error);
    }
    /* The cut keeps the order; where shards begin stands in its pieces. */
    cut->order = dealt.order;
    dealt.order = NULL;
    ps_row_deal_fini(memory, &dealt);
    if (status != PS_OK)
        ps_row_cut_fini(cut);
    return status;
}

/* As few pieces of so many rows at most as there can be. Made of about one size: of a full piece
 * and a short one the full one would be waited for, and the lane that has the short one be idle. */
static size_t piece_count_of(size_t rows, size_t most)
{
    return (rows + most - 1) / most;
}

/* A shard without rows has no piece, and is not asked. */
static enum ps_status make_pieces(struct ps_row_cut *cut, const struct ps_row_dealt *dealt,
                                  struct ps_error *error)
{
    size_t most = cut->piece_rows_max;
    size_t total = 0;
    PS_ASSERT(most > 0);
    /* Counted first, so that pieces never move: items point to them. */
    for (uint32_t shard = 0; shard < dealt->shard_count; shard++)
        total += piece_count_of(dealt->starts[shard + 1] - dealt->starts[shard], most);
    cut->pieces = ps_zeroed_array(cut->memory, total, sizeof *cut->pieces);
    if (cut->pieces == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu messages", total);
    for (uint32_t shard = 0; shard < dealt->shard_count; shard++) {
        size_t first = dealt->starts[shard];
        for (size_t left = dealt->starts[shard + 1] - first; left > 0;) {
            /* Of what is left, so that the last ones are no shorter than the others but by one. */
            size_t pieces = piece_count_of(left, most);
            size_t take = (left + pieces - 1) / pieces;
            cut->pieces[cut->piece_count++] =
                (struct ps_row_piece){.shard = shard, .first = first, .count = take};
            first += take;
            left -= take;
        }
    }
    PS_ASSERT(cut->piece_count == total);
    return PS_OK;
}

/* A caller's row is written once, whatever the order of the answers. The answers are read in order
 * and the rows written at random: a processor waits for reads, and not for writes. */
void ps_row_cut_scatter(const struct ps_row_cut *cut, const uint8_t *answers, size_t row_bytes,
                        uint8_t *rows)
{
    for (size_t i = 0; i < cut->count; i++)
        memcpy(rows + cut->order[i] * row_bytes, answers + i * row_bytes, row_bytes);
}

/* A cut that failed is zero but for its memory. */
void ps_row_cut_fini(struct ps_row_cut *cut)
{
    if (cut->memory == NULL)
        return;
    ps_release(cut->memory, cut->pieces);
    ps_release(cut->memory, cut->content);
    ps_release(cut->memory, cut->keys);
    ps_release(cut->memory, cut->order);
    ps_release(cut->memory, cut->sorting);
    *cut = (struct ps_row_cut){0};
}
