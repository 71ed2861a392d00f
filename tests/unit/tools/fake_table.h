/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient's tables, as pstrain uses them, played by one server in memory: rows begin at zero,
 * what is added is taken off times a rate. A test says beforehand what the next pushes meet. Calls
 * may come from several threads; a read at a clock that is not allowed yet waits. Programs that
 * link this have nothing of the real client.
 *
 * Threads:  any.
 * Blocking: reads at clocks, for another thread's clock.
 * Errors:   as told; asserts with Check.
 * Memory:   in place.
 */
#ifndef PS_TESTS_UNIT_TOOLS_FAKE_TABLE_H
#define PS_TESTS_UNIT_TOOLS_FAKE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_ROWS_MAX 64
#define FAKE_WORKERS_MAX 8

/* What the next push meets. */
enum fake_table_fate {
    FAKE_TABLE_OK,
    FAKE_TABLE_UNKNOWN, /* applied, but nobody says so */
    FAKE_TABLE_LOST,    /* the server has lost everything before it came */
    FAKE_TABLE_REFUSED
};

struct fake_table {
    bool initialised, defined;
    float rate;
    uint32_t width;
    uint64_t keys[FAKE_ROWS_MAX];
    float rows[FAKE_ROWS_MAX][8];
    size_t row_count;
    enum fake_table_fate fates[256]; /* of the pushes, in order */
    size_t pushes, definitions, reads;
    uint32_t clock_workers, staleness;
    uint64_t clocks[FAKE_WORKERS_MAX];
    size_t clock_calls, clocks_lost_at; /* this call meets a server without clocks; 0: none does */
    size_t reads_held;                  /* so many of the next reads are not answered in time */
    uint64_t read_at_max;               /* the highest clock that a read named */
    uint64_t ahead_max; /* of a read's clock before the slowest worker's, when it was answered */
    int handles;        /* open */
    bool has_rounds;    /* somebody has set them */
    uint64_t version;   /* contributions so far */
};

extern struct fake_table fake_table;

/* A server that was never initialised. No thread uses it. */
void fake_table_begin(float rate);

#endif
