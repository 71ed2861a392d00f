/* SPDX-License-Identifier: Apache-2.0 */
/* When the reply to a push may go, and the journal between pushes and the thread that writes it.
 * The journal's queue knows what is on the disk and the service knows whose shard it is; a reply
 * needs both, and only this file asks for both. */
#include "server/core/requests/service.h"

#include "base/assert.h"
#include "server/core/requests/service_state.h"

/* Small shards do not write a checkpoint for every few pushes. */
#define JOURNAL_BYTES_LEAST ((uint64_t)1 << 30)

static enum ps_status wait_for_device(struct ps_service *service, const struct ps_push_wait *wait,
                                      struct ps_error *error);
static enum ps_status check_durable(const struct ps_journal_state *state, uint64_t position,
                                    struct ps_error *error);

/* Positions of two generations cannot be compared: the first one stays, and is told that its shard
 * was lost. */
void ps_push_wait_join(struct ps_push_wait *all, const struct ps_push_wait *one)
{
    if (one->generation != all->generation)
        return;
    /* The largest position alone is enough: records are written in the order of their positions, so
     * the largest is durable last. */
    if (one->position > all->position)
        all->position = one->position;
    if (one->lagging > all->lagging)
        all->lagging = one->lagging;
    PS_ASSERT(all->position >= one->position && all->lagging >= one->lagging);
    ps_device_due_join(&all->due, &one->due);
}

/* The device comes before all else, since that may take a while. Then the order matters. First: was
 * it durable, in this generation of the shard? Then: is the shard ours now? Asked the other way
 * round, the lease might run out and the next owner read the journal just before the record gets
 * there. Last: is it still the same generation? Otherwise the shard was lost and won back in
 * between, and the record may have come too late for whoever owned it meanwhile. */
enum ps_status ps_service_acknowledge(struct ps_service *service, const struct ps_push_wait *wait,
                                      struct ps_push_reply *reply, struct ps_error *error)
{
    struct ps_journal_state before;
    struct ps_journal_state after;
    PS_ASSERT(wait != NULL && reply != NULL);
    PS_TRY(wait_for_device(service, wait, error));
    ps_journal_queue_look(&service->queue, &before);
    enum ps_status owned = ps_service_owns(service, error);
    /* A reset between the first look and the proof would make the proof that of a later generation:
     * the second look finds a reset there. */
    ps_journal_queue_look(&service->queue, &after);

    PS_ASSERT(after.generation >= before.generation);
    if (before.generation != wait->generation || after.generation != wait->generation)
        return ps_fail(error, PS_ERR_UNAVAILABLE,
                       "the shard was lost before the push was acknowledged: repeat it");
    PS_ASSERT(wait->position <= before.position);
    PS_ASSERT(wait->lagging <= before.position);
    if (owned != PS_OK)
        return owned;
    PS_TRY(check_durable(&before, wait->position, error));
    /* A lagging journal also holds back replies that need no disk (ACK_MEMORY): a client that is
     * answered later sends less, so the queue slows its senders before it has to refuse them. */
    if (before.lags && wait->lagging > before.written)
        return ps_fail(error, PS_ERR_NOT_READY, "the journal is too far behind");
    reply->durable_position = before.durable;
    return PS_OK;
}

/* Whatever the device says: the push is applied, in the journal's order at least, so that no word
 * may say that it was refused. */
static enum ps_status wait_for_device(struct ps_service *service, const struct ps_push_wait *wait,
                                      struct ps_error *error)
{
    struct ps_error why = {0};
    if (ps_device_store_wait(service->device_store, wait->due, &why) == PS_OK)
        return PS_OK;
    /* The device's own status is not passed on, since some statuses tell a client that nothing was
     * changed. */
    return ps_fail(error, PS_ERR_UNAVAILABLE, "%s", why.text);
}

/* A journal that has failed may heal, and the record be written after all: until then nobody can
 * say, so that the client is told to repeat. */
static enum ps_status check_durable(const struct ps_journal_state *state, uint64_t position,
                                    struct ps_error *error)
{
    PS_ASSERT(state->durable <= state->position);
    if (position <= state->durable)
        return PS_OK;
    if (state->failed)
        return ps_fail(error, PS_ERR_UNAVAILABLE, "journal failed: %s", state->failure);
    return ps_fail(error, PS_ERR_NOT_READY, "the journal has not been written yet");
}

size_t ps_service_journal_take(struct ps_service *service, struct ps_record *records,
                               size_t record_count_max)
{
    PS_ASSERT(records != NULL && record_count_max > 0);
    return ps_journal_queue_take(&service->queue, records, record_count_max);
}

