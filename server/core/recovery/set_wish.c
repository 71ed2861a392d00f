/* SPDX-License-Identifier: Apache-2.0 */
/* How a shard's owner comes to save for a set. The store is the only place where servers meet, so
 * that an owner which dies on the way needs nobody's help: the next one finds the set still wanted
 * and its own row still missing, and begins anew. */
#include "server/core/recovery/set_wish.h"

#include "base/assert.h"
#include "server/core/requests/service_state.h"

#include <inttypes.h>
#include <stdio.h>

static void want(struct ps_set_wish *wish, const struct ps_set *set);
static enum ps_status finish(struct ps_set_wish *wish, struct ps_registry *registry,
                             const struct ps_set *wanted, uint64_t deadline_ms,
                             struct ps_error *error);
static enum ps_status want_by_interval(struct ps_set_wish *wish, struct ps_registry *registry,
                                       uint32_t shard_count, uint64_t deadline_ms,
                                       struct ps_error *error);

/* Lives as long as the service, whatever shard that owns. */
void ps_set_wish_init(struct ps_set_wish *wish, struct ps_service *service, size_t keep,
                      uint64_t interval_ms)
{
    PS_ASSERT(service != NULL && keep > 0 && keep <= PS_SETS_KEPT_MAX);
    /* Nothing is wanted until the store has said so. */
    *wish = (struct ps_set_wish){.service = service, .keep = keep, .interval_ms = interval_ms};
    ps_mutex_init(&wish->mutex, PS_RANK_LEAF);
}

/* A zeroed one is what a server that failed to start has. */
void ps_set_wish_fini(struct ps_set_wish *wish)
{
    if (wish->service != NULL)
        ps_mutex_fini(&wish->mutex);
    *wish = (struct ps_set_wish){0};
}

/* Copied: another may be wanted while the caller saves for this one. */
bool ps_set_wish_take(struct ps_set_wish *wish, struct ps_set *set)
{
    PS_ASSERT(wish->service != NULL && set != NULL);
    ps_mutex_lock(&wish->mutex);
    *set = wish->set;
    ps_mutex_unlock(&wish->mutex);
    return set->revision != 0;
}

/* A newer wish stays: the one that ended may have been given up meanwhile. */
void ps_set_wish_end(struct ps_set_wish *wish, const struct ps_set *set)
{
    PS_ASSERT(set->revision != 0);
    ps_mutex_lock(&wish->mutex);
    if (wish->set.revision == set->revision) {
        wish->set = (struct ps_set){0};
        wish->ticket = (struct ps_ticket){0};
    }
    ps_mutex_unlock(&wish->mutex);
}

/* Only an owner that is READY has something to save, and rows are counted by owners alone: a spare
 * would count what they count. */
enum ps_status ps_set_wish_look(struct ps_set_wish *wish, struct ps_registry *registry,
                                uint64_t deadline_ms, struct ps_error *error)
{
    PS_ASSERT(registry != NULL);
    struct ps_set before;
    struct ps_set wanted;
    (void)ps_set_wish_take(wish, &before);
    PS_TRY(ps_registry_wanted_set(registry, deadline_ms, &wanted, error));
    /* Also when another one is wanted now. */
    if (before.revision != 0 && before.revision != wanted.revision)
        ps_set_wish_end(wish, &before);
    /* Index, number of shards and epoch are of one moment; should the shard be lost behind it, the
     * transaction of the row finds out. */
    struct ps_status_reply self = {0};
    char uuid[37];
    ps_service_status(wish->service, &self, uuid);
    /* A set of another number of shards is of the job as it was before it was resharded. */
    if (wanted.revision == 0 && self.epoch != 0 && self.index == 0)
        return want_by_interval(wish, registry, self.shard_count, deadline_ms, error);
    if (wanted.name[0] == '\0' || self.epoch == 0 || wanted.shard_count != self.shard_count)
        return PS_OK;
    /* Also a row that a former owner put: that instant lies behind the asking, as ours would. */
    struct ps_kv_entries row;
    enum ps_status status =
        ps_registry_set_row(registry, wanted.name, self.index, deadline_ms, &row, error);
    if (status == PS_ERR_NOT_FOUND) {
        want(wish, &wanted);
        return PS_OK;
    }
    PS_TRY(status);
    ps_kv_entries_release(&row);
    ps_set_wish_end(wish, &wanted);
    return finish(wish, registry, &wanted, deadline_ms, error);
}

/* The wish is noted before the checkpoint is wanted: the snapshot that satisfies the ticket begins
 * behind both. A shard that is not READY is looked at again when it is. */
