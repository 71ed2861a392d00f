/* SPDX-License-Identifier: Apache-2.0 */
/* In place, or copied once: the header says when, and why that is the question. */
#include "server/rpc/shared_content.h"

#include "base/assert.h"
#include "proto/shared_range.h"
#include "server/core/requests/push_on_device.h"
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
static uint8_t *open_room(void *self, const struct ps_shared_range *range);
static void close_room(void *self);
static enum ps_status give_content(void *self, const struct ps_shared_range *range,
                                   struct ps_pull_reply *reply, struct ps_error *error);
static enum ps_status use(struct ps_shared_content *content, struct ps_push_request *request,
                          struct ps_error *error);
static enum ps_status use_device(struct ps_shared_content *content, struct ps_push_request *request,
                                 struct ps_error *error);
static enum ps_status given(struct ps_rpc_context *context, struct ps_shared_hold *hold,
                            struct ps_pull_reply *reply, enum ps_status status);
static void use_copy(struct ps_shared_content *content, struct ps_push_request *request);
/* With one reference, which is the content's. */
static struct ps_shared_copy *room_for(const struct ps_allocator *memory, size_t size);
static struct ps_shared_copy *copy_of(const struct ps_allocator *memory, struct ps_bytes bytes);
static void give_parts(void *argument);
static void *keep(void *self);
static void drop(void *kept);

