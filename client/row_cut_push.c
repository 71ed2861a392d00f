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
#include "optimizer/hash_order.h"

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

/* Where one piece is enough, nothing is dealt. */
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
    ps_row_deal_buckets(cut->gradients.keys, cut->gradients.seed, from, rows, buckets,
                        cutting->buckets, cutting->starts, cut->order + first);
    for (uint32_t i = 0; i < buckets; i++) {
        size_t begin = cutting->starts[i];
        if (!cut_bucket(cutting, shard, first + begin, cutting->starts[i + 1] - begin))
            return false;
    }
    return true;
}

/* ---- The order of the rows ---- */

/* Scratch for so many rows: their hashes, what the sort needs, and two orders. Most pushes need it
 * once, for their largest piece, when nothing has been sent yet. */
static bool have_sorting(struct ps_row_cut *cut, size_t rows)
{
    if (rows <= cut->sorting_rows)
        return true;
    ps_release(cut->memory, cut->sorting);
    cut->sorting = ps_plain(cut->memory, rows * (3 * sizeof(uint64_t) + 2 * sizeof(uint32_t)));
    cut->sorting_rows = cut->sorting != NULL ? rows : 0;
    return cut->sorting != NULL;
}

/* By the hashes of their keys, and those of one key as they came. The hashes are made anew, though
 * dealing has made them: eight bytes a row that lie far away cost more than a hash. */
static void sort_rows(struct ps_row_cut *cut, size_t first, size_t count)
{
    PS_ASSERT(count <= cut->sorting_rows);
    uint32_t *order = cut->order + first;
    uint64_t *hashes = cut->sorting;
    uint64_t *scratch = hashes + count;
    uint32_t *places = (uint32_t *)(void *)(scratch + 2 * count);
    uint32_t *sorted = places + count;
    for (size_t i = 0; i < count; i++)
        hashes[i] = ps_row_hash(cut->gradients.keys[order[i]], cut->gradients.seed);
    ps_hash_order(hashes, (uint32_t)count, places, scratch);
    for (size_t i = 0; i < count; i++)
        sorted[i] = order[places[i]];
    memcpy(order, sorted, count * sizeof *order);
}

/* Of the rows as they go: the order says which of the caller's each is. */
static uint64_t key_at(const struct ps_row_cut *cut, size_t at)
{
    return cut->gradients.keys[cut->order[at]];
}

/* Where a piece ends: keys are counted, and not rows, since equal ones are one row of the message.
 * How many of the rows `from` to `end`, which are sorted, go in a piece of `most` different keys at
 * most; `*keys` is how many these have. */
static size_t take_keys(const struct ps_row_cut *cut, size_t from, size_t end, size_t most,
                        size_t *keys)
{
    size_t at = from;
    *keys = 0;
    for (; at < end; at++) {
        bool is_new = at == from || key_at(cut, at) != key_at(cut, at - 1);
        if (is_new && *keys == most)
            break;
        *keys += is_new ? 1 : 0;
    }
    return at - from;
}

/* What is summed here travels once, and what the server sums travels as often as it came; keys of a
 * batch are mostly different, so that only a bucket that is too large is worth it. */
static bool cut_bucket(struct cutting *cutting, uint32_t shard, size_t first, size_t count)
{
    struct ps_row_cut *cut = cutting->cut;
    bool is_sorted = count > cut->piece_rows_max;
    if (is_sorted) {
        if (!have_sorting(cut, count))
            return false;
        sort_rows(cut, first, count);
    }
    /* Each piece takes its own rows, so that it may be packed without those before it, and its keys
     * are all that a bucket may have at once. */
    for (size_t given, end = first + count; first < end; first += given) {
        size_t keys = given = end - first;
        if (is_sorted)
            given = take_keys(cut, first, end, cut->piece_rows_max, &keys);
        PS_ASSERT(cut->piece_count < cutting->pieces_room);
        cut->pieces[cut->piece_count++] = (struct ps_row_piece){.shard = shard,
                                                                .first = cut->count,
                                                                .count = keys,
                                                                .given_first = first,
                                                                .given = given,
                                                                .is_sorted = is_sorted};
        cut->count += keys;
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
    size_t unsorted = 0;
    cut->content = ps_plain(cut->memory, cut->count * each);
    if (cut->content == NULL)
        return false;
    for (size_t i = 0; i < cut->piece_count; i++) {
        struct ps_row_piece *piece = &cut->pieces[i];
        if (!piece->is_sorted && piece->given > unsorted)
            unsorted = piece->given;
        piece->content = (struct ps_bytes){cut->content + piece->first * each, piece->count * each};
    }
    return have_sorting(cut, unsorted);
}

/* Keys first, as the message has them: two runs are written, and not a row here and there. Bytes,
 * since a piece may begin where no number may lie. */
static void pack_rows(const struct ps_row_cut *cut, const struct ps_row_piece *piece, uint8_t *to)
{
    const uint8_t *rows = cut->gradients.rows;
    const uint32_t *order = cut->order + piece->given_first;
    size_t size = row_bytes_of(cut);
    for (size_t i = 0; i < piece->count; i++, to += sizeof(uint64_t))
        memcpy(to, &cut->gradients.keys[order[i]], sizeof(uint64_t));
    for (size_t i = 0; i < piece->count; i++, to += size) {
        for (size_t at = 0; i + AHEAD < piece->count && at < size && at < ASKED_BYTES_MAX;
             at += LINE_BYTES)
            PS_PREFETCH(rows + order[i + AHEAD] * size + at);
        memcpy(to, rows + order[i] * size, size);
    }
}

/* The first gradient of a key is copied, and the others are joined to it where it lies, in the
 * order in which they came. */
static void pack_sums(const struct ps_row_cut *cut, const struct ps_row_piece *piece, uint8_t *to)
{
    const struct ps_row_gradients *gradients = &cut->gradients;
    const uint8_t *rows = gradients->rows;
    size_t size = row_bytes_of(cut);
    size_t end = piece->given_first + piece->given;
    uint8_t *row = to + piece->count * sizeof(uint64_t);
    for (size_t at = piece->given_first; at < end; at++) {
        uint64_t key = key_at(cut, at);
        const uint8_t *from = rows + cut->order[at] * size;
        if (at > piece->given_first && key == key_at(cut, at - 1)) {
            ps_row_repeat(gradients->repeats, gradients->dtype, gradients->width, row - size, from);
            continue;
        }
        memcpy(to, &key, sizeof key);
        memcpy(row, from, size);
        to += sizeof key;
        row += size;
    }
}

/* The bytes of a push are made once: what is sent again is what was sent before. The content is the
 * cut's own, and only the messages may not change it. */
void ps_row_cut_pack(struct ps_row_cut *cut, size_t i)
{
    PS_ASSERT(i < cut->piece_count);
    struct ps_row_piece *piece = &cut->pieces[i];
    uint8_t *to = cut->content + (piece->content.data - cut->content);
    if (!piece->is_sorted)
        sort_rows(cut, piece->given_first, piece->given);
    piece->is_sorted = true;
    if (piece->given == piece->count)
        pack_rows(cut, piece, to);
    else
        pack_sums(cut, piece, to);
}
