/* SPDX-License-Identifier: Apache-2.0 */
/* In place, or copied once: the header says when, and why that is the question. */
#include "server/rpc/shared_content.h"

#include "base/assert.h"
#include "proto/shared_range.h"
#include "server/core/update/spread.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

struct ps_shared_copy {
    const struct ps_allocator *memory; /* borrowed */
    atomic_uint references;
    uint8_t bytes[];
};

/* Parts of a content that are copied to the caller's room, by whoever has time. */
struct giving {
    struct ps_view content;
    uint8_t *room;
    atomic_size_t next; /* first byte that nobody has taken */
};

enum { GIVEN_PART_BYTES = 1024 * 1024 };

static enum ps_status open_content(void *self, struct ps_push_request *request,
                                   struct ps_error *error);
static void close_content(void *self);
static enum ps_status give_content(void *self, const struct ps_shared_range *range,
                                   struct ps_pull_reply *reply, struct ps_error *error);
static enum ps_status use(struct ps_shared_content *content, struct ps_push_request *request,
                          struct ps_error *error);
static struct ps_shared_copy *copy_of(const struct ps_allocator *memory, struct ps_bytes bytes);
static void give_parts(void *argument);
static void *keep(void *self);
static void drop(void *kept);

void ps_shared_content_init(struct ps_shared_content *content, struct ps_rpc_context *context)
{
    *content = (struct ps_shared_content){.ways = {.open = open_content,
                                                   .close = close_content,
                                                   .give = give_content,
                                                   .self = content},
                                          .context = context};
}

/* Bounds come before the memory is looked for. A request that names a range and brings content as
 * well is refused: two answers to "which bytes?" would be one too many. */
static enum ps_status open_content(void *self, struct ps_push_request *request,
                                   struct ps_error *error)
{
    struct ps_shared_content *content = self;
    const struct ps_rpc_context *context = content->context;
    const struct ps_shared_range *range = &request->shared;
    PS_ASSERT(content->copy == NULL);
    if (range->segment == 0 && range->size == 0 && range->offset == 0)
        return PS_OK;
    if (request->content.size > 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "content in the message and in shared memory");
    if (context->shared == NULL)
        return ps_fail(error, PS_ERR_UNAVAILABLE, "this server shares no memory");
    /* The limit of a message holds here, too: it bounds what one request may cost the server. */
    if (range->size > context->message_bytes_max)
        return ps_fail(error, PS_ERR_OUT_OF_RANGE,
                       "shared memory: %" PRIu64 " bytes are more than the %" PRIu64
                       " of the largest message",
                       range->size, context->message_bytes_max);
    PS_TRY(ps_shared_memory_find(context->shared, range, &content->hold, error));
    return use(content, request, error);
}

/* Content that is not copied here has no handle: the service copies what is to outlive the call. */
static enum ps_status use(struct ps_shared_content *content, struct ps_push_request *request,
                          struct ps_error *error)
{
    const struct ps_rpc_context *context = content->context;
    /* Whoever keeps bytes that another process may change would keep a promise about bytes that it
     * has not seen. The journal would hold one gradient and the parameter another; an encoding's
     * index, checked and then read again, could point anywhere. */
    bool copies = ps_service_journals(context->service) || request->encoding != PS_ENCODING_NATIVE;
    content->piece = (struct ps_bytes){content->hold.bytes, content->hold.size};
    request->hold = (struct ps_hold){0};
    if (copies) {
        content->copy = copy_of(context->memory, content->piece);
        ps_shared_memory_release(&content->hold);
        if (content->copy == NULL)
            return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu bytes of content",
                           content->piece.size);
        content->piece.data = content->copy->bytes;
        request->hold = (struct ps_hold){
            .keep = keep, .drop = drop, .self = content->copy, .bytes = content->piece.size};
    } else {
        /* A device, if there is one, may then copy it from where it lies. */
        ps_shared_mapping_pin(content->hold.mapping, content->piece.size);
    }
    /* The client's word that all elements are finite is not believed: values of one client are
     * everybody's. The update looks at the elements itself. */
    request->is_plain = false;
    request->content = ps_view_of(&content->piece);
    ps_shared_memory_count(context->shared, true, content->piece.size, copies);
    return PS_OK;
}

