/* SPDX-License-Identifier: Apache-2.0 */
/* What a configuration says of a parameter that is a table: rows, found by a key of 64 bits
 * (docs/tables.md). The message is TableConfig of optimizer_config.proto, whose numbers these are.
 *
 * Threads:  plain data.
 * Blocking: never.
 * Errors:   none; what may stand in it is checked by optimizer/table_check.h.
 * Memory:   none of its own.
 */
#ifndef PS_BASE_TABLE_SETTINGS_H
#define PS_BASE_TABLE_SETTINGS_H

#include "base/bounds.h"

#include <stdint.h>

/* First values of a row, by seed and key. */
enum ps_table_init {
    PS_TABLE_ZERO,
    PS_TABLE_CONSTANT, /* low */
    PS_TABLE_UNIFORM,  /* in [low, high) */
    PS_TABLE_NORMAL    /* around low, with deviation high */
};

/* What becomes of a push that would make a row more than rows_max. */
enum ps_table_full {
    PS_TABLE_REFUSE,
    PS_TABLE_OLDEST /* the rows that were pushed to longest ago go */
};

/* Which shard has the row of a key. */
enum ps_table_partition {
    PS_TABLE_HASH,
    PS_TABLE_RANGE, /* keys below keys_max, each shard as many chunks of them as the others */
    PS_TABLE_GIVEN  /* bounds */
};

struct ps_table_settings {
    uint32_t width;    /* elements of a row, at most PS_TABLE_WIDTH_MAX; 0: no table */
    uint64_t rows_max; /* of one shard; 0: as many as memory takes */
    enum ps_table_init init;
    double low, high;
    uint64_t seed;
    enum ps_table_full full;
    uint32_t admission;      /* a key gets its row with so many pushes; 0 and 1: with the first */
    uint64_t candidates_max; /* keys of one shard that are counted until then; 0: as
                                PS_TABLE_CANDIDATES says */
    uint64_t expire_ms;      /* rows that are not pushed to for so long go; 0: never */
    uint64_t expire_clocks;  /* or for so many ticks of `clocks` */
    char clocks[PS_CLOCKS_NAME_BYTES_MAX + 1];
    enum ps_table_partition partition;
    uint64_t keys_max; /* RANGE */
    uint64_t chunk;    /* RANGE: shards begin at multiples of it; 1: anywhere */
    uint32_t bound_count;
    uint64_t bounds[PS_TABLE_BOUNDS_MAX]; /* GIVEN: the first keys of shards 1, 2, ... */
};

#endif
