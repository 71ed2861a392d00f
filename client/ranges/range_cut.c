/* SPDX-License-Identifier: Apache-2.0 */
/* Where each range's bytes are: in one run, or in one run of each half. */
#include "client/ranges/range_cut.h"

#include "base/assert.h"
#include "optimizer/encoded.h"

#include <string.h>

static uint64_t end_of_pairs(const struct ps_range_cut *cut, size_t count);

/* A group of int8 has one scale: a range that began within a group would have none. */
static uint64_t whole_groups(enum ps_encoding encoding, uint64_t count)
{
    if (encoding == PS_ENCODING_INT8)
        count -= count % PS_ENCODING_GROUP;
    uint64_t least = encoding == PS_ENCODING_INT8 ? PS_ENCODING_GROUP : 1;
    return count > least ? count : least;
}

/* By the bytes on the network: a range of a smaller encoding has more elements. */
uint64_t ps_range_cut_part(enum ps_encoding encoding, enum ps_dtype dtype, size_t bytes)
{
    return whole_groups(encoding, bytes / ps_encoding_width(encoding, dtype));
}

/* Ranges that were cut already keep their length, so this comes first. */
void ps_range_cut_narrow(struct ps_range_cut *cut, uint64_t part)
{
    PS_ASSERT(cut->next == 0);
    if (part < cut->part)
        cut->part = whole_groups(cut->encoding, part);
}

/* The content is not changed by cutting, so the same ranges come out once more. */
void ps_range_cut_rewind(struct ps_range_cut *cut)
{
    cut->next = 0;
    cut->pairs = 0;
}

/* Pairs are cut by their number, whatever elements they name: a range ends before the element of
 * the next pair. Their indices lie first, their values behind all indices. */
static uint64_t next_pairs(struct ps_range_cut *cut, struct ps_bytes pieces[PS_RANGE_PIECES_MAX])
{
    size_t left = cut->content.size / PS_ENCODING_PAIR_BYTES - cut->pairs;
    size_t count = left < cut->part ? left : (size_t)cut->part;
    size_t size = count * (PS_ENCODING_PAIR_BYTES / 2);
    /* Neighbouring ranges touch, so that together they cover the parameter: also elements that no
     * pair names belong to a range. */
    uint64_t elements = end_of_pairs(cut, count) - cut->next;
    pieces[0] =
        (struct ps_bytes){cut->content.data + cut->pairs * (PS_ENCODING_PAIR_BYTES / 2), size};
    pieces[1] = (struct ps_bytes){pieces[0].data + cut->content.size / 2, size};
    cut->pairs += count;
    return elements;
}

/* Scales lie first, one for each group, and quanta behind all scales. */
static void next_groups(const struct ps_range_cut *cut, struct ps_elements range,
                        struct ps_bytes pieces[PS_RANGE_PIECES_MAX])
{
    const uint8_t *bytes = cut->content.data;
    size_t scales = (size_t)ps_encoding_groups(cut->total) * sizeof(float);
    pieces[0] = (struct ps_bytes){bytes + range.first / PS_ENCODING_GROUP * sizeof(float),
                                  (size_t)ps_encoding_groups(range.count) * sizeof(float)};
    pieces[1] = (struct ps_bytes){bytes + scales + range.first, (size_t)range.count};
}

/* The pieces are the caller's: a range's content must lie still while it is sent, and several
 * ranges are sent at a time. */
struct ps_elements ps_range_cut_next(struct ps_range_cut *cut,
                                     struct ps_bytes pieces[PS_RANGE_PIECES_MAX],
                                     struct ps_view *content)
{
    uint64_t left = cut->total - cut->next;
    struct ps_elements range = {cut->next, left < cut->part ? left : cut->part};
    size_t piece_count = PS_RANGE_PIECES_MAX;
    /* A range without elements would be taken for a call on the whole parameter. */
    PS_ASSERT(left > 0);
    if (cut->encoding == PS_ENCODING_TOP_K) {
        range.count = next_pairs(cut, pieces);
    } else if (cut->encoding == PS_ENCODING_INT8) {
        next_groups(cut, range, pieces);
    } else {
        size_t width = ps_encoding_width(cut->encoding, cut->dtype);
        pieces[0] =
            (struct ps_bytes){cut->content.data + range.first * width, (size_t)range.count * width};
        piece_count = 1;
    }
    cut->next += range.count;
    *content = (struct ps_view){pieces, piece_count, 0};
    for (size_t i = 0; i < piece_count; i++)
        content->size += pieces[i].size;
    return range;
}

/* Where a range with the next `count` pairs ends: before the pair behind them. */
static uint64_t end_of_pairs(const struct ps_range_cut *cut, size_t count)
{
    uint32_t index;
    size_t behind = cut->pairs + count;
    if (behind == cut->content.size / PS_ENCODING_PAIR_BYTES)
        return cut->total;
    /* Copied, since an index need not lie at an aligned address. */
    memcpy(&index, cut->content.data + behind * sizeof index, sizeof index);
    return index;
}
