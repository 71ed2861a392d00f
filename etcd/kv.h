/* SPDX-License-Identifier: Apache-2.0 */
/* The part of etcd that we need, and nothing more.
 *
 * Implementations: kv_etcd.c (the HTTP/JSON gateway), kv_file.c (one machine, a folder) and
 * kv_memory.c (simulation). All pass tests/conformance/kv_conformance.c; change the words here and
 * that suite together.
 *
 * Threads:  a store belongs to one thread at a time. No call starts a thread. Only
 *           ps_kv_interrupt may be called from another one.
 * Blocking: each call returns by `deadline_ms` on the store's clock. kv_memory never waits at all.
 * Errors:   PS_ERR_TIMEOUT leaves a write unknown: read before writing again.
 *           PS_ERR_UNAVAILABLE: no server answered, nothing was written.
 *           PS_ERR_DENIED: user or password refused.
 *           PS_ERR_BUSY: the store is full; nothing was written.
 *           PS_ERR_BAD_INPUT: beyond a bound below; nothing was asked.
 * Memory:   arguments are borrowed for the call; results say who frees them.
 */
#ifndef PS_ETCD_KV_H
#define PS_ETCD_KV_H

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "etcd/etcd_access.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bounds on what one call may carry. etcd itself refuses a request beyond 1.5 MiB, or of more than
 * 128 compares or changes (--max-txn-ops). */
#define PS_KV_KEY_BYTES_MAX 1024
#define PS_KV_VALUE_BYTES_MAX (512 * 1024)
#define PS_KV_COMPARES_MAX 128
#define PS_KV_CHANGES_MAX 128
#define PS_KV_TTL_MS_MAX ((uint64_t)24 * 60 * 60 * 1000)

struct ps_kv; /* opaque */
struct ps_kv_lease {
    int64_t id;
}; /* 0: no lease */

/* One key with its value and its place in the store's history. */
struct ps_kv_entry {
    char *key;      /* owned by the entry; NUL-terminated */
    uint8_t *value; /* owned; a NUL follows the last byte */
    size_t value_size;
    int64_t create_revision; /* of the put that made the key */
    int64_t modify_revision; /* of the last put */
    struct ps_kv_lease lease;
};

struct ps_kv_entries {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct ps_kv_entry *entries;       /* owned; sorted by key */
    size_t count;
    int64_t revision; /* of the store when it was read: watch from revision + 1 */
};

/* Releases what a read returned. Accepts a zeroed struct, and one released already. */
void ps_kv_entries_release(struct ps_kv_entries *entries);

/* What a transaction demands of one key. */
enum ps_kv_compare_kind {
    PS_KV_CREATED_AT, /* create revision == revision; 0: the key is absent */
    PS_KV_MODIFIED_AT /* modify revision == revision; 0: the key is absent */
};
struct ps_kv_compare {
    const char *key;
    enum ps_kv_compare_kind kind;
    int64_t revision;
};

/* What a transaction does when every compare holds. */
enum ps_kv_change_kind { PS_KV_PUT, PS_KV_DELETE };
struct ps_kv_change {
    enum ps_kv_change_kind kind;
    const char *key;
    struct ps_bytes value;    /* PS_KV_PUT */
    struct ps_kv_lease lease; /* PS_KV_PUT; id 0: none */
};

struct ps_kv_transaction {
    const struct ps_kv_compare *compares;
    size_t compare_count;
    const struct ps_kv_change *changes;
    size_t change_count;
};

/* Reads the key, or every key that starts with it when `prefix`, into `*entries`; release with
 * ps_kv_entries_release(). Nothing found is PS_OK with count 0. */
PS_MUST_USE enum ps_status ps_kv_read(struct ps_kv *kv, const char *key, bool prefix,
                                      uint64_t deadline_ms, struct ps_kv_entries *entries,
                                      struct ps_error *error);

/* Makes all changes in one revision if every compare holds. No key may be changed twice; deleting
 * an absent key changes nothing.
 *
 * PS_OK               `*done` says whether they held and the changes were made; `*revision` is the
 *                     store's revision (the create revision of keys made by it)
 * PS_ERR_TIMEOUT      unknown; the changes may still be made
 * PS_ERR_LEASE_LOST   a lease was gone; nothing was written
 */
PS_MUST_USE enum ps_status ps_kv_commit(struct ps_kv *kv,
                                        const struct ps_kv_transaction *transaction,
                                        uint64_t deadline_ms, bool *done, int64_t *revision,
                                        struct ps_error *error);

/* A lease that lasts `ttl_ms` (rounded up to seconds by etcd) from the store's receipt of this and
 * of each ps_kv_lease_keep. Keys put with it go when it ends. */
PS_MUST_USE enum ps_status ps_kv_lease_grant(struct ps_kv *kv, uint64_t ttl_ms,
                                             uint64_t deadline_ms, struct ps_kv_lease *lease,
                                             struct ps_error *error);

/* PS_ERR_LEASE_LOST when it had ended already. */
PS_MUST_USE enum ps_status ps_kv_lease_keep(struct ps_kv *kv, struct ps_kv_lease lease,
                                            uint64_t deadline_ms, struct ps_error *error);

/* Ends a lease at once; its keys go. A lease that is gone already is PS_OK. */
PS_MUST_USE enum ps_status ps_kv_lease_revoke(struct ps_kv *kv, struct ps_kv_lease lease,
                                              uint64_t deadline_ms, struct ps_error *error);

