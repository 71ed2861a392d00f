/* SPDX-License-Identifier: Apache-2.0 */
/* Where a shard's newest checkpoint is, and that it has none: written by the owner of the shard, or
 * by an operator while there is no owner.
 *
 * Every write is a transaction with two demands: the shard's owner key still has the create
 * revision that is the writer's epoch, and the key to be written is as it was seen. The first makes
 * it impossible for a former owner to publish after a takeover (promise P4), however long its
 * message was on the way. The second makes a write whose answer was lost harmless when it arrives
 * late. */
#include "etcd/registry_keys.h"
#include "etcd/registry_sets.h"

#include <stdio.h>

/* A put of `key` that demands ownership of the shard and that `key` is as it was seen. */
struct owned_change {
    const struct ps_claim *claim; /* NULL: nobody may own it */
    const char *owner_key;
    const char *key;
    int64_t seen_revision; /* modify revision of `key`; 0: absent */
    struct ps_bytes value;
    const char *absent_key;  /* must not exist; NULL: no such demand */
    const char *deleted_key; /* goes with it; NULL: none */
    const char *row_key;     /* gets the same value; NULL: none */
    const char *wanted_key;  /* of the row: must have been written last ... */
    int64_t wanted_revision; /* ... here */
};

static enum ps_status commit_owned(struct ps_registry *registry, const struct owned_change *change,
                                   uint64_t deadline_ms, bool *done, struct ps_error *error);
static enum ps_status put_owned(struct ps_registry *registry, const struct ps_claim *claim,
                                uint32_t index, const struct ps_registry_key *key,
                                struct ps_bytes json, uint64_t deadline_ms, struct ps_error *error);
static enum ps_status change_owned(struct ps_registry *registry, struct owned_change *change,
                                   uint64_t deadline_ms, struct ps_error *error);
static enum ps_status why_refused(struct ps_registry *registry, const struct owned_change *change,
                                  uint64_t deadline_ms, struct ps_error *error);

enum ps_status ps_registry_publish_checkpoint(struct ps_registry *registry,
                                              const struct ps_claim *claim, struct ps_bytes json,
                                              uint64_t deadline_ms, struct ps_error *error)
{
    struct ps_registry_key key = ps_registry_key(registry, "/checkpoints/%" PRIu32, claim->index);
    return put_owned(registry, claim, claim->index, &key, json, deadline_ms, error);
}

enum ps_status ps_registry_publish_note(struct ps_registry *registry, const struct ps_claim *claim,
                                        struct ps_bytes json, uint64_t deadline_ms,
                                        struct ps_error *error)
{
    struct ps_registry_key key =
        ps_registry_key(registry, "/checkpoints/%" PRIu32 "/journal", claim->index);
    return put_owned(registry, claim, claim->index, &key, json, deadline_ms, error);
}

/* The checkpoint of a set: its row says what the pointer says. Both are put or neither, so that a
 * row never names a file that was not published. */
enum ps_status ps_registry_publish_in_set(struct ps_registry *registry,
                                          const struct ps_claim *claim, const struct ps_set *wanted,
                                          struct ps_bytes json, uint64_t deadline_ms,
                                          struct ps_error *error)
{
    struct ps_registry_key owner = ps_registry_key(registry, "/ps/%" PRIu32, claim->index);
    struct ps_registry_key key = ps_registry_key(registry, "/checkpoints/%" PRIu32, claim->index);
    struct ps_registry_key row =
        ps_registry_key(registry, "/checkpoints/model/%s/%" PRIu32, wanted->name, claim->index);
    /* Modified since it was read, it is another asking, also where the name is the same. */
    struct ps_registry_key set = ps_registry_key(registry, "/ps_wanted");
    struct owned_change change = {.claim = claim,
                                  .owner_key = owner.text,
                                  .key = key.text,
                                  .value = json,
                                  .row_key = row.text,
                                  .wanted_key = set.text,
                                  .wanted_revision = wanted->revision};
    return change_owned(registry, &change, deadline_ms, error);
}

/* For an operator (psckpt). Without a claim the demand is that nobody owns the shard: a running
 * server would not notice, and publish over it. */
enum ps_status ps_registry_replace_checkpoint(struct ps_registry *registry, uint32_t index,
                                              struct ps_bytes json, uint64_t deadline_ms,
                                              struct ps_error *error)
{
    struct ps_registry_key key = ps_registry_key(registry, "/checkpoints/%" PRIu32, index);
    return put_owned(registry, NULL, index, &key, json, deadline_ms, error);
}

