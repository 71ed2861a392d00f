/* SPDX-License-Identifier: Apache-2.0 */
/* One push is read, looked at, prepared and applied, as the server's update does it. Keys are
 * put into the message before the time begins: a client has done that. What a server does beside
 * it for each push (the session, the journal, the answer) is the same for any parameter, and is
 * measured by the other benchmarks. */
#include "tools/psbench/psbench_table_alone.h"

#include "base/clock.h"
#include "optimizer/optimizer.h"
#include "server/core/tables/row_pull.h"
#include "server/core/tables/row_push.h"
#include "tools/psbench/psbench_keys.h"
#include "tools/psbench/psbench_values.h"

#include <string.h>

static struct ps_row_table_options describe(const struct ps_optimizer_settings *settings);
static enum ps_status push_content(struct ps_bench_table_alone *alone, struct ps_error *error);
static enum ps_status apply(struct ps_bench_table_alone *alone, struct ps_row_push *push,
                            struct ps_error *error);

/* Keys and gradients lie one behind the other, as they come in a message; so the table reads
 * what a server would read. The numbers of the rules are those of the plain array. */
enum ps_status ps_bench_table_alone_open(struct ps_bench_table_alone *alone, enum ps_rule rule,
                                         uint32_t width, struct ps_touch_ahead *ahead,
                                         struct ps_error *error)
{
    size_t key_bytes = PS_BENCH_TABLE_KEYS * sizeof(uint64_t);
    *alone = (struct ps_bench_table_alone){
        .settings = {.rule = rule,
                     .learning_rate = {.rate = PS_BENCH_LEARNING_RATE},
                     .epsilon = 1e-7,
                     .ftrl_beta = 1,
                     .table = {.width = width}}};
    alone->content_bytes = key_bytes + PS_BENCH_TABLE_KEYS * width * sizeof(float);
    alone->content = ps_zeroed(ps_allocator_heap(), alone->content_bytes);
    if (alone->content == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a push");
    /* Aligned, since the keys before it are of 8 bytes each. */
    alone->gradients = (float *)(alone->content + key_bytes);
    /* The table has a copy of all of it. */
    struct ps_row_table_options options = describe(&alone->settings);
    options.ahead = ahead;
    return ps_row_table_create(&options, &alone->table, error);
}

/* States begin at 0, as those of the plain array do. */
static struct ps_row_table_options describe(const struct ps_optimizer_settings *settings)
{
    struct ps_row_table_options options = {
        .memory = ps_allocator_heap(),
        .layout = {.dtype = PS_F32,
                   .width = settings->table.width,
                   .state_count = ps_rule_states(settings->rule)},
        .settings = settings->table,
        .repeats = PS_ROW_SUM,
        .id = 1};
    for (uint32_t i = 0; i < options.layout.state_count; i++)
        options.layout.state_start[i] = ps_optimizer_state_start(settings, i);
    return options;
}

/* Holds on the table have been released before. */
void ps_bench_table_alone_close(struct ps_bench_table_alone *alone)
{
    ps_row_table_destroy(alone->table);
    ps_release(ps_allocator_heap(), alone->content);
    *alone = (struct ps_bench_table_alone){.table = NULL};
}

/* The last push has some rows for a second time, which changes nothing. */
enum ps_status ps_bench_table_alone_fill(struct ps_bench_table_alone *alone, uint64_t rows,
                                         struct ps_error *error)
{
    uint64_t numbers[PS_BENCH_TABLE_KEYS];
    for (uint64_t first = 0; first < rows; first += PS_BENCH_TABLE_KEYS) {
        for (uint64_t i = 0; i < PS_BENCH_TABLE_KEYS; i++)
            /* All pushes have as many keys, also the last one. */
            numbers[i] = first + i < rows ? first + i : rows - 1;
        PS_TRY(ps_bench_table_alone_push(alone, numbers, NULL, error));
    }
    return PS_OK;
}

/* Also for a pull, whose message has keys alone. */
static void write_keys(struct ps_bench_table_alone *alone, const uint64_t *numbers)
{
    for (size_t i = 0; i < PS_BENCH_TABLE_KEYS; i++) {
        uint64_t key = ps_bench_key_of(numbers[i]);
        memcpy(alone->content + i * sizeof key, &key, sizeof key);
    }
}

/* Time on the wall would have in it whatever else the machine does; the table neither waits nor
 * sleeps, so that processor time is what it takes. */
enum ps_status ps_bench_table_alone_push(struct ps_bench_table_alone *alone,
                                         const uint64_t *numbers, uint64_t *taken_ns,
                                         struct ps_error *error)
{
    write_keys(alone, numbers);
    uint64_t start_ns = ps_clock_thread_ns();
    PS_TRY(push_content(alone, error));
    if (taken_ns != NULL)
        *taken_ns = ps_clock_thread_ns() - start_ns;
    return PS_OK;
}

/* Allocating and releasing the push is part of the time, as it is of a server's. */
static enum ps_status push_content(struct ps_bench_table_alone *alone, struct ps_error *error)
{
    struct ps_row_push *push = NULL;
    const struct ps_bytes content = {alone->content, alone->content_bytes};
    PS_TRY(ps_row_push_read(alone->table, ps_view_of(&content), &push, error));
    enum ps_status status = apply(alone, push, error);
    ps_row_push_release(push);
    return status;
}

/* No limit of memory but the machine's. */
static enum ps_status apply(struct ps_bench_table_alone *alone, struct ps_row_push *push,
                            struct ps_error *error)
{
    struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    /* Whole, though SGD asks for nothing of it: what a server looks at is part of a push. */
    ps_row_push_scan(push, &alone->settings, &scan);
    PS_TRY(
        ps_optimizer_prepare(&alone->settings, PS_F32, alone->version + 1, 1, &scan, &step, error));
    PS_TRY(ps_row_push_prepare(push, UINT64_MAX, error));
    ps_row_push_apply(push, &step, ++alone->version);
    return PS_OK;
}

/* The keys are written into the same message as those of a push, whose gradients stay. */
enum ps_status ps_bench_table_alone_pull(struct ps_bench_table_alone *alone,
                                         const uint64_t *numbers, float *to, uint64_t *taken_ns,
                                         struct ps_error *error)
{
    const struct ps_bytes keys = {alone->content, PS_BENCH_TABLE_KEYS * sizeof(uint64_t)};
    write_keys(alone, numbers);
    uint64_t start_ns = ps_clock_thread_ns();
    PS_TRY(ps_row_table_get(alone->table, ps_view_of(&keys), to, error));
    if (taken_ns != NULL)
        *taken_ns = ps_clock_thread_ns() - start_ns;
    return PS_OK;
}

/* Index, directories, keys and versions, and what is free in pages and index. */
double ps_bench_table_alone_overhead(const struct ps_bench_table_alone *alone)
{
    uint64_t rows = ps_row_table_rows(alone->table);
    /* The row as the plain array has it. */
    uint64_t arrays = 1 + ps_rule_states(alone->settings.rule);
    uint64_t payload = rows * alone->settings.table.width * arrays * sizeof(float);
    return ((double)ps_row_table_bytes(alone->table) - (double)payload) / (double)rows;
}
