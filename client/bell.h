/* Something that threads wait for: it is rung, and everyone who waits looks again.
 *
 *     uint64_t heard = ps_bell_count(bell);
 *     ... look at the state; nothing to do yet ...
 *     ps_bell_wait(bell, heard, timeout);      returns at once if it rang since
 *
 * Threads:  any.
 * Blocking: ps_bell_wait, until the bell rings or the time is over.
 * Errors:   none.
 * Memory:   in place.
 */
#ifndef PS_CLIENT_BELL_H
#define PS_CLIENT_BELL_H

#include "base/thread.h"

#include <stdint.h>

struct ps_bell {
    struct ps_mutex mutex;
    struct ps_condition rang;
    uint64_t count;
    void (*heard)(void *self); /* called after each ring; NULL: nobody */
    void *self;
};

void ps_bell_init(struct ps_bell *bell);
void ps_bell_fini(struct ps_bell *bell);
uint64_t ps_bell_count(struct ps_bell *bell);
void ps_bell_ring(struct ps_bell *bell);

/* From now on each ring is also told to `heard`, on the thread that rings. NULL: no more. */
void ps_bell_tell(struct ps_bell *bell, void (*heard)(void *self), void *self);

void ps_bell_wait(struct ps_bell *bell, uint64_t heard, uint64_t timeout_ms);

#endif
