/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of a sending and a receiving thread, each pair with a key of its own: values through a
 * server, as many at a time as there are pairs.
 *
 * Every value carries its number at its beginning, in its middle and at its end, and each receiver
 * checks that its values come in order, each once. A sender is at most a few values ahead of its
 * receiver: what waits at the server is bounded, as in a job that works in steps.
 *
 * Threads:  one runs pairs; their threads are its own.
 * Blocking: for the time, and until what was sent by then was received.
 * Errors:   the first of any pair; PS_ERR_CORRUPT-like mistakes of values are failures, too.
 * Memory:   two values for each pair, while it runs.
 */
#ifndef PS_TOOLS_PSBENCH_PAIRS_H
#define PS_TOOLS_PSBENCH_PAIRS_H

#include "base/thread.h"
#include "client/psclient.h"
#include "tools/psbench/psbench_rows.h"

#define PS_BENCH_PAIRS_MAX 64

/* One sender and its receiver. */
struct ps_bench_pair {
    struct ps_bench_pairs *run;
    struct ps_thread sender, receiver; /* both joined by the run */
    char key[32];
    uint8_t *sent_bytes, *received_bytes; /* owned; `size` of each */
    struct ps_mutex lock;
    struct ps_condition changed;
    uint64_t sent, received; /* under the lock */
    bool is_over;            /* under the lock: the sender has sent its last */
    struct ps_error error;   /* of whichever failed first; read when both have ended */
};

/* One measurement. */
struct ps_bench_pairs {
    struct psclient_rendezvous *from, *to; /* borrowed; of two clients, both of one step */
    uint64_t size, ahead, end_ns;          /* `ahead`: values that a sender may be */
    size_t pair_count;
    struct ps_bench_pair pairs[PS_BENCH_PAIRS_MAX];
};

/* Sends values of `size` bytes from steps[0] to steps[1] for `time_ms`, and at least a few of each
 * pair. Figures are of values that were received, over the time until the last one was. */
PS_MUST_USE enum ps_status ps_bench_pairs_run(struct ps_bench_pairs *pairs,
                                              struct psclient_rendezvous *const steps[2],
                                              uint64_t size, uint64_t pair_count, uint64_t ahead,
                                              uint64_t time_ms, struct ps_bench_figures *figures,
                                              struct ps_error *error);

#endif
