/* SPDX-License-Identifier: Apache-2.0 */
/* Does the device keep what it is given, and compute what the CPU computes? Asked once, before
 * anything is entrusted to it. */
#include "optimizer/device/runtime.h"

#include "base/assert.h"

#include <string.h>

/* Odd, so that the last vector is not full; the states begin at 0. */
#define PROBE_ELEMENTS 10007

/* What the CPU and the device both work on. */
struct probe {
    float values[PROBE_ELEMENTS];
    float gradient[PROBE_ELEMENTS];
    float states[PS_STATES_MAX][PROBE_ELEMENTS];
    float seen[PROBE_ELEMENTS];
};

static enum ps_status run(struct ps_device *device, struct probe *probe, struct ps_error *error);
static enum ps_status run_on(struct ps_device_parameter *parameter, struct probe *probe,
                             const struct ps_optimizer_step *step, struct ps_error *error);
static enum ps_status compare(struct ps_device_parameter *parameter, uint32_t array,
                              const float *expected, struct probe *probe, struct ps_error *error);

/* A card with a broken memory cell, or a driver whose compiler contracts multiply and add, would
 * change weights for weeks before anybody sees it. Ten thousand elements of the rule with most
 * arithmetic take less than a millisecond. */
enum ps_status ps_device_probe(struct ps_device *device, struct ps_error *error)
{
    struct probe *probe = ps_zeroed(device->memory, sizeof *probe);
    if (probe == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to try the device");
    for (uint32_t i = 0; i < PROBE_ELEMENTS; i++) {
        /* Numbers of many sizes and both signs, from a multiplication that spreads i over 32
         * bits; the same on every start. */
        probe->values[i] = (float)(int32_t)(i * 2654435761u) / 65536.0F;
        probe->gradient[i] = (float)(int32_t)(i * 2246822519u + 977u) / 8388608.0F;
    }
    enum ps_status status = run(device, probe, error);
    ps_release(device->memory, probe);
    return status;
}

/* AdamW has two states, two betas, a root and a division: what goes wrong anywhere goes wrong
 * there. */
static enum ps_status run(struct ps_device *device, struct probe *probe, struct ps_error *error)
{
    const struct ps_optimizer_settings settings = {.rule = PS_RULE_ADAMW,
                                                   .learning_rate = {.rate = 0.01},
                                                   .decay = 0.1,
                                                   .beta_1 = 0.9,
                                                   .beta_2 = 0.999,
                                                   .epsilon = 1e-8};
    const struct ps_device_parameter_wish wish = {
        .settings = &settings, .dtype = PS_F32, .count = PROBE_ELEMENTS};
    const struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    PS_TRY(ps_optimizer_prepare(&settings, PS_F32, 1, 0, &scan, &step, error));
    struct ps_device_parameter *parameter = NULL;
    PS_TRY(ps_device_parameter_create(device, &wish, &parameter, error));
    enum ps_status status = run_on(parameter, probe, &step, error);
    ps_device_parameter_destroy(parameter);
    return status;
}

/* What was written comes back unchanged before anything is computed, so that a fault of memory
 * is told from one of arithmetic. */
static enum ps_status run_on(struct ps_device_parameter *parameter, struct probe *probe,
                             const struct ps_optimizer_step *step, struct ps_error *error)
{
    const struct ps_bytes values = {(const uint8_t *)probe->values, sizeof probe->values};
    const struct ps_bytes gradient = {(const uint8_t *)probe->gradient, sizeof probe->gradient};
    const struct ps_device_push push = {.parameter = parameter,
                                        .gradient = ps_view_of(&gradient),
                                        .encoding = PS_ENCODING_NATIVE,
                                        .step = step};
    struct ps_device_ticket ticket;
    PS_TRY(ps_device_write(parameter, PS_DEVICE_VALUES, 0, ps_view_of(&values), error));
    PS_TRY(compare(parameter, PS_DEVICE_VALUES, probe->values, probe, error));
    PS_TRY(ps_device_push_all(parameter->device, &push, 1, &ticket, error));
    PS_TRY(ps_device_wait(parameter->device, ticket, error));

    void *const states[PS_STATES_MAX] = {probe->states[0], probe->states[1]};
    ps_optimizer_apply(step, 0, PROBE_ELEMENTS, probe->values, states, probe->gradient);
    PS_TRY(compare(parameter, PS_DEVICE_VALUES, probe->values, probe, error));
    PS_TRY(compare(parameter, 1, probe->states[0], probe, error));
    return compare(parameter, 2, probe->states[1], probe, error);
}

/* Bits and not closeness: recovery may replay on a CPU what a GPU has computed, and must
 * arrive at the same weights. */
static enum ps_status compare(struct ps_device_parameter *parameter, uint32_t array,
                              const float *expected, struct probe *probe, struct ps_error *error)
{
    PS_TRY(ps_device_read(parameter, array, 0, probe->seen, sizeof probe->seen, error));
    for (size_t i = 0; i < PROBE_ELEMENTS; i++)
        if (memcmp(&probe->seen[i], &expected[i], sizeof expected[i]) != 0)
            return ps_fail(error, PS_ERR_INTERNAL,
                           "the device computes something else than the CPU: element %zu of array "
                           "%u is %a, not %a",
                           i, (unsigned)array, (double)probe->seen[i], (double)expected[i]);
    return PS_OK;
}
