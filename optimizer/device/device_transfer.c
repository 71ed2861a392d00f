/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between the host's ordinary memory and the device's, by way of the pinned slots. They are
 * for loading, recovery and checkpoints; gradients and pulls have ways of their own. */
#include "optimizer/device/runtime.h"

#include <string.h>

static enum ps_status load_piece(struct ps_device *device, struct ps_slot *slot, uint8_t *to,
                                 size_t size, struct ps_error *error);
static enum ps_status fetch_piece(struct ps_device *device, struct ps_slot *slot,
                                  const uint8_t *from, size_t size, struct ps_error *error);
static enum ps_status queue_fetch(struct ps_device *device, struct ps_slot *slot,
                                  const uint8_t *from, size_t size, struct ps_error *error);

/* Piece by piece through the slots, like gradients: a load takes its turn among them, and pinned
 * memory stays what it was measured for. */
enum ps_status ps_device_load(struct ps_device *device, uint8_t *to, struct ps_view content,
                              struct ps_error *error)
{
    PS_TRY(ps_device_enter(device, error));
    for (size_t done = 0; done < content.size;) {
        /* The last piece is short. */
        size_t rest = content.size - done;
        size_t size = rest < device->ring.slot_bytes ? rest : device->ring.slot_bytes;
        struct ps_slot *slot = NULL;
        /* Taken for each piece anew, so that gradients get their turn in between. */
        PS_TRY(ps_slot_take(device, &slot, error));
        /* The content may lie in many pieces of a message or of a file; the slot has it in one. */
        ps_view_copy(content, done, slot->host, size);
        enum ps_status status = load_piece(device, slot, to + done, size, error);
        ps_slot_return(device, slot);
        if (status != PS_OK)
            return status;
        done += size;
    }
    atomic_fetch_add(&device->bytes_in, content.size);
    return PS_OK;
}

/* On the compute stream, so that an update which is queued behind it finds the values. */
static enum ps_status load_piece(struct ps_device *device, struct ps_slot *slot, uint8_t *to,
                                 size_t size, struct ps_error *error)
{
    struct ps_driver *driver = &device->driver;
    ps_mutex_lock(&device->lock);
    int code = driver->copy(driver->self, to, slot->host, size, PS_DRIVER_TO_DEVICE,
                            device->compute.stream);
    if (code == 0)
        code = driver->record(driver->self, slot->copied, device->compute.stream);
    enum ps_status status = ps_device_check_code(device, code, "loading", error);
    ps_mutex_unlock(&device->lock);
    return status;
}

/* Each piece is waited for before the slot goes back: its host side is copied out here. */
enum ps_status ps_device_fetch(struct ps_device *device, void *to, const uint8_t *from, size_t size,
                               struct ps_error *error)
{
    PS_TRY(ps_device_enter(device, error));
    for (size_t done = 0; done < size;) {
        size_t rest = size - done;
        size_t piece = rest < device->ring.slot_bytes ? rest : device->ring.slot_bytes;
        struct ps_slot *slot = NULL;
        PS_TRY(ps_slot_take(device, &slot, error));
        enum ps_status status = fetch_piece(device, slot, from + done, piece, error);
        if (status == PS_OK)
            memcpy((uint8_t *)to + done, slot->host, piece);
        ps_slot_return(device, slot);
        if (status != PS_OK)
            return status;
        done += piece;
    }
    atomic_fetch_add(&device->bytes_out, size);
    /* A fault in another stream makes these bytes worthless, too. */
    return ps_fault_check(&device->fault, error);
}

/* The lock is not held while the copy is under way: others queue work meanwhile. */
static enum ps_status fetch_piece(struct ps_device *device, struct ps_slot *slot,
                                  const uint8_t *from, size_t size, struct ps_error *error)
{
    ps_mutex_lock(&device->lock);
    enum ps_status status = queue_fetch(device, slot, from, size, error);
    ps_mutex_unlock(&device->lock);
    if (status != PS_OK)
        return status;
    return ps_device_await_event(device, slot->copied, "reading", error);
}

/* Later updates write only after this one: the caller waits for it, and no update of these bytes is
 * queued before: he holds the parameter's lock, or they are a snapshot's. */
static enum ps_status queue_fetch(struct ps_device *device, struct ps_slot *slot,
                                  const uint8_t *from, size_t size, struct ps_error *error)
{
    struct ps_driver *driver = &device->driver;
    struct ps_driver_stream *stream = device->copy_out.stream;
    /* A mark on the compute stream, made for this copy: what is queued there until now comes
     * first. */
    uint64_t ticket = 0;
    PS_TRY(ps_timeline_mark(device, &device->compute, &ticket, error));
    PS_TRY(ps_timeline_await(device, &device->compute, ticket, stream, error));
    int code = driver->copy(driver->self, slot->host, from, size, PS_DRIVER_TO_HOST, stream);
    if (code == 0)
        code = driver->record(driver->self, slot->copied, stream);
    return ps_device_check_code(device, code, "reading", error);
}
