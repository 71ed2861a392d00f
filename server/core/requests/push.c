/* SPDX-License-Identifier: Apache-2.0 */
/* SendGrad: is the shard ours, is the gradient right, was it applied before; apply it, is the shard
 * still ours. May the reply go is asked in acknowledge.c. A push is whole when it gets to
 * push_once, whether it came in one piece or in ranges that the staging has put together; from
 * there on there is one way. */
#include "server/core/requests/service.h"

#include "base/assert.h"
#include "optimizer/encoded.h"
#include "server/core/requests/contribute.h"
#include "server/core/requests/pull_wait.h"
#include "server/core/requests/push_on_device.h"
#include "server/core/requests/service_state.h"
#include "server/core/requests/table_change.h"
#include "server/core/sessions/fingerprint.h"

#include <inttypes.h>

/* What became of one push. */
struct outcome {
    struct ps_push_reply reply;
    struct ps_device_due due; /* of the parameter: also a repeat waits for the first */
    bool wakes_writer;
    uint64_t noted;               /* what the session keeps as the position; 0: that of the reply */
    bool tells;                   /* whoever waits for a version is to be asked again */
    struct ps_pull *early_values; /* borrowed; where the caller wants those of a range, or NULL */
};

static enum ps_status push_in_cut(struct ps_service *service, const struct ps_push_request *request,
                                  struct outcome *outcome, struct ps_error *error);
static enum ps_status check_ready(const struct ps_service *service, uint32_t shard,
                                  struct ps_error *error);
static enum ps_status push_whole(struct ps_service *service, struct ps_parameter *parameter,
                                 const struct ps_push_request *request, struct outcome *outcome,
                                 struct ps_error *error);
static enum ps_status push_part(struct ps_service *service, struct ps_parameter *parameter,
                                const struct ps_push_request *request, struct outcome *outcome,
                                struct ps_error *error);
static void offer_early(struct ps_service *service, struct ps_parameter *parameter,
                        struct ps_part *part);
static void give_early_values(struct ps_service *service, const struct ps_added *added,
                              struct ps_elements range, struct outcome *outcome);
static enum ps_status push_staged(struct ps_service *service, struct ps_parameter *parameter,
                                  const struct ps_push_request *last, const struct ps_added *added,
                                  struct outcome *outcome, struct ps_error *error);
static enum ps_status push_once(struct ps_service *service, struct ps_parameter *parameter,
                                const struct ps_push_request *request, struct ps_update *early,
                                struct outcome *outcome, struct ps_error *error);
static struct ps_push_reply repeated(struct ps_parameter *parameter,
                                     struct ps_session_answer answer);
static enum ps_status contribute(struct ps_service *service, struct ps_parameter *parameter,
                                 const struct ps_push_request *request, uint32_t fingerprint,
                                 const struct ps_update *early, struct outcome *outcome,
                                 struct ps_error *error);
static enum ps_status apply(struct ps_service *service, struct ps_parameter *parameter,
                            const struct ps_push_request *request, uint32_t fingerprint,
                            struct ps_update *early, struct outcome *outcome,
                            struct ps_error *error);
static enum ps_status update(const struct ps_service *service, struct ps_parameter *parameter,
                             const struct ps_push_request *request, struct ps_update *early,
                             struct ps_journal_place *place, uint64_t *version,
                             struct ps_error *error);
static void begin_wait(struct ps_service *service, enum ps_ack ack, struct outcome *outcome,
                       struct ps_push_wait *wait);
static void count(const struct ps_service *service, const struct ps_push_request *request,
                  const struct ps_push_reply *reply, uint64_t start_unix_ns);
static void count_early(const struct ps_service *service, enum ps_status status);

enum ps_status ps_service_push(struct ps_service *service, const struct ps_push_request *request,
                               struct ps_push_reply *reply, struct ps_push_wait *wait,
                               struct ps_error *error)
{
    return ps_service_push_range(service, request, reply, wait, NULL, error);
}

/* The cut is held shared from the first look to the last, so a snapshot sees the push, its session
 * and its position together or none of them. */