/* One watch at a time per store: every change of keys that start with `prefix` from `revision` on
 * (0: from the next change on). Opening another closes the first. */
PS_MUST_USE enum ps_status ps_kv_watch_open(struct ps_kv *kv, const char *prefix, int64_t revision,
                                            uint64_t deadline_ms, struct ps_error *error);

/* Waits for a change under the watched prefix.
 *
 * PS_OK               `*changed`: something changed since the last call: read again. The watch
 *                     carries no values on purpose: a reader that always reads the whole (small)
 *                     prefix cannot hold a wrong mixture.
 *                     Not `*changed`: the deadline passed or ps_kv_interrupt was called (also
 *                     before this call: then it returns at once).
 * PS_ERR_UNAVAILABLE  the watch broke or none is open; read again and open a new one
 * PS_ERR_CONFLICT     the revision was compacted away; read again and open a new one
 */
PS_MUST_USE enum ps_status ps_kv_watch_wait(struct ps_kv *kv, uint64_t deadline_ms, bool *changed,
                                            struct ps_error *error);

/* Makes a ps_kv_watch_wait of another thread return soon. Any thread; never blocks. */
void ps_kv_interrupt(struct ps_kv *kv);

/* Takes `kv`: the pointer is dead afterwards. NULL is allowed. */
void ps_kv_destroy(struct ps_kv *kv);

/* What an implementation fills in; `struct ps_kv` starts with a pointer to it. The functions above
 * check arguments and call these. */
struct ps_kv_methods {
    enum ps_status (*read)(struct ps_kv *, const char *, bool, uint64_t, struct ps_kv_entries *,
                           struct ps_error *);
    enum ps_status (*commit)(struct ps_kv *, const struct ps_kv_transaction *, uint64_t, bool *,
                             int64_t *, struct ps_error *);
    enum ps_status (*lease_grant)(struct ps_kv *, uint64_t, uint64_t, struct ps_kv_lease *,
                                  struct ps_error *);
    enum ps_status (*lease_keep)(struct ps_kv *, struct ps_kv_lease, uint64_t, struct ps_error *);
    enum ps_status (*lease_revoke)(struct ps_kv *, struct ps_kv_lease, uint64_t, struct ps_error *);
    enum ps_status (*watch_open)(struct ps_kv *, const char *, int64_t, uint64_t,
                                 struct ps_error *);
    enum ps_status (*watch_wait)(struct ps_kv *, uint64_t, bool *, struct ps_error *);
    void (*interrupt)(struct ps_kv *);
    void (*destroy)(struct ps_kv *);
};
struct ps_kv {
    const struct ps_kv_methods *methods;
};

/* etcd's HTTP/JSON gateway.
 *
 * endpoints   comma-separated URLs; borrowed, copied. A dead one is passed over, the next is tried.
 * access      who we are there, and whom we take for etcd; borrowed, copied
 */
struct ps_kv_etcd_options {
    const char *endpoints;
    struct ps_etcd_access access;
    const struct ps_clock *clock;      /* borrowed; outlives the store */
    const struct ps_allocator *memory; /* borrowed; outlives the store */
    uint64_t request_ms;               /* most for one attempt at one endpoint; 0: 2000 */
};
PS_MUST_USE enum ps_status ps_kv_etcd_open(const struct ps_kv_etcd_options *options,
                                           struct ps_kv **kv, struct ps_error *error);

/* A folder on one machine, for servers without etcd; made when missing. Several processes may share
 * it: a lock file orders them, every write is durable. Leases run on `clock`, which all of them
 * must share (the machine's), and end at once when the store that they were granted through is
 * closed or its process is gone. Where the file system cannot tell (kv_file_guard.h), time ends
 * them; after a reboot such a lease lasts at most its length from the first look.
 * Keys must be UTF-8. Not for folders on a network.
 *
 * Two more failures: PS_ERR_IO, the disk refused, and a write may be seen or not; PS_ERR_CORRUPT,
 * the file in the folder is not what was written. */
PS_MUST_USE enum ps_status ps_kv_file_open(const char *folder, const struct ps_clock *clock,
                                           const struct ps_allocator *memory, struct ps_kv **kv,
                                           struct ps_error *error);

/* The same with the content on a file system of the caller's (borrowed; outlives the store); lock
 * and watch stay on the machine's. */
PS_MUST_USE enum ps_status ps_kv_file_open_on(const struct ps_files *files, const char *folder,
                                              const struct ps_clock *clock,
                                              const struct ps_allocator *memory, struct ps_kv **kv,
                                              struct ps_error *error);

/* A store in memory with any number of connections. Leases run on `clock`, which a simulation
 * moves. The hub must outlive its connections. Not for use from several threads. */
struct ps_kv_hub;
PS_MUST_USE enum ps_status ps_kv_hub_create(const struct ps_clock *clock,
                                            const struct ps_allocator *memory,
                                            struct ps_kv_hub **hub);
void ps_kv_hub_destroy(struct ps_kv_hub *hub);

/* The next change gets the revision after `revision` (at least 1; 1 is where a hub begins by
 * itself). Before the first connection. */
void ps_kv_hub_start_at(struct ps_kv_hub *hub, int64_t revision);
PS_MUST_USE enum ps_status ps_kv_memory_open(struct ps_kv_hub *hub, struct ps_kv **kv);

#endif
