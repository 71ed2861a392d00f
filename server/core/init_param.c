/* InitParam: checks everything, reserves the bytes, builds the parameter without any lock, and
 * puts it into the table if initialisation is still going on. */
#include "server/core/service.h"

#include "base/assert.h"
#include "base/utf8.h"
#include "server/core/parameter_settings.h"
#include "server/core/service_state.h"

#include <inttypes.h>
#include <string.h>

/* What the checks have found out about a request. */
struct wish {
    const struct ps_init_request *request;
    uint64_t count; /* elements */
    uint64_t bytes; /* values and states */
    struct ps_optimizer_settings settings;
};

static enum ps_status check_open(const struct ps_service *service, struct ps_error *error);
static enum ps_status check_request(const struct ps_service *service,
                                    const struct ps_init_request *request, struct wish *wish,
                                    struct ps_error *error);
static enum ps_status reserve(struct ps_service *service, const struct wish *wish,
                              struct ps_error *error);
static void unreserve(struct ps_service *service, uint64_t bytes);
static struct ps_parameter *build(const struct ps_service *service, const struct wish *wish);
static enum ps_status enter(struct ps_service *service, struct ps_parameter *parameter,
                            struct ps_parameter **replaced, struct ps_init_reply *reply,
                            struct ps_error *error);

enum ps_status ps_service_init(struct ps_service *service, const struct ps_init_request *request,
                               struct ps_init_reply *reply, struct ps_error *error)
{
    PS_TRY(check_open(service, error));
    struct wish wish;
    PS_TRY(check_request(service, request, &wish, error));
    PS_TRY(reserve(service, &wish, error));

    struct ps_parameter *parameter = build(service, &wish);
    if (parameter == NULL) {
        unreserve(service, wish.bytes);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a parameter of %" PRIu64 " bytes",
                       wish.bytes);
    }
    struct ps_parameter *replaced = NULL;
    struct ps_init_reply taken;
    enum ps_status status = enter(service, parameter, &replaced, &taken, error);
    if (status != PS_OK) {
        unreserve(service, wish.bytes);
        ps_parameter_destroy(parameter);
        return status;
    }
    ps_parameter_destroy(replaced);
    if (reply != NULL)
        *reply = taken;
    return PS_OK;
}

static enum ps_status check_open(const struct ps_service *service, struct ps_error *error)
{
    PS_TRY(ps_service_admit(service, error));
    if (ps_service_life(service) == PS_LIFE_READY)
        return ps_fail(error, PS_ERR_EXISTS, "pserver already initialized");
    return PS_OK;
}

static bool starts_with(struct ps_bytes name, const char *prefix)
{
    size_t size = strlen(prefix);
    return name.size >= size && memcmp(name.data, prefix, size) == 0;
}

enum ps_status ps_service_check_name(struct ps_bytes name, struct ps_error *error)
{
    if (name.size == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "the name of a parameter is empty");
    if (name.size > PS_NAME_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "the name of a parameter has %zu bytes; at most %d are allowed", name.size,
                       PS_NAME_BYTES_MAX);
    if (!ps_utf8_valid(name) || memchr(name.data, 0, name.size) != NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "the name of a parameter is not UTF-8 text");
    /* Checkpoint files keep their own things under these names. */
    if (starts_with(name, "ps.state/") || ps_bytes_equal(name, ps_bytes_of_text("__metadata__")))
        return ps_fail(error, PS_ERR_BAD_INPUT, "Name: %.*s is reserved", (int)name.size,
                       (const char *)name.data);
    return PS_OK;
}

