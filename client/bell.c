/* A counter behind a condition: no ring is missed between looking and waiting. */
#include "client/bell.h"

void ps_bell_init(struct ps_bell *bell)
{
    ps_mutex_init(&bell->mutex, PS_RANK_LEAF);
    ps_condition_init(&bell->rang);
    bell->count = 0;
    bell->heard = NULL;
    bell->self = NULL;
}

void ps_bell_fini(struct ps_bell *bell)
{
    ps_condition_fini(&bell->rang);
    ps_mutex_fini(&bell->mutex);
}

uint64_t ps_bell_count(struct ps_bell *bell)
{
    ps_mutex_lock(&bell->mutex);
    uint64_t count = bell->count;
    ps_mutex_unlock(&bell->mutex);
    return count;
}

void ps_bell_ring(struct ps_bell *bell)
{
    ps_mutex_lock(&bell->mutex);
    bell->count++;
    ps_condition_signal_all(&bell->rang);
    void (*heard)(void *self) = bell->heard;
    void *self = bell->self;
    ps_mutex_unlock(&bell->mutex);
    if (heard != NULL)
        heard(self);
}

void ps_bell_tell(struct ps_bell *bell, void (*heard)(void *self), void *self)
{
    ps_mutex_lock(&bell->mutex);
    bell->heard = heard;
    bell->self = self;
    ps_mutex_unlock(&bell->mutex);
}

void ps_bell_wait(struct ps_bell *bell, uint64_t heard, uint64_t timeout_ms)
{
    ps_mutex_lock(&bell->mutex);
    /* One wait only: a caller looks at its state again in any case. */
    if (bell->count == heard && timeout_ms > 0)
        (void)ps_condition_wait(&bell->rang, &bell->mutex, timeout_ms);
    ps_mutex_unlock(&bell->mutex);
}
