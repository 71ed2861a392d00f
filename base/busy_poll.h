/* SPDX-License-Identifier: Apache-2.0 */
/* How long a thread that waits for events goes on looking before it sleeps. Waking a sleeping
 * thread costs tens of microseconds; looking costs a processor.
 *
 *     struct ps_busy_poll poll;
 *     ps_busy_poll_init(&poll, wish);
 *     ...
 *     uint64_t until_ns = ps_busy_poll_begin(&poll);
 *     if (until_ns != 0)
 *         do look while (nothing came && ps_busy_poll_again(&poll, until_ns));
 *     if (until_ns != 0)
 *         ps_busy_poll_end(&poll, something came);
 *     ... then sleep, if nothing came
 *
 * An adaptive poll looks only while that costs nobody anything: between two looks it offers its
 * processor to others, and when somebody takes it, it rests for twenty times as long as that took.
 * It also looks less often when looking has not paid.
 *
 * Threads:  each thread has one of its own.
 * Blocking: never.
 * Errors:   parse can fail.
 * Memory:   in place.
 */
#ifndef PS_BASE_BUSY_POLL_H
#define PS_BASE_BUSY_POLL_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* What was asked for. Zero is off. */
struct ps_busy_poll_wish {
    uint64_t spin_ns;
    bool adaptive; /* only while a processor is free for it, and while it pays */
};

#define PS_BUSY_POLL_MS_MAX 1000

/* "off", "auto", or a time up to a second: "50us", "2ms", "1s". PS_ERR_BAD_INPUT otherwise, with a
 * text that begins with `label`. */
PS_MUST_USE enum ps_status ps_busy_poll_parse(const char *label, const char *text,
                                              struct ps_busy_poll_wish *wish,
                                              struct ps_error *error);

struct ps_busy_poll {
    struct ps_busy_poll_wish wish;
    uint64_t resume_ns; /* no looking before */
    uint32_t misses;    /* looks in a row that found nothing */
    uint32_t skipped;   /* waits since the last look */
};

/* On a machine with one processor `adaptive` is off: it has other things to do. */
void ps_busy_poll_init(struct ps_busy_poll *poll, struct ps_busy_poll_wish wish);

/* Until when to look (ps_clock_precise_ns); 0: not at all. */
uint64_t ps_busy_poll_begin(struct ps_busy_poll *poll);

/* After a look that found nothing: true when it is worth another. */
bool ps_busy_poll_again(struct ps_busy_poll *poll, uint64_t until_ns);

/* The looking is over. */
void ps_busy_poll_end(struct ps_busy_poll *poll, bool came);

#endif
