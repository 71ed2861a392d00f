/* The ring of slots that gradients pass through: each is a piece of pinned host memory and a piece
 * of device memory of the same size, so that filling, copying and computing overlap. */
#include "optimizer/device/runtime.h"

#include "base/assert.h"

/* Gradients smaller than this on average fill a table before they fill a slot. */
#define ENTRY_GRADIENT_BYTES 4096

static void choose_sizes(struct ps_ring *ring, uint64_t pinned_bytes);
static enum ps_status acquire_memory(struct ps_device *device, struct ps_error *error);
static enum ps_status open_slots(struct ps_device *device, struct ps_error *error);

enum ps_status ps_ring_open(struct ps_device *device, uint64_t pinned_bytes, struct ps_error *error)
{
    choose_sizes(&device->ring, pinned_bytes > 0 ? pinned_bytes : 64u << 20);
    PS_TRY(acquire_memory(device, error));
    return open_slots(device, error);
}

/* Two slots at least: one is filled while the other is on its way. */
static void choose_sizes(struct ps_ring *ring, uint64_t pinned_bytes)
{
    uint64_t half = pinned_bytes / 2 / PS_SLOT_BYTES_MIN * PS_SLOT_BYTES_MIN;
    uint64_t size = half < PS_SLOT_BYTES ? half : PS_SLOT_BYTES;
    ring->slot_bytes = size > 0 ? (size_t)size : PS_SLOT_BYTES_MIN;
    /* Every element has a byte at least, and every run one chunk that is not full. */
    ring->entries_max = ring->slot_bytes / ENTRY_GRADIENT_BYTES;
    size_t chunks_max = ring->entries_max + ring->slot_bytes / PS_CUDA_CHUNK;
    ring->table_bytes = ring->entries_max * sizeof(struct ps_cuda_entry) +
                        chunks_max * sizeof(struct ps_cuda_chunk);
    ring->table_bytes += PS_DEVICE_ALIGNMENT - ring->table_bytes % PS_DEVICE_ALIGNMENT;
    uint64_t count = pinned_bytes / ring->slot_bytes;
    count = count < PS_SLOTS_MAX ? count : PS_SLOTS_MAX;
    ring->slot_count = count > 2 ? (size_t)count : 2;
}

static enum ps_status acquire_memory(struct ps_device *device, struct ps_error *error)
{
    struct ps_ring *ring = &device->ring;
    struct ps_driver *driver = &device->driver;
    size_t size = (ring->slot_bytes + ring->table_bytes) * ring->slot_count;
    void *memory = NULL;
    int code = driver->host_acquire(driver->self, size, &memory);
    PS_TRY(ps_device_check_memory(device, code, "the ring's pinned half", size, error));
    ring->host = memory;
    atomic_fetch_add(&device->pinned_bytes, size);
    code = driver->device_acquire(driver->self, size, &memory);
    PS_TRY(ps_device_check_memory(device, code, "the ring", size, error));
    ring->device = memory;
    return PS_OK;
}

static enum ps_status open_slots(struct ps_device *device, struct ps_error *error)
{
    struct ps_ring *ring = &device->ring;
    struct ps_driver *driver = &device->driver;
    size_t stride = ring->slot_bytes + ring->table_bytes;
    for (size_t i = 0; i < ring->slot_count; i++) {
        struct ps_slot *slot = &ring->slots[i];
        slot->host = ring->host + i * stride;
        slot->device = ring->device + i * stride;
        int code = driver->event_create(driver->self, &slot->copied);
        if (code == 0)
            code = driver->event_create(driver->self, &slot->done);
        PS_TRY(ps_device_check_memory(device, code, "creating an event", 0, error));
        ring->idle[i] = slot;
    }
    ring->idle_count = ring->slot_count;
    return PS_OK;
}

void ps_ring_close(struct ps_device *device)
{
    struct ps_ring *ring = &device->ring;
    struct ps_driver *driver = &device->driver;
    for (size_t i = 0; i < ring->slot_count; i++) {
        driver->event_destroy(driver->self, ring->slots[i].copied);
        driver->event_destroy(driver->self, ring->slots[i].done);
    }
    if (ring->device != NULL)
        (void)driver->device_release(driver->self, ring->device);
    if (ring->host != NULL)
        (void)driver->host_release(driver->self, ring->host);
}

enum ps_status ps_slot_take(struct ps_device *device, struct ps_slot **out, struct ps_error *error)
{
    struct ps_ring *ring = &device->ring;
    ps_mutex_lock(&device->lock);
    while (ring->idle_count == 0)
        (void)ps_condition_wait(&ring->returned, &device->lock, PS_DEADLINE_NEVER);
    struct ps_slot *slot = ring->idle[ring->idle_first];
    ring->idle_first = (ring->idle_first + 1) % ring->slot_count;
    ring->idle_count--;
    ps_mutex_unlock(&device->lock);

    int code = 0;
    if (PS_DEVICE_MISSING_WAIT != 1)
        code = device->driver.event_synchronize(device->driver.self, slot->copied); /* W1 */
    enum ps_status status = ps_device_check_code(device, code, "waiting for a slot", error);
    if (status != PS_OK) {
        ps_slot_return(device, slot);
        return status;
    }
    *out = slot;
    return PS_OK;
}

void ps_slot_return(struct ps_device *device, struct ps_slot *slot)
{
    if (slot == NULL)
        return;
    struct ps_ring *ring = &device->ring;
    ps_mutex_lock(&device->lock);
    PS_ASSERT(ring->idle_count < ring->slot_count);
    ring->idle[(ring->idle_first + ring->idle_count) % ring->slot_count] = slot;
    ring->idle_count++;
    ps_condition_signal_all(&ring->returned);
    ps_mutex_unlock(&device->lock);
}
