/* SPDX-License-Identifier: Apache-2.0 */
/* How long many operations took, in a fixed amount of memory: counts in buckets that are 0.4 %
 * wide, so that a percentile is that exact and nothing is allocated while measuring.
 *
 * Threads:  a record belongs to one thread; add them up afterwards.
 * Blocking: never.
 * Errors:   none; a time beyond 18 minutes counts as 18 minutes.
 * Memory:   in place, about 70 KiB.
 */
#ifndef PS_TOOLS_PSBENCH_TIMES_H
#define PS_TOOLS_PSBENCH_TIMES_H

#include <stdint.h>

/* 256 buckets for each power of two from 2^8 ns up to 2^40 ns, and one per nanosecond below. */
#define PS_BENCH_BUCKETS_PER_POWER 256
#define PS_BENCH_POWERS 33
#define PS_BENCH_BUCKETS (PS_BENCH_BUCKETS_PER_POWER * PS_BENCH_POWERS)

struct ps_bench_times {
    uint64_t counts[PS_BENCH_BUCKETS];
    uint64_t count;
    uint64_t longest_ns; /* exact */
};

void ps_bench_times_note(struct ps_bench_times *times, uint64_t taken_ns);

/* Adds everything in `more` to `times`. */
void ps_bench_times_add(struct ps_bench_times *times, const struct ps_bench_times *more);

/* The time that `share` (0 to 1) of all operations stayed within; 0 when there were none. */
double ps_bench_times_percentile_us(const struct ps_bench_times *times, double share);

#endif
