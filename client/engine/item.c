/* SPDX-License-Identifier: Apache-2.0 */
/* One item of a batch: what is wrong with it before it is sent, and what a reply does to it. */
#include "client/engine/batch.h"

#include "base/assert.h"
#include "client/calls/method_table.h"
#include "client/calls/pull_decoder.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static enum ps_status check_rows(enum ps_method method, const struct ps_item *item,
                                 struct ps_error *error);
static enum ps_status check_shape(const struct ps_item *item, struct ps_error *error);
static enum ps_status check_clocks(const struct ps_item *item, struct ps_error *error);
static void take_push(struct ps_item *item, const struct ps_engine_call *call,
                      const struct ps_push_reply *reply);
static enum ps_status take_pull(struct ps_item *item, const struct ps_engine_call *call,
                                const struct ps_pull_reply *reply, struct ps_error *error);
static void take_version(struct ps_item *item, uint64_t version);

/* What the server would refuse anyway is refused here, so that one wrong item costs no message and
 * fails with a text that names the parameter. A name that is too long is cut in that text. */
static enum ps_status check_content(enum ps_method method, const struct ps_item *item,
                                    struct ps_error *error)
{
    int name_size = (int)(item->name.size < PS_NAME_BYTES_MAX ? item->name.size : 64);
    const char *name = (const char *)item->name.data;
    const void *bytes =
        method == PS_METHOD_PULL ? (const void *)item->destination : (const void *)item->content;
    if (!item->any_dtype && (unsigned)item->dtype >= PS_DTYPE_COUNT)
        return ps_fail(error, PS_ERR_BAD_INPUT, "parameter %.*s: %u is not an element type",
                       name_size, name, (unsigned)item->dtype);
    if (item->encoded != NULL && item->encoded->error.status != PS_OK)
        return ps_fail(error, item->encoded->error.status, "parameter %.*s: %.180s", name_size,
                       name, item->encoded->error.text);
    if (item->size == 0 || bytes == NULL ||
        (method == PS_METHOD_PUSH_PULL && item->destination == NULL))
        return ps_fail(error, PS_ERR_BAD_INPUT, "parameter %.*s: the content is empty", name_size,
                       name);
    size_t element_size = item->any_dtype ? 1 : ps_dtype_size(item->dtype);
    if (item->size % element_size != 0)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "parameter %.*s: %zu bytes are not a whole number of %s elements", name_size,
                       name, item->size, ps_dtype_name(item->dtype));
    if (item->config.size > PS_CONFIG_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "parameter %.*s: a configuration of %zu bytes",
                       name_size, name, item->config.size);
    if (method == PS_METHOD_PULL)
        PS_TRY(check_clocks(item, error));
    return item->shape == NULL ? PS_OK : check_shape(item, error);
}

/* Clocks and who reads at them belong together: one without the other would wait for nothing. */
static enum ps_status check_clocks(const struct ps_item *item, struct ps_error *error)
{
    if (item->clocks.size > PS_CLOCKS_NAME_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a name of clocks of %zu bytes: at most %d go",
                       item->clocks.size, PS_CLOCKS_NAME_BYTES_MAX);
    if ((item->worker != 0) != (item->clocks.size != 0))
        return ps_fail(error, PS_ERR_BAD_INPUT, "a pull at a clock names a worker and the clocks");
    return PS_OK;
}

/* Judged before the parameter is cut: its ranges cannot tell any more. */
static enum ps_status check_shape(const struct ps_item *item, struct ps_error *error)
{
    struct ps_shape shape;
    PS_TRY(ps_item_shape(item, &shape, error));
    return ps_shape_check(&shape, item->name, item->size / ps_dtype_size(item->dtype), error);
}

/* One dimension is what a server takes for granted. */
enum ps_status ps_item_shape(const struct ps_item *item, struct ps_shape *shape,
                             struct ps_error *error)
{
    *shape = (struct ps_shape){0};
    if (item->shape == NULL)
        return PS_OK;
    PS_ASSERT((unsigned)item->dtype < PS_DTYPE_COUNT);
    PS_TRY(ps_shape_make(shape, item->shape, item->rank, error));
    ps_shape_settle(shape, item->size / ps_dtype_size(item->dtype));
    return PS_OK;
}

/* Calls to one given server have no content to look at, only a server that must exist. */
enum ps_status ps_item_check(enum ps_method method, const struct ps_item *item,
                             uint32_t shard_count, struct ps_error *error)
{
    if (ps_method_row(method)->names_parameter && !item->of_table)
        return check_content(method, item, error);
    if (item->shard >= shard_count)
        return ps_fail(error, PS_ERR_OUT_OF_RANGE, "there is no shard %u of %u", item->shard,
                       shard_count);
    return item->of_table ? check_rows(method, item, error) : PS_OK;
}

/* Whoever cuts keys makes content and room that fit, and checks them there; what a caller may get
 * wrong is the rest. No shape is looked at: a table has none but its width. */
static enum ps_status check_rows(enum ps_method method, const struct ps_item *item,
                                 struct ps_error *error)
{
    const struct ps_method_row *row = ps_method_row(method);
    int name_size = (int)(item->name.size < PS_NAME_BYTES_MAX ? item->name.size : 64);
    const char *name = (const char *)item->name.data;
    PS_ASSERT(!row->pushes || item->encoded->encoding == PS_ENCODING_ROWS);
    /* A read that waits for clocks may be of no rows: it says that its worker changes none. One
     * without rows or clocks asks for the version alone. */
    PS_ASSERT(!row->pulls || item->destination != NULL);
    if ((unsigned)item->dtype >= PS_DTYPE_COUNT)
        return ps_fail(error, PS_ERR_BAD_INPUT, "table %.*s: %u is not an element type", name_size,
                       name, (unsigned)item->dtype);
    if (item->config.size > PS_CONFIG_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "table %.*s: a configuration of %zu bytes",
                       name_size, name, item->config.size);
    return method == PS_METHOD_PULL ? check_clocks(item, error) : PS_OK;
}

