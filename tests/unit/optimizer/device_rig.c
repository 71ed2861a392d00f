/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the emulator and works on parameters of one kind. */
#include "device_rig.h"

#include <check.h>
#include <stdlib.h>

extern ps_device_entry_fn ps_device_entry;

const struct ps_optimizer_settings device_rig_sgd = {.rule = PS_RULE_SGD,
                                                     .learning_rate = {.rate = 1.0}};
const struct ps_device_parameter_wish device_rig_wish = {
    .settings = &device_rig_sgd, .dtype = PS_F32, .count = DEVICE_RIG_COUNT};

const struct ps_device_plugin *device_rig_plugin(void)
{
    return ps_device_entry(PS_DEVICE_ABI);
}

static void count_death(void *self, const char *text)
{
    (void)text;
    *(int *)self += 1;
}

enum ps_status device_rig_open(const char *fail, uint64_t budget, int *deaths,
                               struct ps_device **device, struct ps_error *error)
{
    if (fail != NULL)
        (void)setenv("PS_EMULATOR_FAIL", fail, 1);
    const struct ps_device_options options = {.memory_bytes = budget,
                                              .pinned_bytes = 128u << 10,
                                              .memory = ps_allocator_heap(),
                                              .died = count_death,
                                              .self = deaths};
    return device_rig_plugin()->open(&options, device, error);
}

uint64_t device_rig_used(struct ps_device *device)
{
    struct ps_device_stats stats;
    device_rig_plugin()->stats(device, &stats);
    return stats.used_bytes;
}

enum ps_status device_rig_push_ones(struct ps_device *device, struct ps_device_parameter *parameter,
                                    uint64_t number, struct ps_error *error)
{
    static float ones[DEVICE_RIG_COUNT];
    for (size_t i = 0; i < DEVICE_RIG_COUNT; i++)
        ones[i] = 1.0F;
    const struct ps_bytes content = {(const uint8_t *)ones, sizeof ones};
    const struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    struct ps_device_ticket ticket = {0};
    PS_TRY(ps_optimizer_prepare(&device_rig_sgd, PS_F32, number, 0, &scan, &step, error));
    const struct ps_device_push push = {
        .parameter = parameter, .gradient = ps_view_of(&content), .step = &step};
    PS_TRY(device_rig_plugin()->push(device, &push, 1, &ticket, error));
    return device_rig_plugin()->wait(device, ticket, error);
}

struct ps_device_parameter *device_rig_zeros(struct ps_device *device)
{
    static const float values[DEVICE_RIG_COUNT];
    const struct ps_bytes content = {(const uint8_t *)values, sizeof values};
    struct ps_device_parameter *parameter = NULL;
    ck_assert_int_eq(
        device_rig_plugin()->parameter_create(device, &device_rig_wish, &parameter, NULL), PS_OK);
    ck_assert_int_eq(device_rig_plugin()->write(parameter, 0, 0, ps_view_of(&content), NULL),
                     PS_OK);
    return parameter;
}
