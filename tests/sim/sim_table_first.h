/* SPDX-License-Identifier: Apache-2.0 */
/* First values of rows, and which shard has which key of a table in ranges: both as docs/tables.md
 * and docs/wire.md have them, written down once more.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   in place.
 */
#ifndef PS_TESTS_SIM_SIM_TABLE_FIRST_H
#define PS_TESTS_SIM_SIM_TABLE_FIRST_H

#include "base/table_settings.h"
#include "tests/sim/sim.h"

/* What a row is before the first push to it. */
struct sim_first {
    enum ps_table_init init;
    double low, high;
    uint64_t seed;
};

/* Writes `width` numbers, which are not rounded to the table's type yet. */
void sim_first_values(const struct sim_first *first, uint64_t key, uint32_t width, double *to);

/* How the keys of a table are spread. */
struct sim_ranges {
    enum ps_table_partition kind;
    uint64_t keys_max, chunk;        /* of PS_TABLE_RANGE */
    uint64_t bounds[SIM_SHARDS_MAX]; /* of PS_TABLE_GIVEN: where shards 1, 2, ... begin */
    uint32_t shard_count;
};

/* May the shard have the key? Of hashed keys any shard may. */
bool sim_ranges_allow(const struct sim_ranges *ranges, uint32_t shard, uint64_t key);

#endif
