/* SPDX-License-Identifier: Apache-2.0 */
/* The row limit: what becomes of a push that would make a row too many. Private to this room.
 *
 * With PS_TABLE_REFUSE it is refused. With PS_TABLE_OLDEST rows go for it, those whose last push is
 * longest ago, of equal ones those with the smaller key. So that this takes a few milliseconds of a
 * large table and not of every push, it is decided for groups of stripes, each with a share of the
 * limit, and of a group a sixteenth goes at once; the shares differ a little, so that the groups do
 * not all come to their limits with the same push.
 *
 * A limit that is lowered leaves groups above it, perhaps ten times. No push pays for all of that:
 *
 *   - a push that makes rows brings one group down, the one that has most to lose, whether the push
 *     has a key in it or not; more of them only while fewer rows have gone than the push makes;
 *   - of groups above their limits PS_ROW_EVICT_MORE rows go, at most, beside as many as it makes;
 *   - while there are more than twice as many rows as there may be, the groups are as fine as half
 *     of the rows wants it: what is looked at for one group is then no large part of a table.
 *
 * So a table that is above its limit has no more rows after a push than before it, and comes down
 * with the pushes that make rows. (Pushes that are let in whatever there is, row_join.h, excepted.)
 *
 * Only keys, versions, rows_max and the push have a say. The versions are compared by their lower
 * 32 bits, which is right for rows whose last pushes are less than 2^32 versions apart.
 *
 * Threads:  the pushing one.
 * Blocking: never.
 * Errors:   as said below.
 * Memory:   the list of rows that go is the push's; 16 bytes for each row of one group meanwhile.
 */
#ifndef PS_SERVER_CORE_ROW_EVICT_H
#define PS_SERVER_CORE_ROW_EVICT_H

#include "server/core/tables/row_push_parts.h"

/* Rows of groups above their limits that go with one push, beside as many as it makes. This takes a
 * millisecond or two. Fewer in the simulator, whose tables have few rows. */
#ifndef PS_ROW_EVICT_MORE
#define PS_ROW_EVICT_MORE 16384
#endif

/* How rows_max is shared out. */
struct ps_row_shares {
    uint32_t groups; /* a power of two; each has PS_ROW_STRIPES / groups stripes */
    uint64_t share;
};

/* By the limit alone: whether a push's own rows would be too many is asked of these groups, so that
 * it is refused or not whatever else the table has. */
struct ps_row_shares ps_row_shares(uint64_t rows_max);

/* The groups that rows go from while there are so many rows: the same, or finer ones. */
struct ps_row_shares ps_row_shares_above(uint64_t rows_max, uint64_t rows);

/* Most rows of a group, and how many it is brought down to when it would have more. */
uint64_t ps_row_share_limit(const struct ps_row_shares *shares, uint32_t group);
uint64_t ps_row_share_target(const struct ps_row_shares *shares, uint32_t group);

/* Asks whether the rows that `push` is to make (its numbers were looked up) fit into rows_max.
 *
 * PS_OK              they do, once the push's victims have gone; none of them is a row of the push
 * PS_ERR_TABLE_FULL  they do not
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_row_evict_choose(struct ps_row_push *push, struct ps_error *error);

#endif
