/* SPDX-License-Identifier: Apache-2.0 */
/* How many pushes of one client were applied to each parameter, over all of its sessions: what a
 * trainer that comes back asks, to know from which batch to go on. Kept for named clients alone,
 * those that chose their id (ps_client_is_named): a random id never comes back. Private to the
 * files of sessions.h.
 *
 * Threads:  with the lock of the sessions held, or alone.
 * Blocking: never.
 * Errors:   said at each function.
 * Memory:   of the room's allocator: 24 bytes for a place, PS_PUSH_COUNT_PLACES_MAX places in all.
 *           A client that finds no more is marked as partial, and goes on pushing.
 */
#ifndef PS_SERVER_CORE_PUSH_COUNTS_H
#define PS_SERVER_CORE_PUSH_COUNTS_H

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Of all clients of a shard: 24 MiB. */
#define PS_PUSH_COUNT_PLACES_MAX ((uint64_t)1 << 20)

/* Pushes of the client to one parameter. */
struct ps_push_count {
    uint64_t name; /* digest of the parameter's name; 0: a free place */
    uint64_t pushes;
    uint64_t version; /* after the last of them */
};

/* A hash table with open addressing; all zero: nothing was counted. */
struct ps_push_counts {
    struct ps_push_count *places;
    uint32_t place_count; /* 0, or a power of two */
    uint32_t used;
    bool is_partial; /* some pushes may have gone uncounted */
};

/* What the counts of all clients share. */
struct ps_push_count_room {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    uint64_t places;                   /* taken by all */
};

/* Has the client chosen its id? Those ids are "@NAME#SHARD", with a number behind the last mark. */
bool ps_client_is_named(struct ps_bytes client_id);

/* What stands for a name; never 0. */
uint64_t ps_push_count_key(struct ps_bytes name);

/* Makes sure that a push to this name can be counted, or marks the counts as partial.
 * PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_push_counts_reserve(struct ps_push_counts *counts, uint64_t name,
                                                  struct ps_push_count_room *room,
                                                  struct ps_error *error);

/* `pushes` more were applied, and the newest of them made this version. Of a name without a place
 * nothing is counted. */
void ps_push_counts_add(struct ps_push_counts *counts, uint64_t name, uint64_t pushes,
                        uint64_t version);

/* The parameter of that name has gone: what was counted of it is nobody's any more. No push to it
 * may be under way. */
void ps_push_counts_remove(struct ps_push_counts *counts, uint64_t name);

/* NULL: no push to this name was counted. */
const struct ps_push_count *ps_push_counts_find(const struct ps_push_counts *counts, uint64_t name);

/* Names to which pushes were counted. */
uint32_t ps_push_counts_known(const struct ps_push_counts *counts);

/* Gives the memory back. */
void ps_push_counts_release(struct ps_push_counts *counts, struct ps_push_count_room *room);

/* Asserts every invariant. */
void ps_push_counts_check(const struct ps_push_counts *counts);

#endif
