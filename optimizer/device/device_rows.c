/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table in the device's memory: bodies that lie one behind the other in the order of
 * their numbers. What goes to them or comes from them passes through a slot of the ring, numbers
 * first: a push is one copy and one launch, also of rows that lie anywhere.
 *
 * All of it is done on the compute stream, in the order of the calls, but for the last part of a
 * reading: what a kernel has brought together leaves by copy_out, from the slot, so that steps go
 * on beside it. */
#include "optimizer/device/runtime.h"

#include "base/assert.h"

#include <string.h>

struct ps_device_rows {
    struct ps_device *device;
    enum ps_dtype dtype;
    uint32_t width;
    struct ps_device_body body;
    uint8_t *bodies;
    uint64_t count;
};

/* Numbers, and behind them pieces, in a slot. */
struct parcel {
    struct ps_slot *slot;
    size_t count;
    size_t offset; /* of the pieces */
    size_t size;   /* of each */
};

/* Behind the numbers everything begins at a whole pack. */
static size_t padded(size_t size)
{
    return (size + PS_CUDA_ALIGNMENT - 1) / PS_CUDA_ALIGNMENT * PS_CUDA_ALIGNMENT;
}

/* Asked before there is a table, and by the table for where its arrays lie. Whole numbers would
 * need kernels of their own: rules of floats look at no element's number, which is what rounding
 * by lot does, and their loops over rows that lie apart are there. */
enum ps_status ps_device_rows_support(const struct ps_device_rows_wish *wish,
                                      struct ps_device_body *body, struct ps_error *error)
{
    const struct ps_optimizer_settings *settings = wish->settings;
    PS_TRY(ps_optimizer_settings_check(settings, wish->dtype, error));
    PS_ASSERT(wish->width > 0);
    if (!ps_dtype_is_float(wish->dtype))
        return ps_fail(error, PS_ERR_UNSUPPORTED, "rows of whole numbers");
    if (settings->rule == PS_RULE_ADD && settings->overflow == PS_OVERFLOW_FAIL)
        return ps_fail(error, PS_ERR_UNSUPPORTED, "overflow=fail has to see the values first");
    if (body == NULL)
        return PS_OK;
    *body = (struct ps_device_body){.array_count = 1 + ps_rule_states(settings->rule)};
    /* Each array begins at a whole pack, so that kernels load packs of any of them. A row of few
     * elements is longer for that, and one of 16 floats is not. */
    for (uint32_t i = 0; i < body->array_count; i++) {
        body->offsets[i] = body->stride;
        /* Row-wise Adagrad has one accumulator for the row. */
        uint32_t elements = i > 0 && settings->adagrad_row_wise ? 1 : wish->width;
        body->sizes[i] = elements * ps_dtype_size(wish->dtype);
        body->stride += padded(body->sizes[i]);
    }
    return PS_OK;
}

/* Pieces of `size` bytes, with a number for each, that a slot has room for: what is lost between
 * the numbers and the first piece is less than a pack. */
static size_t pieces_max(const struct ps_device *device, size_t size)
{
    PS_ASSERT(device->ring.slot_bytes > PS_CUDA_ALIGNMENT);
    return (device->ring.slot_bytes - PS_CUDA_ALIGNMENT) / (sizeof(uint64_t) + size);
}

