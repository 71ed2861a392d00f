/* A gradient that nobody has looked at: all of it goes into slots, is looked at there, and its
 * update follows behind the verdict, which it asks by itself. The device never waits for the host
 * in between; the host waits for the verdict alone. */
#include "optimizer/device/runtime.h"

#include "base/assert.h"

/* Where its parts are. The verdict lies behind the first slot. */
struct judged {
    struct ps_device *device;
    const struct ps_device_push *push;
    struct ps_gradient_source source;
    struct ps_gradient_part parts[PS_SLOTS_MAX];
    struct ps_slot *slots[PS_SLOTS_MAX];
    size_t count;
};

static bool lay_out(const struct ps_device_parameter *parameter, struct judged *judged);
static enum ps_status push_parts(struct judged *judged, struct ps_gradient_scan *scan,
                                 struct ps_device_ticket *ticket, struct ps_error *error);
static enum ps_status send_part(struct judged *judged, size_t i, struct ps_error *error);
static enum ps_status queue_scan(struct judged *judged, size_t i, struct ps_error *error);
static enum ps_status queue_updates(struct judged *judged, struct ps_device_ticket *ticket,
                                    struct ps_error *error);
static enum ps_status queue_judge(struct judged *judged, struct ps_error *error);
static enum ps_status queue_update(struct judged *judged, size_t i, struct ps_error *error);
static struct ps_cuda_run run_of(const struct judged *judged, size_t i);
static enum ps_status read_verdict(struct judged *judged, struct ps_gradient_scan *scan,
                                   struct ps_error *error);

static struct ps_gradient_source source_of(const struct ps_device_parameter *parameter,
                                           struct ps_view content, enum ps_encoding encoding)
{
    return (struct ps_gradient_source){.content = content,
                                       .encoding = encoding,
                                       .dtype = parameter->dtype,
                                       .count = parameter->count};
}

bool ps_device_judges(const struct ps_device_parameter *parameter, struct ps_view gradient,
                      enum ps_encoding encoding)
{
    struct judged judged = {.device = parameter->device,
                            .source = source_of(parameter, gradient, encoding)};
    return lay_out(parameter, &judged);
}

/* False when it takes too much: slots, or room for the sums of elements that a list only stands
 * for. */
static bool lay_out(const struct ps_device_parameter *parameter, struct judged *judged)
{
    const struct ps_ring *ring = &judged->device->ring;
    struct ps_gradient_part part = {0};
    if (ps_cuda_sums(parameter->count) > (ring->behind_bytes - PS_VERDICT_BYTES) / sizeof(double))
        return false;
    for (;;) {
        part = ps_gradient_part_next(&judged->source, &part, ring->slot_bytes);
        if (part.count == 0)
            return judged->count > 0;
        if (judged->count == ring->judged_slots_max)
            return false;
        judged->parts[judged->count++] = part;
    }
}

enum ps_status ps_device_push_judged(struct ps_device *device, const struct ps_device_push *push,
                                     struct ps_gradient_scan *scan, struct ps_device_ticket *ticket,
                                     struct ps_error *error)
{
    struct judged judged = {.device = device,
                            .push = push,
                            .source = source_of(push->parameter, push->gradient, push->encoding)};
    PS_ASSERT(!push->step->skip);
    PS_ASSERT(push->step->dtype == push->parameter->dtype);
    PS_TRY(ps_device_enter(device, error));
    bool fits = lay_out(push->parameter, &judged);
    PS_ASSERT(fits);
    ps_slots_take(device, judged.slots, judged.count);
    enum ps_status status = push_parts(&judged, scan, ticket, error);
    for (size_t i = 0; i < judged.count; i++)
        ps_slot_return(device, judged.slots[i]);
    return status;
}

static enum ps_status push_parts(struct judged *judged, struct ps_gradient_scan *scan,
                                 struct ps_device_ticket *ticket, struct ps_error *error)
{
    struct ps_device *device = judged->device;
    for (size_t i = 0; i < judged->count; i++)
        PS_TRY(send_part(judged, i, error));
    ps_mutex_lock(&device->lock);
    enum ps_status status = queue_updates(judged, ticket, error);
    ps_mutex_unlock(&device->lock);
    if (status != PS_OK)
        return status;
    atomic_fetch_add(&device->bytes_in, judged->push->gradient.size);
    atomic_fetch_add(&device->push_count, 1);
    return read_verdict(judged, scan, error);
}

static enum ps_status send_part(struct judged *judged, size_t i, struct ps_error *error)
{
    struct ps_device *device = judged->device;
    const struct ps_gradient_part *part = &judged->parts[i];
    struct ps_slot *slot = judged->slots[i];
    PS_TRY(ps_slot_await(device, slot, error));
    ps_gradient_part_copy(&judged->source, part, slot->host);
    ps_mutex_lock(&device->lock);
    enum ps_status status = ps_slot_send(device, slot, part->bytes, 0, error);
    if (status == PS_OK)
        status = queue_scan(judged, i, error);
    ps_mutex_unlock(&device->lock);
    return status;
}

