/* SPDX-License-Identifier: Apache-2.0 */
/* Sorted keys with their values, and which of them go to which server: as ps-lite divides them, but
 * checked, and with an owner for every key up to 2^64 - 1.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT says which key.
 * Memory:   the caller's.
 */
#ifndef PS_CLIENT_KEY_SLICER_H
#define PS_CLIENT_KEY_SLICER_H

#include "base/status.h"

#include <stddef.h>

/* Keys with lengths: without `lens` all keys have value_count / key_count elements. */
struct ps_key_list {
    const uint64_t *keys;
    size_t key_count;
    const uint32_t *lens; /* NULL: equal lengths; else one for each key */
    size_t value_count;   /* elements of all keys */
};

/* A run of them, for one server. */
struct ps_key_slice {
    size_t key_begin, key_count;
    size_t value_begin, value_count; /* elements */
};

/* PS_ERR_BAD_INPUT: keys that are not rising, values that the keys do not divide, lengths whose sum
 * is not the number of values. */
PS_MUST_USE enum ps_status ps_key_list_check(const struct ps_key_list *list,
                                             struct ps_error *error);

/* The first key of a server: the 2^64 keys are divided evenly, and what is left over is the last
 * server's. */
uint64_t ps_key_range_begin(uint32_t server, uint32_t server_count);

/* Of a checked list. One slice for each server, in their order; those without a key are empty. */
void ps_key_slice_evenly(const struct ps_key_list *list, uint32_t server_count,
                         struct ps_key_slice *slices);

/* Slices that somebody else has made, by the number of keys of each server: filled in, if they are
 * the whole list. PS_ERR_BAD_INPUT: their sum is not that of the list. */
PS_MUST_USE enum ps_status ps_key_slice_by_counts(const struct ps_key_list *list,
                                                  const size_t *counts, uint32_t server_count,
                                                  struct ps_key_slice *slices,
                                                  struct ps_error *error);

#endif
