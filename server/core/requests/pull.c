/* SPDX-License-Identifier: Apache-2.0 */
/* GetParam: may it be answered now, and of which version; a reference to that, which pull_reply.h
 * makes the answer of. Everything that needs the shard to stay as it is happens here, and nothing
 * that takes long. */
#include "server/core/requests/service.h"

#include "base/assert.h"
#include "server/core/requests/clock_calls.h"
#include "server/core/requests/pull_reply.h"
#include "server/core/requests/pull_to_room.h"
#include "server/core/requests/pull_wait.h"
#include "server/core/requests/table_change.h"
#include "server/core/requests/table_delta.h"
#include "server/core/update/parameter_rows.h"
#include "server/core/values/delta_pull.h"

#include <inttypes.h>

static enum ps_status find_ready(struct ps_service *service, const struct ps_pull_request *request,
                                 struct ps_parameter **parameter, struct ps_error *error);
static enum ps_status wanted_version(const struct ps_pull_request *request,
                                     const struct ps_chain *chain, uint64_t *wanted,
                                     struct ps_error *error);
static enum ps_status begun_before(const struct ps_pull_request *request, struct ps_error *error);
static enum ps_status hold_version(struct ps_service *service,
                                   const struct ps_pull_request *request,
                                   struct ps_parameter *parameter, uint64_t wanted,
                                   struct ps_pull_reading *reading, struct ps_error *error);

enum ps_status ps_service_pull(struct ps_service *service, const struct ps_pull_request *request,
                               struct ps_pull *pull, struct ps_error *error)
{
    struct ps_pull_wait unused;
    return ps_service_pull_or_wait(service, request, pull, &unused, error);
}

/* The cut is held for as long as it takes to get a reference: which parameter, which version, in
 * which life of the shard. What takes long comes after it: waiting for a device, encoding, digests
 * of blocks. The reference keeps the version whole whatever pushes do meanwhile. */
enum ps_status ps_service_pull_or_wait(struct ps_service *service,
                                       const struct ps_pull_request *request, struct ps_pull *pull,
                                       struct ps_pull_wait *wait, struct ps_error *error)
{
    struct ps_pull_reading reading = {0};
    struct ps_round_effects effects = {0};
    *wait = (struct ps_pull_wait){.topic = PS_TOPIC_LIFE};
    uint64_t wanted = 0;
    struct ps_parameter *parameter = NULL;
    ps_rwlock_read(&service->cut);
    struct ps_chain chain = {0};
    enum ps_status status = find_ready(service, request, &parameter, error);
    if (status == PS_OK)
        chain = ps_service_chain_of(service, parameter->spec);
    if (status == PS_OK)
        status = wanted_version(request, &chain, &wanted, error);
    /* Before the values are brought from a device: a pull that waits is asked many times. */
    if (status == PS_OK)
        status = ps_pull_wait_check(service, parameter, request, wait, &effects, error);
    /* A pull that goes on with a version was let through by its clocks when it began. */
    if (status == PS_OK && request->version == 0)
        status = ps_clock_pull_check(service, request, wait, error);
    if (status == PS_OK)
        status = hold_version(service, request, parameter, wanted, &reading, error);
    if (status == PS_OK)
        reading.told = ps_pull_wait_check_held(service, parameter, request, wait, error);
    ps_rwlock_unlock(&service->cut);
    ps_round_effects_do(service, request->name, &effects);
    ps_clock_pull_tell(service, request, wait);
    /* The cut is let go of before the wait: a device may hang, and a reset must be able to take the
     * cut alone meanwhile. */
    if (status == PS_OK)
        status = ps_device_store_wait(service->device_store, reading.ready, error);
    status = status == PS_OK ? reading.told : status;
    if (status != PS_OK) {
        ps_pull_reading_release(&reading);
        return status;
    }
    PS_TRY(ps_pull_reply_make(service, request, &chain, &reading, pull, error));
    /* Counted here and not at the beginning: a pull that parks asks again many times. */
    atomic_fetch_add(&service->pull_count, 1);
    ps_counter_add(service->metrics.pulls, 1);
    size_t there = pull->reply.shared_size; /* or here */
    ps_counter_add(service->metrics.pull_bytes, there + pull->reply.content.size);
    return PS_OK;
}

/* With the cut held. Admission is asked first: a server that cannot prove its lease says nothing
 * about its parameters, not even that one is missing. */
