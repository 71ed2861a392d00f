/* SPDX-License-Identifier: Apache-2.0 */
/* The last so many numbers, to tell a repeat from a first: when one more comes, the oldest is
 * forgotten.
 *
 * Threads:  one at a time; the rendezvous has the lock.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY.
 * Memory:   24 bytes for each number that there may be, all of it from the first on.
 */
#ifndef PS_SERVER_CORE_RECENT_IDS_H
#define PS_SERVER_CORE_RECENT_IDS_H

#include "base/alloc.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct ps_recent_ids {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    uint64_t *ring;                    /* owned; in the order of their coming. NULL: none came */
    uint64_t *slots;                   /* owned; the same by their hash; 0 is free */
    uint32_t capacity;
    uint32_t slot_count; /* a power of two, at least twice the capacity */
    uint32_t count;
    uint32_t next; /* in the ring */
};

/* `memory` is borrowed. Nothing is taken of it before the first number. `capacity` is not 0, and at
 * most 2^24. */
void ps_recent_ids_init(struct ps_recent_ids *ids, const struct ps_allocator *memory,
                        uint32_t capacity);
void ps_recent_ids_fini(struct ps_recent_ids *ids);

/* Has this number come, and is not forgotten? Number 0 never has. */
bool ps_recent_ids_has(const struct ps_recent_ids *ids, uint64_t id);

/* Room for ps_recent_ids_add, which then cannot fail. */
PS_MUST_USE enum ps_status ps_recent_ids_reserve(struct ps_recent_ids *ids, struct ps_error *error);

/* Behind reserve. A number that is there already, and 0, change nothing. */
void ps_recent_ids_add(struct ps_recent_ids *ids, uint64_t id);

/* Asserts every invariant. */
void ps_recent_ids_check(const struct ps_recent_ids *ids);

#endif
