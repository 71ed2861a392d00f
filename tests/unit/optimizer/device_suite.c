/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots, budgets and batches, on whichever device the plugin's table belongs to. */
#include "device_suite.h"

#include "optimizer/device.h"

#include <stdlib.h>
#include <string.h>

#define COUNT 50003

/* Of a table launch, and more than a ring of 128 KiB takes at once. */
#define PARAMETERS 100

extern ps_device_entry_fn ps_device_entry;

static const struct ps_optimizer_settings sgd = {.rule = PS_RULE_SGD,
                                                 .learning_rate = {.rate = 1.0}};

static const struct ps_device_plugin *plugin(void)
{
    return ps_device_entry(PS_DEVICE_ABI);
}

static struct ps_device *open_device(struct expect *expect, uint64_t budget)
{
    struct ps_error error = {0};
    struct ps_device *device = NULL;
    const struct ps_device_options options = {
        .memory_bytes = budget, .pinned_bytes = 128u << 10, .memory = ps_allocator_heap()};
    bool opened = plugin()->open(&options, &device, &error) == PS_OK;
    if (!opened)
        printf("%s\n", error.text);
    EXPECT(expect, opened);
    return device;
}

/* A parameter of zeros, or NULL. */
static struct ps_device_parameter *zeros(struct ps_device *device, uint64_t count)
{
    const struct ps_device_parameter_wish wish = {
        .settings = &sgd, .dtype = PS_F32, .count = count};
    struct ps_device_parameter *parameter = NULL;
    float *values = calloc(count, sizeof *values);
    const struct ps_bytes content = {(const uint8_t *)values, count * sizeof *values};
    if (plugin()->parameter_create(device, &wish, &parameter, NULL) == PS_OK &&
        plugin()->write(parameter, 0, 0, ps_view_of(&content), NULL) != PS_OK) {
        plugin()->parameter_destroy(parameter);
        parameter = NULL;
    }
    free(values);
    return parameter;
}

/* Pushes element i = i % 1000 + more to each of the parameters, and waits. */
static bool push_all(struct ps_device *device, struct ps_device_parameter *const *parameters,
                     size_t parameter_count, uint64_t count, float more)
{
    const struct ps_gradient_scan scan = {0};
    struct ps_device_push pushes[PARAMETERS];
    struct ps_optimizer_step step;
    struct ps_device_ticket ticket = {0};
    float *gradient = calloc(count, sizeof *gradient);
    const struct ps_bytes content = {(const uint8_t *)gradient, count * sizeof *gradient};
    const struct ps_view view = ps_view_of(&content);
    for (uint64_t i = 0; i < count; i++)
        gradient[i] = (float)(i % 1000) + more;
    bool done = ps_optimizer_prepare(&sgd, PS_F32, 1, 0, &scan, &step, NULL) == PS_OK;
    for (size_t i = 0; i < parameter_count; i++)
        pushes[i] =
            (struct ps_device_push){.parameter = parameters[i], .gradient = view, .step = &step};
    done = done && plugin()->push(device, pushes, parameter_count, &ticket, NULL) == PS_OK &&
           plugin()->wait(device, ticket, NULL) == PS_OK;
    free(gradient);
    return done;
}

/* Is element i = -(i % 1000 + more) * times? */
static bool values_are(const float *values, uint64_t count, float more, float times)
{
    for (uint64_t i = 0; i < count; i++)
        if (values[i] != -((float)(i % 1000) + more) * times)
            return false;
    return true;
}

static bool parameter_is(struct ps_device_parameter *parameter, uint64_t count, float more,
                         float times)
{
    float *values = calloc(count, sizeof *values);
    bool right = plugin()->read(parameter, 0, 0, values, count * sizeof *values, NULL) == PS_OK &&
                 values_are(values, count, more, times);
    free(values);
    return right;
}

