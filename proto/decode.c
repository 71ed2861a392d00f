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

#include "base/assert.h"
#include "base/bounds.h"
#include "proto/arena.h"
#include "proto/decode_parts.h"
#include "proto/delta_codec.h"
#include "proto/shape_codec.h"
#include "proto/shared_range.h"
#include "proto/wire.h"

/* The byte fields again, ready to be used: each contiguous but the content, which is a view. */
struct kept {
    struct ps_bytes name;
    struct ps_bytes config;
    struct ps_bytes client_id;
    struct ps_bytes runs;
    struct ps_view content;
};

static enum ps_dtype read_dtype(struct ps_wire_reader *reader, const struct ps_wire_field *field);
static enum ps_encoding read_encoding(struct ps_wire_reader *reader,
                                      const struct ps_wire_field *field);
static struct ps_wire_range read_name(struct ps_wire_reader *reader,
                                      const struct ps_wire_field *field);
static uint32_t read_shard(struct ps_wire_reader *reader, const struct ps_wire_field *field);
static enum ps_status keep(const struct ps_wire_reader *reader, const struct ps_found *found,
                           const struct ps_allocator *memory, struct kept *kept,
                           struct ps_decoded *decoded);
static enum ps_status keep_small(const struct ps_found *found, struct kept *kept,
                                 struct ps_decoded *decoded, struct ps_error *error);
static enum ps_status keep_content(const struct ps_wire_range *content, struct ps_view *view,
                                   struct ps_decoded *decoded, struct ps_error *error);

/* Also for a decoded message without anything of its own: `memory` is set only when decoding went
 * well. */
void ps_decoded_release(struct ps_decoded *decoded)
{
    PS_ASSERT(decoded != NULL);
    if (decoded->memory == NULL)
        return;
    ps_arena_release_blocks(decoded->memory, decoded->message);
    ps_release(decoded->memory, decoded->pieces);
    *decoded = (struct ps_decoded){0};
}

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
    struct kept kept;
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == 1)
            found.name = read_name(&reader, &field);
        else if (field.number == 2)
            read.dtype = read_dtype(&reader, &field);
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
            read.shard = read_shard(&reader, &field);
        else if (field.number == 15)
            ps_decode_request_id(&reader, &field, &read.request, &found.client_id);
    }
    PS_TRY(keep(&reader, &found, memory, &kept, decoded));
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
    struct kept kept;
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == 1)
            read.epoch = ps_wire_uint(&reader, &field, UINT64_MAX, "epoch");
        else if (field.number == 14)
            read.shard = read_shard(&reader, &field);
        else if (field.number == 15)
            ps_decode_request_id(&reader, &field, &read.request, &found.client_id);
    }
    PS_TRY(keep(&reader, &found, memory, &kept, decoded));
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
            found->name = read_name(reader, &field);
        else if (field.number == 2)
            read->dtype = read_dtype(reader, &field);
        else if (field.number == 3)
            found->content = ps_wire_bytes(reader, &field, SIZE_MAX, "content");
        else if (field.number == 5)
            /* An acknowledgement that is not offered is refused by the service, which can say what
             * is. */
            read->ack = (enum ps_ack)ps_wire_uint(reader, &field, PS_ACK_REPLICATED, "ack");
        else if (field.number == 6)
            read->encoding = read_encoding(reader, &field);
        else if (field.number == 7)
            read->range.first = ps_wire_uint(reader, &field, UINT64_MAX, "offset");
        else if (field.number == 8)
            read->range.count = ps_wire_uint(reader, &field, UINT64_MAX, "count");
        else if (field.number == 12)
            ps_shared_range_read(reader, &field, &read->shared);
        else if (field.number == 14)
            read->shard = read_shard(reader, &field);
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
    struct kept kept;
    struct ps_wire_reader reader;
    ps_wire_reader_init(&reader, bytes, error);
    ps_decode_push_fields(&reader, &read, &found);
    PS_TRY(keep(&reader, &found, memory, &kept, decoded));
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

/* The numbers 1 to 8 and 12, 14 are shared with the items of bundles, which are the same
 * message. */
