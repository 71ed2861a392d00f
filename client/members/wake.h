/* SPDX-License-Identifier: Apache-2.0 */
/* A wake-up for everyone who waits: whoever waits looks at its state again.
 *
 *     uint64_t seen = ps_wake_count(wake);
 *     ... look at the state; nothing to do yet ...
 *     ps_wake_wait(wake, seen, timeout);      returns at once if a wake-up came since
 *
 * Threads:  any.
 * Blocking: ps_wake_wait, until the next wake-up or until the time is over.
 * Errors:   none.
 * Memory:   in place.
 */
#ifndef PS_CLIENT_WAKE_H
#define PS_CLIENT_WAKE_H

#include "base/thread.h"

#include <stdint.h>

struct ps_wake {
    struct ps_mutex mutex;
    struct ps_condition raised;
    uint64_t count;           /* wake-ups, ever */
    void (*told)(void *self); /* called after each of them; NULL: nobody */
    void *self;
};

void ps_wake_init(struct ps_wake *wake);
void ps_wake_fini(struct ps_wake *wake);
uint64_t ps_wake_count(struct ps_wake *wake);

/* Wakes everyone. */
void ps_wake_all(struct ps_wake *wake);

/* From now on each wake-up is also told to `told`, on the thread that calls ps_wake_all. NULL: no
 * more. */
void ps_wake_tell(struct ps_wake *wake, void (*told)(void *self), void *self);

/* `seen` is what ps_wake_count gave before the caller looked at its state. */
void ps_wake_wait(struct ps_wake *wake, uint64_t seen, uint64_t timeout_ms);

#endif