static enum ps_status check_content(const struct ps_init_request *request, struct ps_error *error)
{
    int name_size = (int)request->name.size;
    const char *name = (const char *)request->name.data;
    if ((uint32_t)request->dtype >= PS_DTYPE_COUNT)
        return ps_fail(error, PS_ERR_BAD_INPUT, "Name: %.*s, there is no element type %d",
                       name_size, name, (int)request->dtype);
    if (request->content.size == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "Name: %.*s, the content is empty", name_size,
                       name);
    if (request->content.size % ps_dtype_size(request->dtype) != 0)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "Name: %.*s, the content has %zu bytes: no whole number of %s elements",
                       name_size, name, request->content.size, ps_dtype_name(request->dtype));
    return PS_OK;
}

static enum ps_status check_request(const struct ps_service *service,
                                    const struct ps_init_request *request, struct wish *wish,
                                    struct ps_error *error)
{
    PS_TRY(ps_service_check_name(request->name, error));
    PS_TRY(check_content(request, error));
    PS_TRY(ps_parameter_settings_read(request->config, request->dtype, service->memory,
                                      &wish->settings, error));
    wish->request = request;
    wish->count = request->content.size / ps_dtype_size(request->dtype);
    wish->bytes = (uint64_t)request->content.size * (1 + ps_rule_states(wish->settings.rule));
    return PS_OK;
}

/* Bytes of the parameter of that name that a new one would replace. */
static uint64_t bytes_replaced(const struct ps_service *service, struct ps_bytes name)
{
    const struct ps_parameter *old = ps_parameter_table_find(&service->table, name);
    if (old == NULL)
        return 0;
    return (uint64_t)ps_parameter_spec_bytes(old->spec) * (1 + ps_parameter_state_count(old));
}

/* Counts the bytes before they are allocated, so that calls in flight cannot pass the limit
 * together. */
static enum ps_status reserve(struct ps_service *service, const struct wish *wish,
                              struct ps_error *error)
{
    ps_rwlock_write(&service->cut);
    uint64_t used = service->bytes_used - bytes_replaced(service, wish->request->name);
    uint64_t limit = service->bytes_max;
    bool fits = used <= limit && wish->bytes <= limit - used;
    if (fits)
        service->bytes_used += wish->bytes;
    ps_rwlock_unlock(&service->cut);
    if (fits)
        return PS_OK;
    return ps_fail(error, PS_ERR_BUSY,
                   "memory limit: %" PRIu64 " bytes needed, %" PRIu64 " used, limit %" PRIu64,
                   wish->bytes, used, limit);
}

static void unreserve(struct ps_service *service, uint64_t bytes)
{
    ps_rwlock_write(&service->cut);
    PS_ASSERT(service->bytes_used >= bytes);
    service->bytes_used -= bytes;
    ps_rwlock_unlock(&service->cut);
}

static struct ps_parameter *build(const struct ps_service *service, const struct wish *wish)
{
    const struct ps_init_request *request = wish->request;
    struct ps_parameter_spec *spec =
        ps_parameter_spec_create(service->memory, request->name, request->dtype, wish->count,
                                 request->config, &wish->settings);
    if (spec == NULL)
        return NULL;
    struct ps_parameter *parameter = ps_parameter_create(spec);
    if (parameter != NULL)
        ps_parameter_set(parameter, request->content);
    ps_parameter_spec_release(spec);
    return parameter;
}

static enum ps_status enter(struct ps_service *service, struct ps_parameter *parameter,
                            struct ps_parameter **replaced, struct ps_init_reply *reply,
                            struct ps_error *error)
{
    ps_rwlock_write(&service->cut);
    /* Initialisation may have ended, or the shard been lost, while the parameter was built. */
    enum ps_status status = check_open(service, error);
    if (status == PS_OK) {
        uint64_t old_bytes = bytes_replaced(service, parameter->spec->name);
        status = ps_parameter_table_insert(&service->table, parameter, replaced);
        if (status == PS_OK)
            service->bytes_used -= old_bytes;
        else
            (void)ps_fail(error, status, "no memory for another parameter");
    }
    *reply = (struct ps_init_reply){.epoch = service->epoch};
    ps_service_count_table(service);
    ps_rwlock_unlock(&service->cut);
    return status;
}
