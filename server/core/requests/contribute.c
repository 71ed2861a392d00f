/* SPDX-License-Identifier: Apache-2.0 */
/* A worker never waits here for another one: what it brings is noted, journalled and answered, and
 * only its pull of the version that the round makes waits (pull_wait.h). So a worker that dies
 * takes nothing along, and one that comes back finds what it had brought.
 *
 * What can be refused is refused when a contribution comes: its record is in the journal when its
 * client is answered, and from then on the round can only go well. A round that cannot end for now,
 * because the journal's queue or the heap is full, stays open with all that it has, and ends when
 * somebody looks again. */
#include "server/core/requests/contribute.h"

#include "base/assert.h"
#include "checkpoint/journal_held.h"
#include "optimizer/optimizer.h"
#include "server/core/requests/contribute_rows.h"
#include "server/core/requests/pull_wait.h"
#include "server/core/rounds/combine.h"
#include "server/core/update/gradient_check.h"
#include "server/core/update/spread.h"
#include "server/core/update/update.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* About as long as a full queue takes to have room again. */
enum { RETRY_MS = 50 };

static enum ps_status check_request(const struct ps_parameter_spec *spec,
                                    const struct ps_push_request *request, struct ps_error *error);
static enum ps_status check_gradient(const struct ps_parameter_spec *spec,
                                     struct ps_gradient gradient, struct ps_error *error);
static struct ps_blocks *decode(const struct ps_parameter *parameter, struct ps_gradient gradient);
static enum ps_status draft_held(struct ps_service *service, struct ps_parameter *parameter,
                                 const struct ps_push_request *request, uint32_t fingerprint,
                                 struct ps_journal_place *place, struct ps_error *error);
static enum ps_status contribute_locked(struct ps_service *service, struct ps_parameter *parameter,
                                        const struct ps_push_request *request,
                                        struct ps_contribution *one, struct ps_journal_place *place,
                                        struct ps_push_reply *reply,
                                        struct ps_round_effects *effects, struct ps_error *error);
static enum ps_status refuse(const struct ps_parameter *parameter,
                             const struct ps_push_request *request, uint64_t version,
                             enum ps_round_verdict verdict, struct ps_error *error);
static uint64_t end_if_over(struct ps_service *service, struct ps_parameter *parameter,
                            struct ps_round_effects *effects);
static enum ps_status end_round(struct ps_service *service, struct ps_parameter *parameter,
                                enum ps_round_end end, struct ps_round_effects *effects);
static enum ps_status push_blocks(struct ps_parameter *parameter, struct ps_journal_place *place,
                                  uint64_t *version, struct ps_error *error);
static struct ps_blocks *combine(const struct ps_parameter *parameter);

/* Decoded and drafted before the lock: the contributions of many workers come at one time, and only
 * to be counted they wait for each other. */
enum ps_status ps_contribute(struct ps_service *service, struct ps_parameter *parameter,
                             const struct ps_push_request *request, uint32_t fingerprint,
                             struct ps_push_reply *reply, struct ps_round_effects *effects,
                             struct ps_error *error)
{
    const struct ps_gradient gradient = {
        .content = request->content, .encoding = request->encoding, .is_plain = request->is_plain};
    struct ps_journal_place place;
    struct ps_contribution one;
    PS_ASSERT(parameter->rounds != NULL);
    PS_TRY(check_request(parameter->spec, request, error));
    PS_TRY(ps_contribution_make(parameter, gradient, request->weight, &one, error));
    enum ps_status status = draft_held(service, parameter, request, fingerprint, &place, error);
    if (status == PS_OK) {
        ps_mutex_lock(&parameter->rounds->lock);
        status =
            contribute_locked(service, parameter, request, &one, &place, reply, effects, error);
        ps_mutex_unlock(&parameter->rounds->lock);
        ps_counter_add(service->metrics.push_copied_bytes, place.copied_bytes);
        ps_journal_place_release(&place);
    }
    /* Zeros when it is held. */
    ps_contribution_release(&one);
    return status;
}

