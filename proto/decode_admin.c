/* SPDX-License-Identifier: Apache-2.0 */
/* What operators' tools and servers say to each other (proto/pserver/v1/admin.proto). The replies
 * have many fields, are rare and small, and nothing in them is bulk, so protobuf-c unpacks them,
 * which is worth the copy; the requests of one field are read by hand, as the calls of training are
 * (decode.c). */
#include "proto/codec.h"

#include "base/assert.h"
#include "base/bounds.h"
#include "proto/arena.h"
#include "proto/unpack.h"
#include "proto/wire.h"

#include "pserver/v1/admin.pb-c.h"

#include <stdio.h>

static enum ps_status unpack_view(struct ps_view view, const ProtobufCMessageDescriptor *descriptor,
                                  struct ps_arena *arena, ProtobufCMessage **message,
                                  struct ps_error *error);
static enum ps_status list_params(const Pserver__V1__ListParamsResponse *message,
                                  struct ps_arena *arena, struct ps_list_reply *reply,
                                  struct ps_error *error);
static enum ps_status read_param(const Pserver__V1__ParamInfo *info, struct ps_param_info *param,
                                 struct ps_error *error);

/* Hands the arena's blocks to `decoded`, or releases them when `status` is a failure. The texts of
 * a reply point into these blocks, so both live and end together. */
static enum ps_status settle(struct ps_arena *arena, struct ps_decoded *decoded,
                             enum ps_status status)
{
    *decoded = (struct ps_decoded){0};
    if (status != PS_OK) {
        ps_arena_release(arena);
        return status;
    }
    /* What ps_decoded_release goes by: without it there is nothing to release. */
    decoded->memory = arena->memory;
    decoded->message = ps_arena_detach(arena);
    return PS_OK;
}

/* The arena's cap follows from the size of the message: a server that answers nonsense can make a
 * tool fail, not swell. */
enum ps_status ps_decode_status_reply(struct ps_view bytes, const struct ps_allocator *memory,
                                      struct ps_status_reply *reply, struct ps_decoded *decoded,
                                      struct ps_error *error)
{
    struct ps_arena arena;
    ps_arena_init(&arena, memory, ps_unpack_bytes_max(bytes.size));
    ProtobufCMessage *message = NULL;
    PS_TRY(settle(&arena, decoded,
                  unpack_view(bytes, &pserver__v1__get_status_response__descriptor, &arena,
                              &message, error)));
    /* Texts are copied as pointers: protobuf-c gives "" for an absent one, never NULL. */
    const Pserver__V1__GetStatusResponse *read = (const Pserver__V1__GetStatusResponse *)message;
    /* Copied field by field and not by a cast: the order of both structs is nobody's contract. */
    *reply = (struct ps_status_reply){
        .program_version = read->program_version,
        .index = read->index,
        .shard_count = read->shard_count,
        .epoch = read->epoch,
        .state = read->state,
        .parameter_count = read->parameter_count,
        .parameter_bytes = read->parameter_bytes,
        .state_bytes = read->state_bytes,
        .push_count = read->push_count,
        .pull_count = read->pull_count,
        .position = read->position,
        .checkpoint_uuid = read->checkpoint_uuid,
        .checkpoint_position = read->checkpoint_position,
        .checkpoint_unix_ns = read->checkpoint_unix_ns,
        .uptime_ms = read->uptime_ms,
        .device = read->device,
        .job = read->job,
        .address = read->address,
        .lost_count = read->lost_push_count,
        .placement = read->placement,
    };
    return PS_OK;
}

/* Unpack, settle, fill in: the shape of a status reply, for four fields. */
enum ps_status ps_decode_save_reply(struct ps_view bytes, const struct ps_allocator *memory,
                                    struct ps_save_reply *reply, struct ps_decoded *decoded,
                                    struct ps_error *error)
{
    struct ps_arena arena;
    ps_arena_init(&arena, memory, ps_unpack_bytes_max(bytes.size));
    ProtobufCMessage *message = NULL;
    PS_TRY(settle(&arena, decoded,
                  unpack_view(bytes, &pserver__v1__save_checkpoint_response__descriptor, &arena,
                              &message, error)));
    /* protobuf-c's messages begin with a ProtobufCMessage, by which the cast is theirs to
     * promise. */
    const Pserver__V1__SaveCheckpointResponse *read =
        (const Pserver__V1__SaveCheckpointResponse *)message;
    /* The texts live in `decoded`, like those of a status. */
    *reply = (struct ps_save_reply){
        .uuid = read->uuid, .path = read->path, .position = read->position, .bytes = read->bytes};
    return PS_OK;
}

