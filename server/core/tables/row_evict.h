/* SPDX-License-Identifier: Apache-2.0 */
/* The row limit: what becomes of a push that would make a row too many. Private to this room.
 *
 * With PS_TABLE_REFUSE it is refused. With PS_TABLE_OLDEST rows go for it, those whose last push is
 * longest ago, of equal ones those with the smaller key. So that this takes a few milliseconds of a
 * large table and not of every push, it is decided for groups of stripes, each with a share of the
 * limit, and of a group a sixteenth goes at once; the shares differ a little, so that the groups do
 * not all come to their limits with the same push.
 *
 * Only keys, versions and rows_max have a say. The versions are compared by their lower 32 bits,
 * which is right for rows whose last pushes are less than 2^31 versions apart.
 *
 * Threads:  the pushing one.
 * Blocking: never.
 * Errors:   as said below.
 * Memory:   the list of rows that go is the push's; 16 bytes for each row of one group meanwhile.
 */
#ifndef PS_SERVER_CORE_ROW_EVICT_H
#define PS_SERVER_CORE_ROW_EVICT_H

#include "server/core/tables/row_push_parts.h"

/* How rows_max is shared out. */
struct ps_row_shares {
    uint32_t groups; /* a power of two; each has PS_ROW_STRIPES / groups stripes */
    uint64_t share;
};

struct ps_row_shares ps_row_shares(uint64_t rows_max);

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
