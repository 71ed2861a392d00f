/* SPDX-License-Identifier: Apache-2.0 */
/* ps-lite's division has range i from kMaxKey / S * i on, and drops what is left over. Here range
 * i begins at the same key, so that a server has the same keys as there, and the last one goes on
 * to the end.
 *
 * Nothing is copied: a slice says where its keys and values begin in the caller's arrays. That
 * works because keys rise, and ranges are runs of keys. A slicer of the program's own may move the
 * borders between servers, by counts, and no more than that: to pick single keys out of a run
 * would need a copy of their values, both ways, and a program that wants that hashes its keys
 * before. */
#include "client/programs/key_slicer.h"

#include "base/assert.h"

#include <inttypes.h>

static size_t elements_of(const struct ps_key_list *list, size_t begin, size_t count);

/* Values and lengths are checked together, since a length that is wrong would shift the values of
 * all keys behind it. The sum is of 64 bits: 2^32 lengths of 32 bits do not overflow it. */
enum ps_status ps_key_list_check(const struct ps_key_list *list, struct ps_error *error)
{
    for (size_t i = 1; i < list->key_count; i++)
        if (list->keys[i] <= list->keys[i - 1])
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "keys must rise: key %zu is %" PRIu64 ", behind %" PRIu64, i,
                           list->keys[i], list->keys[i - 1]);
    if (list->key_count == 0)
        return list->value_count == 0 ? PS_OK
                                      : ps_fail(error, PS_ERR_BAD_INPUT, "%zu values without a key",
                                                list->value_count);
    if (list->lens == NULL)
        return list->value_count % list->key_count == 0
                   ? PS_OK
                   : ps_fail(error, PS_ERR_BAD_INPUT, "%zu values are not divided by %zu keys",
                             list->value_count, list->key_count);
    uint64_t sum = 0;
    for (size_t i = 0; i < list->key_count; i++)
        sum += list->lens[i];
    if (sum != list->value_count)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "the lengths make %" PRIu64 " values, and %zu are given", sum,
                       list->value_count);
    return PS_OK;
}

/* In 64 bits the quotient times the server never overflows, since the server is below the
 * divisor. */
uint64_t ps_key_range_begin(uint32_t server, uint32_t server_count)
{
    PS_ASSERT(server_count > 0);
    PS_ASSERT(server < server_count);
    return UINT64_MAX / server_count * server;
}

/* The first key of the list that is not below `key`. By halves: a list may have a million keys, and
 * few servers cut it. */
static size_t lower_bound(const struct ps_key_list *list, uint64_t key)
{
    size_t low = 0, high = list->key_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list->keys[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Slices are runs of the caller's own arrays, so that values of a server are sent from where they
 * lie. A server's range may be empty, and is then not asked at all. */
void ps_key_slice_evenly(const struct ps_key_list *list, uint32_t server_count,
                         struct ps_key_slice *slices)
{
    PS_ASSERT(server_count > 0);
    size_t begin = 0, value_begin = 0;
    for (uint32_t i = 0; i < server_count; i++) {
        size_t end = i + 1 < server_count
                         ? lower_bound(list, ps_key_range_begin(i + 1, server_count))
                         : list->key_count;
        size_t values = elements_of(list, begin, end - begin);
        slices[i] = (struct ps_key_slice){begin, end - begin, value_begin, values};
        begin = end;
        value_begin += values;
    }
    PS_ASSERT(begin == list->key_count);
    PS_ASSERT(value_begin == list->value_count);
}

/* Each step is bounded by what is left, so that no sum of counts can overflow. */
enum ps_status ps_key_slice_by_counts(const struct ps_key_list *list, const size_t *counts,
                                      uint32_t server_count, struct ps_key_slice *slices,
                                      struct ps_error *error)
{
    size_t begin = 0, value_begin = 0;
    for (uint32_t i = 0; i < server_count; i++) {
        if (counts[i] > list->key_count - begin)
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "the slicer gives server %" PRIu32 " more keys than there are", i);
        size_t values = elements_of(list, begin, counts[i]);
        slices[i] = (struct ps_key_slice){begin, counts[i], value_begin, values};
        begin += counts[i];
        value_begin += values;
    }
    if (begin != list->key_count)
        return ps_fail(error, PS_ERR_BAD_INPUT, "the slicer leaves %zu keys without a server",
                       list->key_count - begin);
    return PS_OK;
}

/* With equal lengths nothing is summed up. */
static size_t elements_of(const struct ps_key_list *list, size_t begin, size_t count)
{
    size_t sum = 0;
    if (count == 0)
        return 0;
    if (list->lens == NULL)
        return count * (list->value_count / list->key_count);
    for (size_t i = begin; i < begin + count; i++)
        sum += list->lens[i];
    return sum;
}
