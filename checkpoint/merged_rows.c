/* SPDX-License-Identifier: Apache-2.0 */
/* A bit for each row of the base, and sums of them at steps, so that the place of any survivor is
 * found by a search and some words. The keys that decide are only needed while the bits are set.
 *
 * Every key of the base is asked for, and few of them are in the set. So a bit for each hash stands
 * before the slots (B. H. Bloom, "Space/time trade-offs in hash coding with allowable errors",
 * 1970, with one hash): nine keys out of ten that are not there are told by memory that stays in a
 * processor's cache, without a look at the slots, which do not.
 *
 * A list of places would be found faster and take 64 times the memory, which of a table of a
 * thousand million rows nobody has; and rows are read from the first to the last, by runs, so that
 * a place is looked for once in a megabyte. */
#include "checkpoint/merged_rows.h"

#include "base/assert.h"
#include "base/row_hash.h"

#include <string.h>

#define WORD_BITS 64u

/* Bits of the marks for each slot: 8 to 16 for a key. */
#define SLOT_MARKS 4u

/* Words between two sums: a sum of 8 bytes for 64 bytes of bits. */
#define GROUP_WORDS 8u

/* Divided first: a sum of rows and something could wrap, if no memory could hold its bits. */
static uint64_t word_count(const struct ps_merged_rows *rows);
/* The last group may be shorter than the others. */
static uint64_t group_count(const struct ps_merged_rows *rows);
static uint64_t find_group(const struct ps_merged_rows *rows, uint64_t survivor);
static uint64_t hash_of(uint64_t key);
static uint64_t slot_of(const struct ps_key_set *set, uint64_t hash, uint64_t key);
static bool has(const struct ps_key_set *set, uint64_t key);

/* Half of the slots stay free, so that a search ends soon. */
enum ps_status ps_key_set_init(struct ps_key_set *set, uint64_t count,
                               const struct ps_allocator *memory, struct ps_error *error)
{
    uint64_t slots = 2;
    PS_ASSERT(set != NULL && memory != NULL);
    /* Keys stand in a file, so there are not so many that a product of theirs could wrap. */
    PS_ASSERT(count <= UINT64_MAX / 64);
    /* A power of two, so that a hash becomes a slot without a division. */
    while (slots < 2 * count)
        slots *= 2;
    *set = (struct ps_key_set){.memory = memory, .mask = slots - 1, .marks_shift = 64 - 6};
    /* One word at least. */
    while (UINT64_C(1) << (64 - set->marks_shift) < slots * SLOT_MARKS)
        set->marks_shift--;
    size_t words = (size_t)(UINT64_C(1) << (64 - set->marks_shift)) / WORD_BITS;
    set->slots = ps_zeroed_array(memory, (size_t)slots, sizeof *set->slots);
    set->marks = ps_zeroed_array(memory, words, sizeof *set->marks);
    if (set->slots != NULL && set->marks != NULL)
        return PS_OK;
    ps_key_set_fini(set);
    return ps_fail(error, PS_ERR_NO_MEMORY, "checkpoint: no memory for %zu changed keys",
                   (size_t)count);
}

void ps_key_set_fini(struct ps_key_set *set)
{
    if (set == NULL || set->memory == NULL)
        return;
    ps_release(set->memory, set->slots);
    ps_release(set->memory, set->marks);
    *set = (struct ps_key_set){0};
}

/* Zero is what a free slot holds, and any key may be zero: it stands beside the slots. */
void ps_key_set_add(struct ps_key_set *set, uint64_t key)
{
    if (key == 0) {
        set->has_zero = true;
        return;
    }
    uint64_t hash = hash_of(key);
    uint64_t mark = hash >> set->marks_shift;
    set->marks[mark / WORD_BITS] |= UINT64_C(1) << mark % WORD_BITS;
    set->slots[slot_of(set, hash, key)] = key;
}

bool ps_key_set_has(const struct ps_key_set *set, uint64_t key)
{
    PS_ASSERT(set->slots != NULL);
    return has(set, key);
}

/* Asked once for each row of the base, so that it must not take more than a look or two. */
static bool has(const struct ps_key_set *set, uint64_t key)
{
    if (key == 0)
        return set->has_zero;
    uint64_t hash = hash_of(key);
    uint64_t mark = hash >> set->marks_shift;
    if ((set->marks[mark / WORD_BITS] >> mark % WORD_BITS & 1) == 0)
        return false;
    return set->slots[slot_of(set, hash, key)] == key;
}

/* The seed is any but the one that deals rows to shards: keys of one shard share bits of that
 * hash. */
static uint64_t hash_of(uint64_t key)
{
    return ps_row_hash(key, 1);
}

/* The slot that has the key, or the free one that it would get. Marks take the high bits of the
 * hash, slots the low ones. */
static uint64_t slot_of(const struct ps_key_set *set, uint64_t hash, uint64_t key)
{
    uint64_t slot = hash & set->mask;
    /* To the next slot, and from the last to the first. */
    for (uint64_t tried = 0; set->slots[slot] != 0 && set->slots[slot] != key; tried++) {
        /* Of as many keys as were announced, half of the slots are free. */
        PS_ASSERT(tried <= set->mask);
        slot = (slot + 1) & set->mask;
    }
    return slot;
}

/* A bit for each row is the least that says which rows went, and nothing larger is taken in
 * proportion to the base: the sums come to an eighth of it. */
