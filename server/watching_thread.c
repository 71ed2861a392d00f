/* SPDX-License-Identifier: Apache-2.0 */
/* The thread waits in one of two places: in the store, where it hears of changes, or here, where
 * there is no watch. Whoever asks does not know in which, and so wakes both. A wake-up that comes
 * before the wait is not lost in either: the store keeps an interruption, and `asked` is looked at
 * with the lock that it is set with. */
#include "server/watching_thread.h"

#include "base/assert.h"

static void wait_here(struct ps_watching_thread *thread);
static void wait_in_store(struct ps_watching_thread *thread);

void ps_watching_thread_init(struct ps_watching_thread *thread, struct ps_kv *kv,
                             const struct ps_clock *clock, uint64_t look_ms)
{
    PS_ASSERT(clock != NULL);
    /* Without a watch: the first look opens it, right behind what it has read. */
    *thread = (struct ps_watching_thread){.kv = kv, .clock = clock, .look_ms = look_ms};
    ps_mutex_init(&thread->mutex, PS_RANK_LEAF);
    ps_condition_init(&thread->told);
}

void ps_watching_thread_fini(struct ps_watching_thread *thread)
{
    PS_ASSERT(!thread->thread.started);
    ps_condition_fini(&thread->told);
    ps_mutex_fini(&thread->mutex);
}

enum ps_status ps_watching_thread_start(struct ps_watching_thread *thread, const char *name,
                                        ps_thread_fn run, void *argument, struct ps_error *error)
{
    PS_ASSERT(!thread->thread.started);
    return ps_thread_start(&thread->thread, name, run, argument, error);
}

/* In this order: a thread that is woken looks at the flag with the lock. What it is at is ended by
 * its own deadlines, and not by this. */
void ps_watching_thread_stop(struct ps_watching_thread *thread)
{
    ps_mutex_lock(&thread->mutex);
    thread->stopping = true;
    ps_mutex_unlock(&thread->mutex);
    ps_watching_thread_ask(thread);
    /* Whoever destroys its thread calls this again. */
    ps_thread_join(&thread->thread);
    thread->thread.started = false;
}

void ps_watching_thread_ask(struct ps_watching_thread *thread)
{
    PS_ASSERT(thread != NULL);
    ps_mutex_lock(&thread->mutex);
    thread->asked = true;
    ps_condition_signal_all(&thread->told);
    ps_mutex_unlock(&thread->mutex);
    if (thread->kv != NULL)
        ps_kv_interrupt(thread->kv);
}

void ps_watching_thread_look_again(struct ps_watching_thread *thread)
{
    /* Noted first: the thread may be in the middle of a look that began before. */
    ps_mutex_lock(&thread->mutex);
    thread->is_stale = true;
    ps_mutex_unlock(&thread->mutex);
    ps_watching_thread_ask(thread);
}

void ps_watching_thread_looked(struct ps_watching_thread *thread, bool is_read, uint64_t refresh_ms)
{
    /* A watch that works goes on from where it was: what it tells twice is read twice. */
    thread->has_watch = thread->has_watch && is_read;
    thread->look_ms = ps_deadline_after(thread->clock, is_read ? refresh_ms : PS_WATCHING_PAUSE_MS);
}

bool ps_watching_thread_wait(struct ps_watching_thread *thread)
{
    /* Without the lock: whoever asks takes it, and then interrupts the wait. */
    if (thread->has_watch)
        wait_in_store(thread);
    else
        wait_here(thread);
    ps_mutex_lock(&thread->mutex);
    thread->asked = false;
    /* Behind the wait, so that a look which is asked for during it comes at once. */
    if (thread->is_stale)
        thread->look_ms = 0;
    thread->is_stale = false;
    bool go_on = !thread->stopping;
    ps_mutex_unlock(&thread->mutex);
    return go_on;
}

/* What was asked since the last wait is answered before anything is waited for. */
static void wait_here(struct ps_watching_thread *thread)
{
    uint64_t left_ms = thread->look_ms == PS_DEADLINE_NEVER
                           ? PS_DEADLINE_NEVER
                           : ps_time_left_ms(thread->clock, thread->look_ms);
    ps_mutex_lock(&thread->mutex);
    if (!thread->asked && !thread->stopping && left_ms > 0)
        (void)ps_condition_wait(&thread->told, &thread->mutex, left_ms);
    ps_mutex_unlock(&thread->mutex);
}

/* A wait has an end also where nobody looks. A watch that broke is opened anew behind the next
 * reading. */
static void wait_in_store(struct ps_watching_thread *thread)
{
    PS_ASSERT(thread->kv != NULL);
    ps_mutex_lock(&thread->mutex);
    bool pending = thread->asked || thread->stopping;
    ps_mutex_unlock(&thread->mutex);
    if (pending)
        return;
    /* What comes from here on interrupts the store. */
    bool changed = false;
    uint64_t until_ms = ps_deadline_after(thread->clock, PS_WATCHING_REFRESH_MS);
    enum ps_status status = ps_kv_watch_wait(
        thread->kv, until_ms < thread->look_ms ? until_ms : thread->look_ms, &changed, NULL);
    thread->has_watch = status == PS_OK;
    if (status != PS_OK)
        thread->look_ms = ps_deadline_after(thread->clock, PS_WATCHING_PAUSE_MS);
    else if (changed)
        thread->look_ms = 0;
}