/* A body that no slot has room for would have to be cut: the ring is too small for it. */
enum ps_status ps_device_rows_create(struct ps_device *device,
                                     const struct ps_device_rows_wish *wish, uint64_t count,
                                     struct ps_device_rows **out, struct ps_error *error)
{
    struct ps_device_body body;
    PS_TRY(ps_device_rows_support(wish, &body, error));
    /* With the ring as large as it is by default, that is a row of some four megabytes. */
    if (pieces_max(device, body.stride) == 0)
        return ps_fail(error, PS_ERR_UNSUPPORTED, "a row of %zu bytes has no room in the ring",
                       body.stride);
    struct ps_device_rows *rows = ps_zeroed(device->memory, sizeof *rows);
    if (rows == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the handle of a table");
    *rows = (struct ps_device_rows){
        .device = device, .dtype = wish->dtype, .width = wish->width, .body = body};
    enum ps_status status = ps_device_enter(device, error);
    /* From no row to the first ones. */
    if (status == PS_OK)
        status = ps_device_rows_grow(rows, count, error);
    if (status != PS_OK) {
        ps_release(device->memory, rows);
        return status;
    }
    /* Undefined content: whoever takes a number into use writes the row first. */
    *out = rows;
    return PS_OK;
}

/* What is queued of the rows is done before whoever has the memory next does anything in it. */
void ps_device_rows_destroy(struct ps_device_rows *rows)
{
    if (rows == NULL)
        return;
    /* There is no table without rows: create makes none without memory. */
    PS_ASSERT(rows->bodies != NULL);
    ps_device_release_memory(rows->device, rows->bodies, rows->count * rows->body.stride);
    ps_release(rows->device->memory, rows);
}

/* Queued behind every step so far, and before every one to come. */
static enum ps_status queue_move(const struct ps_device_rows *rows, uint8_t *to,
                                 struct ps_error *error)
{
    struct ps_device *device = rows->device;
    struct ps_driver *driver = &device->driver;
    ps_mutex_lock(&device->lock);
    int code = driver->copy(driver->self, to, rows->bodies, rows->count * rows->body.stride,
                            PS_DRIVER_ON_DEVICE, device->compute.stream);
    enum ps_status status = ps_device_check_code(device, code, "moving a table", error);
    ps_mutex_unlock(&device->lock);
    return status;
}

/* A copy on the device reads and writes at the memory's pace: ten gigabytes are some ten
 * milliseconds, and a table that doubles has it a few times in its life. */
enum ps_status ps_device_rows_grow(struct ps_device_rows *rows, uint64_t count,
                                   struct ps_error *error)
{
    struct ps_device *device = rows->device;
    uint8_t *larger = NULL;
    /* Rows never lose their place: a table does not shrink. */
    PS_ASSERT(count > rows->count);
    /* No product below can overflow, and what is refused here no device has. */
    if (count > UINT64_MAX / 2 / rows->body.stride)
        return ps_fail(error, PS_ERR_BUSY, "too many rows");
    PS_TRY(ps_device_enter(device, error));
    PS_TRY(ps_device_acquire_memory(device, count * rows->body.stride, "a table", &larger, error));
    enum ps_status status = rows->count > 0 ? queue_move(rows, larger, error) : PS_OK;
    if (status != PS_OK) {
        ps_device_release_memory(device, larger, count * rows->body.stride);
        return status;
    }
    /* Kept for whoever asks next, whose work is queued behind the copy out of it. */
    if (rows->count > 0)
        ps_device_release_memory(device, rows->bodies, rows->count * rows->body.stride);
    /* Numbers keep their places: a larger room begins as the smaller one did. */
    rows->bodies = larger;
    rows->count = count;
    return PS_OK;
}

/* A slot with the numbers of the next pieces; the caller writes what it has behind them. The device
 * trusts no number: one beyond the table would write into another's memory. */
static enum ps_status open_parcel(const struct ps_device_rows *rows, const uint64_t *numbers,
                                  size_t count, size_t size, struct parcel *parcel,
                                  struct ps_error *error)
{
    /* The last parcel is short. */
    size_t most = pieces_max(rows->device, size);
    *parcel = (struct parcel){.count = count < most ? count : most, .size = size};
    /* Pieces begin where kernels may load packs of them. */
    parcel->offset = padded(parcel->count * sizeof *numbers);
    PS_TRY(ps_slot_take(rows->device, &parcel->slot, error));
    memcpy(parcel->slot->host, numbers, parcel->count * sizeof *numbers);
    for (size_t i = 0; i < parcel->count; i++)
        PS_ASSERT(numbers[i] < rows->count);
    return PS_OK;
}

/* A kernel between the bodies and the pieces of a parcel. Addresses are the device's, computed here
 * from the slot's. */
static struct ps_cuda_bodies move_of(const struct ps_device_rows *rows, const struct parcel *parcel,
                                     size_t offset, bool to_run)
{
    PS_ASSERT(offset + parcel->size <= rows->body.stride);
    return (struct ps_cuda_bodies){.numbers = (const uint64_t *)(const void *)parcel->slot->device,
                                   .count = parcel->count,
                                   .bodies = rows->bodies,
                                   .stride = rows->body.stride,
                                   .offset = offset,
                                   .size = parcel->size,
                                   .run = parcel->slot->device + parcel->offset,
                                   .to_run = to_run};
}

/* The rule's kernel, over the gradients of a parcel. Bodies are the table that it sees: values at
 * the begin of each, states behind them, all as far apart as the bodies. */
static struct ps_cuda_rows step_of(const struct ps_device_rows *rows, const struct parcel *parcel,
                                   const struct ps_optimizer_step *step)
{
    struct ps_cuda_rows launch = {.step = step,
                                  .numbers = (const uint64_t *)(const void *)parcel->slot->device,
                                  .count = parcel->count,
                                  .row_count = rows->count,
                                  .width = rows->width,
                                  .stride = rows->body.stride / ps_dtype_size(rows->dtype),
                                  .gradient = parcel->slot->device + parcel->offset,
                                  .values = rows->bodies};
    /* States that the rule does not have stay NULL. */
    for (uint32_t i = 1; i < rows->body.array_count; i++)
        launch.states[i - 1] = rows->bodies + rows->body.offsets[i];
    return launch;
}

/* Sends a parcel that is full, and launches what works on it: a step, or without one a move. The
 * slot may be filled again behind that (W2). */
static enum ps_status send_parcel(struct ps_device_rows *rows, const struct parcel *parcel,
                                  const struct ps_optimizer_step *step, struct ps_error *error)
{
    struct ps_device *device = rows->device;
    struct ps_driver *driver = &device->driver;
    struct ps_driver_stream *stream = device->compute.stream;
    /* Numbers and pieces are one copy, with what is between them. */
    PS_TRY(ps_slot_send(device, parcel->slot, parcel->slot->host,
                        parcel->offset + parcel->count * parcel->size, 0, error));
    int code = driver->stream_wait(driver->self, stream, parcel->slot->copied); /* W3 */
    if (code == 0 && step != NULL) {
        const struct ps_cuda_rows launch = step_of(rows, parcel, step);
        code = driver->rows(driver->self, &launch, stream);
    } else if (code == 0) {
        const struct ps_cuda_bodies launch = move_of(rows, parcel, 0, false);
        code = driver->bodies(driver->self, &launch, stream);
    }
    if (code == 0)
        code = driver->record(driver->self, parcel->slot->done, stream);
    atomic_fetch_add(&device->launch_count, 1);
    return ps_device_check_code(device, code, "launching an update of rows", error);
}

/* Whole bodies without a step, gradients with one; as many parcels as it takes. */
static enum ps_status send_all(struct ps_device_rows *rows, const uint64_t *numbers, size_t count,
                               const uint8_t *pieces, size_t size,
                               const struct ps_optimizer_step *step, struct ps_error *error)
{
    struct ps_device *device = rows->device;
    PS_TRY(ps_device_enter(device, error));
    for (size_t done = 0; done < count;) {
        struct parcel parcel;
        PS_TRY(open_parcel(rows, numbers + done, count - done, size, &parcel, error));
        /* The one copy that the host makes of them. */
        memcpy(parcel.slot->host + parcel.offset, pieces + done * size, parcel.count * size);
        /* Copy, wait and launch are queued as one: another thread's work comes before or behind. */
        ps_mutex_lock(&device->lock);
        enum ps_status status = send_parcel(rows, &parcel, step, error);
        ps_mutex_unlock(&device->lock);
        ps_slot_return(device, parcel.slot);
        if (status != PS_OK)
            return status;
        done += parcel.count;
    }
    /* Of what a table sends, numbers are as much a cost as gradients. */
    atomic_fetch_add(&device->bytes_in, count * (sizeof *numbers + size));
    return PS_OK;
}

/* Behind it on the compute stream are the steps that come next. */
enum ps_status ps_device_rows_write(struct ps_device_rows *rows, const uint64_t *numbers,
                                    size_t count, const void *bodies, struct ps_error *error)
{
    /* Padding between arrays goes along: it is nobody's, and cutting it out would cost more. */
    PS_ASSERT(rows->bodies != NULL);
    return send_all(rows, numbers, count, bodies, rows->body.stride, NULL, error);
}

/* Different rows, so that parcels have nothing to do with each other, and sums nothing to add. */
enum ps_status ps_device_rows_push(struct ps_device_rows *rows, const uint64_t *numbers,
                                   size_t count, const void *gradients,
                                   const struct ps_optimizer_step *step,
                                   struct ps_device_ticket *ticket, struct ps_error *error)
{
    struct ps_device *device = rows->device;
    PS_ASSERT(!step->skip && step->dtype == rows->dtype);
    PS_TRY(send_all(rows, numbers, count, gradients, rows->body.sizes[0], step, error));
    atomic_fetch_add(&device->push_count, 1);
    /* One for all parcels: its wait is for the last, and the stream does them in order. */
    *ticket = (struct ps_device_ticket){0};
    ps_mutex_lock(&device->lock);
    enum ps_status status = ps_timeline_mark(device, &device->compute, &ticket->compute, error);
    ps_mutex_unlock(&device->lock);
    return status;
}

/* A reading is one slot: whoever wants more ends one before the next begins, so that readers never
 * hold slots while they wait for slots. */
size_t ps_device_rows_read_max(const struct ps_device_rows *rows, size_t size)
{
    PS_ASSERT(size > 0 && size <= rows->body.stride);
    return pieces_max(rows->device, size);
}

/* The kernel brings the pieces together behind the numbers, in the device's half of the slot; from
 * there copy_out takes them to the host's half (W4). Both events come behind that copy: the slot is
 * not filled before. */
static enum ps_status queue_reading(struct ps_device_rows *rows, const struct parcel *parcel,
                                    size_t offset, struct ps_error *error)
{
    struct ps_device *device = rows->device;
    struct ps_driver *driver = &device->driver;
    struct ps_slot *slot = parcel->slot;
    struct ps_driver_stream *out = device->copy_out.stream;
    /* From wherever the bodies lie into the slot, behind the numbers. */
    const struct ps_cuda_bodies launch = move_of(rows, parcel, offset, true);
    uint64_t ticket = 0;
    /* The numbers alone: pieces come the other way. */
    PS_TRY(ps_slot_send(device, slot, slot->host, parcel->count * sizeof(uint64_t), 0, error));
    int code = driver->stream_wait(driver->self, device->compute.stream, slot->copied); /* W3 */
    if (code == 0)
        code = driver->bodies(driver->self, &launch, device->compute.stream);
    PS_TRY(ps_device_check_code(device, code, "bringing rows together", error));
    PS_TRY(ps_timeline_mark(device, &device->compute, &ticket, error));
    PS_TRY(ps_timeline_await(device, &device->compute, ticket, out, error));
    code = driver->copy(driver->self, slot->host + parcel->offset, slot->device + parcel->offset,
                        parcel->count * parcel->size, PS_DRIVER_TO_HOST, out);
    if (code == 0)
        code = driver->record(driver->self, slot->copied, out);
    if (code == 0)
        code = driver->record(driver->self, slot->done, out);
    return ps_device_check_code(device, code, "reading rows", error);
}

/* The answer is that of this moment, whatever is queued behind it. */
enum ps_status ps_device_rows_read_begin(struct ps_device_rows *rows, const uint64_t *numbers,
                                         size_t count, size_t offset, size_t size,
                                         struct ps_device_rows_reading *reading,
                                         struct ps_error *error)
{
    struct ps_device *device = rows->device;
    struct parcel parcel;
    PS_ASSERT(count > 0 && count <= ps_device_rows_read_max(rows, size));
    PS_TRY(ps_device_enter(device, error));
    PS_TRY(open_parcel(rows, numbers, count, size, &parcel, error));
    ps_mutex_lock(&device->lock);
    enum ps_status status = queue_reading(rows, &parcel, offset, error);
    ps_mutex_unlock(&device->lock);
    /* Behind a failure nothing reads the slot any more: the device is dead. */
    if (status != PS_OK) {
        ps_slot_return(device, parcel.slot);
        return status;
    }
    *reading = (struct ps_device_rows_reading){
        .device = device, .slot = parcel.slot, .offset = parcel.offset, .size = count * size};
    return PS_OK;
}

/* Nobody but this thread has the slot, so that what it holds may be read where it lies. A fault in
 * another stream makes these bytes worthless, too. */
enum ps_status ps_device_rows_read_end(struct ps_device_rows_reading *reading,
                                       const uint8_t **pieces, struct ps_error *error)
{
    struct ps_device *device = reading->device;
    struct ps_slot *slot = reading->slot;
    PS_ASSERT(slot != NULL);
    PS_TRY(ps_device_await_event(device, slot->copied, "reading rows", error));
    PS_TRY(ps_fault_check(&device->fault, error));
    /* What was waited for counts, and not what was asked for. */
    atomic_fetch_add(&device->bytes_out, reading->size);
    *pieces = slot->host + reading->offset;
    return PS_OK;
}

/* Also behind a failure, and where nothing was begun. */
void ps_device_rows_read_release(struct ps_device_rows_reading *reading)
{
    if (reading->slot == NULL)
        return;
    PS_ASSERT(reading->device != NULL);
    ps_slot_return(reading->device, reading->slot);
    *reading = (struct ps_device_rows_reading){0};
}
