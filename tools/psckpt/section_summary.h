/* SPDX-License-Identifier: Apache-2.0 */
/* What the sections of a checkpoint say, for people: one row for each parameter with an open round
 * or evicted workers, one for each clocks, and one for each table that counts keys.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY; PS_ERR_CORRUPT for records that no server writes.
 * Memory:   in the rooms of the state.
 */
#ifndef PS_TOOLS_SECTION_SUMMARY_H
#define PS_TOOLS_SECTION_SUMMARY_H

#include "checkpoint/journal_clocks.h"
#include "tools/psckpt/shard_state.h"

#define SECTION_RANKS_BYTES 64

struct round_row {
    struct ps_bytes name;
    uint64_t round;                  /* that is open */
    size_t held;                     /* contributions */
    uint64_t held_bytes;             /* of their gradients */
    char ranks[SECTION_RANKS_BYTES]; /* whose; "..." behind as many as fit */
    uint32_t evicted;                /* workers that are not waited for */
};

struct clocks_row {
    struct ps_bytes name;
    struct ps_clocks_record settings;
    uint64_t minimum; /* of those that are not evicted */
    uint32_t slowest; /* the first worker that is there */
    uint32_t untold;  /* the first worker that has no record: it is at 0 */
    uint32_t evicted;
};

struct candidates_row {
    struct ps_bytes name; /* of the table */
    uint64_t keys;        /* that are counted and have no row */
};

struct section_summary {
    struct round_row *rounds;
    size_t round_count;
    struct clocks_row *clocks;
    size_t clocks_count;
    struct candidates_row *candidates;
    size_t candidates_count;
};

/* Of the records that `state` has (state_sections.h). */
PS_MUST_USE enum ps_status section_summary_make(struct section_summary *summary,
                                                struct shard_state *state, struct ps_error *error);

/* "asp", "ssp", "bsp". */
const char *section_consistency_name(uint32_t consistency);

#endif
