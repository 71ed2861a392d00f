/* SPDX-License-Identifier: Apache-2.0 */
/* What the host of a virtual machine took from a thread: time on the wall in which the thread
 * neither ran, nor waited for one of the processors that the machine believes in, nor slept. Linux
 * says all but the first (/proc/thread-self/schedstat, getrusage); a kernel that does not keep
 * account of waiting, or does not take stolen time out of running, leaves nothing to be seen here.
 *
 *     ps_bench_theft_open(&theft);
 *     ps_bench_theft_begin(&theft); ...work... stolen_ns = ps_bench_theft_end(&theft);
 *
 * Threads:  one, that which opened it.
 * Blocking: never.
 * Errors:   none; where the kernel's files are missing nothing was stolen.
 * Memory:   in place, and one file until close.
 */
#ifndef PS_TOOLS_PSBENCH_THEFT_H
#define PS_TOOLS_PSBENCH_THEFT_H

#include <stdint.h>

/* A thread's account at one moment. */
struct ps_bench_account {
    uint64_t wall_ns;
    uint64_t ran_ns;
    uint64_t waited_ns; /* for a processor */
    uint64_t sleeps;    /* times that it gave its processor up by itself */
};

struct ps_bench_theft {
    int file; /* -1: none */
    struct ps_bench_account begin;
};

void ps_bench_theft_open(struct ps_bench_theft *theft);
void ps_bench_theft_close(struct ps_bench_theft *theft);

void ps_bench_theft_begin(struct ps_bench_theft *theft);

/* Nanoseconds since begin that nobody in this machine had; 0 when the thread slept meanwhile, since
 * the length of a sleep is not in its account. */
uint64_t ps_bench_theft_end(const struct ps_bench_theft *theft);

/* The decision alone, from two accounts. */
uint64_t ps_bench_stolen_ns(const struct ps_bench_account *begin,
                            const struct ps_bench_account *end);

#endif