/* `room`: for the copy on the device; without it the copy comes to the host. */
static void take_snapshot(struct expect *expect, bool room)
{
    struct ps_device_snapshot *snapshot = NULL;
    struct ps_device_stats stats = {0};
    struct ps_device *device = open_device(expect, room ? 8 << 20 : 300 << 10);
    if (device == NULL)
        return;
    float *values = calloc(COUNT, sizeof *values);
    struct ps_device_parameter *parameter = zeros(device, COUNT);
    EXPECT(expect, parameter != NULL && push_all(device, &parameter, 1, COUNT, 1));

    EXPECT(expect, plugin()->snapshot_reserve(parameter, &snapshot, NULL) == PS_OK &&
                       plugin()->snapshot_take(parameter, snapshot, NULL) == PS_OK);
    EXPECT(expect, push_all(device, &parameter, 1, COUNT, 1));

    EXPECT(expect,
           plugin()->snapshot_read(snapshot, 0, 0, values, COUNT * sizeof *values, NULL) == PS_OK);
    EXPECT(expect, values_are(values, COUNT, 1, 1));
    EXPECT(expect, parameter_is(parameter, COUNT, 1, 2));
    plugin()->stats(device, &stats);
    EXPECT(expect, stats.streamed_count == (room ? 0 : 1));
    plugin()->snapshot_release(snapshot);
    plugin()->parameter_destroy(parameter);
    plugin()->close(device);
    free(values);
}

static void a_snapshot_on_the_device_is_one_moment(struct expect *expect)
{
    take_snapshot(expect, true);
}

static void a_snapshot_without_room_is_one_moment(struct expect *expect)
{
    take_snapshot(expect, false);
}

static void many_parameters_of_one_push_are_all_updated(struct expect *expect)
{
    struct ps_device_parameter *parameters[PARAMETERS] = {NULL};
    struct ps_device *device = open_device(expect, 0);
    if (device == NULL)
        return;
    for (size_t i = 0; i < PARAMETERS; i++)
        parameters[i] = zeros(device, 777);

    EXPECT(expect, push_all(device, parameters, PARAMETERS, 777, 3));

    for (size_t i = 0; i < PARAMETERS; i++) {
        EXPECT(expect, parameter_is(parameters[i], 777, 3, 1));
        plugin()->parameter_destroy(parameters[i]);
    }
    plugin()->close(device);
}

static void beyond_the_budget_nothing_happens(struct expect *expect)
{
    const struct ps_device_parameter_wish large = {
        .settings = &sgd, .dtype = PS_F32, .count = 1 << 20};
    struct ps_device_parameter *refused = NULL;
    struct ps_device_stats stats = {0};
    struct ps_device *device = open_device(expect, 1 << 20);
    if (device == NULL)
        return;

    EXPECT(expect, plugin()->parameter_create(device, &large, &refused, NULL) == PS_ERR_BUSY);

    plugin()->stats(device, &stats);
    EXPECT(expect, stats.used_bytes == 0 && !plugin()->dead(device, NULL));
    struct ps_device_parameter *parameter = zeros(device, 1000);
    EXPECT(expect, parameter != NULL && push_all(device, &parameter, 1, 1000, 1));
    EXPECT(expect, parameter_is(parameter, 1000, 1, 1));
    plugin()->parameter_destroy(parameter);
    plugin()->close(device);
}

static void a_device_is_opened_again_and_again(struct expect *expect)
{
    for (size_t i = 0; i < 3; i++) {
        struct ps_device_facts facts;
        struct ps_device *device = open_device(expect, 0);
        if (device == NULL)
            return;
        plugin()->facts(device, &facts);
        EXPECT(expect, facts.capability_major >= 8 && facts.budget_bytes > 0);
        plugin()->close(device);
    }
}

void device_suite_run(struct expect *expect)
{
    EXPECT_RUN(expect, a_device_is_opened_again_and_again);
    EXPECT_RUN(expect, a_snapshot_on_the_device_is_one_moment);
    EXPECT_RUN(expect, a_snapshot_without_room_is_one_moment);
    EXPECT_RUN(expect, many_parameters_of_one_push_are_all_updated);
    EXPECT_RUN(expect, beyond_the_budget_nothing_happens);
}
