/* SendGrad: is the shard ours, is the gradient right, apply it, is the shard still ours. */
#include "server/core/service.h"

#include "base/assert.h"
#include "server/core/service_state.h"

static enum ps_status push_in_cut(struct ps_service *service, const struct ps_push_request *request,
                                  struct ps_push_reply *reply, struct ps_error *error);
static enum ps_status check_ready(const struct ps_service *service, struct ps_error *error);
static enum ps_status check_gradient(const struct ps_parameter_spec *spec,
                                     const struct ps_push_request *request, struct ps_error *error);
static enum ps_status check_acknowledgement(enum ps_ack ack, struct ps_error *error);
static double seconds_since(const struct ps_clock *clock, uint64_t start_unix_ns);

enum ps_status ps_service_push(struct ps_service *service, const struct ps_push_request *request,
                               struct ps_push_reply *reply, struct ps_push_wait *wait,
                               struct ps_error *error)
{
    if (wait != NULL)
        *wait = (struct ps_push_wait){0};
    uint64_t start_unix_ns = ps_unix_ns(service->clock);
    ps_rwlock_read(&service->cut);
    enum ps_status status = push_in_cut(service, request, reply, error);
    ps_rwlock_unlock(&service->cut);

    if (status != PS_OK) {
        ps_counter_add(service->metrics.pushes_refused, 1);
        return status;
    }
    ps_counter_add(service->metrics.pushes, 1);
    ps_histogram_observe(service->metrics.push_seconds,
                         seconds_since(service->clock, start_unix_ns));
    return PS_OK;
}

static enum ps_status push_in_cut(struct ps_service *service, const struct ps_push_request *request,
                                  struct ps_push_reply *reply, struct ps_error *error)
{
    PS_TRY(check_ready(service, error));
    struct ps_parameter *parameter = ps_parameter_table_find(&service->table, request->name);
    if (parameter == NULL)
        return ps_fail(error, PS_ERR_NOT_FOUND, "parameter: %.*s does not exist",
                       ps_service_name_width(request->name), (const char *)request->name.data);
    PS_TRY(check_gradient(parameter->spec, request, error));
    PS_TRY(check_acknowledgement(request->ack, error));

    uint64_t version = 0;
    PS_TRY(ps_parameter_push(parameter, request->content, &version, error));
    uint64_t position = atomic_fetch_add(&service->position, 1) + 1;
    atomic_fetch_add(&service->push_count, 1);
    ps_gauge_set(service->metrics.position, (double)position);

    /* The lease may have run out meanwhile (a stopped process wakes up here): then another server
     * may own the shard, and what was applied is not acknowledged. */
    PS_TRY(ps_service_admit(service, error));
    *reply = (struct ps_push_reply){.version = version, .duplicate = false};
    return PS_OK;
}

static enum ps_status check_ready(const struct ps_service *service, struct ps_error *error)
{
    PS_TRY(ps_service_admit(service, error));
    if (ps_service_life(service) != PS_LIFE_READY)
        return ps_fail(error, PS_ERR_NOT_READY, "pserver not fully initialized");
    return PS_OK;
}

static enum ps_status check_gradient(const struct ps_parameter_spec *spec,
                                     const struct ps_push_request *request, struct ps_error *error)
{
    const char *name = (const char *)spec->name.data;
    if (request->dtype != ps_parameter_spec_gradient(spec))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "Name: %s, parameter and gradient element type not match, parameter: %d, "
                       "gradient: %d",
                       name, (int)spec->dtype, (int)request->dtype);
    if (request->content.size != ps_parameter_spec_bytes(spec))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "Name: %s, parameter and gradient does not have same content len, "
                       "parameter: %zu, gradient: %zu",
                       name, ps_parameter_spec_bytes(spec), request->content.size);
    return PS_OK;
}

static enum ps_status check_acknowledgement(enum ps_ack ack, struct ps_error *error)
{
    if (ack == PS_ACK_DEFAULT || ack == PS_ACK_MEMORY)
        return PS_OK;
    return ps_fail(error, PS_ERR_UNSUPPORTED,
                   "this server acknowledges what it has applied in memory (ACK_MEMORY) and offers "
                   "no stronger level");
}

static double seconds_since(const struct ps_clock *clock, uint64_t start_unix_ns)
{
    uint64_t now = ps_unix_ns(clock);
    return now > start_unix_ns ? (double)(now - start_unix_ns) / 1e9 : 0;
}
