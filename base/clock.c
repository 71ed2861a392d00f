/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's clock behind the clock interface.
 *
 * Three clocks, each for one purpose. CLOCK_BOOTTIME judges leases and deadlines: a machine that
 * was suspended has aged by the time it slept, as etcd says, whereas CLOCK_MONOTONIC would stand
 * still and let a server believe in a lease that others have seen expire. CLOCK_REALTIME only
 * labels things for people and jumps when it is set. CLOCK_MONOTONIC measures short stretches
 * within one process. */
#include "base/clock.h"

#include "base/assert.h"

#include <stddef.h>
#include <time.h>

static uint64_t real_now_ms(void *self)
{
    (void)self;
    struct timespec now;
    int failed = clock_gettime(CLOCK_BOOTTIME, &now);
    PS_ASSERT(failed == 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint64_t real_unix_ns(void *self)
{
    (void)self;
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    PS_ASSERT(failed == 0);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static const struct ps_clock real_clock = {real_now_ms, real_unix_ns, NULL};

const struct ps_clock *ps_clock_real(void)
{
    return &real_clock;
}

/* Not part of the interface struct: only busy polling and the measuring of durations use it,
 * nothing that decides. Simulated time therefore need not know about it. */
uint64_t ps_clock_precise_ns(void)
{
    struct timespec now;
    int failed = clock_gettime(CLOCK_MONOTONIC, &now);
    PS_ASSERT(failed == 0);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The kernel counts this for each thread and the call enters it, which takes longer than a look
 * at the other clocks: it is for whole batches of work, not for single steps of one. */
uint64_t ps_clock_thread_ns(void)
{
    struct timespec spent;
    int failed = clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    PS_ASSERT(failed == 0);
    return (uint64_t)spent.tv_sec * 1000000000 + (uint64_t)spent.tv_nsec;
}

uint64_t ps_now_ms(const struct ps_clock *clock)
{
    PS_ASSERT(clock != NULL);
    return clock->now_ms(clock->self);
}

uint64_t ps_unix_ns(const struct ps_clock *clock)
{
    PS_ASSERT(clock != NULL);
    return clock->unix_ns(clock->self);
}

/* The two readings are a few nanoseconds apart, which is far below the millisecond of the result.
 * The offset changes whenever the wall clock is set, so it is read anew for each use and never
 * kept. */
int64_t ps_clock_offset_ms(const struct ps_clock *clock)
{
    return ps_clock_offset_at(clock, ps_now_ms(clock));
}

int64_t ps_clock_offset_at(const struct ps_clock *clock, uint64_t now_ms)
{
    return (int64_t)(ps_unix_ns(clock) / 1000000) - (int64_t)now_ms;
}

uint64_t ps_deadline_after(const struct ps_clock *clock, uint64_t timeout_ms)
{
    uint64_t now = ps_now_ms(clock);
    /* A timeout of "for ever" stays for ever. Added plainly it would wrap into the past, and a call
     * without a deadline would fail at once. */
    if (timeout_ms >= PS_DEADLINE_NEVER - now)
        return PS_DEADLINE_NEVER;
    return now + timeout_ms;
}

uint64_t ps_time_left_ms(const struct ps_clock *clock, uint64_t deadline_ms)
{
    uint64_t now = ps_now_ms(clock);
    /* A deadline in the past leaves 0 and not a huge number, which a wait would take for "for
     * ever". */
    return deadline_ms > now ? deadline_ms - now : 0;
}
