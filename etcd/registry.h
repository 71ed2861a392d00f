/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of one job in the store, and the few transactions made on them. docs/etcd-keys.md.
 *
 *   /ps_desired          decimal number of shards; no lease (B13)
 *   /ps_placement        decimal number by which parameters have their shards; no lease
 *   /ps/<i>              "host:port" of the server that owns shard i, leased; empty while that
 *                        server is still loading. Its create revision is the owner's epoch.
 *   /checkpoints/<i>     JSON pointer to the newest checkpoint (checkpoint/catalog.h)
 *   /checkpoints/<i>/journal   JSON: how far its journal is durable (checkpoint/journal_note.h)
 *   /init_ps/lock/<id>   one leased key per trainer that wants to initialise; the oldest holds
 *                        (<id>: the lease's, or "c" and the number of a trainer that asks servers)
 *   /init_ps/done        "1" once every shard is initialised
 *   /init_ps/lost        "<i> <epoch>" of the last owner that began without any state
 *
 * --job NAME puts "/NAME" before all of them (B25).
 *
 * Every write is a transaction that can be repeated: after PS_ERR_TIMEOUT the functions here read
 * back and find out whether it happened (B12), within the same deadline; only when that fails too
 * do they return PS_ERR_TIMEOUT.
 *
 * Threads:  as the store: one at a time.
 * Blocking: until `deadline_ms`.
 * Errors:   those of etcd/kv.h.
 * Memory:   in place.
 */
#ifndef PS_ETCD_REGISTRY_H
#define PS_ETCD_REGISTRY_H

#include "base/bounds.h"
#include "etcd/kv.h"

/* Longest job name. */
#define PS_JOB_BYTES_MAX 100

/* Where the keys are. `job` is "" or a name of letters, digits, '-', '_' and '.'. */
struct ps_registry {
    struct ps_kv *kv; /* borrowed; outlives this */
    char job[128];    /* "" or "/NAME": what stands before every key */
};

/* `job` may be NULL for "". PS_ERR_BAD_INPUT for a job name with other characters or too long. */
PS_MUST_USE enum ps_status ps_registry_init(struct ps_registry *registry, struct ps_kv *kv,
                                            const char *job, struct ps_error *error);

/* Sets the number of shards if nobody has, and reads what holds. PS_ERR_BAD_INPUT when the wish is
 * 0 or beyond PS_SHARDS_MAX, or when the key holds something else than such a number. */
PS_MUST_USE enum ps_status ps_registry_desired(struct ps_registry *registry,
                                               uint32_t shard_count_wish, uint64_t deadline_ms,
                                               uint32_t *shard_count, struct ps_error *error);

/* Reads the number of shards; PS_ERR_NOT_FOUND while nobody has set it: then open a watch with
 * ps_registry_watch_members(revision 0), read again and wait (B29). */
PS_MUST_USE enum ps_status ps_registry_read_desired(struct ps_registry *registry,
                                                    uint64_t deadline_ms, uint32_t *shard_count,
                                                    struct ps_error *error);

/* Ownership of one shard. */
struct ps_claim {
    uint32_t index;
    uint64_t epoch; /* create revision of /ps/<index> */
    struct ps_kv_lease lease;
};

/* Claims the lowest free index, or `index_wish` when that is not UINT32_MAX, with an empty address.
 * A lease claims one index at most: when it has one already (an earlier call whose answer was lost)
 * that one is returned (B12).
 *
 * PS_OK               `*claim` is ours for as long as the lease lasts
 * PS_ERR_BUSY         no index is free (or the wished one is not): wait for a change under /ps/
 */
PS_MUST_USE enum ps_status ps_registry_claim(struct ps_registry *registry, uint32_t shard_count,
                                             uint32_t index_wish, struct ps_kv_lease lease,
                                             uint64_t deadline_ms, struct ps_claim *claim,
                                             struct ps_error *error);

/* Keeps the lease, and sees that the key is still the one that was made by the claim: somebody may
 * have deleted it by hand, and then the next server claims the shard while the lease lives on.
 * PS_ERR_STALE_EPOCH when it is not; PS_ERR_LEASE_LOST as ps_kv_lease_keep. */
PS_MUST_USE enum ps_status ps_registry_keep(struct ps_registry *registry,
                                            const struct ps_claim *claim, uint64_t deadline_ms,
                                            struct ps_error *error);

/* Puts the address, once loaded and listening. PS_ERR_STALE_EPOCH when the claim is no longer ours;
 * PS_ERR_BAD_INPUT for an address that is empty, too long or not printable ASCII. */
PS_MUST_USE enum ps_status ps_registry_publish_address(struct ps_registry *registry,
                                                       const struct ps_claim *claim,
                                                       const char *address, uint64_t deadline_ms,
                                                       struct ps_error *error);

/* Puts the checkpoint pointer, only while the claim is ours: else PS_ERR_STALE_EPOCH. */
PS_MUST_USE enum ps_status
ps_registry_publish_checkpoint(struct ps_registry *registry, const struct ps_claim *claim,
                               struct ps_bytes json, uint64_t deadline_ms, struct ps_error *error);

/* Puts the note of how far the journal is durable, only while the claim is ours: else
 * PS_ERR_STALE_EPOCH. */
PS_MUST_USE enum ps_status ps_registry_publish_note(struct ps_registry *registry,
                                                    const struct ps_claim *claim,
                                                    struct ps_bytes json, uint64_t deadline_ms,
                                                    struct ps_error *error);

/* Puts the pointer of a shard that nobody owns, for an operator who goes back to another
 * checkpoint. PS_ERR_EXISTS while somebody does. */
PS_MUST_USE enum ps_status ps_registry_replace_checkpoint(struct ps_registry *registry,
                                                          uint32_t index, struct ps_bytes json,
                                                          uint64_t deadline_ms,
                                                          struct ps_error *error);

/* Deletes /init_ps/done and puts /init_ps/lost, only while the claim is ours and
 * /checkpoints/<index> is absent: this shard has no state, so the job must be initialised again
 * (B6), also by a trainer that has finished the shard's former owner and is about to set the mark.
 * PS_ERR_STALE_EPOCH when the claim is not ours, PS_ERR_CONFLICT when there is a checkpoint;
 * nothing was changed then. */
PS_MUST_USE enum ps_status ps_registry_forget_done(struct ps_registry *registry,
                                                   const struct ps_claim *claim,
                                                   uint64_t deadline_ms, struct ps_error *error);

/* Reads the pointer of shard `index`: one entry, released with ps_kv_entries_release.
 * PS_ERR_NOT_FOUND "checkpoint not found in etcd". */
PS_MUST_USE enum ps_status ps_registry_read_checkpoint(struct ps_registry *registry, uint32_t index,
                                                       uint64_t deadline_ms,
                                                       struct ps_kv_entries *entries,
                                                       struct ps_error *error);

/* The same for the note of its journal. PS_ERR_NOT_FOUND when there is none. */
PS_MUST_USE enum ps_status ps_registry_read_note(struct ps_registry *registry, uint32_t index,
                                                 uint64_t deadline_ms,
                                                 struct ps_kv_entries *entries,
                                                 struct ps_error *error);

/* The servers of the job, one row per index below shard_count. */
struct ps_member {
    char address[PS_ADDRESS_BYTES_MAX]; /* "" while nobody serves that index (B9) */
    uint64_t epoch;                     /* 0 while nobody has claimed it */
};
struct ps_members {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct ps_member *rows;            /* owned */
    uint32_t shard_count;
    uint64_t placement; /* 0: not decided */
    int64_t revision;   /* watch from revision + 1 */
};

/* Reads /ps_desired, /ps_placement and /ps/ and releases what `*members` held (a zeroed struct at
 * first), which stays as it was on failure. PS_ERR_NOT_FOUND while /ps_desired is not set. */
PS_MUST_USE enum ps_status
ps_registry_read_members(struct ps_registry *registry, const struct ps_allocator *memory,
                         uint64_t deadline_ms, struct ps_members *members, struct ps_error *error);
void ps_members_release(struct ps_members *members);

/* Watches /ps_desired, /ps_placement and /ps/ from `revision` (0: from now). Waiting is
 * ps_kv_watch_wait on the store. */
PS_MUST_USE enum ps_status ps_registry_watch_members(struct ps_registry *registry, int64_t revision,
                                                     uint64_t deadline_ms, struct ps_error *error);

/* The lock under which one trainer initialises. */
struct ps_init_lock {
    struct ps_kv_lease lease;
    int64_t create_revision; /* of our key; 0: not queued */
    int64_t lost_revision;   /* of /init_ps/lost, as prepared */
    char key[224];
};

enum ps_init_turn {
    PS_INIT_WAIT,     /* somebody else holds the lock: call again after a change or a while */
    PS_INIT_SELECTED, /* we hold it and nothing is initialised: initialise, then call finish */
    PS_INIT_DONE      /* initialised already; our place in the queue was given up */
};

/* Queues for the lock (first call, with a zeroed lock) and says whose turn it is. Never waits for
 * other trainers. The caller keeps lock->lease alive with ps_kv_lease_keep. PS_ERR_LEASE_LOST when
 * it was not: the lock is zeroed, and the next call queues anew, at the end. */
PS_MUST_USE enum ps_status ps_registry_init_turn(struct ps_registry *registry, uint64_t ttl_ms,
                                                 struct ps_init_lock *lock, uint64_t deadline_ms,
                                                 enum ps_init_turn *turn, struct ps_error *error);

/* The place of a trainer in whose name servers ask: named by its number, so that any server finds
 * it, with the lease that it lies under. Without a place `*lock` has its name only, and
 * ps_registry_init_turn makes one. `client` is not 0. */
PS_MUST_USE enum ps_status ps_registry_init_find(struct ps_registry *registry, uint64_t client,
                                                 uint64_t deadline_ms, struct ps_init_lock *lock,
                                                 struct ps_error *error);

/* Has somebody initialised the job? */
PS_MUST_USE enum ps_status ps_registry_init_is_done(struct ps_registry *registry,
                                                    uint64_t deadline_ms, bool *done,
                                                    struct ps_error *error);

/* By which number parameters have their shards; 0: nobody has decided. PS_ERR_BAD_INPUT when the
 * key holds something else. */
PS_MUST_USE enum ps_status ps_registry_read_placement(struct ps_registry *registry,
                                                      uint64_t deadline_ms, uint64_t *placement,
                                                      struct ps_error *error);

/* Decides on `proposal` (not 0) unless somebody has decided before; `*placement` is what holds, for
 * the life of the job. PS_ERR_STALE_EPOCH: nothing is decided, and the lock is not ours. */
PS_MUST_USE enum ps_status ps_registry_decide_placement(struct ps_registry *registry,
                                                        const struct ps_init_lock *lock,
                                                        uint64_t proposal, uint64_t deadline_ms,
                                                        uint64_t *placement,
                                                        struct ps_error *error);

/* Before the servers are told to finish: from now on ps_registry_init_finish demands that no shard
 * begins without any state. Of what was lost earlier the epoch in FinishInitParams tells. */
PS_MUST_USE enum ps_status ps_registry_init_prepare(struct ps_registry *registry,
                                                    struct ps_init_lock *lock, uint64_t deadline_ms,
                                                    struct ps_error *error);

/* Puts /init_ps/done and gives the lock up, in one transaction that demands that the lock is still
 * ours and that no shard has begun without any state since ps_registry_init_prepare.
 *
 * PS_ERR_STALE_EPOCH  "no longer the owner of the lock"; the lock is zeroed, as by PS_OK
 * PS_ERR_CONFLICT     a shard has begun without any state, before its server was told to finish or
 *                     after; the lock is still held. Prepare, and tell all to finish again: a
 *                     server that has lost what it was given refuses that. */
PS_MUST_USE enum ps_status ps_registry_init_finish(struct ps_registry *registry,
                                                   struct ps_init_lock *lock, uint64_t deadline_ms,
                                                   struct ps_error *error);

/* Gives the lock up without finishing. */
void ps_registry_init_abandon(struct ps_registry *registry, struct ps_init_lock *lock,
                              uint64_t deadline_ms);

#endif
