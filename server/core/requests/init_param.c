/* SPDX-License-Identifier: Apache-2.0 */
/* InitParam: checks everything, finds a place on the device, reserves the bytes on the host, builds
 * the parameter without any lock, and puts it into the table if initialisation is still going on.
 */
#include "server/core/requests/service.h"

#include "base/assert.h"
#include "server/core/requests/parameter_build.h"
#include "server/core/sessions/fingerprint.h"

#include <inttypes.h>

static enum ps_status check_meant(struct ps_service *service, const struct ps_init_request *request,
                                  struct ps_error *error);
static enum ps_status init_part(struct ps_service *service, const struct ps_init_request *request,
                                struct ps_init_reply *reply, struct ps_error *error);
static enum ps_status check_total(struct ps_service *service, const struct ps_init_request *request,
                                  struct ps_error *error);
static enum ps_status check_open(const struct ps_service *service, struct ps_error *error);
static enum ps_status look(struct ps_service *service, const struct ps_init_request *request,
                           struct ps_view content, bool *is_repeat, struct ps_error *error);
static enum ps_status answer_repeat(struct ps_service *service, struct ps_init_reply *reply,
                                    struct ps_error *error);
static enum ps_status enter(struct ps_service *service, const struct ps_wish *wish,
                            struct ps_parameter **parameter, struct ps_init_reply *reply,
                            struct ps_error *error);
static enum ps_status enter_once(struct ps_service *service, const struct ps_init_request *request,
                                 struct ps_parameter **parameter, struct ps_error *error);
static enum ps_status insert(struct ps_service *service, struct ps_parameter **parameter,
                             struct ps_error *error);

/* The answer to a repeat comes before every check, as it came then: what was taken stays taken,
 * though it could not be taken now. Checks come before the build, which needs memory; the build
 * holds no lock, since it copies the content; and what may have changed meanwhile is asked once
 * more when the parameter enters. */
enum ps_status ps_service_init(struct ps_service *service, const struct ps_init_request *request,
                               struct ps_init_reply *reply, struct ps_error *error)
{
    /* The generation is read before every check, so that `enter` sees a loss at whatever moment
     * behind this line the shard is lost. */
    struct ps_wish wish = {.generation = ps_service_generation(service)};
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
    PS_TRY(ps_wish_check(service, request, &wish, error));
    struct ps_parameter *parameter = NULL;
    PS_TRY(ps_wish_build(service, &wish, &parameter, error));

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

/* Puts a range to the others of its request; the last brings all of them, which go on as one: as a
 * message in one piece, under the fingerprint that such a message has. A client may repeat the
 * request either way. */
static enum ps_status init_part(struct ps_service *service, const struct ps_init_request *request,
                                struct ps_init_reply *reply, struct ps_error *error)
{
    struct ps_init_request whole = *request;
    struct ps_added added;
    bool is_repeat = false;
    whole.range = (struct ps_elements){0};
    PS_TRY(look(service, request, (struct ps_view){0}, &is_repeat, error));
    if (is_repeat)
        return answer_repeat(service, reply, error);
    PS_TRY(check_open(service, error));
    enum ps_status status = ps_service_stage(service, request, PS_METHOD_INIT, &added, error);
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

/* What can be wrong with the whole is checked with each range, of an initialisation and of a
 * definition: staged bytes are memory, and a total that nobody could ever hold must not reserve
 * any. */
enum ps_status ps_service_stage(struct ps_service *service, const struct ps_init_request *request,
                                enum ps_method method, struct ps_added *added,
                                struct ps_error *error)
{
    const struct ps_part part = {.method = method,
                                 .id = &request->request,
                                 .name = request->name,
                                 .config = request->config,
                                 .dtype = request->dtype,
                                 .total = request->total,
                                 .shape = request->shape,
                                 .range = request->range,
                                 .content = request->content,
                                 .hold = request->hold};
    PS_TRY(ps_service_check_name(request->name, error));
    PS_TRY(check_total(service, request, error));
    PS_TRY(ps_shape_check(&request->shape, request->name, request->total, error));
    enum ps_status status =
        ps_staging_add(&service->staging, &part, ps_now_ms(service->clock), added, error);
    PS_ASSERT(status != PS_OK || added->staged == NULL || added->content.size > 0);
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
    uint64_t used = ps_service_bytes_counted(service) - ps_service_bytes_of(service, request->name);
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

/* Puts `*parameter` into the table, which then is the old one that has to go, or itself when it did
 * not get in. With the cut held alone: no snapshot sees a half, and no finish comes between. */
static enum ps_status enter(struct ps_service *service, const struct ps_wish *wish,
                            struct ps_parameter **parameter, struct ps_init_reply *reply,
                            struct ps_error *error)
{
    struct ps_parameter *fresh = *parameter;
    ps_rwlock_write(&service->cut);
    enum ps_status status = PS_OK;
    /* Initialisation may have ended, or the shard been lost, while the parameter was built. */
    if (ps_service_generation(service) != wish->generation)
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
    PS_TRY(ps_service_check_header(service, (*parameter)->spec, error));
    struct ps_parameter *replaced = NULL;
    /* The old parameter is asked for its bytes before the insert takes the old one out of the
     * table. */
    uint64_t old_bytes = ps_service_bytes_of(service, (*parameter)->spec->name);
    enum ps_status status = ps_parameter_table_insert(&service->table, *parameter, &replaced);
    if (status != PS_OK)
        return ps_fail(error, status, "no memory for another parameter");
    PS_ASSERT(old_bytes == 0 || replaced != NULL);
    PS_ASSERT(service->bytes_used >= old_bytes);
    service->bytes_used -= old_bytes;
    *parameter = replaced;
    return PS_OK;
}
