/* SPDX-License-Identifier: Apache-2.0 */
/* InitParam: checks everything, finds a place on the device, reserves the bytes on the host, builds
 * the parameter without any lock, and puts it into the table if initialisation is still going on.
 */
#include "server/core/requests/service.h"

#include "base/assert.h"
#include "checkpoint/header_writer.h"
#include "server/core/requests/service_state.h"
#include "server/core/sessions/fingerprint.h"
#include "server/core/update/parameter_settings.h"

#include <inttypes.h>

/* What the checks have found out about a request. */
struct wish {
    const struct ps_init_request *request;
    uint64_t count;      /* elements */
    uint64_t bytes;      /* of the host's memory that were reserved */
    uint64_t generation; /* of the shard, when the request came */
    struct ps_optimizer_settings settings;
};

static enum ps_status check_meant(struct ps_service *service, const struct ps_init_request *request,
                                  struct ps_error *error);
static enum ps_status init_part(struct ps_service *service, const struct ps_init_request *request,
                                struct ps_init_reply *reply, struct ps_error *error);
static enum ps_status check_total(struct ps_service *service, const struct ps_init_request *request,
                                  struct ps_error *error);
static uint64_t bytes_replaced(const struct ps_service *service, struct ps_bytes name);
static enum ps_status check_open(const struct ps_service *service, struct ps_error *error);
static enum ps_status check_request(const struct ps_service *service,
                                    const struct ps_init_request *request, struct wish *wish,
                                    struct ps_error *error);
static enum ps_status build(struct ps_service *service, struct wish *wish,
                            struct ps_parameter **parameter, struct ps_error *error);
static enum ps_status measure_header(const struct ps_service *service,
                                     struct ps_parameter_spec *spec, struct ps_error *error);
static enum ps_status build_at(struct ps_service *service, struct wish *wish,
                               struct ps_parameter_spec *spec, struct ps_resident *resident,
                               const struct ps_error *spilled, struct ps_parameter **parameter,
                               struct ps_error *error);
static enum ps_status reserve(struct ps_service *service, const struct wish *wish,
                              const struct ps_error *spilled, struct ps_error *error);
static enum ps_status look(struct ps_service *service, const struct ps_init_request *request,
                           struct ps_view content, bool *is_repeat, struct ps_error *error);
static void unreserve(struct ps_service *service, uint64_t bytes);
static enum ps_status answer_repeat(struct ps_service *service, struct ps_init_reply *reply,
                                    struct ps_error *error);
static uint64_t generation_of(struct ps_service *service);
static enum ps_status enter(struct ps_service *service, const struct wish *wish,
                            struct ps_parameter **parameter, struct ps_init_reply *reply,
                            struct ps_error *error);
static enum ps_status enter_once(struct ps_service *service, const struct ps_init_request *request,
                                 struct ps_parameter **parameter, struct ps_error *error);
static enum ps_status insert(struct ps_service *service, struct ps_parameter **parameter,
                             struct ps_error *error);
static enum ps_status check_header(const struct ps_service *service,
                                   const struct ps_parameter_spec *spec, struct ps_error *error);

/* The answer to a repeat comes before every check, as it came then: what was taken stays taken,
 * though it could not be taken now. Checks come before the build, which needs memory; the build
 * holds no lock, since it copies the content; and what may have changed meanwhile is asked once
 * more when the parameter enters. */
enum ps_status ps_service_init(struct ps_service *service, const struct ps_init_request *request,
                               struct ps_init_reply *reply, struct ps_error *error)
{
    /* The generation is read before every check, so that `enter` sees a loss at whatever moment
     * behind this line the shard is lost. */
    struct wish wish = {.generation = generation_of(service)};
    bool is_repeat = false;
    PS_TRY(check_meant(service, request, error));
    if (ps_staging_is_part(request->range, request->total))
        return init_part(service, request, reply, error);
    PS_TRY(look(service, request, request->content, &is_repeat, error));
    if (is_repeat)
        return answer_repeat(service, reply, error);
    if (request->request.present)
        PS_TRY(ps_staging_check_whole(&service->staging, &request->request, PS_METHOD_INIT,
                                      request->name, error));
    PS_TRY(check_open(service, error));
    PS_TRY(check_request(service, request, &wish, error));
    struct ps_parameter *parameter = NULL;
    PS_TRY(build(service, &wish, &parameter, error));

