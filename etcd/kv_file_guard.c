/* SPDX-License-Identifier: Apache-2.0 */
/* Locks of open file descriptions (fcntl F_OFD_SETLK): they belong to the descriptor, not to the
 * process, so that two stores of one process are two owners. The kernel gives them up when the last
 * descriptor is closed, by whatever death, which is the one proof of a process's end that needs no
 * timeout.
 *
 * Byte number `lease` of the file stands for that lease. The file itself stays empty: locks reach
 * beyond its end. */
#include "etcd/kv_file_guard.h"

#include "base/assert.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static bool set_lock(int descriptor, int64_t lease, short type);

enum ps_status ps_kv_file_guard_open(struct ps_kv_file_guard *guard, const char *path,
                                     struct ps_error *error)
{
    *guard = (struct ps_kv_file_guard){-1, -1};
    /* Two descriptions: asking with the one that holds a lock would never find that lock, as no
     * description conflicts with itself, and our own leases would look dead. */
    guard->holder = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    if (guard->holder >= 0)
        guard->prober = open(path, O_RDONLY | O_CLOEXEC);
    if (guard->prober >= 0)
        return PS_OK;
    enum ps_status status = ps_fail(error, PS_ERR_IO, "open %s: %s", path, strerror(errno));
    ps_kv_file_guard_close(guard);
    return status;
}

void ps_kv_file_guard_close(struct ps_kv_file_guard *guard)
{
    if (guard->prober >= 0)
        (void)close(guard->prober);
    if (guard->holder >= 0)
        (void)close(guard->holder);
    *guard = (struct ps_kv_file_guard){-1, -1};
}

bool ps_kv_file_guard_hold(struct ps_kv_file_guard *guard, int64_t lease)
{
    return set_lock(guard->holder, lease, F_WRLCK);
}

void ps_kv_file_guard_let_go(struct ps_kv_file_guard *guard, int64_t lease)
{
    /* Unlocking what is not locked is allowed. */
    (void)set_lock(guard->holder, lease, F_UNLCK);
}

static bool set_lock(int descriptor, int64_t lease, short type)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = lease, .l_len = 1};
    PS_ASSERT(lease > 0);
    return fcntl(descriptor, F_OFD_SETLK, &range) == 0;
}

/* Asks whether a lock could be had, without taking it. A failed question counts as alive: a lease
 * ended by mistake would take a shard from its owner. */
bool ps_kv_file_guard_is_dead(const struct ps_kv_file_guard *guard, int64_t lease)
{
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = lease, .l_len = 1};
    PS_ASSERT(lease > 0);
    return fcntl(guard->prober, F_OFD_GETLK, &range) == 0 && range.l_type == F_UNLCK;
}