void ps_shared_content_init(struct ps_shared_content *content, struct ps_rpc_context *context)
{
    *content = (struct ps_shared_content){.ways = {.open = open_content,
                                                   .close = close_content,
                                                   .open_room = open_room,
                                                   .close_room = close_room,
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
    /* The limit of a message holds here, too: it bounds what one request may cost the server. What
     * a device reads by itself costs it nothing. */
    bool is_large = range->size > context->message_bytes_max;
    enum ps_status status = ps_shared_memory_find(context->shared, range, &content->hold, error);
    bool on_device = ps_shared_hold_on_device(&content->hold);
    if (is_large && !on_device) {
        ps_shared_memory_release(&content->hold);
        return ps_fail(error, PS_ERR_OUT_OF_RANGE,
                       "shared memory: %" PRIu64 " bytes are more than the %" PRIu64
                       " of the largest message",
                       range->size, context->message_bytes_max);
    }
    if (status != PS_OK)
        return status;
    return on_device ? use_device(content, request, error) : use(content, request, error);
}

/* The kernels read it where it lies, if the parameter is there and nothing of the push is the
 * host's affair. If not, it is copied to the host once, as content that is journaled is. */
static enum ps_status use_device(struct ps_shared_content *content, struct ps_push_request *request,
                                 struct ps_error *error)
{
    const struct ps_rpc_context *context = content->context;
    const struct ps_shared_devices *devices = &content->hold.mapping->devices;
    size_t size = content->hold.size;
    content->piece = (struct ps_bytes){content->hold.bytes, size};
    request->hold = (struct ps_hold){0};
    request->is_plain = false;
    request->content = ps_view_of(&content->piece);
    request->on_device = true;
    /* Held until the push was asked for; the kernels that read it later keep the piece open by
     * themselves, since letting go of it waits for them. */
    if (ps_service_reads_device(context->service, request)) {
        ps_shared_memory_count(context->shared, true, size, false);
        return PS_OK;
    }
    /* No trace of the address is left in the request: whoever reads its content reads the copy. */
    request->on_device = false;
    request->content = (struct ps_view){NULL, 0, 0};
    /* The client has a better way for so much: in ranges, from a copy of its own. */
    if (size > context->message_bytes_max)
        return ps_fail(error, PS_ERR_UNSUPPORTED,
                       "%zu bytes on a device, that the server would have to copy: more than the "
                       "%" PRIu64 " of the largest message",
                       size, context->message_bytes_max);
    /* On the lane, as a copy of shared memory is: the bus brings it in about that time. */
    struct ps_shared_copy *copy = room_for(context->memory, size);
    if (copy == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu bytes of content", size);
    content->copy = copy;
    PS_TRY(devices->read(devices->self, copy->bytes, content->hold.bytes, size, error));
    /* The device has read it: the client's memory is used no more. */
    ps_shared_memory_release(&content->hold);
    use_copy(content, request);
    ps_shared_memory_count(context->shared, true, size, true);
    return PS_OK;
}

/* The request is about the copy from here on, and others may keep that. */
static void use_copy(struct ps_shared_content *content, struct ps_push_request *request)
{
    content->piece.data = content->copy->bytes;
    request->content = ps_view_of(&content->piece);
    request->hold = (struct ps_hold){
        .keep = keep, .drop = drop, .self = content->copy, .bytes = content->piece.size};
}

/* Whoever keeps bytes that another process may change would keep a promise about bytes that it has
 * not seen: the journal would hold one gradient and the parameter another. And an encoding's index,
 * checked and then read again, could point anywhere. Rows of a table are read once
 * (tables/row_push.h): what is checked is what was taken. */
static bool is_copied(const struct ps_service *service, enum ps_encoding encoding)
{
    bool is_read_once = encoding == PS_ENCODING_NATIVE || encoding == PS_ENCODING_ROWS;
    return ps_service_journals(service) || !is_read_once;
}

/* Content that is not copied here has no handle: the service copies what is to outlive the call. */
static enum ps_status use(struct ps_shared_content *content, struct ps_push_request *request,
                          struct ps_error *error)
{
    const struct ps_rpc_context *context = content->context;
    bool copies = is_copied(context->service, request->encoding);
    content->piece = (struct ps_bytes){content->hold.bytes, content->hold.size};
    request->hold = (struct ps_hold){0};
    if (copies) {
        content->copy = copy_of(context->memory, content->piece);
        ps_shared_memory_release(&content->hold);
        if (content->copy == NULL)
            return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu bytes of content",
                           content->piece.size);
        use_copy(content, request);
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
static struct ps_shared_copy *room_for(const struct ps_allocator *memory, size_t size)
{
    struct ps_shared_copy *copy = ps_plain(memory, sizeof *copy + size);
    if (copy == NULL)
        return NULL;
    copy->memory = memory;
    atomic_init(&copy->references, 1);
    return copy;
}

static struct ps_shared_copy *copy_of(const struct ps_allocator *memory, struct ps_bytes bytes)
{
    struct ps_shared_copy *copy = room_for(memory, bytes.size);
    if (copy != NULL)
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

/* Of the host's memory nothing is open: values are copied there from any version. What is wrong
 * with a range is said when the content is given. */
static uint8_t *open_room(void *self, const struct ps_shared_range *range)
{
    struct ps_shared_content *content = self;
    struct ps_shared_memory *shared = content->context->shared;
    PS_ASSERT(content->room.mapping == NULL);
    if (range->segment == 0 || shared == NULL ||
        ps_shared_memory_find(shared, range, &content->room, NULL) != PS_OK)
        return NULL;
    /* The hold keeps the piece open until the device has written. */
    if (ps_shared_hold_on_device(&content->room))
        return content->room.bytes;
    ps_shared_memory_release(&content->room);
    return NULL;
}

/* Behind the wait for the device: nothing is on its way to the room any more. */
static void close_room(void *self)
{
    ps_shared_memory_release(&((struct ps_shared_content *)self)->room);
}

/* The bytes are in the client's memory, unless the device has failed. */
static enum ps_status given(struct ps_rpc_context *context, struct ps_shared_hold *hold,
                            struct ps_pull_reply *reply, enum ps_status status)
{
    /* In any case: a device that failed writes there no more. */
    ps_shared_memory_release(hold);
    if (status != PS_OK)
        return status;
    /* The reply must say so only now: a client that reads this number takes the room's bytes as its
     * parameter. */
    reply->shared_size = reply->content.size;
    reply->content = (struct ps_view){NULL, 0, 0};
    ps_shared_memory_count(context->shared, false, reply->shared_size, true);
    return PS_OK;
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
    /* The device has written it there: no byte came to the host, and none was copied by it. */
    if (reply->shared_size > 0) {
        ps_shared_memory_count(context->shared, false, reply->shared_size, false);
        return PS_OK;
    }
    if (range->segment == 0 || context->shared == NULL || content.size == 0 ||
        content.size > range->size)
        return PS_OK;
    enum ps_status status = ps_shared_memory_find(context->shared, range, &hold, error);
    if (status == PS_ERR_UNAVAILABLE)
        return PS_OK;
    if (status != PS_OK)
        return status;
    if (ps_shared_hold_on_device(&hold)) {
        const struct ps_shared_devices *devices = &hold.mapping->devices;
        status = devices->write(devices->self, hold.bytes, content, error);
        return given(context, &hold, reply, status);
    }
    struct giving giving = {.content = content, .room = hold.bytes};
    const struct ps_crew crew = ps_helpers_crew(&context->helpers);
    if (content.size < PS_SPREAD_BYTES_MIN)
        give_parts(&giving);
    else
        /* Large content is copied by idle helpers as well: one thread does not fill the memory's
         * bandwidth. */
        crew.run(crew.self, give_parts, &giving);
    return given(context, &hold, reply, PS_OK);
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
