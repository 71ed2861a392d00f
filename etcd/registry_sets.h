/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of a whole model. A set is one checkpoint of every shard, each of an instant behind the
 * moment at which the set was asked for. Servers meet here and never call each other:
 *
 *   /ps_wanted                       "<shards> <unix ns> <name>": the set under way; at most one
 *   /checkpoints/model/<name>/<i>    the pointer of shard i's checkpoint (checkpoint/catalog.h)
 *   /checkpoints/whole/<name>        as /ps_wanted: every row is there
 *
 * A row is put in the transaction that publishes the checkpoint, and only while the set is the one
 * under way. The last row's writer makes the set whole: one transaction takes /ps_wanted away and
 * puts the mark. So a set is whole, or under way, or not there. /ps_wanted lies beside /ps/ because
 * every server watches that prefix already.
 *
 * Threads:  as the store: one at a time.
 * Blocking: until `deadline_ms`.
 * Errors:   those of etcd/kv.h. PS_ERR_TIMEOUT: it may have happened; each may be repeated.
 * Memory:   in place, but for what says who releases it.
 */
#ifndef PS_ETCD_REGISTRY_SETS_H
#define PS_ETCD_REGISTRY_SETS_H

#include "etcd/registry.h"

/* Most sets that a job keeps: what is read at each checkpoint is bounded by it. */
#define PS_SETS_KEPT_MAX 64

/* One set that takes longer is given up when another is asked for. */
#define PS_SET_PATIENCE_NS ((uint64_t)600 * 1000000000)

struct ps_set {
    char name[PS_SET_NAME_BYTES_MAX + 1]; /* "": somebody wrote a value that makes no sense */
    uint32_t shard_count;
    uint64_t asked_unix_ns;
    int64_t revision; /* of /ps_wanted its modify revision, of a mark its create revision; 0: there
                         is no such key */
};

/* 1 to 64 letters, digits, '.', '_' and '-'. PS_ERR_BAD_INPUT. */
PS_MUST_USE enum ps_status ps_set_name_check(const char *name, struct ps_error *error);

/* The set under way; revision 0: none. */
PS_MUST_USE enum ps_status ps_registry_wanted_set(struct ps_registry *registry,
                                                  uint64_t deadline_ms, struct ps_set *set,
                                                  struct ps_error *error);

/* The mark of a set that is whole; revision 0: there is none of that name. */
PS_MUST_USE enum ps_status ps_registry_whole_set(struct ps_registry *registry, const char *name,
                                                 uint64_t deadline_ms, struct ps_set *set,
                                                 struct ps_error *error);

struct ps_set_list {
    struct ps_set sets[PS_SETS_KEPT_MAX + 1]; /* newest first; of more than fit the newest */
    size_t count;
};

/* Every set that is whole. */
PS_MUST_USE enum ps_status ps_registry_whole_sets(struct ps_registry *registry,
                                                  uint64_t deadline_ms, struct ps_set_list *list,
                                                  struct ps_error *error);

/* Asks for the set that `wish` names, of so many shards, at its time. `*set` is the one of that
 * name afterwards, under way or whole, asked for now or before: a repeat joins.
 *
 * PS_ERR_BUSY         another set is under way; the text says which
 */
PS_MUST_USE enum ps_status ps_registry_want_set(struct ps_registry *registry,
                                                const struct ps_set *wish, uint64_t deadline_ms,
                                                struct ps_set *set, bool *is_whole,
                                                struct ps_error *error);

/* The rows of a set that are there, by key; release with ps_kv_entries_release. */
PS_MUST_USE enum ps_status ps_registry_set_rows(struct ps_registry *registry, const char *name,
                                                uint64_t deadline_ms, struct ps_kv_entries *entries,
                                                struct ps_error *error);

/* The shard of a row; false for a key that is not one of a set of so many shards. */
bool ps_set_row_index(const struct ps_kv_entry *entry, uint32_t shard_count, uint32_t *index);

/* How many rows of a set of so many shards are among them. */
uint32_t ps_set_rows_count(const struct ps_kv_entries *entries, uint32_t shard_count);

/* The row of one shard. PS_ERR_NOT_FOUND when there is none. */
PS_MUST_USE enum ps_status ps_registry_set_row(struct ps_registry *registry, const char *name,
                                               uint32_t index, uint64_t deadline_ms,
                                               struct ps_kv_entries *entries,
                                               struct ps_error *error);

/* Marks the set under way as whole when every row is there. `*is_whole` is false when a row is
 * missing, or when the set is not under way any more. */
PS_MUST_USE enum ps_status ps_registry_finish_set(struct ps_registry *registry,
                                                  const struct ps_set *wanted, uint64_t deadline_ms,
                                                  bool *is_whole, struct ps_error *error);

/* Takes away all but the newest `keep` sets that are whole, and the rows of sets that were given
 * up. What was taken away before a failure stays so. */
PS_MUST_USE enum ps_status ps_registry_sweep_sets(struct ps_registry *registry, size_t keep,
                                                  uint64_t deadline_ms, struct ps_error *error);

/* The pointer of one shard, as an operator wants it. */
struct ps_set_pointer {
    uint32_t index;
    struct ps_bytes json; /* borrowed */
};

/* Most shards of which ps_registry_restore_set changes the pointers at once. */
#define PS_SET_RESTORE_MAX 60

/* Goes back to a set that is whole: the pointers of all its shards, which nobody may own, are
 * replaced at once, or none is. What is under way is given up, and other sets go: their files are
 * not where their rows say any more.
 *
 * PS_ERR_EXISTS       a server owns one of the shards
 * PS_ERR_NOT_FOUND    the set is not whole any more
 * PS_ERR_BAD_INPUT    more than PS_SET_RESTORE_MAX shards
 */
PS_MUST_USE enum ps_status ps_registry_restore_set(struct ps_registry *registry, const char *name,
                                                   const struct ps_set_pointer *pointers,
                                                   size_t count, uint64_t deadline_ms,
                                                   struct ps_error *error);

/* As ps_registry_publish_checkpoint, and the row of the set that is wanted with it.
 *
 * PS_ERR_CONFLICT     the set is not under way any more; nothing was written
 */
PS_MUST_USE enum ps_status ps_registry_publish_in_set(struct ps_registry *registry,
                                                      const struct ps_claim *claim,
                                                      const struct ps_set *wanted,
                                                      struct ps_bytes json, uint64_t deadline_ms,
                                                      struct ps_error *error);

#endif
