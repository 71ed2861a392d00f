/* SPDX-License-Identifier: Apache-2.0 */
/* The fields that many messages share, and keeping what was found of a message.
 *
 * A field has its bound and its name for messages here once, whatever message it stands in. Byte
 * fields are found first and kept at the end, so that a message which is refused at its last field
 * has allocated nothing. */
#include "proto/decode_parts.h"

#include "base/assert.h"
#include "base/bounds.h"
#include "proto/arena.h"

static enum ps_status keep_small(const struct ps_found *found, struct ps_kept *kept,
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

/* The next functions give a field its bound and its name for messages, once for all messages that
 * have it. */
enum ps_dtype ps_decode_dtype(struct ps_wire_reader *reader, const struct ps_wire_field *field)
{
    return (enum ps_dtype)ps_wire_uint(reader, field, PS_DTYPE_COUNT - 1, "element type");
}

/* An encoding of a later version is refused: its bytes would be taken for elements. The rows of
 * tables have a number apart, behind room for more encodings of elements. */
enum ps_encoding ps_decode_encoding(struct ps_wire_reader *reader,
                                    const struct ps_wire_field *field)
{
    uint64_t number = ps_wire_uint(reader, field, PS_ENCODING_ROWS, "encoding");
    if (number >= PS_ENCODING_COUNT && number != PS_ENCODING_ROWS)
        ps_wire_refuse(reader, "encoding: an unknown number");
    return (enum ps_encoding)number;
}

struct ps_wire_range ps_decode_name(struct ps_wire_reader *reader,
                                    const struct ps_wire_field *field)
{
    return ps_wire_bytes(reader, field, PS_NAME_BYTES_MAX, "name");
}

/* 1 + the index, so that 0 can mean "not said"; whether it is this server's is for the service to
 * judge. */
uint32_t ps_decode_shard(struct ps_wire_reader *reader, const struct ps_wire_field *field)
{
    return (uint32_t)ps_wire_uint(reader, field, UINT32_MAX, "shard");
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

/* Makes what was found ready to be used, if the reader got to the end. On failure nothing is held
 * by `decoded`, so callers return at once. */
enum ps_status ps_decode_keep(const struct ps_wire_reader *reader, const struct ps_found *found,
                              const struct ps_allocator *memory, struct ps_kept *kept,
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
static enum ps_status keep_small(const struct ps_found *found, struct ps_kept *kept,
                                 struct ps_decoded *decoded, struct ps_error *error)
{
    /* Both lists in one order: where each was found, and where it goes. */
    const struct ps_wire_range *const ranges[] = {&found->name,   &found->config, &found->client_id,
                                                  &found->prefix, &found->clocks, &found->runs};
    struct ps_bytes *const runs[] = {&kept->name,   &kept->config, &kept->client_id,
                                     &kept->prefix, &kept->clocks, &kept->runs};
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
    /* At most the sum of the bounds, some 67 KiB and what runs take. */
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