/* Before the gradient is looked at: these cost nothing. Without a request id a contribution whose
 * answer was lost could not be told from a second one. Whoever trains without rounds is told what
 * to do: such a trainer may have been started before the parameter was configured. */
static enum ps_status check_request(const struct ps_parameter_spec *spec,
                                    const struct ps_push_request *request, struct ps_error *error)
{
    const char *name = (const char *)spec->name.data;
    uint32_t workers = spec->settings.rounds.workers;
    PS_ASSERT(workers > 0);
    if (request->worker == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "parameter: %s is trained in rounds: say worker (1 + its rank)", name);
    if (request->worker > workers)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "parameter: %s is trained in rounds of %u workers, worker is %u (1 + its "
                       "rank)",
                       name, (unsigned)workers, (unsigned)request->worker);
    if (!request->request.present)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "parameter: %s is trained in rounds: a contribution needs a request id",
                       name);
    /* The wire lets no other through; who calls from within might. */
    if (!isfinite(request->weight) || request->weight < 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "parameter: %s, a weight of %g", name,
                       (double)request->weight);
    return PS_OK;
}

/* Live and out of a record or a checkpoint alike. */
enum ps_status ps_contribution_make(const struct ps_parameter *parameter,
                                    struct ps_gradient gradient, float weight,
                                    struct ps_contribution *one, struct ps_error *error)
{
    *one = (struct ps_contribution){.weight = weight > 0 ? weight : 1};
    if (parameter->rows != NULL)
        return ps_contribute_rows_read(parameter, gradient.content, &one->rows, error);
    PS_TRY(check_gradient(parameter->spec, gradient, error));
    one->values = decode(parameter, gradient);
    if (one->values == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a contribution to a round");
    return PS_OK;
}

/* In the words in which a push would be refused, which the optimizer has. The step that is prepared
 * is thrown away: which one it will be is known when the round ends, and nothing that may refuse a
 * gradient depends on it. A gradient that settings skip is taken here; it makes the sum not finite,
 * and the step of its round is skipped. */
static enum ps_status check_gradient(const struct ps_parameter_spec *spec,
                                     struct ps_gradient gradient, struct ps_error *error)
{
    struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    PS_TRY(ps_gradient_check(spec, gradient, NULL, error));
    ps_gradient_scan(spec, gradient, &scan);
    return ps_optimizer_prepare(&spec->settings, spec->dtype, 1, spec->id, &scan, &step, error);
}

/* In the parameter's type: what is added up was decoded once, and a checkpoint needs no encoding.
 * The copy also lets the message go, which may hold more than this gradient. */
static struct ps_blocks *decode(const struct ps_parameter *parameter, struct ps_gradient gradient)
{
    const struct ps_parameter_spec *spec = parameter->spec;
    size_t element_size = ps_dtype_size(spec->dtype);
    struct ps_gradient_runs runs;
    struct ps_blocks *values = ps_blocks_create(parameter->spec);
    if (values == NULL)
        return NULL;
    ps_gradient_runs_init(&runs, gradient, spec->dtype, spec->count);
    for (size_t i = 0; i < values->block_count; i++) {
        uint8_t *to = ps_blocks_write(values, i, 0);
        size_t count = values->pieces[i].size / element_size;
        for (size_t done = 0; done < count;) {
            struct ps_element_run run = ps_gradient_runs_next(&runs, count - done);
            PS_ASSERT(run.count > 0 && run.count <= count - done);
            memcpy(to + done * element_size, run.elements, run.count * element_size);
            done += run.count;
        }
    }
    return values;
}

/* Worker and weight stand in front of the gradient, which stays where it was received until it is
 * on the disk. The gradient as it came: the journal grows by what the network brought, and not by
 * what that stands for. */
static enum ps_status draft_held(struct ps_service *service, struct ps_parameter *parameter,
                                 const struct ps_push_request *request, uint32_t fingerprint,
                                 struct ps_journal_place *place, struct ps_error *error)
{
    uint8_t bytes[PS_HELD_HEAD_BYTES];
    PS_ASSERT(request->worker > 0 && request->request.present);
    const struct ps_held_head head = {request->worker - 1, request->weight};
    ps_held_head_write(&head, bytes);
    const struct ps_journal_draft draft = {.type = PS_RECORD_HELD,
                                           .name = parameter->spec->name,
                                           .dtype = request->dtype,
                                           .encoding = request->encoding,
                                           .request = request->request,
                                           .head = {bytes, sizeof bytes},
                                           .content = request->content,
                                           .hold = request->hold};
    return ps_journal_place_draft(place, &service->queue, &draft, fingerprint, service->epoch,
                                  error);
}

/* With the lock of the contributions, under which all records of this parameter are made: their
 * positions are the order in which they count. A round that is over ends before the newcomer is
 * judged, which may be late for it. */
static enum ps_status contribute_locked(struct ps_service *service, struct ps_parameter *parameter,
                                        const struct ps_push_request *request,
                                        struct ps_contribution *one, struct ps_journal_place *place,
                                        struct ps_push_reply *reply,
                                        struct ps_round_effects *effects, struct ps_error *error)
{
    struct ps_contributions *rounds = parameter->rounds;
    const struct ps_round_settings *settings = &parameter->spec->settings.rounds;
    const struct ps_core_metrics *metrics = &service->metrics;
    uint32_t worker = request->worker - 1;
    uint64_t version = end_if_over(service, parameter, effects);
    enum ps_round_verdict verdict =
        ps_round_judge(&rounds->round, settings, version, worker, request->round);
    bool is_late = verdict == PS_ROUND_IS_LATE || verdict == PS_ROUND_COUNTS_LATE;
    if (verdict == PS_ROUND_IS_AHEAD || verdict == PS_ROUND_IS_SECOND)
        return refuse(parameter, request, version, verdict, error);
    if (verdict == PS_ROUND_IS_LATE) {
        ps_counter_add(metrics->round_dropped, 1);
        *reply = (struct ps_push_reply){.version = version, .late = true};
        return PS_OK;
    }
    /* Whatever of a table's limits would stand in the way of the round stands in the way here. */
    if (one->rows != NULL)
        PS_TRY(ps_contribute_rows_admit(parameter, one->rows, error));
    /* From here on nothing fails: the record is in the journal's order, and the round has it. */
    PS_TRY(ps_journal_queue_put(place, version, error));
    /* A position that makes no version: see ps_service_check. */
    service->position_at_begin++;
    effects->noted = place->position;
    effects->wakes_writer |= place->is_first;
    /* From the first on time counts: whoever waits is to know. */
    effects->tells |= rounds->round.counted_count == 0 && settings->grace_ms != 0;
    ps_contributions_hold(rounds, worker, one, ps_now_ms(service->clock));
    ps_counter_add(metrics->round_contributions, 1);
    ps_counter_add(metrics->round_late, is_late);
    ps_gauge_add(metrics->round_held_bytes, (double)ps_contribution_bytes(one));
    /* The round's from here on. */
    *one = (struct ps_contribution){0};
    *reply = (struct ps_push_reply){
        .version = version + 1, .position = place->position, .held = true, .late = is_late};
    if (end_if_over(service, parameter, effects) == version)
        return PS_OK;
    /* Its round has ended with it: the answer waits for the record of that, so that a worker which
     * has it may train on from the version at once. */
    reply->held = false;
    reply->position = rounds->position;
    return PS_OK;
}

/* Both say which round is open: that is what a worker has to know to go on. A second contribution
 * is not taken for the first, since it may have another gradient; a repeat of the first under its
 * own id never comes here. */
static enum ps_status refuse(const struct ps_parameter *parameter,
                             const struct ps_push_request *request, uint64_t version,
                             enum ps_round_verdict verdict, struct ps_error *error)
{
    PS_ASSERT(verdict == PS_ROUND_IS_SECOND || verdict == PS_ROUND_IS_AHEAD);
    const char *name = (const char *)parameter->spec->name.data;
    if (verdict == PS_ROUND_IS_SECOND)
        return ps_fail(error, PS_ERR_EXISTS,
                       "parameter: %s, worker %u has contributed to round %" PRIu64 " already",
                       name, (unsigned)request->worker, version + 1);
    return ps_fail(error, PS_ERR_MISMATCH,
                   "parameter: %s, round %" PRIu64 " is open, the contribution is for %" PRIu64,
                   name, version + 1, request->round);
}

/* Returns the version that the parameter is at then. With the lock of the contributions, under
 * which alone versions of this parameter are made. */
static uint64_t end_if_over(struct ps_service *service, struct ps_parameter *parameter,
                            struct ps_round_effects *effects)
{
    struct ps_contributions *rounds = parameter->rounds;
    enum ps_round_end end = ps_round_look(&rounds->round, &parameter->spec->settings.rounds,
                                          ps_now_ms(service->clock), &effects->again_ms);
    /* Whatever stands in the way is for a while: the round stays as it is until the next look. */
    if (end != PS_ROUND_GOES_ON && end_round(service, parameter, end, effects) != PS_OK)
        effects->again_ms = RETRY_MS;
    return ps_parameter_version(parameter);
}

/* The record has its place when nothing can fail any more, as that of a push: under the parameter's
 * lock, before the arithmetic. Behind the records of its contributions it stands in any case, since
 * those were given their places under the lock that is held here.
 *
 * Who counted and who is evicted is decided before and written down: replay has no clock by which
 * it could decide the same. A failure leaves the round as it was, and what was decided is
 * forgotten: the next look may come to another end, since somebody contributed meanwhile. */
static enum ps_status end_round(struct ps_service *service, struct ps_parameter *parameter,
                                enum ps_round_end end, struct ps_round_effects *effects)
{
    struct ps_contributions *rounds = parameter->rounds;
    const struct ps_core_metrics *metrics = &service->metrics;
    uint8_t bytes[PS_ROUND_RECORD_BYTES_MAX];
    uint8_t evicted[sizeof rounds->round.evicted];
    PS_ASSERT(end != PS_ROUND_GOES_ON);
    ps_round_evicted_by(&rounds->round, end, evicted);
    const struct ps_round_record record = {rounds->round.workers, rounds->round.counted, evicted};
    const struct ps_bytes content = {bytes, ps_round_record_write(&record, bytes)};
    const struct ps_journal_draft draft = {
        .type = PS_RECORD_ROUND, .name = parameter->spec->name, .content = ps_view_of(&content)};
    struct ps_journal_place place;
    uint64_t first_ms = rounds->round.first_ms;
    uint64_t freed = ps_contributions_held_bytes(rounds);
    uint64_t version = 0;
    /* While it is still the open round. */
    char missing[64];
    ps_round_name_missing(&rounds->round, missing, sizeof missing);
    PS_TRY(ps_journal_place_draft(&place, &service->queue, &draft, 0, service->epoch, NULL));
    enum ps_status status = ps_round_make_version(parameter, evicted, &place, &version, NULL);
    ps_journal_place_release(&place);
    if (status != PS_OK)
        return status;
    PS_ASSERT(version > 0 && place.position > rounds->position);
    rounds->position = place.position;
    effects->wakes_writer |= place.is_first;
    effects->tells = true;
    effects->again_ms = 0;
    /* Once for each worker that is lost: from then on nobody waits for it. */
    if (end == PS_ROUND_IS_OVERDUE)
        PS_LOG(service->log, PS_LOG_WARN, "rounds", "workers are not waited for any more",
               PS_FIELD_TEXT("parameter", (const char *)parameter->spec->name.data),
               PS_FIELD_UINT("round", version), PS_FIELD_TEXT("missing", missing));
    ps_counter_add(end == PS_ROUND_IS_OVERDUE ? metrics->rounds_by_grace : metrics->rounds_complete,
                   1);
    ps_gauge_add(metrics->round_held_bytes, -(double)freed);
    ps_gauge_set(metrics->position, (double)place.position);
    ps_histogram_observe(metrics->round_seconds,
                         (double)(ps_now_ms(service->clock) - first_ms) / 1e3);
    return PS_OK;
}

/* For a live round and for one that is replayed. Where the sum of finite gradients is not finite
 * the step is skipped: it is nobody's fault, and no contribution can be refused any more. */
enum ps_status ps_round_make_version(struct ps_parameter *parameter, const uint8_t *evicted,
                                     struct ps_journal_place *place, uint64_t *version,
                                     struct ps_error *error)
{
    PS_ASSERT(parameter->rounds->round.counted_count > 0);
    enum ps_status status = parameter->rows != NULL
                                ? ps_contribute_rows_push(parameter, place, version, error)
                                : push_blocks(parameter, place, version, error);
    if (status == PS_OK)
        ps_contributions_next(parameter->rounds, evicted);
    return status;
}

/* The sum is a gradient like any other, but that nobody is told of a refusal. */
static enum ps_status push_blocks(struct ps_parameter *parameter, struct ps_journal_place *place,
                                  uint64_t *version, struct ps_error *error)
{
    struct ps_blocks *sum = combine(parameter);
    if (sum == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to combine contributions");
    const struct ps_gradient gradient = {.content = ps_blocks_view(sum), .is_combined = true};
    enum ps_status status = ps_parameter_push(parameter, gradient, place, version, error);
    ps_blocks_release(sum);
    return status;
}

/* Blocks of the sum, to be written by several threads. */
struct combining {
    struct ps_spread spread;
    const struct ps_parameter *parameter;
    struct ps_blocks *sum;
};

/* The threads of a crew take blocks until there is none left. */
static void combine_parts(void *argument)
{
    struct combining *work = argument;
    PS_ASSERT(work->sum->block_count > 0);
    const struct ps_parameter_spec *spec = work->parameter->spec;
    struct ps_elements part;
    while (ps_spread_next(&work->spread, &part)) {
        size_t i = (size_t)(part.first * ps_dtype_size(spec->dtype) / PS_BLOCK_BYTES);
        ps_combine_block(work->parameter->rounds, spec, i, ps_blocks_part(work->sum, i));
    }
}

/* A part is a block. Who adds which makes no difference to the bits. The sum has blocks of its own:
 * a round that cannot be ended for now still has its contributions as they came. */
static struct ps_blocks *combine(const struct ps_parameter *parameter)
{
    struct combining work = {.parameter = parameter, .sum = ps_blocks_create(parameter->spec)};
    if (work.sum == NULL)
        return NULL;
    for (size_t i = 0; i < work.sum->block_count; i++)
        (void)ps_blocks_write(work.sum, i, 0);
    ps_spread_init(&work.spread, parameter->spec,
                   PS_BLOCK_BYTES / ps_dtype_size(parameter->spec->dtype));
    ps_spread_run(parameter->spec, combine_parts, &work);
    return work.sum;
}

/* A text for everybody who looks: the names are few, and looks are rare. What is told of the round
 * is of the moment behind the end of the one before, if that has ended here. */
void ps_rounds_look(struct ps_service *service, struct ps_parameter *parameter,
                    struct ps_round_view *view, struct ps_round_effects *effects)
{
    struct ps_contributions *rounds = parameter->rounds;
    PS_ASSERT(rounds != NULL);
    ps_mutex_lock(&rounds->lock);
    *view = (struct ps_round_view){
        .version = end_if_over(service, parameter, effects),
        .position = rounds->position,
        .there = rounds->round.counted_count,
        .needed = ps_round_needed(&rounds->round, &parameter->spec->settings.rounds)};
    ps_round_name_missing(&rounds->round, view->missing, sizeof view->missing);
    ps_mutex_unlock(&rounds->lock);
}

/* The writer first: whoever waits for the version that was made waits for its record as well. */
void ps_round_effects_do(struct ps_service *service, struct ps_bytes name,
                         const struct ps_round_effects *effects)
{
    if (effects->wakes_writer)
        ps_service_tell_journal_wanted(service);
    if (effects->tells)
        ps_pull_wait_tell(service, name);
}
