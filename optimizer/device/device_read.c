/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and loading a parameter's arrays. A read is cut into parts, each with a ticket of its
 * own: an update waits for the part that it writes over, not for all of a copy that takes as long
 * as the bus needs. */
#include "optimizer/device/runtime.h"

#include "base/assert.h"

/* What is being read, as far as it is queued. */
struct read {
    struct ps_device_parameter *parameter;
    const uint8_t *from; /* the array's first byte */
    uint64_t begin;      /* of the part that is open */
    uint64_t end;
    uint64_t part_bytes; /* of each part, at most, and half of it at least */
};

static enum ps_status queue_read(struct read *read, const struct ps_bytes *pieces,
                                 size_t piece_count, struct ps_error *error);
static struct ps_bytes join(const struct ps_bytes *pieces, size_t piece_count, size_t most,
                            size_t *joined);
static enum ps_status close_part(struct read *read, struct ps_error *error);
static void add_reading(struct ps_device_parameter *parameter,
                        const struct ps_device_reading *reading);

/* Queues the copy of an array into pieces of the host's memory, and returns before it is done.
 * The part size grows with the read, so that a parameter never has more than PS_READINGS_MAX
 * parts to be waited for. */
enum ps_status ps_device_read_begin(struct ps_device_parameter *parameter, uint32_t array,
                                    uint64_t offset, const struct ps_bytes *pieces,
                                    size_t piece_count, struct ps_device_ticket *ticket,
                                    struct ps_error *error)
{
    struct ps_device *device = parameter->device;
    size_t size = 0;
    for (size_t i = 0; i < piece_count; i++)
        size += pieces[i].size;
    /* An empty read has no part, and so no ticket that would be its own. */
    PS_ASSERT(size > 0);
    PS_ASSERT(offset + size <= parameter->count * ps_dtype_size(parameter->dtype));
    /* Twice the share, because a part may be closed when it is half full. */
    uint64_t share = 2 * size / PS_READINGS_MAX + 1;
    struct read read = {.parameter = parameter,
                        .from = ps_device_parameter_array(parameter, array),
                        .begin = offset,
                        .end = offset,
                        .part_bytes =
                            share > device->ring.slot_bytes ? share : device->ring.slot_bytes};
    PS_TRY(ps_device_enter(device, error));
    ps_mutex_lock(&device->lock);
    enum ps_status status = queue_read(&read, pieces, piece_count, error);
    if (status == PS_OK)
        *ticket = (struct ps_device_ticket){.copy_out = device->copy_out.newest};
    ps_mutex_unlock(&device->lock);
    return status;
}

/* W4: the copy begins behind all updates that are queued now, and before all that come later:
 * what is read is one version. */
static enum ps_status queue_read(struct read *read, const struct ps_bytes *pieces,
                                 size_t piece_count, struct ps_error *error)
{
    struct ps_device *device = read->parameter->device;
    struct ps_driver *driver = &device->driver;
    struct ps_driver_stream *stream = device->copy_out.stream;
    uint64_t ticket = 0;
    if (PS_DEVICE_MISSING_WAIT != 4) {
        PS_TRY(ps_timeline_mark(device, &device->compute, &ticket, error));
        PS_TRY(ps_timeline_await(device, &device->compute, ticket, stream, error)); /* W4 */
    }
    for (size_t i = 0, joined = 0; i < piece_count; i += joined) {
        const struct ps_bytes piece = join(&pieces[i], piece_count - i, read->part_bytes, &joined);
        int code = driver->copy(driver->self, (void *)piece.data, read->from + read->end,
                                piece.size, PS_DRIVER_TO_HOST, stream);
        PS_TRY(ps_device_check_code(device, code, "reading", error));
        read->end += piece.size;
        atomic_fetch_add(&device->bytes_out, piece.size);
        /* At half of the part's size, so that a piece which would go beyond it can still join. */
        if (2 * (read->end - read->begin) >= read->part_bytes || i + joined == piece_count)
            PS_TRY(close_part(read, error));
    }
    return PS_OK;
}

