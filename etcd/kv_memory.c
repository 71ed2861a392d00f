/* SPDX-License-Identifier: Apache-2.0 */
/* A store in memory for simulations and tests: one table (the hub), any number of connections to
 * it.
 *
 * Nothing here waits: time belongs to whoever moves the clock, so ps_kv_watch_wait answers at once
 * with what has happened until now. It passes the same conformance suite as the other two stores,
 * which is what makes a simulation's verdict worth something. */
#include "etcd/kv_table.h"

#include "base/assert.h"

#include <stdatomic.h>
#include <string.h>

/* What all connections share. Tests and the simulator run in one thread, so nothing here is
 * locked. */
struct ps_kv_hub {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    const struct ps_clock *clock;      /* borrowed; outlives this */
    struct ps_kv_table table;
    size_t connection_count;
};

/* One connection to a hub; only its watch is its own. */
struct memory_store {
    struct ps_kv base; /* first: struct ps_kv points here */
    struct ps_kv_hub *hub;
    bool watching;
    atomic_bool interrupted; /* a server's own store is told by its other threads */
    int64_t watch_revision;  /* the first one not yet reported */
    char watch_prefix[PS_KV_KEY_BYTES_MAX + 1];
};

static enum ps_status memory_read(struct ps_kv *kv, const char *key, bool prefix,
                                  uint64_t deadline_ms, struct ps_kv_entries *entries,
                                  struct ps_error *error);
static enum ps_status memory_commit(struct ps_kv *kv, const struct ps_kv_transaction *transaction,
                                    uint64_t deadline_ms, bool *done, int64_t *revision,
                                    struct ps_error *error);
static enum ps_status memory_grant(struct ps_kv *kv, uint64_t ttl_ms, uint64_t deadline_ms,
                                   struct ps_kv_lease *lease, struct ps_error *error);
static enum ps_status memory_keep(struct ps_kv *kv, struct ps_kv_lease lease, uint64_t deadline_ms,
                                  struct ps_error *error);
static enum ps_status memory_revoke(struct ps_kv *kv, struct ps_kv_lease lease,
                                    uint64_t deadline_ms, struct ps_error *error);
static enum ps_status memory_watch_open(struct ps_kv *kv, const char *prefix, int64_t revision,
                                        uint64_t deadline_ms, struct ps_error *error);
static enum ps_status memory_watch_wait(struct ps_kv *kv, uint64_t deadline_ms, bool *changed,
                                        struct ps_error *error);
static void memory_interrupt(struct ps_kv *kv);
static void memory_destroy(struct ps_kv *kv);

/* Deadlines are accepted and never reached: no method waits. */
static const struct ps_kv_methods memory_methods = {
    .read = memory_read,
    .commit = memory_commit,
    .lease_grant = memory_grant,
    .lease_keep = memory_keep,
    .lease_revoke = memory_revoke,
    .watch_open = memory_watch_open,
    .watch_wait = memory_watch_wait,
    .interrupt = memory_interrupt,
    .destroy = memory_destroy,
};

enum ps_status ps_kv_hub_create(const struct ps_clock *clock, const struct ps_allocator *memory,
                                struct ps_kv_hub **hub)
{
    PS_ASSERT(clock != NULL);
    struct ps_kv_hub *fresh = ps_zeroed(memory, sizeof *fresh);
    if (fresh == NULL)
        return PS_ERR_NO_MEMORY;
    fresh->memory = memory;
    /* The simulation's clock, which all connections share. */
    fresh->clock = clock;
    ps_kv_table_init(&fresh->table, memory);
    *hub = fresh;
    return PS_OK;
}

void ps_kv_hub_destroy(struct ps_kv_hub *hub)
{
    /* NULL is allowed, as for every destroy. */
    if (hub == NULL)
        return;
    /* A connection that outlives its hub would read freed memory. */
    PS_ASSERT(hub->connection_count == 0);
    ps_kv_table_fini(&hub->table);
    ps_release(hub->memory, hub);
}

/* Real stores are at revisions far from 1, where a mix-up of revisions, epochs and positions
 * shows. */
void ps_kv_hub_start_at(struct ps_kv_hub *hub, int64_t revision)
{
    /* Only before anything was written: revisions never go back. */
    PS_ASSERT(hub->connection_count == 0 && hub->table.history_count == 0);
    PS_ASSERT(revision >= 1);
    hub->table.revision = revision;
    /* Nothing is known of what came before, as of an etcd that was compacted. */
    hub->table.compacted_revision = revision;
}

/* Any number of connections; each server and client of a simulation has one. */
enum ps_status ps_kv_memory_open(struct ps_kv_hub *hub, struct ps_kv **kv)
{
    struct memory_store *store = ps_zeroed(hub->memory, sizeof *store);
    if (store == NULL)
        return PS_ERR_NO_MEMORY;
    store->base.methods = &memory_methods;
    store->hub = hub;
    /* Only for the assert of destroy. */
    hub->connection_count++;
    *kv = &store->base;
    return PS_OK;
}