/* What a server says is not believed: the number of shards makes rows at the caller, so that it is
 * bounded here, and indices are compared with it there. Texts are protobuf-c's, which are UTF-8 or
 * refuse the message. */
static enum ps_status list_shards(const Pserver__V1__SaveModelResponse *message,
                                  struct ps_arena *arena, struct ps_model_reply *reply,
                                  struct ps_error *error)
{
    if (message->shard_count > PS_SHARDS_MAX || message->n_shards > PS_SHARDS_MAX)
        /* The caller makes a row for each, whatever rows come. */
        return ps_fail(error, PS_ERR_BAD_INPUT, "shard_count: more than %d", PS_SHARDS_MAX);
    /* From the arena of the message, whose cap bounds this array, too. */
    struct ps_saved_shard *shards = ps_arena_take(arena, message->n_shards * sizeof *shards);
    if (shards == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "decode: %zu shards", message->n_shards);
    for (size_t i = 0; i < message->n_shards; i++) {
        /* The texts stay where protobuf-c has put them. */
        const Pserver__V1__SavedShard *row = message->shards[i];
        shards[i] = (struct ps_saved_shard){.index = row->index,
                                            .uuid = row->uuid,
                                            .path = row->path,
                                            .position = row->position,
                                            .bytes = row->bytes,
                                            .epoch = row->epoch,
                                            .unix_ns = row->unix_ns};
    }
    /* Copied field by field, as a status is. */
    *reply = (struct ps_model_reply){.set = message->set,
                                     .whole = message->whole != 0,
                                     .existed = message->existed != 0,
                                     .shard_count = message->shard_count,
                                     .shards = shards,
                                     .count = message->n_shards};
    return PS_OK;
}

/* As a list of parameters: read and settled first, handed out last. */
enum ps_status ps_decode_model_reply(struct ps_view bytes, const struct ps_allocator *memory,
                                     struct ps_model_reply *reply, struct ps_decoded *decoded,
                                     struct ps_error *error)
{
    struct ps_arena arena;
    struct ps_model_reply read = {0};
    ProtobufCMessage *message = NULL;
    ps_arena_init(&arena, memory, ps_unpack_bytes_max(bytes.size));
    enum ps_status status =
        unpack_view(bytes, &pserver__v1__save_model_response__descriptor, &arena, &message, error);
    if (status == PS_OK)
        status = list_shards((const Pserver__V1__SaveModelResponse *)message, &arena, &read, error);
    PS_TRY(settle(&arena, decoded, status));
    *reply = read;
    return PS_OK;
}

/* Two steps may fail after the unpacking has taken memory, so `settle` stands once, behind both. */
enum ps_status ps_decode_list_reply(struct ps_view bytes, const struct ps_allocator *memory,
                                    struct ps_list_reply *reply, struct ps_decoded *decoded,
                                    struct ps_error *error)
{
    struct ps_arena arena;
    ps_arena_init(&arena, memory, ps_unpack_bytes_max(bytes.size));
    ProtobufCMessage *message = NULL;
    struct ps_list_reply read = {0};
    enum ps_status status =
        unpack_view(bytes, &pserver__v1__list_params_response__descriptor, &arena, &message, error);
    /* A list is read out while its arena is still at hand, since the array of entries comes from
     * it, too. */
    if (status == PS_OK)
        status =
            list_params((const Pserver__V1__ListParamsResponse *)message, &arena, &read, error);
    /* Read and settled first, handed out last: `*reply` points into what `decoded` owns. */
    PS_TRY(settle(&arena, decoded, status));
    *reply = read;
    return PS_OK;
}