enum ps_status ps_service_push_range(struct ps_service *service,
                                     const struct ps_push_request *request,
                                     struct ps_push_reply *reply, struct ps_push_wait *wait,
                                     struct ps_pull *early_values, struct ps_error *error)
{
    /* Tests that wait for nothing give no place for it. */
    struct ps_push_wait unused;
    struct outcome outcome = {.early_values = early_values};
    PS_ASSERT(reply != NULL);
    /* Waiting for the cut is part of the time that a push takes: a snapshot may hold pushes up. */
    uint64_t start_unix_ns = ps_unix_ns(service->clock);
    ps_rwlock_read(&service->cut);
    enum ps_status status = push_in_cut(service, request, &outcome, error);
    begin_wait(service, request->ack, &outcome, wait != NULL ? wait : &unused);
    ps_rwlock_unlock(&service->cut);

    /* What waits for the disk does so whether this caller is answered or not. Told without the cut,
     * since the listener may take locks of its own. */
    if (outcome.wakes_writer)
        ps_service_tell_journal_wanted(service);
    if (outcome.tells)
        ps_pull_wait_tell(service, request->name);
    if (status != PS_OK) {
        ps_counter_add(service->metrics.pushes_refused, 1);
        return status;
    }
    /* Written on success alone, as everywhere. */
    *reply = outcome.reply;
    count(service, request, reply, start_unix_ns);
    return PS_OK;
}

/* The cut keeps the table as it is while its lines are fetched. */
void ps_service_expect(struct ps_service *service, const struct ps_bytes *names, size_t count)
{
    ps_rwlock_read(&service->cut);
    PS_ASSERT(count <= PS_EXPECTED_NAMES_MAX);
    ps_parameter_table_expect(&service->table, names, count);
    ps_rwlock_unlock(&service->cut);
}

/* A range that waits for others costs nothing but its own bytes; one that is applied early, too,
 * since the others were applied as they came. The range that completes a push which was put
 * together costs all of the parameter, and its lane should not do that alone. */
uint64_t ps_service_push_work(struct ps_service *service, const struct ps_push_request *request)
{
    if (request->range.count == 0 || !request->request.present)
        return request->content.size + ps_service_extra_push_work(service, request);
    uint64_t present = 0;
    /* The staging is asked without the cut, and may have changed when the cut is held: the answer
     * is a guess, and the price of a wrong guess is a busy lane. */
    if (ps_staging_way(&service->staging, &request->request, &present) == PS_STAGING_EARLY)
        return 0;
    ps_rwlock_read(&service->cut);
    const struct ps_parameter *parameter = ps_parameter_table_find(&service->table, request->name);
    /* Read with the cut held, since the table may change as soon as it is not. */
    uint64_t total = parameter != NULL ? parameter->spec->count : 0;
    uint64_t bytes = parameter != NULL ? ps_parameter_spec_bytes(parameter->spec) : 0;
    ps_rwlock_unlock(&service->cut);
    return total <= request->range.count || present < total - request->range.count ? 0 : bytes;
}

/* The shard first: what another server owns, this one does not even know to be missing. */
static enum ps_status push_in_cut(struct ps_service *service, const struct ps_push_request *request,
                                  struct outcome *outcome, struct ps_error *error)
{
    PS_TRY(check_ready(service, request->shard, error));
    /* The pointer holds for as long as the cut: only a holder of the whole cut takes parameters out
     * of the table. */
    struct ps_parameter *parameter = ps_parameter_table_find(&service->table, request->name);
    if (parameter == NULL)
        return ps_fail(error, PS_ERR_NOT_FOUND, "parameter: %.*s does not exist",
                       ps_service_name_width(request->name), (const char *)request->name.data);
    PS_TRY(ps_service_check_acknowledgement(service, request->ack, error));
    PS_TRY(ps_service_check_on_device(service, parameter, request, error));
    PS_ASSERT(outcome->reply.version == 0);
    PS_TRY(ps_service_check_push_range(parameter->spec, request->range, error));
    if (ps_staging_is_part(request->range, parameter->spec->count))
        PS_TRY(push_part(service, parameter, request, outcome, error));
    else
        PS_TRY(push_whole(service, parameter, request, outcome, error));
    /* A staged range waits for nothing, whatever other pushes have queued on the device. */
    if (!outcome->reply.staged)
        outcome->due = ps_parameter_due(parameter);

