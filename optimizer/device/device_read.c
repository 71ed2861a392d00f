/* Reading and loading a parameter's arrays. */
#include "optimizer/device/runtime.h"

#include "base/assert.h"

static enum ps_status queue_read(struct ps_device_parameter *parameter, const uint8_t *from,
                                 const struct ps_bytes *pieces, size_t piece_count,
                                 uint64_t *ticket, struct ps_error *error);

enum ps_status ps_device_read_begin(struct ps_device_parameter *parameter, uint32_t array,
                                    uint64_t offset, const struct ps_bytes *pieces,
                                    size_t piece_count, struct ps_device_ticket *ticket,
                                    struct ps_error *error)
{
    struct ps_device *device = parameter->device;
    size_t size = 0;
    for (size_t i = 0; i < piece_count; i++)
        size += pieces[i].size;
    PS_ASSERT(offset + size <= parameter->count * ps_dtype_size(parameter->dtype));
    uint64_t number = 0;
    PS_TRY(ps_device_enter(device, error));
    ps_mutex_lock(&device->lock);
    enum ps_status status =
        queue_read(parameter, ps_device_parameter_array(parameter, array) + offset, pieces,
                   piece_count, &number, error);
    ps_mutex_unlock(&device->lock);
    if (status != PS_OK)
        return status;
    parameter->reading = number;
    *ticket = (struct ps_device_ticket){.copy_out = number};
    return PS_OK;
}

static enum ps_status queue_read(struct ps_device_parameter *parameter, const uint8_t *from,
                                 const struct ps_bytes *pieces, size_t piece_count,
                                 uint64_t *ticket, struct ps_error *error)
{
    struct ps_device *device = parameter->device;
    struct ps_driver *driver = &device->driver;
    struct ps_driver_stream *stream = device->copy_out.stream;
    if (PS_DEVICE_MISSING_WAIT != 4) {
        PS_TRY(ps_timeline_mark(device, &device->compute, ticket, error));
        PS_TRY(ps_timeline_await(device, &device->compute, *ticket, stream, error)); /* W4 */
    }
    size_t done = 0;
    int code = 0;
    for (size_t i = 0; code == 0 && i < piece_count; i++) {
        code = driver->copy(driver->self, (void *)pieces[i].data, from + done, pieces[i].size,
                            PS_DRIVER_TO_HOST, stream);
        done += pieces[i].size;
    }
    atomic_fetch_add(&device->bytes_out, done);
    PS_TRY(ps_device_check_code(device, code, "reading", error));
    return ps_timeline_mark(device, &device->copy_out, ticket, error);
}

enum ps_status ps_device_read(struct ps_device_parameter *parameter, uint32_t array,
                              uint64_t offset, void *destination, size_t size,
                              struct ps_error *error)
{
    PS_ASSERT(offset + size <= parameter->count * ps_dtype_size(parameter->dtype));
    return ps_device_fetch(parameter->device, destination,
                           ps_device_parameter_array(parameter, array) + offset, size, error);
}

enum ps_status ps_device_write(struct ps_device_parameter *parameter, uint32_t array,
                               uint64_t offset, struct ps_view content, struct ps_error *error)
{
    PS_ASSERT(offset + content.size <= parameter->count * ps_dtype_size(parameter->dtype));
    struct ps_device *device = parameter->device;
    PS_TRY(ps_device_make_way(parameter, error));
    ps_mutex_lock(&device->lock);
    enum ps_status status = ps_device_await_readers(parameter, error);
    ps_mutex_unlock(&device->lock);
    if (status != PS_OK)
        return status;
    return ps_device_load(device, ps_device_parameter_array(parameter, array) + offset, content,
                          error);
}
