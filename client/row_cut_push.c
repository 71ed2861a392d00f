/* SPDX-License-Identifier: Apache-2.0 */
/* Pushes: which rows make a piece, and the bytes of it.
 *
 * The cut comes first, and looks at keys alone; each piece is packed when it is about to leave. So
 * the server applies the first piece while the second one is packed, which takes about as long as
 * sending it. */
#include "client/row_cut.h"

#include "base/assert.h"
#include "base/attributes.h"
#include "base/row_hash.h"

#include <math.h>
#include <string.h>

/* With fewer rows in a piece than this, buckets differ so much in size that many would be too large
 * or half empty; and rows so wide take longer to move than their keys take to be summed up. */
#define BUCKET_ROWS_LEAST 1024

/* A bucket is meant to leave room in a piece for so many deviations of its number of rows: one of
 * many thousand buckets has more. */
#define BUCKET_DEVIATIONS 6

/* Rows that are asked for before they are copied: those of a bucket lie apart in the caller's
 * array. Of a row so many bytes; the processor goes on by itself. */
#define AHEAD 8
#define ASKED_BYTES_MAX 256
#define LINE_BYTES 64

/* What is needed while a push is cut, and not afterwards. */
struct cutting {
    struct ps_row_cut *cut;
    struct ps_row_dealt dealt;
    uint32_t *buckets; /* owned; scratch */
    size_t *starts;    /* owned; of the buckets of one shard */
    uint32_t *table;   /* owned; scratch of summing up */
    size_t table_room;
    size_t pieces_room;
};

static uint32_t bucket_count_of(size_t rows, size_t piece_rows_max);
static bool begin_cutting(struct cutting *cutting);
static bool cut_shard(struct cutting *cutting, uint32_t shard);
static bool cut_bucket(struct cutting *cutting, uint32_t shard, size_t first, size_t count);
static bool lay_out(struct ps_row_cut *cut);

/* All that can fail is in here, so that packing cannot: a call whose first pieces have been sent
 * would have been applied in part. */
enum ps_status ps_row_cut_push(const struct ps_allocator *memory,
                               const struct ps_partition *partition,
                               const struct ps_row_gradients *gradients, size_t piece_rows_max,
                               struct ps_row_cut *cut, struct ps_error *error)
{
    struct cutting cutting = {.cut = cut};
    *cut = (struct ps_row_cut){
        .memory = memory, .gradients = *gradients, .piece_rows_max = piece_rows_max};
    PS_ASSERT(piece_rows_max > 0);
    PS_TRY(
        ps_row_deal(memory, partition, gradients->keys, gradients->count, &cutting.dealt, error));
    /* Memory is all that can be short: the keys have been looked at in dealing. */
    bool ok = begin_cutting(&cutting);
    for (uint32_t shard = 0; ok && shard < partition->shard_count; shard++)
        ok = cut_shard(&cutting, shard);
    ok = ok && lay_out(cut);
    ps_release(memory, cutting.table);
    ps_release(memory, cutting.starts);
    ps_release(memory, cutting.buckets);
    ps_row_deal_fini(memory, &cutting.dealt);
    if (ok)
        return PS_OK;
    ps_row_cut_fini(cut);
    return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu gradients", gradients->count);
}

/* What goes in one message goes in one: the server has all of it or none. What does not is cut into
 * messages of no more keys than a read's: of narrow rows a message has so many that the server
 * would be idle while the second is packed, and its nearer caches too small for either. */
static uint32_t bucket_count_of(size_t rows, size_t piece_rows_max)
{
    if (rows <= piece_rows_max || piece_rows_max < BUCKET_ROWS_LEAST)
        return 1;
    double most = (double)(piece_rows_max < PS_ROW_PIECE_KEYS ? piece_rows_max : PS_ROW_PIECE_KEYS);
    /* Keys fall into buckets at random, so that the deviation is the root of their number. */
    double meant = most - BUCKET_DEVIATIONS * sqrt(most);
    PS_ASSERT(rows <= PS_ROW_CUT_KEYS_MAX && meant > 0);
    /* The first one is a quarter of the others. */
    return (uint32_t)ceil((double)rows / meant + 0.75);
}

/* Room for whatever the shards may need: as many pieces as there are buckets, and those that a
 * bucket with too many rows may add. */
