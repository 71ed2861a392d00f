/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes to structs, for the messages of training (proto/pserver/v1/pserver.proto) and the request
 * that lists parameters.
 *
 * First the fields are only found (proto/wire.h: nothing is allocated, so a peer cannot make us
 * allocate by what it claims). Then what has to be contiguous and is not is copied, once, into one
 * small block. The bulk content stays where it lies, however many slices it is in.
 *
 * Why not the generated code: protobuf-c wants the whole message in one piece and copies every
 * bytes field, which for a gradient of 64 MiB is two copies more than none.
 *
 * Every loop below is the same: a field number, a reader of the right type with its bound, nothing
 * else. The bounds are those of base/bounds.h; a value beyond one ends the reader. Numbers that a
 * later version adds are skipped by ps_wire_next. */
#include "proto/codec.h"

#include "base/bounds.h"
#include "proto/decode_parts.h"
#include "proto/delta_codec.h"
#include "proto/shape_codec.h"
#include "proto/shared_range.h"
#include "proto/wire.h"

/* All decoders have this shape: read into locals, keep what must be kept, and write `*request` only
 * when nothing can fail any more. Numbers that must be in range are checked as they are read.
 * Fields 14 (shard) and 15 (request id) mean the same in every request; a request without an id
 * is applied, but not remembered. */
enum ps_status ps_decode_init(struct ps_view bytes, const struct ps_allocator *memory,
                              struct ps_init_request *request, struct ps_decoded *decoded,
                              struct ps_error *error)
{
    struct ps_init_request read = {0};
    struct ps_found found = {0};
    struct ps_kept kept;
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == 1)
            found.name = ps_decode_name(&reader, &field);
        else if (field.number == 2)
            read.dtype = ps_decode_dtype(&reader, &field);
        else if (field.number == 3)
            /* The content's bound is the message's own size, which gRPC has limited. */
            found.content = ps_wire_bytes(&reader, &field, SIZE_MAX, "content");
        else if (field.number == 4)
            found.config = ps_wire_bytes(&reader, &field, PS_CONFIG_BYTES_MAX, "config");
        else if (field.number == 7)
            read.range.first = ps_wire_uint(&reader, &field, UINT64_MAX, "offset");
        else if (field.number == 8)
            read.range.count = ps_wire_uint(&reader, &field, UINT64_MAX, "count");
        else if (field.number == 9)
            read.total = ps_wire_uint(&reader, &field, UINT64_MAX, "total");
        else if (field.number == 10)
            ps_shape_read_lengths(&reader, &field, &read.shape);
        else if (field.number == 11)
            ps_shape_read_scalar(&reader, &field, &read.shape);
        else if (field.number == 14)
            read.shard = ps_decode_shard(&reader, &field);
        else if (field.number == 15)
            ps_decode_request_id(&reader, &field, &read.request, &found.client_id);
    }
    PS_TRY(ps_decode_keep(&reader, &found, memory, &kept, decoded));
    read.name = kept.name;
    read.content = kept.content;
    read.config = kept.config;
    read.request.client_id = kept.client_id;
    *request = read;
    return PS_OK;
}

/* Replies of numbers alone keep nothing; the allocator is there so that all decoders are called
 * alike. */
enum ps_status ps_decode_init_reply(struct ps_view bytes, const struct ps_allocator *memory,
                                    struct ps_init_reply *reply, struct ps_error *error)
{
    (void)memory;
    struct ps_init_reply read = {0};
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == 1)
            read.epoch = ps_wire_uint(&reader, &field, UINT64_MAX, "epoch");
        else if (field.number == 2)
            /* protobuf's bool is a varint, of which any value but 0 is true. */
            read.staged = ps_wire_uint(&reader, &field, UINT64_MAX, "staged") != 0;
        else if (field.number == 3)
            read.existed = ps_wire_uint(&reader, &field, UINT64_MAX, "existed") != 0;
    }
    PS_TRY(reader.status);
    *reply = read;
    return PS_OK;
}

/* An epoch of 0 comes from clients that were built before there was one; the service does not check
 * it then. */