/* Counted and told without any lock: what waits for these records is asked again at once. */
void ps_service_journal_written(struct ps_service *service, uint64_t position,
                                enum ps_status status, const struct ps_error *why)
{
    PS_ASSERT(service->queue.journals);
    ps_journal_queue_written(&service->queue, position, status, why);
    /* The gauge moves before anybody is told: an operator who sees an answered push finds its
     * position in the metrics. */
    ps_service_count_durable(service);
    /* Only pushes wait for this: whoever waits for other clients is not asked. */
    ps_service_tell_changed(service, PS_TOPIC_BIT(PS_TOPIC_JOURNAL));
    ps_service_watch_journal(service);
}

/* Twice the shard by default: recovery then reads at most about as much of the journal as of
 * checkpoints. */
static uint64_t journal_limit(const struct ps_service *service)
{
    /* The size is read without the cut, since the journal's writer must not wait for a push, and a
     * limit that is one InitParam old does no harm. */
    uint64_t twice =
        2 * (atomic_load(&service->shard_bytes) + atomic_load(&service->row_room.bytes));
    if (service->journal_bytes_max > 0)
        return service->journal_bytes_max;
    return twice > JOURNAL_BYTES_LEAST ? twice : JOURNAL_BYTES_LEAST;
}

/* At the half: the journal behind the older of two checkpoints stays, so what is kept when one is
 * wanted is twice as much as what has come since the last. */
void ps_service_watch_journal(struct ps_service *service)
{
    struct ps_journal_state state;
    ps_journal_queue_look(&service->queue, &state);
    PS_ASSERT(state.durable <= state.written && state.written <= state.position);
    ps_gauge_set(service->metrics.journal_behind, (double)state.behind_bytes);
    /* The queue says "grown" once for each save: only a server that can save may use that answer
     * up. */
    if (!service->saves || !ps_journal_queue_grew(&service->queue, journal_limit(service) / 2))
        return;
    PS_LOG(service->log, PS_LOG_INFO, "journal", "grown: a checkpoint is due",
           PS_FIELD_UINT("bytes", state.behind_bytes),
           PS_FIELD_UINT("limit", journal_limit(service)));
    ps_service_tell_checkpoint_wanted(service);
}

/* At the whole limit and not at the half: the checkpoint that the half has asked for is late. */
bool ps_service_journal_presses(struct ps_service *service)
{
    struct ps_journal_state state;
    ps_journal_queue_look(&service->queue, &state);
    PS_ASSERT(service->queue.journals || state.behind_bytes == 0);
    return state.behind_bytes > journal_limit(service);
}

bool ps_service_journal_failed(struct ps_service *service)
{
    struct ps_journal_state state;
    ps_journal_queue_look(&service->queue, &state);
    PS_ASSERT(service->queue.journals || !state.failed);
    return state.failed;
}

/* The shard may be lost and won back at any time: both numbers are of one ownership. */
bool ps_service_journal_note(struct ps_service *service, struct ps_journal_note *note)
{
    ps_rwlock_read(&service->cut);
    /* A reset takes the cut alone, so epoch and position are of one ownership while the cut is
     * held. */
    *note = (struct ps_journal_note){service->epoch, ps_journal_queue_journaled(&service->queue)};
    ps_rwlock_unlock(&service->cut);
    PS_ASSERT(service->queue.journals || note->position == 0);
    /* Position 0 means that recovery has no checkpoint to begin with: such a note would promise a
     * journal that nobody can replay. */
    return note->position > 0;
}

/* Constant from the service's creation on. */
bool ps_service_journals(const struct ps_service *service)
{
    PS_ASSERT(service->saves || !service->queue.journals);
    return service->queue.journals;
}

/* A journal that has failed is no reason to wait: the checkpoint that asks is then the way to save
 * what the journal could not. */
enum ps_status ps_service_journal_covers(struct ps_service *service, uint64_t generation,
                                         uint64_t position, struct ps_error *error)
{
    struct ps_journal_state state;
    ps_journal_queue_look(&service->queue, &state);
    /* The generation is compared first: a position of a former generation is only a number here,
     * and may lie below what this generation has written. */
    if (state.generation != generation)
        return ps_fail(error, PS_ERR_UNAVAILABLE, "the shard was lost meanwhile");
    PS_ASSERT(position <= state.position);
    if (!service->queue.journals || state.failed || state.written >= position)
        return PS_OK;
    return ps_fail(error, PS_ERR_NOT_READY, "the journal has not been written yet");
}

/* Both numbers are of one instant, so that the second is never ahead of the first. */
void ps_service_positions(struct ps_service *service, uint64_t *position, uint64_t *durable)
{
    struct ps_journal_state state;
    ps_journal_queue_look(&service->queue, &state);
    PS_ASSERT(state.durable <= state.position);
    *position = state.position;
    *durable = state.durable;
}

/* After a write of the journal and after a save, the two events that make positions durable. */
void ps_service_count_durable(struct ps_service *service)
{
    struct ps_journal_state state;
    ps_journal_queue_look(&service->queue, &state);
    PS_ASSERT(state.durable <= state.position);
    ps_gauge_set(service->metrics.durable_position, (double)state.durable);
    ps_gauge_set(service->metrics.journal_queued, (double)state.queued_bytes);
}
