/* SPDX-License-Identifier: Apache-2.0 */
/* A wake is a flag and not a count: whoever wakes says "look again", and one look sees everything
 * that was there before. So a thousand pushes during one sync cost one signal and one more turn. */
#include "server/errand_thread.h"

#include "base/assert.h"

static void run(void *argument);
static bool wait_for_turn(struct ps_errand_thread *errand, uint64_t due_ms);

/* The thread is the last thing that is set up: it may look at everything else at once. */
enum ps_status ps_errand_thread_init(struct ps_errand_thread *errand, const char *name,
                                     const struct ps_clock *clock, ps_errand_fn turn, void *self,
                                     struct ps_error *error)
{
    PS_ASSERT(turn != NULL && clock != NULL);
    *errand = (struct ps_errand_thread){.turn = turn, .self = self, .clock = clock};
    ps_mutex_init(&errand->mutex, PS_RANK_LEAF);
    ps_condition_init(&errand->changed);
    enum ps_status status = ps_thread_start(&errand->thread, name, run, errand, error);
    if (status != PS_OK) {
        ps_errand_thread_fini(errand);
        /* The owner's destroy calls fini again, which finds nothing to end then. */
        *errand = (struct ps_errand_thread){0};
    }
    return status;
}

/* A turn at work is not interrupted: it may hold a file that is half written. */
void ps_errand_thread_fini(struct ps_errand_thread *errand)
{
    if (errand->turn == NULL)
        return;
    ps_mutex_lock(&errand->mutex);
    PS_ASSERT(!errand->ending);
    errand->ending = true;
    ps_condition_signal_all(&errand->changed);
    ps_mutex_unlock(&errand->mutex);
    ps_thread_join(&errand->thread);
    ps_condition_fini(&errand->changed);
    ps_mutex_fini(&errand->mutex);
}

void ps_errand_thread_wake(struct ps_errand_thread *errand)
{
    PS_ASSERT(errand->turn != NULL);
    /* Who set the flag first also signals, or a turn that is about to begin will see it: the lock
     * is taken once for each turn, not once for each push. */
    if (atomic_exchange(&errand->woken, true))
        return;
    /* Behind the lock a thread that has seen the flag unset is asleep. The signal comes after it:
     * a thread that wakes to a lock that is held goes to sleep once more. */
    ps_mutex_lock(&errand->mutex);
    ps_mutex_unlock(&errand->mutex);
    ps_condition_signal_all(&errand->changed);
}

/* Remembered until the next turn, also when the thread is in one just now. */
void ps_errand_thread_interrupt(struct ps_errand_thread *errand)
{
    PS_ASSERT(errand->turn != NULL);
    ps_mutex_lock(&errand->mutex);
    errand->interrupted = true;
    ps_condition_signal_all(&errand->changed);
    ps_mutex_unlock(&errand->mutex);
}

/* The turn runs without the lock, so that waking never waits for it. */
static void run(void *argument)
{
    struct ps_errand_thread *errand = argument;
    uint64_t due_ms = PS_DEADLINE_NEVER;
    while (wait_for_turn(errand, due_ms)) {
        /* Cleared before the turn and never after it: what is queued while the turn looks wakes
         * again, and would otherwise wait for the next wake of somebody else. */
        atomic_store(&errand->woken, false);
        due_ms = errand->turn(errand->self);
    }
}

/* False when the thread is to end. In a pause wakes are left standing, and the turn behind it takes
 * them all. */
static bool wait_for_turn(struct ps_errand_thread *errand, uint64_t due_ms)
{
    bool paused = due_ms != PS_DEADLINE_NEVER;
    ps_mutex_lock(&errand->mutex);
    while (!errand->ending && !errand->interrupted) {
        uint64_t left_ms = paused ? ps_time_left_ms(errand->clock, due_ms) : PS_DEADLINE_NEVER;
        if (left_ms == 0 || (!paused && atomic_load(&errand->woken)))
            break;
        (void)ps_condition_wait(&errand->changed, &errand->mutex, left_ms);
    }
    /* One interruption cuts one pause short, and not the next. */
    errand->interrupted = false;
    bool go_on = !errand->ending;
    ps_mutex_unlock(&errand->mutex);
    return go_on;
}