    /* The lease may have run out meanwhile (a stopped process wakes up here): then another server
     * may own the shard, and what was applied is not acknowledged. */
    return ps_service_owns(service, error);
}

/* Whose shard it is comes before what state it is in: both are answers, and only the first is for
 * this client. */
static enum ps_status check_ready(const struct ps_service *service, uint32_t shard,
                                  struct ps_error *error)
{
    PS_TRY(ps_service_admit_for(service, shard, error));
    if (ps_service_phase(service) != PS_PHASE_READY)
        return ps_fail(error, PS_ERR_NOT_READY, "pserver not fully initialized");
    return PS_OK;
}

/* A push in one piece takes the place of ranges that came before under its id: the client has
 * changed its way, and the content is the same. Behind the commit, since until then the ranges are
 * all there is. */
static enum ps_status push_whole(struct ps_service *service, struct ps_parameter *parameter,
                                 const struct ps_push_request *request, struct outcome *outcome,
                                 struct ps_error *error)
{
    PS_ASSERT(!ps_staging_is_part(request->range, parameter->spec->count));
    PS_TRY(ps_service_check_row_width(parameter->spec, request->row_width, error));
    PS_TRY(ps_service_check_gradient(parameter->spec, request->dtype, request->encoding,
                                     request->content.size, error));
    if (!request->request.present && parameter->rounds != NULL)
        return contribute(service, parameter, request, 0, NULL, outcome, error);
    if (!request->request.present)
        return apply(service, parameter, request, 0, NULL, outcome, error);
    PS_TRY(ps_staging_check_whole(&service->staging, &request->request, PS_METHOD_PUSH,
                                  request->name, error));
    PS_TRY(push_once(service, parameter, request, NULL, outcome, error));
    PS_ASSERT(!outcome->reply.staged);
    ps_staging_forget(&service->staging, &request->request);
    return PS_OK;
}

/* Puts a range to the others of its request. The last one brings all of them, which go on as one; a
 * range of what was applied before is answered as that was. Values that a range makes are given out
 * only while they may still become a version, or as part of the version that they became: what an
 * overtaken update has made is nobody's. */
static enum ps_status push_part(struct ps_service *service, struct ps_parameter *parameter,
                                const struct ps_push_request *request, struct outcome *outcome,
                                struct ps_error *error)
{
    const struct ps_parameter_spec *spec = parameter->spec;
    bool is_native = ps_encoding_is_native(request->encoding, request->dtype);
    struct ps_part part = {.method = PS_METHOD_PUSH,
                           .id = &request->request,
                           .name = request->name,
                           .dtype = request->dtype,
                           .encoding = is_native ? PS_ENCODING_NATIVE : request->encoding,
                           .total = spec->count,
                           .range = request->range,
                           .content = request->content,
                           .hold = request->hold,
                           .spec = spec,
                           .keeps = service->queue.journals,
                           .sessions = &service->sessions,
                           .fingerprint = ps_fingerprint_of_push(request, (struct ps_view){0}),
                           .unix_us = ps_service_unix_us(service)};
    struct ps_added added;
    /* Of a range only the type is known from the whole; its length is the staging's to check. */
    PS_TRY(ps_service_check_gradient(spec, request->dtype, PS_ENCODING_NATIVE,
                                     ps_parameter_spec_bytes(spec), error));
    PS_ASSERT(part.range.count > 0);
    /* Behind the check of the type: an early update takes a reference to a version, and memory. */
    offer_early(service, parameter, &part);
    enum ps_status status =
        ps_staging_add(&service->staging, &part, ps_now_ms(service->clock), &added, error);
    PS_ASSERT(!added.is_repeat || (added.staged == NULL && added.early_values == NULL));
    /* A failed early update is counted here, and again nowhere: the parts that follow are put
     * together without one. */
    count_early(service, added.early_failed);
    if (status == PS_OK && added.is_repeat)
        outcome->reply = repeated(parameter, added.answer);
    else if (status == PS_OK && added.staged != NULL)
        status = push_staged(service, parameter, request, &added, outcome, error);
    else
        outcome->reply.staged = status == PS_OK;
    if (status == PS_OK)
        give_early_values(service, &added, request->range, outcome);
    /* What was given out holds a reference of its own. */
    ps_blocks_release(added.early_values);
    ps_service_count_ranges(service);
    return status;
}