enum ps_status ps_decode_finish(struct ps_view bytes, const struct ps_allocator *memory,
                                struct ps_finish_request *request, struct ps_decoded *decoded,
                                struct ps_error *error)
{
    struct ps_finish_request read = {0};
    struct ps_found found = {0};
    struct ps_kept kept;
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == 1)
            read.epoch = ps_wire_uint(&reader, &field, UINT64_MAX, "epoch");
        else if (field.number == 2)
            read.placement = ps_wire_uint(&reader, &field, UINT64_MAX, "placement");
        else if (field.number == 14)
            read.shard = ps_decode_shard(&reader, &field);
        else if (field.number == 15)
            ps_decode_request_id(&reader, &field, &read.request, &found.client_id);
    }
    PS_TRY(ps_decode_keep(&reader, &found, memory, &kept, decoded));
    read.request.client_id = kept.client_id;
    *request = read;
    return PS_OK;
}

/* Shared with bundles, whose items are the same messages. Numbers are final here, byte fields only
 * found: whether they must be copied depends on where they lie. */
void ps_decode_push_fields(struct ps_wire_reader *reader, struct ps_push_request *read,
                           struct ps_found *found)
{
    struct ps_wire_field field;
    while (ps_wire_next(reader, &field)) {
        if (field.number == 1)
            found->name = ps_decode_name(reader, &field);
        else if (field.number == 2)
            read->dtype = ps_decode_dtype(reader, &field);
        else if (field.number == 3)
            found->content = ps_wire_bytes(reader, &field, SIZE_MAX, "content");
        else if (field.number == 5)
            /* An acknowledgement that is not offered is refused by the service, which can say what
             * is. */
            read->ack = (enum ps_ack)ps_wire_uint(reader, &field, PS_ACK_REPLICATED, "ack");
        else if (field.number == 6)
            read->encoding = ps_decode_encoding(reader, &field);
        else if (field.number == 7)
            read->range.first = ps_wire_uint(reader, &field, UINT64_MAX, "offset");
        else if (field.number == 8)
            read->range.count = ps_wire_uint(reader, &field, UINT64_MAX, "count");
        else if (field.number == 9)
            read->worker = (uint32_t)ps_wire_uint(reader, &field, UINT32_MAX, "worker");
        else if (field.number == 10)
            /* A round is the version that it makes, and has that one's bound. */
            read->round = ps_wire_uint(reader, &field, PS_VERSION_MAX, "round");
        else if (field.number == 11)
            read->weight = ps_wire_float(reader, &field, "weight");
        else if (field.number == 12)
            ps_shared_range_read(reader, &field, &read->shared);
        else if (field.number == 13)
            read->row_width = (uint32_t)ps_wire_uint(reader, &field, UINT32_MAX, "row width");
        else if (field.number == 14)
            read->shard = ps_decode_shard(reader, &field);
        else if (field.number == 15)
            ps_decode_request_id(reader, &field, &read->request, &found->client_id);
    }
}

/* The hottest of all decoders. A push whose small fields lie in one slice, as nearly all do, costs
 * one allocation, for the list of the content's pieces. */
enum ps_status ps_decode_push(struct ps_view bytes, const struct ps_allocator *memory,
                              struct ps_push_request *request, struct ps_decoded *decoded,
                              struct ps_error *error)
{
    struct ps_push_request read = {0};
    struct ps_found found = {0};
    struct ps_kept kept;
    struct ps_wire_reader reader;
    ps_wire_reader_init(&reader, bytes, error);
    ps_decode_push_fields(&reader, &read, &found);
    PS_TRY(ps_decode_keep(&reader, &found, memory, &kept, decoded));
    read.name = kept.name;
    read.content = kept.content;
    read.request.client_id = kept.client_id;
    *request = read;
    return PS_OK;
}

/* A version above PS_VERSION_MAX is refused: a client asks for a version as 1 + it, which would
 * wrap to "none". */
