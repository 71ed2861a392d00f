/* SPDX-License-Identifier: Apache-2.0 */
/* Reads all servers' keys, watches for the next change, and reads all of them again. A change is
 * never applied to what was read before: a reader of a whole, small prefix cannot end up with a
 * mixture of two states, and a watch that broke costs one more reading and nothing else. */
#include "client/members/member_source.h"

#include "base/assert.h"

/* Most for one look at the store; it is asked again afterwards in any case. */
#define LOOK_MS 5000
/* Without any change, everything is read again after this long. */
#define REFRESH_MS 30000

struct store_source {
    const struct ps_allocator *memory; /* borrowed */
    const struct ps_clock *clock;      /* borrowed */
    struct ps_kv *kv;                  /* owned */
    struct ps_registry registry;
    int64_t revision; /* that was read */
    bool watching;
    bool is_read; /* nothing has changed since, as far as is known */
};

static enum ps_status next(void *self, struct ps_members *members, struct ps_error *error);
static void interrupt(void *self);
static void destroy(void *self);

/* The store is not asked here: a trainer may start before its etcd. */
enum ps_status ps_members_of_store(struct ps_kv *kv, const char *job, const struct ps_clock *clock,
                                   const struct ps_allocator *memory,
                                   struct ps_member_source *source, struct ps_error *error)
{
    struct store_source *store = ps_zeroed(memory, sizeof *store);
    if (store == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to follow the servers");
    store->memory = memory;
    store->clock = clock;
    enum ps_status status = ps_registry_init(&store->registry, kv, job, error);
    if (status != PS_OK) {
        ps_release(memory, store);
        return status;
    }
    /* Only now is the store the source's: after a failure the caller ends it. */
    store->kv = kv;
    *source = (struct ps_member_source){next, interrupt, destroy, store};
    return PS_OK;
}

/* The watch begins right behind the revision that was read, so that no change falls between the
 * two. A wait that passes its deadline is not a failure: then everything is read again, in case a
 * change was missed by a gateway in between. */
static enum ps_status wait_for_change(struct store_source *store, struct ps_error *error)
{
    uint64_t deadline_ms = ps_deadline_after(store->clock, LOOK_MS);
    store->is_read = false;
    if (!store->watching)
        PS_TRY(
            ps_registry_watch_members(&store->registry, store->revision + 1, deadline_ms, error));
    bool changed = false;
    enum ps_status status =
        ps_kv_watch_wait(store->kv, ps_deadline_after(store->clock, REFRESH_MS), &changed, error);
    /* A watch that broke, or whose revision was compacted away, is opened anew after the next
     * reading. */
    store->watching = status == PS_OK;
    return status;
}

/* Reading and waiting take turns, with a return between them: whoever wants to end need not wait
 * for another reading. */
static enum ps_status next(void *self, struct ps_members *members, struct ps_error *error)
{
    struct store_source *store = self;
    if (store->is_read)
        return wait_for_change(store, error);
    struct ps_members fresh = {.memory = store->memory};
    enum ps_status status = ps_registry_read_members(
        &store->registry, store->memory, ps_deadline_after(store->clock, LOOK_MS), &fresh, error);
    if (status != PS_OK) {
        ps_members_release(&fresh);
        return status;
    }
    store->revision = fresh.revision;
    store->is_read = true;
    *members = fresh;
    return PS_OK;
}

/* An interrupt that comes while nobody waits is kept by the store for the next wait. */
static void interrupt(void *self)
{
    struct store_source *store = self;
    PS_ASSERT(store->kv != NULL);
    ps_kv_interrupt(store->kv);
}

/* The store goes with its source, and with it the watch. */
static void destroy(void *self)
{
    struct store_source *store = self;
    ps_kv_destroy(store->kv);
    ps_release(store->memory, store);
}
