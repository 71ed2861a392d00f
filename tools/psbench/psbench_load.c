/* SPDX-License-Identifier: Apache-2.0 */
/* Pushing and pulling through libpsclient, a thread for each operation in flight. A load is a
 * trainer without a model: it pushes one gradient again and again and pulls into buffers that
 * nobody reads. Values, gradient and learning rate are chosen so that every weight can be predicted
 * exactly (psbench_values.h), and every acknowledgement is counted, so that the check at the end
 * proves that each push was applied once and none was lost. Three ways of sending share this file's
 * begin and end of an operation. */
#include "tools/psbench/psbench_load.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "tools/optimizer_choice.h"
#include "tools/psbench/psbench_load_state.h"
#include "tools/psbench/psbench_values.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static enum ps_status allocate(struct ps_bench_load *load, struct ps_error *error);
static enum ps_status connect_client(struct ps_bench_load *load, struct ps_error *error);
static enum ps_status initialise(struct ps_bench_load *load, struct ps_error *error);
static enum ps_status initialise_all(struct ps_bench_load *load, const void *config,
                                     size_t config_size, struct ps_error *error);
static enum ps_status learn_versions(struct ps_bench_load *load, struct ps_error *error);
static enum ps_status pull_one(struct ps_bench_load *load, struct ps_bench_parameter *parameter,
                               uint64_t *version, struct ps_error *error);
static enum ps_status start_threads(struct ps_bench_load *load, enum ps_bench_operation operation,
                                    long long limit, struct ps_error *error);
static enum ps_status end_threads(struct ps_bench_load *load, struct ps_bench_figures *figures,
                                  struct ps_error *error);
static void worker_main(void *argument);
static bool work_once(struct ps_bench_worker *worker);

/* Versions are learnt even of parameters that were just made: a retried initialisation may have
 * come twice. A load that does not initialise waits until somebody has: pulling a parameter that is
 * not there fails. */
