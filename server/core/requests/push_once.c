/* SPDX-License-Identifier: Apache-2.0 */
/* Here all ways of a push meet: whole, in ranges, by way of an early update. Was it applied before,
 * says its session; what it changes, the update or the round of its parameter. */
#include "server/core/requests/push_once.h"

#include "base/assert.h"
#include "server/core/requests/contribute.h"
#include "server/core/requests/push_on_device.h"

static enum ps_status carry_out(struct ps_service *service, struct ps_parameter *parameter,
                                const struct ps_push_request *request, uint32_t fingerprint,
                                struct ps_update *early, struct ps_push_outcome *outcome,
                                struct ps_error *error);
static enum ps_status contribute(struct ps_service *service, struct ps_parameter *parameter,
                                 const struct ps_push_request *request, uint32_t fingerprint,
                                 const struct ps_update *early, struct ps_push_outcome *outcome,
                                 struct ps_error *error);
static enum ps_status apply(struct ps_service *service, struct ps_parameter *parameter,
                            const struct ps_push_request *request, uint32_t fingerprint,
                            struct ps_update *early, struct ps_push_outcome *outcome,
                            struct ps_error *error);
static enum ps_status update(const struct ps_service *service, struct ps_parameter *parameter,
                             const struct ps_push_request *request, struct ps_update *early,
                             struct ps_journal_place *place, uint64_t *version,
                             struct ps_error *error);

/* The session is committed behind the update and before anybody is answered, so a repeat finds one
 * or the other: the request under way, or its answer. */
enum ps_status ps_push_once(struct ps_service *service, struct ps_parameter *parameter,
                            const struct ps_push_request *request, struct ps_update *early,
                            struct ps_push_outcome *outcome, struct ps_error *error)
{
    struct ps_sessions *sessions = &service->sessions;
    PS_ASSERT(early == NULL || request->request.present);
    PS_ASSERT(!ps_staging_is_part(request->range, parameter->spec->count));
    if (!request->request.present)
        return carry_out(service, parameter, request, 0, early, outcome, error);
    struct ps_session_call call;
    uint32_t fingerprint = ps_service_fingerprint(request);
    /* Named clients are counted by parameter; of the others the name is not looked at. */
    struct ps_request_id id = request->request;
    id.pushed_to = request->name;
    PS_TRY(
        ps_sessions_begin(sessions, &id, fingerprint, ps_service_unix_us(service), &call, error));
    if (call.is_repeat) {
        outcome->reply = ps_push_repeated(parameter, call.answer);
        return PS_OK;
    }
    enum ps_status status =
        carry_out(service, parameter, request, fingerprint, early, outcome, error);
    if (status != PS_OK || outcome->reply.position == 0) {
        /* A refused push changed nothing, and its id may come again; so of one that was too late
         * for its round. */
        ps_sessions_abort(sessions, &call);
        return status;
    }
    /* The last contribution of a round waits for the round's record, too; its session is of its own
     * record, as replay leaves it. */
    uint64_t noted = outcome->noted != 0 ? outcome->noted : outcome->reply.position;
    ps_sessions_commit(
        sessions, &call,
        (struct ps_session_answer){.version = outcome->reply.version, .position = noted});
    /* The gauge follows the table only when that has grown; who was forgotten for it is counted
     * along. */
    if (call.is_new_client)
        ps_service_count_clients(service);
    return PS_OK;
}

/* Which of the two a parameter is stays as it is while the cut is held: a configuration that begins
 * or ends rounds holds it alone. */
static enum ps_status carry_out(struct ps_service *service, struct ps_parameter *parameter,
                                const struct ps_push_request *request, uint32_t fingerprint,
                                struct ps_update *early, struct ps_push_outcome *outcome,
                                struct ps_error *error)
{
    PS_ASSERT(outcome->reply.position == 0 && !outcome->reply.duplicate);
    return parameter->rounds != NULL
               ? contribute(service, parameter, request, fingerprint, early, outcome, error)
               : apply(service, parameter, request, fingerprint, early, outcome, error);
}

/* A repeat is answered as it was the first time, but that the journal may be further by now, and a
 * round over: a version that is to come is that of a round which goes on. */
struct ps_push_reply ps_push_repeated(struct ps_parameter *parameter,
                                      struct ps_session_answer answer)
{
    PS_ASSERT(parameter->spec != NULL);
    bool is_held = parameter->rounds != NULL && answer.version > ps_parameter_version(parameter);
    return (struct ps_push_reply){
        .version = answer.version, .duplicate = true, .position = answer.position, .held = is_held};
}