    struct ps_init_reply taken;
    enum ps_status status = enter(service, &wish, &parameter, &taken, error);
    /* Here `parameter` is the replaced one, or the new one that did not get in. Many blocks take
     * long to free, and a device may have to be waited for: the cut is not held. */
    ps_parameter_destroy(parameter);
    if (status == PS_OK && reply != NULL)
        *reply = taken;
    return status;
}

/* Was the request applied before? Of a range the content of the whole is not known: nothing. */
static enum ps_status look(struct ps_service *service, const struct ps_init_request *request,
                           struct ps_view content, bool *is_repeat, struct ps_error *error)
{
    if (!request->request.present)
        return PS_OK;
    return ps_sessions_look(&service->sessions, &request->request,
                            ps_fingerprint_of_init(request, content), ps_service_unix_us(service),
                            is_repeat, NULL, error);
}

/* Puts a range to the others of its request; the last brings all of them, which go on as one. What
 * can be wrong with the whole is checked with each range: staged bytes are memory. */
static enum ps_status init_part(struct ps_service *service, const struct ps_init_request *request,
                                struct ps_init_reply *reply, struct ps_error *error)
{
    struct ps_init_request whole = *request;
    const struct ps_part part = {.method = PS_METHOD_INIT,
                                 .id = &request->request,
                                 .name = request->name,
                                 .config = request->config,
                                 .dtype = request->dtype,
                                 .total = request->total,
                                 .shape = request->shape,
                                 .range = request->range,
                                 .content = request->content,
                                 .hold = request->hold};
    struct ps_added added;
    bool is_repeat = false;
    /* The whole goes on as a message in one piece, under the fingerprint that such a message has: a
     * client may repeat the request either way. */
    whole.range = (struct ps_elements){0};
    PS_TRY(look(service, request, (struct ps_view){0}, &is_repeat, error));
    if (is_repeat)
        return answer_repeat(service, reply, error);
    PS_TRY(check_open(service, error));
    PS_TRY(ps_service_check_name(request->name, error));
    PS_TRY(check_total(service, request, error));
    PS_TRY(ps_shape_check(&request->shape, request->name, request->total, error));
    enum ps_status status =
        ps_staging_add(&service->staging, &part, ps_now_ms(service->clock), &added, error);
    PS_ASSERT(status != PS_OK || added.staged == NULL || added.content.size > 0);
    if (status == PS_OK && added.staged != NULL) {
        whole.content = added.content;
        whole.hold = added.hold;
        status = ps_service_init(service, &whole, reply, error);
        /* The staging reads from the status whether the ranges are of use to a repetition. */
        ps_staging_end(&service->staging, added.staged, status);
    } else if (status == PS_OK) {
        status = answer_repeat(service, reply, error);
        if (reply != NULL)
            reply->staged = true;
    }
    ps_service_count_ranges(service);
    return status;
}

/* What is staged counts nowhere yet; what could not become a parameter is not let in. The product
 * of a hostile total and an element's size is not computed before it is known to fit. */
static enum ps_status check_total(struct ps_service *service, const struct ps_init_request *request,
                                  struct ps_error *error)
{
    if ((uint32_t)request->dtype >= PS_DTYPE_COUNT)
        return ps_fail(error, PS_ERR_BAD_INPUT, "there is no element type %d", (int)request->dtype);
    if (request->total > service->bytes_max / ps_dtype_size(request->dtype))
        return ps_fail(error, PS_ERR_BUSY,
                       "memory limit: %" PRIu64 " elements of %s are more than %" PRIu64 " bytes",
                       request->total, ps_dtype_name(request->dtype), service->bytes_max);
    uint64_t bytes = request->total * ps_dtype_size(request->dtype);
    ps_rwlock_read(&service->cut);
    PS_ASSERT(service->bytes_used >= service->table.host_bytes);
    /* The parameter that would be replaced is counted as gone, as `reserve` will count it later:
     * the two limits must not contradict each other. */
    uint64_t used = service->bytes_used - bytes_replaced(service, request->name);
    ps_rwlock_unlock(&service->cut);
    if (used <= service->bytes_max && bytes <= service->bytes_max - used)
        return PS_OK;
    return ps_fail(error, PS_ERR_BUSY,
                   "memory limit: %" PRIu64 " bytes needed, %" PRIu64 " used, limit %" PRIu64,
                   bytes, used, service->bytes_max);
}

