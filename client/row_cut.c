/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting is a counting sort by shard: two passes over the keys, and no comparison. Rows are moved
 * once, straight to where the message is sent from.
 *
 * Within a shard the caller's order stays. It decides nothing for a read; of a push it is the order
 * in which the server sums the gradients of one key, and floats that are summed in another order
 * are another sum. */
#include "client/row_cut.h"

#include "base/assert.h"
#include "base/row_hash.h"

#include <inttypes.h>
#include <string.h>

/* Rows by shard. */
struct dealt {
    uint32_t *order; /* the caller's positions, shard by shard */
    size_t *starts;  /* of each shard in it, and the end */
    uint32_t shard_count;
};

/* Where the rows of a push go. */
struct places {
    uint32_t *slots; /* of each row, in the order of the shards: its place among the shard's rows */
    size_t *unique;  /* rows of each shard that are sent */
};

static enum ps_status deal_out(const struct ps_allocator *memory,
                               const struct ps_partition *partition, const uint64_t *keys,
                               size_t count, struct dealt *dealt, struct ps_error *error);
static enum ps_status make_pieces(struct ps_row_cut *cut, const size_t *counts,
                                  uint32_t shard_count, size_t piece_rows_max,
                                  struct ps_error *error);
static enum ps_status find_places(const struct ps_allocator *memory, const struct dealt *dealt,
                                  const uint64_t *keys, size_t piece_rows_max,
                                  struct places *places, struct ps_error *error);
static size_t number_rows(const uint64_t *keys, const uint32_t *order, size_t count,
                          uint32_t *slots, uint32_t *table, size_t table_size);
static enum ps_status pack(struct ps_row_cut *cut, const struct ps_row_gradients *gradients,
                           const struct dealt *dealt, const struct places *places,
                           size_t piece_rows_max, struct ps_error *error);

/* A row that is as large as a piece still goes: the widest has 32 KiB. Pieces of a mebibyte are too
 * small to go in ranges. Ranges are parts of one array of elements, which a table does not have:
 * the engine would send them as one message all the same. */
size_t ps_row_piece_rows(size_t bytes)
{
    PS_ASSERT(bytes > 0);
    return bytes < PS_ROW_PIECE_BYTES ? PS_ROW_PIECE_BYTES / bytes : 1;
}

/* Also of a deal that got only one of the two: whichever was refused, nothing of it is kept by
 * whoever has asked for it. */
static void release_dealt(const struct ps_allocator *memory, struct dealt *dealt)
{
    ps_release(memory, dealt->starts);
    ps_release(memory, dealt->order);
}

/* How many rows each shard has, in the place of where they start. */
static void count_rows(struct dealt *dealt)
{
    for (uint32_t shard = 0; shard < dealt->shard_count; shard++)
        dealt->starts[shard] = dealt->starts[shard + 1] - dealt->starts[shard];
}

/* The keys are asked for in the order of the shards; which of the caller's rows an answer is stays
 * in `order`. */
enum ps_status ps_row_cut_read(const struct ps_allocator *memory,
                               const struct ps_partition *partition, const uint64_t *keys,
                               size_t count, size_t piece_rows_max, struct ps_row_cut *cut,
                               struct ps_error *error)
{
    struct dealt dealt = {0};
    *cut = (struct ps_row_cut){.memory = memory, .count = count};
    PS_TRY(deal_out(memory, partition, keys, count, &dealt, error));
    /* The cut keeps the order; where shards begin stands in its pieces. */
    cut->order = dealt.order;
    cut->keys = ps_plain(memory, count * sizeof *cut->keys);
    enum ps_status status = PS_ERR_NO_MEMORY;
    if (cut->keys == NULL) {
        status = ps_fail(error, status, "no memory for %zu keys", count);
    } else {
        for (size_t i = 0; i < count; i++)
            cut->keys[i] = keys[dealt.order[i]];
        count_rows(&dealt);
        status = make_pieces(cut, dealt.starts, dealt.shard_count, piece_rows_max, error);
    }
    ps_release(memory, dealt.starts);
    if (status != PS_OK)
        ps_row_cut_fini(cut);
    return status;
}