enum ps_status ps_bench_load_open(const struct ps_bench_load_wish *wish, struct ps_bench_load **out,
                                  struct ps_error *error)
{
    struct ps_bench_load *load = ps_zeroed(ps_allocator_heap(), sizeof *load);
    if (load == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the load");
    load->wish = *wish;
    /* A failure anywhere closes what is there: close accepts a load that is half made. */
    enum ps_status status = allocate(load, error);
    if (status == PS_OK)
        status = connect_client(load, error);
    if (status == PS_OK && wish->initialise)
        status = initialise(load, error);
    if (status == PS_OK)
        status = learn_versions(load, error);
    if (status != PS_OK) {
        ps_bench_load_close(load);
        return status;
    }
    *out = load;
    return PS_OK;
}

/* All memory is taken and touched here; a run allocates nothing. */
static enum ps_status allocate(struct ps_bench_load *load, struct ps_error *error)
{
    const struct ps_allocator *memory = ps_allocator_heap();
    const struct ps_bench_load_wish *wish = &load->wish;
    load->parameters = ps_zeroed_array(memory, wish->parameter_count, sizeof *load->parameters);
    load->gradient = ps_plain(memory, wish->size);
    load->workers = ps_zeroed_array(memory, wish->outstanding, sizeof *load->workers);
    if (load->parameters == NULL || load->gradient == NULL || load->workers == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the load");
    for (uint64_t i = 0; i < wish->parameter_count; i++)
        (void)snprintf(load->parameters[i].name, PS_BENCH_NAME_MAX, "%.32s/%llu", wish->prefix,
                       /* Workers of one job have parameters of their own, told apart by their
                        * numbers. */
                       (unsigned long long)(wish->first_parameter + i));
    ps_bench_fill_gradient((float *)(void *)load->gradient, wish->size / sizeof(float));
    /* Each operation in flight pulls into memory of its own, since two answers into one buffer
     * would race. */
    for (uint64_t i = 0; i < wish->outstanding; i++) {
        load->workers[i].load = load;
        load->workers[i].number = i;
        load->workers[i].destination = ps_zeroed(memory, wish->size);
        if (load->workers[i].destination == NULL)
            return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %llu times %llu bytes",
                           (unsigned long long)wish->outstanding, (unsigned long long)wish->size);
    }
    return PS_OK;
}

/* The client goes before the buffers that it may still write to. */
void ps_bench_load_close(struct ps_bench_load *load)
{
    const struct ps_allocator *memory = ps_allocator_heap();
    if (load == NULL)
        return;
    psclient_close(load->client);
    for (uint64_t i = 0; load->workers != NULL && i < load->wish.outstanding; i++)
        ps_release(memory, load->workers[i].destination);
    ps_release(memory, load->workers);
    ps_release(memory, load->gradient);
    ps_release(memory, load->parameters);
    ps_release(memory, load);
}

/* Parameters stay whole: what is measured is a message of the size asked for. Parameters stay
 * whole: what is measured is a message of the size asked for, so the split is put beyond it. */
static enum ps_status connect_client(struct ps_bench_load *load, struct ps_error *error)
{
    const struct psclient_options options = {
        .servers = load->wish.servers,
        .etcd = load->wish.etcd,
        .job = load->wish.job,
        .split_bytes = UINT64_C(2) << 30,
        .busy_poll = load->wish.busy_poll_text,
        .tls_ca = load->wish.tls_ca,
        .encoding = (enum psclient_encoding)load->wish.encoding,
        .shared_memory =
            load->wish.shares ? PSCLIENT_SHARED_MEMORY_AUTO : PSCLIENT_SHARED_MEMORY_OFF,
    };
    struct psclient_error reason = {0};
    return ps_bench_load_status(psclient_open(&options, &load->client, &reason), &reason, error);
}

/* Once an encoding with a loss was used, values can no longer be predicted, in later runs
 * either. */
enum ps_status ps_bench_load_encode(struct ps_bench_load *load, enum ps_encoding encoding,
                                    struct ps_error *error)
{
    bool loses = encoding == PS_ENCODING_INT8 || encoding == PS_ENCODING_TOP_K;
    load->inexact = load->inexact || loses;
    load->wish.encoding = encoding;
    return ps_bench_load_reconnect(load, load->wish.servers, error);
}

/* The bare channel counts by itself; the client is closed during its runs. */
struct ps_bench_ways ps_bench_load_ways(const struct ps_bench_load *load)
{
    struct psclient_counters counters;
    if (load->wish.via == PS_BENCH_VIA_CHANNEL)
        return load->channel_ways;
    psclient_get_counters(load->client, &counters);
    return (struct ps_bench_ways){counters.shared_bytes};
}

/* Sessions begin anew with the client, as after a restart of a trainer. The address may be another
 * one: a restarted server listens on a new port. */
enum ps_status ps_bench_load_reconnect(struct ps_bench_load *load, const char *servers,
                                       struct ps_error *error)
{
    psclient_close(load->client);
    load->client = NULL;
    load->wish.servers = servers;
    return connect_client(load, error);
}

/* Another worker of the same job may have been selected; then there is nothing to do here. Selected
 * or not is decided by the servers, so several loads of one job may call this at once. */
static enum ps_status initialise(struct ps_bench_load *load, struct ps_error *error)
{
    struct psclient_error reason = {0};
    int selected = 0;
    int status = psclient_begin_init(load->client, PS_BENCH_ANSWER_MS, &selected, &reason);
    if (status != PSCLIENT_OK || !selected)
        return ps_bench_load_status(status, &reason, error);
    struct ps_buffer config;
    ps_buffer_init(&config, ps_allocator_heap(), 65536);
    enum ps_status done = ps_optimizer_choice("sgd", PS_BENCH_LEARNING_RATE, 0, &config, error);
    if (done == PS_OK)
        done = initialise_all(load, config.text, config.size, error);
    ps_buffer_fini(&config);
    if (done != PS_OK)
        return done;
    status = psclient_finish_init(load->client, PS_BENCH_ANSWER_MS, &reason);
    return ps_bench_load_status(status, &reason, error);
}

/* One call for each parameter, since batches have bounds and this is not measured. */
static enum ps_status initialise_all(struct ps_bench_load *load, const void *config,
                                     size_t config_size, struct ps_error *error)
{
    /* The first worker's buffer serves for the values of the start, before anything is pulled into
     * it. */
    uint8_t *start = load->workers[0].destination;
    ps_bench_fill_start((float *)(void *)start, load->wish.size / sizeof(float));
    for (uint64_t i = 0; i < load->wish.parameter_count; i++) {
        struct psclient_parameter parameter =
            ps_bench_load_pulled(load, &load->parameters[i], start);
        parameter.config = config;
        parameter.config_size = config_size;
        struct psclient_error reason = {0};
        int status = psclient_init(load->client, &parameter, 1, PS_BENCH_ANSWER_MS, NULL, &reason);
        PS_TRY(ps_bench_load_status(status, &reason, error));
    }
    return PS_OK;
}

/* Servers that were measured before go on from where they are: the count of pushes begins with the
 * version found. */
static enum ps_status learn_versions(struct ps_bench_load *load, struct ps_error *error)
{
    for (uint64_t i = 0; i < load->wish.parameter_count; i++) {
        uint64_t version = 0;
        PS_TRY(pull_one(load, &load->parameters[i], &version, error));
        atomic_store(&load->parameters[i].pushes, version);
    }
    return PS_OK;
}

/* Into the destination of the first worker. Through the library even when the load goes over the
 * bare channel: what is checked is what a trainer would see. */
static enum ps_status pull_one(struct ps_bench_load *load, struct ps_bench_parameter *parameter,
                               uint64_t *version, struct ps_error *error)
{
    struct psclient_parameter wish =
        ps_bench_load_pulled(load, parameter, load->workers[0].destination);
    struct psclient_error reason = {0};
    /* A run over the bare channel has closed it. */
    if (load->client == NULL)
        PS_TRY(connect_client(load, error));
    int status = psclient_pull(load->client, &wish, 1, PS_BENCH_ANSWER_MS, NULL, &reason);
    *version = wish.version;
    return ps_bench_load_status(status, &reason, error);
}

/* The version tells how many pushes were applied, each value tells that they were applied to it.
 * Beyond 2^22 pushes a float32 cannot hold the expected value exactly any more, so that the check
 * would mean nothing; that is an error of the run, not of the server. Versions are compared first,
 * because they name the kind of fault: a version too low is a push that was lost after its
 * acknowledgement, one too high a push that was applied twice. */
enum ps_status ps_bench_load_check(struct ps_bench_load *load, struct ps_error *error)
{
    const float *values = (const float *)(const void *)load->workers[0].destination;
    for (uint64_t i = 0; i < load->wish.parameter_count; i++) {
        struct ps_bench_parameter *parameter = &load->parameters[i];
        uint64_t pushes = atomic_load(&parameter->pushes);
        uint64_t version = 0;
        PS_TRY(pull_one(load, parameter, &version, error));
        if (version != pushes)
            return ps_fail(error, PS_ERR_CORRUPT,
                           "%s: %llu pushes acknowledged, but its version "
                           "is %llu",
                           parameter->name, (unsigned long long)pushes,
                           (unsigned long long)version);
        if (pushes > PS_BENCH_PUSHES_MAX)
            return ps_fail(error, PS_ERR_OUT_OF_RANGE,
                           "%s: %llu pushes are more than a float32 "
                           "can show; choose a shorter --time",
                           parameter->name, (unsigned long long)pushes);
        /* Content sent as int8 or top-k is not exactly the gradient; how often it was applied is
         * still exact. */
        if (load->inexact)
            continue;
        size_t wrong = ps_bench_count_wrong(values, load->wish.size / sizeof(float), pushes);
        if (wrong > 0)
            return ps_fail(error, PS_ERR_CORRUPT,
                           "%s: %zu values are not what %llu updates make "
                           "of them",
                           parameter->name, wrong, (unsigned long long)pushes);
    }
    return PS_OK;
}

/* The thread sleeps for the time and lets the workers work: looking at the clock in between would
 * take a core. */
enum ps_status ps_bench_load_run(struct ps_bench_load *load, enum ps_bench_operation operation,
                                 uint64_t time_ms, struct ps_bench_figures *figures,
                                 struct ps_error *error)
{
    PS_TRY(ps_bench_load_start(load, operation, error));
    (void)usleep((useconds_t)(time_ms * 1000));
    return ps_bench_load_finish(load, figures, error);
}

/* The limit is far beyond what any run does: the time ends such a load. */
enum ps_status ps_bench_load_start(struct ps_bench_load *load, enum ps_bench_operation operation,
                                   struct ps_error *error)
{
    return start_threads(load, operation, LLONG_MAX / 2, error);
}

/* A fixed count instead of a time, for filling a shard. */
enum ps_status ps_bench_load_do(struct ps_bench_load *load, enum ps_bench_operation operation,
                                uint64_t count, struct ps_bench_figures *figures,
                                struct ps_error *error)
{
    PS_TRY(start_threads(load, operation, (long long)count, error));
    return end_threads(load, figures, error);
}

/* Operations under way are waited for and counted, and the clock runs until then. */
enum ps_status ps_bench_load_finish(struct ps_bench_load *load, struct ps_bench_figures *figures,
                                    struct ps_error *error)
{
    atomic_store(&load->stop, true);
    return end_threads(load, figures, error);
}

/* Counters are reset before any thread runs. A thread that cannot be started stops those before it,
 * since a load with fewer threads than asked for would be another measurement. With one thread for
 * all operations, the first worker's thread runs for all of them; the others are slots without a
 * thread of their own. */
static enum ps_status start_threads(struct ps_bench_load *load, enum ps_bench_operation operation,
                                    long long limit, struct ps_error *error)
{
    load->operation = operation;
    atomic_store(&load->left, limit);
    atomic_store(&load->stop, false);
    for (uint64_t i = 0; i < load->wish.outstanding; i++) {
        struct ps_bench_worker *worker = &load->workers[i];
        worker->count = 0;
        memset(&worker->times, 0, sizeof worker->times);
        worker->error = (struct ps_error){0};
    }
    /* The three ways. Only the second has a thread for each operation in flight; it shows what a
     * trainer without asynchronous calls reaches. */
    static const ps_thread_fn runs[] = {[PS_BENCH_VIA_CLIENT] = ps_bench_operations_main,
                                        [PS_BENCH_VIA_THREADS] = worker_main,
                                        [PS_BENCH_VIA_CHANNEL] = ps_bench_channel_main};
    uint64_t thread_count = load->wish.via == PS_BENCH_VIA_THREADS ? load->wish.outstanding : 1;
    ps_thread_fn run = runs[load->wish.via];
    /* The library's threads and connection would compete with the channel for the same cores. */
    if (load->wish.via == PS_BENCH_VIA_CHANNEL) {
        psclient_close(load->client);
        load->client = NULL;
    }
    /* Before the first thread: starting threads is part of what a load costs, and far below a
     * thousandth of the time. */
    load->started_ns = ps_clock_precise_ns();
    for (load->thread_count = 0; load->thread_count < thread_count; load->thread_count++) {
        struct ps_bench_worker *worker = &load->workers[load->thread_count];
        enum ps_status status = ps_thread_start(&worker->thread, "worker", run, worker, error);
        if (status == PS_OK)
            continue;
        atomic_store(&load->stop, true);
        for (uint64_t i = 0; i < load->thread_count; i++)
            ps_thread_join(&load->workers[i].thread);
        return status;
    }
    return PS_OK;
}

/* The first worker's record takes up those of the others. The first failure is told; the figures
 * are filled in any case, and nobody uses them then. The time is taken when the last thread has
 * ended: the figure counts what was answered, over all the time that this took. */
static enum ps_status end_threads(struct ps_bench_load *load, struct ps_bench_figures *figures,
                                  struct ps_error *error)
{
    for (uint64_t i = 0; i < load->thread_count; i++)
        ps_thread_join(&load->workers[i].thread);
    uint64_t elapsed_ns = ps_clock_precise_ns() - load->started_ns;
    struct ps_bench_times *times = &load->workers[0].times;
    uint64_t count = 0;
    enum ps_status status = PS_OK;
    for (uint64_t i = 0; i < load->wish.outstanding; i++) {
        struct ps_bench_worker *worker = &load->workers[i];
        count += worker->count;
        if (i > 0)
            ps_bench_times_add(times, &worker->times);
        if (status == PS_OK && worker->error.status != PS_OK)
            status = ps_fail(error, worker->error.status, "%s", worker->error.text);
    }
    /* A rate of zero would divide by zero in every ratio. */
    if (status == PS_OK && count == 0)
        status = ps_fail(error, PS_ERR_TIMEOUT, "not one operation ended in the time measured");
    *figures = ps_bench_figures_of(count, elapsed_ns, times);
    return status;
}

/* The turn goes round through the parameters so that operations in flight are on different ones:
 * pushes to one parameter wait for each other on the server. The stop is obeyed only after a
 * worker's first operation, so that even a time of 1 ms has a result. */
bool ps_bench_load_begin(struct ps_bench_worker *worker)
{
    struct ps_bench_load *load = worker->load;
    bool over = atomic_load(&load->stop) && worker->count > 0;
    if (over || atomic_fetch_sub(&load->left, 1) <= 0)
        return false;
    uint64_t turn = worker->number + worker->count * load->wish.outstanding;
    worker->parameter = &load->parameters[turn % load->wish.parameter_count];
    worker->start_ns = ps_clock_precise_ns();
    return true;
}

/* The acknowledgement is counted before the time is taken; that is a few nanoseconds of every
 * operation, in all three ways alike. */
void ps_bench_load_end(struct ps_bench_worker *worker)
{
    if (worker->load->operation != PS_BENCH_PULL)
        ps_bench_load_acknowledged(worker->parameter);
    ps_bench_times_note(&worker->times, ps_clock_precise_ns() - worker->start_ns);
    worker->count++;
}

/* Atomic, since several threads push to one parameter when there are fewer of these than
 * operations. */
void ps_bench_load_acknowledged(struct ps_bench_parameter *parameter)
{
    (void)atomic_fetch_add(&parameter->pushes, 1);
}

/* The gradient's bytes are the same for all parameters: the server reads them once in any case. No
 * worker is named, so that the servers apply each push by itself. */
struct psclient_gradient ps_bench_load_gradient(const struct ps_bench_load *load,
                                                const struct ps_bench_parameter *parameter)
{
    return (struct psclient_gradient){.name = parameter->name,
                                      .type = PSCLIENT_FLOAT32,
                                      .content = load->gradient,
                                      .content_size = load->wish.size};
}

/* The version comes back in the structure. */
struct psclient_parameter ps_bench_load_pulled(const struct ps_bench_load *load,
                                               const struct ps_bench_parameter *parameter,
                                               void *content)
{
    return (struct psclient_parameter){.name = parameter->name,
                                       .type = PSCLIENT_FLOAT32,
                                       .content = content,
                                       .content_size = load->wish.size};
}

/* A worker ends at its first failure, which its error says. */
static void worker_main(void *argument)
{
    struct ps_bench_worker *worker = argument;
    while (ps_bench_load_begin(worker)) {
        if (!work_once(worker))
            return;
        ps_bench_load_end(worker);
    }
}

/* False when it failed: the worker's error says why. Blocking calls: the library sends them from
 * this thread. The acknowledgement is taken from the library's word; what the server really did is
 * compared at the end. */
static bool work_once(struct ps_bench_worker *worker)
{
    struct ps_bench_load *load = worker->load;
    struct psclient_error reason = {0};
    const struct psclient_gradient gradient = ps_bench_load_gradient(load, worker->parameter);
    struct psclient_parameter pulled =
        ps_bench_load_pulled(load, worker->parameter, worker->destination);
    int status;
    if (load->operation == PS_BENCH_PUSH)
        status = psclient_push(load->client, &gradient, 1, PS_BENCH_ANSWER_MS, NULL, &reason);
    else if (load->operation == PS_BENCH_PULL)
        status = psclient_pull(load->client, &pulled, 1, PS_BENCH_ANSWER_MS, NULL, &reason);
    else
        status = psclient_push_pull(load->client, &gradient, &pulled, 1, PS_BENCH_ANSWER_MS, NULL,
                                    &reason);
    return ps_bench_load_status(status, &reason, &worker->error) == PS_OK;
}

/* All failures of the library are "unavailable" here; the words say which it was. */
enum ps_status ps_bench_load_status(int status, const struct psclient_error *reason,
                                    struct ps_error *error)
{
    if (status == PSCLIENT_OK)
        return PS_OK;
    return ps_fail(error, PS_ERR_UNAVAILABLE, "%.200s (%s)", reason->text,
                   psclient_status_name((enum psclient_status)status));
}
