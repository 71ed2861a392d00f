/* SPDX-License-Identifier: Apache-2.0 */
/* The keys, leases and recent history of a small store in memory: what kv_memory.c and kv_file.c
 * have in common. It decides as etcd does and does no input or output.
 *
 * Threads:  one at a time.
 * Blocking: never.
 * Errors:   those of etcd/kv.h; a call that fails has changed nothing.
 * Memory:   owned by the table until ps_kv_table_fini.
 */
#ifndef PS_ETCD_KV_TABLE_H
#define PS_ETCD_KV_TABLE_H

#include "etcd/kv.h"

/* Bounds on what a table holds; beyond them PS_ERR_BUSY. */
#define PS_KV_TABLE_KEYS_MAX 65536
#define PS_KV_TABLE_LEASES_MAX 65536

/* Changes that a watch can look back on. Older ones are compacted away. */
#define PS_KV_TABLE_HISTORY_MAX 512

struct ps_kv_table_lease {
    int64_t id;
    uint64_t ttl_ms;
    uint64_t expires_ms;
    bool guarded; /* of a file: its end can be proved before (kv_file_guard.h) */
};

/* A key was put or deleted at a revision. */
struct ps_kv_table_event {
    int64_t revision;
    char *key; /* owned */
};

struct ps_kv_table {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct ps_kv_entry *entries;       /* owned; sorted by key */
    size_t entry_count;
    size_t entry_capacity;
    struct ps_kv_table_lease *leases; /* owned; sorted by id */
    size_t lease_count;
    size_t lease_capacity;
    struct ps_kv_table_event history[PS_KV_TABLE_HISTORY_MAX]; /* a ring */
    size_t history_first;
    size_t history_count;
    int64_t revision;           /* of the newest change; 1 in an empty table */
    int64_t compacted_revision; /* events up to this one are forgotten */
    int64_t last_lease;
};

void ps_kv_table_init(struct ps_kv_table *table, const struct ps_allocator *memory);
/* Accepts a zeroed struct. */
void ps_kv_table_fini(struct ps_kv_table *table);

/* Asserts that keys and leases are sorted and that revisions fit together. */
void ps_kv_table_check(const struct ps_kv_table *table);

/* As ps_kv_read; the result is made with `memory`. */
PS_MUST_USE enum ps_status ps_kv_table_read(const struct ps_kv_table *table, const char *key,
                                            bool prefix, const struct ps_allocator *memory,
                                            struct ps_kv_entries *entries, struct ps_error *error);

/* As ps_kv_commit. */
PS_MUST_USE enum ps_status ps_kv_table_commit(struct ps_kv_table *table,
                                              const struct ps_kv_transaction *transaction,
                                              bool *done, int64_t *revision,
                                              struct ps_error *error);

/* Adds an entry or an event as it was saved; keys come in order, events oldest first. */
PS_MUST_USE enum ps_status ps_kv_table_restore_entry(struct ps_kv_table *table, struct ps_bytes key,
                                                     struct ps_bytes value,
                                                     struct ps_kv_entry facts,
                                                     struct ps_error *error);
PS_MUST_USE enum ps_status ps_kv_table_restore_event(struct ps_kv_table *table, struct ps_bytes key,
                                                     int64_t revision, struct ps_error *error);

/* Deletes every key of a lease in one revision. Needs no memory and cannot fail. */
void ps_kv_table_delete_leased(struct ps_kv_table *table, struct ps_kv_lease lease);

/* Whether a key under `prefix` changed at `revision` or later. PS_ERR_CONFLICT when some of that
 * history is forgotten. */
PS_MUST_USE enum ps_status ps_kv_table_changed(const struct ps_kv_table *table, const char *prefix,
                                               int64_t revision, bool *changed,
                                               struct ps_error *error);

/* --- leases: kv_table_leases.c --- */

PS_MUST_USE enum ps_status ps_kv_table_grant(struct ps_kv_table *table, uint64_t ttl_ms,
                                             uint64_t now_ms, struct ps_kv_lease *lease,
                                             struct ps_error *error);
PS_MUST_USE enum ps_status ps_kv_table_keep(struct ps_kv_table *table, struct ps_kv_lease lease,
                                            uint64_t now_ms, struct ps_error *error);
/* Returns whether there was such a lease. */
bool ps_kv_table_revoke(struct ps_kv_table *table, struct ps_kv_lease lease);
PS_MUST_USE enum ps_status ps_kv_table_restore_lease(struct ps_kv_table *table,
                                                     struct ps_kv_table_lease lease,
                                                     struct ps_error *error);

/* The lease, or NULL. Valid until the table changes. */
struct ps_kv_table_lease *ps_kv_table_find_lease(const struct ps_kv_table *table,
                                                 struct ps_kv_lease lease);

/* Ends the leases whose time is over. A lease cannot have more time left than its length: where
 * it seems to, the clock began anew (a reboot), and it gets its length from now. Returns whether
 * anything changed. */
bool ps_kv_table_expire(struct ps_kv_table *table, uint64_t now_ms);

/* When the next lease ends; PS_DEADLINE_NEVER without leases. */
uint64_t ps_kv_table_next_expiry(const struct ps_kv_table *table);

#endif
