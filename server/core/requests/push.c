/* SPDX-License-Identifier: Apache-2.0 */
/* SendGrad: is the shard ours, is the gradient right, is it a range or whole (push_staged.h,
 * push_once.h), is the shard still ours. May the reply go is asked in acknowledge.c. */
#include "server/core/requests/service.h"

#include "base/assert.h"
#include "server/core/requests/pull_wait.h"
#include "server/core/requests/push_on_device.h"
#include "server/core/requests/push_staged.h"
#include "server/core/update/parameter_rows.h"

static enum ps_status push_in_cut(struct ps_service *service, const struct ps_push_request *request,
                                  struct ps_push_outcome *outcome, struct ps_error *error);
static enum ps_status check_ready(const struct ps_service *service, uint32_t shard,
                                  struct ps_error *error);
static enum ps_status push_whole(struct ps_service *service, struct ps_parameter *parameter,
                                 const struct ps_push_request *request,
                                 struct ps_push_outcome *outcome, struct ps_error *error);
static void begin_wait(struct ps_service *service, enum ps_ack ack, struct ps_push_outcome *outcome,
                       struct ps_push_wait *wait);
static void count(const struct ps_service *service, const struct ps_push_request *request,
                  const struct ps_push_reply *reply, uint64_t start_ns);

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
    struct ps_push_outcome outcome = {.early_values = early_values};
    PS_ASSERT(reply != NULL);
    /* Waiting for the cut is part of the time that a push takes: a snapshot may hold pushes up. */
    uint64_t start_ns = ps_clock_precise_ns();
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
    count(service, request, reply, start_ns);
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
                                  struct ps_push_outcome *outcome, struct ps_error *error)
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
        PS_TRY(ps_push_staged(service, parameter, request, outcome, error));
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

/* Of a push to a table, whose bytes are whole rows. */
static size_t rows_of(const struct ps_parameter *parameter, const struct ps_push_request *request)
{
    const struct ps_parameter_spec *spec = parameter->spec;
    PS_ASSERT(spec->count > 0);
    if (!ps_parameter_spec_is_table(spec))
        return 0;
    return request->content.size / (PS_ROW_KEY_BYTES + ps_parameter_rows_row_bytes(spec));
}

/* A push in one piece takes the place of ranges that came before under its id: the client has
 * changed its way, and the content is the same. Behind the commit, since until then the ranges are
 * all there is. */
static enum ps_status push_whole(struct ps_service *service, struct ps_parameter *parameter,
                                 const struct ps_push_request *request,
                                 struct ps_push_outcome *outcome, struct ps_error *error)
{
    PS_ASSERT(!ps_staging_is_part(request->range, parameter->spec->count));
    PS_TRY(ps_service_check_row_width(parameter->spec, request->row_width, error));
    PS_TRY(ps_service_check_gradient(parameter->spec, request->dtype, request->encoding,
                                     request->content.size, error));
    PS_TRY(ps_service_check_keys(parameter->spec, request->content, rows_of(parameter, request),
                                 error));
    if (!request->request.present)
        return ps_push_once(service, parameter, request, NULL, outcome, error);
    PS_TRY(ps_staging_check_whole(&service->staging, &request->request, PS_METHOD_PUSH,
                                  request->name, error));
    PS_TRY(ps_push_once(service, parameter, request, NULL, outcome, error));
    PS_ASSERT(!outcome->reply.staged);
    ps_staging_forget(&service->staging, &request->request);
    return PS_OK;
}

/* With the cut held, so that the life is that in which the push was applied. A repeat waits as the
 * first did: its answer says no more than that the push is where it was asked to be. */
static void begin_wait(struct ps_service *service, enum ps_ack ack, struct ps_push_outcome *outcome,
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
                  const struct ps_push_reply *reply, uint64_t start_ns)
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
    /* Wall time may jump, and an hour would stay in the histogram's sum. */
    uint64_t now = ps_clock_precise_ns();
    ps_counter_add(metrics->pushes, 1);
    if (!request->request.present)
        ps_counter_add(metrics->pushes_without_id, 1);
    ps_histogram_observe(metrics->push_seconds,
                         now > start_ns ? (double)(now - start_ns) / 1e9 : 0);
}
