/* SPDX-License-Identifier: Apache-2.0 */
/* FinishInitParams, and which reply waits for which checkpoint. A ticket is given out with the cut
 * held, while the phase is known; every wait for the ticket happens without any lock. */
#include "server/core/requests/service.h"

#include "base/assert.h"
#include "base/hash.h"
#include "server/core/requests/service_state.h"
#include "server/core/sessions/fingerprint.h"

#include <inttypes.h>
#include <string.h>

static enum ps_status finish_locked(struct ps_service *service,
                                    const struct ps_finish_request *request,
                                    struct ps_error *error);
static enum ps_status begin_ready(struct ps_service *service,
                                  const struct ps_finish_request *request, struct ps_error *error);

/* The cut is held alone: no InitParam is half done when initialisation ends. The listener is told
 * without it, since it may wake threads that want it at once. */
enum ps_status ps_service_finish(struct ps_service *service,
                                 const struct ps_finish_request *request, struct ps_ticket *ticket,
                                 struct ps_error *error)
{
    /* A caller without a request is a caller without id, shard and epoch: each of the three checks
     * passes for zero. */
    const struct ps_finish_request nobody = {0};
    PS_ASSERT(ticket != NULL);
    *ticket = (struct ps_ticket){0};
    ps_rwlock_write(&service->cut);
    enum ps_status status = finish_locked(service, request != NULL ? request : &nobody, error);
    /* Also a second finish is answered only when the first checkpoint is on disk: it may be the
     * retry of one whose reply was lost. */
    if (status == PS_OK || status == PS_ERR_EXISTS)
        *ticket = service->finish_ticket;
    ps_rwlock_unlock(&service->cut);

    if (status == PS_OK) {
        ps_service_tell_changed(service, PS_TOPIC_BIT(PS_TOPIC_LIFE));
        if (!ps_service_satisfied(service, *ticket)) /* a repeat needs no other checkpoint */
            ps_service_tell_checkpoint_wanted(service);
    }
    return status;
}

/* The id is remembered only of a finish that was done: one that was refused may be sent again when
 * its reason is gone. */
static enum ps_status finish_locked(struct ps_service *service,
                                    const struct ps_finish_request *request, struct ps_error *error)
{
    PS_TRY(ps_service_admit_for(service, request->shard, error));
    if (!request->request.present)
        return begin_ready(service, request, error);
    struct ps_session_call call;
    PS_TRY(ps_sessions_begin(&service->sessions, &request->request, ps_fingerprint_of_finish(),
                             ps_service_unix_us(service), &call, error));
    /* The first finish has left its ticket in finish_ticket, so the repeat waits for the same
     * checkpoint. After a load that ticket is 0: the state came from a checkpoint, and there is
     * nothing to wait for. */
    if (call.is_repeat)
        return PS_OK;
    enum ps_status status = begin_ready(service, request, error);
    if (status == PS_OK)
        ps_sessions_commit(&service->sessions, &call, (struct ps_session_answer){0});
    else
        ps_sessions_abort(&service->sessions, &call);
    return status;
}

/* Whether there are parameters is not asked: a shard of a job may have none. The ticket is given
 * with the cut held, so that the first checkpoint has everything. */
static enum ps_status begin_ready(struct ps_service *service,
                                  const struct ps_finish_request *request, struct ps_error *error)
{
    uint64_t epoch = request->epoch;
    if (ps_service_phase(service) == PS_PHASE_READY)
        return ps_fail(error, PS_ERR_EXISTS, "pserver already initialized");
    /* READY without the parameters that the caller believes to be here would be for good. */
    if (epoch != 0 && epoch != service->epoch)
        return ps_fail(error, PS_ERR_STALE_EPOCH,
                       "the server has lost what it was given, initialise again; nothing changed "
                       "(epoch given: %" PRIu64 ", the server's: %" PRIu64 ")",
                       epoch, service->epoch);
    PS_ASSERT(ps_service_phase(service) == PS_PHASE_UNINITIALIZED);
    /* Without checkpoints the ticket stays 0, which is satisfied at once. */
    if (service->saves)
        service->finish_ticket = ps_tickets_give(&service->tickets);
    PS_ASSERT(!service->saves || service->finish_ticket.number > 0);
    /* Of the first finish: a repeat of it changes nothing. Checkpoints carry it from now on. */
    service->placement = request->placement;
    atomic_store(&service->phase, PS_PHASE_READY);
    return PS_OK;
}

