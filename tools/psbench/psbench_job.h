/* SPDX-License-Identifier: Apache-2.0 */
/* The servers of one job, with one promise: several shards without etcd.
 *
 * Threads:  one; the servers die with the thread that started them.
 * Blocking: start waits until all serve.
 * Errors:   those of ps_bench_server_start.
 * Memory:   in place; servers that run stay where they are.
 */
#ifndef PS_TOOLS_PSBENCH_JOB_H
#define PS_TOOLS_PSBENCH_JOB_H

#include "tools/psbench/psbench_promise.h"

#define PS_BENCH_JOB_SERVERS_MAX 16

struct ps_bench_job {
    enum ps_bench_promise promise;
    uint64_t server_count;
    struct ps_bench_server servers[PS_BENCH_JOB_SERVERS_MAX];
    char addresses[PS_BENCH_JOB_SERVERS_MAX * 64]; /* with commas between, in the order of shards */
};

/* Starts `count` servers, whose logs and folders are called after `name` and the promise. `job` is
 * zeroed first, and to be closed in any case. */
PS_MUST_USE enum ps_status ps_bench_job_start(struct ps_bench_job *job, struct ps_bench *bench,
                                              const char *name, enum ps_bench_promise promise,
                                              uint64_t count, struct ps_error *error);

/* Kills them. Accepts a zeroed job. */
void ps_bench_job_kill(struct ps_bench_job *job);

#endif
