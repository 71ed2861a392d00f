/* SPDX-License-Identifier: Apache-2.0 */
/* The longest pushes to a table of width 16 whose row limit has been lowered to a tenth of its rows
 * (PS_TABLE_OLDEST), until it is within the limit. All keys of a push are new, so that it makes as
 * many rows as it can while others go.
 *
 * What a push takes is counted in processor time: other pushes to the table wait for all of it, and
 * what else the machine does has no say. Beside them the same number of pushes at the limit, which
 * is what a full table costs for ever. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/touch_ahead.h"
#include "tools/psbench/psbench_table.h"
#include "tools/psbench/psbench_table_alone.h"
#include "tools/psbench/psbench_values.h"

#include <string.h>

#define WIDTH 16
#define PART 10
#define LIMIT "push_at_lower_limit_16"
#define FULL_PUSHES 200

/* Far more than any table needs; a table that never comes to its limit ends the measurement. */
#define PUSHES_MAX 1000000

/* Too large for a stack. */
struct shrinking {
    struct ps_bench_table_alone alone;
    struct ps_touch_ahead ahead;
    struct ps_bench_times coming_down, full;
    uint64_t next; /* number of the next new key */
    uint64_t pushes;
};

static enum ps_status measure(struct ps_bench *bench, struct shrinking *shrinking,
                              struct ps_bench_row *row, struct ps_error *error);
static enum ps_status push_new(struct shrinking *shrinking, struct ps_bench_times *times,
                               struct ps_error *error);

/* By SGD, so that a row is as small as rows of this width are, and removing weighs most. */
enum ps_status ps_bench_table_limit(struct ps_bench *bench, struct ps_error *error)
{
    const uint64_t bytes = PS_BENCH_TABLE_KEYS * (sizeof(uint64_t) + WIDTH * sizeof(float));
    struct ps_bench_row *row = ps_bench_report_row(&bench->report, LIMIT, bytes, 1);
    if (!ps_bench_table_fits(row, (double)bench->options->rows * (4 * WIDTH + 40)))
        return PS_OK;
    struct shrinking *shrinking = ps_zeroed(ps_allocator_heap(), sizeof *shrinking);
    if (shrinking == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for times");
    ps_bench_progress(bench, row->name);
    ps_touch_ahead_init(&shrinking->ahead, NULL, NULL);
    enum ps_status status = measure(bench, shrinking, row, error);
    ps_bench_table_alone_close(&shrinking->alone);
    ps_touch_ahead_fini(&shrinking->ahead);
    ps_release(ps_allocator_heap(), shrinking);
    return status;
}

static enum ps_status measure(struct ps_bench *bench, struct shrinking *shrinking,
                              struct ps_bench_row *row, struct ps_error *error)
{
    struct ps_bench_table_alone *alone = &shrinking->alone;
    uint64_t rows = bench->options->rows;
    PS_TRY(ps_bench_table_alone_open(alone, PS_RULE_SGD, WIDTH, &shrinking->ahead, error));
    PS_TRY(ps_bench_table_alone_fill(alone, rows, error));
    ps_bench_fill_gradient(alone->gradients, (size_t)PS_BENCH_TABLE_KEYS * WIDTH);
    /* Not below what one push makes: such a push is refused at any limit. */
    struct ps_table_settings settings = alone->settings.table;
    settings.rows_max =
        rows / PART > 2 * PS_BENCH_TABLE_KEYS ? rows / PART : 2 * PS_BENCH_TABLE_KEYS;
    settings.full = PS_TABLE_OLDEST;
    PS_TRY(ps_row_table_configure(alone->table, &settings, error));
    /* Behind those of the fill: whatever goes, no key ever comes back. */
    shrinking->next = rows;
    uint64_t begun_ns = ps_clock_precise_ns();
    do {
        PS_TRY(push_new(shrinking, &shrinking->coming_down, error));
    } while (ps_row_table_rows(alone->table) > settings.rows_max && shrinking->pushes < PUSHES_MAX);
    const struct ps_bench_figures figures = ps_bench_figures_of(
        shrinking->pushes, ps_clock_precise_ns() - begun_ns, &shrinking->coming_down);
    ps_bench_row_add(row, &figures);
    /* One push of many thousands: on a machine with guests beside it this is the host's pause. So
     * the percentiles of the row say more than it does. */
    ps_bench_row_detail(row, "longest_processor_us", figures.longest_us);
    ps_bench_row_detail(row, "pushes", (double)shrinking->pushes);
    ps_bench_row_detail(row, "rows_left", (double)ps_row_table_rows(alone->table));
    /* The same pushes to a table that is full and has been so for a while. */
    for (int i = 0; i < FULL_PUSHES; i++)
        PS_TRY(push_new(shrinking, &shrinking->full, error));
    ps_bench_row_detail(row, "full_p50_us", ps_bench_times_percentile_us(&shrinking->full, 0.5));
    ps_bench_row_detail(row, "full_longest_us", (double)shrinking->full.longest_ns / 1e3);
    return PS_OK;
}

/* Keys that no push has named before. */
static enum ps_status push_new(struct shrinking *shrinking, struct ps_bench_times *times,
                               struct ps_error *error)
{
    uint64_t numbers[PS_BENCH_TABLE_KEYS];
    uint64_t spent_ns = 0;
    for (size_t i = 0; i < PS_BENCH_TABLE_KEYS; i++)
        numbers[i] = shrinking->next++;
    PS_TRY(ps_bench_table_alone_push(&shrinking->alone, numbers, &spent_ns, error));
    ps_bench_times_note(times, spent_ns);
    /* New pages for new rows are touched by another thread of a server, and not in the time of a
     * push (psbench_table_pause.c measures that). */
    while (ps_touch_ahead_turn(&shrinking->ahead)) {
    }
    shrinking->pushes++;
    return PS_OK;
}
