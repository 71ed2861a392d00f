/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of slots that gradients pass through: each is a piece of pinned host memory and a piece
 * of device memory of the same size, so that filling, copying and computing overlap. */
#include "optimizer/device/runtime.h"

#include "base/assert.h"

/* Gradients smaller than this on average fill a table before they fill a slot. */
#define ENTRY_GRADIENT_BYTES 4096

static void choose_sizes(struct ps_ring *ring, uint64_t pinned_bytes);
static size_t table_bytes(const struct ps_ring *ring);
static size_t judge_bytes(const struct ps_ring *ring);
static enum ps_status acquire_memory(struct ps_device *device, struct ps_error *error);
static enum ps_status open_slots(struct ps_device *device, struct ps_error *error);
static void take(struct ps_device *device, struct ps_slot **slots, size_t count);
static void enter_room(struct ps_device *device, struct ps_slot_room *room, size_t count);
static void put_back(struct ps_ring *ring, struct ps_slot *slot);

enum ps_status ps_ring_open(struct ps_device *device, uint64_t pinned_bytes, struct ps_error *error)
{
    choose_sizes(&device->ring, pinned_bytes > 0 ? pinned_bytes : 64u << 20);
    PS_TRY(acquire_memory(device, error));
    return open_slots(device, error);
}

/* Eight slots where the memory allows it, two at least: one is filled while the other is on its
 * way. A gradient that is to be looked at may fill half of them, all of those together all but one
 * in eight. */
static void choose_sizes(struct ps_ring *ring, uint64_t pinned_bytes)
{
    /* Multiples of the least size, so that slots begin at lines of the device. */
    uint64_t share = pinned_bytes / 8 / PS_SLOT_BYTES_MIN * PS_SLOT_BYTES_MIN;
    uint64_t size = share < PS_SLOT_BYTES ? share : PS_SLOT_BYTES;
    ring->slot_bytes = size > 0 ? (size_t)size : PS_SLOT_BYTES_MIN;
    uint64_t count = pinned_bytes / ring->slot_bytes;
    count = count < PS_SLOTS_MAX ? count : PS_SLOTS_MAX;
    ring->slot_count = count > 2 ? (size_t)count : 2;
    /* Half, so that two such gradients can be under way, one being looked at while the other
     * arrives. */
    ring->judged_slots_max = ring->slot_count / 2;
    ring->judged_room.free = ring->slot_count - (ring->slot_count + 7) / 8;
    ring->entries_max = ring->slot_bytes / ENTRY_GRADIENT_BYTES;
    size_t table = table_bytes(ring);
    size_t judge = judge_bytes(ring);
    ring->behind_bytes = table > judge ? table : judge;
    ring->behind_bytes += PS_DEVICE_ALIGNMENT - ring->behind_bytes % PS_DEVICE_ALIGNMENT;
}

/* Every element has a byte at least, and every run one chunk that is not full. */
static size_t table_bytes(const struct ps_ring *ring)
{
    size_t chunks_max = ring->entries_max + ring->slot_bytes / PS_CUDA_CHUNK;
    return ring->entries_max * sizeof(struct ps_cuda_entry) +
           chunks_max * sizeof(struct ps_cuda_chunk);
}

/* A gradient that is judged needs room for its verdict and for the partial sums of its norm,
 * behind the gradient itself. */
static size_t judge_bytes(const struct ps_ring *ring)
{
    return PS_VERDICT_BYTES +
           (size_t)ps_cuda_sums(ring->judged_slots_max * ring->slot_bytes) * sizeof(double);
}

/* One piece on each side, for all slots: pinned memory is dear to ask for, and is asked for once
 * in the life of a server. */
static enum ps_status acquire_memory(struct ps_device *device, struct ps_error *error)
{
    struct ps_ring *ring = &device->ring;
    struct ps_driver *driver = &device->driver;
    size_t size = (ring->slot_bytes + ring->behind_bytes) * ring->slot_count;
    void *memory = NULL;
    /* The host's half first: a refusal here leaves the card as it was. */
    int code = driver->host_acquire(driver->self, size, &memory);
    PS_TRY(ps_device_check_memory(device, code, "the ring's pinned half", size, error));
    ring->host = memory;
    atomic_fetch_add(&device->pinned_bytes, size);
    code = driver->device_acquire(driver->self, size, &memory);
    PS_TRY(ps_device_check_memory(device, code, "the ring", size, error));
    ring->device = memory;
    return PS_OK;
}

/* Slot and place behind it lie together, on the host and on the device at the same distance, so
 * that one copy brings both where it can. */
static enum ps_status open_slots(struct ps_device *device, struct ps_error *error)
{
    struct ps_ring *ring = &device->ring;
    struct ps_driver *driver = &device->driver;
    /* Slots and what is behind them alternate. */
    size_t stride = ring->slot_bytes + ring->behind_bytes;
    for (size_t i = 0; i < ring->slot_count; i++) {
        struct ps_slot *slot = &ring->slots[i];
        slot->host = ring->host + i * stride;
        slot->device = ring->device + i * stride;
        int code = driver->event_create(driver->self, &slot->copied);
        if (code == 0)
            code = driver->event_create(driver->self, &slot->done);
        if (code == 0)
            code = driver->event_create(driver->self, &slot->judged);
        PS_TRY(ps_device_check_memory(device, code, "creating an event", 0, error));
        /* All idle at first, in their order. */
        ring->idle[i] = slot;
    }
    ring->room.free = ring->slot_count;
    return PS_OK;
}