/* A repeat of what was taken: by the present epoch, since a server that lost it remembers none. */
static enum ps_status answer_repeat(struct ps_service *service, struct ps_init_reply *reply,
                                    struct ps_error *error)
{
    ps_rwlock_read(&service->cut);
    enum ps_status status = ps_service_admit(service, error);
    /* Only an admitted request hears the epoch: a client takes an epoch for the promise that its
     * parameters are here. */
    if (status == PS_OK && reply != NULL)
        *reply = (struct ps_init_reply){.epoch = service->epoch};
    ps_rwlock_unlock(&service->cut);
    return status;
}

/* Rises with every loss of the shard, also when the same server wins it back under another
 * epoch. */
static uint64_t generation_of(struct ps_service *service)
{
    struct ps_journal_state state;
    ps_journal_queue_look(&service->queue, &state);
    PS_ASSERT(state.generation > 0);
    return state.generation;
}

/* Before all else: "exists" of another shard would be taken for this one's. That the shard is lost
 * for another behind this check, `enter` sees by its generation. */
static enum ps_status check_meant(struct ps_service *service, const struct ps_init_request *request,
                                  struct ps_error *error)
{
    ps_rwlock_read(&service->cut);
    enum ps_status status = ps_service_admit_for(service, request->shard, error);
    ps_rwlock_unlock(&service->cut);
    return status;
}

/* Without the cut: asked once before the work, and once more with the cut held alone. */
static enum ps_status check_open(const struct ps_service *service, struct ps_error *error)
{
    PS_TRY(ps_service_admit(service, error));
    if (ps_service_phase(service) == PS_PHASE_READY)
        return ps_fail(error, PS_ERR_EXISTS, "pserver already initialized");
    return PS_OK;
}

/* What the configuration says is read here and nowhere else: every later step has settings that are
 * known to be good. */
static enum ps_status check_request(const struct ps_service *service,
                                    const struct ps_init_request *request, struct wish *wish,
                                    struct ps_error *error)
{
    PS_TRY(ps_service_check_init(request, &wish->count, error));
    /* The configuration is read last, since reading allocates: a request that fails elsewhere costs
     * no memory. */
    PS_TRY(ps_parameter_settings_read(request->config, request->dtype, service->memory,
                                      &wish->settings, error));
    wish->request = request;
    PS_ASSERT(wish->count > 0);
    return PS_OK;
}

/* Bytes of the parameter of that name that a new one would replace. */
static uint64_t bytes_replaced(const struct ps_service *service, struct ps_bytes name)
{
    const struct ps_parameter *old = ps_parameter_table_find(&service->table, name);
    PS_ASSERT(old == NULL || ps_bytes_equal(old->spec->name, name));
    return old != NULL ? ps_parameter_host_bytes(old) : 0;
}

/* On a device if one has room, else on the host, where its bytes are reserved. The place on the
 * device is given back unless a parameter took it. */
