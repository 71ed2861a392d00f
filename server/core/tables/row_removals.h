/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows of a table went since an instant that somebody has marked. A row that goes leaves no
 * trace in the table; a checkpoint that has only what changed since another one must name it.
 *
 * The list is of keys, in the order in which they went. It is kept while there is a mark, from the
 * oldest on, at 8 bytes a removal. It is given up, and all marks are lost with it, when it becomes
 * longer than a quarter of the table or memory is refused: then as much has changed that everything
 * may be saved as well.
 *
 * Threads:  all functions from any thread; of a table one thread at a time removes rows.
 * Blocking: for a lock of PS_RANK_LEAF, held for microseconds.
 * Errors:   as said at each function.
 * Memory:   the list lives until the table and all marks have let go of it. A mark belongs to who
 *           made it, and may outlive the table.
 */
#ifndef PS_SERVER_CORE_ROW_REMOVALS_H
#define PS_SERVER_CORE_ROW_REMOVALS_H

#include "base/alloc.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct ps_row_removals;
struct ps_row_mark;

/* Returns a list without keys or marks, with one reference; NULL when memory is refused. `memory`
 * is borrowed and outlives the list. */
struct ps_row_removals *ps_row_removals_create(const struct ps_allocator *memory);
void ps_row_removals_release(struct ps_row_removals *removals);

/* The row with this key goes from a table that has `rows` of them. Without a mark it does nothing.
 */
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

#endif
