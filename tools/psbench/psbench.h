/* SPDX-License-Identifier: Apache-2.0 */
/* What every benchmark of psbench is given, and the benchmarks.
 *
 * Threads:  one.
 * Blocking: for as long as measuring takes.
 * Errors:   the first; rows that were complete by then stay in the report.
 * Memory:   servers, clients and buffers of a benchmark are gone when it returns.
 */
#ifndef PS_TOOLS_PSBENCH_H
#define PS_TOOLS_PSBENCH_H

#include "base/status.h"
#include "tools/psbench/psbench_disk_ways.h"
#include "tools/psbench/psbench_load.h"
#include "tools/psbench/psbench_machine.h"
#include "tools/psbench/psbench_options.h"
#include "tools/psbench/psbench_rows.h"
#include "tools/psbench/psbench_server.h"

struct ps_bench {
    const struct ps_bench_options *options;
    const char *program;             /* of the server */
    const char *folder;              /* private; removed by others */
    struct ps_bench_machine machine; /* as it was before the run */
    struct ps_bench_report report;
    struct ps_bench_disk disk;  /* opened when first measured; ps_bench_run closes it */
    uint64_t steps, steps_done; /* for the bar */
};

/* Runs the benchmark that the options name. */
PS_MUST_USE enum ps_status ps_bench_run(struct ps_bench *bench, struct ps_error *error);

/* push, pull, pushpull, latency: one worker against sockets, memory and the update alone. */
PS_MUST_USE enum ps_status ps_bench_transfer(struct ps_bench *bench, struct ps_error *error);

/* Pushes in every encoding, beside those of float32. */
PS_MUST_USE enum ps_status ps_bench_encoding(struct ps_bench *bench, struct ps_error *error);

/* Many parameters as one step, beside single calls. */
PS_MUST_USE enum ps_status ps_bench_batch(struct ps_bench *bench, struct ps_error *error);

/* Replicas that are brought up to date, beside full pulls. */
PS_MUST_USE enum ps_status ps_bench_delta(struct ps_bench *bench, struct ps_error *error);

/* What it costs to have pushes on disk before they are acknowledged. With --pause: whether pushes
 * that do not wait for the disk ever stop because of it. */
PS_MUST_USE enum ps_status ps_bench_journal(struct ps_bench *bench, struct ps_error *error);
PS_MUST_USE enum ps_status ps_bench_pause(struct ps_bench *bench, struct ps_error *error);

/* What a checkpoint costs those who push meanwhile. */
PS_MUST_USE enum ps_status ps_bench_checkpoint(struct ps_bench *bench, struct ps_error *error);

/* How long a killed server takes to come back. */
PS_MUST_USE enum ps_status ps_bench_recover(struct ps_bench *bench, struct ps_error *error);

/* Steps of pstrain, which computes between pushes. */
PS_MUST_USE enum ps_status ps_bench_train(struct ps_bench *bench, struct ps_error *error);

/* Several workers, several servers. */
PS_MUST_USE enum ps_status ps_bench_scale(struct ps_bench *bench, struct ps_error *error);

/* Workers that train in rounds, beside the same bytes through sockets. */
PS_MUST_USE enum ps_status ps_bench_rounds(struct ps_bench *bench, struct ps_error *error);

/* Values from process to process, beside the same bytes over raw TCP, twice as they go. */
PS_MUST_USE enum ps_status ps_bench_rendezvous(struct ps_bench *bench, struct ps_error *error);

/* Workers that ask a server program, beside the same bytes through sockets. */
PS_MUST_USE enum ps_status ps_bench_asks(struct ps_bench *bench, struct ps_error *error);

/* The update loops beside the memory they run through; no server. */
PS_MUST_USE enum ps_status ps_bench_update(struct ps_bench *bench, struct ps_error *error);

/* Tables of rows by key beside plain arrays of the same rows, and through a client. */
PS_MUST_USE enum ps_status ps_bench_table(struct ps_bench *bench, struct ps_error *error);

/* Most of the others, one after the other, as a page with pictures in the folder of --output.
 * Leaves bench->report empty. */
PS_MUST_USE enum ps_status ps_bench_make_report(struct ps_bench *bench, struct ps_error *error);

/* ---- Shared by them ---- */

/* A server of this run's settings. */
struct ps_bench_server_wish ps_bench_server_wish_of(const struct ps_bench *bench, const char *name,
                                                    const char *ack);

/* A load of this run's settings on `servers`, with parameters of its own. */
struct ps_bench_load_wish ps_bench_load_wish_of(const struct ps_bench *bench, const char *servers);

/* How long what is compared with gets. */
uint64_t ps_bench_reference_ms(const struct ps_bench *bench);

/* One more of `steps` is begun; or the present one goes on under another name. */
void ps_bench_progress(struct ps_bench *bench, const char *what);
void ps_bench_progress_name(struct ps_bench *bench, const char *what);
void ps_bench_progress_end(const struct ps_bench *bench);

#endif
