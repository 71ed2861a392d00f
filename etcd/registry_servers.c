/* SPDX-License-Identifier: Apache-2.0 */
/* Who owns which shard: claims, addresses, and the list of servers that clients follow.
 *
 * A claim is the key /ps/<i> under the owner's lease, made by a transaction that demands its
 * absence. Its create revision, which etcd counts for the whole store, is the epoch: it is unique,
 * it rises with every takeover, and it is known to the owner and readable by everybody. The key is
 * empty until the server has loaded its state; then the address is put into it, which changes the
 * modify revision only. */
#include "etcd/registry_keys.h"

#include "base/assert.h"

#include <stdio.h>
#include <string.h>

/* What one look at /ps/ tells somebody who wants a claim. */
struct claim_view {
    bool ours;                         /* the lease owns an index already */
    bool any_free;                     /* ... or this one can be had */
    uint32_t index;                    /* ours or free */
    int64_t create_revision;           /* of ours */
    char holder[PS_ADDRESS_BYTES_MAX]; /* of the wished index; empty: not published yet */
};

static enum ps_status view_claims(struct ps_registry *registry, uint32_t shard_count,
                                  uint32_t index_wish, struct ps_kv_lease lease,
                                  uint64_t deadline_ms, struct claim_view *view,
                                  struct ps_error *error);
static enum ps_status fail_taken(uint32_t index_wish, uint32_t shard_count,
                                 const struct claim_view *view, struct ps_error *error);
static void choose_free(const struct ps_kv_entries *entries, size_t key_size, uint32_t shard_count,
                        uint32_t index_wish, struct claim_view *view);
static enum ps_status put_claim(struct ps_registry *registry, uint32_t index,
                                struct ps_kv_lease lease, uint64_t deadline_ms, bool *done,
                                int64_t *revision, struct ps_error *error);
static bool index_of(const struct ps_kv_entry *entry, size_t prefix_size, uint32_t shard_count,
                     uint32_t *index);
static bool address_valid(struct ps_bytes address);
static enum ps_status put_address(struct ps_registry *registry, const struct ps_claim *claim,
                                  const char *key, struct ps_bytes address, uint64_t deadline_ms,
                                  bool *done, struct ps_error *error);
static enum ps_status fill_members(const struct ps_kv_entries *entries,
                                   const struct ps_registry *registry, struct ps_members *members,
                                   struct ps_error *error);

/* Ends when the claim is ours, when nothing is free, or when the store has failed too often. Losing
 * a race for an index is not an error; the next turn finds another one. */
enum ps_status ps_registry_claim(struct ps_registry *registry, uint32_t shard_count,
                                 uint32_t index_wish, struct ps_kv_lease lease,
                                 uint64_t deadline_ms, struct ps_claim *claim,
                                 struct ps_error *error)
{
    /* Such a wish cannot come true while the job has this number of shards. */
    if (index_wish != UINT32_MAX && index_wish >= shard_count)
        return ps_fail(error, PS_ERR_BAD_INPUT, "index %" PRIu32 " of %" PRIu32 " shards",
                       index_wish, shard_count);
    bool unknown = false;
    for (int i = 0; i < PS_REGISTRY_TRIES_MAX; i++) {
        struct claim_view view;
        enum ps_status status =
            view_claims(registry, shard_count, index_wish, lease, deadline_ms, &view, error);
        if (status != PS_OK)
            return ps_registry_failed(status, unknown, error);
        /* Also after a lost answer, and for a server that asks twice with one lease. */
        if (view.ours) {
            *claim = (struct ps_claim){view.index, (uint64_t)view.create_revision, lease};
            return PS_OK;
        }
        if (!view.any_free)
            return fail_taken(index_wish, shard_count, &view, error);

        bool done = false;
        int64_t revision = 0;
        status = put_claim(registry, view.index, lease, deadline_ms, &done, &revision, error);
        /* The transaction's revision is the key's create revision. */
        if (status == PS_OK && done) {
            *claim = (struct ps_claim){view.index, (uint64_t)revision, lease};
            return PS_OK;
        }
        if (status != PS_OK && status != PS_ERR_TIMEOUT)
            return ps_registry_failed(status, unknown, error);
        unknown = unknown || status == PS_ERR_TIMEOUT;
    }
    return ps_fail(error, PS_ERR_TIMEOUT, "claiming an index did not come to an end");
}

