/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of rows beside plain arrays of the same rows, in the same repeats: first the table
 * alone, by width, rule and distribution of keys; then while it grows and while it is saved;
 * then through a client. Times of the table alone are processor time of its thread, which others
 * on the machine do not disturb. */
#include "tools/psbench/psbench_table.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "tools/psbench/psbench_plain_rows.h"
#include "tools/psbench/psbench_table_alone.h"
#include "tools/psbench/psbench_values.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Batches that are drawn. A repeat measures a quarter of them, and the next one another quarter;
 * less for a --time below a second. */
#define BATCHES 200
#define BATCHES_MAX (BATCHES / 4)

static const uint32_t widths[] = {1, 16, 64};
static const enum ps_rule rules[] = {PS_RULE_SGD, PS_RULE_ADAGRAD, PS_RULE_FTRL};
enum { WIDTHS = PS_ARRAY_COUNT(widths), RULES = PS_ARRAY_COUNT(rules) };

/* Shares of the plain array that a table is to reach; 0: none is set. */
static const struct {
    double get, add[RULES];
} targets[WIDTHS] = {{0.13, {0.11, 0.13, 0}}, {0.20, {0.17, 0.25, 0}}, {0.40, {0.35, 0.50, 0}}};

/* One table and one array of one width and rule. */
struct pair {
    struct ps_bench *bench;
    size_t width, rule; /* indices into the lists above */
    struct ps_bench_table_alone table;
    struct ps_bench_plain_rows plain;
    uint64_t *numbers; /* owned; of all batches */
    float *pulled;     /* owned; of one batch */
};

/* One repeat, in nanoseconds of processor time. */
struct spent {
    uint64_t batches;
    uint64_t plain_get, table_get, plain_add, table_add;
};

static enum ps_status measure_tables(struct ps_bench *bench, struct ps_bench_witness *witness,
                                     struct ps_error *error);
static enum ps_status measure_pair(struct ps_bench *bench, size_t width, size_t rule,
                                   struct ps_error *error);
static enum ps_status open_pair(struct pair *pair, struct ps_error *error);
static void close_pair(struct pair *pair);
static enum ps_status measure_keys(struct pair *pair, enum ps_bench_keys keys,
                                   struct ps_error *error);
static enum ps_status run_repeat(struct pair *pair, uint64_t repeat, struct spent *spent,
                                 struct ps_error *error);
static void report(struct pair *pair, enum ps_bench_keys keys, const struct spent *spent);
static void report_row(struct ps_bench_row *row, uint64_t batches, uint64_t table_ns,
                       uint64_t plain_ns, double target);
static struct ps_bench_row *row_of(struct pair *pair, bool adds, enum ps_bench_keys keys);
static enum ps_status check_pair(struct pair *pair, struct ps_error *error);

/* Is that part asked for, by itself or with all? */
static bool measures(const struct ps_bench *bench, const char *part)
{
    return strcmp(bench->options->part, "all") == 0 || strcmp(bench->options->part, part) == 0;
}

/* The witness comes before any table, when there is little memory that the two would share. */
enum ps_status ps_bench_table(struct ps_bench *bench, struct ps_error *error)
{
    struct ps_bench_witness witness;
    /* What goes through a client needs none, and no table in this process. */
    if (strcmp(bench->options->part, "remote") == 0)
        return ps_bench_table_remote(bench, error);
    PS_TRY(ps_bench_witness_open(&witness, error));
    enum ps_status status = measure_tables(bench, &witness, error);
    ps_bench_witness_close(&witness);
    return status;
}

/* Tables come and go one by one: at ten million rows the largest of them, with its array, takes
 * half of the memory of a usual machine. */
