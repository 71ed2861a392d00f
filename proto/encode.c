/* Structs to bytes: everything but the bulk content, whose tag and length end the head. */
#include "proto/codec.h"

#include "base/bounds.h"
#include "proto/delta_codec.h"
#include "proto/shared_range.h"
#include "proto/wire.h"

/* Field numbers that several messages share. */
enum {
    FIELD_NAME = 1,
    FIELD_TYPE = 2,
    FIELD_CONTENT = 3,
    FIELD_SHARED = 12,
    FIELD_SHARD = 14,
    FIELD_REQUEST = 15
};

/* Room for a ParamInfo: a name, a rule's name and five numbers. */
enum { PARAM_INFO_BYTES_MAX = PS_NAME_BYTES_MAX + 256 };

static void put_request_id(struct ps_buffer *head, const struct ps_request_id *request);
static void put_param_info(struct ps_buffer *head, const struct ps_param_info *param);

void ps_encode_init(const struct ps_init_request *request, struct ps_buffer *head)
{
    ps_wire_put_bytes(head, FIELD_NAME, request->name);
    ps_wire_put_uint(head, FIELD_TYPE, request->dtype);
    ps_wire_put_bytes(head, 4, request->config);
    ps_wire_put_uint(head, 7, request->range.first);
    ps_wire_put_uint(head, 8, request->range.count);
    ps_wire_put_uint(head, 9, request->total);
    ps_wire_put_uint(head, FIELD_SHARD, request->shard);
    put_request_id(head, &request->request);
    ps_wire_put_head(head, FIELD_CONTENT, request->content.size);
}

void ps_encode_init_reply(const struct ps_init_reply *reply, struct ps_buffer *head)
{
    ps_wire_put_uint(head, 1, reply->epoch);
    ps_wire_put_uint(head, 2, reply->staged ? 1 : 0);
}

void ps_encode_finish(const struct ps_finish_request *request, struct ps_buffer *head)
{
    ps_wire_put_uint(head, 1, request->epoch);
    ps_wire_put_uint(head, FIELD_SHARD, request->shard);
    put_request_id(head, &request->request);
}

void ps_encode_push(const struct ps_push_request *request, struct ps_buffer *head)
{
    ps_wire_put_bytes(head, FIELD_NAME, request->name);
    ps_wire_put_uint(head, FIELD_TYPE, request->dtype);
    ps_wire_put_uint(head, 5, request->ack);
    ps_wire_put_uint(head, 6, request->encoding);
    ps_shared_range_put(head, FIELD_SHARED, &request->shared);
    ps_wire_put_uint(head, 7, request->range.first);
    ps_wire_put_uint(head, 8, request->range.count);
    ps_wire_put_uint(head, FIELD_SHARD, request->shard);
    put_request_id(head, &request->request);
    ps_wire_put_head(head, FIELD_CONTENT, request->content.size);
}

void ps_encode_push_reply(const struct ps_push_reply *reply, struct ps_buffer *head)
{
    ps_wire_put_uint(head, 1, reply->version);
    ps_wire_put_uint(head, 2, reply->duplicate ? 1 : 0);
    ps_wire_put_uint(head, 3, reply->position);
    ps_wire_put_uint(head, 4, reply->durable_position);
    ps_wire_put_uint(head, 5, reply->staged ? 1 : 0);
}

void ps_encode_pull(const struct ps_pull_request *request, struct ps_buffer *head)
{
    ps_wire_put_bytes(head, FIELD_NAME, request->name);
    ps_wire_put_uint(head, 2, request->encoding);
    ps_shared_range_put(head, FIELD_SHARED, &request->shared);
    ps_wire_put_uint(head, 3, request->range.first);
    ps_wire_put_uint(head, 4, request->range.count);
    ps_wire_put_uint(head, 5, request->version);
    ps_held_put(head, 6, &request->held);
    ps_wire_put_uint(head, 7, request->life);
    ps_wire_put_uint(head, 8, request->of_push ? 1 : 0);
    ps_wire_put_uint(head, FIELD_SHARD, request->shard);
}

void ps_encode_pull_reply(const struct ps_pull_reply *reply, struct ps_buffer *head)
{
    ps_wire_put_bytes(head, FIELD_NAME, reply->name);
    ps_wire_put_uint(head, FIELD_TYPE, reply->dtype);
    ps_wire_put_uint(head, 4, reply->version);
    ps_wire_put_uint(head, 5, reply->encoding);
    ps_wire_put_uint(head, FIELD_SHARED, reply->shared_size);
    ps_wire_put_uint(head, 6, reply->range.first);
    ps_wire_put_uint(head, 7, reply->range.count);
    ps_wire_put_uint(head, 8, reply->total);
    ps_delta_put(head, 9, &reply->delta);
    ps_wire_put_uint(head, 10, reply->life);
    ps_wire_put_head(head, FIELD_CONTENT, reply->content.size);
}

