/* SPDX-License-Identifier: Apache-2.0 */
/* The one symbol of a plugin: the table of optimizer/device.h. The driver that it is linked with
 * makes it CUDA's or the emulator's. */
#include "optimizer/device/runtime.h"

#include "base/attributes.h"
#include "optimizer/device/share.h"

ps_device_entry_fn ps_device_entry;

/* "No GPU here" has many causes, and an operator needs the one: no driver, a stub of a container
 * image, or no visible card. None of them is an error of the server, which then works on the
 * CPU. */
static enum ps_status count_devices(uint32_t *count, struct ps_error *error)
{
    int code = ps_driver_count(count);
    if (code == 0)
        return PS_OK;
    /* Number and name both: names change between versions of the library, and a search finds
     * either. */
    const char *name = ps_driver_error_name(code);
    switch (code) {
    case PS_FAULT_NO_DRIVER:
        return ps_fail(error, PS_ERR_UNAVAILABLE, "driver missing or too old (%d %s)", code, name);
    case PS_FAULT_STUB_LIBRARY:
        return ps_fail(error, PS_ERR_UNAVAILABLE, "driver is a stub (%d %s)", code, name);
    case PS_FAULT_NO_DEVICE:
        return ps_fail(error, PS_ERR_UNAVAILABLE, "no visible device (%d %s)", code, name);
    default:
        return ps_fail(error, PS_ERR_UNAVAILABLE, "driver failed (%d %s)", code, name);
    }
}

/* A copy: what a device is does not change while it is open. */
static void tell_facts(struct ps_device *device, struct ps_device_facts *facts)
{
    *facts = device->facts;
}

/* Each number is read by itself: they are for graphs, and need not belong to one instant. */
static void tell_stats(struct ps_device *device, struct ps_device_stats *stats)
{
    *stats = (struct ps_device_stats){
        .budget_bytes = device->budget.limit,
        .used_bytes = atomic_load(&device->budget.used),
        .used_bytes_max = atomic_load(&device->budget.used_max),
        .pinned_bytes = atomic_load(&device->pinned_bytes),
        .parameter_count = atomic_load(&device->parameter_count),
        .snapshot_count = atomic_load(&device->snapshot_count),
        .streamed_count = atomic_load(&device->streamed_count),
        .push_count = atomic_load(&device->push_count),
        .launch_count = atomic_load(&device->launch_count),
        .kernel_count = atomic_load(&device->calls.counts[PS_CALLS_KERNELS]),
        .copy_count = atomic_load(&device->calls.counts[PS_CALLS_COPIES]),
        .order_count = atomic_load(&device->calls.counts[PS_CALLS_ORDERS]),
        .wait_count = atomic_load(&device->wait_count),
        .direct_bytes = atomic_load(&device->direct_bytes),
        .in_place_bytes = atomic_load(&device->in_place_bytes),
        .bytes_in = atomic_load(&device->bytes_in),
        .bytes_out = atomic_load(&device->bytes_out),
    };
}

static bool is_dead(struct ps_device *device, struct ps_error *error)
{
    return ps_fault_check(&device->fault, error) != PS_OK;
}

/* NULL is an answer, not a fault: a caller without pinned memory takes ordinary memory, which is
 * slower to copy from. */
static void *host_acquire(struct ps_device *device, size_t size)
{
    void *memory = NULL;
    /* A dead device has no pinned memory to give. */
    if (ps_device_enter(device, NULL) != PS_OK)
        return NULL;
    int code = device->driver.host_acquire(device->driver.self, size, &memory);
    if (ps_device_check_memory(device, code, "pinned memory", size, NULL) != PS_OK)
        return NULL;
    /* Pinned memory is taken from every other program of the machine: how much it is must be
     * visible. */
    atomic_fetch_add(&device->pinned_bytes, size);
    return memory;
}

static void host_release(struct ps_device *device, void *memory, size_t size)
{
    if (memory == NULL)
        return;
    atomic_fetch_sub(&device->pinned_bytes, size);
    /* Also of a dead device: readers may have held it until now. What it says is of no interest. */
    (void)device->driver.enter(device->driver.self);
    (void)device->driver.host_release(device->driver.self, memory);
}

/* Queued like a load, and waited for as well: the memory is another process's, which is told that
 * the bytes are there. */
static enum ps_status import_write(struct ps_device *device, uint8_t *to, struct ps_view content,
                                   struct ps_error *error)
{
    struct ps_device_ticket ticket = {0};
    PS_TRY(ps_device_load(device, to, content, error));
    ps_mutex_lock(&device->lock);
    enum ps_status status = ps_timeline_mark(device, &device->compute, &ticket.compute, error);
    ps_mutex_unlock(&device->lock);
    return status == PS_OK ? ps_device_wait(device, ticket, error) : status;
}

/* The server sees a device through these functions alone, so that it starts where there is no
 * CUDA library. */
static const struct ps_device_plugin table = {
    .abi = PS_DEVICE_ABI,
    .name = ps_driver_name,
    .count = count_devices,
    .open = ps_device_open,
    .close = ps_device_close,
    .facts = tell_facts,
    .stats = tell_stats,
    .dead = is_dead,
    .supports = ps_device_supports,
    .parameter_bytes = ps_device_parameter_bytes,
    .parameter_create = ps_device_parameter_create,
    .parameter_destroy = ps_device_parameter_destroy,
    .push = ps_device_push_all,
    .judges = ps_device_judges,
    .judge = ps_device_judge,
    .push_judged = ps_device_push_judged,
    .judged_release = ps_device_judged_release,
    .wait = ps_device_wait,
    .read_begin = ps_device_read_begin,
    .read = ps_device_read,
    .write = ps_device_write,
    .snapshot_reserve = ps_device_snapshot_reserve,
    .snapshot_take = ps_device_snapshot_take,
    .snapshot_read = ps_device_snapshot_read,
    .snapshot_release = ps_device_snapshot_release,
    .make_way = ps_device_make_way,
    .rows_support = ps_device_rows_support,
    .rows_create = ps_device_rows_create,
    .rows_destroy = ps_device_rows_destroy,
    .rows_grow = ps_device_rows_grow,
    .rows_write = ps_device_rows_write,
    .rows_push = ps_device_rows_push,
    .rows_read_max = ps_device_rows_read_max,
    .rows_read_begin = ps_device_rows_read_begin,
    .rows_read_end = ps_device_rows_read_end,
    .rows_read_release = ps_device_rows_read_release,
    .host_acquire = host_acquire,
    .host_release = host_release,
    .host_register = ps_device_host_register,
    .host_unregister = ps_device_host_unregister,
    .import = ps_device_import,
    .unimport = ps_device_unimport,
    .import_read = ps_device_fetch,
    .import_write = import_write,
    .copy_out = ps_device_copy_out,
    .sharing = {.name = ps_share_name,
                .copy = ps_share_copy,
                .acquire = ps_share_acquire,
                .release = ps_share_release},
};

/* A plugin of another version is refused as a whole: structs may have changed. */
PS_EXPORT const struct ps_device_plugin *ps_device_entry(uint32_t abi)
{
    return abi == PS_DEVICE_ABI ? &table : NULL;
}
