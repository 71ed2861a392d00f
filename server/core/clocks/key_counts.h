/* SPDX-License-Identifier: Apache-2.0 */
/* How many readers have announced a key for a clock: a counter for each pair, found by a hash of
 * both. Pairs are known by their hash alone. Two pairs of one hash share a counter, so that a key
 * may seem announced that is not: a reader then waits for longer than needed, and never reads too
 * early. Pairs whose hashes somebody chose lie no nearer to each other than others.
 *
 * Threads:  belongs to whoever calls.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY, of reserve alone.
 * Memory:   12 bytes for a place; between two and four places for each pair that there was at the
 *           same time.
 */
#ifndef PS_SERVER_CORE_KEY_COUNTS_H
#define PS_SERVER_CORE_KEY_COUNTS_H

#include "base/alloc.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct ps_key_counts {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    uint64_t *hashes;                  /* of a place whose count is 0: no meaning */
    uint32_t *counts;                  /* 0: the place is free */
    size_t capacity;                   /* a power of two, or 0 */
    size_t used;                       /* places that are not free */
    uint64_t spread;                   /* ps_row_hash_spread, of this capacity's arrays */
};

void ps_key_counts_init(struct ps_key_counts *counts, const struct ps_allocator *memory);
void ps_key_counts_fini(struct ps_key_counts *counts);

/* A key of a clock in one number, spread over all 64 bits. */
uint64_t ps_key_counts_hash(uint64_t key, uint64_t clock);

/* Before an announcement is written down: whatever may fail comes first.
 * Room for so many further pairs: as many calls of add cannot fail then. */
PS_MUST_USE enum ps_status ps_key_counts_reserve(struct ps_key_counts *counts, size_t more,
                                                 struct ps_error *error);

/* One more; the pair need not be there yet. */
void ps_key_counts_add(struct ps_key_counts *counts, uint64_t hash);

/* One less, of a pair that was added. */
void ps_key_counts_take(struct ps_key_counts *counts, uint64_t hash);

bool ps_key_counts_has(const struct ps_key_counts *counts, uint64_t hash);

/* Asserts every invariant. */
void ps_key_counts_check(const struct ps_key_counts *counts);

#endif
