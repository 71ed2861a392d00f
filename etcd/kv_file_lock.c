/* SPDX-License-Identifier: Apache-2.0 */
/* flock(2) waits for ever or not at all, and a wait with a deadline is needed. The holder of this
 * lock closes the file to give it up, and inotify tells of that, so a wait needs no polling and no
 * signal, where there is inotify. */
#include "etcd/kv_file_lock.h"

#include "base/assert.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <unistd.h>

static void watch_closings(struct ps_kv_file_lock *lock, const char *path);
static enum ps_status wait_for_turn(int descriptor, int closings, const char *path,
                                    const struct ps_clock *clock, uint64_t deadline_ms,
                                    struct ps_error *error);
static bool try_lock(int descriptor);

void ps_kv_file_lock_fini(struct ps_kv_file_lock *lock)
{
    PS_ASSERT(lock->descriptor < 0);
    if (lock->closings >= 0)
        (void)close(lock->closings);
    lock->closings = -1;
}

/* The lock's file is never removed: a process that held the old file and one that made a new file
 * would both have "the" lock. */
enum ps_status ps_kv_file_lock_acquire(struct ps_kv_file_lock *lock, const char *path,
                                       const struct ps_clock *clock, uint64_t deadline_ms,
                                       struct ps_error *error)
{
    PS_ASSERT(lock->descriptor < 0);
    /* Opened anew each time: a lock of flock belongs to this opening and ends with it. */
    int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    if (descriptor < 0)
        return ps_fail(error, PS_ERR_IO, "open %s: %s", path, strerror(errno));
    enum ps_status status = PS_OK;
    if (!try_lock(descriptor)) {
        watch_closings(lock, path);
        status = wait_for_turn(descriptor, lock->closings, path, clock, deadline_ms, error);
    }
    if (status == PS_OK)
        lock->descriptor = descriptor;
    else
        (void)close(descriptor);
    return status;
}

/* inotify is set up by the first wait, since nearly always the lock is free, and kept from then on:
 * closing it takes the kernel 10 to 20 ms, all of them with the lock held. What was closed between
 * two waits is one event, which costs one try. A user has 128 of them on most machines, for all
 * processes together: without one the lock is tried again and again. */
static void watch_closings(struct ps_kv_file_lock *lock, const char *path)
{
    /* Non-blocking: reading events must not wait when they are used up. */
    if (lock->closings < 0)
        lock->closings = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    /* The watch that is there already, unless somebody has replaced the file. */
    if (lock->closings < 0 || inotify_add_watch(lock->closings, path, IN_CLOSE) >= 0)
        return;
    (void)close(lock->closings);
    lock->closings = -1;
}

/* Each try comes after the watch began, so a closing in between is not missed. When several wait,
 * all of them wake up and one gets the lock; the others wait for its closing. */
static enum ps_status wait_for_turn(int descriptor, int closings, const char *path,
                                    const struct ps_clock *clock, uint64_t deadline_ms,
                                    struct ps_error *error)
{
    uint64_t most_ms = closings < 0 ? PS_KV_FILE_LOOK_MS : INT_MAX;
    while (!try_lock(descriptor)) {
        uint64_t left = ps_time_left_ms(clock, deadline_ms);
        /* UNAVAILABLE: nothing was read or written. */
        if (left == 0)
            return ps_fail(error, PS_ERR_UNAVAILABLE, "%s is held by another process", path);
        /* A descriptor of -1 is waited for as long, and never has anything. */
        struct pollfd closed = {closings, POLLIN, 0};
        (void)poll(&closed, 1, (int)(left < most_ms ? left : most_ms));
        /* The events only mean "try again"; they are taken so that poll does not return at once the
         * next time. */
        char events[4096];
        while (read(closings, events, sizeof events) > 0)
            continue;
    }
    return PS_OK;
}

static bool try_lock(int descriptor)
{
    int failed;
    /* A signal may interrupt flock even when it does not wait. */
    do
        failed = flock(descriptor, LOCK_EX | LOCK_NB);
    while (failed != 0 && errno == EINTR);
    return failed == 0;
}

void ps_kv_file_lock_release(struct ps_kv_file_lock *lock)
{
    PS_ASSERT(lock->descriptor >= 0);
    /* Closing gives the lock up and is the event that others wait for. */
    (void)close(lock->descriptor);
    lock->descriptor = -1;
}