static enum ps_status measure_tables(struct ps_bench *bench, struct ps_bench_witness *witness,
                                     struct ps_error *error)
{
    bool all = strcmp(bench->options->part, "all") == 0;
    bench->steps = bench->options->repeat * PS_BENCH_KEYS_COUNT * WIDTHS * RULES + 12;
    for (size_t width = 0; width < WIDTHS && measures(bench, "arrays"); width++) {
        if (bench->options->width != 0 && bench->options->width != widths[width])
            continue;
        /* One pair at a time. */
        for (size_t rule = 0; rule < RULES; rule++)
            PS_TRY(measure_pair(bench, width, rule, error));
    }
    /* All of them are of rows of 16 elements. By itself a part meets no memory that a table before
     * it has given back: a machine that takes it to its host stands still for that. */
    bool of_16 = bench->options->width == 0 || bench->options->width == 16;
    if (of_16 && measures(bench, "growth"))
        PS_TRY(ps_bench_table_growth(bench, witness, error));
    if (of_16 && measures(bench, "saving"))
        PS_TRY(ps_bench_table_hold(bench, witness, error));
    if (of_16 && all)
        PS_TRY(ps_bench_table_sweep(bench, error));
    if (of_16 && all)
        PS_TRY(ps_bench_table_limit(bench, error));
    return all ? ps_bench_table_remote(bench, error) : PS_OK;
}