/* Whether the first part of a push comes with an early update. Not with pairs, which leave most
 * blocks alone: an early update makes all of them anew. It is begun here, since that takes the
 * parameter's lock, under which no staging may wait; whether it is wanted, the staging says. */
static void offer_early(struct ps_service *service, struct ps_parameter *parameter,
                        struct ps_part *part)
{
    PS_ASSERT(part->early == NULL && part->spec == parameter->spec);
    if (part->id->present && parameter->rounds == NULL && part->encoding != PS_ENCODING_TOP_K &&
        ps_staging_way(&service->staging, part->id, NULL) == PS_STAGING_UNKNOWN)
        part->early = ps_update_create_early(parameter);
    PS_ASSERT(part->early == NULL || ps_update_early_spec(part->early) == part->spec);
}

static void give_early_values(struct ps_service *service, const struct ps_added *added,
                              struct ps_elements range, struct outcome *outcome)
{
    struct ps_pull *wanted = outcome->early_values;
    if (added->early_values == NULL || wanted == NULL)
        return;
    PS_ASSERT(added->version > 0);
    if (!outcome->reply.staged && outcome->reply.version != added->version)
        return;
    /* Without memory, or in an encoding that does not go: the client pulls when the push is
     * whole. */
    if (!ps_pull_made(added->early_values, added->version, range, wanted->reply.encoding, wanted))
        return;
    PS_ASSERT(wanted->reply.range.first == range.first);
    wanted->reply.life = ps_service_chain_of(service, added->early_values->spec).life;
    ps_counter_add(service->metrics.pull_bytes, wanted->reply.content.size);
    if (wanted->encoded != NULL)
        ps_counter_add(service->metrics.pull_encoded_bytes, wanted->reply.content.size);
}

/* All ranges are there: `last` was the last of them, and the whole says what it said. An early
 * update that was overtaken and whose ranges were not kept is forgotten by then, and all of it has
 * to come again: the client is told that its range waits for others. */
static enum ps_status push_staged(struct ps_service *service, struct ps_parameter *parameter,
                                  const struct ps_push_request *last, const struct ps_added *added,
                                  struct outcome *outcome, struct ps_error *error)
{
    PS_ASSERT(added->staged != NULL && !outcome->reply.staged);
    struct ps_update *early = ps_staged_early(added->staged);
    PS_ASSERT(early == NULL ||
              ps_parameter_spec_is_same(ps_update_early_spec(early), parameter->spec));
    struct ps_push_request whole = *last;
    whole.range = (struct ps_elements){0};
    whole.content = added->content;
    whole.hold = added->hold;
    /* Each part was looked at while it was in the cache; the whole, which is in no cache any more,
     * is spared a second look where all parts were plain. */
    whole.is_plain = ps_staged_is_plain(added->staged);
    enum ps_status status = push_once(service, parameter, &whole, early, outcome, error);
    /* Behind the session's commit, so that whoever finds no entry finds the answer. */
    ps_staging_end(&service->staging, added->staged, status);
    if (early == NULL || status != PS_ERR_CONFLICT)
        return status;
    outcome->reply.staged = true;
    return PS_OK;
}

/* A push under a request id: whole when it comes here, in one piece or put together. The session is
 * committed behind the update and before anybody is answered, so a repeat finds one or the other:
 * the request under way, or its answer. */
