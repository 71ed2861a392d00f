/* SPDX-License-Identifier: Apache-2.0 */
/* What gRPC's C core alone can do: two processes of their own, one that gives every message back as
 * it came, one that sends them and waits on a completion queue. No protocol, no copy, no update, no
 * engine: what a call costs before anything of ours is done.
 *
 * Threads:  one; open it before any thread is started, since it forks.
 * Blocking: each run takes its time, at most half a minute more.
 * Errors:   PS_ERR_IO, PS_ERR_NO_MEMORY.
 * Memory:   each process holds a buffer of the largest size from open to close.
 */
#ifndef PS_TOOLS_PSBENCH_ECHO_H
#define PS_TOOLS_PSBENCH_ECHO_H

#include "base/busy_poll.h"
#include "base/status.h"
#include "tools/psbench/psbench_rows.h"
#include "tools/psbench/psbench_tls.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ps_bench_echo {
    pid_t server, client;
    int orders; /* socket to the client */
};

/* Starts both; messages have up to `size_max` bytes. `tls` is borrowed; NULL: plaintext. */
PS_MUST_USE enum ps_status ps_bench_echo_open(struct ps_bench_echo *echo, size_t size_max,
                                              struct ps_busy_poll_wish busy_poll,
                                              const struct ps_bench_tls *tls,
                                              struct ps_error *error);

/* Accepts a zeroed echo. */
void ps_bench_echo_close(struct ps_bench_echo *echo);

/* Sends `request` bytes and waits for `reply` bytes, with `outstanding` calls under way, for
 * `time_ms`. */
PS_MUST_USE enum ps_status ps_bench_echo_run(struct ps_bench_echo *echo, size_t request,
                                             size_t reply, uint64_t outstanding, uint64_t time_ms,
                                             struct ps_bench_figures *figures,
                                             struct ps_error *error);

#endif
