/* A list of memories, each with a list of the servers that have been handed it. */
#include "client/caller_memory.h"

#include "base/assert.h"
#include "base/local_socket.h"
#include "base/shared_segment.h"
#include "base/thread.h"
#include "proto/shared_range.h"

#include <stdatomic.h>
#include <unistd.h>

enum state { OPENING, OPEN, OFF };

struct ps_caller_attachment {
    struct ps_caller_attachment *next; /* of its memory */
    struct caller_memory *owner;
    const void *link; /* NULL: nobody's any more; ends with its last place */
    enum state state;
    int socket;      /* its end ends the memory on the server */
    uint64_t number; /* by which the server knows it */
    uint32_t places;
    bool was_waited_for; /* in vain */
};

struct caller_memory {
    struct caller_memory *next;
    uint8_t *bytes;
    size_t size;
    struct ps_shared_segment segment; /* none: ordinary memory */
    int descriptor;
    bool is_plain;    /* goes to no server any more */
    bool is_released; /* by the caller; ends with its last attachment */
    struct ps_caller_attachment *attachments;
};

struct ps_caller_memories {
    const struct ps_allocator *memory; /* borrowed */
    bool shares;
    int wait_ms;
    atomic_uint shared_count; /* to pass by without the lock where there are none */
    struct ps_mutex lock;     /* PS_RANK_LEAF; guards what follows */
    struct caller_memory *first;
    uint32_t count;
};

static struct caller_memory *create_memory(struct ps_caller_memories *memories, size_t size);
static void end_if_over(struct ps_caller_memories *memories, struct caller_memory *memory);
static struct caller_memory *find_memory(const struct ps_caller_memories *memories,
                                         const uint8_t *content, size_t size);
static struct ps_caller_attachment *attachment_of(struct ps_caller_memories *memories,
                                                  struct caller_memory *memory, const void *link,
                                                  struct ps_bytes name);
static enum ps_status hand_over(const struct caller_memory *memory, struct ps_bytes name,
                                int *socket);
static void hear(struct ps_caller_attachment *attachment);
static void detach(struct ps_caller_memories *memories, struct ps_caller_attachment *attachment);
static void make_safe(struct ps_caller_memories *memories, struct ps_caller_attachment *attachment,
                      const struct ps_shared_range *range);

struct ps_caller_memories *ps_caller_memories_create(const struct ps_allocator *memory, bool shares,
                                                     int wait_ms)
{
    struct ps_caller_memories *memories = ps_zeroed(memory, sizeof *memories);
    if (memories == NULL)
        return NULL;
    memories->memory = memory;
    memories->shares = shares;
    memories->wait_ms = wait_ms;
    atomic_init(&memories->shared_count, 0);
    ps_mutex_init(&memories->lock, PS_RANK_LEAF);
    return memories;
}

void ps_caller_memories_destroy(struct ps_caller_memories *memories)
{
    if (memories == NULL)
        return;
    while (memories->first != NULL)
        (void)ps_caller_memory_release(memories, memories->first->bytes);
    PS_ASSERT(memories->count == 0 && atomic_load(&memories->shared_count) == 0);
    ps_mutex_fini(&memories->lock);
    ps_release(memories->memory, memories);
}

/* ---- Memories ---- */

