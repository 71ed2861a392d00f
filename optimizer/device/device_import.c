/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of other processes on this device. A gradient that lies in it has no way to go: kernels
 * look at it and apply it where it is, so that of a push of any size nothing crosses the bus and
 * nothing is copied. It can change while it is used, as a gradient in a client's shared memory can;
 * what the server promises about that is in docs/shared-memory.md. */
#include "optimizer/device/runtime.h"

#include "base/assert.h"

#include <string.h>

static enum ps_status note(struct ps_device *device, uint8_t *memory, uint64_t size,
                           struct ps_error *error);
static enum ps_status queue_copy(struct ps_device *device, uint8_t *to, const uint8_t *from,
                                 uint64_t size, struct ps_device_ticket *ticket,
                                 struct ps_error *error);

/* A bound on the list, which every gradient is looked for in, and not on what clients may have:
 * that is the server's affair. */
static bool is_full(struct ps_device *device)
{
    ps_mutex_lock(&device->lock);
    bool full = device->imported.count == PS_IMPORTED_MAX;
    ps_mutex_unlock(&device->lock);
    return full;
}

/* What a client says is never the end of the device: a wrong name is the client's affair, and the
 * driver's number for it is heard and not noted. */
enum ps_status ps_device_import(struct ps_device *device, const struct ps_device_share *share,
                                uint8_t **memory, struct ps_error *error)
{
    void *made = NULL;
    PS_TRY(ps_device_enter(device, error));
    /* By the uuid and not by a number: two processes may count the cards differently. */
    if (memchr(share->device, '\0', sizeof share->device) == NULL ||
        strcmp(share->device, device->facts.uuid) != 0)
        return ps_fail(error, PS_ERR_UNSUPPORTED, "memory of device %.47s, and not of %s",
                       share->device, device->facts.uuid);
    /* Asked before the driver opens anything. */
    if (is_full(device))
        return ps_fail(error, PS_ERR_BUSY, "%d pieces of memory are imported already",
                       PS_IMPORTED_MAX);
    int code =
        share->bytes > 0 ? device->driver.import(device->driver.self, share, &made) : PS_FAULT_NONE;
    if (made == NULL) {
        PS_TRY(ps_fault_check(&device->fault, error));
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "%llu bytes of a device's memory cannot be opened: %s (%d)",
                       (unsigned long long)share->bytes, ps_driver_error_name(code), code);
    }
    PS_TRY(note(device, made, share->bytes, error));
    *memory = made;
    return PS_OK;
}

/* Others may have been quicker since somebody asked whether there is room. */
static enum ps_status note(struct ps_device *device, uint8_t *memory, uint64_t size,
                           struct ps_error *error)
{
    struct ps_imported *all = &device->imported;
    ps_mutex_lock(&device->lock);
    bool room = all->count < PS_IMPORTED_MAX;
    if (room) {
        all->memory[all->count] = memory;
        all->size[all->count++] = size;
    }
    ps_mutex_unlock(&device->lock);
    if (room)
        return PS_OK;
    /* Nobody has been told the address. */
    (void)device->driver.unimport(device->driver.self, memory);
    return ps_fail(error, PS_ERR_BUSY, "%d pieces of memory are imported already", PS_IMPORTED_MAX);
}

/* Updates that were queued may still read it, though those who pushed have gone: all that is queued
 * now is waited for. A dead device reads nothing any more. */
void ps_device_unimport(struct ps_device *device, uint8_t *memory)
{
    struct ps_imported *all = &device->imported;
    struct ps_device_ticket ticket = {0};
    bool found = false;
    ps_mutex_lock(&device->lock);
    for (size_t i = 0; !found && i < all->count; i++) {
        found = all->memory[i] == memory;
        if (!found)
            continue;
        all->count--;
        all->memory[i] = all->memory[all->count];
        all->size[i] = all->size[all->count];
    }
    ps_mutex_unlock(&device->lock);
    /* Off the list first: no gradient is found in it any more while this waits. */
    PS_ASSERT(found); /* It was imported. */
    /* All three streams may have been given the address: updates and copies to it are behind the
     * compute mark, copies from it behind the other. A look is over when its verdict is known. */
    if (ps_device_enter(device, NULL) == PS_OK) {
        ps_mutex_lock(&device->lock);
        enum ps_status status = ps_timeline_mark(device, &device->compute, &ticket.compute, NULL);
        if (status == PS_OK)
            status = ps_timeline_mark(device, &device->copy_out, &ticket.copy_out, NULL);
        ps_mutex_unlock(&device->lock);
        if (status == PS_OK)
            (void)!ps_device_wait(device, ticket, NULL);
    }
    /* What the driver says is for nobody: the memory is the other process's, and goes with it. */
    (void)device->driver.unimport(device->driver.self, memory);
}