/* Three steps: which shard, which place there, and then the bytes. */
enum ps_status ps_row_cut_push(const struct ps_allocator *memory,
                               const struct ps_partition *partition,
                               const struct ps_row_gradients *gradients, size_t piece_rows_max,
                               struct ps_row_cut *cut, struct ps_error *error)
{
    struct dealt dealt = {0};
    struct places places = {0};
    *cut = (struct ps_row_cut){.memory = memory};
    enum ps_status status =
        deal_out(memory, partition, gradients->keys, gradients->count, &dealt, error);
    if (status == PS_OK)
        status = find_places(memory, &dealt, gradients->keys, piece_rows_max, &places, error);
    if (status == PS_OK)
        status = make_pieces(cut, places.unique, dealt.shard_count, piece_rows_max, error);
    if (status == PS_OK)
        status = pack(cut, gradients, &dealt, &places, piece_rows_max, error);
    /* Only the packed bytes stay: nothing of a push comes back that would have to find its row. */
    ps_release(memory, places.unique);
    ps_release(memory, places.slots);
    release_dealt(memory, &dealt);
    if (status != PS_OK)
        ps_row_cut_fini(cut);
    return status;
}

/* Said here, before anything is sent: the server would say it of each message by itself. */
static enum ps_status refuse_key(const struct ps_partition *partition, uint64_t key,
                                 struct ps_error *error)
{
    /* Beyond given ranges there is no key. */
    PS_ASSERT(partition->kind == PS_PARTITION_RANGE);
    return ps_fail(error, PS_ERR_OUT_OF_RANGE,
                   "key %" PRIu64 ": the table's keys are below %" PRIu64, key,
                   partition->keys_max);
}

/* Shards are computed twice rather than kept: that is cheaper than memory for them. */
static enum ps_status deal_out(const struct ps_allocator *memory,
                               const struct ps_partition *partition, const uint64_t *keys,
                               size_t count, struct dealt *dealt, struct ps_error *error)
{
    uint32_t shard_count = partition->shard_count;
    if (count > PS_ROW_CUT_KEYS_MAX)
        return ps_fail(error, PS_ERR_OUT_OF_RANGE, "%zu keys in one call: at most %zu go", count,
                       PS_ROW_CUT_KEYS_MAX);
    dealt->shard_count = shard_count;
    dealt->order = ps_plain(memory, count * sizeof *dealt->order);
    /* Two more: while rows are dealt, entry i + 1 is where the next row of shard i goes. */
    dealt->starts = ps_zeroed_array(memory, (size_t)shard_count + 2, sizeof *dealt->starts);
    if (dealt->order == NULL || dealt->starts == NULL) {
        release_dealt(memory, dealt);
        *dealt = (struct dealt){0};
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu keys", count);
    }
    /* One shard has every key, but of ranges, which end somewhere. Jobs of one server are common,
     * and there is nothing to hash for them. */
    if (shard_count == 1 && partition->kind != PS_PARTITION_RANGE) {
        for (size_t i = 0; i < count; i++)
            dealt->order[i] = (uint32_t)i;
        dealt->starts[1] = count;
        return PS_OK;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t shard = ps_partition_shard(partition, keys[i]);
        if (shard == shard_count) {
            release_dealt(memory, dealt);
            *dealt = (struct dealt){0};
            return refuse_key(partition, keys[i], error);
        }
        dealt->starts[shard + 2]++;
    }
    /* Counts become places: entry i + 1 is where shard i begins, until its rows are dealt. */
    for (uint32_t shard = 0; shard < shard_count; shard++)
        dealt->starts[shard + 2] += dealt->starts[shard + 1];
    for (size_t i = 0; i < count; i++) {
        uint32_t shard = ps_partition_shard(partition, keys[i]);
        dealt->order[dealt->starts[shard + 1]++] = (uint32_t)i;
    }
    PS_ASSERT(dealt->starts[shard_count] == count);
    return PS_OK;
}

