/* SPDX-License-Identifier: Apache-2.0 */
/* The longest pushes to a table of width 16 beside a sweep for old rows, as a server makes both: a
 * push has the parameter's lock for as long as it takes, a sweep in pieces has it for each of them
 * (server/core/requests/expire_rows.c). Beside that the same sweep in one go, as journals of former
 * programs are replayed. Once nothing is old, so that the sweep is a walk alone; once a quarter of
 * the rows goes. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/let_by.h"
#include "base/random.h"
#include "server/core/tables/row_sweep.h"
#include "tools/psbench/psbench_table.h"
#include "tools/psbench/psbench_table_alone.h"
#include "tools/psbench/psbench_values.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define WIDTH 16
#define QUIET_PUSHES 200
#define LET_BY_MS 1000
#define WALK "push_beside_walk_16"
#define SWEEP "push_beside_sweep_16"

/* The table, and who sweeps it while the measuring thread pushes. */
struct sweeper {
    struct ps_bench_table_alone table;
    struct ps_mutex lock; /* as a parameter's; guards the table and its version */
    struct ps_let_by pushes;
    bool in_pieces;
    uint64_t before;   /* rows of older versions go */
    atomic_bool ended; /* the sweep; what follows is read behind it */
    uint64_t gone;     /* rows */
    uint64_t pieces;   /* times that the lock was had */
    uint64_t held_ns;  /* longest of them, in processor time */
    uint64_t taken_ns; /* of the sweep, on the wall */
    struct ps_thread thread;
};

/* Pushes beside one sweep, too large for a stack. */
struct beside {
    struct ps_bench_times wall, processor;
    uint64_t count, begun_ns;
};

static enum ps_status measure(struct ps_bench *bench, struct sweeper *sweeper, const char *name,
                              uint64_t whole, uint64_t pieces, struct beside *beside,
                              struct ps_error *error);
static enum ps_status push_beside(struct ps_bench *bench, struct sweeper *sweeper,
                                  const atomic_bool *until, struct beside *beside,
                                  struct ps_error *error);
static enum ps_status sweep_beside(struct ps_bench *bench, struct sweeper *sweeper, bool in_pieces,
                                   uint64_t before, struct beside *beside, struct ps_error *error);
static void sweep(void *argument);
static void sweep_in_pieces(struct sweeper *sweeper);

/* Of one push: keys and gradients, as for the other rows of this width. */
static uint64_t push_bytes(void)
{
    return PS_BENCH_TABLE_KEYS * (sizeof(uint64_t) + WIDTH * sizeof(float));
}

/* SGD, so that a row is as small as rows of this width are, and removing weighs most. */
enum ps_status ps_bench_table_sweep(struct ps_bench *bench, struct ps_error *error)
{
    struct ps_bench_row *row = ps_bench_report_row(&bench->report, WALK, push_bytes(), 1);
    if (!ps_bench_table_fits(row, (double)bench->options->rows * (4 * WIDTH + 40)))
        return PS_OK;
    struct sweeper *sweeper = ps_zeroed(ps_allocator_heap(), sizeof *sweeper);
    struct beside *beside = ps_zeroed(ps_allocator_heap(), sizeof *beside);
    /* Both hold histograms, or stand beside who does. */
    if (sweeper == NULL || beside == NULL) {
        ps_release(ps_allocator_heap(), sweeper);
        ps_release(ps_allocator_heap(), beside);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for times");
    }
    ps_bench_progress(bench, row->name);
    /* The rank is that of the lock which this one stands for: whatever the table takes is above it.
     */
    ps_mutex_init(&sweeper->lock, PS_RANK_PARAMETER);
    ps_let_by_init(&sweeper->pushes);
    enum ps_status status =
        ps_bench_table_alone_open(&sweeper->table, PS_RULE_SGD, WIDTH, NULL, error);
    if (status == PS_OK)
        status = ps_bench_table_alone_fill(&sweeper->table, bench->options->rows, error);
    if (status == PS_OK)
        ps_bench_fill_gradient(sweeper->table.gradients, (size_t)PS_BENCH_TABLE_KEYS * WIDTH);
    /* As many versions as pushes: a share of them is that share of the rows. */
    uint64_t made = sweeper->table.version;
    /* Of version 1 nothing is older. */
    if (status == PS_OK)
        status = measure(bench, sweeper, WALK, 1, 1, beside, error);
    if (status == PS_OK)
        status = measure(bench, sweeper, SWEEP, 1 + made / 4, 1 + made / 2, beside, error);
    ps_bench_table_alone_close(&sweeper->table);
    ps_let_by_fini(&sweeper->pushes);
    ps_mutex_fini(&sweeper->lock);
    ps_release(ps_allocator_heap(), beside);
    ps_release(ps_allocator_heap(), sweeper);
    return status;
}

