/* SPDX-License-Identifier: Apache-2.0 */
/* Servers without etcd are told which shard is theirs and how many there are; clients get their
 * addresses in the same order. What several servers have in common is started here, whatever pushes
 * to them: loads of psbench itself, or a trainer. */
#include "tools/psbench/psbench_job.h"

#include "base/assert.h"

#include <stdio.h>
#include <string.h>

/* Each server has a log and a folder named after its job and index, so that none of two jobs in one
 * run share a file. A job that fails half-way is closed by its owner. */
enum ps_status ps_bench_job_start(struct ps_bench_job *job, struct ps_bench *bench,
                                  const char *name, enum ps_bench_promise promise, uint64_t count,
                                  struct ps_error *error)
{
    PS_ASSERT(count > 0 && count <= PS_BENCH_JOB_SERVERS_MAX);
    job->promise = promise;
    job->server_count = count;
    for (uint64_t i = 0; i < count; i++) {
        /* The promise's suffix first, then the index: two names with one beginning stay apart. */
        char text[PS_BENCH_ROW_NAME_BYTES + 32];
        ps_bench_promised_name(name, promise, text);
        size_t length = strlen(text);
        (void)snprintf(text + length, sizeof text - length, "-%llu", (unsigned long long)i);
        struct ps_bench_server_wish wish =
            ps_bench_server_wish_of(bench, text, ps_bench_promise_ack(promise));
        wish.index = i;
        wish.count = count;
        PS_TRY(ps_bench_server_start(&job->servers[i], &wish, error));
        /* Ports are chosen by the kernel, so addresses are known only now. */
        size_t used = strlen(job->addresses);
        (void)snprintf(job->addresses + used, sizeof job->addresses - used, "%s%s",
                       i > 0 ? "," : "", job->servers[i].address);
    }
    return PS_OK;
}

/* Servers that were never started are passed by. */
void ps_bench_job_kill(struct ps_bench_job *job)
{
    for (uint64_t i = 0; i < job->server_count; i++)
        ps_bench_server_kill(&job->servers[i]);
}