/* A shard without rows has no piece, and is not asked. */
static enum ps_status make_pieces(struct ps_row_cut *cut, const size_t *counts,
                                  uint32_t shard_count, size_t piece_rows_max,
                                  struct ps_error *error)
{
    size_t total = 0;
    PS_ASSERT(piece_rows_max > 0);
    /* Counted first, so that pieces never move: items point to their contents. */
    for (uint32_t shard = 0; shard < shard_count; shard++)
        total += (counts[shard] + piece_rows_max - 1) / piece_rows_max;
    cut->pieces = ps_zeroed_array(cut->memory, total, sizeof *cut->pieces);
    if (cut->pieces == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu messages", total);
    size_t first = 0;
    /* Shard by shard, so that the pieces of one server stand together. */
    for (uint32_t shard = 0; shard < shard_count; shard++) {
        for (size_t left = counts[shard]; left > 0;) {
            size_t take = left < piece_rows_max ? left : piece_rows_max;
            cut->pieces[cut->piece_count++] =
                (struct ps_row_piece){.shard = shard, .first = first, .count = take};
            first += take;
            left -= take;
        }
    }
    cut->count = first;
    PS_ASSERT(cut->piece_count == total);
    return PS_OK;
}

/* ---- Pushes ---- */

/* Twice as many places as keys, so that a key is found after a step or two. */
static size_t table_size_of(const struct dealt *dealt, size_t piece_rows_max)
{
    size_t most = 0, size = 1;
    for (uint32_t shard = 0; shard < dealt->shard_count; shard++) {
        size_t count = dealt->starts[shard + 1] - dealt->starts[shard];
        most = count > most ? count : most;
    }
    /* Where no shard has more than a piece, nothing is looked up. */
    if (most <= piece_rows_max)
        return 0;
    while (size < 2 * most)
        size *= 2;
    return size;
}

/* Only a shard that gets several pieces has its gradients summed here: of one piece the server does
 * it, which it can do no worse. What is summed here also travels once, which is worth more than the
 * summing costs, but the keys of a batch are mostly different. */
static enum ps_status find_places(const struct ps_allocator *memory, const struct dealt *dealt,
                                  const uint64_t *keys, size_t piece_rows_max,
                                  struct places *places, struct ps_error *error)
{
    size_t table_size = table_size_of(dealt, piece_rows_max);
    size_t count = dealt->starts[dealt->shard_count];
    places->slots = ps_plain(memory, count * sizeof *places->slots);
    places->unique = ps_plain(memory, dealt->shard_count * sizeof *places->unique);
    /* One table for all shards, as large as the largest wants it. */
    uint32_t *table = ps_plain(memory, table_size * sizeof *table);
    if (places->slots == NULL || places->unique == NULL || table == NULL) {
        ps_release(memory, table);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu keys", count);
    }
    for (uint32_t shard = 0; shard < dealt->shard_count; shard++) {
        size_t first = dealt->starts[shard], rows = dealt->starts[shard + 1] - first;
        places->unique[shard] = rows;
        if (rows > piece_rows_max)
            places->unique[shard] = number_rows(keys, dealt->order + first, rows,
                                                places->slots + first, table, table_size);
        else
            for (size_t i = 0; i < rows; i++)
                places->slots[first + i] = (uint32_t)i;
    }
    ps_release(memory, table);
    return PS_OK;
}

/* Equal keys get the place of the first of them. How many places there are. The table has open
 * addressing: entries of 4 bytes, a few of which are in one line of the cache, and no list. */
static size_t number_rows(const uint64_t *keys, const uint32_t *order, size_t count,
                          uint32_t *slots, uint32_t *table, size_t table_size)
{
    uint32_t unique = 0;
    /* Probing ends: there is always a free entry. */
    PS_ASSERT(table_size > count);
    memset(table, 0, table_size * sizeof *table);
    for (size_t i = 0; i < count; i++) {
        uint64_t key = keys[order[i]];
        /* Any seed but that of the shards, under which all of these keys have similar hashes. */
        size_t at = ps_row_hash(key, 1) & (table_size - 1);
        /* Entries are 1 + a row: 0 is a free one. */
        while (table[at] != 0 && keys[order[table[at] - 1]] != key)
            at = (at + 1) & (table_size - 1);
        if (table[at] == 0) {
            table[at] = (uint32_t)i + 1;
            slots[i] = unique++;
        } else {
            slots[i] = slots[table[at] - 1];
        }
    }
    return unique;
}

/* Each piece gets its part of one block: its keys, then its gradients. One block is one question to
 * the allocator, however many servers there are. */
static void lay_out(struct ps_row_cut *cut, size_t row_bytes)
{
    uint8_t *next = cut->content;
    for (size_t i = 0; i < cut->piece_count; i++) {
        size_t size = cut->pieces[i].count * (sizeof(uint64_t) + row_bytes);
        cut->pieces[i].content = (struct ps_bytes){next, size};
        next += size;
    }
}

/* Puts the rows of one shard, whose first piece is given, where they go: the first of a key is
 * copied, the others are added to it. */
static void pack_shard(const struct ps_row_piece *pieces, uint8_t *content,
                       const struct ps_row_gradients *gradients, const uint32_t *order,
                       const uint32_t *slots, size_t count, size_t piece_rows_max)
{
    size_t row_bytes = gradients->width * ps_dtype_size(gradients->dtype);
    const uint8_t *rows = gradients->rows;
    uint32_t begun = 0;
    for (size_t i = 0; i < count; i++) {
        /* Pieces but the last of a shard are full, so that a division finds the piece. Where there
         * is one, which is mostly so, no division is made: it takes longer than moving the row. */
        size_t index = slots[i] < piece_rows_max ? 0 : slots[i] / piece_rows_max;
        const struct ps_row_piece *piece = &pieces[index];
        size_t place = slots[i] - index * piece_rows_max;
        uint8_t *start = content + (piece->content.data - pieces[0].content.data);
        uint8_t *to = start + piece->count * sizeof(uint64_t) + place * row_bytes;
        const uint8_t *from = rows + order[i] * row_bytes;
        PS_ASSERT(place < piece->count && slots[i] <= begun);
        /* Places are given in order, so that a new one is the next. */
        if (slots[i] < begun) {
            ps_row_add(gradients->dtype, to, from, gradients->width);
            continue;
        }
        begun++;
        /* Bytes, since a piece may begin where no number may lie. */
        memcpy(start + place * sizeof(uint64_t), &gradients->keys[order[i]], sizeof(uint64_t));
        memcpy(to, from, row_bytes);
    }
}

/* The bytes of a push are made once: what is sent again is what was sent before. */
static enum ps_status pack(struct ps_row_cut *cut, const struct ps_row_gradients *gradients,
                           const struct dealt *dealt, const struct places *places,
                           size_t piece_rows_max, struct ps_error *error)
{
    size_t row_bytes = gradients->width * ps_dtype_size(gradients->dtype);
    size_t size = cut->count * (sizeof(uint64_t) + row_bytes);
    cut->content = ps_plain(cut->memory, size);
    if (cut->content == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu bytes of gradients", size);
    lay_out(cut, row_bytes);
    /* The first piece of the shard that is packed. */
    const struct ps_row_piece *pieces = cut->pieces;
    for (uint32_t shard = 0; shard < dealt->shard_count; shard++) {
        size_t first = dealt->starts[shard], rows = dealt->starts[shard + 1] - first;
        if (rows == 0)
            continue;
        PS_ASSERT(pieces->shard == shard);
        pack_shard(pieces, cut->content + (pieces->content.data - cut->content), gradients,
                   dealt->order + first, places->slots + first, rows, piece_rows_max);
        pieces += (places->unique[shard] + piece_rows_max - 1) / piece_rows_max;
    }
    return PS_OK;
}

/* In the table's own type, as the server sums: whole numbers wrap, and floats are rounded after
 * each gradient. Neither row need lie where an element may. */
void ps_row_add(enum ps_dtype dtype, uint8_t *to, const uint8_t *from, size_t width)
{
    switch (dtype) {
#define ADD_ROW(TAG, suffix, T, SUM, label)                   \
    case TAG:                                                 \
        for (size_t i = 0; i < width; i++) {                  \
            SUM sum, more;                                    \
            memcpy(&sum, to + i * sizeof sum, sizeof sum);    \
            memcpy(&more, from + i * sizeof sum, sizeof sum); \
            sum += more;                                      \
            memcpy(to + i * sizeof sum, &sum, sizeof sum);    \
        }                                                     \
        break;
        PS_DTYPE_TABLE(ADD_ROW)
#undef ADD_ROW
    default:
        PS_ASSERT(false);
    }
}

/* ---- Reads ---- */

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
    *cut = (struct ps_row_cut){0};
}
