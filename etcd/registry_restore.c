/* SPDX-License-Identifier: Apache-2.0 */
/* Going back to a set, for an operator (psckpt). One transaction for all shards: a job half of
 * whose shards went back would be inconsistent in a way that nobody can see later. */
#include "etcd/registry_keys.h"
#include "etcd/registry_sets.h"

#include "base/assert.h"

#include <string.h>

/* The transaction, with room for what it names. */
struct restoring {
    struct ps_registry_key owners[PS_SET_RESTORE_MAX];
    struct ps_registry_key pointers[PS_SET_RESTORE_MAX];
    struct ps_registry_key wanted, mark;
    struct ps_registry_key others[PS_SETS_KEPT_MAX];
    struct ps_kv_compare compares[2 * PS_SET_RESTORE_MAX + 1];
    struct ps_kv_change changes[PS_SET_RESTORE_MAX + 1 + PS_SETS_KEPT_MAX];
    struct ps_kv_transaction transaction;
};

_Static_assert(2 * PS_SET_RESTORE_MAX + 1 <= PS_KV_COMPARES_MAX, "all compares fit");
_Static_assert(PS_SET_RESTORE_MAX + 1 + PS_SETS_KEPT_MAX <= PS_KV_CHANGES_MAX, "all changes fit");

static enum ps_status plan(struct ps_registry *registry, const char *name,
                           const struct ps_set_pointer *pointers, size_t count,
                           uint64_t deadline_ms, struct restoring *restoring, bool *is_done,
                           struct ps_error *error);
static enum ps_status plan_pointer(struct ps_registry *registry,
                                   const struct ps_set_pointer *pointer, uint64_t deadline_ms,
                                   struct restoring *restoring, size_t i, bool *is_equal,
                                   struct ps_error *error);
static enum ps_status plan_sets(struct ps_registry *registry, const char *name,
                                uint64_t deadline_ms, struct restoring *restoring,
                                struct ps_error *error);

/* A write whose answer was lost is found by reading: the pointers are what they were to become.
 * Each turn demands that they are as that turn has read them, so that a write that arrives late, on
 * top of what a server has published since, changes nothing. */
enum ps_status ps_registry_restore_set(struct ps_registry *registry, const char *name,
                                       const struct ps_set_pointer *pointers, size_t count,
                                       uint64_t deadline_ms, struct ps_error *error)
{
    PS_ASSERT(count > 0);
    static const char many[] = "a set of more than %d shards cannot be restored at once";
    /* On the stack: a few tens of kilobytes, for a command that is typed. */
    struct restoring restoring;
    bool unknown = false;
    /* etcd takes so many compares in one transaction, unless it is told otherwise. */
    if (count > PS_SET_RESTORE_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, many, PS_SET_RESTORE_MAX);
    for (int i = 0; i < PS_REGISTRY_TRIES_MAX; i++) {
        bool is_there = false;
        bool done = false;
        int64_t revision = 0;
        enum ps_status status =
            plan(registry, name, pointers, count, deadline_ms, &restoring, &is_there, error);
        /* What forbids it now was not made by a try of this call. */
        if (status == PS_ERR_EXISTS || status == PS_ERR_NOT_FOUND)
            return status;
        if (status == PS_OK && unknown && is_there)
            return PS_OK;
        if (status != PS_OK)
            return ps_registry_failed(status, unknown, error);
        /* All or nothing, whatever becomes of this process. */
        status = ps_kv_commit(registry->kv, &restoring.transaction, deadline_ms, &done, &revision,
                              error);
        /* Not done: something moved between the look and the transaction, and is looked at. */
        if (status == PS_OK && done)
            return PS_OK;
        if (status != PS_OK && status != PS_ERR_TIMEOUT)
            return ps_registry_failed(status, unknown, error);
        unknown = unknown || status == PS_ERR_TIMEOUT;
    }
    return ps_fail(error, PS_ERR_TIMEOUT, "the pointers could not be changed");
}

/* What holds now, and the transaction that changes it. `*is_there`: nothing is left to change, as
 * after a try whose answer was lost. */