static void want(struct ps_set_wish *wish, const struct ps_set *set)
{
    PS_ASSERT(set->revision != 0 && set->name[0] != '\0');
    ps_mutex_lock(&wish->mutex);
    struct ps_ticket ticket = wish->ticket;
    bool is_known = wish->set.revision == set->revision && ticket.number != 0;
    if (wish->set.revision != set->revision)
        wish->ticket = (struct ps_ticket){0};
    wish->set = *set;
    ps_mutex_unlock(&wish->mutex);
    /* The coordinator tries until the ticket is satisfied. One that is, while the row is missing,
     * was published for a set that was given up; one that is abandoned went with the shard. */
    if (is_known && !ps_service_satisfied(wish->service, ticket) &&
        !ps_service_abandoned(wish->service, ticket))
        return;
    /* Not READY, or a server that saves nothing: the wish stays, for the save that comes next. */
    if (ps_service_want_checkpoint(wish->service, &ticket, NULL) != PS_OK)
        return;
    ps_mutex_lock(&wish->mutex);
    if (wish->set.revision == set->revision)
        wish->ticket = ticket;
    ps_mutex_unlock(&wish->mutex);
}

/* Whoever makes a set whole takes the oldest away: one server, once for each set. */
static enum ps_status finish(struct ps_set_wish *wish, struct ps_registry *registry,
                             const struct ps_set *wanted, uint64_t deadline_ms,
                             struct ps_error *error)
{
    PS_ASSERT(wish->keep > 0);
    /* Two servers may both find the last row: the store lets one of them put the mark. */
    bool is_whole = false;
    PS_TRY(ps_registry_finish_set(registry, wanted, deadline_ms, &is_whole, error));
    return is_whole ? ps_registry_sweep_sets(registry, wish->keep, deadline_ms, error) : PS_OK;
}

/* By the time at which the newest set was asked for, so that a server which takes shard 0 over goes
 * on where the one before was, and a set that somebody has asked for counts. */
static enum ps_status want_by_interval(struct ps_set_wish *wish, struct ps_registry *registry,
                                       uint32_t shard_count, uint64_t deadline_ms,
                                       struct ps_error *error)
{
    const struct ps_clock *clock = wish->service->clock;
    uint64_t unix_ns = ps_unix_ns(clock);
    struct ps_set set = {.shard_count = shard_count, .asked_unix_ns = unix_ns};
    struct ps_set_list list;
    bool is_whole = false;
    PS_ASSERT(shard_count > 0);
    if (wish->interval_ms == 0 || ps_now_ms(clock) < wish->due_ms ||
        ps_service_can_save(wish->service, NULL) != PS_OK)
        return PS_OK;
    /* Another set under way was seen a moment ago: here nothing is. */
    PS_ASSERT(set.name[0] == '\0');
    PS_TRY(ps_registry_whole_sets(registry, deadline_ms, &list, error));
    uint64_t asked_ns = list.count > 0 ? list.sets[0].asked_unix_ns : 0;
    /* A clock that was set back makes it now rather than never. */
    uint64_t age_ms = unix_ns > asked_ns ? (unix_ns - asked_ns) / 1000000 : wish->interval_ms;
    if (age_ms < wish->interval_ms) {
        wish->due_ms = ps_deadline_after(clock, wish->interval_ms - age_ms);
        return PS_OK;
    }
    /* A failure of the store fails the whole look, which is repeated soon. */
    (void)snprintf(set.name, sizeof set.name, "at-%" PRIu64, unix_ns / 1000000);
    struct ps_set wanted;
    enum ps_status status =
        ps_registry_want_set(registry, &set, deadline_ms, &wanted, &is_whole, error);
    /* Somebody else's is as good. */
    if (status != PS_OK && status != PS_ERR_BUSY)
        return status;
    wish->due_ms = ps_deadline_after(clock, wish->interval_ms);
    return PS_OK;
}

/* A time that has passed is one at which nothing could be asked for: another server owns shard 0, a
 * set was under way, or there was nothing to save. Then the next look by itself is soon enough, and
 * a time in the past would have its thread look without an end. */
uint64_t ps_set_wish_due_ms(const struct ps_set_wish *wish)
{
    PS_ASSERT(wish->service != NULL);
    bool is_ahead = wish->due_ms > ps_now_ms(wish->service->clock);
    return wish->interval_ms != 0 && is_ahead ? wish->due_ms : PS_DEADLINE_NEVER;
}
