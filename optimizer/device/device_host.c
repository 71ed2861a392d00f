/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the host that belongs to others, and that the device copies gradients from: what a
 * trainer on the same machine shares. The bytes cross the host's memory once less by that, which is
 * most of what a push of a large gradient takes there. */
#include "optimizer/device/runtime.h"

#include "base/assert.h"

/* Less than this is in the cache when it is copied, and the device would be asked once more for it:
 * what goes from where it lies goes alone. */
#define DIRECT_BYTES_MIN (256u << 10)

static bool reaches(struct ps_device *device, struct ps_bytes bytes);

enum ps_status ps_device_host_register(struct ps_device *device, void *memory, size_t size,
                                       struct ps_error *error)
{
    PS_TRY(ps_device_enter(device, error));
    PS_ASSERT(memory != NULL && size > 0);
    struct ps_registered *all = &device->registered;
    ps_mutex_lock(&device->lock);
    /* Asked before anything is pinned: there may be a client for each of hundreds of processes, and
     * one that finds no room here is served as well, by way of the ring. */
    bool room = all->count < PS_REGISTERED_MAX;
    ps_mutex_unlock(&device->lock);
    if (!room)
        return ps_fail(error, PS_ERR_BUSY, "the device copies from %d memories already",
                       PS_REGISTERED_MAX);
    /* Without the lock: pinning takes a tenth of a second for each hundred megabytes, and pushes go
     * on. */
    int code = device->driver.host_register(device->driver.self, memory, size);
    /* A machine that limits what a process may pin is no broken card: this is heard and not noted,
     * as a refusal of memory is. */
    if (code != 0 && ps_fault_check(&device->fault, error) == PS_OK)
        return ps_fail(error, PS_ERR_NO_MEMORY, "%zu bytes of memory cannot be pinned: %s (%d)",
                       size, ps_driver_error_name(code), code);
    PS_TRY(ps_fault_check(&device->fault, error));
    ps_mutex_lock(&device->lock);
    room = all->count < PS_REGISTERED_MAX;
    if (room) {
        all->memory[all->count] = memory;
        all->size[all->count++] = size;
    }
    ps_mutex_unlock(&device->lock);
    if (room) {
        atomic_fetch_add(&device->pinned_bytes, size);
        return PS_OK;
    }
    /* Others were quicker. */
    (void)device->driver.host_unregister(device->driver.self, memory);
    return ps_fail(error, PS_ERR_BUSY, "the device copies from %d memories already",
                   PS_REGISTERED_MAX);
}

/* Whoever pushed waited for the copies, so none is on its way. Nobody is told of failures: the
 * memory goes in any case. */
void ps_device_host_unregister(struct ps_device *device, void *memory)
{
    struct ps_registered *all = &device->registered;
    size_t size = 0;
    ps_mutex_lock(&device->lock);
    for (size_t i = 0; size == 0 && i < all->count; i++) {
        if (all->memory[i] != memory)
            continue;
        size = all->size[i];
        all->count--;
        all->memory[i] = all->memory[all->count];
        all->size[i] = all->size[all->count];
    }
    ps_mutex_unlock(&device->lock);
    PS_ASSERT(size > 0); /* It was registered. */
    atomic_fetch_sub(&device->pinned_bytes, size);
    (void)device->driver.enter(device->driver.self);
    (void)device->driver.host_unregister(device->driver.self, memory);
}

/* Scales and indices lie apart from what they belong to: two copies for what the ring does in
 * one. */
const uint8_t *ps_device_direct(struct ps_device *device, const struct ps_gradient_source *source,
                                const struct ps_gradient_part *part)
{
    if (source->encoding == PS_ENCODING_INT8 || source->encoding == PS_ENCODING_TOP_K)
        return NULL;
    size_t size = ps_gradient_part_bytes(source, part);
    if (size < DIRECT_BYTES_MIN)
        return NULL;
    struct ps_view_cursor cursor = {.view = source->content};
    ps_view_skip(&cursor, (size_t)part->first * (size / (size_t)part->count));
    struct ps_bytes run = ps_view_next(&cursor, size);
    return run.size == size && reaches(device, run) ? run.data : NULL;
}

/* The whole run lies in one of them. There are few, and a gradient for which this is asked takes
 * the bus ten times as long. */
static bool reaches(struct ps_device *device, struct ps_bytes bytes)
{
    PS_ASSERT(bytes.size >= DIRECT_BYTES_MIN);
    const struct ps_registered *all = &device->registered;
    bool found = false;
    ps_mutex_lock(&device->lock);
    for (size_t i = 0; !found && i < all->count; i++)
        found = bytes.data >= all->memory[i] &&
                bytes.data + bytes.size <= all->memory[i] + all->size[i];
    ps_mutex_unlock(&device->lock);
    if (found)
        atomic_fetch_add(&device->direct_bytes, bytes.size);
    return found;
}
