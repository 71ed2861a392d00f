/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/device/device_parameter.c: parameters in the device's memory. */
#include "device_rig.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(a_parameter_beyond_the_budget_is_refused_with_numbers_and_nothing_changes)
{
    struct ps_error error = {0};
    struct ps_device *device = NULL;
    int deaths = 0;
    struct ps_device_parameter *parameter = NULL;
    ck_assert_int_eq(device_rig_open(NULL, 128 << 10, &deaths, &device, &error), PS_OK);
    const struct ps_device_parameter_wish large = {
        .settings = &device_rig_sgd, .dtype = PS_F32, .count = 1 << 20};

    ck_assert_int_eq(device_rig_plugin()->parameter_create(device, &large, &parameter, &error),
                     PS_ERR_BUSY);

    ck_assert_ptr_nonnull(strstr(error.text, "4194304 bytes needed"));
    ck_assert_uint_eq(device_rig_used(device), 0);
    ck_assert(!device_rig_plugin()->dead(device, NULL));
    parameter = device_rig_zeros(device);
    ck_assert_int_eq(device_rig_push_ones(device, parameter, 1, &error), PS_OK);
    device_rig_plugin()->parameter_destroy(parameter);
    device_rig_plugin()->close(device);
}
END_TEST

START_TEST(overflow_fail_stays_with_the_cpu)
{
    const struct ps_optimizer_settings careful = {.rule = PS_RULE_ADD,
                                                  .overflow = PS_OVERFLOW_FAIL};
    const struct ps_device_parameter_wish counter = {
        .settings = &careful, .dtype = PS_I64, .count = 3};
    ck_assert_int_eq(device_rig_plugin()->supports(&counter, NULL), PS_ERR_UNSUPPORTED);
    ck_assert_int_eq(device_rig_plugin()->supports(&device_rig_wish, NULL), PS_OK);
}
END_TEST

START_TEST(values_and_states_take_whole_lines_each)
{
    const struct ps_optimizer_settings adam = {.rule = PS_RULE_ADAM,
                                               .learning_rate = {.rate = 1.0}};
    const struct ps_device_parameter_wish one = {.settings = &adam, .dtype = PS_F32, .count = 1};

    ck_assert_uint_eq(device_rig_plugin()->parameter_bytes(&one), 3 * 256);
    ck_assert_uint_eq(device_rig_plugin()->parameter_bytes(&device_rig_wish),
                      (DEVICE_RIG_COUNT * sizeof(float) + 255) / 256 * 256);
}
END_TEST

START_TEST(more_elements_than_can_be_counted_are_refused)
{
    const struct ps_device_parameter_wish endless = {
        .settings = &device_rig_sgd, .dtype = PS_F32, .count = UINT64_MAX / 4};

    ck_assert_int_eq(device_rig_plugin()->supports(&endless, NULL), PS_ERR_UNSUPPORTED);
}
END_TEST

/* The emulator's memory is full of garbage when it is given out. */
START_TEST(states_begin_where_their_rule_has_them_begin)
{
    const struct ps_optimizer_settings adagrad = {.rule = PS_RULE_ADAGRAD,
                                                  .learning_rate = {.rate = 1.0},
                                                  .epsilon = 1e-8,
                                                  .initial_accumulator = 0.5};
    const struct ps_device_parameter_wish wish = {
        .settings = &adagrad, .dtype = PS_F32, .count = DEVICE_RIG_COUNT};
    static float seen[DEVICE_RIG_COUNT];
    struct ps_device *device = NULL;
    struct ps_device_parameter *parameter = NULL;
    int deaths = 0;
    ck_assert_int_eq(device_rig_open(NULL, 0, &deaths, &device, NULL), PS_OK);
    ck_assert_int_eq(device_rig_plugin()->parameter_create(device, &wish, &parameter, NULL), PS_OK);

    ck_assert_int_eq(device_rig_plugin()->read(parameter, 1, 0, seen, sizeof seen, NULL), PS_OK);

    for (size_t i = 0; i < DEVICE_RIG_COUNT; i++)
        ck_assert(seen[i] == 0.5F);
    device_rig_plugin()->parameter_destroy(parameter);
    device_rig_plugin()->close(device);
}
END_TEST

START_TEST(a_dead_device_takes_no_parameter_and_lets_go_of_those_it_has)
{
    struct ps_device *device = NULL;
    struct ps_device_parameter *second = NULL;
    int deaths = 0;
    ck_assert_int_eq(device_rig_open("launch:2:700", 0, &deaths, &device, NULL), PS_OK);
    struct ps_device_parameter *parameter = device_rig_zeros(device);
    ck_assert_int_eq(device_rig_push_ones(device, parameter, 1, NULL), PS_ERR_UNAVAILABLE);

    ck_assert_int_eq(device_rig_plugin()->parameter_create(device, &device_rig_wish, &second, NULL),
                     PS_ERR_UNAVAILABLE);

    ck_assert_ptr_null(second);
    device_rig_plugin()->parameter_destroy(parameter);
    device_rig_plugin()->parameter_destroy(NULL);
    ck_assert_uint_eq(device_rig_used(device), 0);
    device_rig_plugin()->close(device);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_parameter");
    TCase *tests = tcase_create("device_parameter");
    tcase_add_test(tests,
                   a_parameter_beyond_the_budget_is_refused_with_numbers_and_nothing_changes);
    tcase_add_test(tests, overflow_fail_stays_with_the_cpu);
    tcase_add_test(tests, values_and_states_take_whole_lines_each);
    tcase_add_test(tests, more_elements_than_can_be_counted_are_refused);
    tcase_add_test(tests, states_begin_where_their_rule_has_them_begin);
    tcase_add_test(tests, a_dead_device_takes_no_parameter_and_lets_go_of_those_it_has);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
