/* SPDX-License-Identifier: Apache-2.0 */
/* Where a server coordinates: etcd, a folder of its data directory, or nothing but memory.
 *
 * Threads:  a store belongs to one thread at a time; open one for each thread that needs it.
 * Blocking: opening never waits for etcd.
 * Errors:   PS_ERR_BAD_INPUT for URLs or a job name, PS_ERR_IO for the folder, PS_ERR_NO_MEMORY.
 * Memory:   options are borrowed and outlive the store.
 */
#ifndef PS_SERVER_STORE_H
#define PS_SERVER_STORE_H

#include "etcd/registry.h"

struct ps_store;

struct ps_store_options {
    const char *etcd; /* NULL: alone */
    struct ps_etcd_access access;
    const char *data_dir; /* alone: the folder "store" in it; NULL: memory, for one thread only */
    bool leases_end;      /* in memory: also there leases run out, on `clock` */
    const char *job;
    const struct ps_clock *clock;
    const struct ps_allocator *memory;
};

PS_MUST_USE enum ps_status ps_store_open(const struct ps_store_options *options,
                                         struct ps_store **store, struct ps_error *error);

/* NULL is allowed. */
void ps_store_close(struct ps_store *store);

/* The job's keys in the store; NULL for no store. */
struct ps_registry *ps_store_registry(struct ps_store *store);

#endif
