/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of synchronous rounds through sockets alone: a process for each server, a connection of
 * each worker to each. A process reads the part of every worker, and when it has all of them it
 * gives each as many bytes back. No protocol, nothing added up: the limit that rounds on one
 * machine are held against.
 *
 * Threads:  open it before any thread is started, since it forks; then as psbench_team.h says.
 * Blocking: a step until all workers have come to it, at most half a minute.
 * Errors:   PS_ERR_IO, PS_ERR_NO_MEMORY.
 * Memory:   a part for each worker, on both sides, from open to close.
 */
#ifndef PS_TOOLS_PSBENCH_RAW_ROUNDS_H
#define PS_TOOLS_PSBENCH_RAW_ROUNDS_H

#include "tools/psbench/psbench_team.h"

#include <stddef.h>
#include <sys/types.h>

#define PS_BENCH_RAW_SERVERS_MAX 16

struct ps_bench_raw_rounds {
    struct ps_bench_team team;
    uint64_t server_count;
    size_t part; /* bytes from one worker to one server, and back */
    pid_t processes[PS_BENCH_RAW_SERVERS_MAX];
    int sockets[PS_BENCH_TEAM_MAX][PS_BENCH_RAW_SERVERS_MAX];
    uint8_t *parts; /* owned; one for each worker */
};

/* `raw` is zeroed first, and to be closed in any case. */
PS_MUST_USE enum ps_status ps_bench_raw_rounds_open(struct ps_bench_raw_rounds *raw,
                                                    uint64_t worker_count, uint64_t server_count,
                                                    size_t part, struct ps_error *error);

/* Accepts a zeroed one. */
void ps_bench_raw_rounds_close(struct ps_bench_raw_rounds *raw);

#endif
