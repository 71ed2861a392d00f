/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing: a pair lies at the place of its hash or behind, with no free place between. A
 * pair that goes is not marked: those behind it move up, so that a table through which millions of
 * announcements have gone is as fast as a fresh one. */
#include "server/core/clocks/key_counts.h"

#include "base/assert.h"
#include "base/random.h"
#include "base/row_hash.h"

enum { CAPACITY_MIN = 64 };

static size_t home_of(const struct ps_key_counts *counts, uint64_t hash);
static size_t place_of(const struct ps_key_counts *counts, uint64_t hash);
static void put(struct ps_key_counts *counts, uint64_t hash, uint32_t count);
static void close_gap(struct ps_key_counts *counts, size_t gap);

/* Nothing is taken before the first announcement: most clocks have none. */
void ps_key_counts_init(struct ps_key_counts *counts, const struct ps_allocator *memory)
{
    PS_ASSERT(memory != NULL);
    *counts = (struct ps_key_counts){.memory = memory};
}

/* As one that was never used: the allocator stays. */
void ps_key_counts_fini(struct ps_key_counts *counts)
{
    ps_release(counts->memory, counts->hashes);
    ps_release(counts->memory, counts->counts);
    *counts = (struct ps_key_counts){.memory = counts->memory};
}

/* Twice through the generator, which is a mixer of 64 bits: neighbours of either kind come far
 * apart. */
uint64_t ps_key_counts_hash(uint64_t key, uint64_t clock)
{
    struct ps_random random;
    /* A seed is spread by its first number, whatever it is. */
    ps_random_init(&random, clock);
    ps_random_init(&random, ps_random_next(&random) ^ key);
    return ps_random_next(&random);
}

/* At most half of the places are used. The old arrays stay until both new ones are there. */
enum ps_status ps_key_counts_reserve(struct ps_key_counts *counts, size_t more,
                                     struct ps_error *error)
{
    struct ps_key_counts wider = {.memory = counts->memory, .capacity = counts->capacity};
    if (wider.capacity == 0)
        wider.capacity = CAPACITY_MIN;
    /* Doubled, so that a table that grows step by step moves each pair twice at most. */
    while (wider.capacity / 2 < counts->used + more)
        wider.capacity *= 2;
    if (wider.capacity == counts->capacity)
        return PS_OK;
    wider.hashes = ps_zeroed_array(wider.memory, wider.capacity, sizeof *wider.hashes);
    wider.counts = ps_zeroed_array(wider.memory, wider.capacity, sizeof *wider.counts);
    if (wider.hashes == NULL || wider.counts == NULL) {
        ps_key_counts_fini(&wider);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu announced keys", more);
    }
    wider.spread = ps_row_hash_spread(wider.hashes);
    for (size_t i = 0; i < counts->capacity; i++)
        if (counts->counts[i] > 0)
            put(&wider, counts->hashes[i], counts->counts[i]);
    PS_ASSERT(wider.used == counts->used);
    ps_key_counts_fini(counts);
    *counts = wider;
    return PS_OK;
}

/* Where a look for the pair begins: the upper bits of the product, as many as there are in a place.
 */
static size_t home_of(const struct ps_key_counts *counts, uint64_t hash)
{
    PS_ASSERT(counts->capacity >= CAPACITY_MIN);
    return (size_t)(hash * counts->spread >> (64 - __builtin_ctzll(counts->capacity)));
}

/* The place that has the pair, or else the free one where a look for the pair ends. */
static size_t place_of(const struct ps_key_counts *counts, uint64_t hash)
{
    /* Half of the places are free, so that the look ends, and after two or three places mostly. */
    size_t mask = counts->capacity - 1;
    size_t place = home_of(counts, hash);
    PS_ASSERT(counts->used < counts->capacity);
    while (counts->counts[place] > 0 && counts->hashes[place] != hash)
        place = (place + 1) & mask;
    return place;
}

/* Of a pair that is not there. */
static void put(struct ps_key_counts *counts, uint64_t hash, uint32_t count)
{
    /* With the count that it had, when a table is made anew. */
    size_t place = place_of(counts, hash);
    PS_ASSERT(counts->counts[place] == 0);
    counts->hashes[place] = hash;
    counts->counts[place] = count;
    counts->used++;
}

/* Readers of one key at one clock are at most as many as there are workers, each with the keys of
 * one message: far below what a counter holds. */
void ps_key_counts_add(struct ps_key_counts *counts, uint64_t hash)
{
    size_t place = place_of(counts, hash);
    PS_ASSERT(counts->counts[place] < UINT32_MAX);
    if (counts->counts[place] > 0)
        counts->counts[place]++;
    else
        put(counts, hash, 1);
}

/* The last one frees the place. */
void ps_key_counts_take(struct ps_key_counts *counts, uint64_t hash)
{
    size_t place = place_of(counts, hash);
    /* Whoever takes has added: a look at a free place would be a fault of this program. */
    PS_ASSERT(counts->counts[place] > 0);
    counts->counts[place]--;
    if (counts->counts[place] > 0)
        return;
    counts->used--;
    close_gap(counts, place);
}

/* A pair moves up when a look that begins at its own place would else end at the gap. */
static void close_gap(struct ps_key_counts *counts, size_t gap)
{
    /* Ends at the next free place, behind which no look goes that began before it. */
    size_t mask = counts->capacity - 1;
    PS_ASSERT(counts->counts[gap] == 0);
    for (size_t i = (gap + 1) & mask; counts->counts[i] > 0; i = (i + 1) & mask) {
        size_t home = home_of(counts, counts->hashes[i]);
        /* Distances are counted round the end of the arrays. */
        if (((i - home) & mask) < ((i - gap) & mask))
            continue;
        counts->hashes[gap] = counts->hashes[i];
        counts->counts[gap] = counts->counts[i];
        counts->counts[i] = 0;
        gap = i;
    }
}

/* Also of a table that never had a pair. */
bool ps_key_counts_has(const struct ps_key_counts *counts, uint64_t hash)
{
    return counts->used > 0 && counts->counts[place_of(counts, hash)] > 0;
}

/* Every pair is found where a look for it ends. */
void ps_key_counts_check(const struct ps_key_counts *counts)
{
    /* All places: of tests and simulations, which have few. */
    size_t used = 0;
    PS_ASSERT((counts->capacity & (counts->capacity - 1)) == 0);
    for (size_t i = 0; i < counts->capacity; i++) {
        if (counts->counts[i] == 0)
            continue;
        PS_ASSERT(place_of(counts, counts->hashes[i]) == i);
        used++;
    }
    PS_ASSERT(used == counts->used && used <= counts->capacity / 2);
}
