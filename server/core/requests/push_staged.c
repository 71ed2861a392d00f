/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of one push come in any order, from one client or by several lanes at once. They wait in
 * the staging, or are applied as they come to what nobody sees yet; with the last one they are one
 * push like any other. */
#include "server/core/requests/push_staged.h"

#include "base/assert.h"
#include "optimizer/encoded.h"
#include "server/core/requests/table_change.h"
#include "server/core/sessions/fingerprint.h"

static void offer_early(struct ps_service *service, struct ps_parameter *parameter,
                        struct ps_part *part);
static void give_early_values(struct ps_service *service, const struct ps_added *added,
                              struct ps_elements range, struct ps_push_outcome *outcome);
static enum ps_status push_all(struct ps_service *service, struct ps_parameter *parameter,
                               const struct ps_push_request *last, const struct ps_added *added,
                               struct ps_push_outcome *outcome, struct ps_error *error);

/* Values that a range makes are given out only while they may still become a version, or as part of
 * the version that they became: what an overtaken update has made is nobody's. */
enum ps_status ps_push_staged(struct ps_service *service, struct ps_parameter *parameter,
                              const struct ps_push_request *request,
                              struct ps_push_outcome *outcome, struct ps_error *error)
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
    ps_push_count_early(service, added.early_failed);
    if (status == PS_OK && added.is_repeat)
        outcome->reply = ps_push_repeated(parameter, added.answer);
    else if (status == PS_OK && added.staged != NULL)
        status = push_all(service, parameter, request, &added, outcome, error);
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

/* The caller was promised nothing: who gets no values here asks for them as any reader does. */
static void give_early_values(struct ps_service *service, const struct ps_added *added,
                              struct ps_elements range, struct ps_push_outcome *outcome)
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
static enum ps_status push_all(struct ps_service *service, struct ps_parameter *parameter,
                               const struct ps_push_request *last, const struct ps_added *added,
                               struct ps_push_outcome *outcome, struct ps_error *error)
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
    enum ps_status status = ps_push_once(service, parameter, &whole, early, outcome, error);
    /* Behind the session's commit, so that whoever finds no entry finds the answer. */
    ps_staging_end(&service->staging, added->staged, status);
    if (early == NULL || status != PS_ERR_CONFLICT)
        return status;
    outcome->reply.staged = true;
    return PS_OK;
}
