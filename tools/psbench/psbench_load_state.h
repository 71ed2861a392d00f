/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a load, shared by the threads that push through libpsclient (psbench_load.c) and
 * the one that uses the bare channel (psbench_channel.c).
 *
 * Threads:  what threads share is atomic or constant while they run; a worker belongs to one.
 * Blocking: as said at each function.
 * Errors:   a worker keeps its first.
 * Memory:   everything belongs to the load.
 */
#ifndef PS_TOOLS_PSBENCH_LOAD_STATE_H
#define PS_TOOLS_PSBENCH_LOAD_STATE_H

#include "base/alloc.h"
#include "base/thread.h"
#include "client/psclient.h"
#include "tools/psbench/psbench_load.h"

#include <stdatomic.h>

#define PS_BENCH_NAME_MAX 64

/* For one answer. Nothing that is measured comes near it. */
#define PS_BENCH_ANSWER_MS 60000

struct ps_bench_parameter {
    char name[PS_BENCH_NAME_MAX];
    atomic_ullong pushes; /* that were acknowledged, and those of before */
};

/* One thread, or one slot of the channel's only thread. */
struct ps_bench_worker {
    struct ps_bench_load *load;
    uint64_t number;
    uint8_t *destination; /* of pulls; owned */
    struct ps_thread thread;
    struct ps_bench_parameter *parameter; /* of the operation under way */
    uint64_t start_ns;                    /* of it */
    uint64_t count;
    struct ps_bench_times times;
    struct ps_error error;
};

struct ps_bench_load {
    struct ps_bench_load_wish wish; /* texts are borrowed */
    struct psclient *client;        /* owned */
    struct ps_bench_parameter *parameters;
    uint8_t *gradient; /* owned */
    struct ps_bench_worker *workers;
    uint64_t thread_count; /* of those that were started */
    uint64_t started_ns;
    enum ps_bench_operation operation;
    bool inexact;                      /* some gradients were encoded with a loss */
    struct ps_bench_ways channel_ways; /* of the bare channels that were closed */
    atomic_bool stop;
    atomic_llong left; /* operations that may still begin */
};

/* Begins another operation, on worker->parameter, and notes its start. False: none is to begin any
 * more; however short the time is, each worker gets one. */
bool ps_bench_load_begin(struct ps_bench_worker *worker);

/* The worker's operation was answered, and well. */
void ps_bench_load_end(struct ps_bench_worker *worker);

/* Notes that a push was acknowledged. */
void ps_bench_load_acknowledged(struct ps_bench_parameter *parameter);

/* The load's gradient for `parameter`, and `parameter` as it is pulled into `content`, in the words
 * of libpsclient; both borrow from the load. */
struct psclient_gradient ps_bench_load_gradient(const struct ps_bench_load *load,
                                                const struct ps_bench_parameter *parameter);
struct psclient_parameter ps_bench_load_pulled(const struct ps_bench_load *load,
                                               const struct ps_bench_parameter *parameter,
                                               void *content);

/* The thread of a load over the bare channel, and that of asynchronous operations; `argument` is
 * its first worker. */
void ps_bench_channel_main(void *argument);
void ps_bench_operations_main(void *argument);

/* What libpsclient said, in our words. */
PS_MUST_USE enum ps_status ps_bench_load_status(int status, const struct psclient_error *reason,
                                                struct ps_error *error);

#endif