void ps_decode_pull_fields(struct ps_wire_reader *reader, struct ps_pull_request *read,
                           struct ps_found *found)
{
    struct ps_wire_field field;
    while (ps_wire_next(reader, &field)) {
        if (field.number == 1)
            found->name = read_name(reader, &field);
        else if (field.number == 2)
            read->encoding = read_encoding(reader, &field);
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
        else if (field.number == 12)
            ps_shared_range_read(reader, &field, &read->shared);
        else if (field.number == 14)
            read->shard = read_shard(reader, &field);
    }
}

/* A pull has no content, so most of them allocate nothing at all. */
enum ps_status ps_decode_pull(struct ps_view bytes, const struct ps_allocator *memory,
                              struct ps_pull_request *request, struct ps_decoded *decoded,
                              struct ps_error *error)
{
    struct ps_pull_request read = {0};
    struct ps_found found = {0};
    struct kept kept;
    struct ps_wire_reader reader;
    ps_wire_reader_init(&reader, bytes, error);
    ps_decode_pull_fields(&reader, &read, &found);
    PS_TRY(keep(&reader, &found, memory, &kept, decoded));
    read.name = kept.name;
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
            found->name = read_name(reader, &field);
        else if (field.number == 2)
            read->dtype = read_dtype(reader, &field);
        else if (field.number == 3)
            found->content = ps_wire_bytes(reader, &field, SIZE_MAX, "content");
        else if (field.number == 4)
            read->version = ps_wire_uint(reader, &field, PS_VERSION_MAX, "version");
        else if (field.number == 5)
            read->encoding = read_encoding(reader, &field);
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
    struct kept kept;
    struct ps_wire_reader reader;
    ps_wire_reader_init(&reader, bytes, error);
    ps_decode_pull_reply_fields(&reader, &read, &found);
    PS_TRY(keep(&reader, &found, memory, &kept, decoded));
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
    struct kept kept;
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == 1)
            found.name = read_name(&reader, &field);
        else if (field.number == 2)
            read.limit = (uint32_t)ps_wire_uint(&reader, &field, UINT32_MAX, "limit");
    }
    PS_TRY(keep(&reader, &found, memory, &kept, decoded));
    read.after = kept.name;
    *request = read;
    return PS_OK;
}

/* A RequestId that comes twice is merged field by field, as protobuf says. Present, even if empty,
 * it asks for the push to be remembered; the service refuses an id without a client. */
void ps_decode_request_id(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                          struct ps_request_id *request, struct ps_wire_range *client_id)
{
    struct ps_wire_range range = ps_wire_bytes(reader, field, SIZE_MAX, "request");
    struct ps_wire_reader nested;
    struct ps_wire_field part;
    ps_wire_reader_nested(&nested, &range, reader->error);
    while (ps_wire_next(&nested, &part)) {
        if (part.number == 1)
            *client_id = ps_wire_bytes(&nested, &part, PS_CLIENT_ID_BYTES_MAX, "client id");
        else if (part.number == 2)
            request->session = ps_wire_uint(&nested, &part, UINT64_MAX, "session");
        else if (part.number == 3)
            request->sequence = ps_wire_uint(&nested, &part, UINT64_MAX, "sequence");
    }
    request->present = true;
    /* The outer reader fails with the inner one; an earlier failure of its own stays. */
    if (reader->status == PS_OK)
        reader->status = nested.status;
}

/* The next functions give a field its bound and its name for messages, once for all messages that
 * have it. */
static enum ps_dtype read_dtype(struct ps_wire_reader *reader, const struct ps_wire_field *field)
{
    return (enum ps_dtype)ps_wire_uint(reader, field, PS_DTYPE_COUNT - 1, "element type");
}

/* An encoding of a later version is refused: its bytes would be taken for elements. */
static enum ps_encoding read_encoding(struct ps_wire_reader *reader,
                                      const struct ps_wire_field *field)
{
    return (enum ps_encoding)ps_wire_uint(reader, field, PS_ENCODING_COUNT - 1, "encoding");
}

static struct ps_wire_range read_name(struct ps_wire_reader *reader,
                                      const struct ps_wire_field *field)
{
    return ps_wire_bytes(reader, field, PS_NAME_BYTES_MAX, "name");
}

/* 1 + the index, so that 0 can mean "not said"; whether it is this server's is for the service to
 * judge. */