static bool begin_cutting(struct cutting *cutting)
{
    struct ps_row_cut *cut = cutting->cut;
    const struct ps_row_dealt *dealt = &cutting->dealt;
    size_t count = cut->gradients.count;
    uint32_t buckets_most = 1;
    for (uint32_t shard = 0; shard < dealt->shard_count; shard++) {
        size_t rows = dealt->starts[shard + 1] - dealt->starts[shard];
        uint32_t buckets = bucket_count_of(rows, cut->piece_rows_max);
        if (buckets > buckets_most)
            buckets_most = buckets;
        /* Pieces of a bucket are full but for its last. */
        cutting->pieces_room += rows > 0 ? buckets + rows / cut->piece_rows_max : 0;
    }
    cut->order = ps_plain(cut->memory, count * sizeof *cut->order);
    cut->pieces = ps_zeroed_array(cut->memory, cutting->pieces_room, sizeof *cut->pieces);
    cutting->starts = ps_plain(cut->memory, ((size_t)buckets_most + 2) * sizeof *cutting->starts);
    /* Most pushes are one bucket, and need no scratch. */
    if (buckets_most > 1)
        cutting->buckets = ps_plain(cut->memory, count * sizeof *cutting->buckets);
    return cut->order != NULL && cut->pieces != NULL && cutting->starts != NULL &&
           (buckets_most == 1 || cutting->buckets != NULL);
}

/* Where one piece is enough, the rows go as they came: nothing is hashed for them. */
static bool cut_shard(struct cutting *cutting, uint32_t shard)
{
    struct ps_row_cut *cut = cutting->cut;
    size_t first = cutting->dealt.starts[shard];
    size_t rows = cutting->dealt.starts[shard + 1] - first;
    const uint32_t *from = cutting->dealt.order + first;
    uint32_t buckets = bucket_count_of(rows, cut->piece_rows_max);
    PS_ASSERT(first + rows <= cut->gradients.count);
    if (rows == 0)
        return true;
    if (buckets == 1) {
        memcpy(cut->order + first, from, rows * sizeof *from);
        return cut_bucket(cutting, shard, first, rows);
    }
    ps_row_deal_buckets(cut->gradients.keys, from, rows, buckets, cutting->buckets, cutting->starts,
                        cut->order + first);
    for (uint32_t i = 0; i < buckets; i++) {
        size_t begin = cutting->starts[i];
        if (!cut_bucket(cutting, shard, first + begin, cutting->starts[i + 1] - begin))
            return false;
    }
    return true;
}

/* ---- Summing up ---- */

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
        /* The lower half of the hash whose upper half has made the buckets. */
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

/* Twice as many places as keys, so that a key is found after a step or two. Few buckets come here,
 * and the first of them is often the largest. */
static bool sum_up(struct cutting *cutting, size_t first, size_t count, size_t *unique)
{
    struct ps_row_cut *cut = cutting->cut;
    size_t size = 1;
    while (size < 2 * count)
        size *= 2;
    /* For all rows of the push, since more buckets may come. */
    if (cut->slots == NULL)
        cut->slots = ps_plain(cut->memory, cut->gradients.count * sizeof *cut->slots);
    if (size > cutting->table_room) {
        ps_release(cut->memory, cutting->table);
        cutting->table = ps_plain(cut->memory, size * sizeof *cutting->table);
        cutting->table_room = size;
    }
    if (cut->slots == NULL || cutting->table == NULL)
        return false;
    *unique = number_rows(cut->gradients.keys, cut->order + first, count, cut->slots + first,
                          cutting->table, size);
    return true;
}

/* What is summed here travels once, and what the server sums travels as often as it came; keys of a
 * batch are mostly different, so that only a bucket that is too large is worth it. */
static bool cut_bucket(struct cutting *cutting, uint32_t shard, size_t first, size_t count)
{
    struct ps_row_cut *cut = cutting->cut;
    size_t unique = count;
    if (count > cut->piece_rows_max && !sum_up(cutting, first, count, &unique))
        return false;
    /* All of the given rows go with the first of its pieces. */
    for (size_t given = count; unique > 0; given = 0) {
        size_t take = unique < cut->piece_rows_max ? unique : cut->piece_rows_max;
        PS_ASSERT(cut->piece_count < cutting->pieces_room);
        cut->pieces[cut->piece_count++] = (struct ps_row_piece){.shard = shard,
                                                                .first = cut->count,
                                                                .count = take,
                                                                .given_first = first,
                                                                .given = given};
        cut->count += take;
        unique -= take;
    }
    return true;
}