/* Looked for by address: whoever pushes says no more than where the gradient is, as of the host's
 * memory. */
const uint8_t *ps_device_in_place(struct ps_device *device, const struct ps_gradient_source *source)
{
    const struct ps_imported *all = &device->imported;
    bool found = false;
    if (source->content.piece_count != 1)
        return NULL;
    struct ps_bytes bytes = source->content.pieces[0];
    uintptr_t begin = (uintptr_t)bytes.data;
    ps_mutex_lock(&device->lock);
    for (size_t i = 0; !found && i < all->count; i++) {
        uintptr_t start = (uintptr_t)all->memory[i];
        found = begin >= start && bytes.size <= all->size[i] &&
                begin - start <= all->size[i] - bytes.size;
    }
    ps_mutex_unlock(&device->lock);
    /* The kernels' terms, which whoever pushes has seen to. */
    PS_ASSERT(!found ||
              (begin % PS_IN_PLACE_ALIGNMENT == 0 && source->encoding == PS_ENCODING_NATIVE));
    return found ? bytes.data : NULL;
}

/* All of it in one launch: no slot bounds it. Reads of the parameter that were begun before come
 * first (W5). */
enum ps_status ps_device_push_in_place(struct ps_device_parameter *parameter,
                                       const struct ps_gradient_source *source,
                                       const uint8_t *place, const struct ps_optimizer_step *step,
                                       struct ps_error *error)
{
    struct ps_device *device = parameter->device;
    /* As a part that is everything, so that runs are described in one place. */
    const struct ps_gradient_part whole = {.count = source->count};
    PS_TRY(ps_device_await_readers(parameter, 0, source->count, error));
    const struct ps_cuda_apply apply = {.step = step,
                                        .run = ps_device_run(parameter, source, &whole, place)};
    /* No event is recorded: what waits for the update waits for the stream. */
    ps_mutex_lock(&device->lock);
    int code = device->driver.apply(device->driver.self, &apply, device->compute.stream);
    ps_mutex_unlock(&device->lock);
    atomic_fetch_add(&device->launch_count, 1);
    atomic_fetch_add(&device->in_place_bytes, source->content.size);
    return ps_device_check_code(device, code, "launching an update", error);
}

/* In the compute stream, where updates are: so no later one writes into what is copied, without a
 * wait for it. On a card such a copy takes as long as reading and writing the bytes once. */
enum ps_status ps_device_copy_out(struct ps_device_parameter *parameter, uint32_t array,
                                  uint64_t offset, uint8_t *to, uint64_t size,
                                  struct ps_device_ticket *ticket, struct ps_error *error)
{
    struct ps_device *device = parameter->device;
    PS_ASSERT(array < parameter->array_count);
    PS_ASSERT(offset <= parameter->array_bytes && size <= parameter->array_bytes - offset);
    PS_TRY(ps_device_enter(device, error));
    const uint8_t *from = ps_device_parameter_array(parameter, array) + offset;
    /* Copy and mark under one lock: nothing comes between them in the stream. */
    *ticket = (struct ps_device_ticket){0};
    ps_mutex_lock(&device->lock);
    enum ps_status status = queue_copy(device, to, from, size, ticket, error);
    ps_mutex_unlock(&device->lock);
    return status;
}

/* Under the lock. */
static enum ps_status queue_copy(struct ps_device *device, uint8_t *to, const uint8_t *from,
                                 uint64_t size, struct ps_device_ticket *ticket,
                                 struct ps_error *error)
{
    struct ps_driver *driver = &device->driver;
    int code = driver->copy(driver->self, to, from, (size_t)size, PS_DRIVER_ON_DEVICE,
                            device->compute.stream);
    PS_TRY(ps_device_check_code(device, code, "copying values on the device", error));
    return ps_timeline_mark(device, &device->compute, &ticket->compute, error);
}
