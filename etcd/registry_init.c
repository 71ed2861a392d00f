/* SPDX-License-Identifier: Apache-2.0 */
/* Which trainer initialises the parameters: a queue of leased keys, the oldest of which holds.
 *
 * Each trainer that wants to initialise puts a key of its own under its own lease. The one with the
 * lowest create revision holds the lock; if it dies its lease ends, its key goes, and the next one
 * holds. Nobody needs to release anything for the job to go on. When all shards are initialised the
 * holder sets the mark /init_ps/done in a transaction that demands that its key is still there, and
 * with it leaves the queue. */
#include "etcd/registry_keys.h"

#include "base/assert.h"

#include <string.h>

static enum ps_status enter_queue(struct ps_registry *registry, uint64_t ttl_ms,
                                  struct ps_init_lock *lock, uint64_t deadline_ms,
                                  struct ps_error *error);
static enum ps_status put_place(struct ps_registry *registry, struct ps_init_lock *lock,
                                uint64_t deadline_ms, struct ps_error *error);
static enum ps_status look_at_queue(struct ps_registry *registry, const struct ps_init_lock *lock,
                                    uint64_t deadline_ms, bool *oldest, struct ps_error *error);
static enum ps_status put_done(struct ps_registry *registry, const struct ps_init_lock *lock,
                               uint64_t deadline_ms, bool *done, struct ps_error *error);
static enum ps_status why_not_done(struct ps_registry *registry, const struct ps_init_lock *lock,
                                   uint64_t deadline_ms, struct ps_error *error);
static void give_up(struct ps_registry *registry, struct ps_init_lock *lock, uint64_t deadline_ms);
static void revoke(struct ps_registry *registry, struct ps_kv_lease lease, uint64_t deadline_ms);
static void name_place(const struct ps_registry *registry, const char *letter, uint64_t number,
                       struct ps_init_lock *lock);

enum ps_status ps_registry_init_turn(struct ps_registry *registry, uint64_t ttl_ms,
                                     struct ps_init_lock *lock, uint64_t deadline_ms,
                                     enum ps_init_turn *turn, struct ps_error *error)
{
    if (lock->create_revision == 0)
        PS_TRY(enter_queue(registry, ttl_ms, lock, deadline_ms, error));

    /* The queue first, then the mark. Only the holder sets the mark and leaves the queue with it,
     * so whoever was the oldest in the queue and finds no mark afterwards holds an uninitialised
     * job. In the other order the mark could be set between the two looks, and the job be
     * initialised twice. */
    bool oldest = false;
    enum ps_status status = look_at_queue(registry, lock, deadline_ms, &oldest, error);
    if (status == PS_ERR_LEASE_LOST)
        *lock = (struct ps_init_lock){0};
    if (status != PS_OK)
        return status;
    bool done = false;
    PS_TRY(ps_registry_init_is_done(registry, deadline_ms, &done, error));
    /* Somebody has initialised the job: our place is of no use, and a lease that nobody keeps would
     * end by itself anyway. */
    if (done) {
        give_up(registry, lock, deadline_ms);
        *turn = PS_INIT_DONE;
        return PS_OK;
    }
    *turn = oldest ? PS_INIT_SELECTED : PS_INIT_WAIT;
    return PS_OK;
}

/* The lease is kept in `lock` from its grant on: a call that fails after that goes on with the same
 * lease and key, and leaves nothing behind. */
static enum ps_status enter_queue(struct ps_registry *registry, uint64_t ttl_ms,
                                  struct ps_init_lock *lock, uint64_t deadline_ms,
                                  struct ps_error *error)
{
    /* The lease's id in the key's name makes the key ours alone, and the name unique. A key that
     * ps_registry_init_find has named is its client's, through whichever server. */
    if (lock->lease.id == 0) {
        struct ps_kv_lease lease;
        PS_TRY(ps_kv_lease_grant(registry->kv, ttl_ms, deadline_ms, &lease, error));
        if (lock->key[0] == '\0')
            name_place(registry, "", (uint64_t)lease.id, lock);
        lock->lease = lease;
    }
    enum ps_status status = put_place(registry, lock, deadline_ms, error);
    if (status == PS_ERR_LEASE_LOST)
        *lock = (struct ps_init_lock){0};
    return status;
}

/* A key whose name holds the lease's id is written by nobody else, and finding it after a lost
 * answer means that it was ours that wrote it. A key that is named for a client may have been
 * written through another server meanwhile, under a lease of that one: then this is the place. */
