/* SPDX-License-Identifier: Apache-2.0 */
/* Whole or cut, and where: the arithmetic of placement. Nobody stores where a parameter lives: each
 * client works it out from name, size, number of shards and the job's placement, so all of them
 * must compute the same, and a change here would hide every parameter that servers have already. */
#include "client/engine/placement.h"

#include "base/assert.h"
#include "base/hash.h"

#include <stdio.h>
#include <string.h>

static bool looks_like_range(struct ps_bytes name);

/* A parameter with fewer elements than shards is cut into single elements. One element is never
 * cut. */
struct ps_placement ps_placement_of(size_t size, size_t element_size,
                                    const struct ps_layout *layout)
{
    uint32_t shard_count = layout->shard_count;
    PS_ASSERT(shard_count > 0 && shard_count <= PS_SHARDS_MAX);
    PS_ASSERT(element_size > 0 && size % element_size == 0);

    struct ps_placement placement = {.number = layout->placement,
                                     .shard_count = shard_count,
                                     .range_count = 1,
                                     .element_count = size / element_size,
                                     .element_size = element_size};
    if (size <= layout->split_bytes || placement.element_count < 2)
        return placement;
    placement.range_count = shard_count;
    if (placement.element_count < shard_count)
        placement.range_count = (uint32_t)placement.element_count;
    return placement;
}

/* A parameter that comes after the number was decided has its place by it as well. */
static uint32_t whole_shard(const struct ps_placement *placement, struct ps_bytes name)
{
    if (placement->number <= PS_PLACEMENT_CLASSIC)
        return ps_hash_shard(name, placement->shard_count);
    return ps_hash_placed_shard(ps_hash_fnv1a64(name), placement->number, placement->shard_count);
}

/* The first ranges take the elements that do not divide evenly, one each, so that ranges differ by
 * one element at most. */
struct ps_range ps_placement_range(const struct ps_placement *placement, struct ps_bytes name,
                                   uint32_t k)
{
    PS_ASSERT(k < placement->range_count);
    if (placement->range_count == 1)
        return (struct ps_range){.shard = whole_shard(placement, name),
                                 .offset = 0,
                                 .size =
                                     (size_t)placement->element_count * placement->element_size};

    uint64_t share = placement->element_count / placement->range_count;
    uint64_t longer = placement->element_count % placement->range_count;
    uint64_t first = k * share + (k < longer ? k : longer);
    uint64_t count = share + (k < longer ? 1 : 0);
    return (struct ps_range){.shard = k,
                             .offset = (size_t)first * placement->element_size,
                             .size = (size_t)count * placement->element_size};
}

/* The suffix says how many ranges there are: a client that cuts otherwise meets other names, and
 * never half of a parameter. */
size_t ps_placement_name(const struct ps_placement *placement, struct ps_bytes name, uint32_t k,
                         char text[PS_NAME_BYTES_MAX])
{
    PS_ASSERT(name.size <= PS_NAME_BYTES_MAX);
    memcpy(text, name.data, name.size);
    if (placement->range_count == 1)
        return name.size;

    /* The remainders change nothing: they show the compiler that the text fits. */
    char suffix[PS_RANGE_SUFFIX_BYTES_MAX + 1];
    int length = snprintf(suffix, sizeof suffix, "#%u/%u", k % PS_SHARDS_MAX,
                          placement->range_count % (PS_SHARDS_MAX + 1));
    PS_ASSERT(length > 0 && (size_t)length < sizeof suffix);
    PS_ASSERT(name.size + (size_t)length <= PS_NAME_BYTES_MAX);
    memcpy(text + name.size, suffix, (size_t)length);
    return name.size + (size_t)length;
}

/* Each condition has a message of its own, since the name is the caller's and nobody else can tell
 * what is wrong with it. */
enum ps_status ps_placement_check_name(struct ps_bytes name, bool cut, struct ps_error *error)
{
    /* The server's limit is for the name that it gets, suffix and all. */
    size_t size_max = PS_NAME_BYTES_MAX - (cut ? PS_RANGE_SUFFIX_BYTES_MAX : 0);
    if (name.size == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a parameter's name is empty");
    if (name.size > size_max)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a parameter's name has %zu bytes, at most %zu go",
                       name.size, size_max);
    if (memchr(name.data, 0, name.size) != NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a parameter's name holds a NUL");
    if (looks_like_range(name))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "parameter %.*s: names that end in #NUMBER/NUMBER are kept for ranges",
                       (int)name.size, (const char *)name.data);
    return PS_OK;
}

/* How many digits end at `end`. */
static size_t digits_before(struct ps_bytes name, size_t end)
{
    size_t count = 0;
    while (count < end && name.data[end - count - 1] >= '0' && name.data[end - count - 1] <= '9')
        count++;
    return count;
}

/* Read from the end: NUMBER, "/", NUMBER, "#". */
static bool looks_like_range(struct ps_bytes name)
{
    size_t end = name.size;
    size_t last = digits_before(name, end);
    if (last == 0 || last == end || name.data[end - last - 1] != '/')
        return false;
    end -= last + 1;
    size_t first = digits_before(name, end);
    return first > 0 && first < end && name.data[end - first - 1] == '#';
}