/* Before the load, whose thread reads it without the cut: nothing changes it until the next
 * claim. */
void ps_service_expect_placement(struct ps_service *service, uint64_t placement)
{
    ps_rwlock_write(&service->cut);
    PS_ASSERT(ps_service_phase(service) == PS_PHASE_STARTING);
    service->job_placement = placement;
    ps_rwlock_unlock(&service->cut);
}

/* A shard that was initialised without a number was initialised by a client that knows the classic
 * rule only. While the journal is replayed the answer is the checkpoint's already: whoever asks
 * wants to know where parameters lie, and they do not move. */
uint64_t ps_service_placement(struct ps_service *service)
{
    ps_rwlock_read(&service->cut);
    enum ps_phase phase = ps_service_phase(service);
    uint64_t placement = service->placement;
    if (phase != PS_PHASE_READY && phase != PS_PHASE_RECOVERING)
        placement = 0;
    else if (placement == 0)
        placement = PS_PLACEMENT_CLASSIC;
    ps_rwlock_unlock(&service->cut);
    return placement;
}

enum ps_status ps_service_can_save(struct ps_service *service, struct ps_error *error)
{
    if (!service->saves)
        return ps_fail(error, PS_ERR_UNSUPPORTED,
                       "this server saves no checkpoints: it was started without a data directory");
    if (ps_service_phase(service) != PS_PHASE_READY)
        return ps_fail(error, PS_ERR_NOT_READY, "pserver not fully initialized");
    return PS_OK;
}

/* The ticket is given while the phase is known, and the checkpointer is told without any lock. */
enum ps_status ps_service_want_checkpoint(struct ps_service *service, struct ps_ticket *ticket,
                                          struct ps_error *error)
{
    ps_rwlock_read(&service->cut);
    /* A checkpoint of a shard that is half initialised would be recovered as a whole one. */
    enum ps_status status = ps_service_can_save(service, error);
    if (status == PS_OK)
        *ticket = ps_tickets_give(&service->tickets);
    ps_rwlock_unlock(&service->cut);
    PS_TRY(status);
    PS_ASSERT(ticket->number > 0);
    ps_service_tell_checkpoint_wanted(service);
    return PS_OK;
}

/* Without the cut, which a push may hold for as long as a device hangs: the caller is the thread
 * that keeps the lease. The ticket is read before the position: what was applied when the ticket
 * was given is in a checkpoint of that position. */
bool ps_service_has_nothing_new(struct ps_service *service, struct ps_ticket *ticket,
                                struct ps_checkpoint_place *place)
{
    struct ps_checkpoint_place last = {0};
    struct ps_journal_state state;
    struct ps_ticket newest = ps_tickets_newest(&service->tickets);
    /* A checkpoint that was loaded does not count: its epoch is a former one, and the present epoch
     * needs a checkpoint of its own. */
    bool is_own = ps_tickets_own_place(&service->tickets, &last);
    ps_journal_queue_look(&service->queue, &state);
    /* Equal positions of two generations are two different states, so the generation is compared as
     * well. */
    PS_ASSERT(newest.number > 0);
    if (ps_service_phase(service) != PS_PHASE_READY || !is_own ||
        state.generation != ps_ticket_generation(newest) || state.position != last.position)
        return false;
    if (ticket != NULL)
        *ticket = newest;
    if (place != NULL)
        *place = last;
    return true;
}

/* The cast takes const away for the lock alone; nothing of the tickets changes. The same holds for
 * ps_service_abandoned. */
bool ps_service_satisfied(const struct ps_service *service, struct ps_ticket ticket)
{
    return ps_tickets_satisfied((struct ps_tickets *)&service->tickets, ticket);
}

bool ps_service_abandoned(const struct ps_service *service, struct ps_ticket ticket)
{
    return ps_tickets_abandoned((struct ps_tickets *)&service->tickets, ticket);
}

