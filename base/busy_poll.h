/* How long a thread that waits for events goes on looking before it sleeps. Waking a sleeping
 * thread costs tens of microseconds; looking costs a processor.
 *
 *     struct ps_busy_poll poll;
 *     ps_busy_poll_init(&poll, wish);
 *     ...
 *     uint64_t until_ns = ps_busy_poll_begin(&poll);
 *     while (until_ns != 0 && nothing came && ps_clock_precise_ns() < until_ns) look again
 *     ps_busy_poll_end(&poll, something came);
 *     ... then sleep, if nothing came
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
    bool adaptive; /* only while a processor is free for it */
};

#define PS_BUSY_POLL_MS_MAX 1000

/* "off", "auto", or a time up to a second: "50us", "2ms", "1s". PS_ERR_BAD_INPUT otherwise, with a
 * text that begins with `label`. */
PS_MUST_USE enum ps_status ps_busy_poll_parse(const char *label, const char *text,
                                              struct ps_busy_poll_wish *wish,
                                              struct ps_error *error);

struct ps_busy_poll {
    struct ps_busy_poll_wish wish;
    long preempted;     /* how often the system has taken this thread off its processor */
    uint64_t rest_ns;   /* how long to rest after the next preemption; doubles */
    uint64_t resume_ns; /* no looking before */
};

/* On a machine with two processors or fewer, `adaptive` is off: they have other things to do. */
void ps_busy_poll_init(struct ps_busy_poll *poll, struct ps_busy_poll_wish wish);

/* Until when to look (ps_clock_precise_ns); 0: not at all. */
uint64_t ps_busy_poll_begin(struct ps_busy_poll *poll);

/* The looking is over. Who was taken off his processor meanwhile had none to spare: an adaptive
 * poll then rests for a while. */
void ps_busy_poll_end(struct ps_busy_poll *poll, bool came);

#endif
