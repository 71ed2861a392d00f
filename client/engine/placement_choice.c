/* SPDX-License-Identifier: Apache-2.0 */
/* Tries one number after another and keeps the best. A number is a seed of the rule, so that what
 * is decided takes eight bytes however many parameters there are, and a parameter that comes later
 * has its place, too. Trying thousands is cheap: names are hashed once, and the largest parameters
 * come first, so that most numbers are given up after a few of them. */
#include "client/engine/placement_choice.h"

#include "base/assert.h"
#include "base/bounds.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

/* Most numbers that are tried, and most parameters that are placed for that, all numbers together:
 * a tenth of a second. Of many parameters few numbers are tried, and nearly all are good. */
#define NUMBERS_MAX (UINT64_C(1) << 20)
#define SUMS_MAX (UINT64_C(16) << 20)

struct weight {
    uint64_t size, hash;
};

/* How even a number is: the fullest shard decides, then the squares of all. */
struct evenness {
    uint64_t fullest;
    double squares;
};

/* By the hash where sizes are equal: the order of the caller does not count. */
static int compare(const void *left, const void *right)
{
    /* Falling sizes: qsort's order is that of the first to be placed. */
    const struct weight *a = left, *b = right;
    if (a->size != b->size)
        return a->size > b->size ? -1 : 1;
    return (a->hash > b->hash) - (a->hash < b->hash);
}

/* The squares decide between numbers that leave the same shard the fullest, one with a parameter
 * larger than all others for example: then the rest is spread. */
static struct evenness judge(const uint64_t *loads, uint32_t shard_count)
{
    struct evenness evenness = {0};
    for (uint32_t i = 0; i < shard_count; i++) {
        evenness.fullest = loads[i] > evenness.fullest ? loads[i] : evenness.fullest;
        evenness.squares += (double)loads[i] * (double)loads[i];
    }
    return evenness;
}

/* By whichever rule the number stands for, so that two can be compared. */
void ps_placement_loads(const struct ps_placed *parameters, size_t count, uint64_t placement,
                        uint32_t shard_count, uint64_t *loads)
{
    memset(loads, 0, shard_count * sizeof *loads);
    for (size_t i = 0; i < count; i++) {
        struct ps_bytes name = parameters[i].name;
        uint32_t shard = placement <= PS_PLACEMENT_CLASSIC
                             ? ps_hash_shard(name, shard_count)
                             : ps_hash_placed_shard(ps_hash_fnv1a64(name), placement, shard_count);
        loads[shard] += parameters[i].size;
    }
}

/* Ends as soon as one shard has more than `fullest_max`. How many were placed: `count` when none
 * has. */
static size_t add_up(const struct weight *weights, size_t count, uint64_t placement,
                     uint32_t shard_count, uint64_t fullest_max, uint64_t *loads)
{
    memset(loads, 0, shard_count * sizeof *loads);
    for (size_t i = 0; i < count; i++) {
        uint64_t *load = &loads[ps_hash_placed_shard(weights[i].hash, placement, shard_count)];
        *load += weights[i].size;
        if (*load > fullest_max)
            return i;
    }
    return count;
}

/* The lowest of several that are equally even. Counted in parameters and not in time: every client
 * finds the same. */
static uint64_t find_best(const struct weight *weights, size_t count, uint32_t shard_count,
                          uint64_t *loads, struct evenness *best)
{
    uint64_t found = PS_PLACEMENT_CLASSIC;
    uint64_t sums = 0;
    *best = (struct evenness){.fullest = UINT64_MAX};
    for (uint64_t number = PS_PLACEMENT_CLASSIC + 1; number <= NUMBERS_MAX && sums < SUMS_MAX;
         number++) {
        size_t placed = add_up(weights, count, number, shard_count, best->fullest, loads);
        sums += placed + shard_count;
        if (placed < count)
            continue;
        /* No shard is fuller than in the best so far; equally full ones are compared as a whole. */
        const struct evenness evenness = judge(loads, shard_count);
        if (evenness.fullest == best->fullest && evenness.squares >= best->squares)
            continue;
        *best = evenness;
        found = number;
    }
    PS_ASSERT(best->fullest != UINT64_MAX);
    return found;
}

/* The classic rule is kept where it does nearly as well: older clients know no other. */
enum ps_status ps_placement_choose(const struct ps_placed *parameters, size_t count,
                                   uint32_t shard_count, const struct ps_allocator *memory,
                                   uint64_t *placement, struct ps_error *error)
{
    PS_ASSERT(shard_count > 0 && shard_count <= PS_SHARDS_MAX);
    *placement = PS_PLACEMENT_CLASSIC;
    if (count < 2 || shard_count == 1)
        return PS_OK;
    struct weight *weights = ps_plain(memory, count * sizeof *weights);
    uint64_t *loads = ps_zeroed_array(memory, shard_count, sizeof *loads);
    enum ps_status status = PS_OK;
    if (weights == NULL || loads == NULL) {
        status = ps_fail(error, PS_ERR_NO_MEMORY, "no memory to place %zu parameters", count);
        goto out;
    }
    for (size_t i = 0; i < count; i++)
        weights[i] = (struct weight){parameters[i].size, ps_hash_fnv1a64(parameters[i].name)};
    /* The largest first: a number that puts two of them together is given up at once. */
    qsort(weights, count, sizeof *weights, compare);
    struct evenness best;
    uint64_t found = find_best(weights, count, shard_count, loads, &best);
    ps_placement_loads(parameters, count, PS_PLACEMENT_CLASSIC, shard_count, loads);
    uint64_t classic = judge(loads, shard_count).fullest;
    if (best.fullest < classic - classic / 10)
        *placement = found;
out:
    ps_release(memory, loads);
    ps_release(memory, weights);
    return status;
}
