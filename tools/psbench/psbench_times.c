/* SPDX-License-Identifier: Apache-2.0 */
/* A histogram of times with buckets of equal relative width. The layout is that of an HDR
 * histogram: a bucket for each nanosecond up to 256, then 256 buckets for every doubling. Its error
 * is a fixed share of the value, 0.4 %, from nanoseconds to minutes, noting a time is a few
 * instructions, and records of several threads can be added. */
#include "tools/psbench/psbench_times.h"

#include <stddef.h>

static size_t bucket_of(uint64_t taken_ns);
static double middle_of(size_t bucket);

/* The longest is kept exactly: it is the one that people ask about. */
void ps_bench_times_note(struct ps_bench_times *times, uint64_t taken_ns)
{
    times->counts[bucket_of(taken_ns)]++;
    times->count++;
    if (taken_ns > times->longest_ns)
        times->longest_ns = taken_ns;
}

/* Buckets are the same everywhere, so adding loses nothing. */
void ps_bench_times_add(struct ps_bench_times *times, const struct ps_bench_times *more)
{
    for (size_t i = 0; i < PS_BENCH_BUCKETS; i++)
        times->counts[i] += more->counts[i];
    times->count += more->count;
    if (more->longest_ns > times->longest_ns)
        times->longest_ns = more->longest_ns;
}

/* The middle of the bucket, but never more than the longest time seen. */
double ps_bench_times_percentile_us(const struct ps_bench_times *times, double share)
{
    if (times->count == 0)
        return 0;
    /* Compared as a real number: with few times the bucket that first reaches the share is
     * taken. */
    double wanted = share * (double)times->count;
    uint64_t seen = 0;
    size_t bucket = 0;
    for (; bucket + 1 < PS_BENCH_BUCKETS; bucket++) {
        seen += times->counts[bucket];
        if (seen > 0 && (double)seen >= wanted)
            break;
    }
    double longest_us = (double)times->longest_ns / 1e3;
    double middle_us = middle_of(bucket) / 1e3;
    return middle_us < longest_us ? middle_us : longest_us;
}

/* Times below 256 ns have a bucket each; above, the eight bits behind the leading one choose. The
 * last bucket takes everything that is too long. */
static size_t bucket_of(uint64_t taken_ns)
{
    size_t power = 0;
    while ((taken_ns >> power) >= 2 * PS_BENCH_BUCKETS_PER_POWER)
        power++;
    if (taken_ns < PS_BENCH_BUCKETS_PER_POWER)
        return (size_t)taken_ns;
    size_t bucket = (power + 1) * PS_BENCH_BUCKETS_PER_POWER +
                    (size_t)((taken_ns >> power) - PS_BENCH_BUCKETS_PER_POWER);
    return bucket < PS_BENCH_BUCKETS ? bucket : PS_BENCH_BUCKETS - 1;
}

/* The inverse of bucket_of, up to the width of a bucket. */
static double middle_of(size_t bucket)
{
    if (bucket < PS_BENCH_BUCKETS_PER_POWER)
        return (double)bucket;
    size_t power = bucket / PS_BENCH_BUCKETS_PER_POWER - 1;
    uint64_t start = (uint64_t)(PS_BENCH_BUCKETS_PER_POWER + bucket % PS_BENCH_BUCKETS_PER_POWER)
                     << power;
    return (double)start + (double)((uint64_t)1 << power) / 2;
}
