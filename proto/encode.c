/* SPDX-License-Identifier: Apache-2.0 */
/* Structs to bytes: everything but the bulk content, whose tag and length end the head. The sender
 * puts the content's own slices behind the head, so a parameter of many megabytes is never copied
 * to be sent.
 *
 * Fields are written by hand, not through protobuf-c, which would want the content in one piece and
 * in its own structs. Readers accept any order of fields; the content is last because nothing can
 * follow bytes that are not here. Fields with their default value are left out, as proto3 has
 * it. */
#include "proto/codec.h"

#include "base/bounds.h"
#include "proto/decode_parts.h"
#include "proto/delta_codec.h"
#include "proto/shape_codec.h"
#include "proto/shared_range.h"
#include "proto/wire.h"

/* Field numbers that several messages share. They are part of the contract and never change; all of
 * them are below 16, so each tag takes one byte. */
enum {
    FIELD_NAME = 1,
    FIELD_TYPE = 2,
    FIELD_CONTENT = 3,
    FIELD_SHARED = 12,
    FIELD_SHARD = 14,
    FIELD_REQUEST = 15
};

/* Room for a ParamInfo: a name, a shape, a rule's name, seven numbers and a few ranks. */
enum {
    PARAM_INFO_BYTES_MAX =
        PS_NAME_BYTES_MAX + 10 * PS_SHAPE_RANK_MAX + PS_ROUND_MISSING_BYTES_MAX + 256
};

static void put_param_info(struct ps_buffer *head, const struct ps_param_info *param);

/* The order within a head does not matter to any reader; the tests compare bytes, so it is
 * fixed. */
void ps_encode_init(const struct ps_init_request *request, struct ps_buffer *head)
{
    ps_wire_put_bytes(head, FIELD_NAME, request->name);
    ps_wire_put_uint(head, FIELD_TYPE, request->dtype);
    ps_wire_put_bytes(head, 4, request->config);
    ps_wire_put_uint(head, 7, request->range.first);
    ps_wire_put_uint(head, 8, request->range.count);
    /* A range says how many elements the whole parameter has; others say 0. */
    ps_wire_put_uint(head, 9, request->total);
    ps_shape_put(head, 10, 11, &request->shape);
    ps_wire_put_uint(head, FIELD_SHARD, request->shard);
    ps_encode_request_id(&request->request, head);
    /* Also for 0 bytes: an explicit empty content lets the server say "no elements" and not "no
     * content". */
    ps_wire_put_head(head, FIELD_CONTENT, request->content.size);
}

/* A reply of zeros is an empty message, and a valid one. */
void ps_encode_init_reply(const struct ps_init_reply *reply, struct ps_buffer *head)
{
    ps_wire_put_uint(head, 1, reply->epoch);
    ps_wire_put_uint(head, 2, reply->staged ? 1 : 0);
    ps_wire_put_uint(head, 3, reply->existed ? 1 : 0);
}

/* The request id makes the end of an initialisation repeatable, as for a push. */
void ps_encode_finish(const struct ps_finish_request *request, struct ps_buffer *head)
{
    ps_wire_put_uint(head, 1, request->epoch);
    ps_wire_put_uint(head, 2, request->placement);
    ps_wire_put_uint(head, FIELD_SHARD, request->shard);
    ps_encode_request_id(&request->request, head);
}

/* Most fields are 0 in most pushes and take no bytes: so are those of a contribution to a round,
 * where the parameter is trained without rounds. */
void ps_encode_push(const struct ps_push_request *request, struct ps_buffer *head)
{
    ps_wire_put_bytes(head, FIELD_NAME, request->name);
    ps_wire_put_uint(head, FIELD_TYPE, request->dtype);
    ps_wire_put_uint(head, 5, request->ack);
    ps_wire_put_uint(head, 6, request->encoding);
    ps_shared_range_put(head, FIELD_SHARED, &request->shared);
    ps_wire_put_uint(head, 7, request->range.first);
    ps_wire_put_uint(head, 8, request->range.count);
    ps_wire_put_uint(head, 9, request->worker);
    ps_wire_put_uint(head, 10, request->round);
    ps_wire_put_float(head, 11, request->weight);
    ps_wire_put_uint(head, 13, request->row_width);
    ps_wire_put_uint(head, FIELD_SHARD, request->shard);
    ps_encode_request_id(&request->request, head);
    ps_wire_put_head(head, FIELD_CONTENT, request->content.size);
}

/* Replies without content are whole messages. A contribution is answered before its round is over:
 * the version is that of the round, and "held" says that it is still to come. */
void ps_encode_push_reply(const struct ps_push_reply *reply, struct ps_buffer *head)
{
    ps_wire_put_uint(head, 1, reply->version);
    ps_wire_put_uint(head, 2, reply->duplicate ? 1 : 0);
    ps_wire_put_uint(head, 3, reply->position);
    ps_wire_put_uint(head, 4, reply->durable_position);
    ps_wire_put_uint(head, 5, reply->staged ? 1 : 0);
    ps_wire_put_uint(head, 6, reply->held ? 1 : 0);
    ps_wire_put_uint(head, 7, reply->late ? 1 : 0);
}

