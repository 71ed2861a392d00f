/* SPDX-License-Identifier: Apache-2.0 */
/* Tells of the leases of a shared folder whether their owners still run: each owner holds a lock on
 * one byte of a file, at the place of the lease's number, through a descriptor of its own. The
 * kernel lets go of it when the last thread of the process is gone, however it died, so that no
 * process that could still answer anybody is ever taken for dead. A stopped one still holds it.
 *
 * Threads:  each guard belongs to one thread; any number of guards may share a file.
 * Blocking: never.
 * Errors:   said at each function.
 * Memory:   none.
 */
#ifndef PS_ETCD_KV_FILE_GUARD_H
#define PS_ETCD_KV_FILE_GUARD_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct ps_kv_file_guard {
    int holder; /* has the locks of our leases; -1: closed */
    int prober; /* has none, so that it meets ours, too */
};

/* The file is made when missing. PS_ERR_IO. */
PS_MUST_USE enum ps_status ps_kv_file_guard_open(struct ps_kv_file_guard *guard, const char *path,
                                                 struct ps_error *error);

/* Ends every lease that was held through it. Accepts one that is closed. */
void ps_kv_file_guard_close(struct ps_kv_file_guard *guard);

/* False when the file system knows no such locks: the lease is then one that only time ends. */
bool ps_kv_file_guard_hold(struct ps_kv_file_guard *guard, int64_t lease);
void ps_kv_file_guard_let_go(struct ps_kv_file_guard *guard, int64_t lease);

/* Does nobody hold it? False when that cannot be told. */
bool ps_kv_file_guard_is_dead(const struct ps_kv_file_guard *guard, int64_t lease);

#endif