/* What the kernel says it can give now. A table that is swapped out measures the disk. */
bool ps_bench_table_fits(struct ps_bench_row *row, double bytes)
{
    /* Asked anew for each table, since those before have been given back. */
    double there = (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (bytes <= there)
        return true;
    (void)snprintf(row->unsupported, sizeof row->unsupported, "%.1f GiB of memory are not free",
                   bytes / (1 << 30));
    return false;
}

/* Rows, index and a plain array of the same; the report has a row also where there is no memory. */
static enum ps_status measure_pair(struct ps_bench *bench, size_t width, size_t rule,
                                   struct ps_error *error)
{
    /* What is not opened yet is zero, so that closing it is safe from here on. */
    struct pair pair = {.bench = bench, .width = width, .rule = rule};
    /* A row of the table and one of the array, and what the table has beside. */
    double row_bytes = 4.0 * widths[width] * (1 + ps_rule_states(rules[rule]));
    double bytes = (double)bench->options->rows * (2 * row_bytes + 24);
    bool fits = true;
    for (int keys = 0; keys < PS_BENCH_KEYS_COUNT; keys++) {
        /* Rows of the report come in the order in which they are first named: Get before Add. */
        if (rule == 0)
            fits = ps_bench_table_fits(row_of(&pair, false, (enum ps_bench_keys)keys), bytes);
        fits = ps_bench_table_fits(row_of(&pair, true, (enum ps_bench_keys)keys), bytes) && fits;
    }
    if (!fits)
        return PS_OK;
    enum ps_status status = open_pair(&pair, error);
    for (int keys = 0; keys < PS_BENCH_KEYS_COUNT && status == PS_OK; keys++)
        status = measure_keys(&pair, (enum ps_bench_keys)keys, error);
    if (status == PS_OK)
        status = check_pair(&pair, error);
    close_pair(&pair);
    return status;
}

/* Filling is not measured here, since growth has a row of its own. The gradients are the same in
 * every push: what they are makes no difference to the time. */
static enum ps_status open_pair(struct pair *pair, struct ps_error *error)
{
    const struct ps_allocator *heap = ps_allocator_heap();
    uint32_t width = widths[pair->width];
    enum ps_rule rule = rules[pair->rule];
    uint64_t rows = pair->bench->options->rows;
    /* Some seconds, in which nothing is measured. */
    ps_bench_progress_name(pair->bench, "filling");
    pair->numbers = ps_zeroed_array(heap, (size_t)BATCHES * PS_BENCH_TABLE_KEYS, sizeof(uint64_t));
    pair->pulled = ps_zeroed_array(heap, (size_t)PS_BENCH_TABLE_KEYS * width, sizeof(float));
    if (pair->numbers == NULL || pair->pulled == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for batches");
    PS_TRY(ps_bench_plain_rows_open(&pair->plain, rows, width, ps_rule_states(rule), error));
    PS_TRY(ps_bench_table_alone_open(&pair->table, rule, width, NULL, error));
    PS_TRY(ps_bench_table_alone_fill(&pair->table, rows, error));
    ps_bench_fill_gradient(pair->table.gradients, (size_t)PS_BENCH_TABLE_KEYS * width);
    return PS_OK;
}

/* Accepts a pair whose opening failed anywhere. */
static void close_pair(struct pair *pair)
{
    ps_bench_table_alone_close(&pair->table);
    ps_bench_plain_rows_close(&pair->plain);
    ps_release(ps_allocator_heap(), pair->numbers);
    ps_release(ps_allocator_heap(), pair->pulled);
}

/* Half a million keys in each repeat of the usual second: fewer would measure the clock, more
 * nothing new. A test that only wants to see that it works asks for less. */
static uint64_t batches_of(const struct ps_bench_options *options)
{
    uint64_t batches = options->time_ms * BATCHES_MAX / 1000;
    if (batches > BATCHES_MAX)
        return BATCHES_MAX;
    return batches > 0 ? batches : 1;
}

/* Numbers are drawn before the time, and stay in memory: what is read from there is read by
 * both. */
static enum ps_status measure_keys(struct pair *pair, enum ps_bench_keys keys,
                                   struct ps_error *error)
{
    const struct ps_bench_options *options = pair->bench->options;
    ps_bench_keys_draw(keys, options->rows, pair->numbers, (size_t)BATCHES * PS_BENCH_TABLE_KEYS);
    /* Not counted: whoever comes first finds cold lines and memory that is not quite there. */
    struct spent warm_up = {.batches = batches_of(options)};
    PS_TRY(run_repeat(pair, 0, &warm_up, error));
    for (uint64_t repeat = 0; repeat < options->repeat; repeat++) {
        struct spent spent = {.batches = batches_of(options)};
        ps_bench_progress(pair->bench, row_of(pair, true, keys)->name);
        PS_TRY(run_repeat(pair, repeat, &spent, error));
        report(pair, keys, &spent);
    }
    return PS_OK;
}

/* The four take turns over the same batches. Each pass is over all of them, since one batch after
 * another by different code would find the lines of the other's in its caches. */
static enum ps_status run_repeat(struct pair *pair, uint64_t repeat, struct spent *spent,
                                 struct ps_error *error)
{
    const uint64_t *first = pair->numbers + repeat % 4 * BATCHES_MAX * PS_BENCH_TABLE_KEYS;
    const uint64_t *end = first + (size_t)spent->batches * PS_BENCH_TABLE_KEYS;
    uint64_t start_ns = ps_clock_thread_ns();
    for (const uint64_t *batch = first; batch < end; batch += PS_BENCH_TABLE_KEYS)
        ps_bench_plain_rows_get(&pair->plain, batch, PS_BENCH_TABLE_KEYS, pair->pulled);
    spent->plain_get = ps_clock_thread_ns() - start_ns;
    for (const uint64_t *batch = first; batch < end; batch += PS_BENCH_TABLE_KEYS) {
        uint64_t taken_ns = 0;
        /* Only the pull is in the time, not the writing of its message. */
        PS_TRY(ps_bench_table_alone_pull(&pair->table, batch, pair->pulled, &taken_ns, error));
        spent->table_get += taken_ns;
    }
    start_ns = ps_clock_thread_ns();
    for (const uint64_t *batch = first; batch < end; batch += PS_BENCH_TABLE_KEYS)
        ps_bench_plain_rows_add(&pair->plain, batch, PS_BENCH_TABLE_KEYS, pair->table.gradients);
    spent->plain_add = ps_clock_thread_ns() - start_ns;
    for (const uint64_t *batch = first; batch < end; batch += PS_BENCH_TABLE_KEYS) {
        uint64_t taken_ns = 0;
        PS_TRY(ps_bench_table_alone_push(&pair->table, batch, &taken_ns, error));
        spent->table_add += taken_ns;
    }
    return PS_OK;
}

/* Reading is the same whatever the rule, but for the states that lie between the rows: one rule is
 * enough. */
static void report(struct pair *pair, enum ps_bench_keys keys, const struct spent *spent)
{
    if (pair->rule == 0)
        report_row(row_of(pair, false, keys), spent->batches, spent->table_get, spent->plain_get,
                   targets[pair->width].get);
    struct ps_bench_row *row = row_of(pair, true, keys);
    report_row(row, spent->batches, spent->table_add, spent->plain_add,
               targets[pair->width].add[pair->rule]);
    ps_bench_row_detail(row, "overhead_bytes_a_row", ps_bench_table_alone_overhead(&pair->table));
}

/* Targets are of random keys; of frequent ones a plain array has most in its caches. The ratio
 * is formed within the repeat, as everywhere. The target stands as a figure beside it, so that a
 * page of figures says by itself what was asked. */
static void report_row(struct ps_bench_row *row, uint64_t batches, uint64_t table_ns,
                       uint64_t plain_ns, double target)
{
    const struct ps_bench_figures figures = ps_bench_figures_of(batches, table_ns, NULL);
    double keys = (double)batches * PS_BENCH_TABLE_KEYS;
    ps_bench_row_add(row, &figures);
    ps_bench_row_ratio(row, "plain_array", (double)plain_ns / (double)table_ns);
    ps_bench_row_detail(row, "million_keys_per_second", keys * 1e3 / (double)table_ns);
    ps_bench_row_detail(row, "plain_million_keys", keys * 1e3 / (double)plain_ns);
    /* A figure, and no verdict: what a machine under load falls short by says little. */
    if (target > 0 && strstr(row->name, "random") != NULL)
        ps_bench_row_detail(row, "target", target);
}

/* "get_16_random", "add_adagrad_16_zipf". A row is found again by its name, so nobody has to
 * keep it. */
static struct ps_bench_row *row_of(struct pair *pair, bool adds, enum ps_bench_keys keys)
{
    char name[PS_BENCH_ROW_NAME_BYTES];
    uint32_t width = widths[pair->width];
    (void)snprintf(name, sizeof name, "%s%s_%u_%s", adds ? "add_" : "get",
                   adds ? ps_rule_name(rules[pair->rule]) : "", width, ps_bench_keys_name(keys));
    /* Of a push; a pull has its keys in one message and its rows in the other. */
    uint64_t bytes = PS_BENCH_TABLE_KEYS * (sizeof(uint64_t) + width * sizeof(float));
    return ps_bench_report_row(&pair->bench->report, name, bytes, 1);
}

/* SGD with whole numbers is exact in any order, so that the table must have the array's bits.
 * The array was stepped for each repeat of a key and the table once for their sum: equal bits
 * show that none was lost and none was counted twice. */
static enum ps_status check_pair(struct pair *pair, struct ps_error *error)
{
    uint32_t width = widths[pair->width];
    size_t bytes = (size_t)PS_BENCH_TABLE_KEYS * width * sizeof(float);
    float *plain = ps_zeroed(ps_allocator_heap(), bytes);
    if (plain == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to compare rows");
    enum ps_status status = PS_OK;
    for (size_t batch = 0; batch < BATCHES && status == PS_OK && pair->rule == 0; batch++) {
        const uint64_t *numbers = pair->numbers + batch * PS_BENCH_TABLE_KEYS;
        ps_bench_plain_rows_get(&pair->plain, numbers, PS_BENCH_TABLE_KEYS, plain);
        /* The same rows from both, in the same order. */
        status = ps_bench_table_alone_pull(&pair->table, numbers, pair->pulled, NULL, error);
        if (status == PS_OK && memcmp(plain, pair->pulled, bytes) != 0)
            status = ps_fail(error, PS_ERR_CORRUPT, "the table differs from the plain array");
    }
    ps_release(ps_allocator_heap(), plain);
    return status;
}
