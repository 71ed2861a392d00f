/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that writes one instant of a table of 4-byte elements to a checkpoint while others push,
 * by the writer that a server has.
 *
 * Threads:  start and join by one; the rest is the saver's, until `ended`.
 * Blocking: join, until the file is written.
 * Errors:   of the thread from start, of the file from join.
 * Memory:   that of the writer, until the file is written. The file is removed then.
 */
#ifndef PS_TOOLS_PSBENCH_SAVER_H
#define PS_TOOLS_PSBENCH_SAVER_H

#include "base/thread.h"
#include "server/core/tables/row_hold.h"

#include <stdatomic.h>

struct ps_bench_saver {
    struct ps_row_hold *hold; /* borrowed until join; its rows are let go */
    const char *folder;       /* the same */
    atomic_bool ended;        /* set when all is done or has failed, and what follows is final */
    uint64_t bytes, taken_ns;
    struct ps_thread thread;
    struct ps_error error;
};

/* With hold and folder set and the rest zeroed. */
PS_MUST_USE enum ps_status ps_bench_saver_start(struct ps_bench_saver *saver,
                                                struct ps_error *error);

/* Of one that was started, or whose start failed. */
PS_MUST_USE enum ps_status ps_bench_saver_join(struct ps_bench_saver *saver,
                                               struct ps_error *error);

#endif
