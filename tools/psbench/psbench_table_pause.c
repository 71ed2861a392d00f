/* SPDX-License-Identifier: Apache-2.0 */
/* The longest pushes to a table of width 16: while its index and directories grow, and while one
 * instant of it is written to a file. Both as time on the wall, which is what a client waits,
 * and as processor time, which is what the table itself took of that. A machine that does
 * something else at that moment makes a push look long on the wall alone; one that stands still
 * makes it long by both, and then the witness says so (psbench_witness.h). */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/thread.h"
#include "base/touch_ahead.h"
#include "tools/psbench/psbench_saver.h"
#include "tools/psbench/psbench_table.h"
#include "tools/psbench/psbench_table_alone.h"
#include "tools/psbench/psbench_theft.h"
#include "tools/psbench/psbench_touch.h"
#include "tools/psbench/psbench_values.h"

#include <stdatomic.h>
#include <string.h>

#define WIDTH 16
/* A table is larger than this before its growth is looked at. */
#define GROWS_FROM 1000000
#define QUIET_PUSHES 200
/* What a machine takes back without anybody's noticing. */
#define SETTLED_FROM_BYTES (256.0 * (1 << 20))

/* Pushes that are told apart by what the witness saw; later ones count as undisturbed. */
#define NOTED_MAX 16384

/* A push of which the machine's host took so much is the host's, and not the table's. */
#define STOLEN_NS 1000000

/* When a push began, and what it took by both clocks. */
struct noted {
    uint64_t from_ns, wall_ns, processor_ns, stolen_ns;
};

/* Times of pushes by both clocks; too large for a stack. */
struct pushes {
    struct ps_bench_times wall, processor;
    uint64_t count;
    uint64_t begun_ns;
    struct ps_bench_theft theft;
    struct noted noted[NOTED_MAX];
    struct noted longest_later; /* by each clock, of those that found no place */
};

/* The thread that touches memory before the table comes to it, as a server has one
 * (server/touch_errand.h). */
struct toucher {
    struct ps_touch_ahead ahead;
    struct ps_mutex mutex; /* guards what follows */
    struct ps_condition changed;
    bool woken, ending; /* there is something to do; there will be nothing any more */
    struct ps_thread thread;
};

static enum ps_status start_toucher(struct toucher *toucher, struct ps_error *error);
static void stop_toucher(struct toucher *toucher);
static enum ps_status grow(struct ps_bench_table_alone *table, uint64_t rows, struct pushes *pushes,
                           struct ps_error *error);
static enum ps_status timed_push(struct ps_bench_table_alone *table, const uint64_t *numbers,
                                 struct pushes *pushes, struct ps_error *error);
static enum ps_status save_beside(struct ps_bench *bench, struct ps_bench_row *row,
                                  struct ps_bench_table_alone *table, struct pushes *times,
                                  struct ps_bench_witness *witness, struct ps_error *error);
static enum ps_status push_random(struct ps_bench *bench, struct ps_bench_table_alone *table,
                                  uint64_t count, const atomic_bool *until, struct pushes *pushes,
                                  struct ps_error *error);

/* Of one push: keys and gradients. */
static uint64_t push_bytes(void)
{
    return PS_BENCH_TABLE_KEYS * (sizeof(uint64_t) + WIDTH * sizeof(float));
}

/* The histogram is cleared, too: one struct serves several measurements. */
static void begin(struct pushes *pushes)
{
    memset(pushes, 0, sizeof *pushes);
    ps_bench_theft_open(&pushes->theft);
    pushes->begun_ns = ps_clock_precise_ns();
}

/* Rates are by the wall's clock here: others are part of what is asked. */
static struct ps_bench_figures figures_of(const struct pushes *pushes)
{
    return ps_bench_figures_of(pushes->count, ps_clock_precise_ns() - pushes->begun_ns,
                               &pushes->wall);
}

/* What the machine takes for 2 MiB that somebody needs stands beside the longest push: a table that
 * grows, or is saved, needs some in most of its pushes. */
