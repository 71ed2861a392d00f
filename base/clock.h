/* SPDX-License-Identifier: Apache-2.0 */
/* The only way to learn the time.
 *
 * Threads:  the real clock is safe from any thread.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_BASE_CLOCK_H
#define PS_BASE_CLOCK_H

#include <stdint.h>

/* No deadline at all. */
#define PS_DEADLINE_NEVER UINT64_MAX

struct ps_clock {
    /* Milliseconds that never go back and go on while the machine sleeps (CLOCK_BOOTTIME):
     * leases and deadlines are counted on it. */
    uint64_t (*now_ms)(void *self);
    /* Nanoseconds since 1970, for time stamps that people read. It may jump; nothing is decided
     * by it but that it has jumped (ps_clock_offset_ms). */
    uint64_t (*unix_ns)(void *self);
    void *self;
};

/* The machine's clock. Static; lives for ever. */
const struct ps_clock *ps_clock_real(void);

/* Nanoseconds from some start, never going back (CLOCK_MONOTONIC): for measurements, which take the
 * machine as it is. Nothing is decided by it. */
uint64_t ps_clock_precise_ns(void);

/* Nanoseconds of processor time that this thread has had: for measurements that others on the
 * machine must not disturb. Nothing is decided by it. */
uint64_t ps_clock_thread_ns(void);

uint64_t ps_now_ms(const struct ps_clock *clock);
uint64_t ps_unix_ns(const struct ps_clock *clock);

/* How far the wall clock is before now_ms. It stays about the same, but for two things: somebody
 * sets the wall clock, or the whole machine was paused by what it runs on, which now_ms does not
 * count, and the wall clock was set right afterwards. */
int64_t ps_clock_offset_ms(const struct ps_clock *clock);

/* The same, with a now_ms that the caller has just read: each look at a clock takes time. */
int64_t ps_clock_offset_at(const struct ps_clock *clock, uint64_t now_ms);

/* A jump of that offset beyond this is one of the two. */
#define PS_CLOCK_JUMP_MS 500

/* now + timeout, held below PS_DEADLINE_NEVER. */
uint64_t ps_deadline_after(const struct ps_clock *clock, uint64_t timeout_ms);

/* Milliseconds until `deadline_ms`; 0 when it has passed. */
uint64_t ps_time_left_ms(const struct ps_clock *clock, uint64_t deadline_ms);

#endif