static void memory_destroy(struct ps_kv *kv)
{
    struct memory_store *store = (struct memory_store *)kv;
    store->hub->connection_count--;
    ps_release(store->hub->memory, store);
}

/* The hub's table with every lease that is over taken out. Every method begins here, so a lease
 * ends exactly when the clock says so, whoever looks first. */
static struct ps_kv_table *table_now(struct ps_kv *kv)
{
    struct ps_kv_hub *hub = ((struct memory_store *)kv)->hub;
    (void)ps_kv_table_expire(&hub->table, ps_now_ms(hub->clock));
    return &hub->table;
}

/* The result is a copy from the hub's allocator; it may outlive the next change. */
static enum ps_status memory_read(struct ps_kv *kv, const char *key, bool prefix,
                                  uint64_t deadline_ms, struct ps_kv_entries *entries,
                                  struct ps_error *error)
{
    (void)deadline_ms;
    struct ps_kv_table *table = table_now(kv);
    return ps_kv_table_read(table, key, prefix, table->memory, entries, error);
}

static enum ps_status memory_commit(struct ps_kv *kv, const struct ps_kv_transaction *transaction,
                                    uint64_t deadline_ms, bool *done, int64_t *revision,
                                    struct ps_error *error)
{
    (void)deadline_ms;
    return ps_kv_table_commit(table_now(kv), transaction, done, revision, error);
}

/* To the millisecond, where etcd rounds up to seconds: a simulation wants leases to end when they
 * say. */
static enum ps_status memory_grant(struct ps_kv *kv, uint64_t ttl_ms, uint64_t deadline_ms,
                                   struct ps_kv_lease *lease, struct ps_error *error)
{
    (void)deadline_ms;
    struct memory_store *store = (struct memory_store *)kv;
    return ps_kv_table_grant(table_now(kv), ttl_ms, ps_now_ms(store->hub->clock), lease, error);
}

static enum ps_status memory_keep(struct ps_kv *kv, struct ps_kv_lease lease, uint64_t deadline_ms,
                                  struct ps_error *error)
{
    (void)deadline_ms;
    struct memory_store *store = (struct memory_store *)kv;
    return ps_kv_table_keep(table_now(kv), lease, ps_now_ms(store->hub->clock), error);
}

static enum ps_status memory_revoke(struct ps_kv *kv, struct ps_kv_lease lease,
                                    uint64_t deadline_ms, struct ps_error *error)
{
    (void)deadline_ms;
    (void)error;
    /* Revoking a lease that is gone already is not a failure. */
    (void)ps_kv_table_revoke(table_now(kv), lease);
    return PS_OK;
}

/* A second watch replaces the first, as in the other stores. */
static enum ps_status memory_watch_open(struct ps_kv *kv, const char *prefix, int64_t revision,
                                        uint64_t deadline_ms, struct ps_error *error)
{
    (void)deadline_ms;
    (void)error;
    struct memory_store *store = (struct memory_store *)kv;
    size_t size = strlen(prefix);
    PS_ASSERT(size < sizeof store->watch_prefix);
    memcpy(store->watch_prefix, prefix, size + 1);
    /* 0 means "from the next change on". */
    store->watch_revision = revision > 0 ? revision : table_now(kv)->revision + 1;
    store->watching = true;
    return PS_OK;
}

/* Answers for the moment at which it is called. A simulation that wants to wait moves its clock and
 * asks again. */
static enum ps_status memory_watch_wait(struct ps_kv *kv, uint64_t deadline_ms, bool *changed,
                                        struct ps_error *error)
{
    (void)deadline_ms;
    struct memory_store *store = (struct memory_store *)kv;
    if (!store->watching)
        return ps_fail(error, PS_ERR_UNAVAILABLE, "no watch is open");
    /* An interruption counts once, also one that came before the wait. */
    if (atomic_exchange(&store->interrupted, false)) {
        *changed = false;
        return PS_OK;
    }
    const struct ps_kv_table *table = table_now(kv);
    enum ps_status status =
        ps_kv_table_changed(table, store->watch_prefix, store->watch_revision, changed, error);
    /* A compacted revision ends the watch, as in etcd. */
    if (status != PS_OK)
        store->watching = false;
    else if (table->revision >= store->watch_revision)
        store->watch_revision = table->revision + 1;
    return status;
}

/* From any thread: a server without a folder and without etcd has this store, too. */
static void memory_interrupt(struct ps_kv *kv)
{
    atomic_store(&((struct memory_store *)kv)->interrupted, true);
}
