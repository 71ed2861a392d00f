/* SPDX-License-Identifier: Apache-2.0 */
/* POSIX threads behind our own names, with the lock order asserted.
 *
 * The order is asserted at every lock in every build, also in release: the check is one comparison
 * of a thread's own word, far cheaper than the lock itself, and a wrong order that never happens to
 * deadlock in a test would otherwise be found by a server that stands still. */
#include "base/thread.h"

#include "base/assert.h"
#include "base/clock.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* The ranks that this thread holds, one bit each. This is the only thread-local of the tree: the
 * order of locks is a property of a thread. */
static _Thread_local uint32_t held_ranks;

/* Smaller than the bit of the new rank means that every held rank is below it. Equal ranks fail as
 * well: two parameters' locks at a time could be taken in opposite orders by two threads. The note
 * is made before the lock is tried, so that a wrong order aborts instead of deadlocking. */
static void note_lock(enum ps_lock_rank rank)
{
    PS_ASSERT(held_ranks < (uint32_t)1 << rank);
    held_ranks |= (uint32_t)1 << rank;
}

static void note_unlock(enum ps_lock_rank rank)
{
    PS_ASSERT((held_ranks & (uint32_t)1 << rank) != 0);
    held_ranks &= ~((uint32_t)1 << rank);
}

/* pthread calls return their error instead of setting errno. None of these can fail for a mutex
 * that is used rightly, so every failure is a bug and aborts; a caller could do nothing about
 * it. */
void ps_mutex_init(struct ps_mutex *mutex, enum ps_lock_rank rank)
{
    int failed = pthread_mutex_init(&mutex->mutex, NULL);
    PS_ASSERT(failed == 0);
    mutex->rank = rank;
}

/* EBUSY here is a mutex that somebody still holds: freed memory with a lock in it. */
void ps_mutex_fini(struct ps_mutex *mutex)
{
    int failed = pthread_mutex_destroy(&mutex->mutex);
    PS_ASSERT(failed == 0);
}

void ps_mutex_lock(struct ps_mutex *mutex)
{
    note_lock(mutex->rank);
    int failed = pthread_mutex_lock(&mutex->mutex);
    PS_ASSERT(failed == 0);
}

/* The rank is given back after the lock: for an instant the note says more than is held, never
 * less. */
void ps_mutex_unlock(struct ps_mutex *mutex)
{
    int failed = pthread_mutex_unlock(&mutex->mutex);
    PS_ASSERT(failed == 0);
    note_unlock(mutex->rank);
}

/* In the same order as with waiting: a wrong one that mostly finds the mutex free is as wrong. */
bool ps_mutex_try_lock(struct ps_mutex *mutex)
{
    note_lock(mutex->rank);
    int failed = pthread_mutex_trylock(&mutex->mutex);
    PS_ASSERT(failed == 0 || failed == EBUSY);
    if (failed == EBUSY)
        note_unlock(mutex->rank);
    return failed == 0;
}

/* Writers are preferred: pushes take the cut shared all the time, and with glibc's default (readers
 * first) a snapshot would wait for a moment without any push, which under load never comes. The
 * non-recursive kind is the one for which glibc honours that; note_lock forbids recursion
 * anyway. */
void ps_rwlock_init(struct ps_rwlock *lock, enum ps_lock_rank rank)
{
    pthread_rwlockattr_t attributes;
    int failed = pthread_rwlockattr_init(&attributes);
    PS_ASSERT(failed == 0);
    failed =
        pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    PS_ASSERT(failed == 0);
    failed = pthread_rwlock_init(&lock->lock, &attributes);
    PS_ASSERT(failed == 0);
    (void)pthread_rwlockattr_destroy(&attributes);
    lock->rank = rank;
}

void ps_rwlock_fini(struct ps_rwlock *lock)
{
    int failed = pthread_rwlock_destroy(&lock->lock);
    PS_ASSERT(failed == 0);
}

void ps_rwlock_read(struct ps_rwlock *lock)
{
    note_lock(lock->rank);
    int failed = pthread_rwlock_rdlock(&lock->lock);
    PS_ASSERT(failed == 0);
}