/* Somebody who asked for one index wants to know who is in the way. */
static enum ps_status fail_taken(uint32_t index_wish, uint32_t shard_count,
                                 const struct claim_view *view, struct ps_error *error)
{
    if (index_wish == UINT32_MAX)
        return ps_fail(error, PS_ERR_BUSY, "every index of the job (%" PRIu32 ") is taken",
                       shard_count);
    return ps_fail(error, PS_ERR_BUSY, "index %" PRIu32 " is taken by %.200s", index_wish,
                   view->holder[0] != '\0' ? view->holder
                                           : "a server that has not published its address yet");
}

/* One read of all claims: indices that are taken and which of them is ours come from the same
 * revision. */
static enum ps_status view_claims(struct ps_registry *registry, uint32_t shard_count,
                                  uint32_t index_wish, struct ps_kv_lease lease,
                                  uint64_t deadline_ms, struct claim_view *view,
                                  struct ps_error *error)
{
    struct ps_registry_key prefix = ps_registry_key(registry, "/ps/");
    size_t prefix_size = strlen(prefix.text);
    struct ps_kv_entries entries;
    PS_TRY(ps_kv_read(registry->kv, prefix.text, true, deadline_ms, &entries, error));

    *view = (struct claim_view){0};
    for (size_t i = 0; i < entries.count && !view->ours; i++) {
        const struct ps_kv_entry *entry = &entries.entries[i];
        /* An entry under our lease is ours, whichever index it is for. */
        view->ours =
            entry->lease.id == lease.id && index_of(entry, prefix_size, shard_count, &view->index);
        /* Of the last entry looked at, which is ours if `ours` ended the loop. */
        view->create_revision = entry->create_revision;
    }
    if (!view->ours)
        choose_free(&entries, prefix_size, shard_count, index_wish, view);
    ps_kv_entries_release(&entries);
    return PS_OK;
}

/* The lowest free index, so that indices fill up from 0 and a spare takes the place of the first
 * that died. Two servers may choose the same one; the transaction lets one of them have it, and the
 * other looks again. */
static void choose_free(const struct ps_kv_entries *entries, size_t prefix_size,
                        uint32_t shard_count, uint32_t index_wish, struct claim_view *view)
{
    PS_ASSERT(shard_count <= PS_SHARDS_MAX);
    bool taken[PS_SHARDS_MAX] = {false};
    for (size_t i = 0; i < entries->count; i++) {
        const struct ps_kv_entry *entry = &entries->entries[i];
        uint32_t index;
        if (!index_of(entry, prefix_size, shard_count, &index))
            continue;
        taken[index] = true;
        if (index == index_wish)
            /* For the message alone: an address that is too long is cut. */
            (void)snprintf(view->holder, sizeof view->holder, "%.*s", (int)entry->value_size,
                           (const char *)entry->value);
    }
    /* One loop tries the wished index or all of them. */
    uint32_t index = index_wish == UINT32_MAX ? 0 : index_wish;
    uint32_t end = index_wish == UINT32_MAX ? shard_count : index_wish + 1;
    while (index < end && taken[index])
        index++;
    view->any_free = index < end;
    view->index = index;
}

static bool index_of(const struct ps_kv_entry *entry, size_t prefix_size, uint32_t shard_count,
                     uint32_t *index)
{
    PS_ASSERT(shard_count > 0);
    /* Keys beyond the number of shards, or that are not numbers, are nobody's claim. */
    return ps_registry_number(ps_bytes_of_text(entry->key + prefix_size), shard_count - 1, index);
}

