/* SPDX-License-Identifier: Apache-2.0 */
/* By which number the parameters of a job have their shards: decided once, by the trainer that
 * holds the lock, and never changed. The key lies beside the number of shards, since both are of no
 * use without the other: whoever reads the members reads both, and one watch tells of both. */
#include "etcd/registry_keys.h"

#include "base/assert.h"

#include <stdio.h>

static enum ps_status put_placement(struct ps_registry *registry, const char *key,
                                    const struct ps_init_lock *lock, uint64_t placement,
                                    uint64_t deadline_ms, struct ps_error *error);

/* Decimal, as /ps_desired is: an operator reads it with etcd's own tool. One number has one text. A
 * value that cannot be read stops the caller: by another number every parameter would be looked for
 * in the wrong place. */
enum ps_status ps_registry_placement_of(struct ps_bytes value, const char *key, uint64_t *placement,
                                        struct ps_error *error)
{
    uint64_t sum = 0;
    /* Neither 0, which stands for an absent key, nor leading zeros. */
    bool is_number = value.size > 0 && value.size <= 20 && value.data[0] != '0';
    for (size_t i = 0; is_number && i < value.size; i++) {
        uint64_t digit = (uint64_t)value.data[i] - '0';
        is_number = digit <= 9 && sum <= (UINT64_MAX - digit) / 10;
        sum = sum * 10 + digit;
    }
    if (!is_number)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "%s holds no placement: a number from 1 to %" PRIu64, key, UINT64_MAX);
    *placement = sum;
    return PS_OK;
}

/* An absent key is no failure: it is what every job begins with, and what older clients leave. */
enum ps_status ps_registry_read_placement(struct ps_registry *registry, uint64_t deadline_ms,
                                          uint64_t *placement, struct ps_error *error)
{
    struct ps_registry_key key = ps_registry_key(registry, PS_REGISTRY_PLACEMENT);
    struct ps_kv_entries entries;
    PS_TRY(ps_kv_read(registry->kv, key.text, false, deadline_ms, &entries, error));
    enum ps_status status = PS_OK;
    uint64_t found = 0;
    if (entries.count > 0) {
        const struct ps_kv_entry *entry = &entries.entries[0];
        status = ps_registry_placement_of((struct ps_bytes){entry->value, entry->value_size},
                                          key.text, &found, error);
    }
    ps_kv_entries_release(&entries);
    /* Written only when the value was understood. */
    if (status == PS_OK)
        *placement = found;
    return status;
}

/* Read, and if nothing is decided write, and read again, as for the number of shards: whoever wrote
 * first has decided. A write that did nothing and left nothing to read was refused for the lock. */
enum ps_status ps_registry_decide_placement(struct ps_registry *registry,
                                            const struct ps_init_lock *lock, uint64_t proposal,
                                            uint64_t deadline_ms, uint64_t *placement,
                                            struct ps_error *error)
{
    PS_ASSERT(proposal != 0);
    struct ps_registry_key key = ps_registry_key(registry, PS_REGISTRY_PLACEMENT);
    bool unknown = false;
    /* Two turns as a rule: nothing is there, and then it is. */
    for (int i = 0; i < PS_REGISTRY_TRIES_MAX; i++) {
        uint64_t found = 0;
        enum ps_status status = ps_registry_read_placement(registry, deadline_ms, &found, error);
        if (status != PS_OK)
            return ps_registry_failed(status, unknown, error);
        if (found != 0) {
            *placement = found;
            return PS_OK;
        }
        status = put_placement(registry, key.text, lock, proposal, deadline_ms, error);
        if (status != PS_OK && status != PS_ERR_TIMEOUT)
            return status;
        unknown = unknown || status == PS_ERR_TIMEOUT;
    }
    return ps_fail(error, PS_ERR_TIMEOUT, "%s could not be set", key.text);
}

/* Without a lease: the decision outlives the trainer that made it, which may die before it has
 * given a single parameter. The transaction demands the lock, since who has lost that may propose
 * by another set of parameters than the one that goes on; and that nothing is decided, since a
 * decision is for good. */
static enum ps_status put_placement(struct ps_registry *registry, const char *key,
                                    const struct ps_init_lock *lock, uint64_t placement,
                                    uint64_t deadline_ms, struct ps_error *error)
{
    if (lock->create_revision == 0)
        return ps_fail(error, PS_ERR_STALE_EPOCH, "no longer the owner of the lock");
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, placement);
    const struct ps_kv_compare compares[] = {
        {lock->key, PS_KV_CREATED_AT, lock->create_revision},
        {key, PS_KV_CREATED_AT, 0},
    };
    const struct ps_kv_change put = {PS_KV_PUT, key, ps_bytes_of_text(text), {0}};
    const struct ps_kv_transaction transaction = {compares, 2, &put, 1};
    bool done = false;
    int64_t revision = 0;
    PS_TRY(ps_kv_commit(registry->kv, &transaction, deadline_ms, &done, &revision, error));
    if (done)
        return PS_OK;
    /* Which of the two demands was not met? */
    struct ps_registry_fact fact;
    PS_TRY(ps_registry_look(registry, lock->key, (struct ps_bytes){NULL, 0}, deadline_ms, &fact,
                            error));
    /* Else somebody has decided meanwhile, which the next turn reads. */
    if (fact.create_revision != lock->create_revision)
        return ps_fail(error, PS_ERR_STALE_EPOCH, "no longer the owner of the lock");
    return PS_OK;
}