static uint32_t read_shard(struct ps_wire_reader *reader, const struct ps_wire_field *field)
{
    return (uint32_t)ps_wire_uint(reader, field, UINT32_MAX, "shard");
}

/* Makes what was found ready to be used, if the reader got to the end. On failure nothing is held
 * by `decoded`, so callers return at once. */
static enum ps_status keep(const struct ps_wire_reader *reader, const struct ps_found *found,
                           const struct ps_allocator *memory, struct kept *kept,
                           struct ps_decoded *decoded)
{
    PS_ASSERT(memory != NULL);
    struct ps_error *error = reader->error;
    /* Written on failure too, so that releasing it is always right. */
    *decoded = (struct ps_decoded){0};
    /* From here on the message is well formed; what can still fail is memory, and a name that is
     * not text. */
    PS_TRY(reader->status);
    decoded->memory = memory;
    /* Either step may have allocated when a later one fails; releasing is right after each of
     * them. */
    enum ps_status status = keep_small(found, kept, decoded, error);
    if (status == PS_OK)
        status = keep_content(&found->content, &kept->content, decoded, error);
    if (status == PS_OK && !ps_wire_is_text(kept->name))
        status = ps_fail(error, PS_ERR_BAD_INPUT, "name: not UTF-8 without NUL");
    if (status != PS_OK)
        ps_decoded_release(decoded);
    return status;
}

/* Small fields that lie in one piece stay there; the others share one block. Its size is bounded:
 * every range was held to its maximum when it was found. */
static enum ps_status keep_small(const struct ps_found *found, struct kept *kept,
                                 struct ps_decoded *decoded, struct ps_error *error)
{
    /* Both lists in one order: where each was found, and where it goes. */
    const struct ps_wire_range *const ranges[] = {&found->name, &found->config, &found->client_id,
                                                  &found->runs};
    struct ps_bytes *const runs[] = {&kept->name, &kept->config, &kept->client_id, &kept->runs};
    bool split[PS_ARRAY_COUNT(ranges)];
    size_t split_size = 0;
    for (size_t i = 0; i < PS_ARRAY_COUNT(ranges); i++) {
        /* A field in one slice is used where it lies, without a copy. */
        split[i] = !ps_wire_range_in_one(ranges[i], runs[i]);
        split_size += split[i] ? ranges[i]->size : 0;
    }
    /* The usual case: a small field is cut only if the border of two slices falls into it. */
    if (split_size == 0)
        return PS_OK;

    /* An arena for one block only: ps_decoded_release gives back arenas' blocks, whatever they
     * hold. */
    struct ps_arena arena;
    ps_arena_init(&arena, decoded->memory, split_size);
    /* At most the sum of the four bounds, some 66 KiB and what runs take. */
    uint8_t *block = ps_arena_take(&arena, split_size);
    if (block == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "decode: %zu bytes", split_size);
    /* Owned from here on, so a failure further on gives it back. */
    decoded->message = ps_arena_detach(&arena);
    for (size_t i = 0; i < PS_ARRAY_COUNT(ranges); i++) {
        if (!split[i])
            continue;
        /* Side by side in one block; none of them needs an alignment. */
        ps_wire_range_copy(ranges[i], block);
        *runs[i] = (struct ps_bytes){block, ranges[i]->size};
        block += ranges[i]->size;
    }
    return PS_OK;
}

/* The content stays in the slices of the network; only the list of its pieces is made. */
static enum ps_status keep_content(const struct ps_wire_range *content, struct ps_view *view,
                                   struct ps_decoded *decoded, struct ps_error *error)
{
    /* No content: a view of nothing, which everybody may walk. */
    *view = (struct ps_view){0};
    if (content->size == 0)
        return PS_OK;
    size_t count = ps_wire_range_piece_count(content);
    /* One entry for each slice that the content touches: some sixteen bytes for each slice of
     * several KiB. */
    decoded->pieces = ps_zeroed_array(decoded->memory, count, sizeof *decoded->pieces);
    if (decoded->pieces == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "decode: %zu pieces", count);
    /* The walk is the one that counted the pieces, so their number fits. */
    ps_wire_range_pieces(content, decoded->pieces);
    *view = (struct ps_view){decoded->pieces, count, content->size};
    return PS_OK;
}