/* A cut parameter may fail on several shards. The first failure is the reason, and the later ones
 * are often only its consequences. */
void ps_item_fail(struct ps_item *item, enum ps_status status, const char *text)
{
    PS_ASSERT(status != PS_OK);
    if (item->status != PS_OK)
        return;
    item->status = status;
    ps_item_note(item, text[0] != '\0' ? text : ps_status_sentence(status));
}

/* Also used for reasons that do not decide yet: a call that is repeated keeps what its last
 * attempt said. */
void ps_item_note(struct ps_item *item, const char *text)
{
    size_t length = strnlen(text, sizeof item->text - 1);
    memcpy(item->text, text, length);
    item->text[length] = '\0';
}

/* Callers never see the marks that stand for "no reply has brought one", nor the reason of an
 * attempt that was repeated with success. */
void ps_item_close(struct ps_item *item)
{
    if (item->version == PS_NO_VERSION)
        item->version = 0;
    if (item->pulled_version == PS_NO_VERSION)
        item->pulled_version = 0;
    if (item->status == PS_OK)
        item->text[0] = '\0';
    else
        item->existed = false;
}

/* A reply is taken by what it has: a push, a pull, both, or an answer that only its taker
 * understands. */
enum ps_status ps_item_take(struct ps_item *item, const struct ps_engine_call *call,
                            const struct ps_call_reply *reply, struct ps_error *error)
{
    PS_ASSERT(reply->method == call->request.method);
    const struct ps_push_reply *push = ps_call_pushed(reply);
    const struct ps_pull_reply *pull = ps_call_pulled(reply);
    if (item->answer.take != NULL && !ps_method_row(reply->method)->names_parameter)
        return item->answer.take(item->answer.self, reply, error);
    if (push != NULL)
        take_push(item, call, push);
    /* Of a parameter that is cut each range says it for itself: one that is new makes the item new,
     * since some of the values are the caller's then. */
    if (call->request.method == PS_METHOD_DEFINE)
        item->existed = item->existed && reply->init.existed;
    /* The version of a push and pull in one is that of its push. */
    if (pull != NULL && push == NULL)
        take_version(item, pull->version);
    return pull != NULL ? take_pull(item, call, pull, error) : PS_OK;
}

/* Positions of different shards have nothing to do with each other, so only a parameter that lives
 * whole on one shard gets one. A range that was a duplicate makes the item one: the caller learns
 * that some earlier attempt had arrived. */
static void take_push(struct ps_item *item, const struct ps_engine_call *call,
                      const struct ps_push_reply *reply)
{
    PS_ASSERT(call->size <= item->size);
    take_version(item, reply->version);
    item->duplicate = item->duplicate || reply->duplicate;
    item->held = item->held || reply->held;
    item->late = item->late || reply->late;
    if (call->size == item->size)
        item->position = reply->position;
}

/* The server has written all of it where it belongs, or the caller asks once more in another way.
 * */
static enum ps_status check_pulled_there(const struct ps_item *item,
                                         const struct ps_engine_call *call,
                                         const struct ps_pull_reply *reply, struct ps_error *error)
{
    PS_ASSERT(item->place != NULL);
    if (reply->shared_size == call->size)
        return PS_OK;
    return ps_fail(error, PS_ERR_UNSUPPORTED,
                   "parameter %.*s: the server has not written %zu bytes to the device",
                   (int)item->name.size, (const char *)item->name.data, call->size);
}

/* Checks before it writes: the caller's memory is as long as the caller said, and the server's
 * parameter may be of another type or length. */
static enum ps_status take_pull(struct ps_item *item, const struct ps_engine_call *call,
                                const struct ps_pull_reply *reply, struct ps_error *error)
{
    struct ps_bytes name = item->name;
    if (!item->any_dtype && reply->dtype != item->dtype)
        return ps_fail(error, PS_ERR_BAD_INPUT, "parameter %.*s: holds %s elements, asked for %s",
                       (int)name.size, (const char *)name.data, ps_dtype_name(reply->dtype),
                       ps_dtype_name(item->dtype));
    /* Calls of a cut parameter write side by side: each has its own part of the destination. */
    const struct ps_pull_request *pull = ps_call_pull_of(&call->request);
    /* A server that knows of no such wait answers at once, and a trainer would go on from values
     * that are not of its round. */
    if (reply->version < pull->at_least_version)
        return ps_fail(error, PS_ERR_UNSUPPORTED,
                       "parameter %.*s: version %" PRIu64 " came, and %" PRIu64
                       " was waited for: its server is too old for rounds",
                       (int)name.size, (const char *)name.data, reply->version,
                       pull->at_least_version);
    if (item->place != NULL)
        PS_TRY(check_pulled_there(item, call, reply, error));
    else if (item->as_is)
        PS_TRY(ps_pull_reply_take_as_is(reply, item->encoding, name, pull->destination,
                                        call->size / ps_dtype_size(item->dtype), error));
    else
        PS_TRY(
            ps_pull_reply_take(reply, name, item->destination + call->offset, call->size, error));
    if (item->any_dtype)
        item->dtype = reply->dtype;
    if (reply->version < item->pulled_version)
        item->pulled_version = reply->version;
    return PS_OK;
}

/* Ranges of a cut parameter live on shards that count by themselves: only the lowest is true of
 * all. */
static void take_version(struct ps_item *item, uint64_t version)
{
    if (version < item->version)
        item->version = version;
}
