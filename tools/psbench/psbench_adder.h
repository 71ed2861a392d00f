/* SPDX-License-Identifier: Apache-2.0 */
/* A server program that adds, in a process of its own: it takes one request of every worker, adds
 * what each has pushed, and answers each with the sum so far.
 *
 * Threads:  start before any thread is started, since it forks.
 * Blocking: never; the process serves until it is killed, and dies with the thread that started it.
 * Errors:   PS_ERR_IO. What fails in the process ends it with a line on standard error.
 * Memory:   a pipe.
 */
#ifndef PS_TOOLS_PSBENCH_ADDER_H
#define PS_TOOLS_PSBENCH_ADDER_H

#include "base/status.h"

#include <stdint.h>
#include <sys/types.h>

struct ps_bench_adder {
    pid_t pid;  /* 0: not running */
    int orders; /* its end is the program's end; -1: none */
};

/* What it is told once there are servers. */
struct ps_bench_adder_order {
    char addresses[16 * 64];
    char busy_poll[32];
    uint32_t rank, workers;
    int is_tcp;
};

PS_MUST_USE enum ps_status ps_bench_adder_start(struct ps_bench_adder *adder,
                                                struct ps_error *error);
PS_MUST_USE enum ps_status ps_bench_adder_serve(struct ps_bench_adder *adder,
                                                const struct ps_bench_adder_order *order,
                                                struct ps_error *error);

/* Accepts one that is not running. */
void ps_bench_adder_end(struct ps_bench_adder *adder);

#endif
