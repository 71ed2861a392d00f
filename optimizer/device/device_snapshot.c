/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter as it was at one moment. Memory for the copy is there before that moment, in which
 * nobody waits: a copy on the device takes its place in the compute stream, and where there was no
 * room for one, the parameter's own arrays are lent to the snapshot. They come to the host with the
 * first read of it, or before the next update: whoever is first brings them, others wait for it. */
#include "optimizer/device/runtime.h"

#include "base/assert.h"

#include <string.h>

struct ps_device_snapshot {
    struct ps_device *device;
    uint64_t array_bytes;
    uint32_t array_count;
    uint8_t *device_arrays; /* or */
    uint8_t *host_arrays;
    /* Of one on the host; guarded by the device's lock. */
    struct ps_device_parameter *lender; /* whose arrays it is; NULL: nobody's, or not taken yet */
    struct ps_device_snapshot *next;    /* that has them, too */
    bool is_moving;                     /* somebody brings them */
    bool is_here;                       /* somebody did */
};

static enum ps_status reserve_on_device(struct ps_device_snapshot *snapshot,
                                        struct ps_error *error);
static enum ps_status reserve_on_host(struct ps_device_snapshot *snapshot, struct ps_error *error);
static uint64_t size_of(const struct ps_device_snapshot *snapshot);
static void lend(struct ps_device_parameter *parameter, struct ps_device_snapshot *snapshot);
static enum ps_status move(struct ps_device_snapshot *snapshot, struct ps_error *error);
static void give_back(struct ps_device_snapshot *snapshot);
static enum ps_status move_for_reader(struct ps_device_snapshot *snapshot, struct ps_error *error);

/* Memory is asked for before the moment of the snapshot, in which all updates stand still. A
 * copy on the device is made at the speed of its memory; one on the host needs the bus, which is
 * why it comes second. */
