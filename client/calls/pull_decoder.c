/* SPDX-License-Identifier: Apache-2.0 */
/* The content of a reply comes in the slices in which gRPC read it, which may cut an element in
 * two. So encoded elements are gathered, some at a time, into a buffer on the stack before they are
 * decoded: a second copy of the whole content would cost more than the decoding. */
#include "client/calls/pull_decoder.h"

#include "base/assert.h"
#include "optimizer/encoded.h"

/* Elements that are gathered at a time; whole groups. */
#define PIECE 1024
_Static_assert(PIECE % PS_ENCODING_GROUP == 0, "a piece is whole groups");

static void copy(struct ps_view content, uint8_t *destination);
static void decode_plain(const struct ps_pull_reply *reply, uint8_t *destination, size_t count);
static void decode_groups(const struct ps_pull_reply *reply, uint8_t *destination, size_t count);

/* All that can be wrong is found before the first byte is written: the caller's parameter is what
 * it was, or new as a whole. */
enum ps_status ps_pull_reply_take(const struct ps_pull_reply *reply, struct ps_bytes name,
                                  void *destination, size_t size, struct ps_error *error)
{
    size_t count = size / ps_dtype_size(reply->dtype);
    bool is_native = ps_encoding_is_native(reply->encoding, reply->dtype);
    if (!is_native && (!ps_dtype_is_float(reply->dtype) || reply->encoding == PS_ENCODING_TOP_K))
        return ps_fail(error, PS_ERR_BAD_INPUT, "parameter %.*s: a reply in encoding %s",
                       (int)name.size, (const char *)name.data, ps_encoding_name(reply->encoding));
    /* The length is computed from what the caller has room for, and then compared: a length that
     * the server says is never used to write. */
    uint64_t expected = is_native ? size : ps_encoding_bytes(reply->encoding, reply->dtype, count);
    if (reply->content.size != expected)
        return ps_fail(error, PS_ERR_BAD_INPUT, "parameter %.*s: has %zu bytes, asked for %zu",
                       (int)name.size, (const char *)name.data, reply->content.size,
                       (size_t)expected);
    if (is_native)
        copy(reply->content, destination);
    else if (reply->encoding == PS_ENCODING_INT8)
        decode_groups(reply, destination, count);
    else
        decode_plain(reply, destination, count);
    return PS_OK;
}

/* A server that knows no encodings answers in the parameter's own type, which does not fit. */
enum ps_status ps_pull_reply_take_as_is(const struct ps_pull_reply *reply,
                                        enum ps_encoding encoding, struct ps_bytes name,
                                        void *destination, size_t count, struct ps_error *error)
{
    size_t expected = count * ps_encoding_width(encoding, reply->dtype);
    PS_ASSERT(encoding != PS_ENCODING_INT8 && encoding != PS_ENCODING_TOP_K);
    if (reply->encoding != encoding)
        return ps_fail(error, PS_ERR_BAD_INPUT, "parameter %.*s: a reply in encoding %s, not %s",
                       (int)name.size, (const char *)name.data, ps_encoding_name(reply->encoding),
                       ps_encoding_name(encoding));
    if (reply->content.size != expected)
        return ps_fail(error, PS_ERR_BAD_INPUT, "parameter %.*s: has %zu bytes, asked for %zu",
                       (int)name.size, (const char *)name.data, reply->content.size, expected);
    copy(reply->content, destination);
    return PS_OK;
}

/* Whoever cuts a destination into ranges counts in these. */
size_t ps_pull_element_bytes(const struct ps_pull_request *pull)
{
    return pull->as_is ? ps_encoding_width(pull->encoding, pull->dtype)
                       : ps_dtype_size(pull->dtype);
}

/* The content of a pull in ranges lies there already: each range was put in its place when it
 * came. */
static void copy(struct ps_view content, uint8_t *destination)
{
    if (content.piece_count != 1 || content.pieces[0].data != destination)
        ps_view_copy(content, 0, destination, content.size);
}

/* Elements may be cut between two pieces of the message, so they are gathered before they are
 * decoded. */
static void decode_plain(const struct ps_pull_reply *reply, uint8_t *destination, size_t count)
{
    uint64_t gathered[PIECE]; /* as large as elements of any encoding */
    size_t width = ps_encoding_width(reply->encoding, reply->dtype);
    struct ps_view_cursor cursor = {.view = reply->content};
    for (size_t first = 0; first < count; first += PIECE) {
        size_t piece = count - first < PIECE ? count - first : PIECE;
        ps_view_read(&cursor, gathered, piece * width);
        ps_decode_run(reply->encoding, reply->dtype, gathered, piece,
                      destination + first * ps_dtype_size(reply->dtype));
    }
}

/* An int8 content is all scales, then all quanta: two cursors walk through the same view. */
static void decode_groups(const struct ps_pull_reply *reply, uint8_t *destination, size_t count)
{
    int8_t quanta[PS_ENCODING_GROUP];
    struct ps_view_cursor scales = {.view = reply->content};
    struct ps_view_cursor cursor = {.view = reply->content};
    ps_view_skip(&cursor, (size_t)ps_encoding_groups(count) * sizeof(float));
    for (size_t first = 0; first < count; first += PS_ENCODING_GROUP) {
        size_t rest = count - first < PS_ENCODING_GROUP ? count - first : PS_ENCODING_GROUP;
        float scale;
        ps_view_read(&scales, &scale, sizeof scale);
        ps_view_read(&cursor, quanta, rest);
        ps_decode_group(reply->dtype, scale, quanta, rest,
                        destination + first * ps_dtype_size(reply->dtype));
    }
}
