/* SPDX-License-Identifier: Apache-2.0 */
/* A table on a server, through libpsclient: one client, a thread of it for each call in flight.
 * Unless said otherwise keys are drawn out of a million rows, 100,000 a call, one call at a time:
 * what other parameter servers have been measured with (tests/bench/ps_lite). The client is on the
 * same processors as the server, and cuts, hashes and copies there: what it takes of two cores the
 * server does not have. A call of 100,000 keys is more than a message for wide rows; the client
 * cuts it. */
#include "base/alloc.h"
#include "base/clock.h"
#include "client/psclient.h"
#include "tools/optimizer_choice.h"
#include "tools/psbench/psbench_load_state.h"
#include "tools/psbench/psbench_promise.h"
#include "tools/psbench/psbench_server.h"
#include "tools/psbench/psbench_table.h"
#include "tools/psbench/psbench_team.h"
#include "tools/psbench/psbench_values.h"

#include <stdio.h>
#include <string.h>

/* Of a run that measures all parts; one of this part alone has as many as are asked for. */
#define ROWS_MAX 1000000
/* Of the calls that ps-lite's figures below are of. */
#define KEYS_ELSEWHERE 100000
#define BATCHES 8

static const uint32_t widths[] = {1, 16, 64};
enum { WIDTHS = PS_ARRAY_COUNT(widths) };

/* Million keys in a second that ps-lite moves over loopback, 100,000 random keys of a million rows
 * a call, measured on another machine (an EPYC with 32 MB of cache): a hint, and no ratio. What it
 * does on this one says tests/bench/ps_lite/run.py, which needs a checkout of it. */
static const double pushed_elsewhere[WIDTHS] = {17.6, 4.8, 3.7};
static const double pulled_elsewhere[WIDTHS] = {19.4, 8.9, 4.2};

struct remote {
    struct ps_bench *bench;
    enum ps_bench_promise promise;
    struct ps_bench_server server;
    struct psclient *client;
    struct psclient_table *table; /* of the width that is measured */
    uint64_t rows, time_ms;
    size_t call_keys; /* of one call */
    uint64_t *keys;   /* owned; of all batches */
    float *gradients; /* owned; of one call of the widest rows */
    float *pulled;    /* owned; the same for each call in flight */
    bool adds;        /* what is measured now */
};

static enum ps_status measure_promise(struct ps_bench *bench, enum ps_bench_promise promise,
                                      struct ps_error *error);
static enum ps_status open_remote(struct remote *remote, struct ps_error *error);
static void close_remote(struct remote *remote);
static enum ps_status define(struct remote *remote, uint32_t width, struct ps_error *error);
static enum ps_status fill(struct remote *remote, struct ps_error *error);
static enum ps_status measure_width(struct remote *remote, size_t width, struct ps_error *error);
static enum ps_status run(struct remote *remote, bool adds, const char *name, double elsewhere,
                          struct ps_error *error);
static enum ps_status step(void *self, uint64_t worker, uint64_t round, struct ps_error *error);
static enum ps_status call(struct remote *remote, bool adds, const uint64_t *keys, size_t count,
                           float *pulled, struct ps_error *error);

/* MEMORY and LOGGED one after the other: two servers at once would share two cores. */
enum ps_status ps_bench_table_remote(struct ps_bench *bench, struct ps_error *error)
{
    const char *ack = bench->options->ack;
    if (strcmp(ack, "logged") != 0)
        PS_TRY(measure_promise(bench, PS_BENCH_MEMORY, error));
    if (strcmp(ack, "memory") != 0)
        PS_TRY(measure_promise(bench, PS_BENCH_LOGGED, error));
    return PS_OK;
}

/* A server of its own for each promise, with all its tables. */
static enum ps_status measure_promise(struct ps_bench *bench, enum ps_bench_promise promise,
                                      struct ps_error *error)
{
    struct remote remote = {.bench = bench, .promise = promise};
    ps_bench_progress(bench, promise == PS_BENCH_LOGGED ? "remote, logged" : "remote");
    enum ps_status status = open_remote(&remote, error);
    for (size_t i = 0; i < WIDTHS && status == PS_OK; i++) {
        if (bench->options->width == 0 || bench->options->width == widths[i])
            status = measure_width(&remote, i, error);
    }
    close_remote(&remote);
    return status;
}