void ps_decode_push_reply_fields(struct ps_wire_reader *reader, struct ps_push_reply *read)
{
    struct ps_wire_field field;
    while (ps_wire_next(reader, &field)) {
        if (field.number == 1)
            read->version = ps_wire_uint(reader, &field, PS_VERSION_MAX, "version");
        else if (field.number == 2)
            read->duplicate = ps_wire_uint(reader, &field, UINT64_MAX, "duplicate") != 0;
        else if (field.number == 3)
            read->position = ps_wire_uint(reader, &field, UINT64_MAX, "position");
        else if (field.number == 4)
            read->durable_position = ps_wire_uint(reader, &field, UINT64_MAX, "durable_position");
        else if (field.number == 5)
            read->staged = ps_wire_uint(reader, &field, UINT64_MAX, "staged") != 0;
        else if (field.number == 6)
            /* Servers of before there were rounds say neither, and apply every push at once. */
            read->held = ps_wire_uint(reader, &field, UINT64_MAX, "held") != 0;
        else if (field.number == 7)
            read->late = ps_wire_uint(reader, &field, UINT64_MAX, "late") != 0;
    }
}

/* The answer to a push of any size is some ten bytes. */
enum ps_status ps_decode_push_reply(struct ps_view bytes, const struct ps_allocator *memory,
                                    struct ps_push_reply *reply, struct ps_error *error)
{
    (void)memory;
    struct ps_push_reply read = {0};
    struct ps_wire_reader reader;
    ps_wire_reader_init(&reader, bytes, error);
    ps_decode_push_reply_fields(&reader, &read);
    PS_TRY(reader.status);
    *reply = read;
    return PS_OK;
}

/* Shared with the items of bundles, which are the same message. */
void ps_decode_pull_fields(struct ps_wire_reader *reader, struct ps_pull_request *read,
                           struct ps_found *found)
{
    struct ps_wire_field field;
    while (ps_wire_next(reader, &field)) {
        if (field.number == 1)
            found->name = ps_decode_name(reader, &field);
        else if (field.number == 2)
            read->encoding = ps_decode_encoding(reader, &field);
        else if (field.number == 3)
            read->range.first = ps_wire_uint(reader, &field, UINT64_MAX, "offset");
        else if (field.number == 4)
            read->range.count = ps_wire_uint(reader, &field, UINT64_MAX, "count");
        else if (field.number == 5)
            read->version = ps_wire_uint(reader, &field, UINT64_MAX, "version");
        else if (field.number == 6)
            ps_held_read(reader, &field, &read->held);
        else if (field.number == 7)
            read->life = ps_wire_uint(reader, &field, UINT64_MAX, "life");
        else if (field.number == 8)
            read->of_push = ps_wire_uint(reader, &field, UINT64_MAX, "of_push") != 0;
        else if (field.number == 9)
            read->with_shape = ps_wire_uint(reader, &field, UINT64_MAX, "with_shape") != 0;
        else if (field.number == 10)
            read->at_least_version =
                ps_wire_uint(reader, &field, PS_VERSION_MAX, "at_least_version");
        else if (field.number == 11)
            read->worker = (uint32_t)ps_wire_uint(reader, &field, UINT32_MAX, "worker");
        else if (field.number == 13)
            read->clock = ps_wire_uint(reader, &field, PS_VERSION_MAX, "clock");
        else if (field.number == 15)
            /* Only a worker that reads at a clock names clocks, so that most pulls stay without. */
            found->clocks = ps_wire_bytes(reader, &field, PS_CLOCKS_NAME_BYTES_MAX, "clocks");
        else if (field.number == 16)
            /* The keys of a pull are what the content is of a push: of any number, and never
             * copied. Whether they are whole keys is for the service to say, which knows whether
             * the parameter is a table. */
            found->content = ps_wire_bytes(reader, &field, SIZE_MAX, "keys");
        else if (field.number == 12)
            ps_shared_range_read(reader, &field, &read->shared);
        else if (field.number == 14)
            read->shard = ps_decode_shard(reader, &field);
    }
}

