/* SPDX-License-Identifier: Apache-2.0 */
/* The disk's own limit in one repeat: both ways of writing, in several sizes, and the best of them,
 * which is what everything durable is held against.
 *
 * Threads:  one.
 * Blocking: for the disk, for about twice the time of one reference.
 * Errors:   PS_ERR_IO, PS_ERR_NO_MEMORY.
 * Memory:   the bench's disk, until ps_bench_run closes it.
 */
#ifndef PS_TOOLS_PSBENCH_DISK_BEST_H
#define PS_TOOLS_PSBENCH_DISK_BEST_H

#include "tools/psbench/psbench.h"

/* A single small push is held against the bare writes of this size. */
#define PS_BENCH_SMALL_BYTES 4096

struct ps_bench_disk_best {
    double bytes_per_second;             /* of the fastest way */
    double direct_p50_us, append_p50_us; /* of PS_BENCH_SMALL_BYTES; direct 0: not possible here */
};

/* Measures all ways once and adds their figures to the rows `disk_direct` and `disk_append`, one
 * row for each size. */
PS_MUST_USE enum ps_status ps_bench_disk_measure(struct ps_bench *bench,
                                                 struct ps_bench_disk_best *best,
                                                 struct ps_error *error);

/* Adds to `row` the ratio of its last repeat, of operations that make `bytes` durable each, to
 * `best`, and says which way that was. */
void ps_bench_disk_compare(struct ps_bench *bench, struct ps_bench_row *row,
                           const struct ps_bench_disk_best *best, uint64_t bytes);

/* The same, and against acknowledgements from memory in the same repeat, if there were any (NULL:
 * not): the ratio to the slower of both says how much of what is possible is reached. */
void ps_bench_logged_compare(struct ps_bench *bench, struct ps_bench_row *row,
                             const struct ps_bench_figures *memory,
                             const struct ps_bench_disk_best *best, uint64_t bytes);

/* Says in `row` how fast the disk is `now`, and which way was the best one in the repeats so
 * far. */
void ps_bench_disk_name(struct ps_bench *bench, struct ps_bench_row *row,
                        const struct ps_bench_disk_best *now);

/* What LOGGED adds to the median of a single small push, beside one bare
 * write of the disk by each way. */
void ps_bench_logged_cost(struct ps_bench_row *row, double memory_p50_us, double logged_p50_us,
                          const struct ps_bench_disk_best *best);

#endif