/* An empty value: who owns the shard is known from now on, where it can be reached is not yet. */
static enum ps_status put_claim(struct ps_registry *registry, uint32_t index,
                                struct ps_kv_lease lease, uint64_t deadline_ms, bool *done,
                                int64_t *revision, struct ps_error *error)
{
    struct ps_registry_key key = ps_registry_key(registry, "/ps/%" PRIu32, index);
    /* The whole safety of ownership: of two servers that claim one index, etcd lets one commit. */
    const struct ps_kv_compare absent = {key.text, PS_KV_CREATED_AT, 0};
    const struct ps_kv_change put = {PS_KV_PUT, key.text, {NULL, 0}, lease};
    const struct ps_kv_transaction transaction = {&absent, 1, &put, 1};
    return ps_kv_commit(registry->kv, &transaction, deadline_ms, done, revision, error);
}

/* Keeping the lease is not enough: the key could have been deleted by hand, and another server own
 * the shard while our lease lives. So the key is looked at as well, each time. */
enum ps_status ps_registry_keep(struct ps_registry *registry, const struct ps_claim *claim,
                                uint64_t deadline_ms, struct ps_error *error)
{
    struct ps_registry_key key = ps_registry_key(registry, "/ps/%" PRIu32, claim->index);
    const struct ps_bytes nothing = {NULL, 0};
    struct ps_registry_fact fact;
    /* The lease first: if it is gone the key is gone with it, and there is nothing to look at. */
    PS_TRY(ps_kv_lease_keep(registry->kv, claim->lease, deadline_ms, error));
    PS_TRY(ps_registry_look(registry, key.text, nothing, deadline_ms, &fact, error));
    if ((uint64_t)fact.create_revision != claim->epoch)
        return ps_fail(error, PS_ERR_STALE_EPOCH, "%s is no longer ours", key.text);
    return PS_OK;
}

/* Only while the claim is ours (the compare of put_address), and read back when the answer was
 * lost. Publishing the same address twice is harmless. */
enum ps_status ps_registry_publish_address(struct ps_registry *registry,
                                           const struct ps_claim *claim, const char *address,
                                           uint64_t deadline_ms, struct ps_error *error)
{
    struct ps_bytes value = ps_bytes_of_text(address);
    if (!address_valid(value))
        return ps_fail(error, PS_ERR_BAD_INPUT, "an address that cannot be published");
    struct ps_registry_key key = ps_registry_key(registry, "/ps/%" PRIu32, claim->index);
    bool unknown = false;
    for (int i = 0; i < PS_REGISTRY_TRIES_MAX; i++) {
        bool done = false;
        enum ps_status status =
            put_address(registry, claim, key.text, value, deadline_ms, &done, error);
        if (status == PS_OK && done)
            return PS_OK;
        if (status == PS_OK)
            return ps_fail(error, PS_ERR_STALE_EPOCH, "%s is no longer ours", key.text);
        if (status != PS_ERR_TIMEOUT)
            return ps_registry_failed(status, unknown, error);
        unknown = true;

        struct ps_registry_fact fact;
        /* Reads back instead of writing again blindly: the claim may have been lost in between. */
        status = ps_registry_look(registry, key.text, value, deadline_ms, &fact, error);
        if (status != PS_OK)
            return ps_registry_failed(status, unknown, error);
        /* The try whose answer was lost has written it. */
        if ((uint64_t)fact.create_revision == claim->epoch && fact.value_equal)
            return PS_OK;
    }
    return ps_fail(error, PS_ERR_TIMEOUT, "%s could not be written", key.text);
}

/* Under the same lease, so that the address goes with the claim. */
static enum ps_status put_address(struct ps_registry *registry, const struct ps_claim *claim,
                                  const char *key, struct ps_bytes address, uint64_t deadline_ms,
                                  bool *done, struct ps_error *error)
{
    const struct ps_kv_compare ours = {key, PS_KV_CREATED_AT, (int64_t)claim->epoch};
    const struct ps_kv_change put = {PS_KV_PUT, key, address, claim->lease};
    const struct ps_kv_transaction transaction = {&ours, 1, &put, 1};
    int64_t revision = 0;
    return ps_kv_commit(registry->kv, &transaction, deadline_ms, done, &revision, error);
}

