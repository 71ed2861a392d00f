/* SPDX-License-Identifier: Apache-2.0 */
/* The leases of a table: their time, and the keys that go with them. Time comes as an argument and
 * is never read here, so that simulated time works like the real one. */
#include "etcd/kv_table.h"

#include "base/assert.h"

#include <string.h>

static enum ps_status append_lease(struct ps_kv_table *table, struct ps_kv_table_lease lease,
                                   struct ps_error *error);
static uint64_t ends_at(uint64_t now_ms, uint64_t ttl_ms);

enum ps_status ps_kv_table_grant(struct ps_kv_table *table, uint64_t ttl_ms, uint64_t now_ms,
                                 struct ps_kv_lease *lease, struct ps_error *error)
{
    /* Ids rise and are never used again, so a late message about an old lease cannot hit a new
     * one. */
    struct ps_kv_table_lease fresh = {
        .id = table->last_lease + 1, .ttl_ms = ttl_ms, .expires_ms = ends_at(now_ms, ttl_ms)};
    PS_TRY(append_lease(table, fresh, error));
    table->last_lease = fresh.id;
    lease->id = fresh.id;
    return PS_OK;
}

enum ps_status ps_kv_table_restore_lease(struct ps_kv_table *table, struct ps_kv_table_lease lease,
                                         struct ps_error *error)
{
    return append_lease(table, lease, error);
}

static enum ps_status append_lease(struct ps_kv_table *table, struct ps_kv_table_lease lease,
                                   struct ps_error *error)
{
    /* A bound, since clients that grant leases in a loop must not fill a file that every call
     * reads. */
    if (table->lease_count == PS_KV_TABLE_LEASES_MAX)
        return ps_fail(error, PS_ERR_BUSY, "the store holds %zu leases, its limit",
                       table->lease_count);
    if (table->lease_count == table->lease_capacity) {
        /* Doubling, as everywhere; the allocator has no realloc. */
        size_t capacity = table->lease_capacity == 0 ? 16 : table->lease_capacity * 2;
        struct ps_kv_table_lease *larger = ps_zeroed_array(table->memory, capacity, sizeof *larger);
        if (larger == NULL)
            return ps_fail(error, PS_ERR_NO_MEMORY, "no room for %zu leases", capacity);
        if (table->lease_count > 0)
            memcpy(larger, table->leases, table->lease_count * sizeof *larger);
        ps_release(table->memory, table->leases);
        table->leases = larger;
        table->lease_capacity = capacity;
    }
    table->leases[table->lease_count++] = lease;
    return PS_OK;
}

enum ps_status ps_kv_table_keep(struct ps_kv_table *table, struct ps_kv_lease lease,
                                uint64_t now_ms, struct ps_error *error)
{
    struct ps_kv_table_lease *found = ps_kv_table_find_lease(table, lease);
    if (found == NULL)
        return ps_fail(error, PS_ERR_LEASE_LOST, "lease %lld has ended", (long long)lease.id);
    /* A lease that has ended but was not looked at yet is gone already: callers expire before they
     * keep. */
    found->expires_ms = ends_at(now_ms, found->ttl_ms);
    return PS_OK;
}

/* Its keys first: an entry whose lease does not exist would break the table's invariant. */
bool ps_kv_table_revoke(struct ps_kv_table *table, struct ps_kv_lease lease)
{
    struct ps_kv_table_lease *found = ps_kv_table_find_lease(table, lease);
    if (found == NULL)
        return false;
    /* `found` stays valid: only entries move. */
    ps_kv_table_delete_leased(table, lease);
    /* The array stays sorted by id: what stands behind moves up by one. */
    size_t place = (size_t)(found - table->leases);
    table->lease_count--;
    memmove(found, found + 1, (table->lease_count - place) * sizeof *found);
    return true;
}

/* Ids are handed out in rising order, so the leases are sorted. */
struct ps_kv_table_lease *ps_kv_table_find_lease(const struct ps_kv_table *table,
                                                 struct ps_kv_lease lease)
{
    size_t low = 0;
    size_t high = table->lease_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->leases[middle].id < lease.id)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < table->lease_count && table->leases[low].id == lease.id;
    return found ? &table->leases[low] : NULL;
}

/* True when anything changed, which a file store then writes down. */
bool ps_kv_table_expire(struct ps_kv_table *table, uint64_t now_ms)
{
    bool changed = false;
    size_t i = 0;
    while (i < table->lease_count) {
        struct ps_kv_table_lease *lease = &table->leases[i];
        /* The lease at this index is gone then, and the next one has moved here. */
        if (lease->expires_ms <= now_ms) {
            bool revoked = ps_kv_table_revoke(table, (struct ps_kv_lease){lease->id});
            PS_ASSERT(revoked);
            changed = true;
            continue;
        }
        /* A lease that ends later than it could if it were granted now was written by a clock that
         * ran ahead: the file's clock is the machine's time since it started, so after a restart
         * old leases would last for days. They are cut to what they can be at most. */
        if (lease->expires_ms - now_ms > lease->ttl_ms) {
            lease->expires_ms = ends_at(now_ms, lease->ttl_ms);
            changed = true;
        }
        i++;
    }
    return changed;
}

/* A watch of a file store wakes then, since nobody else may touch the file when a lease simply
 * ends. */
uint64_t ps_kv_table_next_expiry(const struct ps_kv_table *table)
{
    uint64_t next = PS_DEADLINE_NEVER;
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i].expires_ms < next)
            next = table->leases[i].expires_ms;
    return next;
}

static uint64_t ends_at(uint64_t now_ms, uint64_t ttl_ms)
{
    /* One below "never": a lease always ends. */
    return ttl_ms >= PS_DEADLINE_NEVER - now_ms ? PS_DEADLINE_NEVER - 1 : now_ms + ttl_ms;
}
