/* SPDX-License-Identifier: Apache-2.0 */
/* A device's life, the funnel of its errors, and its tickets. */
#include "optimizer/device/runtime.h"

#include "base/assert.h"

static enum ps_status build(struct ps_device *device, const struct ps_device_options *options,
                            struct ps_error *error);
static enum ps_status open_driver(struct ps_device *device, const struct ps_device_options *options,
                                  struct ps_error *error);
static enum ps_status open_streams(struct ps_device *device, struct ps_error *error);
static enum ps_status open_timeline(struct ps_device *device, struct ps_timeline *timeline,
                                    struct ps_error *error);
static enum ps_status open_budget(struct ps_device *device, uint64_t wish, uint64_t free_before,
                                  struct ps_error *error);
static void close_timeline(struct ps_device *device, struct ps_timeline *timeline);

/* Whatever fails, ps_device_close takes apart what there is: the struct is zero before its first
 * field. A device is tried before it is trusted: ps_device_probe compares it with the CPU, bit
 * by bit. */
enum ps_status ps_device_open(const struct ps_device_options *options, struct ps_device **out,
                              struct ps_error *error)
{
    struct ps_device *device = ps_zeroed(options->memory, sizeof *device);
    if (device == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a device");
    device->memory = options->memory;
    /* Before anything that can fail, since close takes them apart in any case. */
    ps_mutex_init(&device->lock, PS_RANK_QUEUE);
    ps_condition_init(&device->ring.returned);
    ps_condition_init(&device->moved);
    enum ps_status status = ps_watch_open(&device->watch, &device->fault, options->wait_ms, error);
    if (status == PS_OK)
        status = build(device, options, error);
    if (status == PS_OK)
        status = ps_device_probe(device, error);
    if (status != PS_OK) {
        ps_device_close(device);
        return status;
    }
    /* Errors of opening are the caller's to hear; from here on there is somebody to be told. */
    device->fault.died = options->died;
    device->fault.self = options->self;
    *out = device;
    return PS_OK;
}

/* Order matters: the driver before its streams, and the budget last, because what the context
 * and the ring have taken must not be promised to parameters. */
static enum ps_status build(struct ps_device *device, const struct ps_device_options *options,
                            struct ps_error *error)
{
    uint64_t free_before = 0;
    PS_TRY(open_driver(device, options, error));
    int code = device->driver.memory_free(device->driver.self, &free_before);
    PS_TRY(ps_device_check_code(device, code, "asking for its free memory", error));
    PS_TRY(open_streams(device, error));
    PS_TRY(ps_ring_open(device, options->pinned_bytes, error));
    return open_budget(device, options->memory_bytes, free_before, error);
}

static enum ps_status open_driver(struct ps_device *device, const struct ps_device_options *options,
                                  struct ps_error *error)
{
    int code = ps_driver_open(options, &device->driver);
    /* A number that the operator chose is wrong, or a card is gone: told apart from one that is
     * there and does not open. */
    if (code == PS_FAULT_INVALID_DEVICE || code == PS_FAULT_NO_DEVICE)
        return ps_fail(error, PS_ERR_NOT_FOUND, "there is no device %u: %s (%d)",
                       (unsigned)options->ordinal, ps_driver_error_name(code), code);
    if (code != 0)
        return ps_fail(error, PS_ERR_UNAVAILABLE, "device %u cannot be opened: %s (%d)",
                       (unsigned)options->ordinal, ps_driver_error_name(code), code);
    ps_driver_calls_open(&device->calls, &device->driver);
    code = device->driver.facts(device->driver.self, &device->facts);
    PS_TRY(ps_device_check_code(device, code, "asking what it is", error));
    /* Older cards lack what the kernels are compiled for, and a program that has no code for a
     * card fails at its first launch, not here. */
    if (device->facts.capability_major < 8)
        return ps_fail(error, PS_ERR_UNSUPPORTED,
                       "%s has compute capability %u.%u; 8.0 or above is needed",
                       device->facts.name, (unsigned)device->facts.capability_major,
                       (unsigned)device->facts.capability_minor);
    return PS_OK;
}

/* Four streams: gradients in, updates, reads out, and looks at verdicts. Each has its order;
 * what crosses from one into another waits for an event, W1 to W7. */
static enum ps_status open_streams(struct ps_device *device, struct ps_error *error)
{
    struct ps_driver *driver = &device->driver;
    /* The text says what was being made, whichever of them failed. */
    int code = driver->stream_create(driver->self, &device->copy_in);
    if (code == 0)
        code = driver->stream_create(driver->self, &device->look);
    PS_TRY(ps_device_check_memory(device, code, "creating a stream", 0, error));
    PS_TRY(open_timeline(device, &device->compute, error));
    return open_timeline(device, &device->copy_out, error);
}

/* Events are used in a ring: an event that is recorded again stands for later work, so that
 * waiting for it is never too short. */
static enum ps_status open_timeline(struct ps_device *device, struct ps_timeline *timeline,
                                    struct ps_error *error)
{
    struct ps_driver *driver = &device->driver;
    int code = driver->stream_create(driver->self, &timeline->stream);
    for (size_t i = 0; code == 0 && i < PS_TIMELINE_EVENTS; i++)
        code = driver->event_create(driver->self, &timeline->events[i]);
    return ps_device_check_memory(device, code, "creating a stream", 0, error);
}

static enum ps_status open_budget(struct ps_device *device, uint64_t wish, uint64_t free_before,
                                  struct ps_error *error)
{
    /* Measured again: what the driver, the streams and the ring took since the first question is
     * the context's share. */
    uint64_t free_now = 0;
    int code = device->driver.memory_free(device->driver.self, &free_now);
    PS_TRY(ps_device_check_code(device, code, "asking for its free memory", error));
    /* A budget that somebody asked for is a promise of the operator's; a smaller one would be
     * found out in the middle of a training. */
    if (wish > free_now)
        return ps_fail(error, PS_ERR_BUSY,
                       "device memory: a budget of %llu bytes was asked for, %llu are free",
                       (unsigned long long)wish, (unsigned long long)free_now);
    /* The default is of what is free now: another process on the card has its share already. */
    device->budget.limit = wish > 0 ? wish : ps_budget_default(free_now);
    device->facts.budget_bytes = device->budget.limit;
    device->facts.context_bytes = free_before > free_now ? free_before - free_now : 0;
    return PS_OK;
}

/* All parameters and snapshots have been given back. The driver is entered whatever it says: a
 * dead one must be closed, too. */
void ps_device_close(struct ps_device *device)
{
    if (device == NULL)
        return;
    PS_ASSERT(atomic_load(&device->parameter_count) == 0);
    PS_ASSERT(atomic_load(&device->snapshot_count) == 0);
    struct ps_driver *driver = &device->driver;
    if (driver->close != NULL) {
        /* Whichever thread closes. */
        (void)driver->enter(driver->self);
        /* Kept pieces are the device's own, and the driver counts them at its end. */
        ps_device_free_kept(device);
        ps_ring_close(device);
        close_timeline(device, &device->copy_out);
        close_timeline(device, &device->compute);
        driver->stream_destroy(driver->self, device->look);
        driver->stream_destroy(driver->self, device->copy_in);
        driver->close(driver->self);
    }
    ps_watch_close(&device->watch);
    ps_condition_fini(&device->moved);
    ps_condition_fini(&device->ring.returned);
    ps_mutex_fini(&device->lock);
    ps_release(device->memory, device);
}

static void close_timeline(struct ps_device *device, struct ps_timeline *timeline)
{
    struct ps_driver *driver = &device->driver;
    for (size_t i = 0; i < PS_TIMELINE_EVENTS; i++)
        driver->event_destroy(driver->self, timeline->events[i]);
    driver->stream_destroy(driver->self, timeline->stream);
}

/* The funnel: every code of the driver comes through here, the first error is kept and told, and
 * from then on every call is refused with it. After an error in one stream nothing in another is
 * to be trusted. */
enum ps_status ps_device_check_code(struct ps_device *device, int code, const char *action,
                                    struct ps_error *error)
{
    if (code == 0)
        return PS_OK;
    ps_fault_note(&device->fault, code, ps_driver_error_name(code), action);
    return ps_fault_check(&device->fault, error);
}

/* The one error that is an answer and not a fault: the device works, and has no room. */
enum ps_status ps_device_check_memory(struct ps_device *device, int code, const char *action,
                                      uint64_t bytes, struct ps_error *error)
{
    if (code != PS_FAULT_OUT_OF_MEMORY)
        return ps_device_check_code(device, code, action, error);
    return ps_fail(error, PS_ERR_NO_MEMORY, "the device has no memory for %s: %llu bytes, %s (%d)",
                   action, (unsigned long long)bytes, ps_driver_error_name(code), code);
}

/* Which device a thread means is a setting of the thread; lanes come and go. */
enum ps_status ps_device_enter(struct ps_device *device, struct ps_error *error)
{
    PS_TRY(ps_fault_check(&device->fault, error));
    int code = device->driver.enter(device->driver.self);
    return ps_device_check_code(device, code, "selecting it", error);
}

/* The number counts only when the event was recorded: a ticket always stands for something that
 * will happen. */
enum ps_status ps_timeline_mark(struct ps_device *device, struct ps_timeline *timeline,
                                uint64_t *ticket, struct ps_error *error)
{
    uint64_t number = timeline->newest + 1;
    int code = device->driver.record(
        device->driver.self, timeline->events[number % PS_TIMELINE_EVENTS], timeline->stream);
    PS_TRY(ps_device_check_code(device, code, "recording an event", error));
    timeline->newest = number;
    *ticket = number;
    return PS_OK;
}

/* One stream waits for another, on the device; the host goes on. */
enum ps_status ps_timeline_await(struct ps_device *device, struct ps_timeline *timeline,
                                 uint64_t ticket, struct ps_driver_stream *stream,
                                 struct ps_error *error)
{
    int code = device->driver.stream_wait(device->driver.self, stream,
                                          timeline->events[ticket % PS_TIMELINE_EVENTS]);
    return ps_device_check_code(device, code, "waiting for an event", error);
}

/* 0 is the ticket of work that never was: nothing to wait for. */
static enum ps_status wait_for(struct ps_device *device, struct ps_timeline *timeline,
                               uint64_t ticket, struct ps_error *error)
{
    if (ticket == 0)
        return PS_OK;
    return ps_device_await_event(device, timeline->events[ticket % PS_TIMELINE_EVENTS],
                                 "waiting for its work", error);
}

/* Both parts of the ticket, since a push is done on one timeline and a read on another. */
enum ps_status ps_device_wait(struct ps_device *device, struct ps_device_ticket ticket,
                              struct ps_error *error)
{
    PS_TRY(ps_device_enter(device, error));
    PS_TRY(wait_for(device, &device->compute, ticket.compute, error));
    return wait_for(device, &device->copy_out, ticket.copy_out, error);
}
