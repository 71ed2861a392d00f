/* SPDX-License-Identifier: Apache-2.0 */
/* What a request costs beyond its bytes, known from the parameter that it names: so that it is
 * charged, and put to another thread or refused, before anything is done. Both are guesses: the
 * table may change before the request's turn comes. */
#include "server/core/requests/service.h"

#include "base/assert.h"
#include "optimizer/encoded.h"
#include "server/core/requests/service_state.h"
#include "server/core/tables/row_since.h"
#include "server/core/update/parameter_rows.h"

/* A gradient may name one element in a dozen bytes. Where its rule moves all elements with each
 * step (momentum, decay), that is an update of the whole parameter. */
uint64_t ps_service_extra_push_work(struct ps_service *service,
                                    const struct ps_push_request *request)
{
    if (request->encoding != PS_ENCODING_TOP_K)
        return 0;
    PS_ASSERT(service != NULL);
    ps_rwlock_read(&service->cut);
    const struct ps_parameter *parameter = ps_parameter_table_find(&service->table, request->name);
    uint64_t bytes = 0;
    if (parameter != NULL && !ps_encoding_touches_named_only(&parameter->spec->settings))
        bytes = ps_parameter_host_bytes(parameter);
    ps_rwlock_unlock(&service->cut);
    return bytes;
}

/* Of 8 bytes that ask for it a row may have 32 KiB: its bytes are charged, and not the request's.
 * Divided, since what is asked for may be more than a message takes, and is refused then. */
static uint64_t bytes_of_rows(const struct ps_parameter_spec *spec, struct ps_view keys)
{
    uint64_t count = keys.size / PS_ROW_KEY_BYTES;
    PS_ASSERT(ps_parameter_spec_is_table(spec));
    PS_ASSERT(spec->count > 0);
    size_t each = ps_parameter_rows_row_bytes(spec);
    return count > PS_REPLY_BYTES_MAX / each ? 0 : count * each;
}

/* A delta of a table reads rows that do not go into it, a piece of the table at a time; none of one
 * to which nobody has pushed since. What goes into it is bounded by the message, and is charged as
 * what every delta sends. */
static uint64_t bytes_looked_at(const struct ps_parameter *parameter, const struct ps_held *held)
{
    PS_ASSERT(parameter->rows != NULL);
    if (held->target == 0 && held->version == atomic_load(&parameter->row_version) + 1)
        return 0;
    uint64_t bytes = ps_row_table_bytes(parameter->rows);
    return bytes < PS_ROW_SINCE_BYTES ? bytes : PS_ROW_SINCE_BYTES;
}

/* Native content goes out as it lies; any other is made first, from all that the range has. */
uint64_t ps_service_extra_pull_work(struct ps_service *service,
                                    const struct ps_pull_request *request, uint64_t *reply_bytes)
{
    uint64_t bytes = 0;
    *reply_bytes = 0;
    bool is_made =
        request->encoding != PS_ENCODING_NATIVE || request->keys.size > 0 || request->held.present;
    if (!is_made || request->of_push || request->encoding == PS_ENCODING_ROWS)
        return 0;
    ps_rwlock_read(&service->cut);
    const struct ps_parameter *parameter = ps_parameter_table_find(&service->table, request->name);
    const struct ps_parameter_spec *spec = parameter != NULL ? parameter->spec : NULL;
    /* A range that is wrong costs nothing: it is refused before anything is made. */
    if (spec != NULL && ps_parameter_spec_is_table(spec) && request->held.present)
        bytes = bytes_looked_at(parameter, &request->held);
    else if (spec != NULL && ps_parameter_spec_is_table(spec))
        *reply_bytes = bytes_of_rows(spec, request->keys);
    else if (spec != NULL && !ps_encoding_is_native(request->encoding, spec->dtype) &&
             request->range.first < spec->count) {
        uint64_t left = spec->count - request->range.first;
        uint64_t count = request->range.count;
        count = count == 0 || count > left ? left : count;
        bytes = count * ps_dtype_size(spec->dtype);
        PS_ASSERT(count <= spec->count);
        PS_ASSERT(bytes / ps_dtype_size(spec->dtype) == count);
        *reply_bytes = ps_encoding_bytes(request->encoding, spec->dtype, count);
    }
    ps_rwlock_unlock(&service->cut);
    return bytes + *reply_bytes;
}

/* Without the parameter's lock, which a long update holds: that is what the caller wants to
 * know. */
uint64_t ps_service_pull_work(struct ps_service *service, const struct ps_pull_request *request)
{
    ps_rwlock_read(&service->cut);
    struct ps_parameter *parameter = ps_parameter_table_find(&service->table, request->name);
    uint64_t bytes = parameter != NULL ? atomic_load(&parameter->updating) : 0;
    ps_rwlock_unlock(&service->cut);
    return bytes;
}
