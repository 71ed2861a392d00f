/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter in the device's memory: one piece of it, the arrays one after another. */
#include "optimizer/device/runtime.h"

#include "base/assert.h"

static enum ps_status acquire_arrays(struct ps_device_parameter *parameter, struct ps_error *error);
static enum ps_status begin_arrays(struct ps_device_parameter *parameter,
                                   const struct ps_optimizer_settings *settings,
                                   struct ps_error *error);
static enum ps_status queue_start(struct ps_device_parameter *parameter,
                                  const struct ps_optimizer_settings *settings,
                                  struct ps_error *error);
static uint64_t parameter_size(const struct ps_device_parameter *parameter);

enum ps_status ps_device_supports(const struct ps_device_parameter_wish *wish,
                                  struct ps_error *error)
{
    /* The same check as on the CPU: a device has no rules of its own. */
    PS_TRY(ps_optimizer_settings_check(wish->settings, wish->dtype, error));
    /* Whether a push may be taken must be known before it goes into the journal. */
    if (wish->settings->rule == PS_RULE_ADD && wish->settings->overflow == PS_OVERFLOW_FAIL)
        return ps_fail(error, PS_ERR_UNSUPPORTED, "overflow=fail has to see the values first");
    /* No product of the sizes below can overflow. */
    if (wish->count > UINT64_MAX / 16 / sizeof(double) / PS_DEVICE_ARRAYS_MAX)
        return ps_fail(error, PS_ERR_UNSUPPORTED, "too many elements");
    return PS_OK;
}

/* Exactly what ps_device_parameter_create will reserve, so that a server can decide before it
 * takes a parameter where it shall live. */
uint64_t ps_device_parameter_bytes(const struct ps_device_parameter_wish *wish)
{
    return ps_budget_array_bytes(wish->count, ps_dtype_size(wish->dtype)) *
           (1 + ps_rule_states(wish->settings->rule));
}

/* The handle first, then memory, then its start values: after each step destroy knows what there
 * is. A parameter counts from the moment it has memory. */
enum ps_status ps_device_parameter_create(struct ps_device *device,
                                          const struct ps_device_parameter_wish *wish,
                                          struct ps_device_parameter **out, struct ps_error *error)
{
    /* Also here, though the server has asked: a plugin trusts its caller as little as a server
     * does. */
    PS_TRY(ps_device_supports(wish, error));
    struct ps_device_parameter *parameter = ps_zeroed(device->memory, sizeof *parameter);
    if (parameter == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a parameter's handle");
    parameter->device = device;
    parameter->dtype = wish->dtype;
    parameter->count = wish->count;
    parameter->array_count = 1 + ps_rule_states(wish->settings->rule);
    /* Rounded up to lines: the arrays of one parameter lie one behind the other. */
    parameter->array_bytes = ps_budget_array_bytes(wish->count, ps_dtype_size(wish->dtype));
    enum ps_status status = acquire_arrays(parameter, error);
    if (status != PS_OK) {
        ps_release(device->memory, parameter);
        return status;
    }
    atomic_fetch_add(&device->parameter_count, 1);
    status = begin_arrays(parameter, wish->settings, error);
    if (status != PS_OK) {
        ps_device_parameter_destroy(parameter);
        return status;
    }
    *out = parameter;
    return PS_OK;
}

/* The budget first: a device that is asked for too much may take others' memory for it. */
static enum ps_status acquire_arrays(struct ps_device_parameter *parameter, struct ps_error *error)
{
    struct ps_device *device = parameter->device;
    uint64_t size = parameter_size(parameter);
    PS_TRY(ps_device_enter(device, error));
    return ps_device_acquire_memory(device, size, "a parameter", &parameter->arrays, error);
}

/* Queued, not waited for: the first push or load comes behind it on the same stream. */
static enum ps_status begin_arrays(struct ps_device_parameter *parameter,
                                   const struct ps_optimizer_settings *settings,
                                   struct ps_error *error)
{
    struct ps_device *device = parameter->device;
    ps_mutex_lock(&device->lock);
    enum ps_status status = queue_start(parameter, settings, error);
    ps_mutex_unlock(&device->lock);
    return status;
}

/* Zeros also behind the last element, where 16-byte accesses may come to look. */
static enum ps_status queue_start(struct ps_device_parameter *parameter,
                                  const struct ps_optimizer_settings *settings,
                                  struct ps_error *error)
{
    struct ps_device *device = parameter->device;
    struct ps_driver *driver = &device->driver;
    struct ps_driver_stream *stream = device->compute.stream;
    int code =
        driver->zero(driver->self, parameter->arrays, (size_t)parameter_size(parameter), stream);
    for (uint32_t i = 1; code == 0 && i < parameter->array_count; i++) {
        /* One launch for an array, at initialisation only. */
        const struct ps_cuda_fill fill = {.dtype = parameter->dtype,
                                          .value = ps_optimizer_state_start(settings, i - 1),
                                          .array = ps_device_parameter_array(parameter, i),
                                          .count = parameter->count};
        /* Zero is there already. */
        if (fill.value != 0)
            code = driver->fill(driver->self, &fill, stream);
    }
    return ps_device_check_code(device, code, "filling a parameter", error);
}

/* All arrays: values, then states. */
static uint64_t parameter_size(const struct ps_device_parameter *parameter)
{
    return parameter->array_bytes * parameter->array_count;
}

/* Array 0 is the values, 1 and 2 the states. */
uint8_t *ps_device_parameter_array(const struct ps_device_parameter *parameter, uint32_t array)
{
    PS_ASSERT(array < parameter->array_count);
    return parameter->arrays + array * parameter->array_bytes;
}

/* Work on it may still be queued: its memory is kept and given out again only behind that work
 * (device_memory.c). */
void ps_device_parameter_destroy(struct ps_device_parameter *parameter)
{
    if (parameter == NULL)
        return;
    struct ps_device *device = parameter->device;
    ps_device_stop_lending(parameter);
    ps_device_release_memory(device, parameter->arrays, parameter_size(parameter));
    atomic_fetch_sub(&device->parameter_count, 1);
    ps_release(device->memory, parameter);
}
