/* SPDX-License-Identifier: Apache-2.0 */
/* A gradient that nobody has looked at: all of it goes into slots and is looked at there; nothing
 * changes by that. Its update, if there is one, finds it there. What the verdict says comes to it
 * from the host, in the step: the place of the verdict is that of the first slot, and whoever gets
 * that slot next writes there while the other slots are yet to be applied. */
#include "optimizer/device/runtime.h"

#include "base/assert.h"

/* Where its parts are. The verdict lies behind the first slot. */
struct ps_device_judged {
    struct ps_device_parameter *parameter;
    const struct ps_optimizer_settings *settings; /* borrowed */
    struct ps_gradient_source source;
    struct ps_gradient_part parts[PS_SLOTS_MAX];
    struct ps_slot *slots[PS_SLOTS_MAX];
    size_t count;
    const uint8_t *place; /* it is looked at and applied where it is; NULL: its slots have it */
};

static bool lay_out(struct ps_device_judged *judged);
static enum ps_status look(struct ps_device_judged *judged, struct ps_error *error);
static enum ps_status send_part(struct ps_device_judged *judged, size_t i, struct ps_error *error);
static enum ps_status look_in_place(struct ps_device_judged *judged, struct ps_error *error);
static enum ps_status queue_scan(struct ps_device_judged *judged, size_t i, struct ps_error *error);
static enum ps_status queue_verdict(struct ps_device_judged *judged, struct ps_error *error);
static struct ps_cuda_run run_of(const struct ps_device_judged *judged, size_t i);
static enum ps_status read_verdict(struct ps_device_judged *judged, struct ps_gradient_scan *scan,
                                   struct ps_error *error);
static enum ps_status queue_update(struct ps_device_judged *judged, size_t i,
                                   const struct ps_optimizer_step *step, struct ps_error *error);

/* The same description for the question whether a gradient fits and for its judgement: both must
 * cut it alike. */
static struct ps_gradient_source source_of(const struct ps_device_parameter *parameter,
                                           struct ps_view content, enum ps_encoding encoding)
{
    return (struct ps_gradient_source){.content = content,
                                       .encoding = encoding,
                                       .dtype = parameter->dtype,
                                       .count = parameter->count};
}

/* Asked before anything is taken: a gradient that does not fit is looked at on the host, as it
 * would be without a device. */
bool ps_device_judges(struct ps_device_parameter *parameter, struct ps_view gradient,
                      enum ps_encoding encoding)
{
    struct ps_device_judged judged = {.parameter = parameter,
                                      .source = source_of(parameter, gradient, encoding)};
    judged.place = ps_device_in_place(parameter->device, &judged.source);
    return lay_out(&judged);
}

/* False when it takes too much: slots, or room for the sums of elements that a list only stands
 * for. */