enum ps_status ps_merged_rows_init(struct ps_merged_rows *rows, uint64_t base_rows,
                                   const struct ps_allocator *memory, struct ps_error *error)
{
    PS_ASSERT(rows != NULL && memory != NULL);
    *rows = (struct ps_merged_rows){.memory = memory, .base_rows = base_rows};
    size_t words = (size_t)word_count(rows);
    rows->bits = ps_zeroed_array(memory, words, sizeof *rows->bits);
    rows->ranks = ps_zeroed_array(memory, (size_t)group_count(rows), sizeof *rows->ranks);
    if (rows->bits == NULL || rows->ranks == NULL) {
        ps_merged_rows_fini(rows);
        return ps_fail(error, PS_ERR_NO_MEMORY, "checkpoint: no memory for a bit for each row");
    }
    /* Most rows survive, so it is told which do not. */
    if (words > 0)
        memset(rows->bits, 0xff, words * sizeof *rows->bits);
    /* Behind the last row there is none that could survive. */
    if (base_rows % WORD_BITS != 0)
        rows->bits[words - 1] = (UINT64_C(1) << base_rows % WORD_BITS) - 1;
    return PS_OK;
}

void ps_merged_rows_fini(struct ps_merged_rows *rows)
{
    if (rows == NULL || rows->memory == NULL)
        return;
    ps_release(rows->memory, rows->bits);
    ps_release(rows->memory, rows->ranks);
    *rows = (struct ps_merged_rows){0};
}

/* A key that stands in the base twice, which is damage that others find, is dropped twice. */
void ps_merged_rows_drop(struct ps_merged_rows *rows, uint64_t row)
{
    PS_ASSERT(row < rows->base_rows);
    rows->bits[row / WORD_BITS] &= ~(UINT64_C(1) << row % WORD_BITS);
}

/* Here and not at the caller's, so that a question is some instructions and no call: there are as
 * many as the base has rows. */
void ps_merged_rows_drop_keys(struct ps_merged_rows *rows, uint64_t first, const uint64_t *keys,
                              size_t count, const struct ps_key_set *changed)
{
    PS_ASSERT(first <= rows->base_rows && count <= rows->base_rows - first);
    for (size_t i = 0; i < count; i++)
        if (has(changed, keys[i]))
            ps_merged_rows_drop(rows, first + i);
}

/* One walk over all words, after which nothing changes any more and any thread may ask. */
void ps_merged_rows_seal(struct ps_merged_rows *rows)
{
    uint64_t words = word_count(rows);
    rows->survivors = 0;
    for (uint64_t word = 0; word < words; word++) {
        if (word % GROUP_WORDS == 0)
            rows->ranks[word / GROUP_WORDS] = rows->survivors;
        rows->survivors += (uint64_t)__builtin_popcountll(rows->bits[word]);
    }
    /* No bit behind the last row was ever set. */
    PS_ASSERT(rows->survivors <= rows->base_rows);
}

/* The group by its sum, the word within it by counting, the bit by taking away those before. */
uint64_t ps_merged_rows_place(const struct ps_merged_rows *rows, uint64_t survivor)
{
    PS_ASSERT(survivor < rows->survivors);
    uint64_t group = find_group(rows, survivor);
    uint64_t left = survivor - rows->ranks[group];
    uint64_t word = group * GROUP_WORDS;
    /* At most GROUP_WORDS turns: the next group has more survivors before it. */
    for (;; word++) {
        uint64_t here = (uint64_t)__builtin_popcountll(rows->bits[word]);
        if (left < here)
            break;
        left -= here;
    }
    /* Each turn takes the lowest one away. */
    uint64_t bits = rows->bits[word];
    for (; left > 0; left--)
        bits &= bits - 1;
    return word * WORD_BITS + (uint64_t)__builtin_ctzll(bits);
}

/* The last group with no more survivors before it. */
static uint64_t find_group(const struct ps_merged_rows *rows, uint64_t survivor)
{
    uint64_t low = 0;
    uint64_t high = group_count(rows);
    /* The first group has none before it, so the one that is looked for is never left of `low`. */
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (rows->ranks[middle] <= survivor)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* For who goes row by row where runs are short: at the ends of what he reads. */
bool ps_merged_rows_has(const struct ps_merged_rows *rows, uint64_t row)
{
    PS_ASSERT(row < rows->base_rows);
    return (rows->bits[row / WORD_BITS] >> row % WORD_BITS & 1) != 0;
}

/* By words, turned over where the run is one of rows that went, so that both are runs of ones. */
uint64_t ps_merged_rows_run(const struct ps_merged_rows *rows, uint64_t row, uint64_t end,
                            bool *survives)
{
    PS_ASSERT(row < end && end <= rows->base_rows);
    *survives = ps_merged_rows_has(rows, row);
    uint64_t turn = *survives ? 0 : UINT64_MAX;
    uint64_t at = row;
    while (at < end) {
        /* Ones where the run has ended. */
        uint64_t others = ~(rows->bits[at / WORD_BITS] ^ turn) >> at % WORD_BITS;
        if (others != 0) {
            at += (uint64_t)__builtin_ctzll(others);
            break;
        }
        /* The run goes on through the rest of this word. */
        at += WORD_BITS - at % WORD_BITS;
    }
    /* The last word may have shown rows behind the end. */
    return (at < end ? at : end) - row;
}

static uint64_t word_count(const struct ps_merged_rows *rows)
{
    return rows->base_rows / WORD_BITS + (rows->base_rows % WORD_BITS != 0);
}

static uint64_t group_count(const struct ps_merged_rows *rows)
{
    uint64_t words = word_count(rows);
    return words / GROUP_WORDS + (words % GROUP_WORDS != 0);
}