void ps_encode_status_reply(const struct ps_status_reply *reply, struct ps_buffer *head)
{
    ps_wire_put_text(head, 1, reply->program_version);
    ps_wire_put_uint(head, 2, reply->index);
    ps_wire_put_uint(head, 3, reply->shard_count);
    ps_wire_put_uint(head, 4, reply->epoch);
    ps_wire_put_text(head, 5, reply->state);
    ps_wire_put_uint(head, 6, reply->parameter_count);
    ps_wire_put_uint(head, 7, reply->parameter_bytes);
    ps_wire_put_uint(head, 8, reply->state_bytes);
    ps_wire_put_uint(head, 9, reply->push_count);
    ps_wire_put_uint(head, 10, reply->pull_count);
    ps_wire_put_uint(head, 11, reply->position);
    ps_wire_put_text(head, 12, reply->checkpoint_uuid);
    ps_wire_put_uint(head, 13, reply->checkpoint_position);
    ps_wire_put_uint(head, 14, reply->checkpoint_unix_ns);
    ps_wire_put_uint(head, 15, reply->uptime_ms);
    ps_wire_put_text(head, 16, reply->device);
    ps_wire_put_text(head, 17, reply->job);
    ps_wire_put_text(head, 18, reply->address);
    ps_wire_put_uint(head, 19, reply->lost_count);
}

void ps_encode_list(const struct ps_list_request *request, struct ps_buffer *head)
{
    ps_wire_put_bytes(head, 1, request->after);
    ps_wire_put_uint(head, 2, request->limit);
}

void ps_encode_list_reply(const struct ps_list_reply *reply, struct ps_buffer *head)
{
    for (size_t i = 0; i < reply->param_count; i++)
        put_param_info(head, &reply->params[i]);
    ps_wire_put_uint(head, 2, reply->more ? 1 : 0);
}

void ps_encode_save(const struct ps_save_request *request, struct ps_buffer *head)
{
    ps_wire_put_uint(head, 1, request->once ? 1 : 0);
}

void ps_encode_drain(const struct ps_drain_request *request, struct ps_buffer *head)
{
    ps_wire_put_uint(head, 1, request->epoch);
}

void ps_encode_save_reply(const struct ps_save_reply *reply, struct ps_buffer *head)
{
    ps_wire_put_text(head, 1, reply->uuid);
    ps_wire_put_text(head, 2, reply->path);
    ps_wire_put_uint(head, 3, reply->position);
    ps_wire_put_uint(head, 4, reply->bytes);
}

/* A number field whose tag takes one byte. */
static size_t uint_size(uint64_t value)
{
    return value == 0 ? 0 : 1 + ps_wire_varint_size(value);
}

/* A bytes field whose tag takes one byte. */
static size_t bytes_size(size_t size)
{
    return size == 0 ? 0 : 1 + ps_wire_varint_size(size) + size;
}

static void put_request_id(struct ps_buffer *head, const struct ps_request_id *request)
{
    if (!request->present)
        return;
    size_t size = bytes_size(request->client_id.size) + uint_size(request->session) +
                  uint_size(request->sequence);
    ps_wire_put_head(head, FIELD_REQUEST, size);
    ps_wire_put_bytes(head, 1, request->client_id);
    ps_wire_put_uint(head, 2, request->session);
    ps_wire_put_uint(head, 3, request->sequence);
}

static void put_param_info(struct ps_buffer *head, const struct ps_param_info *param)
{
    char text[PARAM_INFO_BYTES_MAX];
    struct ps_buffer entry;
    ps_buffer_init_fixed(&entry, text, sizeof text);
    ps_wire_put_bytes(&entry, 1, param->name);
    ps_wire_put_uint(&entry, 2, param->dtype);
    ps_wire_put_uint(&entry, 3, param->element_count);
    ps_wire_put_uint(&entry, 4, param->version);
    ps_wire_put_text(&entry, 5, param->rule);
    ps_wire_put_double(&entry, 6, param->learning_rate);
    ps_wire_put_uint(&entry, 7, param->state_bytes);
    ps_wire_put_head(head, 1, entry.size);
    ps_buffer_append(head, (struct ps_bytes){(const uint8_t *)entry.text, entry.size});
    head->failed = head->failed || entry.failed;
}