/* Not zeroed: every byte is written at once. */
static struct ps_shared_copy *copy_of(const struct ps_allocator *memory, struct ps_bytes bytes)
{
    struct ps_shared_copy *copy = ps_plain(memory, sizeof *copy + bytes.size);
    if (copy == NULL)
        return NULL;
    copy->memory = memory;
    atomic_init(&copy->references, 1);
    memcpy(copy->bytes, bytes.data, bytes.size);
    return copy;
}

/* The copy has a count of its own, since the journal may keep it for longer than the call. */
static void *keep(void *self)
{
    struct ps_shared_copy *copy = self;
    unsigned before = atomic_fetch_add(&copy->references, 1);
    PS_ASSERT(before > 0);
    return copy;
}

/* On the journal's thread mostly, when the record is durable. */
static void drop(void *kept)
{
    struct ps_shared_copy *copy = kept;
    unsigned before = atomic_fetch_sub(&copy->references, 1);
    PS_ASSERT(before > 0);
    if (before == 1)
        ps_release(copy->memory, copy);
}

/* The hold is empty where there was a copy or nothing was open. */
static void close_content(void *self)
{
    struct ps_shared_content *content = self;
    ps_shared_memory_release(&content->hold);
    if (content->copy != NULL)
        drop(content->copy);
    content->copy = NULL;
    content->piece = (struct ps_bytes){0};
}

/* A client's memory that has gone is no failure: the content then goes in the message, as it would
 * have without that memory. Large content is copied by several threads, since one does not fill the
 * memory's bandwidth. */
static enum ps_status give_content(void *self, const struct ps_shared_range *range,
                                   struct ps_pull_reply *reply, struct ps_error *error)
{
    struct ps_rpc_context *context = ((struct ps_shared_content *)self)->context;
    struct ps_shared_hold hold;
    struct ps_view content = reply->content;
    if (range->segment == 0 || context->shared == NULL || content.size == 0 ||
        content.size > range->size)
        return PS_OK;
    enum ps_status status = ps_shared_memory_find(context->shared, range, &hold, error);
    if (status == PS_ERR_UNAVAILABLE)
        return PS_OK;
    if (status != PS_OK)
        return status;
    struct giving giving = {.content = content, .room = hold.bytes};
    const struct ps_crew crew = ps_helpers_crew(&context->helpers);
    if (content.size < PS_SPREAD_BYTES_MIN)
        give_parts(&giving);
    else
        /* Large content is copied by idle helpers as well: one thread does not fill the memory's
         * bandwidth. */
        crew.run(crew.self, give_parts, &giving);
    ps_shared_memory_release(&hold);
    /* The reply must say so only now: a client that reads this number takes the room's bytes as its
     * parameter. */
    reply->shared_size = content.size;
    reply->content = (struct ps_view){NULL, 0, 0};
    ps_shared_memory_count(context->shared, false, content.size, true);
    return PS_OK;
}

/* Each thread takes the next part until there is none: nobody waits for a thread that came late. */
static void give_parts(void *argument)
{
    struct giving *giving = argument;
    size_t size = giving->content.size;
    size_t at;
    while ((at = atomic_fetch_add(&giving->next, GIVEN_PART_BYTES)) < size) {
        size_t part = size - at < GIVEN_PART_BYTES ? size - at : GIVEN_PART_BYTES;
        ps_view_copy(giving->content, at, giving->room + at, part);
    }
}

/* Without clients that share memory no request is read for it. */
size_t ps_shared_content_bytes(const struct ps_rpc_context *context, enum ps_method method,
                               struct ps_view request)
{
    bool is_bundle =
        method == PS_METHOD_PUSHES || method == PS_METHOD_PULLS || method == PS_METHOD_PUSH_PULL;
    if (context->shared == NULL || !ps_shared_memory_is_used(context->shared) ||
        !(is_bundle || method == PS_METHOD_PUSH || method == PS_METHOD_PULL ||
          method == PS_METHOD_ASK || method == PS_METHOD_ANSWER))
        return 0;
    return (size_t)ps_shared_range_total(request, is_bundle, context->message_bytes_max);
}