static enum ps_status push_once(struct ps_service *service, struct ps_parameter *parameter,
                                const struct ps_push_request *request, struct ps_update *early,
                                struct outcome *outcome, struct ps_error *error)
{
    struct ps_sessions *sessions = &service->sessions;
    PS_ASSERT(early == NULL || request->request.present);
    struct ps_session_call call;
    uint32_t fingerprint = ps_service_fingerprint(request);
    PS_ASSERT(request->request.present);
    PS_ASSERT(!ps_staging_is_part(request->range, parameter->spec->count));
    /* Named clients are counted by parameter; of the others the name is not looked at. */
    struct ps_request_id id = request->request;
    id.pushed_to = request->name;
    PS_TRY(
        ps_sessions_begin(sessions, &id, fingerprint, ps_service_unix_us(service), &call, error));
    if (call.is_repeat) {
        outcome->reply = repeated(parameter, call.answer);
        return PS_OK;
    }
    enum ps_status status =
        parameter->rounds != NULL
            ? contribute(service, parameter, request, fingerprint, early, outcome, error)
            : apply(service, parameter, request, fingerprint, early, outcome, error);
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

/* A repeat is answered as it was the first time, but that the journal may be further by now, and a
 * round over: a version that is to come is that of a round which goes on. */
static struct ps_push_reply repeated(struct ps_parameter *parameter,
                                     struct ps_session_answer answer)
{
    bool is_held = parameter->rounds != NULL && answer.version > ps_parameter_version(parameter);
    return (struct ps_push_reply){
        .version = answer.version, .duplicate = true, .position = answer.position, .held = is_held};
}

/* What came of a look at the round is done whatever becomes of the contribution. A late one that
 * counts nowhere has no position: it is answered, and neither counted nor remembered. */
static enum ps_status contribute(struct ps_service *service, struct ps_parameter *parameter,
                                 const struct ps_push_request *request, uint32_t fingerprint,
                                 const struct ps_update *early, struct outcome *outcome,
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
                            struct ps_update *early, struct outcome *outcome,
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
        count_early(service, status);
        /* A conflict says that another push was first, and nothing against this gradient. */
        if (status != PS_ERR_CONFLICT || !was_kept)
            return status;
    }
    return ps_parameter_push(parameter, gradient, place, version, error);
}

/* With the cut held, so that the life is that in which the push was applied. A repeat waits as the
 * first did: its answer says no more than that the push is where it was asked to be. */
static void begin_wait(struct ps_service *service, enum ps_ack ack, struct outcome *outcome,
                       struct ps_push_wait *wait)
{
    /* One look for all three: positions and generation are of one instant. */
    struct ps_journal_state state;
    ps_journal_queue_look(&service->queue, &state);
    PS_ASSERT(service->ack != PS_ACK_DEFAULT);
    PS_ASSERT(state.generation > 0);
    bool logged = (ack == PS_ACK_DEFAULT ? service->ack : ack) == PS_ACK_LOGGED;
    *wait = (struct ps_push_wait){.position = logged ? outcome->reply.position : 0,
                                  .lagging = state.lags ? outcome->reply.position : 0,
                                  .generation = state.generation,
                                  .due = outcome->due};
    PS_ASSERT(outcome->reply.position <= state.position);
    outcome->reply.durable_position = state.durable;
}

/* Each push once: a staged range is none yet, and a repeat was counted before. */
static void count(const struct ps_service *service, const struct ps_push_request *request,
                  const struct ps_push_reply *reply, uint64_t start_unix_ns)
{
    const struct ps_core_metrics *metrics = &service->metrics;
    PS_ASSERT(!reply->staged || (!reply->duplicate && reply->position == 0));
    bool counts_nowhere = reply->late && reply->position == 0;
    if (reply->staged || counts_nowhere)
        return;
    /* Apart from the others: repeats tell how often answers get lost on the way. */
    if (reply->duplicate) {
        ps_counter_add(metrics->pushes_duplicate, 1);
        return;
    }
    /* Wall time may jump: a histogram of negative times helps nobody. */
    uint64_t now = ps_unix_ns(service->clock);
    ps_counter_add(metrics->pushes, 1);
    if (!request->request.present)
        ps_counter_add(metrics->pushes_without_id, 1);
    ps_histogram_observe(metrics->push_seconds,
                         now > start_unix_ns ? (double)(now - start_unix_ns) / 1e9 : 0);
}

/* Why an early update has failed; other statuses are not its end, and it may be committed again. */
static void count_early(const struct ps_service *service, enum ps_status status)
{
    const struct ps_core_metrics *metrics = &service->metrics;
    if (status == PS_ERR_CONFLICT)
        ps_counter_add(metrics->early_overtaken, 1);
    else if (status == PS_ERR_BAD_INPUT)
        ps_counter_add(metrics->early_not_finite, 1);
    else if (status == PS_ERR_NO_MEMORY)
        ps_counter_add(metrics->early_without_memory, 1);
}
