/* SPDX-License-Identifier: Apache-2.0 */
/* What all stores have in common: the check of arguments, the dispatch, the release of results.
 * Bounds are checked here, so that the three stores refuse the same things in the same words, and a
 * program tried with one of them behaves alike with the others. */
#include "etcd/kv.h"

#include "base/assert.h"

#include <string.h>

static enum ps_status check_key(const char *key, struct ps_error *error);
static enum ps_status check_change(const struct ps_kv_transaction *transaction, size_t i,
                                   struct ps_error *error);
static enum ps_status check_transaction(const struct ps_kv_transaction *transaction,
                                        struct ps_error *error);

/* The functions below are the whole interface: each asserts what a caller of ours must get right,
 * refuses what comes from outside, and hands over to the store's own method. */
enum ps_status ps_kv_read(struct ps_kv *kv, const char *key, bool prefix, uint64_t deadline_ms,
                          struct ps_kv_entries *entries, struct ps_error *error)
{
    PS_ASSERT(kv != NULL);
    PS_ASSERT(entries != NULL);
    PS_TRY(check_key(key, error));
    return kv->methods->read(kv, key, prefix, deadline_ms, entries, error);
}

enum ps_status ps_kv_commit(struct ps_kv *kv, const struct ps_kv_transaction *transaction,
                            uint64_t deadline_ms, bool *done, int64_t *revision,
                            struct ps_error *error)
{
    PS_ASSERT(kv != NULL);
    PS_ASSERT(transaction != NULL);
    PS_ASSERT(done != NULL);
    PS_ASSERT(revision != NULL);
    PS_TRY(check_transaction(transaction, error));
    /* A store writes `*done` and `*revision` only with PS_OK. */
    return kv->methods->commit(kv, transaction, deadline_ms, done, revision, error);
}

enum ps_status ps_kv_lease_grant(struct ps_kv *kv, uint64_t ttl_ms, uint64_t deadline_ms,
                                 struct ps_kv_lease *lease, struct ps_error *error)
{
    PS_ASSERT(kv != NULL);
    PS_ASSERT(lease != NULL);
    /* A lease of no time would be gone before it is used; one of more than a day keeps the shard of
     * a dead server from everybody. */
    if (ttl_ms == 0 || ttl_ms > PS_KV_TTL_MS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a lease of %llu ms", (unsigned long long)ttl_ms);
    return kv->methods->lease_grant(kv, ttl_ms, deadline_ms, lease, error);
}

/* Lease 0 is "no lease" and can neither be kept nor be revoked; asking etcd about it would create
 * noise in its log. */
enum ps_status ps_kv_lease_keep(struct ps_kv *kv, struct ps_kv_lease lease, uint64_t deadline_ms,
                                struct ps_error *error)
{
    PS_ASSERT(kv != NULL);
    if (lease.id == 0)
        return ps_fail(error, PS_ERR_LEASE_LOST, "lease 0 does not exist");
    return kv->methods->lease_keep(kv, lease, deadline_ms, error);
}

enum ps_status ps_kv_lease_revoke(struct ps_kv *kv, struct ps_kv_lease lease, uint64_t deadline_ms,
                                  struct ps_error *error)
{
    PS_ASSERT(kv != NULL);
    if (lease.id == 0)
        return PS_OK;
    return kv->methods->lease_revoke(kv, lease, deadline_ms, error);
}

/* Revision 0 is "from now on"; etcd's revisions begin at 1. */
enum ps_status ps_kv_watch_open(struct ps_kv *kv, const char *prefix, int64_t revision,
                                uint64_t deadline_ms, struct ps_error *error)
{
    PS_ASSERT(kv != NULL);
    PS_TRY(check_key(prefix, error));
    if (revision < 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "watch of %s: negative revision", prefix);
    return kv->methods->watch_open(kv, prefix, revision, deadline_ms, error);
}

/* What has changed is not said: the caller reads what it needs, at one revision. */
enum ps_status ps_kv_watch_wait(struct ps_kv *kv, uint64_t deadline_ms, bool *changed,
                                struct ps_error *error)
{
    PS_ASSERT(kv != NULL);
    PS_ASSERT(changed != NULL);
    return kv->methods->watch_wait(kv, deadline_ms, changed, error);
}

/* The one call that other threads may make; each store does it without a lock. */
void ps_kv_interrupt(struct ps_kv *kv)
{
    PS_ASSERT(kv != NULL);
    kv->methods->interrupt(kv);
}

/* NULL is allowed, as for everything that ends a life. */
void ps_kv_destroy(struct ps_kv *kv)
{
    if (kv != NULL)
        kv->methods->destroy(kv);
}

/* A zeroed struct has no allocator and nothing to give back. */
void ps_kv_entries_release(struct ps_kv_entries *entries)
{
    PS_ASSERT(entries != NULL);
    for (size_t i = 0; i < entries->count; i++) {
        ps_release(entries->memory, entries->entries[i].key);
        ps_release(entries->memory, entries->entries[i].value);
    }
    if (entries->memory != NULL)
        ps_release(entries->memory, entries->entries);
    *entries = (struct ps_kv_entries){0};
}

/* Keys are made by etcd/registry.c from a job's name and numbers; a key beyond the bound can only
 * come from a test or a new caller, and is refused before any store sees it. */
static enum ps_status check_key(const char *key, struct ps_error *error)
{
    PS_ASSERT(key != NULL);
    size_t size = strlen(key);
    if (size == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "an empty key");
    if (size > PS_KV_KEY_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a key of %zu bytes", size);
    return PS_OK;
}

/* etcd's own limits are higher; these keep a request far below its 1.5 MiB. */
static enum ps_status check_transaction(const struct ps_kv_transaction *transaction,
                                        struct ps_error *error)
{
    if (transaction->compare_count > PS_KV_COMPARES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%zu compares", transaction->compare_count);
    if (transaction->change_count > PS_KV_CHANGES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%zu changes", transaction->change_count);
    /* Two compares of one key are allowed: its creation and its last change may both be
     * demanded. */
    for (size_t i = 0; i < transaction->compare_count; i++)
        PS_TRY(check_key(transaction->compares[i].key, error));
    for (size_t i = 0; i < transaction->change_count; i++)
        PS_TRY(check_change(transaction, i, error));
    return PS_OK;
}

/* Deletions have an empty value and pass. */
static enum ps_status check_change(const struct ps_kv_transaction *transaction, size_t i,
                                   struct ps_error *error)
{
    const struct ps_kv_change *change = &transaction->changes[i];
    PS_TRY(check_key(change->key, error));
    /* A value beyond the bound would make a request that etcd refuses in words of its own, and a
     * file that every later call reads. */
    if (change->value.size > PS_KV_VALUE_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s: a value of %zu bytes", change->key,
                       change->value.size);
    /* etcd refuses a transaction that puts a key twice. The others would have to define an order;
     * refusing is simpler and costs nobody anything. At most 16 changes: a square of that is
     * nothing. */
    for (size_t j = 0; j < i; j++)
        if (strcmp(transaction->changes[j].key, change->key) == 0)
            return ps_fail(error, PS_ERR_BAD_INPUT, "%s is changed twice", change->key);
    return PS_OK;
}
