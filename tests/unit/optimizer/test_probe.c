/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/device/probe.c: a device is tried before anything is entrusted to it. */
#include "device_rig.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(a_device_that_computes_nonsense_is_not_opened)
{
    struct ps_error error = {0};
    struct ps_device *device = NULL;
    int deaths = 0;
    ck_assert_int_eq(device_rig_open("launch:1:719", 0, &deaths, &device, &error),
                     PS_ERR_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(error.text, "(719)"));
}
END_TEST

START_TEST(a_device_that_computes_is_left_as_it_was_found)
{
    struct ps_device *device = NULL;
    int deaths = 0;
    struct ps_device_stats stats;
    ck_assert_int_eq(device_rig_open(NULL, 0, &deaths, &device, NULL), PS_OK);

    device_rig_plugin()->stats(device, &stats);

    ck_assert_uint_eq(stats.used_bytes, 0);
    ck_assert_uint_gt(stats.used_bytes_max, 0);
    ck_assert_uint_eq(stats.parameter_count, 0);
    ck_assert_uint_eq(stats.push_count, 1);
    ck_assert_int_eq(deaths, 0);
    device_rig_plugin()->close(device);
}
END_TEST

/* Values and two states of 10,007 floats, each in whole lines of 256 bytes. */
START_TEST(a_device_without_room_for_the_trial_is_not_opened)
{
    const uint64_t needed = 3 * ((10007 * 4 + 255) / 256 * 256);
    struct ps_device *device = NULL;
    struct ps_error error = {0};
    int deaths = 0;

    ck_assert_int_eq(device_rig_open(NULL, needed - 1, &deaths, &device, &error), PS_ERR_BUSY);

    ck_assert_ptr_null(device);
    ck_assert_ptr_nonnull(strstr(error.text, "bytes needed"));
    ck_assert_int_eq(device_rig_open(NULL, needed, &deaths, &device, &error), PS_OK);
    device_rig_plugin()->close(device);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("probe");
    TCase *tests = tcase_create("probe");
    tcase_add_test(tests, a_device_that_computes_nonsense_is_not_opened);
    tcase_add_test(tests, a_device_that_computes_is_left_as_it_was_found);
    tcase_add_test(tests, a_device_without_room_for_the_trial_is_not_opened);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