static void note_touch(struct ps_bench_row *row, double bytes)
{
    const struct ps_bench_touch touch = ps_bench_touch_memory(bytes);
    ps_bench_row_detail(row, "touch_2mib_us", touch.mean_us);
    ps_bench_row_detail(row, "touch_2mib_longest_us", touch.longest_us);
}

/* Each clock has its own longest push. */
static uint64_t larger(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

/* The longest of the pushes during which the machine did not stand still, and its host did not take
 * the processor (psbench_theft.h), beside the longest of all, and how many are left out: few, or
 * the figure says little. Returns the longest on the wall.
 * A witness sees most standstills and not all, since each process loses translations of its own:
 * a push that is left may still be long for the machine's reasons. */
static double note_undisturbed(struct ps_bench_row *row, const struct pushes *pushes,
                               const struct ps_bench_witness *witness)
{
    struct noted longest = pushes->longest_later;
    uint64_t disturbed = 0;
    for (uint64_t i = 0; i < pushes->count && i < NOTED_MAX; i++) {
        const struct noted *push = &pushes->noted[i];
        longest.stolen_ns = larger(longest.stolen_ns, push->stolen_ns);
        if (push->stolen_ns > STOLEN_NS ||
            ps_bench_witness_stood_still(witness, push->from_ns, push->from_ns + push->wall_ns)) {
            disturbed++;
            continue;
        }
        longest.wall_ns = larger(longest.wall_ns, push->wall_ns);
        longest.processor_ns = larger(longest.processor_ns, push->processor_ns);
    }
    ps_bench_row_detail(row, "disturbed_pushes", (double)disturbed);
    /* Of all pushes, so that a reader sees why one was left out. */
    ps_bench_row_detail(row, "stolen_longest_us", (double)longest.stolen_ns / 1e3);
    ps_bench_row_detail(row, "witness_longest_us", ps_bench_witness_longest_us(witness));
    ps_bench_row_detail(row, "undisturbed_longest_us", (double)longest.wall_ns / 1e3);
    ps_bench_row_detail(row, "undisturbed_longest_processor_us",
                        (double)longest.processor_ns / 1e3);
    return (double)longest.wall_ns / 1e3;
}

/* The table before this one, and the memory that was touched ahead, have just been given back, and
 * the host may be at it. Small tables, as a test has them, give back too little for anybody to
 * notice. */
static enum ps_status settle(struct ps_bench_witness *witness, double bytes, struct ps_error *error)
{
    return bytes < SETTLED_FROM_BYTES ? PS_OK : ps_bench_witness_settle(witness, error);
}

/* Twice the rows of the other measurements, so that the index of every stripe is made anew some
 * times. The limit is 10 ms for whoever waits. */
enum ps_status ps_bench_table_growth(struct ps_bench *bench, struct ps_bench_witness *witness,
                                     struct ps_error *error)
{
    struct ps_bench_table_alone table;
    uint64_t rows = 2 * bench->options->rows;
    struct ps_bench_row *row = ps_bench_report_row(&bench->report, "growth_16", push_bytes(), 1);
    double bytes = (double)rows * (4 * WIDTH + 24);
    if (!ps_bench_table_fits(row, bytes))
        return PS_OK;
    note_touch(row, bytes);
    struct pushes *pushes = ps_zeroed(ps_allocator_heap(), sizeof *pushes);
    /* Histograms are too large for a stack. */
    if (pushes == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for times");
    ps_bench_progress(bench, row->name);
    /* The time of the kernel is a push's only where nobody was early enough. */
    struct toucher toucher;
    PS_TRY(start_toucher(&toucher, error));
    enum ps_status status =
        ps_bench_table_alone_open(&table, PS_RULE_SGD, WIDTH, &toucher.ahead, error);
    if (status == PS_OK)
        status = settle(witness, bytes, error);
    if (status == PS_OK)
        status = ps_bench_witness_watch(witness, error);
    if (status == PS_OK)
        status = grow(&table, rows, pushes, error);
    ps_bench_witness_rest(witness);
    if (status == PS_OK) {
        const struct ps_bench_figures figures = figures_of(pushes);
        ps_bench_row_add(row, &figures);
        ps_bench_row_detail(row, "rows", (double)ps_row_table_rows(table.table));
        ps_bench_row_detail(row, "longest_us", figures.longest_us);
        ps_bench_row_detail(row, "longest_processor_us",
                            (double)pushes->processor.longest_ns / 1e3);
        (void)note_undisturbed(row, pushes, witness);
        ps_bench_row_detail(row, "pause_limit_us", 10000);
        ps_bench_row_detail(row, "overhead_bytes_a_row", ps_bench_table_alone_overhead(&table));
    }
    ps_bench_table_alone_close(&table);
    stop_toucher(&toucher);
    ps_release(ps_allocator_heap(), pushes);
    return status;
}

/* All that is wanted, and then it sleeps. A wake that comes meanwhile makes one turn more. */
static void touch(void *argument)
{
    struct toucher *toucher = argument;
    ps_mutex_lock(&toucher->mutex);
    while (!toucher->ending) {
        if (!toucher->woken)
            (void)ps_condition_wait(&toucher->changed, &toucher->mutex, PS_DEADLINE_NEVER);
        toucher->woken = false;
        /* Whoever wakes it meanwhile does not wait for the kernel. */
        ps_mutex_unlock(&toucher->mutex);
        while (ps_touch_ahead_turn(&toucher->ahead)) {
        }
        ps_mutex_lock(&toucher->mutex);
    }
    ps_mutex_unlock(&toucher->mutex);
}

/* Called by the pushing thread, in the time of a push: as a server's is. */
static void wake_toucher(void *self)
{
    struct toucher *toucher = self;
    ps_mutex_lock(&toucher->mutex);
    toucher->woken = true;
    ps_condition_signal_all(&toucher->changed);
    ps_mutex_unlock(&toucher->mutex);
}

/* In place, and not moved while the table has a pointer to it. */
static enum ps_status start_toucher(struct toucher *toucher, struct ps_error *error)
{
    *toucher = (struct toucher){.woken = false};
    ps_touch_ahead_init(&toucher->ahead, wake_toucher, toucher);
    ps_mutex_init(&toucher->mutex, PS_RANK_LEAF);
    ps_condition_init(&toucher->changed);
    return ps_thread_start(&toucher->thread, "touch", touch, toucher, error);
}

/* After the table, which has forgotten what it wanted. */
static void stop_toucher(struct toucher *toucher)
{
    ps_mutex_lock(&toucher->mutex);
    toucher->ending = true;
    ps_condition_signal_all(&toucher->changed);
    ps_mutex_unlock(&toucher->mutex);
    ps_thread_join(&toucher->thread);
    ps_condition_fini(&toucher->changed);
    ps_mutex_fini(&toucher->mutex);
    ps_touch_ahead_fini(&toucher->ahead);
}

/* Every push makes 10,000 rows. The table is as large as many are before the looking begins:
 * below that, an index is made anew in no time. Numbers that come one after the other have keys
 * in no order at all. */
static enum ps_status grow(struct ps_bench_table_alone *table, uint64_t rows, struct pushes *pushes,
                           struct ps_error *error)
{
    uint64_t numbers[PS_BENCH_TABLE_KEYS];
    /* A small --rows, as a test has it, still doubles. */
    uint64_t first = rows / 2 < GROWS_FROM ? rows / 2 : GROWS_FROM;
    /* Not timed: the first pushes find an index for nothing. */
    PS_TRY(ps_bench_table_alone_fill(table, first, error));
    begin(pushes);
    enum ps_status status = PS_OK;
    for (; first < rows && status == PS_OK; first += PS_BENCH_TABLE_KEYS) {
        for (uint64_t i = 0; i < PS_BENCH_TABLE_KEYS; i++)
            numbers[i] = first + i;
        status = timed_push(table, numbers, pushes, error);
    }
    ps_bench_theft_close(&pushes->theft);
    return status;
}

/* Both clocks are read around the same push; writing the keys into the message is in the one on
 * the wall, some microseconds of milliseconds. */
static enum ps_status timed_push(struct ps_bench_table_alone *table, const uint64_t *numbers,
                                 struct pushes *pushes, struct ps_error *error)
{
    ps_bench_theft_begin(&pushes->theft);
    struct noted push = {.from_ns = ps_clock_precise_ns()};
    /* The push times itself by processor time, without the writing of the keys. */
    PS_TRY(ps_bench_table_alone_push(table, numbers, &push.processor_ns, error));
    push.wall_ns = ps_clock_precise_ns() - push.from_ns;
    push.stolen_ns = ps_bench_theft_end(&pushes->theft);
    ps_bench_times_note(&pushes->wall, push.wall_ns);
    ps_bench_times_note(&pushes->processor, push.processor_ns);
    if (pushes->count < NOTED_MAX)
        pushes->noted[pushes->count] = push;
    else
        pushes->longest_later = (struct noted){
            .wall_ns = larger(pushes->longest_later.wall_ns, push.wall_ns),
            .processor_ns = larger(pushes->longest_later.processor_ns, push.processor_ns)};
    pushes->count++;
    return PS_OK;
}

/* By Adagrad, so that the file has states. The table is filled and pushed to by the thread that
 * measures, and read by the saver alone, as a server has it. Twice: the memory that old rows need
 * beside a first checkpoint comes from the system meanwhile, and is there for all later ones. */
enum ps_status ps_bench_table_hold(struct ps_bench *bench, struct ps_bench_witness *witness,
                                   struct ps_error *error)
{
    struct ps_bench_table_alone table;
    uint64_t rows = bench->options->rows;
    /* A later row may move none of those before: they lie in one array. */
    struct ps_bench_row *first =
        ps_bench_report_row(&bench->report, "push_beside_saving_16", push_bytes(), 1);
    struct ps_bench_row *again =
        ps_bench_report_row(&bench->report, "push_beside_saving_again_16", push_bytes(), 1);
    /* Every page may be there twice. */
    double bytes = (double)rows * (2 * 8 * WIDTH + 40);
    if (!ps_bench_table_fits(first, bytes) || !ps_bench_table_fits(again, bytes))
        return PS_OK;
    note_touch(first, bytes);
    struct pushes *times = ps_zeroed_array(ps_allocator_heap(), 3, sizeof *times);
    if (times == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for times");
    ps_bench_progress(bench, first->name);
    /* Old rows need memory, too. */
    struct toucher toucher;
    PS_TRY(start_toucher(&toucher, error));
    enum ps_status status =
        ps_bench_table_alone_open(&table, PS_RULE_ADAGRAD, WIDTH, &toucher.ahead, error);
    if (status == PS_OK)
        status = ps_bench_table_alone_fill(&table, rows, error);
    if (status == PS_OK) {
        ps_bench_fill_gradient(table.gradients, (size_t)PS_BENCH_TABLE_KEYS * WIDTH);
        status = settle(witness, bytes, error);
    }
    if (status == PS_OK)
        status = save_beside(bench, first, &table, times, witness, error);
    if (status == PS_OK)
        status = save_beside(bench, again, &table, times, witness, error);
    ps_bench_table_alone_close(&table);
    stop_toucher(&toucher);
    ps_release(ps_allocator_heap(), times);
    return status;
}

/* Quiet, beside the saver, and quiet again. The take is counted as a push: nobody pushes
 * meanwhile. What the pages that were copied take is the difference of the table's memory. */
static enum ps_status save_beside(struct ps_bench *bench, struct ps_bench_row *row,
                                  struct ps_bench_table_alone *table, struct pushes *times,
                                  struct ps_bench_witness *witness, struct ps_error *error)
{
    struct ps_bench_saver saver = {.folder = bench->folder};
    struct pushes *quiet = &times[0], *beside = &times[1], *after = &times[2];
    PS_TRY(push_random(bench, table, QUIET_PUSHES, NULL, quiet, error));
    /* Reduced at once: the rate is up to now. */
    const struct ps_bench_figures before = figures_of(quiet);
    PS_TRY(ps_bench_witness_watch(witness, error));
    /* As a snapshot does before its instant (server/core/update/parameter.c). */
    ps_row_hold_expect(table->table);
    /* Behind the quiet pushes, which may have made the last pages. */
    uint64_t bytes = ps_row_table_bytes(table->table);
    uint64_t start_ns = ps_clock_precise_ns();
    PS_TRY(ps_row_hold_take(table->table, &saver.hold, error));
    uint64_t take_ns = ps_clock_precise_ns() - start_ns;
    enum ps_status status = ps_bench_saver_start(&saver, error);
    /* Without a saver nobody would end these. */
    if (status == PS_OK)
        status = push_random(bench, table, UINT64_MAX, &saver.ended, beside, error);
    const struct ps_bench_figures meanwhile = figures_of(beside);
    uint64_t more_bytes = ps_row_table_bytes(table->table) - bytes;
    enum ps_status saved = ps_bench_saver_join(&saver, status == PS_OK ? error : NULL);
    ps_bench_witness_rest(witness);
    ps_row_hold_release(saver.hold);
    if (status == PS_OK)
        status = saved;
    /* The hold has been released: nothing is left open by leaving here. */
    PS_TRY(status);
    PS_TRY(push_random(bench, table, QUIET_PUSHES, NULL, after, error));
    const struct ps_bench_figures then = figures_of(after);
    ps_bench_row_add(row, &meanwhile);
    ps_bench_row_ratio(row, "quiet", meanwhile.per_second / before.per_second);
    ps_bench_row_ratio(row, "after_to_quiet", then.per_second / before.per_second);
    ps_bench_row_detail(row, "quiet_p50_us", before.p50_us);
    ps_bench_row_detail(row, "take_us", (double)take_ns / 1e3);
    ps_bench_row_detail(row, "longest_us", meanwhile.longest_us);
    ps_bench_row_detail(row, "longest_to_quiet", meanwhile.longest_us / before.p50_us);
    ps_bench_row_detail(row, "undisturbed_longest_to_quiet",
                        note_undisturbed(row, beside, witness) / before.p50_us);
    /* What the copying of pages costs by itself, without the waiting for a processor or for
     * memory's first touch by others. */
    ps_bench_row_detail(row, "longest_processor_to_quiet",
                        (double)beside->processor.longest_ns / 1e3 /
                            ps_bench_times_percentile_us(&quiet->processor, 0.5));
    ps_bench_row_detail(row, "copies_mib", (double)more_bytes / (1 << 20));
    ps_bench_row_detail(row, "file_mib", (double)saver.bytes / (1 << 20));
    ps_bench_row_detail(row, "saving_ms", (double)saver.taken_ns / 1e6);
    return PS_OK;
}

/* So many pushes, or until the flag is set; one at least. Numbers come from the version, so that
 * each measurement pushes to other rows. */
static enum ps_status push_random(struct ps_bench *bench, struct ps_bench_table_alone *table,
                                  uint64_t count, const atomic_bool *until, struct pushes *pushes,
                                  struct ps_error *error)
{
    uint64_t numbers[PS_BENCH_TABLE_KEYS];
    struct ps_random random;
    ps_random_init(&random, table->version);
    begin(pushes);
    enum ps_status status;
    /* One push at least, so that there is a longest one. */
    do {
        for (size_t i = 0; i < PS_BENCH_TABLE_KEYS; i++)
            numbers[i] = ps_random_below(&random, bench->options->rows);
        status = timed_push(table, numbers, pushes, error);
    } while (status == PS_OK && pushes->count < count && (until == NULL || !atomic_load(until)));
    ps_bench_theft_close(&pushes->theft);
    return status;
}