/* Writes one value of a shard, by its owner (`claim`), or while it has none (NULL). */
static enum ps_status put_owned(struct ps_registry *registry, const struct ps_claim *claim,
                                uint32_t index, const struct ps_registry_key *key,
                                struct ps_bytes json, uint64_t deadline_ms, struct ps_error *error)
{
    struct ps_registry_key owner = ps_registry_key(registry, "/ps/%" PRIu32, index);
    struct owned_change change = {
        .claim = claim, .owner_key = owner.text, .key = key->text, .value = json};
    return change_owned(registry, &change, deadline_ms, error);
}

/* An owner that begins without any state makes the job uninitialised: the mark goes, and who did so
 * is noted, in one transaction. A trainer that is about to set the mark compares the note
 * (registry_init.c), so the mark cannot be set for a shard that has forgotten everything in
 * between. A checkpoint that exists forbids all of this: then there is a state. */
enum ps_status ps_registry_forget_done(struct ps_registry *registry, const struct ps_claim *claim,
                                       uint64_t deadline_ms, struct ps_error *error)
{
    struct ps_registry_key owner = ps_registry_key(registry, "/ps/%" PRIu32, claim->index);
    struct ps_registry_key key = ps_registry_key(registry, "/init_ps/lost");
    struct ps_registry_key done = ps_registry_key(registry, "/init_ps/done");
    struct ps_registry_key absent =
        ps_registry_key(registry, "/checkpoints/%" PRIu32, claim->index);
    char who[48]; /* of no other claim */
    (void)snprintf(who, sizeof who, "%" PRIu32 " %" PRIu64, claim->index, claim->epoch);
    struct owned_change change = {
        .claim = claim,
        .owner_key = owner.text,
        .key = key.text,
        .value = ps_bytes_of_text(who),
        .absent_key = absent.text,
        .deleted_key = done.text,
    };
    return change_owned(registry, &change, deadline_ms, error);
}

/* These say that the transaction can never be made by this caller, in contrast to failures of the
 * store. */
static bool is_refusal(enum ps_status status)
{
    return status == PS_ERR_STALE_EPOCH || status == PS_ERR_CONFLICT || status == PS_ERR_EXISTS;
}

/* Revision 0 demands that the owner's key does not exist. */
static int64_t owner_revision(const struct owned_change *change)
{
    return change->claim == NULL ? 0 : (int64_t)change->claim->epoch;
}

/* Look, commit, and when refused find out why. The compare with what was seen makes sure that a try
 * whose answer was lost cannot land later, on top of something newer. */
static enum ps_status change_owned(struct ps_registry *registry, struct owned_change *change,
                                   uint64_t deadline_ms, struct ps_error *error)
{
    /* Once true it stays true: no later answer takes the doubt about an earlier try away but a
     * read. */
    bool unknown = false;
    for (int i = 0; i < PS_REGISTRY_TRIES_MAX; i++) {
        struct ps_registry_fact fact;
        enum ps_status status =
            ps_registry_look(registry, change->key, change->value, deadline_ms, &fact, error);
        if (status != PS_OK)
            return ps_registry_failed(status, unknown, error);
        /* The lost answer was a yes. Without an earlier try an equal value is written again all the
         * same: the caller asked for a transaction that proves its ownership now. */
        if (unknown && fact.value_equal)
            return PS_OK;

        bool done = false;
        change->seen_revision = fact.modify_revision;
        status = commit_owned(registry, change, deadline_ms, &done, error);
        if (status == PS_OK && done)
            return PS_OK;
        if (status == PS_OK) {
            status = why_refused(registry, change, deadline_ms, error);
            if (status != PS_OK)
                return is_refusal(status) ? status : ps_registry_failed(status, unknown, error);
            continue;
        }
        if (status != PS_ERR_TIMEOUT)
            return ps_registry_failed(status, unknown, error);
        unknown = true;
    }
    return ps_fail(error, PS_ERR_TIMEOUT, "%s could not be changed", change->key);
}