static enum ps_status put_place(struct ps_registry *registry, struct ps_init_lock *lock,
                                uint64_t deadline_ms, struct ps_error *error)
{
    const struct ps_kv_compare absent = {lock->key, PS_KV_CREATED_AT, 0};
    const struct ps_kv_change put = {PS_KV_PUT, lock->key, {NULL, 0}, lock->lease};
    const struct ps_kv_transaction transaction = {&absent, 1, &put, 1};
    for (int i = 0; i < PS_REGISTRY_TRIES_MAX; i++) {
        bool done = false;
        int64_t revision = 0;
        enum ps_status status =
            ps_kv_commit(registry->kv, &transaction, deadline_ms, &done, &revision, error);
        if (status != PS_OK && status != PS_ERR_TIMEOUT)
            return status;
        if (status == PS_OK && done) {
            /* The transaction's revision is the place in the queue. */
            lock->create_revision = revision;
            return PS_OK;
        }
        struct ps_registry_fact fact;
        PS_TRY(ps_registry_look(registry, lock->key, (struct ps_bytes){NULL, 0}, deadline_ms, &fact,
                                error));
        if (fact.create_revision != 0) {
            if (fact.lease.id != lock->lease.id)
                revoke(registry, lock->lease, deadline_ms);
            lock->lease = fact.lease;
            lock->create_revision = fact.create_revision;
            return PS_OK;
        }
    }
    return ps_fail(error, PS_ERR_TIMEOUT, "%s could not be written", lock->key);
}

/* The key says under which lease it lies, so that whoever asks in the client's name can keep or end
 * that lease, and no other: a lease's id never comes from outside. */
enum ps_status ps_registry_init_find(struct ps_registry *registry, uint64_t client,
                                     uint64_t deadline_ms, struct ps_init_lock *lock,
                                     struct ps_error *error)
{
    PS_ASSERT(client != 0);
    struct ps_init_lock found = {0};
    struct ps_registry_fact fact;
    name_place(registry, "c", client, &found);
    PS_TRY(ps_registry_look(registry, found.key, (struct ps_bytes){NULL, 0}, deadline_ms, &fact,
                            error));
    found.lease = fact.lease;
    found.create_revision = fact.create_revision;
    *lock = found;
    return PS_OK;
}

/* The letter keeps clients apart from leases, whose ids are numbers as well. */
static void name_place(const struct ps_registry *registry, const char *letter, uint64_t number,
                       struct ps_init_lock *lock)
{
    struct ps_registry_key key =
        ps_registry_key(registry, "/init_ps/lock/%s%016" PRIx64, letter, number);
    _Static_assert(sizeof key.text == sizeof lock->key, "a lock has room for its key");
    memcpy(lock->key, key.text, sizeof lock->key);
}

/* Create revisions order the queue: etcd gives them, so no two trainers can disagree. Our own key
 * must be among them with the revision that it was made with; otherwise the lease has ended in
 * between. */
static enum ps_status look_at_queue(struct ps_registry *registry, const struct ps_init_lock *lock,
                                    uint64_t deadline_ms, bool *oldest, struct ps_error *error)
{
    /* One read of the whole queue: two reads could see a neighbour in both or in neither place. */
    struct ps_registry_key prefix = ps_registry_key(registry, "/init_ps/lock/");
    struct ps_kv_entries entries;
    PS_TRY(ps_kv_read(registry->kv, prefix.text, true, deadline_ms, &entries, error));
    bool present = false;
    bool first = true;
    for (size_t i = 0; i < entries.count; i++) {
        int64_t revision = entries.entries[i].create_revision;
        present = present || (revision == lock->create_revision &&
                              strcmp(entries.entries[i].key, lock->key) == 0);
        /* Ours is the oldest if no other is older; revisions are never equal. */
        first = first && revision >= lock->create_revision;
    }
    ps_kv_entries_release(&entries);
    if (!present)
        return ps_fail(error, PS_ERR_LEASE_LOST, "our place in the queue is gone");
    *oldest = first;
    return PS_OK;
}

/* Any other value than "1" was written by something else. Guessing what it means could overwrite a
 * trained state with initial values. */
enum ps_status ps_registry_init_is_done(struct ps_registry *registry, uint64_t deadline_ms,
                                        bool *done, struct ps_error *error)
{
    struct ps_registry_key key = ps_registry_key(registry, "/init_ps/done");
    struct ps_registry_fact fact;
    PS_TRY(ps_registry_look(registry, key.text, ps_bytes_of_text("1"), deadline_ms, &fact, error));
    if (fact.create_revision != 0 && !fact.value_equal)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s holds something else than 1", key.text);
    *done = fact.create_revision != 0;
    return PS_OK;
}

/* Remembers when a shard last forgot everything, before the parameters are sent; the mark is set
 * only if that has not changed until then. */