static enum ps_status build(struct ps_service *service, struct wish *wish,
                            struct ps_parameter **parameter, struct ps_error *error)
{
    const struct ps_init_request *request = wish->request;
    struct ps_parameter_spec *spec =
        ps_parameter_spec_create(service->memory, request->name, request->dtype, wish->count,
                                 request->config, &wish->settings);
    if (spec == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for another parameter");
    PS_ASSERT(spec->count == wish->count);
    spec->block_source = service->block_source;
    /* A pointer to the service's field and not a copy of the crew: the crew may be taken back while
     * parameters live. */
    spec->crew = &service->crew;
    struct ps_resident resident;
    struct ps_error spilled = {0};
    enum ps_status status = ps_parameter_spec_set_shape(spec, &request->shape, error);
    if (status == PS_OK)
        status = measure_header(service, spec, error);
    if (status != PS_OK) {
        ps_parameter_spec_release(spec);
        return status;
    }
    status = ps_resident_place(service->device_store, spec, &resident, &spilled);
    if (status == PS_OK)
        status = build_at(service, wish, spec, &resident, &spilled, parameter, error);
    else
        (void)ps_fail(error, status, "%s", spilled.text);
    ps_resident_release(&resident);
    ps_parameter_spec_release(spec);
    return status;
}

/* Only where checkpoints are written. The size is kept with the spec, since the sum over all
 * parameters is bounded. */
static enum ps_status measure_header(const struct ps_service *service,
                                     struct ps_parameter_spec *spec, struct ps_error *error)
{
    const struct ps_checkpoint_parameter row = {.name = spec->name,
                                                .dtype = spec->dtype,
                                                .count = spec->count,
                                                .shape = *ps_parameter_spec_shape(spec),
                                                .config = spec->config,
                                                .state_count = ps_rule_states(spec->settings.rule)};
    PS_ASSERT(spec->count > 0);
    if (!service->saves)
        return PS_OK;
    return ps_header_parameter_bytes(&row, service->memory, &spec->header_bytes, error);
}

/* On success `*resident` is the parameter's, and zeroed. States of the optimizer count with the
 * values: they are as large, and allocated with the first push at the latest, when it would be too
 * late to refuse. */
static enum ps_status build_at(struct ps_service *service, struct wish *wish,
                               struct ps_parameter_spec *spec, struct ps_resident *resident,
                               const struct ps_error *spilled, struct ps_parameter **parameter,
                               struct ps_error *error)
{
    bool on_device = resident->store != NULL;
    uint32_t states = ps_rule_states(wish->settings.rule);
    /* A device holds values and states by itself; the host then keeps room for one copy of the
     * values, which readers need. */
    wish->bytes = ps_parameter_spec_host_bytes(spec, on_device ? 1 : 1 + states);
    PS_TRY(reserve(service, wish, spilled, error));
    struct ps_parameter *built =
        on_device ? ps_parameter_create_resident(spec, resident) : ps_parameter_create(spec);
    if (built == NULL) {
        unreserve(service, wish->bytes);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a parameter of %" PRIu64 " bytes",
                       wish->bytes);
    }
    PS_ASSERT(built->spec == spec);
    /* The parameter owns the place from here on, and gives the place back when it is destroyed; the
     * caller's release must find nothing. */
    *resident = (struct ps_resident){0};
    enum ps_status status = ps_parameter_set(built, wish->request->content, error);
    if (status != PS_OK) {
        ps_parameter_destroy(built);
        unreserve(service, wish->bytes);
        return status;
    }
    *parameter = built;
    return PS_OK;
}

/* Counts the bytes before they are allocated, so that calls in flight cannot pass the limit
 * together. */
static enum ps_status reserve(struct ps_service *service, const struct wish *wish,
                              const struct ps_error *spilled, struct ps_error *error)
{
    PS_ASSERT(wish->bytes > 0);
    ps_rwlock_write(&service->cut);
    /* A replaced parameter counts as gone though its memory is freed later: otherwise no parameter
     * of more than half the limit could be replaced. For that moment the host holds more than the
     * limit says. */
    uint64_t used = service->bytes_used - bytes_replaced(service, wish->request->name);
    uint64_t limit = service->bytes_max;
    bool fits = used <= limit && wish->bytes <= limit - used;
    if (fits)
        service->bytes_used += wish->bytes;
    ps_rwlock_unlock(&service->cut);
    if (fits)
        return PS_OK;
    return ps_refuse(error, PS_ERR_BUSY, PS_REFUSED_MEMORY, 0,
                     "memory limit: %" PRIu64 " bytes needed, %" PRIu64 " used, limit %" PRIu64
                     " (--memory-bytes)%s%.120s",
                     wish->bytes, used, limit, spilled->text[0] != '\0' ? "; " : "", spilled->text);
}

/* Of a parameter that was not built: the next InitParam may have these bytes. */
static void unreserve(struct ps_service *service, uint64_t bytes)
{
    ps_rwlock_write(&service->cut);
    PS_ASSERT(service->bytes_used >= bytes);
    service->bytes_used -= bytes;
    ps_rwlock_unlock(&service->cut);
}

/* Puts `*parameter` into the table, which then is the old one that has to go, or itself when it did
 * not get in. With the cut held alone: no snapshot sees a half, and no finish comes between. */