static bool lay_out(struct ps_device_judged *judged)
{
    const struct ps_ring *ring = &judged->parameter->device->ring;
    struct ps_gradient_part part = {0};
    if (judged->place != NULL) {
        /* One slot, for the verdict behind it, and for the sums in the place of a gradient. */
        judged->parts[0] = (struct ps_gradient_part){.count = judged->source.count};
        judged->count = 1;
        return ps_cuda_sums(judged->source.count) <= ring->slot_bytes / sizeof(double);
    }
    /* The sums of the norm need room behind the first slot, which was measured for a gradient
     * that fills half of the ring. */
    if (ps_cuda_sums(judged->source.count) >
        (ring->behind_bytes - PS_VERDICT_BYTES) / sizeof(double))
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

/* All slots are taken at once, in one turn: two gradients that each held half of what they need
 * would wait for each other for ever. Between the look and the update the host decides; the
 * gradient stays where it is, so that it crosses the bus once. */
enum ps_status ps_device_judge(struct ps_device_parameter *parameter,
                               const struct ps_optimizer_settings *settings,
                               struct ps_view gradient, enum ps_encoding encoding,
                               struct ps_device_judged **out, struct ps_gradient_scan *scan,
                               struct ps_error *error)
{
    struct ps_device *device = parameter->device;
    PS_TRY(ps_device_enter(device, error));
    struct ps_device_judged *judged = ps_zeroed(device->memory, sizeof *judged);
    if (judged == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a gradient's verdict");
    judged->parameter = parameter;
    judged->settings = settings;
    judged->source = source_of(parameter, gradient, encoding);
    judged->place = ps_device_in_place(device, &judged->source);
    /* The caller has asked; a gradient does not change its size meanwhile. */
    bool fits = lay_out(judged);
    PS_ASSERT(fits);
    ps_slots_take_judged(device, judged->slots, judged->count);
    enum ps_status status = look(judged, error);
    if (status == PS_OK)
        status = read_verdict(judged, scan, error);
    if (status != PS_OK) {
        ps_device_judged_release(judged);
        return status;
    }
    /* Counted here and not at the update: a push that is refused has crossed the bus, too. */
    atomic_fetch_add(judged->place == NULL ? &device->bytes_in : &device->in_place_bytes,
                     gradient.size);
    *out = judged;
    return PS_OK;
}

/* Parts are scanned as they arrive; the verdict comes behind the last of them, in the same
 * stream. */
static enum ps_status look(struct ps_device_judged *judged, struct ps_error *error)
{
    struct ps_device *device = judged->parameter->device;
    for (size_t i = 0; i < judged->count; i++)
        PS_TRY(send_part(judged, i, error));
    ps_mutex_lock(&device->lock);
    enum ps_status status = queue_verdict(judged, error);
    ps_mutex_unlock(&device->lock);
    return status;
}

/* The lock is taken for queuing alone: copying a gradient into a slot is the host's work, and
 * other threads have theirs. */
static enum ps_status send_part(struct ps_device_judged *judged, size_t i, struct ps_error *error)
{
    struct ps_device *device = judged->parameter->device;
    const struct ps_gradient_part *part = &judged->parts[i];
    struct ps_slot *slot = judged->slots[i];
    PS_TRY(ps_slot_await(device, slot, error));
    if (judged->place != NULL)
        return look_in_place(judged, error);
    /* A part in registered memory is copied by the device from where it lies. Whoever judges waits
     * for the verdict, and so for the copy: memory of others is theirs again
     * then. */
    const uint8_t *direct = ps_device_direct(device, &judged->source, part);
    if (direct == NULL)
        ps_gradient_part_copy(&judged->source, part, slot->host);
    size_t size = direct == NULL ? part->bytes : ps_gradient_part_bytes(&judged->source, part);
    ps_mutex_lock(&device->lock);
    enum ps_status status =
        ps_slot_send(device, slot, direct == NULL ? slot->host : direct, size, 0, error);
    if (status == PS_OK)
        status = queue_scan(judged, i, error);
    ps_mutex_unlock(&device->lock);
    return status;
}

/* Nothing is copied, so that no copy has waited for the update that had the slot before (W2): the
 * look itself does, since it writes sums and verdict there. */
static enum ps_status look_in_place(struct ps_device_judged *judged, struct ps_error *error)
{
    struct ps_device *device = judged->parameter->device;
    struct ps_driver *driver = &device->driver;
    ps_mutex_lock(&device->lock);
    /* An event that was never recorded is no wait: a slot that nobody has used is free. */
    int code = driver->stream_wait(driver->self, device->look, judged->slots[0]->done);
    enum ps_status status = ps_device_check_code(device, code, "looking at a gradient", error);
    if (status == PS_OK)
        status = queue_scan(judged, 0, error);
    ps_mutex_unlock(&device->lock);
    return status;
}

/* On the device, behind the first slot's gradient. */
static struct ps_cuda_verdict *verdict_of(const struct ps_device_judged *judged)
{
    return (void *)(judged->slots[0]->device + judged->parameter->device->ring.slot_bytes);
}

/* The partial sums of clip_norm come behind the verdict: their number is known from the
 * elements. */
static double *sums_of(const struct ps_device_judged *judged)
{
    /* No gradient is there: room for the sums of 2^31 elements, in a slot of 4 MiB. */
    if (judged->place != NULL)
        return (void *)judged->slots[0]->device;
    return (void *)((uint8_t *)verdict_of(judged) + PS_VERDICT_BYTES);
}

/* The room behind the first slot is its own when the gradient is in the slot: its copy waited for
 * the update that had slot and room before. */
static enum ps_status queue_scan(struct ps_device_judged *judged, size_t i, struct ps_error *error)
{
    struct ps_device *device = judged->parameter->device;
    struct ps_driver *driver = &device->driver;
    const struct ps_cuda_scan scan = {.settings = judged->settings,
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

/* The verdict, and its copy for the host. */
static enum ps_status queue_verdict(struct ps_device_judged *judged, struct ps_error *error)
{
    struct ps_device *device = judged->parameter->device;
    struct ps_driver *driver = &device->driver;
    struct ps_slot *slot = judged->slots[0];
    const struct ps_cuda_judge judge = {.settings = judged->settings,
                                        .count = judged->source.count,
                                        .sums = sums_of(judged),
                                        .verdict = verdict_of(judged)};
    int code = driver->judge(driver->self, &judge, device->look);
    if (code == 0)
        code = driver->copy(driver->self, slot->host + device->ring.slot_bytes, judge.verdict,
                            sizeof *judge.verdict, PS_DRIVER_TO_HOST, device->look);
    if (code == 0)
        code = driver->record(driver->self, slot->judged, device->look);
    return ps_device_check_code(device, code, "judging a gradient", error);
}

/* As an update would have it, so that scan and update see the same elements in the same order. */
static struct ps_cuda_run run_of(const struct ps_device_judged *judged, size_t i)
{
    const struct ps_gradient_part *part = &judged->parts[i];
    return ps_device_run(judged->parameter, &judged->source, part,
                         judged->place != NULL ? judged->place : judged->slots[i]->device);
}

/* W7: the verdict's copy on the host is read when its event has passed. The scan that is
 * returned is what ps_optimizer_scan would have found, so that the host decides in one place for
 * both. */
static enum ps_status read_verdict(struct ps_device_judged *judged, struct ps_gradient_scan *scan,
                                   struct ps_error *error)
{
    struct ps_device *device = judged->parameter->device;
    const struct ps_slot *slot = judged->slots[0];
    if (PS_DEVICE_MISSING_WAIT != 7) /* W7 */
        PS_TRY(ps_device_await_event(device, slot->judged, "waiting for a verdict", error));
    const struct ps_cuda_verdict *verdict = (const void *)(slot->host + device->ring.slot_bytes);
    /* The greatest number stands for "none", since the device finds the first index by taking
     * the least. */
    bool nonfinite = verdict->nonfinite_index != UINT64_MAX;
    *scan = (struct ps_gradient_scan){.nonfinite = nonfinite,
                                      .nonfinite_index = nonfinite ? verdict->nonfinite_index : 0,
                                      .square_sum = verdict->square_sum};
    return PS_OK;
}

/* The step has the scale of clip_norm already, from the host. A snapshot that shares the arrays
 * is given its copy before the first part changes them. */
enum ps_status ps_device_push_judged(struct ps_device_judged *judged,
                                     const struct ps_optimizer_step *step,
                                     struct ps_device_ticket *ticket, struct ps_error *error)
{
    struct ps_device *device = judged->parameter->device;
    PS_ASSERT(!step->skip);
    PS_ASSERT(step->dtype == judged->parameter->dtype);
    PS_TRY(ps_device_enter(device, error));
    PS_TRY(ps_device_make_way(judged->parameter, error));
    for (size_t i = 0; i < judged->count; i++)
        PS_TRY(queue_update(judged, i, step, error));
    *ticket = (struct ps_device_ticket){0};
    ps_mutex_lock(&device->lock);
    enum ps_status status = ps_timeline_mark(device, &device->compute, &ticket->compute, error);
    ps_mutex_unlock(&device->lock);
    if (status == PS_OK)
        atomic_fetch_add(&device->push_count, 1);
    return status;
}

/* The gradient is in its slot: the host, which read the verdict, waited for that. */
static enum ps_status queue_update(struct ps_device_judged *judged, size_t i,
                                   const struct ps_optimizer_step *step, struct ps_error *error)
{
    struct ps_device *device = judged->parameter->device;
    struct ps_driver *driver = &device->driver;
    struct ps_driver_stream *stream = device->compute.stream;
    const struct ps_gradient_part *part = &judged->parts[i];
    PS_TRY(ps_device_await_readers(judged->parameter, part->first, part->count, error));
    struct ps_cuda_apply apply = {.step = step, .run = run_of(judged, i)};
    /* Of a gradient that is in no slot whoever has the slot next waits for nothing. */
    bool has_slot = judged->place == NULL;
    if (PS_DEVICE_MISSING_WAIT == 8)
        apply.verdict = verdict_of(judged);
    ps_mutex_lock(&device->lock);
    int code = driver->apply(driver->self, &apply, stream);
    if (code == 0 && has_slot)
        code = driver->record(driver->self, judged->slots[i]->done, stream);
    ps_mutex_unlock(&device->lock);
    atomic_fetch_add(&device->launch_count, 1);
    return ps_device_check_code(device, code, "launching an update", error);
}

void ps_device_judged_release(struct ps_device_judged *judged)
{
    if (judged == NULL)
        return;
    struct ps_device *device = judged->parameter->device;
    ps_slots_return_judged(device, judged->slots, judged->count);
    ps_release(device->memory, judged);
}