enum ps_status ps_registry_init_prepare(struct ps_registry *registry, struct ps_init_lock *lock,
                                        uint64_t deadline_ms, struct ps_error *error)
{
    PS_ASSERT(lock != NULL);
    struct ps_registry_key key = ps_registry_key(registry, "/init_ps/lost");
    struct ps_registry_fact fact;
    PS_TRY(ps_registry_look(registry, key.text, (struct ps_bytes){NULL, 0}, deadline_ms, &fact,
                            error));
    lock->lost_revision = fact.modify_revision;
    return PS_OK;
}

/* Sets the mark, reading back when an answer was lost. */
enum ps_status ps_registry_init_finish(struct ps_registry *registry, struct ps_init_lock *lock,
                                       uint64_t deadline_ms, struct ps_error *error)
{
    bool unknown = false;
    for (int i = 0; i < PS_REGISTRY_TRIES_MAX; i++) {
        bool done = false;
        enum ps_status status = put_done(registry, lock, deadline_ms, &done, error);
        if (status == PS_ERR_TIMEOUT) {
            unknown = true;
            continue;
        }
        if (status != PS_OK)
            return ps_registry_failed(status, unknown, error);
        /* Refused after a try whose answer was lost: most likely that try deleted the lock's key.
         * The mark then says so; a mark made by another trainer says the same to the caller. */
        if (!done && unknown) {
            status = ps_registry_init_is_done(registry, deadline_ms, &done, error);
            if (status != PS_OK)
                return ps_registry_failed(status, unknown, error);
        }
        if (!done)
            status = why_not_done(registry, lock, deadline_ms, error);
        if (status != PS_OK && status != PS_ERR_STALE_EPOCH)
            return status == PS_ERR_CONFLICT ? status : ps_registry_failed(status, unknown, error);
        give_up(registry, lock, deadline_ms);
        return status;
    }
    return ps_fail(error, PS_ERR_TIMEOUT, "the end of the initialisation could not be written");
}

/* The mark and the end of our place in the queue are one transaction: a mark without the deletion
 * would leave an oldest trainer that believes it has to initialise. */
static enum ps_status put_done(struct ps_registry *registry, const struct ps_init_lock *lock,
                               uint64_t deadline_ms, bool *done, struct ps_error *error)
{
    if (lock->create_revision == 0)
        return ps_fail(error, PS_ERR_STALE_EPOCH, "no longer the owner of the lock");
    struct ps_registry_key key = ps_registry_key(registry, "/init_ps/done");
    struct ps_registry_key lost = ps_registry_key(registry, "/init_ps/lost");
    const struct ps_kv_compare compares[] = {
        {lock->key, PS_KV_CREATED_AT, lock->create_revision},
        {lost.text, PS_KV_MODIFIED_AT, lock->lost_revision},
    };
    const struct ps_kv_change changes[] = {
        {PS_KV_PUT, key.text, ps_bytes_of_text("1"), {0}},
        {PS_KV_DELETE, lock->key, {NULL, 0}, {0}},
    };
    const struct ps_kv_transaction transaction = {compares, 2, changes, 2};
    int64_t revision = 0;
    return ps_kv_commit(registry->kv, &transaction, deadline_ms, done, &revision, error);
}

/* Which of the two demands was not met. A shard that began without state is CONFLICT: the lock is
 * still ours, and the parameters have to be sent again. */
static enum ps_status why_not_done(struct ps_registry *registry, const struct ps_init_lock *lock,
                                   uint64_t deadline_ms, struct ps_error *error)
{
    struct ps_registry_fact fact;
    PS_TRY(ps_registry_look(registry, lock->key, (struct ps_bytes){NULL, 0}, deadline_ms, &fact,
                            error));
    if (fact.create_revision == lock->create_revision)
        return ps_fail(error, PS_ERR_CONFLICT, "a shard has begun without any state");
    return ps_fail(error, PS_ERR_STALE_EPOCH, "no longer the owner of the lock");
}

/* For a trainer that ends before it has initialised anything: the next in the queue need not wait
 * for the lease to run out. */
void ps_registry_init_abandon(struct ps_registry *registry, struct ps_init_lock *lock,
                              uint64_t deadline_ms)
{
    PS_ASSERT(lock != NULL);
    give_up(registry, lock, deadline_ms);
}

/* A revocation that fails is made good by the lease's end; nothing waits for it. */
static void give_up(struct ps_registry *registry, struct ps_init_lock *lock, uint64_t deadline_ms)
{
    revoke(registry, lock->lease, deadline_ms);
    *lock = (struct ps_init_lock){0};
}

/* Of a lease that nobody will keep: it would end by itself, later. */
static void revoke(struct ps_registry *registry, struct ps_kv_lease lease, uint64_t deadline_ms)
{
    enum ps_status ignored = ps_kv_lease_revoke(registry->kv, lease, deadline_ms, NULL);
    (void)ignored;
}