enum ps_status ps_caller_memory_acquire(struct ps_caller_memories *memories, size_t size,
                                        uint8_t **bytes, struct ps_error *error)
{
    PS_ASSERT(size > 0);
    ps_mutex_lock(&memories->lock);
    bool is_full = memories->count == PS_CALLER_MEMORIES_MAX;
    struct caller_memory *memory = is_full ? NULL : create_memory(memories, size);
    if (memory != NULL) {
        memory->next = memories->first;
        memories->first = memory;
        memories->count++;
    }
    ps_mutex_unlock(&memories->lock);
    if (is_full)
        return ps_fail(error, PS_ERR_BUSY, "a client has %d memories at most",
                       PS_CALLER_MEMORIES_MAX);
    if (memory == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory of %zu bytes", size);
    *bytes = memory->bytes;
    return PS_OK;
}

static struct caller_memory *create_memory(struct ps_caller_memories *memories, size_t size)
{
    struct caller_memory *memory = ps_zeroed(memories->memory, sizeof *memory);
    if (memory == NULL)
        return NULL;
    memory->size = size;
    memory->descriptor = PS_NO_DESCRIPTOR;
    size_t pages = size / PS_CALLER_PAGE_BYTES + (size % PS_CALLER_PAGE_BYTES != 0);
    bool may_share = memories->shares && size < SIZE_MAX / 2 &&
                     atomic_load(&memories->shared_count) < PS_CALLER_SHARED_MAX;
    memory->is_plain =
        !may_share || ps_shared_segment_create(pages * PS_CALLER_PAGE_BYTES, &memory->segment,
                                               &memory->descriptor, NULL) != PS_OK;
    if (memory->is_plain)
        memory->bytes = ps_zeroed(memories->memory, size);
    else
        memory->bytes = memory->segment.bytes;
    if (memory->bytes == NULL) {
        ps_release(memories->memory, memory);
        return NULL;
    }
    atomic_fetch_add(&memories->shared_count, memory->segment.bytes != NULL);
    return memory;
}

bool ps_caller_memory_release(struct ps_caller_memories *memories, const void *bytes)
{
    ps_mutex_lock(&memories->lock);
    struct caller_memory **link = &memories->first;
    while (*link != NULL && (*link)->bytes != bytes)
        link = &(*link)->next;
    struct caller_memory *memory = *link;
    if (memory != NULL) {
        *link = memory->next;
        memories->count--;
        atomic_fetch_sub(&memories->shared_count, memory->segment.bytes != NULL);
        memory->is_released = true;
        for (struct ps_caller_attachment *it = memory->attachments, *next; it != NULL; it = next) {
            next = it->next;
            detach(memories, it);
        }
        end_if_over(memories, memory);
    }
    ps_mutex_unlock(&memories->lock);
    return memory != NULL;
}

static void end_if_over(struct ps_caller_memories *memories, struct caller_memory *memory)
{
    if (!memory->is_released || memory->attachments != NULL)
        return;
    if (memory->segment.bytes == NULL)
        ps_release(memories->memory, memory->bytes);
    ps_shared_segment_close(&memory->segment);
    if (memory->descriptor != PS_NO_DESCRIPTOR)
        (void)close(memory->descriptor);
    ps_release(memories->memory, memory);
}

/* ---- Places ---- */

bool ps_caller_place_acquire(struct ps_caller_memories *memories, const void *link,
                             struct ps_bytes name, const void *content, size_t size,
                             struct ps_caller_place *place)
{
    *place = (struct ps_caller_place){0};
    if (memories == NULL || size == 0 || atomic_load(&memories->shared_count) == 0)
        return false;
    ps_mutex_lock(&memories->lock);
    struct caller_memory *memory = find_memory(memories, content, size);
    struct ps_caller_attachment *attachment =
        memory != NULL ? attachment_of(memories, memory, link, name) : NULL;
    if (attachment != NULL)
        hear(attachment);
    if (attachment != NULL && attachment->state == OPEN) {
        attachment->places++;
        place->range =
            (struct ps_shared_range){.segment = attachment->number,
                                     .offset = (uint64_t)((const uint8_t *)content - memory->bytes),
                                     .size = size};
        place->bytes = memory->bytes + place->range.offset;
        place->held = attachment;
        place->memories = memories;
    }
    ps_mutex_unlock(&memories->lock);
    return place->held != NULL;
}

bool ps_caller_memories_hold(struct ps_caller_memories *memories, const void *link,
                             const void *content, size_t size)
{
    bool holds = false;
    if (memories == NULL || size == 0 || atomic_load(&memories->shared_count) == 0)
        return false;
    ps_mutex_lock(&memories->lock);
    const struct caller_memory *memory = find_memory(memories, content, size);
    if (memory != NULL)
        for (const struct ps_caller_attachment *it = memory->attachments; it != NULL; it = it->next)
            holds = holds || (it->link == link && it->state == OPEN);
    ps_mutex_unlock(&memories->lock);
    return holds;
}

/* Only at the beginning of a page: what else lies in a page may be written meanwhile, and would be
 * lost if the page had to be replaced. */
static struct caller_memory *find_memory(const struct ps_caller_memories *memories,
                                         const uint8_t *content, size_t size)
{
    uintptr_t at = (uintptr_t)content;
    for (struct caller_memory *it = memories->first; it != NULL; it = it->next) {
        uintptr_t begin = (uintptr_t)it->bytes;
        if (it->is_plain || at < begin || size > it->size || at - begin > it->size - size)
            continue;
        return (at - begin) % PS_CALLER_PAGE_BYTES == 0 ? it : NULL;
    }
    return NULL;
}

/* NULL: there is none, and no memory for one. */
static struct ps_caller_attachment *attachment_of(struct ps_caller_memories *memories,
                                                  struct caller_memory *memory, const void *link,
                                                  struct ps_bytes name)
{
    for (struct ps_caller_attachment *it = memory->attachments; it != NULL; it = it->next)
        if (it->link == link)
            return it;
    struct ps_caller_attachment *attachment = ps_zeroed(memories->memory, sizeof *attachment);
    if (attachment == NULL)
        return NULL;
    attachment->owner = memory;
    attachment->link = link;
    attachment->socket = PS_NO_DESCRIPTOR;
    attachment->state = hand_over(memory, name, &attachment->socket) == PS_OK ? OPENING : OFF;
    attachment->next = memory->attachments;
    memory->attachments = attachment;
    return attachment;
}

static enum ps_status hand_over(const struct caller_memory *memory, struct ps_bytes name,
                                int *socket)
{
    uint8_t hello[PS_SHARED_HELLO_BYTES];
    int made;
    PS_TRY(ps_local_socket_connect(name, &made, NULL));
    ps_shared_hello_write(memory->segment.size, hello);
    enum ps_status status = ps_local_socket_send(made, (struct ps_bytes){hello, sizeof hello},
                                                 memory->descriptor, NULL);
    if (status == PS_OK)
        *socket = made;
    else
        (void)close(made);
    return status;
}

/* The server's welcome, and after it nothing but its end. */
static void hear(struct ps_caller_attachment *attachment)
{
    uint8_t bytes[PS_SHARED_WELCOME_BYTES];
    size_t size = 0;
    int passed = PS_NO_DESCRIPTOR;
    if (attachment->state == OFF)
        return;
    enum ps_status status =
        ps_local_socket_receive(attachment->socket, bytes, sizeof bytes, &size, &passed, NULL);
    if (status == PS_ERR_NOT_READY)
        return;
    if (passed != PS_NO_DESCRIPTOR)
        (void)close(passed);
    bool is_welcome = attachment->state == OPENING && status == PS_OK &&
                      ps_shared_welcome_read((struct ps_bytes){bytes, size}, &attachment->number);
    attachment->state = is_welcome ? OPEN : OFF;
}

/* No further place; ends it once there are none. */
static void detach(struct ps_caller_memories *memories, struct ps_caller_attachment *attachment)
{
    attachment->link = NULL;
    if (attachment->places > 0)
        return;
    struct ps_caller_attachment **link = &attachment->owner->attachments;
    while (*link != attachment)
        link = &(*link)->next;
    *link = attachment->next;
    if (attachment->socket != PS_NO_DESCRIPTOR)
        (void)close(attachment->socket);
    ps_release(memories->memory, attachment);
}

void ps_caller_memories_forget(struct ps_caller_memories *memories, const void *link)
{
    if (memories == NULL || atomic_load(&memories->shared_count) == 0)
        return;
    ps_mutex_lock(&memories->lock);
    for (struct caller_memory *memory = memories->first; memory != NULL; memory = memory->next) {
        for (struct ps_caller_attachment *it = memory->attachments, *next; it != NULL; it = next) {
            next = it->next;
            if (it->link == link)
                detach(memories, it);
        }
    }
    ps_mutex_unlock(&memories->lock);
}

void ps_caller_place_release(struct ps_caller_place *place, bool answered)
{
    struct ps_caller_attachment *attachment = place->held;
    struct ps_caller_memories *memories = place->memories;
    if (attachment == NULL)
        return;
    struct caller_memory *memory = attachment->owner;
    if (!answered)
        make_safe(memories, attachment, &place->range);
    ps_mutex_lock(&memories->lock);
    PS_ASSERT(attachment->places > 0);
    attachment->places--;
    if (attachment->link == NULL)
        detach(memories, attachment);
    end_if_over(memories, memory);
    ps_mutex_unlock(&memories->lock);
    *place = (struct ps_caller_place){0};
}

/* When this returns, nobody but the caller uses the range. The place still holds the attachment. */
static void make_safe(struct ps_caller_memories *memories, struct ps_caller_attachment *attachment,
                      const struct ps_shared_range *range)
{
    struct caller_memory *memory = attachment->owner;
    ps_mutex_lock(&memories->lock);
    attachment->link = NULL;
    int wait_ms = attachment->was_waited_for ? 0 : memories->wait_ms;
    ps_mutex_unlock(&memories->lock);
    ps_local_socket_finish(attachment->socket);
    if (ps_local_socket_await_end(attachment->socket, wait_ms))
        return;
    ps_mutex_lock(&memories->lock);
    attachment->was_waited_for = true;
    memory->is_plain = true;
    ps_mutex_unlock(&memories->lock);
    size_t pages =
        (size_t)range->size / PS_CALLER_PAGE_BYTES + (range->size % PS_CALLER_PAGE_BYTES != 0);
    if (ps_shared_segment_replace(memory->bytes + range->offset, pages * PS_CALLER_PAGE_BYTES) !=
        PS_OK)
        (void)ps_local_socket_await_end(attachment->socket, PS_LOCAL_WAIT_FOR_EVER);
}