/* Printable ASCII without spaces: an address goes into log lines and to gRPC's resolver. */
static bool address_valid(struct ps_bytes address)
{
    if (address.size == 0 || address.size >= PS_ADDRESS_BYTES_MAX)
        return false;
    for (size_t i = 0; i < address.size; i++)
        if (address.data[i] <= ' ' || address.data[i] > '~')
            return false;
    return true;
}

/* The revision of the second read is what a watch goes on from: a change of the number of shards in
 * between shows as a change. The placement comes with the second read: /ps_placement begins as the
 * members' keys do. */
enum ps_status ps_registry_read_members(struct ps_registry *registry,
                                        const struct ps_allocator *memory, uint64_t deadline_ms,
                                        struct ps_members *members, struct ps_error *error)
{
    /* The caller's list is replaced at the end, so a failed read leaves the former list in use. */
    struct ps_members fresh = {.memory = memory};
    PS_TRY(ps_registry_read_desired(registry, deadline_ms, &fresh.shard_count, error));

    struct ps_registry_key prefix = ps_registry_key(registry, "/ps");
    struct ps_kv_entries entries;
    PS_TRY(ps_kv_read(registry->kv, prefix.text, true, deadline_ms, &entries, error));
    fresh.revision = entries.revision;
    /* A row for each shard, whether it has an owner or not: an empty row is "nobody at the
     * moment". */
    enum ps_status status = PS_OK;
    fresh.rows = ps_zeroed_array(memory, fresh.shard_count, sizeof *fresh.rows);
    if (fresh.rows == NULL)
        status =
            ps_fail(error, PS_ERR_NO_MEMORY, "no room for %" PRIu32 " members", fresh.shard_count);
    else
        status = fill_members(&entries, registry, &fresh, error);
    ps_kv_entries_release(&entries);
    if (status != PS_OK) {
        ps_release(memory, fresh.rows);
        return status;
    }
    ps_members_release(members);
    *members = fresh;
    return PS_OK;
}

/* Rows are found by the index in their key, so a missing server leaves its own row empty and no
 * other. A value that is not an address counts as none; one that is not a placement fails the
 * reading, since a client that took it for none would look for everything in the wrong place. */
static enum ps_status fill_members(const struct ps_kv_entries *entries,
                                   const struct ps_registry *registry, struct ps_members *members,
                                   struct ps_error *error)
{
    const struct ps_registry_key prefix = ps_registry_key(registry, "/ps/");
    const struct ps_registry_key placement = ps_registry_key(registry, PS_REGISTRY_PLACEMENT);
    size_t prefix_size = strlen(prefix.text);
    /* Among them are the number of shards, which was read, and keys that are nobody's. */
    for (size_t i = 0; i < entries->count; i++) {
        const struct ps_kv_entry *entry = &entries->entries[i];
        struct ps_bytes value = {entry->value, entry->value_size};
        uint32_t index;
        if (strcmp(entry->key, placement.text) == 0)
            PS_TRY(ps_registry_placement_of(value, entry->key, &members->placement, error));
        if (strncmp(entry->key, prefix.text, prefix_size) != 0 ||
            !index_of(entry, prefix_size, members->shard_count, &index))
            continue;
        struct ps_member *row = &members->rows[index];
        /* Also without an address: clients see that the shard has a new owner, and wait for it. */
        row->epoch = (uint64_t)entry->create_revision;
        if (address_valid(value))
            memcpy(row->address, value.data, value.size);
    }
    return PS_OK;
}

void ps_members_release(struct ps_members *members)
{
    PS_ASSERT(members != NULL);
    if (members->memory != NULL)
        ps_release(members->memory, members->rows);
    *members = (struct ps_members){0};
}

enum ps_status ps_registry_watch_members(struct ps_registry *registry, int64_t revision,
                                         uint64_t deadline_ms, struct ps_error *error)
{
    /* Without the slash at the end: the watch covers /ps_desired and /ps_placement as well. */
    struct ps_registry_key prefix = ps_registry_key(registry, "/ps");
    return ps_kv_watch_open(registry->kv, prefix.text, revision, deadline_ms, error);
}