/* A pull without keys has no content, so most of them allocate nothing at all. */
enum ps_status ps_decode_pull(struct ps_view bytes, const struct ps_allocator *memory,
                              struct ps_pull_request *request, struct ps_decoded *decoded,
                              struct ps_error *error)
{
    struct ps_pull_request read = {0};
    struct ps_found found = {0};
    struct ps_kept kept;
    struct ps_wire_reader reader;
    ps_wire_reader_init(&reader, bytes, error);
    ps_decode_pull_fields(&reader, &read, &found);
    PS_TRY(ps_decode_keep(&reader, &found, memory, &kept, decoded));
    read.name = kept.name;
    read.clocks = kept.clocks;
    read.keys = kept.content;
    *request = read;
    return PS_OK;
}

/* Field numbers are those of pserver.proto; an unknown one is skipped, as a newer peer expects. */
void ps_decode_pull_reply_fields(struct ps_wire_reader *reader, struct ps_pull_reply *read,
                                 struct ps_found *found)
{
    struct ps_wire_field field;
    while (ps_wire_next(reader, &field)) {
        if (field.number == 1)
            found->name = ps_decode_name(reader, &field);
        else if (field.number == 2)
            read->dtype = ps_decode_dtype(reader, &field);
        else if (field.number == 3)
            found->content = ps_wire_bytes(reader, &field, SIZE_MAX, "content");
        else if (field.number == 4)
            read->version = ps_wire_uint(reader, &field, PS_VERSION_MAX, "version");
        else if (field.number == 5)
            read->encoding = ps_decode_encoding(reader, &field);
        else if (field.number == 12)
            read->shared_size = ps_wire_uint(reader, &field, UINT64_MAX, "shared size");
        else if (field.number == 6)
            read->range.first = ps_wire_uint(reader, &field, UINT64_MAX, "offset");
        else if (field.number == 7)
            read->range.count = ps_wire_uint(reader, &field, UINT64_MAX, "count");
        else if (field.number == 8)
            read->total = ps_wire_uint(reader, &field, UINT64_MAX, "total");
        else if (field.number == 9)
            ps_delta_read(reader, &field, &read->delta, &found->runs);
        else if (field.number == 10)
            read->life = ps_wire_uint(reader, &field, UINT64_MAX, "life");
    }
}

/* The client's side. The content's pieces point into the received slices, from which the values are
 * copied straight to where the caller wants them. */
enum ps_status ps_decode_pull_reply(struct ps_view bytes, const struct ps_allocator *memory,
                                    struct ps_pull_reply *reply, struct ps_decoded *decoded,
                                    struct ps_error *error)
{
    struct ps_pull_reply read = {0};
    struct ps_found found = {0};
    struct ps_kept kept;
    struct ps_wire_reader reader;
    ps_wire_reader_init(&reader, bytes, error);
    ps_decode_pull_reply_fields(&reader, &read, &found);
    PS_TRY(ps_decode_keep(&reader, &found, memory, &kept, decoded));
    read.name = kept.name;
    read.content = kept.content;
    read.delta.runs = kept.runs;
    *reply = read;
    return PS_OK;
}

/* The name is the last one of the page before: the list goes on behind it. */
enum ps_status ps_decode_list(struct ps_view bytes, const struct ps_allocator *memory,
                              struct ps_list_request *request, struct ps_decoded *decoded,
                              struct ps_error *error)
{
    struct ps_list_request read = {0};
    struct ps_found found = {0};
    struct ps_kept kept;
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == 1)
            found.name = ps_decode_name(&reader, &field);
        else if (field.number == 2)
            read.limit = (uint32_t)ps_wire_uint(&reader, &field, UINT32_MAX, "limit");
        else if (field.number == 3)
            read.with_config = ps_wire_uint(&reader, &field, UINT64_MAX, "with_config") != 0;
        else if (field.number == 4)
            found.prefix = ps_decode_name(&reader, &field);
    }
    PS_TRY(ps_decode_keep(&reader, &found, memory, &kept, decoded));
    /* Names are asked for in pages: the last name of one page is what the next begins behind. */
    read.after = kept.name;
    read.prefix = kept.prefix;
    *request = read;
    return PS_OK;
}
