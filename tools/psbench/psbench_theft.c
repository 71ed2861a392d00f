/* SPDX-License-Identifier: Apache-2.0 */
/* The first number of schedstat, what the thread ran, is as old as the last tick; the thread's own
 * clock says it to the nanosecond. The second one grows when a thread that waited runs again, so
 * that it is true whenever the thread itself reads it. */
#include "tools/psbench/psbench_theft.h"

#include "base/clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

void ps_bench_theft_open(struct ps_bench_theft *theft)
{
    *theft =
        (struct ps_bench_theft){.file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)};
}

void ps_bench_theft_close(struct ps_bench_theft *theft)
{
    if (theft->file >= 0)
        (void)close(theft->file);
    theft->file = -1;
}

/* "ran waited turns", in nanoseconds. */
static uint64_t read_waited(int file)
{
    char text[96] = {0};
    unsigned long long ran = 0, waited = 0;
    if (pread(file, text, sizeof text - 1, 0) <= 0)
        return 0;
    return sscanf(text, "%llu %llu", &ran, &waited) == 2 ? waited : 0;
}

static uint64_t read_sleeps(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? (uint64_t)usage.ru_nvcsw : 0;
}

void ps_bench_theft_begin(struct ps_bench_theft *theft)
{
    theft->begin = (struct ps_bench_account){.sleeps = read_sleeps(),
                                             .waited_ns = read_waited(theft->file),
                                             .ran_ns = ps_clock_thread_ns(),
                                             .wall_ns = ps_clock_precise_ns()};
}

/* In the opposite order, so that reading the accounts is not in the time between them. */
uint64_t ps_bench_theft_end(const struct ps_bench_theft *theft)
{
    if (theft->file < 0)
        return 0;
    struct ps_bench_account end = {.wall_ns = ps_clock_precise_ns()};
    end.ran_ns = ps_clock_thread_ns();
    end.waited_ns = read_waited(theft->file);
    end.sleeps = read_sleeps();
    return ps_bench_stolen_ns(&theft->begin, &end);
}

uint64_t ps_bench_stolen_ns(const struct ps_bench_account *begin,
                            const struct ps_bench_account *end)
{
    if (end->sleeps != begin->sleeps)
        return 0;
    uint64_t known = end->ran_ns - begin->ran_ns + end->waited_ns - begin->waited_ns;
    uint64_t wall = end->wall_ns - begin->wall_ns;
    return wall > known ? wall - known : 0;
}
