/* SPDX-License-Identifier: Apache-2.0 */
/* Which workers take part in a job, and with which rank. Workers know no store: servers write these
 * keys in their names, and any server can go on with what another one began.
 *
 *   /workers/<group>/size         decimal: ranks are 0 to size - 1; 0: no end. Every change of who
 *                                 is in the group puts it anew, and demands it as it was read
 *   /workers/<group>/ranks/<i>    who has rank i, under the worker's lease. Its create revision is
 *                                 the place's incarnation
 *   /workers/<group>/names/<i>    who had it last, of those with a name; no lease
 *
 * A lease is granted in the name of a worker and kept by whichever server the worker calls: the row
 * says under which lease it lies, so that a server which dies takes no worker with it.
 *
 * Threads:  as the store: one at a time.
 * Blocking: until `deadline_ms`.
 * Errors:   those of etcd/kv.h. PS_ERR_TIMEOUT: it may have happened; read again.
 * Memory:   what is read is released with ps_worker_rows_release.
 */
#ifndef PS_ETCD_REGISTRY_WORKERS_H
#define PS_ETCD_REGISTRY_WORKERS_H

#include "etcd/registry.h"

#define PS_WORKER_GROUP_BYTES_MAX 64
#define PS_WORKER_NAME_BYTES_MAX 64
#define PS_WORKER_ROLE_BYTES_MAX 32
#define PS_WORKER_HOST_BYTES_MAX 64

/* Ranks of a group, and groups of a job that are kept. */
#define PS_WORKERS_MAX 4096
#define PS_WORKER_GROUPS_MAX 16

/* Who a worker is, in its own words. */
struct ps_worker {
    uint64_t client; /* the number of its process */
    uint64_t ttl_ms;
    uint64_t joined_unix_ms;
    char name[PS_WORKER_NAME_BYTES_MAX + 1]; /* "": none */
    char role[PS_WORKER_ROLE_BYTES_MAX + 1];
    char host[PS_WORKER_HOST_BYTES_MAX + 1];
};

/* A place that somebody has. */
struct ps_worker_row {
    uint32_t group; /* among the groups that were read */
    uint32_t rank;
    int64_t incarnation; /* create revision */
    struct ps_kv_lease lease;
    struct ps_worker worker;
};

/* The name that a rank had last, whether it is taken or not. */
struct ps_worker_memory {
    uint32_t rank;
    char name[PS_WORKER_NAME_BYTES_MAX + 1];
};

struct ps_worker_group {
    char name[PS_WORKER_GROUP_BYTES_MAX + 1];
    uint32_t size;
    int64_t revision; /* modify revision of its size; 0: it has none */
};

struct ps_worker_rows {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct ps_worker_row *rows;        /* owned; by group and rank */
    struct ps_worker_memory *names;    /* owned; of one group that was read alone */
    struct ps_worker_group *groups;    /* owned */
    size_t row_count, name_count, group_count;
    size_t room;      /* that rows and names have */
    int64_t revision; /* watch from revision + 1 */
};

/* 1 to 64 letters, digits, '.', '_' and '-', and neither "servers" nor "all". PS_ERR_BAD_INPUT. */
PS_MUST_USE enum ps_status ps_worker_group_check(const char *group, struct ps_error *error);

/* Texts of printable ASCII without spaces, and a client that is not 0. PS_ERR_BAD_INPUT. */
PS_MUST_USE enum ps_status ps_worker_check(const struct ps_worker *worker, struct ps_error *error);

/* The rows of one group (which groups[0] then is, there or not), or with NULL those of all groups,
 * without names. Keys and values that make no sense are passed over. */
PS_MUST_USE enum ps_status ps_registry_read_workers(struct ps_registry *registry, const char *group,
                                                    const struct ps_allocator *memory,
                                                    uint64_t deadline_ms,
                                                    struct ps_worker_rows *rows,
                                                    struct ps_error *error);

/* Accepts a zeroed one. */
void ps_worker_rows_release(struct ps_worker_rows *rows);

/* What ps_registry_put_worker has put since, and ps_registry_drop_worker has taken away, of one
 * group that was read alone: so that many who join at once cost one reading. `size` is the group's
 * from now on. PS_ERR_NO_MEMORY: nothing was added. */
PS_MUST_USE enum ps_status ps_worker_rows_add(struct ps_worker_rows *rows,
                                              const struct ps_worker_row *row, uint32_t size,
                                              struct ps_error *error);
void ps_worker_rows_remove(struct ps_worker_rows *rows, size_t index);

/* Puts the row of `rank` under the lease, if nobody has joined the group since it was read: `group`
 * says what was read, with the size that is to hold. Not `*done`: read again. */
PS_MUST_USE enum ps_status ps_registry_put_worker(struct ps_registry *registry,
                                                  const struct ps_worker_group *group,
                                                  uint32_t rank, const struct ps_worker *worker,
                                                  struct ps_kv_lease lease, uint64_t deadline_ms,
                                                  bool *done, int64_t *incarnation,
                                                  struct ps_error *error);

/* Keeps the lease of a place. PS_ERR_STALE_EPOCH: it is not this client's any more. */
PS_MUST_USE enum ps_status ps_registry_keep_worker(struct ps_registry *registry, const char *group,
                                                   uint32_t rank, uint64_t client,
                                                   int64_t incarnation, uint64_t deadline_ms,
                                                   struct ps_error *error);

/* Takes the row away; one that is gone, or that is somebody's by now, is PS_OK. */
PS_MUST_USE enum ps_status ps_registry_drop_worker(struct ps_registry *registry, const char *group,
                                                   const struct ps_worker_row *row,
                                                   uint64_t deadline_ms, struct ps_error *error);

/* Takes away a group in which nobody is, with the names that it remembers, unless somebody joins it
 * meanwhile. */
PS_MUST_USE enum ps_status ps_registry_forget_group(struct ps_registry *registry,
                                                    const struct ps_worker_group *group,
                                                    uint64_t deadline_ms, struct ps_error *error);

/* As ps_registry_watch_members, of all groups. */
PS_MUST_USE enum ps_status ps_registry_watch_workers(struct ps_registry *registry, int64_t revision,
                                                     uint64_t deadline_ms, struct ps_error *error);

#endif
