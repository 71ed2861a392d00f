/* One item of a batch: what is wrong with it before it is sent, and what a reply does to it. */
#include "client/batch.h"

#include "base/assert.h"
#include "client/pull_decoder.h"
#include "client/replica.h"

#include <stdio.h>
#include <string.h>

static void take_push(struct ps_item *item, const struct ps_engine_call *call,
                      const struct ps_push_reply *reply);
static enum ps_status take_pull(struct ps_item *item, const struct ps_engine_call *call,
                                const struct ps_pull_reply *reply, struct ps_error *error);
static void take_version(struct ps_item *item, uint64_t version);
static void take_server_status(struct psclient_server_status *to,
                               const struct ps_status_reply *from);
static void take_list(struct ps_list_rows *to, const struct ps_list_reply *from);
static void take_saved(struct psclient_saved *to, const struct ps_save_reply *from);
static void copy_text(char *to, size_t size, const char *from);

bool ps_method_names_parameter(enum ps_method method)
{
    return method == PS_METHOD_INIT || method == PS_METHOD_PUSH || method == PS_METHOD_PULL ||
           method == PS_METHOD_PUSH_PULL;
}

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
    return PS_OK;
}

enum ps_status ps_item_check(enum ps_method method, const struct ps_item *item,
                             uint32_t shard_count, struct ps_error *error)
{
    if (ps_method_names_parameter(method))
        return check_content(method, item, error);
    if (item->shard >= shard_count)
        return ps_fail(error, PS_ERR_OUT_OF_RANGE, "there is no shard %u of %u", item->shard,
                       shard_count);
    return PS_OK;
}

void ps_item_fail(struct ps_item *item, enum ps_status status, const char *text)
{
    PS_ASSERT(status != PS_OK);
    if (item->status != PS_OK)
        return;
    item->status = status;
    ps_item_note(item, text[0] != '\0' ? text : ps_status_sentence(status));
}

void ps_item_note(struct ps_item *item, const char *text)
{
    copy_text(item->text, sizeof item->text, text);
}

void ps_item_close(struct ps_item *item)
{
    if (item->version == PS_NO_VERSION)
        item->version = 0;
    if (item->pulled_version == PS_NO_VERSION)
        item->pulled_version = 0;
    if (item->status == PS_OK)
        item->text[0] = '\0';
}

enum ps_status ps_item_take(struct ps_item *item, const struct ps_engine_call *call,
                            const struct ps_call_reply *reply, struct ps_error *error)
{
    PS_ASSERT(reply->method == call->request.method);
    switch (reply->method) {
    case PS_METHOD_PUSH:
        take_push(item, call, &reply->push);
        return PS_OK;
    case PS_METHOD_PULL:
        take_version(item, reply->pull.version);
        return take_pull(item, call, &reply->pull, error);
    case PS_METHOD_PUSH_PULL:
        take_push(item, call, &reply->push_pull.push);
        return take_pull(item, call, &reply->push_pull.pull, error);
    case PS_METHOD_STATUS:
        take_server_status(item->server_status, &reply->status);
        return PS_OK;
    case PS_METHOD_LIST:
        take_list(item->list, &reply->list);
        return PS_OK;
    case PS_METHOD_SAVE:
        take_saved(item->saved, &reply->save);
        return PS_OK;
    case PS_METHOD_SINCE:
        return ps_replica_take(item->since, &reply->since, error);
    case PS_METHOD_DRAIN:
    case PS_METHOD_INIT:
    case PS_METHOD_FINISH:
    case PS_METHOD_PUSHES:
    case PS_METHOD_PULLS:
    case PS_METHOD_COUNT:
        break;
    }
    return PS_OK;
}

/* Positions of different shards have nothing to do with each other. */
static void take_push(struct ps_item *item, const struct ps_engine_call *call,
                      const struct ps_push_reply *reply)
{
    take_version(item, reply->version);
    item->duplicate = item->duplicate || reply->duplicate;
    if (call->size == item->size)
        item->position = reply->position;
}

static enum ps_status take_pull(struct ps_item *item, const struct ps_engine_call *call,
                                const struct ps_pull_reply *reply, struct ps_error *error)
{
    struct ps_bytes name = item->name;
    if (!item->any_dtype && reply->dtype != item->dtype)
        return ps_fail(error, PS_ERR_BAD_INPUT, "parameter %.*s: holds %s elements, asked for %s",
                       (int)name.size, (const char *)name.data, ps_dtype_name(reply->dtype),
                       ps_dtype_name(item->dtype));
    PS_TRY(ps_pull_reply_take(reply, name, item->destination + call->offset, call->size, error));
    if (item->any_dtype)
        item->dtype = reply->dtype;
    if (reply->version < item->pulled_version)
        item->pulled_version = reply->version;
    return PS_OK;
}

static void take_version(struct ps_item *item, uint64_t version)
{
    if (version < item->version)
        item->version = version;
}

static void take_server_status(struct psclient_server_status *to,
                               const struct ps_status_reply *from)
{
    to->index = from->index;
    copy_text(to->address, sizeof to->address, from->address);
    copy_text(to->state, sizeof to->state, from->state);
    copy_text(to->version, sizeof to->version, from->program_version);
    copy_text(to->device, sizeof to->device, from->device);
    copy_text(to->checkpoint_uuid, sizeof to->checkpoint_uuid, from->checkpoint_uuid);
    to->epoch = from->epoch;
    to->parameter_count = from->parameter_count;
    to->parameter_bytes = from->parameter_bytes;
    to->state_bytes = from->state_bytes;
    to->push_count = from->push_count;
    to->pull_count = from->pull_count;
    to->position = from->position;
    to->checkpoint_position = from->checkpoint_position;
    to->checkpoint_unix_ns = from->checkpoint_unix_ns;
    to->uptime_ms = from->uptime_ms;
    to->lost_push_count = from->lost_count;
}

static void take_list(struct ps_list_rows *to, const struct ps_list_reply *from)
{
    to->count = from->param_count < to->count_max ? from->param_count : to->count_max;
    to->more = from->more || from->param_count > to->count;
    for (size_t i = 0; i < to->count; i++) {
        struct psclient_param_info *row = &to->rows[i];
        const struct ps_param_info *info = &from->params[i];
        size_t name_size =
            info->name.size < sizeof row->name ? info->name.size : sizeof row->name - 1;
        memcpy(row->name, info->name.data, name_size);
        row->name[name_size] = '\0';
        row->type = (enum psclient_type)info->dtype;
        row->element_count = info->element_count;
        row->version = info->version;
        row->state_bytes = info->state_bytes;
        row->learning_rate = info->learning_rate;
        copy_text(row->rule, sizeof row->rule, info->rule);
    }
}

static void take_saved(struct psclient_saved *to, const struct ps_save_reply *from)
{
    copy_text(to->uuid, sizeof to->uuid, from->uuid);
    copy_text(to->path, sizeof to->path, from->path);
    to->position = from->position;
    to->bytes = from->bytes;
}

/* Cuts what does not fit. */
static void copy_text(char *to, size_t size, const char *from)
{
    size_t length = from == NULL ? 0 : strnlen(from, size - 1);
    if (length > 0)
        memcpy(to, from, length);
    to[length] = '\0';
}
