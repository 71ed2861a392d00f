/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/device/device_push.c: gradients cut into parts and packed into launches. */
#include "device_rig.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* More floats than the one slot of 64 KiB holds. */
#define LARGE_COUNT 40000

static struct ps_device *opened;
static float ones[LARGE_COUNT];

static void set_up(void)
{
    static int deaths;
    ck_assert_int_eq(device_rig_open(NULL, 0, &deaths, &opened, NULL), PS_OK);
    for (size_t i = 0; i < LARGE_COUNT; i++)
        ones[i] = 1.0F;
}

static void tear_down(void)
{
    device_rig_plugin()->close(opened);
}

static struct ps_device_parameter *zeros(size_t count)
{
    const struct ps_device_parameter_wish wish = {
        .settings = &device_rig_sgd, .dtype = PS_F32, .count = count};
    struct ps_device_parameter *parameter = NULL;
    ck_assert_int_eq(device_rig_plugin()->parameter_create(opened, &wish, &parameter, NULL), PS_OK);
    return parameter;
}

static float last_of(struct ps_device_parameter *parameter, size_t count)
{
    float value = 0;
    ck_assert_int_eq(device_rig_plugin()->read(parameter, 0, (count - 1) * sizeof value, &value,
                                               sizeof value, NULL),
                     PS_OK);
    return value;
}

/* Pushes ones to each of the parameters in one call; returns how many kernels that took. */
static uint64_t push_to(struct ps_device_parameter **parameters, const size_t *counts, size_t count)
{
    const struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    struct ps_device_push pushes[8];
    struct ps_bytes contents[8];
    struct ps_device_ticket ticket;
    struct ps_device_stats before;
    struct ps_device_stats after;
    ck_assert_int_eq(ps_optimizer_prepare(&device_rig_sgd, PS_F32, 1, 0, &scan, &step, NULL),
                     PS_OK);
    for (size_t i = 0; i < count; i++) {
        contents[i] = (struct ps_bytes){(const uint8_t *)ones, counts[i] * sizeof ones[0]};
        pushes[i] = (struct ps_device_push){
            .parameter = parameters[i], .gradient = ps_view_of(&contents[i]), .step = &step};
    }
    device_rig_plugin()->stats(opened, &before);
    ck_assert_int_eq(device_rig_plugin()->push(opened, pushes, count, &ticket, NULL), PS_OK);
    ck_assert_int_eq(device_rig_plugin()->wait(opened, ticket, NULL), PS_OK);
    device_rig_plugin()->stats(opened, &after);
    ck_assert_uint_eq(after.push_count - before.push_count, count);
    return after.launch_count - before.launch_count;
}

START_TEST(small_gradients_go_together_in_one_launch)
{
    const size_t counts[] = {1, 100, 3000, 7};
    struct ps_device_parameter *parameters[4];
    for (size_t i = 0; i < 4; i++)
        parameters[i] = zeros(counts[i]);

    ck_assert_uint_eq(push_to(parameters, counts, 4), 1);

    for (size_t i = 0; i < 4; i++) {
        ck_assert(last_of(parameters[i], counts[i]) == -1.0F);
        device_rig_plugin()->parameter_destroy(parameters[i]);
    }
}
END_TEST

/* One launch never has two gradients for one element. */
START_TEST(two_gradients_for_one_parameter_follow_each_other)
{
    const size_t counts[] = {100, 100, 100};
    struct ps_device_parameter *one = zeros(100);
    struct ps_device_parameter *parameters[] = {one, one, one};

    ck_assert_uint_eq(push_to(parameters, counts, 3), 3);

    ck_assert(last_of(one, 100) == -3.0F);
    device_rig_plugin()->parameter_destroy(one);
}
END_TEST

START_TEST(a_large_gradient_goes_in_parts_and_every_element_once)
{
    const size_t counts[] = {LARGE_COUNT};
    static float seen[LARGE_COUNT];
    struct ps_device_parameter *large = zeros(LARGE_COUNT);

    ck_assert_uint_eq(push_to(&large, counts, 1), 3);

    ck_assert_int_eq(device_rig_plugin()->read(large, 0, 0, seen, sizeof seen, NULL), PS_OK);
    for (size_t i = 0; i < LARGE_COUNT; i++)
        ck_assert(seen[i] == -1.0F);
    device_rig_plugin()->parameter_destroy(large);
}
END_TEST

START_TEST(what_no_longer_fits_begins_the_next_launch)
{
    const size_t counts[] = {16000, 16000};
    struct ps_device_parameter *parameters[] = {zeros(16000), zeros(16000)};

    ck_assert_uint_eq(push_to(parameters, counts, 2), 2);

    for (size_t i = 0; i < 2; i++) {
        ck_assert(last_of(parameters[i], 16000) == -1.0F);
        device_rig_plugin()->parameter_destroy(parameters[i]);
    }
}
END_TEST

START_TEST(nothing_at_all_is_a_push)
{
    ck_assert_uint_eq(push_to(NULL, NULL, 0), 0);
}
END_TEST

/* The probe launches one kernel; ours is the second. */
START_TEST(after_a_kernel_that_broke_nothing_is_acknowledged_any_more)
{
    struct ps_error error = {0};
    struct ps_device *device = NULL;
    int deaths = 0;
    ck_assert_int_eq(device_rig_open("launch:2:700", 0, &deaths, &device, &error), PS_OK);
    struct ps_device_parameter *parameter = device_rig_zeros(device);

    ck_assert_int_eq(device_rig_push_ones(device, parameter, 1, &error), PS_ERR_UNAVAILABLE);

    ck_assert_ptr_nonnull(strstr(error.text, "(700)"));
    ck_assert_int_eq(deaths, 1);
    ck_assert(device_rig_plugin()->dead(device, NULL));
    float value;
    struct ps_device_snapshot *snapshot = NULL;
    ck_assert_int_eq(device_rig_push_ones(device, parameter, 2, &error), PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(device_rig_plugin()->read(parameter, 0, 0, &value, sizeof value, &error),
                     PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(device_rig_plugin()->snapshot_reserve(parameter, &snapshot, &error),
                     PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(deaths, 1);
    device_rig_plugin()->parameter_destroy(parameter);
    device_rig_plugin()->close(device);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_push");
    TCase *tests = tcase_create("device_push");
    TCase *broken = tcase_create("broken");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, small_gradients_go_together_in_one_launch);
    tcase_add_test(tests, two_gradients_for_one_parameter_follow_each_other);
    tcase_add_test(tests, a_large_gradient_goes_in_parts_and_every_element_once);
    tcase_add_test(tests, what_no_longer_fits_begins_the_next_launch);
    tcase_add_test(tests, nothing_at_all_is_a_push);
    tcase_add_test(broken, after_a_kernel_that_broke_nothing_is_acknowledged_any_more);
    suite_add_tcase(suite, tests);
    suite_add_tcase(suite, broken);
    return run_suite(suite);
}
