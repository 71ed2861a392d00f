/* SPDX-License-Identifier: Apache-2.0 */
/* Pushes of several workers that become one (docs/rounds.md): what a push has is kept until the
 * others are there, and all of it is then pushed at once.
 *
 *   read, keep ──► keys and gradients, of each worker ──► join ──► prepare, apply (row_push.h)
 *
 * A key that several workers have gets the sum of their gradients in the order in which they are
 * given, as a dense parameter gets it; who does not have the key adds nothing to it, and counts in
 * an average all the same. Where a rule makes something else of several gradients of one key
 * (enum ps_row_repeats), it makes that of them here: the last one given, the greatest, the least.
 *
 * Threads:  keep and join by any; lacking by the pushing one.
 * Blocking: never.
 * Errors:   said at each function.
 * Memory:   what is kept is the caller's.
 */
#ifndef PS_SERVER_CORE_ROW_JOIN_H
#define PS_SERVER_CORE_ROW_JOIN_H

#include "server/core/tables/row_push.h"

/* What a push has, as the content of another: different keys, and a gradient for each. `to` has
 * room for ps_row_push_rows keys and rows. */
void ps_row_push_keep(const struct ps_row_push *push, void *to);

/* How many of its keys have no row. With the parameter's lock. */
uint64_t ps_row_push_lacking(struct ps_row_push *push);

/* What so many new rows will take at most, with their places in the index. */
uint64_t ps_row_table_bytes_of(const struct ps_row_table *table, uint64_t rows);

/* Will a push with so many different keys find room, whichever they are? False says nothing: the
 * limit of rows may still let them in. */
bool ps_row_table_has_room(const struct ps_row_table *table, uint64_t keys);

/* What one worker brings. */
struct ps_row_part {
    struct ps_bytes content; /* borrowed; as ps_row_push_keep has written it, aligned as numbers */
    double weight;           /* above 0 */
};

/* Returns one push of all parts. `divides`: each sum is divided by the sum of all weights.
 * `is_taken`: nobody can be told of a refusal any more, and the row limit does not refuse it.
 * PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_row_push_join(struct ps_row_table *table,
                                            const struct ps_row_part *parts, uint32_t count,
                                            bool divides, bool is_taken, struct ps_row_push **push,
                                            struct ps_error *error);

#endif