/* ---- Packing ---- */

/* Of the caller's rows, and of those in a piece: both are packed. */
static size_t row_bytes_of(const struct ps_row_cut *cut)
{
    return cut->gradients.width * ps_dtype_size(cut->gradients.dtype);
}

/* Each piece gets its part of one block: its keys, then its gradients. One block is one question to
 * the allocator, however many servers there are. */
static bool lay_out(struct ps_row_cut *cut)
{
    size_t each = sizeof(uint64_t) + row_bytes_of(cut);
    cut->content = ps_plain(cut->memory, cut->count * each);
    if (cut->content == NULL)
        return false;
    for (size_t i = 0; i < cut->piece_count; i++) {
        struct ps_row_piece *piece = &cut->pieces[i];
        piece->content = (struct ps_bytes){cut->content + piece->first * each, piece->count * each};
    }
    return true;
}

/* Where a row of the pieces of one bucket goes: pieces but the last are full. The content is the
 * cut's own, and only the messages may not change it. */
struct room {
    uint8_t *key;
    uint8_t *row;
};

static struct room room_of(const struct ps_row_cut *cut, const struct ps_row_piece *piece,
                           size_t place)
{
    uint8_t *start = cut->content + (piece->content.data - cut->content);
    PS_ASSERT(place < piece->count);
    return (struct room){start + place * sizeof(uint64_t),
                         start + piece->count * sizeof(uint64_t) + place * row_bytes_of(cut)};
}

/* Bytes, since a piece may begin where no number may lie. */
static void pack_rows(const struct ps_row_cut *cut, const struct ps_row_piece *piece)
{
    const uint8_t *rows = cut->gradients.rows;
    const uint32_t *order = cut->order + piece->given_first;
    const struct room room = room_of(cut, piece, 0);
    size_t size = row_bytes_of(cut);
    /* Keys first, as the message has them: two runs are written, and not a row here and there. */
    for (size_t i = 0; i < piece->count; i++)
        memcpy(room.key + i * sizeof(uint64_t), &cut->gradients.keys[order[i]], sizeof(uint64_t));
    for (size_t i = 0; i < piece->count; i++) {
        for (size_t at = 0; i + AHEAD < piece->count && at < size && at < ASKED_BYTES_MAX;
             at += LINE_BYTES)
            PS_PREFETCH(rows + order[i + AHEAD] * size + at);
        memcpy(room.row + i * size, rows + order[i] * size, size);
    }
}

/* The first gradient of a key is copied, the others are joined to it where it lies, in the order in
 * which they came. Places are given in that order too, so that a new one is the next. */
static void pack_sums(const struct ps_row_cut *cut, const struct ps_row_piece *pieces)
{
    const struct ps_row_gradients *gradients = &cut->gradients;
    const uint32_t *order = cut->order + pieces->given_first;
    const uint32_t *slots = cut->slots + pieces->given_first;
    const uint8_t *rows = gradients->rows;
    size_t size = row_bytes_of(cut);
    uint32_t begun = 0;
    for (size_t i = 0; i < pieces->given; i++) {
        const struct ps_row_piece *piece = &pieces[slots[i] / cut->piece_rows_max];
        const struct room room = room_of(cut, piece, slots[i] % cut->piece_rows_max);
        const uint8_t *from = rows + order[i] * size;
        PS_ASSERT(slots[i] <= begun);
        if (slots[i] < begun) {
            ps_row_repeat(gradients->repeats, gradients->dtype, gradients->width, room.row, from);
            continue;
        }
        begun++;
        memcpy(room.key, &gradients->keys[order[i]], sizeof(uint64_t));
        memcpy(room.row, from, size);
    }
}

/* The bytes of a push are made once: what is sent again is what was sent before. */
void ps_row_cut_pack(struct ps_row_cut *cut, size_t i)
{
    PS_ASSERT(i < cut->piece_count);
    const struct ps_row_piece *piece = &cut->pieces[i];
    /* A piece without rows of its own has been packed with one before it. */
    if (piece->given == piece->count)
        pack_rows(cut, piece);
    else if (piece->given > 0)
        pack_sums(cut, piece);
}
