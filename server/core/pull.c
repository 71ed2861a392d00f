/* GetParam: a reference to one version of the values. No copy, no torn read; in another encoding
 * one copy, made from that version outside all locks. */
#include "server/core/service.h"

#include "optimizer/encoded.h"
#include "server/core/encoded_values.h"
#include "server/core/service_state.h"

static enum ps_status find_ready(struct ps_service *service, const struct ps_pull_request *request,
                                 struct ps_parameter **parameter, struct ps_error *error);

static void give(struct ps_blocks *values, enum ps_encoding encoding, struct ps_pull *pull);
static enum ps_status encode(struct ps_service *service, const struct ps_blocks *values,
                             enum ps_encoding encoding, struct ps_pull *pull,
                             struct ps_error *error);

enum ps_status ps_service_pull(struct ps_service *service, const struct ps_pull_request *request,
                               struct ps_pull *pull, struct ps_error *error)
{
    struct ps_blocks *values = NULL;
    uint64_t version = 0;
    struct ps_parameter *parameter = NULL;
    ps_rwlock_read(&service->cut);
    enum ps_status status = find_ready(service, request, &parameter, error);
    if (status == PS_OK)
        values = ps_parameter_hold_values(parameter, &version);
    ps_rwlock_unlock(&service->cut);
    if (status != PS_OK)
        return status;

    if (!ps_encoding_is_native(request->encoding, values->spec->dtype)) {
        status = encode(service, values, request->encoding, pull, error);
        ps_blocks_release(values);
        if (status != PS_OK)
            return status;
    } else {
        give(values, request->encoding, pull);
    }
    pull->reply.version = version;
    atomic_fetch_add(&service->pull_count, 1);
    ps_counter_add(service->metrics.pulls, 1);
    return PS_OK;
}

/* Takes `values`. */
static void give(struct ps_blocks *values, enum ps_encoding encoding, struct ps_pull *pull)
{
    pull->reply = (struct ps_pull_reply){.name = values->spec->name,
                                         .dtype = values->spec->dtype,
                                         .content = ps_blocks_view(values),
                                         .encoding = encoding};
    pull->held = values;
    pull->encoded = NULL;
}

static enum ps_status encode(struct ps_service *service, const struct ps_blocks *values,
                             enum ps_encoding encoding, struct ps_pull *pull,
                             struct ps_error *error)
{
    struct ps_encoded_values *encoded;
    PS_TRY(ps_encoded_values_create(values, encoding, &encoded, error));
    pull->reply = (struct ps_pull_reply){.name = encoded->spec->name,
                                         .dtype = encoded->spec->dtype,
                                         .content = ps_view_of(&encoded->piece),
                                         .encoding = encoding};
    pull->held = NULL;
    pull->encoded = encoded;
    ps_counter_add(service->metrics.pull_encoded_bytes, encoded->piece.size);
    return PS_OK;
}

static enum ps_status find_ready(struct ps_service *service, const struct ps_pull_request *request,
                                 struct ps_parameter **parameter, struct ps_error *error)
{
    struct ps_bytes name = request->name;
    PS_TRY(ps_service_admit_for(service, request->shard, error));
    if (ps_service_life(service) != PS_LIFE_READY)
        return ps_fail(error, PS_ERR_NOT_READY, "pserver not fully initialized");
    *parameter = ps_parameter_table_find(&service->table, name);
    if (*parameter == NULL)
        return ps_fail(error, PS_ERR_NOT_FOUND, "parameter: %.*s does not exist",
                       ps_service_name_width(name), (const char *)name.data);
    return PS_OK;
}

void ps_pull_release(struct ps_pull *pull)
{
    ps_blocks_release(pull->held);
    ps_encoded_values_release(pull->encoded);
    *pull = (struct ps_pull){0};
}
