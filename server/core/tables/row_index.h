/* SPDX-License-Identifier: Apache-2.0 */
/* From the hash of a key to the rows that may have it: lines of 64 bytes, each with 15 tags of one
 * byte and 15 numbers of rows, of three bytes, and a count of the rows that went past it because it
 * was full.
 *
 * The keys are not in here; they lie in their rows, which are read anyway. So the index takes about
 * 5.6 bytes for a row. A look-up begins at the home line of the hash and ends at the first line
 * that nobody went past, or when it has seen all; taking a row out counts those back, so that
 * nothing has to be cleaned up.
 *
 * Of a hash bits 40 to 47 are the tag. The home is the upper half of its product with a number that
 * each index has of its own (ps_row_hash_spread): keys that somebody chose to have one home are
 * spread over all lines. Where a row lies in the index says nothing to anybody else.
 *
 * Threads:  as the owner says (row_stripes.h).
 * Blocking: never.
 * Errors:   ps_row_index_create says false when memory is refused.
 * Memory:   the lines belong to the index.
 */
#ifndef PS_SERVER_CORE_ROW_INDEX_H
#define PS_SERVER_CORE_ROW_INDEX_H

#include "base/alloc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define PS_ROW_LINE_ROWS 15
#define PS_ROW_NONE UINT32_MAX

/* Numbers of rows are below this, and there are at most so many rows: those of one stripe. A fourth
 * byte of each would be a fifth of the index. */
#define PS_ROW_NUMBERS ((uint32_t)1 << 24)
#define PS_ROW_NUMBER_BYTES 3

struct ps_row_line {
    uint8_t tags[PS_ROW_LINE_ROWS]; /* 0: free */
    uint8_t numbers[PS_ROW_LINE_ROWS * PS_ROW_NUMBER_BYTES];
    uint32_t past;
};
_Static_assert(sizeof(struct ps_row_line) == 64, "one line of the cache");

struct ps_row_index {
    struct ps_row_line *lines; /* NULL: there is no row yet */
    void *allocated;
    uint32_t line_count;
    uint32_t rows_max; /* it is full with so many */
    uint64_t spread;   /* ps_row_hash_spread */
};

/* An empty index for `rows` rows at least, PS_ROW_NUMBERS at most, in `*index`, which is written on
 * success alone. */
bool ps_row_index_create(struct ps_row_index *index, const struct ps_allocator *memory,
                         uint64_t rows);
void ps_row_index_destroy(struct ps_row_index *index, const struct ps_allocator *memory);

/* What ps_row_index_create would take for so many rows. */
uint64_t ps_row_index_bytes(uint64_t rows);

/* `row` with this hash is not in it, and it is not full. */
void ps_row_index_insert(struct ps_row_index *index, uint64_t hash, uint32_t row);

/* `row` with this hash is in it. */
void ps_row_index_remove(struct ps_row_index *index, uint64_t hash, uint32_t row);

static inline uint8_t ps_row_tag(uint64_t hash)
{
    uint8_t tag = (uint8_t)(hash >> 40);
    return tag != 0 ? tag : 1;
}

static inline uint32_t ps_row_home(const struct ps_row_index *index, uint64_t hash)
{
    return (uint32_t)((((hash * index->spread) >> 32) * index->line_count) >> 32);
}

static inline uint32_t ps_row_line_after(const struct ps_row_index *index, uint32_t line)
{
    return line + 1 == index->line_count ? 0 : line + 1;
}

/* The high bit of each byte of `word` that is 0, and no other bit. */
static inline uint64_t ps_row_zero_bytes(uint64_t word)
{
    uint64_t low = word & 0x7F7F7F7F7F7F7F7Fu;
    return ~((low + 0x7F7F7F7F7F7F7F7Fu) | word | 0x7F7F7F7F7F7F7F7Fu);
}

/* The row at a place. With the byte before it, which is a tag's or another number's, it is a word,
 * which is read in one go. */
static inline uint32_t ps_row_line_number(const struct ps_row_line *line, uint32_t place)
{
    uint32_t word;
    memcpy(&word, (const uint8_t *)line + PS_ROW_LINE_ROWS - 1 + place * PS_ROW_NUMBER_BYTES,
           sizeof word);
    return word >> 8;
}

static inline void ps_row_line_set_number(struct ps_row_line *line, uint32_t place, uint32_t row)
{
    memcpy(line->numbers + place * PS_ROW_NUMBER_BYTES, &row, PS_ROW_NUMBER_BYTES);
}

/* Which places of the line have this tag: bit i for place i. Fifteen bytes are compared in two
 * words, the second from place 7 on, which is in both. */
static inline uint32_t ps_row_line_match_words(const struct ps_row_line *line, uint8_t tag)
{
    uint64_t wanted = tag * 0x0101010101010101u;
    uint64_t first;
    uint64_t last;
    memcpy(&first, line->tags, sizeof first);
    memcpy(&last, line->tags + 7, sizeof last);
    /* One bit of each byte, gathered in the highest byte by a product whose parts never meet. */
    uint64_t gather = 0x0002040810204081u;
    uint32_t low = (uint32_t)(((ps_row_zero_bytes(first ^ wanted) >> 7) * gather) >> 49) & 0xFF;
    uint32_t high = (uint32_t)(((ps_row_zero_bytes(last ^ wanted) >> 7) * gather) >> 49) & 0xFF;
    return low | high << 7;
}

/* The same in four instructions, where there are some for 16 bytes at once: a look-up takes a tenth
 * less. The byte behind the tags is compared as well, and left out. */
static inline uint32_t ps_row_line_match(const struct ps_row_line *line, uint8_t tag)
{
#ifdef __SSE2__
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)line);
    __m128i equal = _mm_cmpeq_epi8(bytes, _mm_set1_epi8((char)tag));
    return (uint32_t)_mm_movemask_epi8(equal) & ((1u << PS_ROW_LINE_ROWS) - 1);
#else
    return ps_row_line_match_words(line, tag);
#endif
}

#endif
