/* SPDX-License-Identifier: Apache-2.0 */
/* Keys that get their row with their n-th push (settings.admission). Until then they are
 * candidates: pushes to them are counted, and nothing else comes of them. Private to this room.
 *
 * Candidates are a table of their own (ps_row_table_candidates), with the rule "add" and a 1 for
 * each push: so they are kept, held, loaded, swept and let go as rows are. There are at most
 * settings.candidates_max of them; when there would be more, those that were pushed to longest ago
 * go (row_evict.h), and begin anew when they come again. Of one push no more new keys are counted
 * than that, the first by their hashes.
 *
 * Threads:  the pushing one.
 * Blocking: for the locks of the candidates' stripes, which nobody reads.
 * Errors:   as said at each function.
 * Memory:   the candidates belong to their table, and a push to them to the push that makes it.
 */
#ifndef PS_SERVER_CORE_ROW_ADMISSION_H
#define PS_SERVER_CORE_ROW_ADMISSION_H

#include "server/core/tables/row_push_parts.h"

/* Returns the candidates of a table of these options, for ps_row_table_destroy; NULL where a key
 * gets its row with its first push. PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_row_admission_create(const struct ps_row_table_options *options,
                                                   struct ps_row_table **candidates,
                                                   struct ps_error *error);

/* The table's candidates_max has changed. Does not fail. */
PS_MUST_USE enum ps_status ps_row_admission_configure(struct ps_row_table *table,
                                                      struct ps_error *error);

/* Between the look-up of a push and what is got ready for it: takes those keys out of it that get
 * no row yet, and gets their counts ready. `*bytes_left` falls by what that took.
 *
 * PS_OK              `push` has keys of rows, and those that become one with it
 * PS_ERR_NO_MEMORY   also beyond `*bytes_left`; `push` is good for its release alone
 */
PS_MUST_USE enum ps_status ps_row_admission_decide(struct ps_row_push *push, uint64_t *bytes_left,
                                                   struct ps_error *error);

/* Counts; keys that become rows are candidates no longer. Does not fail. */
void ps_row_admission_apply(struct ps_row_push *push, uint64_t version);

/* Asserts that candidates have no row and counts below the table's admission. */
void ps_row_admission_check(struct ps_row_table *table);

#endif
