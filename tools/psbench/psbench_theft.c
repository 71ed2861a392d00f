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

/* The file says "ran waited turns", the first two in nanoseconds. Zeroed where it says nothing. */
struct schedstat {
    unsigned long long ran_ns, waited_ns, turns;
};

static struct schedstat read_schedstat(int file)
{
    char text[96] = {0};
    struct schedstat read = {0};
    if (pread(file, text, sizeof text - 1, 0) <= 0 ||
        sscanf(text, "%llu %llu %llu", &read.ran_ns, &read.waited_ns, &read.turns) != 3)
        return (struct schedstat){0};
    return read;
}

/* A kernel that keeps no account of waiting says that a thread which runs has had no turn: all
 * waiting would look stolen there, so nothing is read at all. */
void ps_bench_theft_open(struct ps_bench_theft *theft)
{
    int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    *theft = (struct ps_bench_theft){.file = file};
    if (file >= 0 && read_schedstat(file).turns == 0)
        ps_bench_theft_close(theft);
}

void ps_bench_theft_close(struct ps_bench_theft *theft)
{
    if (theft->file >= 0)
        (void)close(theft->file);
    theft->file = -1;
}

/* A wait for a lock, for the disk or for the process's memory map: each ends a turn by the thread's
 * own wish. How long one took is in no account that a thread can read without being traced. */
static uint64_t read_sleeps(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? (uint64_t)usage.ru_nvcsw : 0;
}

/* The wall's clock last, so that what is before it is in no account. */
void ps_bench_theft_begin(struct ps_bench_theft *theft)
{
    theft->begin.sleeps = read_sleeps();
    theft->begin.waited_ns = read_schedstat(theft->file).waited_ns;
    theft->begin.ran_ns = ps_clock_thread_ns();
    theft->begin.wall_ns = ps_clock_precise_ns();
}

/* In the opposite order, so that reading the accounts is not in the time between them. */
uint64_t ps_bench_theft_end(const struct ps_bench_theft *theft)
{
    if (theft->file < 0)
        return 0;
    struct ps_bench_account end = {.wall_ns = ps_clock_precise_ns()};
    end.ran_ns = ps_clock_thread_ns();
    end.waited_ns = read_schedstat(theft->file).waited_ns;
    end.sleeps = read_sleeps();
    return ps_bench_stolen_ns(&theft->begin, &end);
}

/* Clocks that are read one after the other may add up to more than the wall. */
uint64_t ps_bench_stolen_ns(const struct ps_bench_account *begin,
                            const struct ps_bench_account *end)
{
    /* A push that slept is judged as a whole: it is left in the figures, whoever took the rest. */
    if (end->sleeps != begin->sleeps)
        return 0;
    uint64_t known = end->ran_ns - begin->ran_ns + end->waited_ns - begin->waited_ns;
    uint64_t wall = end->wall_ns - begin->wall_ns;
    return wall > known ? wall - known : 0;
}
