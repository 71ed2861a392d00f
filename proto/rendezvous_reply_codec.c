/* SPDX-License-Identifier: Apache-2.0 */
/* Replies of the rendezvous: what a send was answered, and the values that were received. Content
 * is never copied here: it is read where the network has put it, or where shared memory is.
 *
 * A range says its offset and the length of its value, so that whoever reads it needs no memory of
 * what was asked for. */
#include "proto/rendezvous_codec.h"

#include "base/assert.h"
#include "proto/decode_parts.h"
#include "proto/value_facts_codec.h"
#include "proto/wire.h"

#include <string.h>

/* Numbers of the fields, as in rendezvous.proto; those of a value are value_facts_codec.c's. */
enum { RECEIVED_ID = 1, RECEIVED_STATUS, RECEIVED_CONTENT = 9 };
enum { RECEIVED_TOTAL = 10, RECEIVED_OFFSET, RECEIVED_SHARED_OFFSET, RECEIVED_SHARED_SIZE };
enum { REPLY_EPOCH = 1, REPLY_RECEIVED };
enum { REPLY_WHOLE = 2 };

/* Longest word of a status. */
enum { WORD_BYTES_MAX = 32 };

static enum ps_status take_received(const struct ps_wire_range *range,
                                    const struct ps_allocator *memory,
                                    const struct ps_received_taker *taker, struct ps_error *error);

/* ---- Sends ---- */

/* A value that is not whole yet is told by leaving the field out, as proto3 does. */
void ps_encode_send_tensor_reply(const struct ps_send_tensor_reply *reply, struct ps_buffer *bytes)
{
    ps_wire_put_uint(bytes, REPLY_EPOCH, reply->epoch);
    ps_wire_put_uint(bytes, REPLY_WHOLE, reply->is_whole);
}

/* Servers of before say nothing of whole values, and take no parts. */
enum ps_status ps_decode_send_tensor_reply(struct ps_view bytes, struct ps_send_tensor_reply *reply,
                                           struct ps_error *error)
{
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    /* Fields that are missing are zeros. */
    *reply = (struct ps_send_tensor_reply){0};
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == REPLY_EPOCH)
            reply->epoch = ps_wire_uint(&reader, &field, UINT64_MAX, "epoch");
        else if (field.number == REPLY_WHOLE)
            reply->is_whole = ps_wire_uint(&reader, &field, UINT64_MAX, "whole") != 0;
    }
    return reader.status;
}

/* ---- Answers ---- */

/* The answer is written aside, since its size comes first: a few numbers and a word. */
void ps_encode_received_tensor(const struct ps_received_tensor *received, struct ps_buffer *head)
{
    char room[256];
    /* The largest of these is far below what the buffer has. */
    struct ps_buffer own;
    ps_buffer_init_fixed(&own, room, sizeof room);
    ps_wire_put_uint(&own, RECEIVED_ID, received->id);
    if (received->status != PS_OK)
        ps_wire_put_text(&own, RECEIVED_STATUS, ps_status_word(received->status));
    else
        ps_value_facts_put(&received->facts, &own);
    /* All of these are left out of a value that comes whole and in the message. */
    ps_wire_put_uint(&own, RECEIVED_TOTAL, received->total);
    ps_wire_put_uint(&own, RECEIVED_OFFSET, received->offset);
    ps_wire_put_uint(&own, RECEIVED_SHARED_OFFSET, received->shared_offset);
    ps_wire_put_uint(&own, RECEIVED_SHARED_SIZE, received->shared_size);
    if (received->content.size > 0)
        ps_wire_put_head(&own, RECEIVED_CONTENT, received->content.size);
    /* Eight lengths of ten bytes, and six small fields: there is room. */
    PS_ASSERT(!own.failed);
    ps_wire_put_head(head, REPLY_RECEIVED, own.size + received->content.size);
    ps_buffer_append(head, (struct ps_bytes){(const uint8_t *)own.text, own.size});
}

/* Answers are taken one by one while they are read: a reply may have gigabytes of content, and a
 * list of all of them would be of no use to anybody. */
enum ps_status ps_decode_recv_tensors_reply(struct ps_view bytes, const struct ps_allocator *memory,
                                            const struct ps_received_taker *taker, uint64_t *epoch,
                                            struct ps_error *error)
{
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field)) {
        /* The epoch comes first, in replies of our servers; a client needs it only behind the
         * call. */
        if (field.number == REPLY_EPOCH)
            *epoch = ps_wire_uint(&reader, &field, UINT64_MAX, "epoch");
        if (field.number != REPLY_RECEIVED)
            continue;
        struct ps_wire_range range = ps_wire_bytes(&reader, &field, SIZE_MAX, "received");
        PS_TRY(reader.status);
        /* A taker that fails ends the reading: what follows is for the same caller, who has given
         * up. */
        PS_TRY(take_received(&range, memory, taker, error));
    }
    return reader.status;
}

/* A word that this program does not know is a newer server's: it failed, for whatever reason. */
static enum ps_status status_of_word(const struct ps_wire_range *word)
{
    char text[WORD_BYTES_MAX + 1] = "";
    if (word->size == 0)
        return PS_OK;
    /* The word is held to its bound where it was found, and the array ends with a NUL. */
    ps_wire_range_copy(word, text);
    for (int i = PS_OK + 1; i < PS_STATUS_COUNT; i++) {
        if (strcmp(text, ps_status_word((enum ps_status)i)) == 0)
            return (enum ps_status)i;
    }
    return PS_ERR_INTERNAL;
}

/* The pieces of the content are a list for as long as the answer is taken. */
static enum ps_status take_received(const struct ps_wire_range *range,
                                    const struct ps_allocator *memory,
                                    const struct ps_received_taker *taker, struct ps_error *error)
{
    struct ps_received_tensor received = {.id = 0};
    struct ps_wire_range word = {.size = 0};
    struct ps_found found = {0};
    struct ps_kept kept;
    struct ps_decoded decoded;
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_nested(&reader, range, error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == RECEIVED_ID)
            received.id = ps_wire_uint(&reader, &field, UINT64_MAX, "id");
        else if (field.number == RECEIVED_STATUS)
            word = ps_wire_bytes(&reader, &field, WORD_BYTES_MAX, "status");
        else if (field.number == RECEIVED_CONTENT)
            found.content = ps_wire_bytes(&reader, &field, SIZE_MAX, "content");
        else if (field.number == RECEIVED_TOTAL)
            received.total = ps_wire_uint(&reader, &field, UINT64_MAX, "total");
        else if (field.number == RECEIVED_OFFSET)
            received.offset = ps_wire_uint(&reader, &field, UINT64_MAX, "offset");
        else if (field.number == RECEIVED_SHARED_OFFSET)
            received.shared_offset = ps_wire_uint(&reader, &field, UINT64_MAX, "shared_offset");
        else if (field.number == RECEIVED_SHARED_SIZE)
            received.shared_size = ps_wire_uint(&reader, &field, UINT64_MAX, "shared_size");
        else
            (void)ps_value_facts_read(&reader, &field, &received.facts);
    }
    PS_TRY(ps_decode_keep(&reader, &found, memory, &kept, &decoded));
    /* Words and not numbers: they are those of failed calls, which clients know. */
    received.status = status_of_word(&word);
    received.content = kept.content;
    /* Whatever the taker wants to keep it copies. */
    enum ps_status status = taker->take(taker->self, &received, error);
    ps_decoded_release(&decoded);
    return status;
}
