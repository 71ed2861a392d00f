/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/device/device_host.c: gradients that lie in memory of others. */
#include "device_rig.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* A slot of 1 MiB, which the device copies itself, and a rest of less than 256 KiB, which goes
 * through the ring. */
#define COUNT (300u * 1024)
#define DIRECT_BYTES (1u << 20)
#define BYTES (COUNT * sizeof(float))

static struct ps_device *opened;
static float *shared;

static void set_up(void)
{
    const struct ps_device_options options = {.pinned_bytes = 8u << 20,
                                              .memory = ps_allocator_heap()};
    ck_assert_int_eq(device_rig_plugin()->open(&options, &opened, NULL), PS_OK);
    shared = aligned_alloc(4096, BYTES);
    ck_assert_ptr_nonnull(shared);
}

static void tear_down(void)
{
    free(shared);
    device_rig_plugin()->close(opened);
}

static uint64_t direct_bytes(void)
{
    struct ps_device_stats stats;
    device_rig_plugin()->stats(opened, &stats);
    return stats.direct_bytes;
}

static uint64_t pinned_bytes(void)
{
    struct ps_device_stats stats;
    device_rig_plugin()->stats(opened, &stats);
    return stats.pinned_bytes;
}

static void fill(float value)
{
    for (size_t i = 0; i < COUNT; i++)
        shared[i] = value;
}

static struct ps_device_parameter *zeros(size_t count)
{
    static float none[COUNT];
    const struct ps_bytes content = {(const uint8_t *)none, count * sizeof none[0]};
    const struct ps_device_parameter_wish wish = {
        .settings = &device_rig_sgd, .dtype = PS_F32, .count = count};
    struct ps_device_parameter *parameter = NULL;
    ck_assert_int_eq(device_rig_plugin()->parameter_create(opened, &wish, &parameter, NULL), PS_OK);
    ck_assert_int_eq(device_rig_plugin()->write(parameter, 0, 0, ps_view_of(&content), NULL),
                     PS_OK);
    return parameter;
}

/* Pushes what is shared, and writes something else there as soon as it may. */
static void push_and_scribble(struct ps_device_parameter *parameter, size_t count)
{
    const struct ps_gradient_scan scan = {0};
    const struct ps_bytes content = {(const uint8_t *)shared, count * sizeof shared[0]};
    struct ps_optimizer_step step;
    struct ps_device_ticket ticket;
    ck_assert_int_eq(ps_optimizer_prepare(&device_rig_sgd, PS_F32, 1, 0, &scan, &step, NULL),
                     PS_OK);
    const struct ps_device_push push = {
        .parameter = parameter, .gradient = ps_view_of(&content), .step = &step};
    ck_assert_int_eq(device_rig_plugin()->push(opened, &push, 1, &ticket, NULL), PS_OK);
    fill(1000.0F);
    ck_assert_int_eq(device_rig_plugin()->wait(opened, ticket, NULL), PS_OK);
}

static void expect_values(struct ps_device_parameter *parameter, size_t count, float value)
{
    static float values[COUNT];
    ck_assert_int_eq(
        device_rig_plugin()->read(parameter, 0, 0, values, count * sizeof values[0], NULL), PS_OK);
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(values[i] == value, "element %zu is %g and not %g", i, (double)values[i],
                      (double)value);
}

START_TEST(a_gradient_is_copied_from_where_it_lies_and_its_memory_is_free_at_once)
{
    const struct ps_device_plugin *plugin = device_rig_plugin();
    ck_assert_int_eq(plugin->host_register(opened, shared, BYTES, NULL), PS_OK);
    struct ps_device_parameter *parameter = zeros(COUNT);
    fill(2.0F);

    push_and_scribble(parameter, COUNT);

    expect_values(parameter, COUNT, -2.0F);
    ck_assert_uint_eq(direct_bytes(), DIRECT_BYTES);
    plugin->parameter_destroy(parameter);
    plugin->host_unregister(opened, shared);
}
END_TEST

