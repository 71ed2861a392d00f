/* SPDX-License-Identifier: Apache-2.0 */
/* What can be wrong with a parameter by itself, whatever the shard holds. Recovery asks the same of
 * a file's parameters (recovery_fill.c): a file may come from anywhere, too. */
#include "server/core/requests/service_state.h"

#include "base/assert.h"
#include "base/utf8.h"
#include "checkpoint/header_format.h"

#include <string.h>

/* A name goes into files, metrics and texts: it is text without a zero byte, of bounded length. */
enum ps_status ps_service_check_name(struct ps_bytes name, struct ps_error *error)
{
    if (name.size == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "the name of a parameter is empty");
    if (name.size > PS_NAME_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "the name of a parameter has %zu bytes; at most %d are allowed", name.size,
                       PS_NAME_BYTES_MAX);
    /* The length was bounded before, so that neither this scan nor a later text is as long as a
     * hostile name. */
    if (!ps_utf8_valid(name) || memchr(name.data, 0, name.size) != NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "the name of a parameter is not UTF-8 text");
    /* Checkpoint files keep their own things under these names: one list for both, since a shard
     * with a name that its files refuse would never be saved again. */
    if (ps_header_name_reserved(name))
        return ps_fail(error, PS_ERR_BAD_INPUT, "Name: %.*s is reserved", (int)name.size,
                       (const char *)name.data);
    return PS_OK;
}

/* What a table and any other parameter have in common: a name that files and texts can hold, and a
 * type that there is. */
enum ps_status ps_service_check_head(const struct ps_init_request *request, struct ps_error *error)
{
    PS_ASSERT(request != NULL);
    PS_TRY(ps_service_check_name(request->name, error));
    /* The name was checked before: its size fits an int, and its bytes may be printed. */
    if ((uint32_t)request->dtype < PS_DTYPE_COUNT)
        return PS_OK;
    return ps_fail(error, PS_ERR_BAD_INPUT, "Name: %.*s, there is no element type %d",
                   (int)request->name.size, (const char *)request->name.data, (int)request->dtype);
}

/* Rows come with pushes. Values that are sent along would be lost in silence, and a shape says no
 * more than the width. */
enum ps_status ps_service_check_table(const struct ps_init_request *request, uint32_t width,
                                      struct ps_error *error)
{
    int name_size = (int)request->name.size;
    const char *name = (const char *)request->name.data;
    PS_ASSERT(name_size > 0);
    if (request->content.size > 0 || request->total > 0 || request->range.count > 0)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "Name: %.*s, a table begins without rows: its content is empty", name_size,
                       name);
    const struct ps_shape *shape = &request->shape;
    if (!shape->is_given || (shape->rank == 1 && shape->lengths[0] == width))
        return PS_OK;
    return ps_fail(error, PS_ERR_BAD_INPUT,
                   "Name: %.*s, a table has the width of its configuration, and no other shape",
                   name_size, name);
}

/* Each thing that can be wrong has a text of its own: a trainer's author reads it once, and
 * knows. */
enum ps_status ps_service_check_init(const struct ps_init_request *request, uint64_t *count,
                                     struct ps_error *error)
{
    PS_TRY(ps_service_check_head(request, error));
    int name_size = (int)request->name.size;
    const char *name = (const char *)request->name.data;
    if (request->content.size == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "Name: %.*s, the content is empty", name_size,
                       name);
    if (request->content.size % ps_dtype_size(request->dtype) != 0)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "Name: %.*s, the content has %zu bytes: no whole number of %s elements",
                       name_size, name, request->content.size, ps_dtype_name(request->dtype));
    /* The shape comes last: how many elements there are is known only now. */
    *count = request->content.size / ps_dtype_size(request->dtype);
    return ps_shape_check(&request->shape, request->name, *count, error);
}