void ps_ring_close(struct ps_device *device)
{
    struct ps_ring *ring = &device->ring;
    struct ps_driver *driver = &device->driver;
    for (size_t i = 0; i < ring->slot_count; i++) {
        driver->event_destroy(driver->self, ring->slots[i].copied);
        driver->event_destroy(driver->self, ring->slots[i].done);
        driver->event_destroy(driver->self, ring->slots[i].judged);
    }
    /* The device's half may be missing where opening stopped. */
    if (ring->device != NULL)
        (void)driver->device_release(driver->self, ring->device);
    if (ring->host != NULL)
        (void)driver->host_release(driver->self, ring->host);
}

/* A slot is taken first and waited for then: its former content may still be on its way, and
 * whoever comes next in turn need not wait for that, too. */
enum ps_status ps_slot_take(struct ps_device *device, struct ps_slot **out, struct ps_error *error)
{
    struct ps_slot *slot = NULL;
    ps_mutex_lock(&device->lock);
    take(device, &slot, 1);
    ps_mutex_unlock(&device->lock);
    enum ps_status status = ps_slot_await(device, slot, error);
    if (status != PS_OK) {
        ps_slot_return(device, slot);
        return status;
    }
    *out = slot;
    return PS_OK;
}

/* The room for such gradients first: nobody is kept from a slot by one that waits for its room. */
void ps_slots_take_judged(struct ps_device *device, struct ps_slot **slots, size_t count)
{
    PS_ASSERT(count <= device->ring.judged_slots_max);
    ps_mutex_lock(&device->lock);
    enter_room(device, &device->ring.judged_room, count);
    take(device, slots, count);
    ps_mutex_unlock(&device->lock);
}

/* Slots go round: the one that has rested longest is the one whose work is likeliest to be done. */
static void take(struct ps_device *device, struct ps_slot **slots, size_t count)
{
    struct ps_ring *ring = &device->ring;
    enter_room(device, &ring->room, count);
    for (size_t i = 0; i < count; i++) {
        slots[i] = ring->idle[ring->idle_first];
        ring->idle_first = (ring->idle_first + 1) % ring->slot_count;
    }
}

/* In turn, so that who asks for many gets them, too. */
static void enter_room(struct ps_device *device, struct ps_slot_room *room, size_t count)
{
    /* A turn is a ticket: a call that wants four slots is not passed for ever by calls that want
     * one. */
    uint64_t turn = room->turn_newest++;
    while (room->turn != turn || room->free < count)
        (void)ps_condition_wait(&device->ring.returned, &device->lock, PS_DEADLINE_NEVER);
    room->free -= count;
    room->turn++;
    /* The next in turn may find enough room already, and nobody else would wake it. */
    ps_condition_signal_all(&device->ring.returned);
}

enum ps_status ps_slot_await(struct ps_device *device, struct ps_slot *slot, struct ps_error *error)
{
    if (PS_DEVICE_MISSING_WAIT == 1)
        return PS_OK;
    return ps_device_await_event(device, slot->copied, "waiting for a slot", error); /* W1 */
}

/* The device's side of a slot is overwritten only when the launch that read it is done (W2); the
 * host's side is free again when the copy is (W1). Gradient and table behind it are two copies,
 * because the space between them may be megabytes. */
enum ps_status ps_slot_send(struct ps_device *device, struct ps_slot *slot, const uint8_t *from,
                            size_t size, size_t behind, struct ps_error *error)
{
    struct ps_driver *driver = &device->driver;
    size_t offset = device->ring.slot_bytes;
    int code = 0;
    if (PS_DEVICE_MISSING_WAIT != 2)
        code = driver->stream_wait(driver->self, device->copy_in, slot->done); /* W2 */
    if (code == 0)
        code = driver->copy(driver->self, slot->device, from, size, PS_DRIVER_TO_DEVICE,
                            device->copy_in);
    if (code == 0 && behind > 0)
        code = driver->copy(driver->self, slot->device + offset, slot->host + offset, behind,
                            PS_DRIVER_TO_DEVICE, device->copy_in);
    if (code == 0)
        code = driver->record(driver->self, slot->copied, device->copy_in);
    return ps_device_check_code(device, code, "copying a gradient", error);
}

void ps_slot_return(struct ps_device *device, struct ps_slot *slot)
{
    if (slot == NULL)
        return;
    ps_mutex_lock(&device->lock);
    put_back(&device->ring, slot);
    ps_mutex_unlock(&device->lock);
}

void ps_slots_return_judged(struct ps_device *device, struct ps_slot **slots, size_t count)
{
    ps_mutex_lock(&device->lock);
    for (size_t i = 0; i < count; i++)
        put_back(&device->ring, slots[i]);
    device->ring.judged_room.free += count;
    ps_mutex_unlock(&device->lock);
}

/* Behind the last idle one, so that slots are taken in the order in which they came back. */
static void put_back(struct ps_ring *ring, struct ps_slot *slot)
{
    /* A slot that is given back twice would be given out twice. */
    PS_ASSERT(ring->room.free < ring->slot_count);
    ring->idle[(ring->idle_first + ring->room.free) % ring->slot_count] = slot;
    ring->room.free++;
    ps_condition_signal_all(&ring->returned);
}