/* What came of a look at the round is done whatever becomes of the contribution. A late one that
 * counts nowhere has no position: it is answered, and neither counted nor remembered. */
static enum ps_status contribute(struct ps_service *service, struct ps_parameter *parameter,
                                 const struct ps_push_request *request, uint32_t fingerprint,
                                 const struct ps_update *early, struct ps_push_outcome *outcome,
                                 struct ps_error *error)
{
    struct ps_round_effects effects = {0};
    PS_ASSERT(!outcome->reply.staged);
    /* Its ranges came before the parameter was configured for rounds, were applied as they came,
     * and are not kept: they have to come again, as those of a push that was overtaken. */
    if (early != NULL && request->content.piece_count == 0)
        return ps_fail(error, PS_ERR_CONFLICT, "parameter: %s is trained in rounds now",
                       (const char *)parameter->spec->name.data);
    enum ps_status status =
        ps_contribute(service, parameter, request, fingerprint, &outcome->reply, &effects, error);
    outcome->wakes_writer |= effects.wakes_writer;
    outcome->tells |= effects.tells;
    outcome->noted = effects.noted;
    if (status != PS_OK || outcome->reply.position == 0)
        return status;
    atomic_fetch_add(&service->push_count, 1);
    ps_counter_add(service->metrics.push_bytes, request->content.size);
    return PS_OK;
}

/* The record is made outside all locks: it may copy the gradient. It has its position from the
 * commit of the update, or none, and then it goes as if it had never been. */
static enum ps_status apply(struct ps_service *service, struct ps_parameter *parameter,
                            const struct ps_push_request *request, uint32_t fingerprint,
                            struct ps_update *early, struct ps_push_outcome *outcome,
                            struct ps_error *error)
{
    struct ps_journal_place place;
    PS_TRY(ps_journal_place_init(&place, &service->queue, request, fingerprint, service->epoch,
                                 error));
    /* The request's own cut is held, so the epoch of the record is that of the answer. */
    uint64_t version = 0;
    enum ps_status status = update(service, parameter, request, early, &place, &version, error);
    ps_journal_place_release(&place);
    if (status != PS_OK)
        return status;
    PS_ASSERT(version > 0 && place.position > 0);
    /* Counted behind the update: what was refused was no push. */
    atomic_fetch_add(&service->push_count, 1);
    ps_counter_add(service->metrics.push_bytes, request->content.size);
    ps_counter_add(service->metrics.push_copied_bytes, place.copied_bytes);
    ps_gauge_set(service->metrics.position, (double)place.position);
    outcome->reply = (struct ps_push_reply){.version = version, .position = place.position};
    /* Only the first record of an empty queue wakes the writer, which then takes whatever has come
     * by the time it runs. */
    outcome->wakes_writer = place.is_first;
    outcome->tells = true;
    return PS_OK;
}

/* What was applied early is committed. Where that was overtaken, or there was none, the gradient is
 * applied as a whole, if it is here. */
static enum ps_status update(const struct ps_service *service, struct ps_parameter *parameter,
                             const struct ps_push_request *request, struct ps_update *early,
                             struct ps_journal_place *place, uint64_t *version,
                             struct ps_error *error)
{
    PS_ASSERT(place->position == 0 && *version == 0);
    const struct ps_gradient gradient = {
        .content = request->content, .encoding = request->encoding, .is_plain = request->is_plain};
    /* The early update failed, or it is committed; there is no third. */
    if (early != NULL) {
        enum ps_status status = ps_update_commit(early, place, version, error);
        bool was_kept = gradient.content.piece_count > 0;
        if (status == PS_OK)
            ps_counter_add(service->metrics.pushes_early, 1);
        ps_push_count_early(service, status);
        /* A conflict says that another push was first, and nothing against this gradient. */
        if (status != PS_ERR_CONFLICT || !was_kept)
            return status;
    }
    return ps_parameter_push(parameter, gradient, place, version, error);
}

void ps_push_count_early(const struct ps_service *service, enum ps_status status)
{
    const struct ps_core_metrics *metrics = &service->metrics;
    /* Three reasons: another push was faster, the gradient is wrong, memory is short. */
    if (status == PS_ERR_CONFLICT)
        ps_counter_add(metrics->early_overtaken, 1);
    else if (status == PS_ERR_BAD_INPUT)
        ps_counter_add(metrics->early_not_finite, 1);
    else if (status == PS_ERR_NO_MEMORY)
        ps_counter_add(metrics->early_without_memory, 1);
}