static enum ps_status enter(struct ps_service *service, const struct wish *wish,
                            struct ps_parameter **parameter, struct ps_init_reply *reply,
                            struct ps_error *error)
{
    struct ps_parameter *fresh = *parameter;
    ps_rwlock_write(&service->cut);
    enum ps_status status = PS_OK;
    /* Initialisation may have ended, or the shard been lost, while the parameter was built. */
    if (generation_of(service) != wish->generation)
        status = ps_fail(error, PS_ERR_UNAVAILABLE, "the shard was lost meanwhile");
    if (status == PS_OK)
        status = enter_once(service, wish->request, parameter, error);
    PS_ASSERT(status == PS_OK || *parameter == fresh);
    PS_ASSERT(*parameter != fresh || service->bytes_used >= wish->bytes);
    /* A parameter that got in keeps its reservation: the same bytes are the table's from now on. A
     * parameter that stayed outside gives its bytes back. */
    if (*parameter == fresh)
        service->bytes_used -= wish->bytes;
    *reply = (struct ps_init_reply){.epoch = service->epoch};
    ps_service_count_table(service);
    ps_rwlock_unlock(&service->cut);
    return status;
}

/* The same request may have come twice, and the other be the one that entered: this is where that
 * is decided, since both were built. */
static enum ps_status enter_once(struct ps_service *service, const struct ps_init_request *request,
                                 struct ps_parameter **parameter, struct ps_error *error)
{
    PS_ASSERT(*parameter != NULL);
    if (!request->request.present)
        return insert(service, parameter, error);
    struct ps_session_call call;
    PS_TRY(ps_sessions_begin(&service->sessions, &request->request,
                             ps_fingerprint_of_init(request, request->content),
                             ps_service_unix_us(service), &call, error));
    /* A repeat leaves `*parameter` as it came, and so `enter` takes the second copy's reservation
     * back. */
    if (call.is_repeat)
        return ps_service_admit(service, error);
    enum ps_status status = insert(service, parameter, error);
    if (status == PS_OK)
        ps_sessions_commit(&service->sessions, &call, (struct ps_session_answer){0});
    else
        ps_sessions_abort(&service->sessions, &call);
    return status;
}

/* A parameter of that name that was there before is replaced: until initialisation ends the last
 * InitParam counts. */
static enum ps_status insert(struct ps_service *service, struct ps_parameter **parameter,
                             struct ps_error *error)
{
    PS_TRY(check_open(service, error));
    PS_TRY(check_header(service, (*parameter)->spec, error));
    struct ps_parameter *replaced = NULL;
    /* The old parameter is asked for its bytes before the insert takes the old one out of the
     * table. */
    uint64_t old_bytes = bytes_replaced(service, (*parameter)->spec->name);
    enum ps_status status = ps_parameter_table_insert(&service->table, *parameter, &replaced);
    if (status != PS_OK)
        return ps_fail(error, status, "no memory for another parameter");
    PS_ASSERT(old_bytes == 0 || replaced != NULL);
    PS_ASSERT(service->bytes_used >= old_bytes);
    service->bytes_used -= old_bytes;
    *parameter = replaced;
    return PS_OK;
}

/* What no checkpoint can hold must not be taken: the first one would never be written, and
 * FinishInitParams never answered. Numbers count with all digits that they may get, so that
 * checkpoints do not end in mid-training either. */
static enum ps_status check_header(const struct ps_service *service,
                                   const struct ps_parameter_spec *spec, struct ps_error *error)
{
    const struct ps_parameter *old = ps_parameter_table_find(&service->table, spec->name);
    uint64_t used = service->header_bytes + service->table.header_bytes -
                    (old != NULL ? old->spec->header_bytes : 0);
    PS_ASSERT(used >= service->header_bytes);
    if (!service->saves || used + spec->header_bytes <= PS_HEADER_BYTES_MAX)
        return PS_OK;
    return ps_fail(error, PS_ERR_BAD_INPUT,
                   "%" PRIu64 " bytes needed for this parameter in a checkpoint's header, %" PRIu64
                   " used by %zu others, limit %u: use more shards (--num-pservers), shorter "
                   "configurations, or fewer, larger parameters. Name: %.*s",
                   spec->header_bytes, used, service->table.count - (old != NULL ? 1 : 0),
                   PS_HEADER_BYTES_MAX, (int)spec->name.size, (const char *)spec->name.data);
}
