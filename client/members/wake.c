/* SPDX-License-Identifier: Apache-2.0 */
/* A counter behind a condition: no wake-up is missed between looking and waiting, because whoever
 * waits says which count it has seen. A flag would have to be taken down by somebody, and with
 * several who wait nobody knows by whom. */
#include "client/members/wake.h"

void ps_wake_init(struct ps_wake *wake)
{
    ps_mutex_init(&wake->mutex, PS_RANK_LEAF);
    ps_condition_init(&wake->raised);
    wake->count = 0;
    wake->told = NULL;
    wake->self = NULL;
}

void ps_wake_fini(struct ps_wake *wake)
{
    ps_condition_fini(&wake->raised);
    ps_mutex_fini(&wake->mutex);
}

uint64_t ps_wake_count(struct ps_wake *wake)
{
    ps_mutex_lock(&wake->mutex);
    uint64_t count = wake->count;
    ps_mutex_unlock(&wake->mutex);
    return count;
}

/* `told` is called without the lock: it leads into the channel, which has locks of its own, and
 * this one ranks behind all of them. */
void ps_wake_all(struct ps_wake *wake)
{
    ps_mutex_lock(&wake->mutex);
    wake->count++;
    ps_condition_signal_all(&wake->raised);
    void (*told)(void *self) = wake->told;
    void *self = wake->self;
    ps_mutex_unlock(&wake->mutex);
    if (told != NULL)
        told(self);
}

/* A wake-up that came before is not told again: whoever asks to be told looks at its state once by
 * itself afterwards. */
void ps_wake_tell(struct ps_wake *wake, void (*told)(void *self), void *self)
{
    ps_mutex_lock(&wake->mutex);
    wake->told = told;
    wake->self = self;
    ps_mutex_unlock(&wake->mutex);
}

void ps_wake_wait(struct ps_wake *wake, uint64_t seen, uint64_t timeout_ms)
{
    ps_mutex_lock(&wake->mutex);
    /* One wait only: a caller looks at its state again in any case. */
    if (wake->count == seen && timeout_ms > 0)
        (void)ps_condition_wait(&wake->raised, &wake->mutex, timeout_ms);
    ps_mutex_unlock(&wake->mutex);
}