/* As many pieces as lie one behind the other in the host's memory, up to `most` bytes: each copy
 * costs the host as much as a megabyte costs the bus. */
static struct ps_bytes join(const struct ps_bytes *pieces, size_t piece_count, size_t most,
                            size_t *joined)
{
    struct ps_bytes all = pieces[0];
    size_t count = 1;
    while (count < piece_count && pieces[count].data == all.data + all.size &&
           all.size + pieces[count].size <= most)
        all.size += pieces[count++].size;
    *joined = count;
    return all;
}

/* Each part has a ticket; the parameter remembers which bytes it covers. */
static enum ps_status close_part(struct read *read, struct ps_error *error)
{
    struct ps_device *device = read->parameter->device;
    struct ps_device_reading reading = {.begin = read->begin, .end = read->end};
    PS_TRY(ps_timeline_mark(device, &device->copy_out, &reading.ticket, error));
    add_reading(read->parameter, &reading);
    read->begin = read->end;
    return PS_OK;
}

/* Without room for more they become one, of everything. */
static void add_reading(struct ps_device_parameter *parameter,
                        const struct ps_device_reading *reading)
{
    if (parameter->reading_count < PS_READINGS_MAX) {
        parameter->readings[parameter->reading_count++] = *reading;
        return;
    }
    parameter->readings[0] =
        (struct ps_device_reading){.end = UINT64_MAX, .ticket = reading->ticket};
    parameter->reading_count = 1;
}

/* An update that writes over bytes which are still being copied waits, on the device, for the
 * last part that has any of them. Parts before it are done then, too, and are forgotten. */
enum ps_status ps_device_await_readers(struct ps_device_parameter *parameter, uint64_t first,
                                       uint64_t count, struct ps_error *error)
{
    struct ps_device *device = parameter->device;
    uint64_t begin = first * ps_dtype_size(parameter->dtype);
    uint64_t end = begin + count * ps_dtype_size(parameter->dtype);
    size_t passed = 0; /* the stream runs in order: with one all before it are waited for */
    for (size_t i = 0; i < parameter->reading_count; i++)
        if (parameter->readings[i].begin < end && begin < parameter->readings[i].end)
            passed = PS_DEVICE_MISSING_WAIT == 9 && passed > 0 ? passed : i + 1;
    if (passed == 0 || PS_DEVICE_MISSING_WAIT == 5)
        return PS_OK;
    uint64_t ticket = parameter->readings[passed - 1].ticket;
    /* What is left moves to the front; there are few. */
    for (size_t i = passed; i < parameter->reading_count; i++)
        parameter->readings[i - passed] = parameter->readings[i];
    parameter->reading_count -= passed;
    ps_mutex_lock(&device->lock);
    enum ps_status status =
        ps_timeline_await(device, &device->copy_out, ticket, device->compute.stream, error);
    ps_mutex_unlock(&device->lock);
    return status;
}

/* For tools and checkpoints, which want the bytes now; a pull uses ps_device_read_begin. */
enum ps_status ps_device_read(struct ps_device_parameter *parameter, uint32_t array,
                              uint64_t offset, void *destination, size_t size,
                              struct ps_error *error)
{
    PS_ASSERT(offset + size <= parameter->count * ps_dtype_size(parameter->dtype));
    return ps_device_fetch(parameter->device, destination,
                           ps_device_parameter_array(parameter, array) + offset, size, error);
}

/* Snapshots that share this memory, and reads under way, have what was there before. */
enum ps_status ps_device_write(struct ps_device_parameter *parameter, uint32_t array,
                               uint64_t offset, struct ps_view content, struct ps_error *error)
{
    size_t width = ps_dtype_size(parameter->dtype);
    PS_ASSERT(offset + content.size <= parameter->count * width);
    PS_TRY(ps_device_make_way(parameter, error));
    PS_TRY(ps_device_await_readers(parameter, offset / width, content.size / width + 1, error));
    return ps_device_load(parameter->device, ps_device_parameter_array(parameter, array) + offset,
                          content, error);
}
