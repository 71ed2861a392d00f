/* SPDX-License-Identifier: Apache-2.0 */
/* flock(2) waits for ever or not at all, and a wait with a deadline is needed. The holder of this
 * lock closes the file to give it up, and inotify tells of that, so a wait needs no polling and no
 * signal. */
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

static enum ps_status wait_contended(struct ps_kv_file_lock *lock, int descriptor, const char *path,
                                     const struct ps_clock *clock, uint64_t deadline_ms,
                                     struct ps_error *error);
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
    if (!try_lock(descriptor))
        status = wait_contended(lock, descriptor, path, clock, deadline_ms, error);
    if (status == PS_OK)
        lock->descriptor = descriptor;
    else
        (void)close(descriptor);
    return status;
}

/* inotify is set up by the first wait, since nearly always the lock is free, and kept from then on:
 * closing it takes the kernel 10 to 20 ms, all of them with the lock held. What was closed between
 * two waits is one event, which costs one try. */
static enum ps_status wait_contended(struct ps_kv_file_lock *lock, int descriptor, const char *path,
                                     const struct ps_clock *clock, uint64_t deadline_ms,
                                     struct ps_error *error)
{
    /* Non-blocking: reading events must not wait when they are used up. */
    if (lock->closings < 0)
        lock->closings = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (lock->closings < 0)
        return ps_fail(error, PS_ERR_IO, "inotify: %s%s", strerror(errno), ps_kv_file_limit(errno));
    /* The watch that is there already, unless somebody has replaced the file. */
    if (inotify_add_watch(lock->closings, path, IN_CLOSE) < 0)
        return ps_fail(error, PS_ERR_IO, "watch %.150s: %s%s", path, strerror(errno),
                       ps_kv_file_limit(errno));
    return wait_for_turn(descriptor, lock->closings, path, clock, deadline_ms, error);
}

/* Each try comes after the watch began, so a closing in between is not missed. When several wait,
 * all of them wake up and one gets the lock; the others wait for its closing. */
static enum ps_status wait_for_turn(int descriptor, int closings, const char *path,
                                    const struct ps_clock *clock, uint64_t deadline_ms,
                                    struct ps_error *error)
{
    while (!try_lock(descriptor)) {
        uint64_t left = ps_time_left_ms(clock, deadline_ms);
        struct pollfd closed = {closings, POLLIN, 0};
        int count = left == 0 ? 0 : poll(&closed, 1, left < INT_MAX ? (int)left : INT_MAX);
        /* UNAVAILABLE: nothing was read or written. */
        if (count == 0)
            return ps_fail(error, PS_ERR_UNAVAILABLE, "%s is held by another process", path);
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

/* The kernel says "No space left on device" of a limit that has nothing to do with a disk, and "Too
 * many open files" of one that this process may have no part in: both are of all processes of a
 * user. */
const char *ps_kv_file_limit(int code)
{
    if (code == EMFILE)
        return " (see sysctl fs.inotify.max_user_instances)";
    return code == ENOSPC ? " (see sysctl fs.inotify.max_user_watches)" : "";
}
