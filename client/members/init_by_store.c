/* SPDX-License-Identifier: Apache-2.0 */
/* The queue for the initialisation lock, asked in the store itself. */
#include "client/members/init_way.h"

#include <stdio.h>
#include <string.h>

struct store_way {
    const struct ps_allocator *memory; /* borrowed */
    const struct ps_clock *clock;      /* borrowed */
    struct ps_kv *kv;                  /* owned */
    struct ps_registry registry;
    struct ps_init_lock lock;
    uint64_t ttl_ms;
    bool watching;
    char watched[160]; /* prefix of the keys whose change ends a wait */
};

static enum ps_status turn(void *self, uint64_t deadline_ms, enum ps_init_turn *out,
                           struct ps_error *error);
static enum ps_status keep(void *self, uint64_t deadline_ms, struct ps_error *error);
static enum ps_status prepare(void *self, uint64_t deadline_ms, struct ps_error *error);
static enum ps_status decide(void *self, uint64_t proposal, uint64_t deadline_ms, uint64_t *decided,
                             struct ps_error *error);
static enum ps_status finish(void *self, uint64_t deadline_ms, struct ps_error *error);
static void abandon(void *self, uint64_t deadline_ms);
static void interrupt(void *self);
static void destroy(void *self);

/* The watch is opened with the first turn: most trainers never wait for one. */
enum ps_status ps_init_by_store(struct ps_kv *kv, const char *job, uint64_t ttl_ms,
                                const struct ps_clock *clock, const struct ps_allocator *memory,
                                struct ps_init_way *out, struct ps_error *error)
{
    struct store_way *way = ps_zeroed(memory, sizeof *way);
    if (way == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to initialise");
    enum ps_status status = ps_registry_init(&way->registry, kv, job, error);
    if (status != PS_OK) {
        ps_release(memory, way);
        return status;
    }
    way->memory = memory;
    way->clock = clock;
    way->ttl_ms = ttl_ms;
    /* Only now is the store the way's: after a failure the caller ends it. */
    way->kv = kv;
    snprintf(way->watched, sizeof way->watched, "%s%.128s/init_ps/", job[0] != '\0' ? "/" : "",
             job);
    *out =
        (struct ps_init_way){turn, keep, prepare, decide, finish, abandon, interrupt, destroy, way};
    return PS_OK;
}

/* A question that nobody waits for need not take longer than the place lasts without it. */
static uint64_t bounded(const struct store_way *way, uint64_t ms, uint64_t deadline_ms)
{
    uint64_t until_ms = ps_deadline_after(way->clock, ms);
    return until_ms < deadline_ms ? until_ms : deadline_ms;
}

/* Waits for a change of the queue and keeps the lease, in thirds of its time: one answer of the
 * store may be lost before our place in the queue is. */
static enum ps_status wait_for_turn(struct store_way *way, uint64_t deadline_ms,
                                    struct ps_error *error)
{
    bool changed;
    PS_TRY(ps_kv_watch_wait(way->kv, bounded(way, way->ttl_ms / 3, deadline_ms), &changed, error));
    return keep(way, ps_deadline_after(way->clock, way->ttl_ms / 3), error);
}

/* Takes one look at the queue: watch first, so that no change between looking and waiting is
 * missed. The watch has no revision, since it is the look that counts: whatever changed before it
 * is seen by it. */
static enum ps_status turn(void *self, uint64_t deadline_ms, enum ps_init_turn *out,
                           struct ps_error *error)
{
    struct store_way *way = self;
    uint64_t look_ms = bounded(way, way->ttl_ms, deadline_ms);
    if (!way->watching)
        PS_TRY(ps_kv_watch_open(way->kv, way->watched, 0, look_ms, error));
    way->watching = true;
    PS_TRY(ps_registry_init_turn(&way->registry, way->ttl_ms, &way->lock, look_ms, out, error));
    if (*out != PS_INIT_WAIT)
        return PS_OK;
    enum ps_status status = wait_for_turn(way, deadline_ms, error);
    way->watching = status == PS_OK;
    return status;
}

/* A lease that has ended took the key with it, and the place in the queue. */
static enum ps_status keep(void *self, uint64_t deadline_ms, struct ps_error *error)
{
    struct store_way *way = self;
    return ps_kv_lease_keep(way->kv, way->lock.lease, deadline_ms, error);
}

/* Noted in the lock, and compared by finish. */
static enum ps_status prepare(void *self, uint64_t deadline_ms, struct ps_error *error)
{
    struct store_way *way = self;
    return ps_registry_init_prepare(&way->registry, &way->lock, deadline_ms, error);
}

/* Reading needs no lock: whoever finds the job initialised asks in order to know where its
 * parameters are, and has given its place up by then. Deciding demands the lock's key. */
static enum ps_status decide(void *self, uint64_t proposal, uint64_t deadline_ms, uint64_t *decided,
                             struct ps_error *error)
{
    struct store_way *way = self;
    if (proposal == 0)
        return ps_registry_read_placement(&way->registry, deadline_ms, decided, error);
    return ps_registry_decide_placement(&way->registry, &way->lock, proposal, deadline_ms, decided,
                                        error);
}

static enum ps_status finish(void *self, uint64_t deadline_ms, struct ps_error *error)
{
    struct store_way *way = self;
    return ps_registry_init_finish(&way->registry, &way->lock, deadline_ms, error);
}

/* Best effort: when the store does not answer, the lease ends by itself and the next trainer is
 * selected then. */
static void abandon(void *self, uint64_t deadline_ms)
{
    struct store_way *way = self;
    if (way->lock.lease.id != 0)
        ps_registry_init_abandon(&way->registry, &way->lock, deadline_ms);
    memset(&way->lock, 0, sizeof way->lock);
}

/* Ends the wait of a turn; the keeper asks and never waits. */
static void interrupt(void *self)
{
    struct store_way *way = self;
    ps_kv_interrupt(way->kv);
}

static void destroy(void *self)
{
    struct store_way *way = self;
    ps_kv_destroy(way->kv);
    ps_release(way->memory, way);
}
