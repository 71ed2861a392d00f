/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel is asked to have the pages there for writing (since Linux 5.14), which changes no byte
 * of them. To write a byte of each page instead would write over what another thread has just put
 * there. An older kernel refuses, and then nothing is touched ahead.
 *
 * A turn touches one slab. Forgetting waits for no more than that. */
#include "base/touch_ahead.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/slab.h"

#include <string.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PAGE_BYTES ((uintptr_t)4096)

void ps_touch_ahead_init(struct ps_touch_ahead *ahead, void (*wake)(void *self), void *self)
{
    *ahead = (struct ps_touch_ahead){.wake = wake, .self = self};
    ps_mutex_init(&ahead->mutex, PS_RANK_LEAF);
    ps_condition_init(&ahead->idle);
}

/* Whoever wants memory has forgotten it by now, and the thread that touches has ended. */
void ps_touch_ahead_fini(struct ps_touch_ahead *ahead)
{
    PS_ASSERT(ahead->touched.bytes == 0);
    ps_condition_fini(&ahead->idle);
    ps_mutex_fini(&ahead->mutex);
}

/* Under the mutex. */
static void remove_wish(struct ps_touch_ahead *ahead, uint32_t at)
{
    PS_ASSERT(at < ahead->count);
    ahead->count--;
    memmove(ahead->wishes + at, ahead->wishes + at + 1,
            (ahead->count - at) * sizeof ahead->wishes[0]);
}

/* The oldest goes when there is no room: its owner has most likely come to it by now. */
void ps_touch_ahead_want(struct ps_touch_ahead *ahead, void *begin, size_t bytes)
{
    if (ahead == NULL)
        return;
    /* What shares a page with others is theirs, too: it is touched with them or not at all. */
    uintptr_t first = ((uintptr_t)begin + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    uintptr_t end = ((uintptr_t)begin + bytes) / PAGE_BYTES * PAGE_BYTES;
    if (first >= end)
        return;
    ps_mutex_lock(&ahead->mutex);
    /* A list of a dozen, moved up by one. */
    if (ahead->count == PS_TOUCH_AHEAD_MAX)
        remove_wish(ahead, 0);
    ahead->wishes[ahead->count++] = (struct ps_touch_wish){(uint8_t *)first, end - first};
    ps_mutex_unlock(&ahead->mutex);
    if (ahead->wake != NULL)
        ahead->wake(ahead->self);
}

/* In whole or in part: what is left of a wish is nobody's any more. */
static bool overlaps(const struct ps_touch_wish *wish, const uint8_t *begin, size_t bytes)
{
    return wish->begin < begin + bytes && begin < wish->begin + wish->bytes;
}

/* Memory of another owner may come to lie at the same place, which must not be touched for this
 * one. */
void ps_touch_ahead_forget(struct ps_touch_ahead *ahead, void *begin, size_t bytes)
{
    if (ahead == NULL)
        return;
    ps_mutex_lock(&ahead->mutex);
    /* From the end, since a wish that is taken out moves those behind it. */
    for (uint32_t i = ahead->count; i > 0; i--)
        if (overlaps(&ahead->wishes[i - 1], begin, bytes))
            remove_wish(ahead, i - 1);
    while (ahead->touched.bytes > 0 && overlaps(&ahead->touched, begin, bytes))
        (void)ps_condition_wait(&ahead->idle, &ahead->mutex, PS_DEADLINE_NEVER);
    ps_mutex_unlock(&ahead->mutex);
}

/* A part that is being touched is due as well: whoever writes it now has a fault of their own. */
bool ps_touch_ahead_is_due(struct ps_touch_ahead *ahead, const void *begin, size_t bytes)
{
    if (ahead == NULL)
        return false;
    ps_mutex_lock(&ahead->mutex);
    bool due = ahead->touched.bytes > 0 && overlaps(&ahead->touched, begin, bytes);
    for (uint32_t i = 0; i < ahead->count && !due; i++)
        due = overlaps(&ahead->wishes[i], begin, bytes);
    ps_mutex_unlock(&ahead->mutex);
    return due;
}

/* A part of the oldest wish. False: there is none. Under the mutex. */
static bool take_part(struct ps_touch_ahead *ahead)
{
    if (ahead->count == 0)
        return false;
    /* What has waited longest is most likely to be needed first. */
    struct ps_touch_wish *oldest = &ahead->wishes[0];
    size_t part = oldest->bytes < PS_SLAB_BYTES ? oldest->bytes : PS_SLAB_BYTES;
    PS_ASSERT(part > 0 && ahead->touched.bytes == 0);
    ahead->touched = (struct ps_touch_wish){oldest->begin, part};
    oldest->begin += part;
    oldest->bytes -= part;
    if (oldest->bytes == 0)
        remove_wish(ahead, 0);
    return true;
}

/* The kernel works without the lock, since whoever wants more must not wait for it. */
bool ps_touch_ahead_turn(struct ps_touch_ahead *ahead)
{
    /* The slabs that somebody will want next, so that nobody asks the kernel for them while it is
     * at work here: both would need the process's memory map. */
    ps_slabs_prepare();
    ps_mutex_lock(&ahead->mutex);
    bool any = take_part(ahead);
    struct ps_touch_wish part = ahead->touched;
    ps_mutex_unlock(&ahead->mutex);
    if (!any)
        return false;
    /* Refused, too, where the memory may not be had: whoever comes to it is told then. */
    (void)madvise(part.begin, part.bytes, MADV_POPULATE_WRITE);
    ps_mutex_lock(&ahead->mutex);
    ahead->touched = (struct ps_touch_wish){0};
    ps_mutex_unlock(&ahead->mutex);
    ps_condition_signal_all(&ahead->idle);
    return true;
}
