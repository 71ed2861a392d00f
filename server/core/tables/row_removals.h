/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows of a table went, for two kinds of readers. A row that goes leaves no trace in the
 * table; a checkpoint that has only what changed since another one must name it, and so must a
 * server that tells a follower what has changed.
 *
 * The list is of keys, in the order in which they went, at 8 bytes a removal. Nothing is noted
 * before somebody asks for it.
 *
 * - A mark is an instant of a checkpoint: from the oldest one on everything is kept. The marks are
 *   lost when that becomes more than a quarter of the table, or memory is refused: then as much has
 *   changed that everything may be saved as well.
 * - Of a table that is followed the last PS_ROW_FOLLOWED_MAX keys are kept. A follower has a
 *   number, which says how far it has been told; one whose number is further back needs the table
 *   anew.
 *
 * Threads:  all functions from any thread; of a table one thread at a time removes rows. Add under
 *           the lock of the row's stripe: a follower who looks at the stripe afterwards has either
 *           seen the row go or is told behind its next number.
 * Blocking: for a lock of PS_RANK_LEAF, held for microseconds, or for a copy of the keys that are
 *           kept for followers.
 * Errors:   as said at each function.
 * Memory:   the list lives until the table and all marks have let go of it. A mark belongs to who
 *           made it, and may outlive the table.
 */
#ifndef PS_SERVER_CORE_ROW_REMOVALS_H
#define PS_SERVER_CORE_ROW_REMOVALS_H

#include "base/alloc.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Smaller in tests. */
#ifndef PS_ROW_FOLLOWED_MAX
#define PS_ROW_FOLLOWED_MAX 65536
#endif

struct ps_row_removals;
struct ps_row_mark;

/* Returns a list without keys or marks, with one reference; NULL when memory is refused. `memory`
 * is borrowed and outlives the list. */
struct ps_row_removals *ps_row_removals_create(const struct ps_allocator *memory);
void ps_row_removals_release(struct ps_row_removals *removals);

/* The row with this key goes from a table that has `rows` of them. Without a mark or a follower it
 * does nothing. */
void ps_row_removals_add(struct ps_row_removals *removals, uint64_t key, uint64_t rows);

/* What the list takes. */
uint64_t ps_row_removals_bytes(struct ps_row_removals *removals);

/* Returns a mark: what goes from now on goes behind it. End it with ps_row_mark_destroy. NULL when
 * memory is refused. */
struct ps_row_mark *ps_row_mark_create(struct ps_row_removals *removals);

/* Takes `mark`; NULL is allowed. Keys that no other mark needs are forgotten. */
void ps_row_mark_destroy(struct ps_row_mark *mark);

/* The keys that went behind `from` and before `to`, each once and in rising order. On PS_OK
 * `*keys` is for ps_release, NULL when there are none.
 *
 * PS_ERR_NOT_FOUND   they are not known: the list was given up, or the marks are of two tables
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_row_marks_between(const struct ps_row_mark *from,
                                                const struct ps_row_mark *to, uint64_t **keys,
                                                size_t *count);

/* ---- Followers ---- */

/* From now on keys are noted for followers, too. */
void ps_row_removals_follow(struct ps_row_removals *removals);

/* The number of who has been told everything: 1 or more. */
uint64_t ps_row_removals_number(struct ps_row_removals *removals);

/* How many keys went since that number, at most PS_ROW_FOLLOWED_MAX; false: more than are kept, or
 * the number is none of this list's. */
bool ps_row_removals_count(struct ps_row_removals *removals, uint64_t number, uint64_t *count);

/* Copies the keys that went since `*number`, the first of them first, at most `count_max` of 8
 * bytes each at any address, and puts the number behind them. `*count` says how many. False as
 * above. */
bool ps_row_removals_since(struct ps_row_removals *removals, uint64_t *number, size_t count_max,
                           void *to, size_t *count);

#endif
