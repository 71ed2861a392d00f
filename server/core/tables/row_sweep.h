/* SPDX-License-Identifier: Apache-2.0 */
/* What goes over all rows of a table: taking out those that nobody pushed to for long, and the
 * digest by which two tables are compared.
 *
 * Old rows are looked for beside pushes, some at a time, and then taken out by their keys, some at
 * a time and as a push. No row gets older: one that was found is old when it is taken out, or was
 * pushed to meanwhile, and stays.
 *
 * Threads:  look: from any, while nothing is loaded. remove and sweep: as a push. digest: while
 *           nobody pushes.
 * Blocking: for the locks of stripes, each held for PS_ROW_LOOKED_MAX rows that are looked at, or
 *           PS_ROW_FOUND_MAX that go: some ten microseconds.
 * Errors:   none.
 * Memory:   none is needed: rows go from the index, not from their pages. The pages stay the
 *           table's, for rows to come.
 */
#ifndef PS_SERVER_CORE_ROW_SWEEP_H
#define PS_SERVER_CORE_ROW_SWEEP_H

#include "server/core/tables/row_table.h"

/* Of one look: numbers of rows at most, and old rows among them. Smaller in the simulator, whose
 * tables have few rows. */
#ifndef PS_ROW_FOUND_MAX
#define PS_ROW_FOUND_MAX 512
#endif
#ifndef PS_ROW_LOOKED_MAX
#define PS_ROW_LOOKED_MAX 4096
#endif

/* A walk over a table in search of old rows, from look to look: plain data. With a version and
 * zeros behind it stands at its begin. Behind the rows it goes over the keys that are counted. */
struct ps_row_walk {
    uint64_t before; /* old are rows whose last push made a version below it; above 0 */
    uint32_t stripe;
    uint32_t row;
    bool counts;
};

/* What a look has found. */
struct ps_row_found {
    uint64_t keys[PS_ROW_FOUND_MAX];
    uint32_t count;
    uint32_t looked; /* numbers of rows: what the look has cost */
    bool counts;     /* the keys are counted ones, which have no rows */
};

/* Looks at some more rows. `now` is the parameter's version, or an earlier one. False: that was the
 * last look of this walk; also then something may have been found. */
bool ps_row_table_look(struct ps_row_table *table, struct ps_row_walk *walk, uint64_t now,
                       struct ps_row_found *found);

/* Which rows go: of these keys, those whose last push made a version below `before`. */
struct ps_row_removal {
    const uint64_t *keys; /* borrowed */
    uint32_t count;       /* PS_ROW_FOUND_MAX at most */
    bool counts;          /* keys that are counted are forgotten, and no rows go */
    uint64_t before;
};

/* Takes them out, and says how many rows went. `now` is the parameter's version: rows know 32 bits
 * of theirs, so that those of 2^32 versions ago and more are taken for younger ones. */
uint64_t ps_row_table_remove(struct ps_row_table *table, const struct ps_row_removal *removal,
                             uint64_t now);

/* Takes out every row that is old, and forgets every key that was counted for as long, in one go:
 * as journals of former programs have it. Says how many rows went. */
uint64_t ps_row_table_sweep(struct ps_row_table *table, uint64_t before, uint64_t now);

/* The same for the same rows, whatever their order: keys, versions, values, states; and for the
 * same candidates. */
uint64_t ps_row_table_digest(struct ps_row_table *table);

#endif
