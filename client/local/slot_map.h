/* SPDX-License-Identifier: Apache-2.0 */
/* Which parts of a shared segment are in use: runs of units of one size, the lowest free run first,
 * so that few pages are touched and those stay in the cache.
 *
 * Threads:  one at a time.
 * Blocking: never.
 * Errors:   false when no run is long enough.
 * Memory:   in place.
 */
#ifndef PS_CLIENT_SLOT_MAP_H
#define PS_CLIENT_SLOT_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_SLOT_UNIT_BYTES ((size_t)64 * 1024)
#define PS_SLOT_UNITS_MAX 2048

struct ps_slot_map {
    uint32_t unit_count;
    uint32_t used_count;
    uint64_t used[PS_SLOT_UNITS_MAX / 64]; /* one bit per unit */
};

/* All free. */
void ps_slot_map_init(struct ps_slot_map *map, uint32_t unit_count);

/* Takes a run that holds `size` bytes (not 0); `*offset` is where it begins, in bytes. */
bool ps_slot_map_take(struct ps_slot_map *map, size_t size, size_t *offset);

/* Gives back what was taken with that size and offset. */
void ps_slot_map_release(struct ps_slot_map *map, size_t size, size_t offset);

#endif
