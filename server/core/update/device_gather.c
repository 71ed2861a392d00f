/* SPDX-License-Identifier: Apache-2.0 */
/* One buffer and one list, both of fixed size, under one lock. A device takes longer to be asked
 * for a gradient of a few KiB than to apply it, so the asking is shared by as many as come while
 * nobody waits. */
#include "server/core/update/device_gather.h"

#include "base/assert.h"

/* A push whose parts are kept here: the message that it came in is gone when it is flushed. */
struct ps_gathered {
    struct ps_device_push push;
    struct ps_optimizer_step step;
    struct ps_bytes gradient;
};

static enum ps_status flush_locked(struct ps_device_gather *gather, struct ps_error *error);
static enum ps_status check(const struct ps_device_gather *gather, struct ps_error *error);
static bool is_full(const struct ps_device_gather *gather, size_t size);
static void add(struct ps_device_gather *gather, const struct ps_device_push *push);

/* Of the machine's heap and not the shard's: a gather lives as long as the device, and is not
 * counted against what parameters may take. Numbers begin at 1, since 0 stands for nothing to wait
 * for. */
enum ps_status ps_device_gather_open(struct ps_device_gather *gather,
                                     const struct ps_device_plugin *plugin,
                                     struct ps_device *device, struct ps_error *error)
{
    const struct ps_allocator *memory = ps_allocator_heap();
    *gather = (struct ps_device_gather){.plugin = plugin, .device = device, .number = 1};
    PS_ASSERT(plugin != NULL);
    ps_mutex_init(&gather->lock, PS_RANK_GATHER);
    gather->entries = ps_zeroed_array(memory, PS_GATHER_PUSHES, sizeof gather->entries[0]);
    gather->bytes = ps_plain(memory, PS_GATHER_BYTES);
    if (gather->entries != NULL && gather->bytes != NULL)
        return PS_OK;
    ps_device_gather_close(gather);
    return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to gather small gradients");
}

/* Whoever waited for what is left has been told that the server ends. */
void ps_device_gather_close(struct ps_device_gather *gather)
{
    if (gather->plugin == NULL)
        return;
    PS_ASSERT(gather->count <= PS_GATHER_PUSHES);
    ps_release(ps_allocator_heap(), gather->entries);
    ps_release(ps_allocator_heap(), gather->bytes);
    ps_mutex_fini(&gather->lock);
    *gather = (struct ps_device_gather){0};
}

/* Full is found before the push goes in and not behind it: the last one of a gather is still pushed
 * with the next, or when somebody waits for it, whichever is first. */
enum ps_status ps_device_gather_put(struct ps_device_gather *gather,
                                    const struct ps_device_push *push, uint64_t *number,
                                    struct ps_error *error)
{
    size_t size = push->gradient.size;
    PS_ASSERT(size <= PS_GATHER_GRADIENT_BYTES);
    ps_mutex_lock(&gather->lock);
    enum ps_status status = check(gather, error);
    /* In the thread of whoever comes to a full one: no other thread is needed to empty it. */
    if (status == PS_OK && is_full(gather, size))
        status = flush_locked(gather, error);
    if (status == PS_OK) {
        add(gather, push);
        *number = gather->number;
    }
    ps_mutex_unlock(&gather->lock);
    return status;
}

/* The pushes that a failed flush has dropped have their positions and are in the journal. None of
 * them may ever be acknowledged as done by the device, so the first failure stays. */
static enum ps_status check(const struct ps_device_gather *gather, struct ps_error *error)
{
    const struct ps_error *failure = &gather->failure;
    return failure->status == PS_OK ? PS_OK : ps_fail(error, failure->status, "%s", failure->text);
}

/* Either of the two: many tiny gradients use up the list, few larger ones the bytes. */
static bool is_full(const struct ps_device_gather *gather, size_t size)
{
    PS_ASSERT(gather->count <= PS_GATHER_PUSHES);
    PS_ASSERT(gather->used <= PS_GATHER_BYTES);
    return gather->count == PS_GATHER_PUSHES || size > PS_GATHER_BYTES - gather->used;
}

static void add(struct ps_device_gather *gather, const struct ps_device_push *push)
{
    PS_ASSERT(!is_full(gather, push->gradient.size));
    struct ps_gathered *entry = &gather->entries[gather->count++];
    /* One behind the other without gaps: a device's copy engine takes all of them as one. */
    uint8_t *place = gather->bytes + gather->used;
    ps_view_copy(push->gradient, 0, place, push->gradient.size);
    gather->used += push->gradient.size;
    /* The step lives on its caller's stack, and the gradient in a message: both are copied. */
    entry->step = *push->step;
    entry->gradient = (struct ps_bytes){place, push->gradient.size};
    entry->push = *push;
}

/* A gather with a lower number has been pushed already, and the newest ticket stands for it: the
 * device does what it is asked in order. */
enum ps_status ps_device_gather_flush(struct ps_device_gather *gather, uint64_t number,
                                      struct ps_device_ticket *ticket, struct ps_error *error)
{
    ps_mutex_lock(&gather->lock);
    PS_ASSERT(number <= gather->number);
    enum ps_status status = check(gather, error);
    if (status == PS_OK && number == gather->number)
        status = flush_locked(gather, error);
    *ticket = gather->newest;
    ps_mutex_unlock(&gather->lock);
    return status;
}

/* The lock is held while the device is asked, so that no later push of one of these parameters
 * overtakes. Pointers into the entries are set only now: entries are copied by value before. */
static enum ps_status flush_locked(struct ps_device_gather *gather, struct ps_error *error)
{
    struct ps_device_push pushes[PS_GATHER_PUSHES];
    size_t count = gather->count;
    PS_ASSERT(count > 0);
    for (size_t i = 0; i < count; i++) {
        struct ps_gathered *entry = &gather->entries[i];
        pushes[i] = entry->push;
        /* Now the entries stay where they are until the device has taken them. */
        pushes[i].step = &entry->step;
        pushes[i].gradient = ps_view_of(&entry->gradient);
    }
    /* Emptied whatever becomes of it: what a dead device has not taken is lost with the device. */
    gather->count = 0;
    gather->used = 0;
    /* Before the device is asked: a waiter that comes behind this lock finds its gather pushed. */
    gather->number++;
    enum ps_status status =
        gather->plugin->push(gather->device, pushes, count, &gather->newest, &gather->failure);
    return status == PS_OK ? PS_OK : check(gather, error);
}