/* In one go, then in pieces: rows of versions below `whole` and `pieces` go, which were made by one
 * push after the other. Pushes name the other half alone, so that nothing that is to go gets
 * younger. */
static enum ps_status measure(struct ps_bench *bench, struct sweeper *sweeper, const char *name,
                              uint64_t whole, uint64_t pieces, struct beside *beside,
                              struct ps_error *error)
{
    struct ps_bench_row *row = ps_bench_report_row(&bench->report, name, push_bytes(), 1);
    /* First alone: what is longest here is the machine's, and no sweep's. */
    PS_TRY(push_beside(bench, sweeper, NULL, beside, error));
    ps_bench_row_detail(row, "quiet_p50_us", ps_bench_times_percentile_us(&beside->wall, 0.5));
    ps_bench_row_detail(row, "quiet_longest_us", (double)beside->wall.longest_ns / 1e3);
    PS_TRY(sweep_beside(bench, sweeper, false, whole, beside, error));
    ps_bench_row_detail(row, "whole_longest_us", (double)beside->wall.longest_ns / 1e3);
    ps_bench_row_detail(row, "whole_held_processor_us", (double)sweeper->held_ns / 1e3);
    ps_bench_row_detail(row, "whole_ms", (double)sweeper->taken_ns / 1e6);
    PS_TRY(sweep_beside(bench, sweeper, true, pieces, beside, error));
    /* The rate is that beside what a server does. */
    const struct ps_bench_figures figures =
        ps_bench_figures_of(beside->count, ps_clock_precise_ns() - beside->begun_ns, &beside->wall);
    ps_bench_row_add(row, &figures);
    ps_bench_row_detail(row, "longest_us", figures.longest_us);
    ps_bench_row_detail(row, "longest_processor_us", (double)beside->processor.longest_ns / 1e3);
    ps_bench_row_detail(row, "held_processor_us", (double)sweeper->held_ns / 1e3);
    ps_bench_row_detail(row, "ms", (double)sweeper->taken_ns / 1e6);
    ps_bench_row_detail(row, "pieces", (double)sweeper->pieces);
    ps_bench_row_detail(row, "rows_gone", (double)sweeper->gone);
    return PS_OK;
}

/* The sweep begins with the pushes, which go on until it is done. What is found is of this sweep
 * alone: the one before has ended, and its thread with it. */
static enum ps_status sweep_beside(struct ps_bench *bench, struct sweeper *sweeper, bool in_pieces,
                                   uint64_t before, struct beside *beside, struct ps_error *error)
{
    /* Nobody else has it yet: it is given away by the start of the thread. */
    sweeper->in_pieces = in_pieces;
    sweeper->before = before;
    sweeper->gone = sweeper->pieces = sweeper->held_ns = 0;
    atomic_store(&sweeper->ended, false);
    PS_TRY(ps_thread_start(&sweeper->thread, "sweeper", sweep, sweeper, error));
    enum ps_status status = push_beside(bench, sweeper, &sweeper->ended, beside, error);
    ps_thread_join(&sweeper->thread);
    return status;
}