START_TEST(a_judged_gradient_is_copied_from_where_it_lies)
{
    const struct ps_device_plugin *plugin = device_rig_plugin();
    const struct ps_bytes content = {(const uint8_t *)shared, BYTES};
    struct ps_device_judged *judged = NULL;
    struct ps_gradient_scan scan;
    struct ps_optimizer_step step;
    struct ps_device_ticket ticket;
    ck_assert_int_eq(plugin->host_register(opened, shared, BYTES, NULL), PS_OK);
    struct ps_device_parameter *parameter = zeros(COUNT);
    fill(3.0F);

    ck_assert_int_eq(plugin->judge(parameter, &device_rig_sgd, ps_view_of(&content),
                                   PS_ENCODING_NATIVE, &judged, &scan, NULL),
                     PS_OK);
    fill(1000.0F);
    ck_assert_int_eq(ps_optimizer_prepare(&device_rig_sgd, PS_F32, 1, 0, &scan, &step, NULL),
                     PS_OK);
    ck_assert_int_eq(plugin->push_judged(judged, &step, &ticket, NULL), PS_OK);
    ck_assert_int_eq(plugin->wait(opened, ticket, NULL), PS_OK);
    plugin->judged_release(judged);

    expect_values(parameter, COUNT, -3.0F);
    ck_assert_uint_eq(direct_bytes(), DIRECT_BYTES);
    plugin->parameter_destroy(parameter);
    plugin->host_unregister(opened, shared);
}
END_TEST

START_TEST(small_gradients_and_memory_that_nobody_registered_go_through_the_ring)
{
    const struct ps_device_plugin *plugin = device_rig_plugin();
    struct ps_device_parameter *small = zeros(1000);
    struct ps_device_parameter *large = zeros(COUNT);
    fill(2.0F);

    push_and_scribble(large, COUNT);
    ck_assert_int_eq(plugin->host_register(opened, shared, BYTES, NULL), PS_OK);
    fill(2.0F);
    push_and_scribble(small, 1000);

    expect_values(large, COUNT, -2.0F);
    expect_values(small, 1000, -2.0F);
    ck_assert_uint_eq(direct_bytes(), 0);
    plugin->host_unregister(opened, shared);
    plugin->parameter_destroy(small);
    plugin->parameter_destroy(large);
}
END_TEST

START_TEST(memory_that_was_given_back_is_not_reached_any_more)
{
    const struct ps_device_plugin *plugin = device_rig_plugin();
    uint64_t pinned = pinned_bytes();
    ck_assert_int_eq(plugin->host_register(opened, shared, BYTES, NULL), PS_OK);
    ck_assert_uint_eq(pinned_bytes(), pinned + BYTES);
    plugin->host_unregister(opened, shared);
    ck_assert_uint_eq(pinned_bytes(), pinned);
    struct ps_device_parameter *parameter = zeros(COUNT);
    fill(2.0F);

    push_and_scribble(parameter, COUNT);

    expect_values(parameter, COUNT, -2.0F);
    ck_assert_uint_eq(direct_bytes(), 0);
    plugin->parameter_destroy(parameter);
}
END_TEST

START_TEST(more_memories_than_there_is_room_for_are_refused)
{
    const struct ps_device_plugin *plugin = device_rig_plugin();
    struct ps_error error = {0};
    uint8_t *page = (uint8_t *)shared;
    for (size_t i = 0; i < 256; i++)
        ck_assert_int_eq(plugin->host_register(opened, page + i * 4096, 4096, NULL), PS_OK);

    ck_assert_int_eq(plugin->host_register(opened, page + 256 * 4096, 4096, &error), PS_ERR_BUSY);

    for (size_t i = 0; i < 256; i++)
        plugin->host_unregister(opened, page + i * 4096);
    ck_assert_int_eq(plugin->host_register(opened, page, 4096, NULL), PS_OK);
    plugin->host_unregister(opened, page);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_host");
    TCase *tests = tcase_create("device_host");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_gradient_is_copied_from_where_it_lies_and_its_memory_is_free_at_once);
    tcase_add_test(tests, a_judged_gradient_is_copied_from_where_it_lies);
    tcase_add_test(tests, small_gradients_and_memory_that_nobody_registered_go_through_the_ring);
    tcase_add_test(tests, memory_that_was_given_back_is_not_reached_any_more);
    tcase_add_test(tests, more_memories_than_there_is_room_for_are_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