enum ps_status ps_device_snapshot_reserve(struct ps_device_parameter *parameter,
                                          struct ps_device_snapshot **out, struct ps_error *error)
{
    struct ps_device *device = parameter->device;
    PS_TRY(ps_device_enter(device, error));
    struct ps_device_snapshot *snapshot = ps_zeroed(device->memory, sizeof *snapshot);
    if (snapshot == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a snapshot");
    snapshot->device = device;
    snapshot->array_bytes = parameter->array_bytes;
    snapshot->array_count = parameter->array_count;
    atomic_fetch_add(&device->snapshot_count, 1);
    enum ps_status status = reserve_on_device(snapshot, error);
    /* No room is no failure: a model that fills the device is saved, too. */
    if (status == PS_ERR_BUSY || status == PS_ERR_NO_MEMORY)
        status = reserve_on_host(snapshot, error);
    if (status != PS_OK) {
        ps_device_snapshot_release(snapshot);
        return status;
    }
    *out = snapshot;
    return PS_OK;
}

static enum ps_status reserve_on_device(struct ps_device_snapshot *snapshot, struct ps_error *error)
{
    return ps_device_acquire_memory(snapshot->device, size_of(snapshot), "a snapshot",
                                    &snapshot->device_arrays, error);
}

/* Ordinary memory: as much pinned memory would be dear, and the copy goes through the slots
 * anyway. */
static enum ps_status reserve_on_host(struct ps_device_snapshot *snapshot, struct ps_error *error)
{
    size_t size = (size_t)size_of(snapshot);
    snapshot->host_arrays = ps_plain(snapshot->device->memory, size);
    if (snapshot->host_arrays == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY,
                       "neither the device nor the host has %zu bytes for a snapshot", size);
    atomic_fetch_add(&snapshot->device->streamed_count, 1);
    return PS_OK;
}

static uint64_t size_of(const struct ps_device_snapshot *snapshot)
{
    return snapshot->array_bytes * snapshot->array_count;
}

/* The moment itself, in which pushes wait. A copy is queued behind the updates of before and in
 * front of those of after; arrays that are lent cost nothing until somebody wants to change
 * them. */
enum ps_status ps_device_snapshot_take(struct ps_device_parameter *parameter,
                                       struct ps_device_snapshot *snapshot, struct ps_error *error)
{
    struct ps_device *device = snapshot->device;
    struct ps_driver *driver = &device->driver;
    size_t size = (size_t)size_of(snapshot);
    PS_ASSERT(snapshot->array_bytes == parameter->array_bytes);
    PS_ASSERT(snapshot->array_count == parameter->array_count);
    PS_TRY(ps_device_enter(device, error));
    if (snapshot->host_arrays != NULL) {
        lend(parameter, snapshot);
        return PS_OK;
    }
    ps_mutex_lock(&device->lock);
    int code = driver->copy(driver->self, snapshot->device_arrays, parameter->arrays, size,
                            PS_DRIVER_ON_DEVICE, device->compute.stream);
    enum ps_status status = ps_device_check_code(device, code, "copying a snapshot", error);
    ps_mutex_unlock(&device->lock);
    return status;
}

/* Several snapshots may have the same arrays: a checkpoint and a reader began at the same
 * version. */
static void lend(struct ps_device_parameter *parameter, struct ps_device_snapshot *snapshot)
{
    struct ps_device *device = snapshot->device;
    ps_mutex_lock(&device->lock);
    PS_ASSERT(snapshot->lender == NULL && !snapshot->is_here);
    snapshot->lender = parameter;
    snapshot->next = parameter->lent;
    parameter->lent = snapshot;
    ps_mutex_unlock(&device->lock);
}

/* Called before anything writes to the parameter. Each snapshot that has its arrays gets its
 * copy first; this is the price of a snapshot without room on the device, and the first update
 * after it pays. */
enum ps_status ps_device_make_way(struct ps_device_parameter *parameter, struct ps_error *error)
{
    struct ps_device *device = parameter->device;
    enum ps_status status = PS_OK;
    ps_mutex_lock(&device->lock);
    while (status == PS_OK && parameter->lent != NULL) {
        /* Another thread is bringing it: two copies of the same bytes would help nobody. */
        if (parameter->lent->is_moving)
            (void)ps_condition_wait(&device->moved, &device->lock, PS_DEADLINE_NEVER);
        else
            status = move(parameter->lent, error);
    }
    ps_mutex_unlock(&device->lock);
    return status;
}

/* Under the lock, which is let go meanwhile. Nobody ends the snapshot or its lender before it is
 * done. */
static enum ps_status move(struct ps_device_snapshot *snapshot, struct ps_error *error)
{
    struct ps_device *device = snapshot->device;
    snapshot->is_moving = true;
    ps_mutex_unlock(&device->lock);
    enum ps_status status = ps_device_fetch(device, snapshot->host_arrays, snapshot->lender->arrays,
                                            (size_t)size_of(snapshot), error);
    ps_mutex_lock(&device->lock);
    snapshot->is_moving = false;
    snapshot->is_here = status == PS_OK;
    if (status == PS_OK)
        give_back(snapshot);
    ps_condition_signal_all(&device->moved);
    return status;
}

/* The arrays are the lender's alone again. Under the lock. */
static void give_back(struct ps_device_snapshot *snapshot)
{
    /* Taken out from wherever it is in the list: readers end in any order. */
    struct ps_device_snapshot **at = &snapshot->lender->lent;
    while (*at != snapshot)
        at = &(*at)->next;
    *at = snapshot->next;
    snapshot->lender = NULL;
}

/* The parameter ends. On a dead device nothing can be brought any more: the loans end without,
 * and readers are told by the fault. */
void ps_device_stop_lending(struct ps_device_parameter *parameter)
{
    struct ps_device *device = parameter->device;
    if (ps_device_make_way(parameter, NULL) == PS_OK)
        return;
    ps_mutex_lock(&device->lock);
    while (parameter->lent != NULL) {
        if (parameter->lent->is_moving)
            (void)ps_condition_wait(&device->moved, &device->lock, PS_DEADLINE_NEVER);
        else
            give_back(parameter->lent);
    }
    ps_mutex_unlock(&device->lock);
}

/* From the device's copy, or from the host's after it was brought; the reader need not know
 * which. */
enum ps_status ps_device_snapshot_read(struct ps_device_snapshot *snapshot, uint32_t array,
                                       uint64_t offset, void *destination, size_t size,
                                       struct ps_error *error)
{
    PS_ASSERT(array < snapshot->array_count);
    PS_ASSERT(offset + size <= snapshot->array_bytes);
    /* Both kinds of copy have the layout of the parameter. */
    uint64_t start = array * snapshot->array_bytes + offset;
    if (snapshot->host_arrays == NULL)
        return ps_device_fetch(snapshot->device, destination, snapshot->device_arrays + start, size,
                               error);
    PS_TRY(move_for_reader(snapshot, error));
    memcpy(destination, snapshot->host_arrays + start, size);
    return PS_OK;
}

/* Not here, and nobody's: the lender ended with a dead device. */
static enum ps_status move_for_reader(struct ps_device_snapshot *snapshot, struct ps_error *error)
{
    struct ps_device *device = snapshot->device;
    enum ps_status status = PS_OK;
    ps_mutex_lock(&device->lock);
    /* An update may be bringing it at this moment. */
    while (snapshot->is_moving)
        (void)ps_condition_wait(&device->moved, &device->lock, PS_DEADLINE_NEVER);
    if (snapshot->lender != NULL)
        status = move(snapshot, error);
    bool is_here = snapshot->is_here;
    ps_mutex_unlock(&device->lock);
    if (status == PS_OK)
        status = ps_fault_check(&device->fault, error);
    PS_ASSERT(status != PS_OK || is_here);
    return status;
}

/* Of one that nobody has read, and nobody pushed to: nothing was ever copied. */
static void end_loan(struct ps_device_snapshot *snapshot)
{
    struct ps_device *device = snapshot->device;
    ps_mutex_lock(&device->lock);
    while (snapshot->is_moving)
        (void)ps_condition_wait(&device->moved, &device->lock, PS_DEADLINE_NEVER);
    if (snapshot->lender != NULL)
        give_back(snapshot);
    ps_mutex_unlock(&device->lock);
}

void ps_device_snapshot_release(struct ps_device_snapshot *snapshot)
{
    if (snapshot == NULL)
        return;
    struct ps_device *device = snapshot->device;
    end_loan(snapshot);
    if (snapshot->device_arrays != NULL)
        ps_device_release_memory(device, snapshot->device_arrays, size_of(snapshot));
    /* NULL of one on the device. */
    ps_release(device->memory, snapshot->host_arrays);
    atomic_fetch_sub(&device->snapshot_count, 1);
    ps_release(device->memory, snapshot);
}