/* The array is ours, the names in it are protobuf-c's; both are blocks of the one arena. */
static enum ps_status list_params(const Pserver__V1__ListParamsResponse *message,
                                  struct ps_arena *arena, struct ps_list_reply *reply,
                                  struct ps_error *error)
{
    /* From the same arena, beside its cap: that is for what a sender may make protobuf-c take, and
     * so many entries were unpacked within it. An entry here is larger than the fewest bytes that
     * tell one. A count of 0 still gives a block. */
    arena->left += message->n_params * sizeof(struct ps_param_info);
    struct ps_param_info *params = ps_arena_take(arena, message->n_params * sizeof *params);
    if (params == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "decode: %zu parameters", message->n_params);
    for (size_t i = 0; i < message->n_params; i++)
        /* One bad entry refuses the page: a list with a gap would pass for the whole. */
        PS_TRY(read_param(message->params[i], &params[i], error));
    *reply = (struct ps_list_reply){params, message->n_params, message->more != 0};
    return PS_OK;
}

/* A tool trusts a server no more than a server trusts a client: an element type beyond the table
 * would index it, and a name with control bytes would reach a terminal. */
static enum ps_status read_param(const Pserver__V1__ParamInfo *info, struct ps_param_info *param,
                                 struct ps_error *error)
{
    /* A newer server may have types that this tool does not know; refusing the page is better than
     * a wrong name. */
    if (info->element_type >= PS_DTYPE_COUNT)
        return ps_fail(error, PS_ERR_BAD_INPUT, "element type: there is no %u", info->element_type);
    struct ps_bytes name = ps_bytes_of_text(info->name);
    /* The name goes to a terminal and into the next request for a page. */
    if (name.size > PS_NAME_BYTES_MAX || !ps_wire_is_text(name))
        return ps_fail(error, PS_ERR_BAD_INPUT, "name: not a parameter's name");
    /* The texts stay where protobuf-c has put them. */
    *param = (struct ps_param_info){.name = name,
                                    .dtype = (enum ps_dtype)info->element_type,
                                    .element_count = info->element_count,
                                    .version = info->version,
                                    .rule = info->rule,
                                    .learning_rate = info->learning_rate,
                                    .state_bytes = info->state_bytes,
                                    .config = {info->config.data, info->config.len},
                                    .round_workers = info->round_workers,
                                    .round_counted = info->round_counted};
    /* Cut to what the struct has room for: a newer server may name more ranks. */
    (void)snprintf(param->round_missing, sizeof param->round_missing, "%s", info->round_missing);
    if (info->n_shape > 0 || info->scalar)
        return ps_shape_make(&param->shape, info->shape, info->n_shape, error);
    return PS_OK;
}

/* protobuf-c reads contiguous bytes only, so a reply of several slices is copied first. */
static enum ps_status unpack_view(struct ps_view view, const ProtobufCMessageDescriptor *descriptor,
                                  struct ps_arena *arena, ProtobufCMessage **message,
                                  struct ps_error *error)
{
    /* Most replies are smaller than one slice. */
    if (view.piece_count == 1)
        return ps_unpack(descriptor, view.pieces[0], arena, message, error);
    uint8_t *copy = ps_arena_take(arena, view.size);
    if (copy == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "decode: %zu bytes", view.size);
    /* Into the same arena, whose cap has room for it: the cap is sixteen times the message. */
    ps_view_copy(view, 0, copy, view.size);
    return ps_unpack(descriptor, (struct ps_bytes){copy, view.size}, arena, message, error);
}

/* Requests of one number own nothing: no `struct ps_decoded` is to be released. */
enum ps_status ps_decode_save(struct ps_view bytes, struct ps_save_request *request,
                              struct ps_error *error)
{
    struct ps_save_request read = {0};
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field))
        if (field.number == 1)
            read.once = ps_wire_uint(&reader, &field, UINT64_MAX, "once") != 0;
    PS_TRY(reader.status);
    *request = read;
    return PS_OK;
}

/* The epoch names the server that is meant: a request that was on its way while the shard changed
 * hands must not drain the new owner. */
enum ps_status ps_decode_drain(struct ps_view bytes, struct ps_drain_request *request,
                               struct ps_error *error)
{
    struct ps_drain_request read = {0};
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field))
        if (field.number == 1)
            read.epoch = ps_wire_uint(&reader, &field, UINT64_MAX, "epoch");
    PS_TRY(reader.status);
    *request = read;
    return PS_OK;
}

/* An empty message is read all the same: malformed bytes are refused, unknown fields are not. */
enum ps_status ps_decode_nothing(struct ps_view bytes, struct ps_error *error)
{
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field))
        continue;
    return reader.status;
}