/* So many pushes as a quiet measurement has, or until the flag is set; to keys of the second half.
 */
static enum ps_status push_beside(struct ps_bench *bench, struct sweeper *sweeper,
                                  const atomic_bool *until, struct beside *beside,
                                  struct ps_error *error)
{
    uint64_t numbers[PS_BENCH_TABLE_KEYS];
    uint64_t half = bench->options->rows / 2;
    enum ps_status status = PS_OK;
    struct ps_random random;
    ps_random_init(&random, sweeper->table.version);
    memset(beside, 0, sizeof *beside);
    beside->begun_ns = ps_clock_precise_ns();
    do {
        uint64_t spent_ns = 0;
        for (size_t i = 0; i < PS_BENCH_TABLE_KEYS; i++)
            numbers[i] = half + ps_random_below(&random, bench->options->rows - half);
        /* With the wait for the lock, which is what a client sees. Keys that come twice in a push
         * are stepped once; of some million that are few. */
        uint64_t start_ns = ps_clock_precise_ns();
        ps_let_by_lock(&sweeper->pushes, &sweeper->lock);
        status = ps_bench_table_alone_push(&sweeper->table, numbers, &spent_ns, error);
        ps_mutex_unlock(&sweeper->lock);
        ps_bench_times_note(&beside->wall, ps_clock_precise_ns() - start_ns);
        ps_bench_times_note(&beside->processor, spent_ns);
        beside->count++;
        /* One push at least, also beside a sweep that was over before it began: a row of the
         * report without any figure would look like one that could not be measured. */
    } while (status == PS_OK &&
             (until == NULL ? beside->count < QUIET_PUSHES : !atomic_load(until)));
    return status;
}

/* Without a record of a journal: that is a copy of some keys, of which a lock knows nothing. */
static void sweep(void *argument)
{
    struct sweeper *sweeper = argument;
    uint64_t start_ns = ps_clock_precise_ns();
    if (sweeper->in_pieces) {
        sweep_in_pieces(sweeper);
    } else {
        ps_mutex_lock(&sweeper->lock);
        uint64_t held_ns = ps_clock_thread_ns();
        sweeper->gone =
            ps_row_table_sweep(sweeper->table.table, sweeper->before, sweeper->table.version + 1);
        sweeper->held_ns = ps_clock_thread_ns() - held_ns;
        sweeper->pieces = 1;
        ps_mutex_unlock(&sweeper->lock);
    }
    /* Last of all, since the figures are read as soon as the flag is seen. */
    sweeper->taken_ns = ps_clock_precise_ns() - start_ns;
    atomic_store(&sweeper->ended, true);
}

/* As the service does it: a look without the lock, and what was found with it. The time for which
 * it is had is taken behind the wait, in which others have it. */
static void sweep_in_pieces(struct sweeper *sweeper)
{
    struct ps_row_table *table = sweeper->table.table;
    struct ps_row_walk walk = {.before = sweeper->before};
    /* The version is the pushing thread's affair: a look takes any that is not below `before`. */
    struct ps_row_found found;
    for (bool is_more = true; is_more;) {
        is_more = ps_row_table_look(table, &walk, sweeper->before, &found);
        if (found.count == 0)
            continue;
        const struct ps_row_removal removal = {found.keys, found.count, found.counts,
                                               sweeper->before};
        ps_mutex_lock(&sweeper->lock);
        ps_let_by_wait(&sweeper->pushes, &sweeper->lock, LET_BY_MS);
        uint64_t start_ns = ps_clock_thread_ns();
        sweeper->gone += ps_row_table_remove(table, &removal, sweeper->table.version + 1);
        uint64_t held_ns = ps_clock_thread_ns() - start_ns;
        ps_mutex_unlock(&sweeper->lock);
        sweeper->held_ns = held_ns > sweeper->held_ns ? held_ns : sweeper->held_ns;
        sweeper->pieces++;
    }
}
