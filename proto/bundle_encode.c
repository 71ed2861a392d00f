/* SPDX-License-Identifier: Apache-2.0 */
/* Items of bundles to bytes. Each item is a message in a message, whose length goes before it and
 * includes the content that the sender appends afterwards. The nested head is therefore written
 * into a buffer on the stack first, whose size is then known; the content is only counted. */
#include "proto/bundle_codec.h"

#include "base/assert.h"
#include "proto/status_codes.h"
#include "proto/wire.h"

/* Of every message that carries items; 3 is reserved. */
enum { FIELD_PUSHES = 1, FIELD_PULLS = 2, FIELD_BYTES_MAX = 4, FIELD_SHARD = 14, FIELD_ID = 15 };
/* Of every result. */
enum { FIELD_REPLY = 1, FIELD_STATUS = 2 };

/* Room for one nested head, for the longest that there is; a longer one marks the outer buffer as
 * failed (nest_end) instead of being cut. */
struct nest {
    char text[PS_BUNDLE_ITEM_BYTES_MAX + 256];
    struct ps_buffer buffer;
};

static void nest_begin(struct nest *nest)
{
    ps_buffer_init_fixed(&nest->buffer, nest->text, sizeof nest->text);
}

/* Writes the nested head as field `number`, with `content_size` bytes of content to follow. */
static void nest_end(struct nest *nest, uint32_t number, size_t content_size, struct ps_buffer *to)
{
    ps_wire_put_head(to, number, nest->buffer.size + content_size);
    ps_buffer_append(to, (struct ps_bytes){(const uint8_t *)nest->text, nest->buffer.size});
    to->failed = to->failed || nest->buffer.failed;
}

/* At the beginning of the message, though the decoder accepts it anywhere: a reader of a dump sees
 * first under which id everything else counts. */
void ps_encode_bundle_id(const struct ps_request_id *base, struct ps_buffer *head)
{
    /* Pushes without an id are applied at most once only if nobody sends them again. */
    if (!base->present)
        return;
    struct nest id;
    nest_begin(&id);
    ps_wire_put_bytes(&id.buffer, 1, base->client_id);
    ps_wire_put_uint(&id.buffer, 2, base->session);
    ps_wire_put_uint(&id.buffer, 3, base->sequence);
    nest_end(&id, FIELD_ID, 0, head);
}

void ps_encode_bundle_push(const struct ps_push_request *push, const struct ps_request_id *base,
                           size_t index, struct ps_buffer *head)
{
    struct nest item;
    struct ps_push_request written = *push;
    /* Either all pushes of a message are numbered or none is: a mixture could not be tried again
     * safely. */
    PS_ASSERT(push->request.present == base->present);
    written.request = (struct ps_request_id){0};
    /* The usual case costs no bytes: the number follows from the item's place. Only an item that
     * was part of another message before (and must keep its number, or it would be applied twice)
     * carries it. */
    if (base->present && push->request.sequence != base->sequence + index)
        written.request =
            (struct ps_request_id){.present = true, .sequence = push->request.sequence};
    nest_begin(&item);
    ps_encode_push(&written, &item.buffer);
    nest_end(&item, FIELD_PUSHES, push->content.size, head);
}

void ps_encode_bundle_pull(const struct ps_pull_request *pull, struct ps_buffer *head)
{
    struct nest item;
    nest_begin(&item);
    ps_encode_pull(pull, &item.buffer);
    nest_end(&item, FIELD_PULLS, pull->keys.size, head);
}

/* The shard is said once for the message. */
void ps_encode_since(const struct ps_since_request *request, struct ps_buffer *head)
{
    for (size_t i = 0; i < request->pull_count; i++)
        ps_encode_bundle_pull(&request->pulls[i], head);
    ps_wire_put_uint(head, FIELD_BYTES_MAX, request->bytes_max);
    ps_wire_put_uint(head, FIELD_SHARD, request->shard);
}

/* Code and word, as at the end of a whole call: clients that do not know our words still see a
 * code. */
static void put_status(struct ps_buffer *head, const struct ps_item_status *status)
{
    struct nest nest;
    nest_begin(&nest);
    ps_wire_put_uint(&nest.buffer, 1, ps_rpc_code_of_status(status->status));
    ps_wire_put_text(&nest.buffer, 2, ps_status_word(status->status));
    ps_wire_put_bytes(&nest.buffer, 3, status->text);
    ps_wire_put_uint(&nest.buffer, 4, status->retry_ms);
    ps_wire_put_uint(&nest.buffer, 5, status->session);
    nest_end(&nest, FIELD_STATUS, 0, head);
}

void ps_encode_push_result(const struct ps_push_result *result, struct ps_buffer *head)
{
    struct nest item;
    nest_begin(&item);
    /* A result is a reply or a status, never both; an absent status means success. */
    if (result->status.status == PS_OK) {
        struct nest reply;
        nest_begin(&reply);
        ps_encode_push_reply(&result->reply, &reply.buffer);
        nest_end(&reply, FIELD_REPLY, 0, &item.buffer);
    } else {
        put_status(&item.buffer, &result->status);
    }
    nest_end(&item, FIELD_PUSHES, 0, head);
}

/* The content's size counts twice, in the length of the reply and in that of the result around
 * it. */
void ps_encode_pull_result(const struct ps_pull_result *result, struct ps_buffer *head)
{
    struct nest item;
    size_t content_size = 0;
    nest_begin(&item);
    if (result->status.status == PS_OK) {
        struct nest reply;
        content_size = result->reply.content.size;
        nest_begin(&reply);
        ps_encode_pull_reply(&result->reply, &reply.buffer);
        nest_end(&reply, FIELD_REPLY, content_size, &item.buffer);
    } else {
        put_status(&item.buffer, &result->status);
    }
    nest_end(&item, FIELD_PULLS, content_size, head);
}