static struct ps_cuda_verdict *verdict_of(const struct judged *judged)
{
    return (void *)(judged->slots[0]->device + judged->device->ring.slot_bytes);
}

static double *sums_of(const struct judged *judged)
{
    return (void *)(judged->slots[0]->device + judged->device->ring.slot_bytes + PS_VERDICT_BYTES);
}

/* The room behind the first slot is its own again when the slot is: what copies into the slot
 * waited for the update that asked the verdict before. */
static enum ps_status queue_scan(struct judged *judged, size_t i, struct ps_error *error)
{
    struct ps_device *device = judged->device;
    struct ps_driver *driver = &device->driver;
    const struct ps_cuda_scan scan = {.settings = judged->push->step->settings,
                                      .dtype = judged->source.dtype,
                                      .run = run_of(judged, i),
                                      .sums = sums_of(judged),
                                      .verdict = verdict_of(judged)};
    int code = 0;
    if (PS_DEVICE_MISSING_WAIT != 6)
        code = driver->stream_wait(driver->self, device->look, judged->slots[i]->copied); /* W6 */
    if (code == 0 && i == 0)
        code = driver->verdict_open(driver->self, scan.verdict, device->look);
    if (code == 0)
        code = driver->scan(driver->self, &scan, device->look);
    return ps_device_check_code(device, code, "looking at a gradient", error);
}

static enum ps_status queue_updates(struct judged *judged, struct ps_device_ticket *ticket,
                                    struct ps_error *error)
{
    struct ps_device *device = judged->device;
    PS_TRY(queue_judge(judged, error));
    PS_TRY(ps_device_await_readers(judged->push->parameter, error));
    for (size_t i = 0; i < judged->count; i++)
        PS_TRY(queue_update(judged, i, error));
    *ticket = (struct ps_device_ticket){0};
    return ps_timeline_mark(device, &device->compute, &ticket->compute, error);
}

/* The verdict, its copy for the host, and the update's wait for it. */
static enum ps_status queue_judge(struct judged *judged, struct ps_error *error)
{
    struct ps_device *device = judged->device;
    struct ps_driver *driver = &device->driver;
    struct ps_slot *slot = judged->slots[0];
    const struct ps_cuda_judge judge = {.settings = judged->push->step->settings,
                                        .count = judged->source.count,
                                        .sums = sums_of(judged),
                                        .verdict = verdict_of(judged)};
    int code = driver->judge(driver->self, &judge, device->look);
    if (code == 0)
        code = driver->copy(driver->self, slot->host + device->ring.slot_bytes, judge.verdict,
                            sizeof *judge.verdict, PS_DRIVER_TO_HOST, device->look);
    if (code == 0)
        code = driver->record(driver->self, slot->judged, device->look);
    if (code == 0 && PS_DEVICE_MISSING_WAIT != 7)
        code = driver->stream_wait(driver->self, device->compute.stream, slot->judged); /* W7 */
    return ps_device_check_code(device, code, "judging a gradient", error);
}

static enum ps_status queue_update(struct judged *judged, size_t i, struct ps_error *error)
{
    struct ps_device *device = judged->device;
    struct ps_driver *driver = &device->driver;
    struct ps_driver_stream *stream = device->compute.stream;
    const struct ps_cuda_apply apply = {
        .step = judged->push->step, .run = run_of(judged, i), .verdict = verdict_of(judged)};
    int code = driver->apply(driver->self, &apply, stream);
    if (code == 0)
        code = driver->record(driver->self, judged->slots[i]->done, stream);
    atomic_fetch_add(&device->launch_count, 1);
    return ps_device_check_code(device, code, "launching an update", error);
}

static struct ps_cuda_run run_of(const struct judged *judged, size_t i)
{
    const struct ps_gradient_part *part = &judged->parts[i];
    return ps_device_run(judged->push->parameter, &judged->source, part, judged->slots[i]->device);
}

static enum ps_status read_verdict(struct judged *judged, struct ps_gradient_scan *scan,
                                   struct ps_error *error)
{
    struct ps_device *device = judged->device;
    const struct ps_slot *slot = judged->slots[0];
    int code = 0;
    if (PS_DEVICE_MISSING_WAIT != 8)
        code = device->driver.event_synchronize(device->driver.self, slot->judged); /* W8 */
    PS_TRY(ps_device_check_code(device, code, "waiting for a verdict", error));
    PS_TRY(ps_fault_check(&device->fault, error));
    const struct ps_cuda_verdict *verdict = (const void *)(slot->host + device->ring.slot_bytes);
    bool nonfinite = verdict->nonfinite_index != UINT64_MAX;
    *scan = (struct ps_gradient_scan){.nonfinite = nonfinite,
                                      .nonfinite_index = nonfinite ? verdict->nonfinite_index : 0,
                                      .square_sum = verdict->square_sum};
    return PS_OK;
}