static enum ps_status plan(struct ps_registry *registry, const char *name,
                           const struct ps_set_pointer *pointers, size_t count,
                           uint64_t deadline_ms, struct restoring *restoring, bool *is_there,
                           struct ps_error *error)
{
    restoring->transaction =
        (struct ps_kv_transaction){.compares = restoring->compares, .changes = restoring->changes};
    /* Read anew in every turn, since the last one may have been made. */
    *is_there = true;
    for (size_t i = 0; i < count; i++) {
        bool is_equal = false;
        PS_TRY(plan_pointer(registry, &pointers[i], deadline_ms, restoring, i, &is_equal, error));
        *is_there = *is_there && is_equal;
    }
    return plan_sets(registry, name, deadline_ms, restoring, error);
}

/* Nobody may own the shard, and its pointer is as it was seen. Both are asked one by one, shard by
 * shard: what changes in between fails the transaction. */
static enum ps_status plan_pointer(struct ps_registry *registry,
                                   const struct ps_set_pointer *pointer, uint64_t deadline_ms,
                                   struct restoring *restoring, size_t i, bool *is_equal,
                                   struct ps_error *error)
{
    const struct ps_bytes nothing = {NULL, 0};
    struct ps_kv_transaction *transaction = &restoring->transaction;
    struct ps_registry_key *owner = &restoring->owners[i];
    struct ps_registry_key *key = &restoring->pointers[i];
    struct ps_registry_fact fact;
    *owner = ps_registry_key(registry, "/ps/%" PRIu32, pointer->index);
    *key = ps_registry_key(registry, "/checkpoints/%" PRIu32, pointer->index);
    PS_ASSERT(pointer->json.size > 0);
    /* Asked for its name's sake: the transaction compares it as well. */
    PS_TRY(ps_registry_look(registry, owner->text, nothing, deadline_ms, &fact, error));
    if (fact.create_revision != 0)
        return ps_fail(error, PS_ERR_EXISTS, "%s exists: a server owns this shard. Stop it first",
                       owner->text);
    PS_TRY(ps_registry_look(registry, key->text, pointer->json, deadline_ms, &fact, error));
    *is_equal = fact.value_equal;
    restoring->compares[transaction->compare_count++] =
        (struct ps_kv_compare){owner->text, PS_KV_CREATED_AT, 0};
    restoring->compares[transaction->compare_count++] =
        (struct ps_kv_compare){key->text, PS_KV_MODIFIED_AT, fact.modify_revision};
    restoring->changes[transaction->change_count++] =
        (struct ps_kv_change){.kind = PS_KV_PUT, .key = key->text, .value = pointer->json};
    return PS_OK;
}

/* The set must still be whole; all others, and the one under way, go with the same transaction. */
static enum ps_status plan_sets(struct ps_registry *registry, const char *name,
                                uint64_t deadline_ms, struct restoring *restoring,
                                struct ps_error *error)
{
    struct ps_kv_transaction *transaction = &restoring->transaction;
    struct ps_set_list list;
    int64_t revision = 0;
    PS_TRY(ps_registry_whole_sets(registry, deadline_ms, &list, error));
    /* Its owners would save what they have gone back to under the name of what was asked for. */
    restoring->wanted = ps_registry_key(registry, "/ps_wanted");
    /* The mark by which its rows count. */
    restoring->mark = ps_registry_key(registry, "/checkpoints/whole/%s", name);
    restoring->changes[transaction->change_count++] =
        (struct ps_kv_change){.kind = PS_KV_DELETE, .key = restoring->wanted.text};
    /* One of them may have been made whole since the caller looked: it goes all the same, as its
     * files were moved away with the folders. */
    for (size_t i = 0, k = 0; i < list.count; i++) {
        if (strcmp(list.sets[i].name, name) == 0) {
            revision = list.sets[i].revision;
            continue;
        }
        /* More than a job may keep: the next sweep takes the rest. */
        if (k == PS_SETS_KEPT_MAX)
            continue;
        restoring->others[k] =
            ps_registry_key(registry, "/checkpoints/whole/%s", list.sets[i].name);
        restoring->changes[transaction->change_count++] =
            (struct ps_kv_change){.kind = PS_KV_DELETE, .key = restoring->others[k++].text};
    }
    /* The caller has moved files by now, which stay where they are: it may choose another set. */
    if (revision == 0)
        return ps_fail(error, PS_ERR_NOT_FOUND, "set %s is not there any more", name);
    restoring->compares[transaction->compare_count++] =
        (struct ps_kv_compare){restoring->mark.text, PS_KV_CREATED_AT, revision};
    return PS_OK;
}
