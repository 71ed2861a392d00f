/* SPDX-License-Identifier: Apache-2.0 */
/* The lock between processes that share a folder: flock(2) with a deadline.
 *
 * Threads:  each lock belongs to one thread; two locks in one process exclude each other too.
 * Blocking: until the deadline.
 * Errors:   PS_ERR_UNAVAILABLE when somebody else kept it until the deadline; PS_ERR_IO.
 * Memory:   none; a descriptor from the first wait to fini.
 */
#ifndef PS_ETCD_KV_FILE_LOCK_H
#define PS_ETCD_KV_FILE_LOCK_H

#include "base/clock.h"
#include "base/status.h"

/* How often a file is looked at where the kernel has no inotify left that would tell of it. */
#define PS_KV_FILE_LOOK_MS 50u

/* Begins as {-1, -1}. */
struct ps_kv_file_lock {
    int descriptor; /* -1: not held */
    int closings;   /* inotify on the lock's file, once somebody has waited; -1: none, or none
                       was to be had */
};

/* Of a lock that is not held. */
void ps_kv_file_lock_fini(struct ps_kv_file_lock *lock);

/* Takes the lock file at `path`, which is made when missing. The kernel gives it back when the
 * process dies. */
PS_MUST_USE enum ps_status ps_kv_file_lock_acquire(struct ps_kv_file_lock *lock, const char *path,
                                                   const struct ps_clock *clock,
                                                   uint64_t deadline_ms, struct ps_error *error);
void ps_kv_file_lock_release(struct ps_kv_file_lock *lock);

#endif
