/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table that were read at clocks, for reads at clocks that are not much later: the rows
 * that were used longest ago go first.
 *
 *     uint64_t ticket = ps_row_cache_begin(cache);
 *     if (!ps_row_cache_find(cache, key, clock, row))
 *         ... ask the servers ...  ps_row_cache_keep(cache, ticket, key, clock, row);
 *
 * A row that was read at clock c serves reads up to clock c + staleness. What a client adds itself
 * it reads again, cached or not: a key that is added to leaves the cache, and what was asked of the
 * servers while an addition was on its way does not come in, since nobody can tell whether it has
 * the addition.
 *
 * Threads:  one at a time; the table's lock guards it.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY at creation; the rest cannot fail.
 * Memory:   all of it at creation.
 */
#ifndef PS_CLIENT_ROW_CACHE_H
#define PS_CLIENT_ROW_CACHE_H

#include "base/alloc.h"
#include "base/bounds.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows at most. */
#define PS_ROW_CACHE_ROWS_MAX ((uint64_t)1 << 30)

struct ps_row_cache;

PS_MUST_USE enum ps_status ps_row_cache_create(const struct ps_allocator *memory, uint64_t rows_max,
                                               size_t row_bytes, uint64_t staleness,
                                               struct ps_row_cache **cache, struct ps_error *error);

/* NULL is allowed. */
void ps_row_cache_destroy(struct ps_row_cache *cache);

/* Reads go on at this clock of this worker, by these clocks. A worker's clocks rise as long as they
 * are the same ones: where they are others, or stand lower, as in another task, they do not say how
 * old the rows are, and all rows go. So they do for a worker that was not heard of before and is
 * behind one that was. */
void ps_row_cache_at(struct ps_row_cache *cache, const char *clocks, uint32_t worker,
                     uint64_t clock);

/* Before the servers are asked for what is not here. */
uint64_t ps_row_cache_begin(const struct ps_row_cache *cache);

/* Copies the row of the key, if there is one that may be read at this clock. */
bool ps_row_cache_find(struct ps_row_cache *cache, uint64_t key, uint64_t clock, void *row);

/* Keeps a row that was read at this clock, unless something was added since the ticket, or reads
 * have gone on at lower clocks. */
void ps_row_cache_keep(struct ps_row_cache *cache, uint64_t ticket, uint64_t key, uint64_t clock,
                       const void *row);

/* Around an addition, whatever becomes of it: these keys are to be read anew. */
void ps_row_cache_add_begin(struct ps_row_cache *cache, const uint64_t *keys, size_t count);
void ps_row_cache_add_end(struct ps_row_cache *cache);

struct ps_row_cache_counts {
    uint64_t rows;
    uint64_t found, missed; /* ever */
};
struct ps_row_cache_counts ps_row_cache_counts(const struct ps_row_cache *cache);

/* Asserts every invariant. */
void ps_row_cache_check(const struct ps_row_cache *cache);

#endif