/* The table of the first width comes with the initialisation of the job, the others later. */
static enum ps_status open_remote(struct remote *remote, struct ps_error *error)
{
    const struct ps_allocator *heap = ps_allocator_heap();
    const struct ps_bench_options *options = remote->bench->options;
    char name[PS_BENCH_ROW_NAME_BYTES];
    bool alone = strcmp(options->part, "remote") == 0;
    /* A smaller --rows, as a test has it, is taken as it is. */
    remote->rows = alone || options->rows < ROWS_MAX ? options->rows : ROWS_MAX;
    remote->time_ms = alone ? options->time_ms : ps_bench_reference_ms(remote->bench);
    remote->call_keys = (size_t)options->keys;
    size_t row_bytes = widths[WIDTHS - 1] * sizeof(float);
    remote->keys = ps_zeroed_array(heap, remote->call_keys * BATCHES, sizeof *remote->keys);
    remote->gradients = ps_zeroed_array(heap, remote->call_keys, row_bytes);
    remote->pulled =
        ps_zeroed_array(heap, remote->call_keys * (size_t)options->outstanding, row_bytes);
    if (remote->keys == NULL || remote->gradients == NULL || remote->pulled == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for batches");
    ps_bench_promised_name("server", remote->promise, name);
    struct ps_bench_server_wish wish =
        ps_bench_server_wish_of(remote->bench, name, ps_bench_promise_ack(remote->promise));
    /* The server has one shard, and so one table of each width. */
    PS_TRY(ps_bench_server_start(&remote->server, &wish, error));
    /* Over TCP, as from another host, unless --transport says otherwise. */
    const struct psclient_options client = {.servers = remote->server.address,
                                            .busy_poll = options->busy_poll_text,
                                            .shared_memory = strcmp(options->transport, "tcp") != 0
                                                                 ? PSCLIENT_SHARED_MEMORY_AUTO
                                                                 : PSCLIENT_SHARED_MEMORY_OFF};
    struct psclient_error reason = {0};
    PS_TRY(ps_bench_load_status(psclient_open(&client, &remote->client, &reason), &reason, error));
    /* The server is this run's own, so that nobody else can be selected. */
    int selected = 0;
    PS_TRY(ps_bench_load_status(
        psclient_begin_init(remote->client, PS_BENCH_ANSWER_MS, &selected, &reason), &reason,
        error));
    PS_TRY(define(remote, options->width != 0 ? (uint32_t)options->width : widths[0], error));
    return ps_bench_load_status(psclient_finish_init(remote->client, PS_BENCH_ANSWER_MS, &reason),
                                &reason, error);
}

/* Accepts what a failure left half open. */
static void close_remote(struct remote *remote)
{
    const struct ps_allocator *heap = ps_allocator_heap();
    psclient_table_close(remote->table);
    psclient_close(remote->client);
    ps_bench_server_kill(&remote->server);
    ps_release(heap, remote->keys);
    ps_release(heap, remote->gradients);
    ps_release(heap, remote->pulled);
}

/* Plain SGD at the rate at which all values stay whole numbers of halves. */
static enum ps_status define(struct remote *remote, uint32_t width, struct ps_error *error)
{
    struct ps_buffer config;
    char name[32];
    (void)snprintf(name, sizeof name, "rows_%u", width);
    ps_buffer_init(&config, ps_allocator_heap(), PS_CONFIG_BYTES_MAX);
    enum ps_status status = ps_optimizer_choice("sgd", PS_BENCH_LEARNING_RATE, 0, &config, error);
    if (status == PS_OK) {
        const struct psclient_table_options options = {.name = name,
                                                       .type = PSCLIENT_FLOAT32,
                                                       .width = width,
                                                       .config = config.text,
                                                       .config_size = config.size};
        /* The handle of the width before goes; its rows stay, and take memory, but nobody asks
         * for them. */
        struct psclient_error reason = {0};
        psclient_table_close(remote->table);
        remote->table = NULL;
        status =
            ps_bench_load_status(psclient_table_define(remote->client, &options, PS_BENCH_ANSWER_MS,
                                                       &remote->table, &reason),
                                 &reason, error);
    }
    ps_buffer_fini(&config);
    return status;
}

/* Every row is there before anything is timed. The gradients of this are zero. */
static enum ps_status fill(struct remote *remote, struct ps_error *error)
{
    size_t keys = remote->call_keys;
    size_t floats = keys * psclient_table_width(remote->table);
    /* They were filled for the table before. */
    memset(remote->gradients, 0, floats * sizeof(float));
    for (uint64_t first = 0; first < remote->rows; first += keys) {
        /* The last call may be shorter. */
        size_t count = remote->rows - first < keys ? (size_t)(remote->rows - first) : keys;
        for (size_t i = 0; i < count; i++)
            remote->keys[i] = ps_bench_key_of(first + i);
        PS_TRY(call(remote, true, remote->keys, count, NULL, error));
    }
    ps_bench_fill_gradient(remote->gradients, floats);
    ps_bench_keys_draw(PS_BENCH_KEYS_RANDOM, remote->rows, remote->keys, keys * BATCHES);
    /* In place: numbers are of no use any more. */
    for (size_t i = 0; i < keys * BATCHES; i++)
        remote->keys[i] = ps_bench_key_of(remote->keys[i]);
    return PS_OK;
}

/* Pushes and pulls take turns. Pulls have no promise: one of them is enough. */
static enum ps_status measure_width(struct remote *remote, size_t width, struct ps_error *error)
{
    const struct ps_bench_options *options = remote->bench->options;
    bool logged = remote->promise == PS_BENCH_LOGGED;
    char push[PS_BENCH_ROW_NAME_BYTES], pull[PS_BENCH_ROW_NAME_BYTES];
    PS_TRY(define(remote, widths[width], error));
    PS_TRY(fill(remote, error));
    /* Rows of MEMORY have plain names: pulls and pushes of a promise stand side by side. */
    (void)snprintf(push, sizeof push, "%s_%u", logged ? "remote_add_logged" : "remote_add",
                   widths[width]);
    (void)snprintf(pull, sizeof pull, "remote_get_%u", widths[width]);
    for (uint64_t repeat = 0; repeat < options->repeat; repeat++) {
        PS_TRY(run(remote, true, push, pushed_elsewhere[width], error));
        /* Beside a journal that nobody writes a pull is the same. */
        if (!logged)
            PS_TRY(run(remote, false, pull, pulled_elsewhere[width], error));
    }
    return PS_OK;
}

/* By the wall's clock: a server is another process. */
static enum ps_status run(struct remote *remote, bool adds, const char *name, double elsewhere,
                          struct ps_error *error)
{
    uint64_t outstanding = remote->bench->options->outstanding;
    struct ps_bench_team team = {
        .step = step, .self = remote, .worker_count = outstanding, .is_free = true};
    struct ps_bench_figures figures;
    remote->adds = adds;
    PS_TRY(ps_bench_team_run(&team, remote->time_ms, &figures, error));
    size_t keys = remote->call_keys;
    uint32_t width = psclient_table_width(remote->table);
    struct ps_bench_row *row =
        ps_bench_report_row(&remote->bench->report, name,
                            keys * (sizeof(uint64_t) + width * sizeof(float)), outstanding);
    ps_bench_row_add(row, &figures);
    ps_bench_row_detail(row, "million_keys_per_second", figures.per_second * (double)keys / 1e6);
    /* Beside, and not as a ratio: another machine had another memory. Of other calls it says
     * nothing. */
    if (keys == KEYS_ELSEWHERE && remote->rows == ROWS_MAX && outstanding == 1)
        ps_bench_row_detail(row, "ps_lite_elsewhere", elsewhere);
    return PS_OK;
}

/* Batches take turns, so that none finds its rows in the caches for being alone, and workers are
 * at different ones. */
static enum ps_status step(void *self, uint64_t worker, uint64_t round, struct ps_error *error)
{
    struct remote *remote = self;
    size_t keys = remote->call_keys;
    uint64_t batch = (round + worker * (BATCHES / 2 + 1)) % BATCHES;
    float *pulled = remote->pulled + worker * keys * psclient_table_width(remote->table);
    return call(remote, remote->adds, remote->keys + batch * keys, keys, pulled, error);
}

/* Both wait for their answers: a trainer's thread computes between them. */
static enum ps_status call(struct remote *remote, bool adds, const uint64_t *keys, size_t count,
                           float *pulled, struct ps_error *error)
{
    struct psclient_error reason = {0};
    int status =
        adds ? psclient_table_add(remote->table, keys, count, remote->gradients, PS_BENCH_ANSWER_MS,
                                  &reason)
             : psclient_table_get(remote->table, keys, count, pulled, PS_BENCH_ANSWER_MS, &reason);
    /* One message for both, with the client's own reason. */
    return ps_bench_load_status(status, &reason, error);
}