static enum ps_status find_ready(struct ps_service *service, const struct ps_pull_request *request,
                                 struct ps_parameter **parameter, struct ps_error *error)
{
    struct ps_bytes name = request->name;
    PS_TRY(ps_service_admit_for(service, request->shard, error));
    if (ps_service_phase(service) != PS_PHASE_READY)
        return ps_fail(error, PS_ERR_NOT_READY, "pserver not fully initialized");
    *parameter = ps_parameter_table_find(&service->table, name);
    if (*parameter == NULL)
        return ps_fail(error, PS_ERR_NOT_FOUND, "parameter: %.*s does not exist",
                       ps_service_name_width(name), (const char *)name.data);
    PS_ASSERT((*parameter)->spec != NULL);
    return ps_service_check_pull((*parameter)->spec, request, error);
}

/* 1 + the version that the reader has begun with; 0: the reader begins, with the present one. A
 * reader that has begun in another life of the shard must begin again: the same number may stand
 * for other values here. */
static enum ps_status wanted_version(const struct ps_pull_request *request,
                                     const struct ps_chain *chain, uint64_t *wanted,
                                     struct ps_error *error)
{
    const struct ps_held *held = &request->held;
    PS_ASSERT(chain->life != 0);
    bool other_life = request->version != 0 && request->life != 0 && request->life != chain->life;
    *wanted = request->version;
    if (!held->present)
        /* A client that does not name a life (0) is taken at its word: the version alone decides
         * for such a client. */
        return other_life ? begun_before(request, error) : PS_OK;
    if (request->version != 0 || request->range.first != 0 || request->range.count != 0)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "a delta pull is of the present version, of the whole parameter");
    if (held->target == 0 && held->block != 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a delta pull that goes on, but not of what");
    *wanted = held->target;
    if (held->target != 0 && !ps_chain_is_same(&held->chain, chain))
        return begun_before(request, error);
    return PS_OK;
}

/* A conflict, and not "not found": the parameter is there, only not in the reader's version. */
static enum ps_status begun_before(const struct ps_pull_request *request, struct ps_error *error)
{
    PS_ASSERT(request->version != 0 || request->held.target != 0);
    return ps_fail(error, PS_ERR_CONFLICT,
                   "parameter: %.*s was begun in another life of the shard: begin again",
                   ps_service_name_width(request->name), (const char *)request->name.data);
}

/* The version that is wanted: one that is held, or the present one. What is held is looked for
 * first, since bringing the present one from a device takes time. The present one may be what was
 * wanted, though it is held no more: nothing has come since. */
static enum ps_status hold_version(struct ps_service *service,
                                   const struct ps_pull_request *request,
                                   struct ps_parameter *parameter, uint64_t wanted,
                                   struct ps_pull_reading *reading, struct ps_error *error)
{
    struct ps_parameter_spec *spec = parameter->spec;
    /* Gathered with the cut held, as a push is applied: the table cannot go meanwhile. */
    if (parameter->rows != NULL && request->held.present)
        return ps_table_delta_make(service, request, parameter, &reading->rows, &reading->version,
                                   &reading->delta, error);
    if (parameter->rows != NULL)
        return ps_parameter_rows_get(parameter, request->keys, &reading->rows, &reading->version,
                                     error);
    if (wanted != 0)
        reading->values = ps_version_holds_find(&service->version_holds, spec, wanted - 1,
                                                ps_now_ms(service->clock));
    /* A version gets into the holds only behind the wait for its device, so a version that is found
     * there needs no wait of its own: `ready` stays 0. */
    if (reading->values != NULL) {
        reading->version = wanted - 1;
        return PS_OK;
    }
    PS_TRY(ps_pull_to_room(parameter, request, wanted, &reading->copied, &reading->version,
                           &reading->ready, error));
    if (reading->copied != NULL)
        return PS_OK;
    PS_TRY(ps_parameter_hold_values(parameter, &reading->values, &reading->version, &reading->ready,
                                    error));
    PS_ASSERT(reading->values != NULL && ps_parameter_spec_is_same(reading->values->spec, spec));
    if (wanted == 0 || reading->version == wanted - 1)
        return PS_OK;
    return ps_fail(error, PS_ERR_CONFLICT,
                   "parameter: %s has no version %" PRIu64 " any more: begin again",
                   (const char *)spec->name.data, wanted - 1);
}