/* A pull is a head without content, or with the keys of a table behind it. What it waits for stands
 * behind what it wants, and takes no bytes where nothing is waited for. */
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
    ps_wire_put_uint(head, 9, request->with_shape ? 1 : 0);
    ps_wire_put_uint(head, 10, request->at_least_version);
    ps_wire_put_uint(head, 11, request->worker);
    ps_wire_put_uint(head, 13, request->clock);
    ps_wire_put_bytes(head, 15, request->clocks);
    ps_wire_put_uint(head, FIELD_SHARD, request->shard);
    /* A whole parameter is asked for without keys, as before there were tables. */
    if (request->keys.size > 0)
        ps_wire_put_head(head, 16, request->keys.size);
}

/* Field 3, the content, comes last although fields above it have higher numbers. */
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
    if (reply->shape != NULL)
        ps_shape_put(head, 11, 13, reply->shape);
    ps_wire_put_head(head, FIELD_CONTENT, reply->content.size);
}

/* For operators: a snapshot of counters, each read on its own. Field numbers are those of
 * admin.proto. */
void ps_encode_status_reply(const struct ps_status_reply *reply, struct ps_buffer *head)
{
    ps_wire_put_text(head, 1, reply->program_version);
    ps_wire_put_uint(head, 2, reply->index);
    ps_wire_put_uint(head, 3, reply->shard_count);
    ps_wire_put_uint(head, 4, reply->epoch);
    /* The state in words, so that a tool of another version can show it. */
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
    ps_wire_put_uint(head, 20, reply->placement);
}

/* A limit of 0 leaves the size of the page to the server. */
void ps_encode_list(const struct ps_list_request *request, struct ps_buffer *head)
{
    ps_wire_put_bytes(head, 1, request->after);
    ps_wire_put_uint(head, 2, request->limit);
    ps_wire_put_uint(head, 3, request->with_config ? 1 : 0);
    ps_wire_put_bytes(head, 4, request->prefix);
}

/* One page of parameters; `more` tells the tool to ask again after the last name. */
void ps_encode_list_reply(const struct ps_list_reply *reply, struct ps_buffer *head)
{
    for (size_t i = 0; i < reply->param_count; i++)
        put_param_info(head, &reply->params[i]);
    ps_wire_put_uint(head, 2, reply->more ? 1 : 0);
}

/* "Once": an attempt that fails is reported at once instead of being tried again in the
 * background. */
void ps_encode_save(const struct ps_save_request *request, struct ps_buffer *head)
{
    ps_wire_put_uint(head, 1, request->once ? 1 : 0);
}

/* The epoch says which owner is meant. */
void ps_encode_drain(const struct ps_drain_request *request, struct ps_buffer *head)
{
    ps_wire_put_uint(head, 1, request->epoch);
}

/* The reply says where the file is. */
void ps_encode_save_reply(const struct ps_save_reply *reply, struct ps_buffer *head)
{
    ps_wire_put_text(head, 1, reply->uuid);
    ps_wire_put_text(head, 2, reply->path);
    ps_wire_put_uint(head, 3, reply->position);
    ps_wire_put_uint(head, 4, reply->bytes);
}

/* The size of a number field whose tag takes one byte, as ps_wire_put_uint would write it. */
static size_t uint_size(uint64_t value)
{
    return value == 0 ? 0 : 1 + ps_wire_varint_size(value);
}

/* The size of a bytes field whose tag takes one byte, as ps_wire_put_bytes would write it. */
static size_t bytes_size(size_t size)
{
    return size == 0 ? 0 : 1 + ps_wire_varint_size(size) + size;
}

/* The size is computed instead of written to a buffer first: this runs for every push. */
void ps_encode_request_id(const struct ps_request_id *request, struct ps_buffer *head)
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

/* A list is rare, so here the entry is written aside first. A failed entry fails the whole head:
 * half an entry would be read as a parameter. */
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
    ps_shape_put(&entry, 8, 9, &param->shape);
    /* Of a parameter without rounds all three are absent, as they are from an older server. */
    ps_wire_put_uint(&entry, 11, param->round_workers);
    ps_wire_put_uint(&entry, 12, param->round_counted);
    ps_wire_put_text(&entry, 13, param->round_missing);
    /* A repeated message: one field of number 1 for each entry, the configuration at its end. */
    ps_wire_put_head(head, 1, entry.size + bytes_size(param->config.size));
    ps_buffer_append(head, (struct ps_bytes){(const uint8_t *)entry.text, entry.size});
    ps_wire_put_bytes(head, 10, param->config);
    head->failed = head->failed || entry.failed;
}
