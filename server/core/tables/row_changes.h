/* SPDX-License-Identifier: Apache-2.0 */
/* What of a hold has changed since an earlier one: the rows that were pushed to, by the versions
 * that they know, and the keys of those that went (row_removals.h). A row that was made since was
 * pushed to, too.
 *
 * Threads:  mark while nobody pushes; the rest from the thread of the hold.
 * Blocking: mark never; to find reads the version of every row, a tenth of a second for ten
 *           million, and takes the lock of each page's stripe, as narrow takes those of all.
 * Errors:   PS_ERR_NO_MEMORY where it says so; the hold is then what it was.
 * Memory:   what was found is the hold's; a mark that was taken belongs to the caller.
 */
#ifndef PS_SERVER_CORE_ROW_CHANGES_H
#define PS_SERVER_CORE_ROW_CHANGES_H

#include "server/core/tables/row_hold.h"
#include "server/core/tables/row_removals.h"

/* At the instant of the hold: from now on the table keeps the keys of rows that go. */
PS_MUST_USE enum ps_status ps_row_hold_mark(struct ps_row_hold *hold, struct ps_error *error);

/* The mark of the hold, borrowed; NULL: it has none. */
const struct ps_row_mark *ps_row_hold_marked(const struct ps_row_hold *hold);

/* Returns it for ps_row_mark_destroy; NULL: there is none. The hold has none then. */
struct ps_row_mark *ps_row_hold_take_mark(struct ps_row_hold *hold);

/* Most versions that may lie between two holds: of its last push a row knows 32 bits. */
#define PS_ROW_VERSIONS_MAX ((uint64_t)1 << 31)

/* Finds the rows that were pushed to behind version `since`, where the hold is of `version`, at
 * most PS_ROW_VERSIONS_MAX later, and says how many there are. Rows that nobody has pushed to for
 * 2^32 versions may be among them as well. The hold still has all of its rows. */
PS_MUST_USE enum ps_status ps_row_hold_find_changed(struct ps_row_hold *hold, uint64_t version,
                                                    uint64_t since, uint64_t *rows,
                                                    struct ps_error *error);

/* From now on the hold has only the rows that were found, in the order in which it had them. */
void ps_row_hold_narrow(struct ps_row_hold *hold);

#endif