/* Asked first whether the ticket's generation is over: nothing will ever satisfy such a ticket. */
enum ps_status ps_service_await_checkpoint(struct ps_service *service, struct ps_ticket ticket,
                                           struct ps_error *error)
{
    PS_ASSERT(ticket.number <= ps_tickets_newest(&service->tickets).number);
    if (ps_service_abandoned(service, ticket))
        return ps_fail(error, PS_ERR_UNAVAILABLE,
                       "the shard was lost before its checkpoint was saved");
    if (ps_service_satisfied(service, ticket))
        return PS_OK;
    return ps_fail(error, PS_ERR_NOT_READY, "the checkpoint has not been saved yet");
}

/* A checkpoint that cannot be written is tried again, perhaps for hours: the caller is told why,
 * and may send the call again. */
enum ps_status ps_service_await_finish(struct ps_service *service, struct ps_ticket ticket,
                                       struct ps_error *error)
{
    struct ps_error why;
    enum ps_status status = ps_service_await_checkpoint(service, ticket, error);
    /* A ticket that is satisfied between the two questions counts as not failed: the caller stays
     * parked, and the listener, which is told of the save, has the caller ask again. */
    if (status != PS_ERR_NOT_READY || !ps_service_save_failed(service, ticket, &why))
        return status;
    PS_ASSERT(why.status != PS_OK);
    return ps_fail(error, PS_ERR_UNAVAILABLE,
                   "no checkpoint yet, it is tried again, and so may this be: %.180s", why.text);
}

bool ps_service_save_failed(struct ps_service *service, struct ps_ticket ticket,
                            struct ps_error *why)
{
    PS_ASSERT(why != NULL);
    return ps_tickets_failed(&service->tickets, ticket, why);
}

struct ps_ticket ps_service_newest_ticket(struct ps_service *service)
{
    return ps_tickets_newest(&service->tickets);
}

/* Those that wait for one attempt only are asked again. */
void ps_service_not_saved(struct ps_service *service, struct ps_ticket ticket,
                          const struct ps_error *why)
{
    PS_ASSERT(why != NULL);
    ps_tickets_fail(&service->tickets, ticket, why);
    /* No position became durable: pushes that wait for the journal have nothing to hear. */
    ps_service_tell_changed(service, PS_TOPIC_BIT(PS_TOPIC_CHECKPOINT));
}

/* The tickets come first, then the journal: what the journal lets go of because of a checkpoint is
 * covered by then. Only after both is anybody told. */
void ps_service_saved(struct ps_service *service, struct ps_ticket ticket,
                      const struct ps_checkpoint_place *place)
{
    PS_ASSERT(place != NULL);
    ps_tickets_save(&service->tickets, ticket, place);
    ps_journal_queue_saved(&service->queue, ps_ticket_generation(ticket), place->position);
    ps_service_count_durable(service);
    ps_gauge_set(service->metrics.checkpoint_bytes, (double)place->bytes);
    ps_gauge_set(service->metrics.checkpoint_position, (double)place->position);
    ps_gauge_set(service->metrics.checkpoint_timestamp, (double)place->unix_ns / 1e9);
    /* A checkpoint makes positions durable as the journal does: pushes are asked, too. The journal
     * is looked at last: what was written while this checkpoint was made may already call for the
     * next. */
    ps_service_tell_changed(service,
                            PS_TOPIC_BIT(PS_TOPIC_CHECKPOINT) | PS_TOPIC_BIT(PS_TOPIC_JOURNAL));
    ps_service_watch_journal(service);
}

bool ps_service_last_saved(struct ps_service *service, struct ps_checkpoint_place *place)
{
    return ps_tickets_place(&service->tickets, place);
}

/* With the cut, since a saver of the former life may still be at its sweep. */
void ps_service_note_named(struct ps_service *service, const char uuid[37])
{
    PS_ASSERT(memchr(uuid, '\0', sizeof service->named_uuid) != NULL);
    ps_rwlock_write(&service->cut);
    memcpy(service->named_uuid, uuid, sizeof service->named_uuid);
    ps_rwlock_unlock(&service->cut);
}

void ps_service_named(struct ps_service *service, char uuid[37])
{
    ps_rwlock_read(&service->cut);
    memcpy(uuid, service->named_uuid, sizeof service->named_uuid);
    ps_rwlock_unlock(&service->cut);
    PS_ASSERT(memchr(uuid, '\0', sizeof service->named_uuid) != NULL);
}