static enum ps_status commit_owned(struct ps_registry *registry, const struct owned_change *change,
                                   uint64_t deadline_ms, bool *done, struct ps_error *error)
{
    /* The first two hold for every change: who writes, and what was seen. */
    struct ps_kv_compare compares[4] = {
        {change->owner_key, PS_KV_CREATED_AT, owner_revision(change)},
        {change->key, PS_KV_MODIFIED_AT, change->seen_revision},
    };
    struct ps_kv_change changes[3] = {{PS_KV_PUT, change->key, change->value, {0}}};
    struct ps_kv_transaction transaction = {compares, 2, changes, 1};
    /* The rest is left out where there is nothing to name. */
    if (change->absent_key != NULL)
        compares[transaction.compare_count++] =
            (struct ps_kv_compare){change->absent_key, PS_KV_CREATED_AT, 0};
    if (change->wanted_key != NULL)
        compares[transaction.compare_count++] =
            (struct ps_kv_compare){change->wanted_key, PS_KV_MODIFIED_AT, change->wanted_revision};
    if (change->deleted_key != NULL)
        changes[transaction.change_count++] =
            (struct ps_kv_change){.kind = PS_KV_DELETE, .key = change->deleted_key};
    if (change->row_key != NULL)
        changes[transaction.change_count++] = (struct ps_kv_change){
            .kind = PS_KV_PUT, .key = change->row_key, .value = change->value};
    int64_t revision = 0;
    return ps_kv_commit(registry->kv, &transaction, deadline_ms, done, &revision, error);
}

/* Which demand was not met. PS_OK: only the key itself moved between the look and the transaction,
 * so the caller tries again. */
static enum ps_status why_refused(struct ps_registry *registry, const struct owned_change *change,
                                  uint64_t deadline_ms, struct ps_error *error)
{
    const struct ps_bytes nothing = {NULL, 0};
    struct ps_registry_fact fact;
    PS_TRY(ps_registry_look(registry, change->owner_key, nothing, deadline_ms, &fact, error));
    if (fact.create_revision != owner_revision(change) && change->claim == NULL)
        return ps_fail(
            error, PS_ERR_EXISTS,
            "%s exists: a server owns this shard. Stop it first; the key of one that was "
            "killed goes with its lease",
            change->owner_key);
    if (fact.create_revision != owner_revision(change))
        return ps_fail(error, PS_ERR_STALE_EPOCH, "%s is no longer ours", change->owner_key);
    /* Asked behind the owner's key: a former owner hears that it is one, whatever is wanted. */
    if (change->wanted_key != NULL) {
        PS_TRY(ps_registry_look(registry, change->wanted_key, nothing, deadline_ms, &fact, error));
        if (fact.modify_revision != change->wanted_revision)
            return ps_fail(error, PS_ERR_CONFLICT, "the set is not under way any more");
    }
    if (change->absent_key == NULL)
        return PS_OK;
    PS_TRY(ps_registry_look(registry, change->absent_key, nothing, deadline_ms, &fact, error));
    if (fact.create_revision != 0)
        return ps_fail(error, PS_ERR_CONFLICT, "%s exists", change->absent_key);
    return PS_OK;
}

/* An absent key is NOT_FOUND here and not an empty list, since callers treat it as a fact of its
 * own: a shard without a checkpoint begins from nothing. */
static enum ps_status read_one(struct ps_registry *registry, const char *key, uint64_t deadline_ms,
                               const char *what, struct ps_kv_entries *entries,
                               struct ps_error *error)
{
    struct ps_kv_entries found;
    PS_TRY(ps_kv_read(registry->kv, key, false, deadline_ms, &found, error));
    if (found.count == 0) {
        ps_kv_entries_release(&found);
        return ps_fail(error, PS_ERR_NOT_FOUND, "%s not found in etcd", what);
    }
    *entries = found;
    return PS_OK;
}

enum ps_status ps_registry_read_checkpoint(struct ps_registry *registry, uint32_t index,
                                           uint64_t deadline_ms, struct ps_kv_entries *entries,
                                           struct ps_error *error)
{
    struct ps_registry_key key = ps_registry_key(registry, "/checkpoints/%" PRIu32, index);
    return read_one(registry, key.text, deadline_ms, "checkpoint", entries, error);
}

enum ps_status ps_registry_read_note(struct ps_registry *registry, uint32_t index,
                                     uint64_t deadline_ms, struct ps_kv_entries *entries,
                                     struct ps_error *error)
{
    struct ps_registry_key key =
        ps_registry_key(registry, "/checkpoints/%" PRIu32 "/journal", index);
    return read_one(registry, key.text, deadline_ms, "note of the journal", entries, error);
}