void ps_rwlock_write(struct ps_rwlock *lock)
{
    note_lock(lock->rank);
    int failed = pthread_rwlock_wrlock(&lock->lock);
    PS_ASSERT(failed == 0);
}

void ps_rwlock_unlock(struct ps_rwlock *lock)
{
    int failed = pthread_rwlock_unlock(&lock->lock);
    PS_ASSERT(failed == 0);
    note_unlock(lock->rank);
}

/* The monotonic clock, since a timeout on the wall clock would end early or never when the time is
 * set. */
void ps_condition_init(struct ps_condition *condition)
{
    pthread_condattr_t attributes;
    int failed = pthread_condattr_init(&attributes);
    PS_ASSERT(failed == 0);
    failed = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    PS_ASSERT(failed == 0);
    failed = pthread_cond_init(&condition->condition, &attributes);
    PS_ASSERT(failed == 0);
    (void)pthread_condattr_destroy(&attributes);
}

void ps_condition_fini(struct ps_condition *condition)
{
    int failed = pthread_cond_destroy(&condition->condition);
    PS_ASSERT(failed == 0);
}

void ps_condition_signal_all(struct ps_condition *condition)
{
    int failed = pthread_cond_broadcast(&condition->condition);
    PS_ASSERT(failed == 0);
}

/* The mutex is given up while the thread waits, so its rank is not held meanwhile; on return it is
 * taken anew, and the assert of note_lock sees to it that no higher lock is held across a wait. */
bool ps_condition_wait(struct ps_condition *condition, struct ps_mutex *mutex, uint64_t timeout_ms)
{
    note_unlock(mutex->rank);
    int result;
    if (timeout_ms == PS_DEADLINE_NEVER) {
        result = pthread_cond_wait(&condition->condition, &mutex->mutex);
    } else {
        struct timespec until;
        int failed = clock_gettime(CLOCK_MONOTONIC, &until);
        PS_ASSERT(failed == 0);
        /* pthread_cond_timedwait wants an absolute time, with nanoseconds below one second. */
        until.tv_sec += (time_t)(timeout_ms / 1000);
        until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        result = pthread_cond_timedwait(&condition->condition, &mutex->mutex, &until);
    }
    /* A wake-up may come for no reason; true therefore means "look again" and nothing more. */
    PS_ASSERT(result == 0 || result == ETIMEDOUT);
    note_lock(mutex->rank);
    return result == 0;
}

/* pthread wants a function that returns a pointer, ours return nothing. The struct stays in place
 * until the join (the header demands it), so the thread may read it. */
static void *thread_main(void *argument)
{
    struct ps_thread *thread = argument;
    thread->run(thread->argument);
    return NULL;
}

enum ps_status ps_thread_start(struct ps_thread *thread, const char *name, ps_thread_fn run,
                               void *argument, struct ps_error *error)
{
    PS_ASSERT(thread != NULL && name != NULL && run != NULL);
    thread->run = run;
    thread->argument = argument;
    thread->started = false;
    int failed = pthread_create(&thread->thread, NULL, thread_main, thread);
    if (failed != 0)
        return ps_fail(error, PS_ERR_NO_MEMORY, "start thread %s: %s", name, strerror(failed));
    /* Set only now: a thread that was never started is not joined, so a caller may join all of its
     * threads on every way out. */
    thread->started = true;
    /* The kernel's limit for a thread's name is 15 characters and a NUL; a longer one would be
     * refused as a whole. The name is a help for people in top and gdb, so its failure does not
     * matter. */
    char short_name[16] = {0};
    strncpy(short_name, name, sizeof short_name - 1);
    (void)pthread_setname_np(thread->thread, short_name);
    return PS_OK;
}

void ps_thread_join(struct ps_thread *thread)
{
    PS_ASSERT(thread != NULL);
    if (!thread->started)
        return;
    int failed = pthread_join(thread->thread, NULL);
    PS_ASSERT(failed == 0);
    thread->started = false;
}
