/* SPDX-License-Identifier: Apache-2.0 */
/* What InitParam, DefineParam and the replay of a definition share: the checks of one parameter,
 * its place on the device or its bytes on the host, and the parameter itself. */
#include "server/core/requests/parameter_build.h"

#include "base/assert.h"
#include "checkpoint/header_bytes.h"
#include "checkpoint/header_format.h"
#include "server/core/update/parameter_rows.h"
#include "server/core/update/parameter_settings.h"
#include "server/core/update/row_ages_text.h"

#include <inttypes.h>

static enum ps_status build_at(struct ps_service *service, struct ps_wish *wish,
                               struct ps_parameter_spec *spec, struct ps_resident *resident,
                               const struct ps_error *spilled, struct ps_parameter **parameter,
                               struct ps_error *error);
static enum ps_status reserve(struct ps_service *service, const struct ps_wish *wish,
                              const struct ps_error *spilled, struct ps_error *error);

/* Rises with every loss of the shard, also when the same server wins it back under another
 * epoch. */
uint64_t ps_service_generation(struct ps_service *service)
{
    struct ps_journal_state state;
    ps_journal_queue_look(&service->queue, &state);
    PS_ASSERT(state.generation > 0);
    return state.generation;
}

/* With the cut, since the shard may be lost and another be won. The parameter is built without it,
 * for the shard that was ours then; if that is over it does not get in. */
static enum ps_status look_at_shards(struct ps_service *service, struct ps_wish *wish,
                                     struct ps_error *error)
{
    ps_rwlock_read(&service->cut);
    wish->shard = service->index;
    wish->shard_count = service->shard_count;
    ps_rwlock_unlock(&service->cut);
    PS_ASSERT(wish->settings.table.width > 0);
    /* A server that waits for another claim has no shard at all. */
    if (wish->shard_count == 0)
        return ps_fail(error, PS_ERR_UNAVAILABLE, "the shard was lost meanwhile");
    return ps_parameter_rows_check_shards(&wish->settings.table, wish->shard_count, error);
}

/* A table says in its configuration how long a row is, and brings no content; every other parameter
 * says by its content how long it is. So the count comes from one of two places, and what is in the
 * other is refused.
 *
 * What the configuration says is read here and nowhere else: every later step has settings that are
 * known to be good. Whether empty content is right is the configuration's to say. */
enum ps_status ps_wish_check(struct ps_service *service, const struct ps_init_request *request,
                             struct ps_wish *wish, struct ps_error *error)
{
    /* The configuration is read last, since reading allocates: a request that fails elsewhere costs
     * no memory. */
    PS_TRY(request->content.size > 0 ? ps_service_check_init(request, &wish->count, error)
                                     : ps_service_check_head(request, error));
    PS_TRY(ps_parameter_settings_read(request->config, request->dtype, service->memory,
                                      &wish->settings, error));
    if (wish->settings.table.width > 0) {
        wish->count = wish->settings.table.width;
        PS_TRY(ps_service_check_table(request, wish->settings.table.width, error));
        PS_TRY(look_at_shards(service, wish, error));
    } else if (request->content.size == 0) {
        PS_TRY(ps_service_check_init(request, &wish->count, error));
    }
    wish->request = request;
    PS_ASSERT(wish->count > 0);
    PS_ASSERT(wish->bytes == 0);
    return PS_OK;
}

/* Rows are found by keys in the host's memory; a device has what is walked through. That is said
 * once for each table, when it comes, since an operator of a device would look for it there. */
struct ps_device_store *ps_service_device_for(const struct ps_service *service,
                                              const struct ps_parameter_spec *spec)
{
    return ps_parameter_spec_is_table(spec) ? NULL : service->device_store;
}

/* Bytes of the parameter of that name that a new one would replace. */
uint64_t ps_service_bytes_of(const struct ps_service *service, struct ps_bytes name)
{
    const struct ps_parameter *old = ps_parameter_table_find(&service->table, name);
    PS_ASSERT(old == NULL || ps_bytes_equal(old->spec->name, name));
    return old != NULL ? ps_parameter_host_bytes(old) : 0;
}

/* On a device if one has room, else on the host, where its bytes are reserved. The place on the
 * device is given back unless a parameter took it. */
enum ps_status ps_wish_build(struct ps_service *service, struct ps_wish *wish,
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
    spec->touch_ahead = service->touch_ahead;
    spec->row_room = &service->row_room;
    spec->row_device = service->device_store;
    spec->shard = wish->shard;
    spec->shard_count = wish->shard_count;
    /* A birth takes room in a checkpoint's header, though it is not known before the record has its
     * place. */
    spec->birth = wish->defines ? PS_BIRTH_TO_COME : 0;
    struct ps_resident resident;
    struct ps_error spilled = {0};
    enum ps_status status = ps_parameter_spec_set_shape(spec, &request->shape, error);
    if (status == PS_OK)
        status = ps_service_measure_header(service, spec, error);
    if (status != PS_OK) {
        ps_parameter_spec_release(spec);
        return status;
    }
    status = ps_resident_place(ps_service_device_for(service, spec), spec, &resident, &spilled);
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
enum ps_status ps_service_measure_header(const struct ps_service *service,
                                         struct ps_parameter_spec *spec, struct ps_error *error)
{
    struct ps_checkpoint_parameter row = ps_parameter_spec_row(spec);
    char ages[PS_ROW_AGES_TEXT_BYTES];
    PS_ASSERT(row.count > 0 || row.is_table);
    if (!service->saves)
        return PS_OK;
    /* What is said of them grows for as long as the table lives; of other parameters nothing is. */
    row.ages = (struct ps_bytes){(const uint8_t *)ages,
                                 ps_row_ages_text_widest(&spec->settings.table, ages)};
    return ps_header_parameter_bytes(&row, service->memory, &spec->header_bytes, error);
}

/* On success `*resident` is the parameter's, and zeroed. States of the optimizer count with the
 * values: they are as large, and allocated with the first push at the latest, when it would be too
 * late to refuse. */
static enum ps_status build_at(struct ps_service *service, struct ps_wish *wish,
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
        ps_wish_unreserve(service, wish->bytes);
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
        ps_wish_unreserve(service, wish->bytes);
        return status;
    }
    *parameter = built;
    return PS_OK;
}

/* Counts the bytes before they are allocated, so that calls in flight cannot pass the limit
 * together. */
static enum ps_status reserve(struct ps_service *service, const struct ps_wish *wish,
                              const struct ps_error *spilled, struct ps_error *error)
{
    PS_ASSERT(wish->bytes > 0);
    ps_rwlock_write(&service->cut);
    /* A replaced parameter counts as gone though its memory is freed later: otherwise no parameter
     * of more than half the limit could be replaced. For that moment the host holds more than the
     * limit says. */
    uint64_t used =
        ps_service_bytes_counted(service) - ps_service_bytes_of(service, wish->request->name);
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
void ps_wish_unreserve(struct ps_service *service, uint64_t bytes)
{
    ps_rwlock_write(&service->cut);
    PS_ASSERT(service->bytes_used >= bytes);
    service->bytes_used -= bytes;
    ps_rwlock_unlock(&service->cut);
}

/* What no checkpoint can hold must not be taken: the first one would never be written, and
 * FinishInitParams never answered. Numbers count with all digits that they may get, so that
 * checkpoints do not end in mid-training either. */
enum ps_status ps_service_check_header(const struct ps_service *service,
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
