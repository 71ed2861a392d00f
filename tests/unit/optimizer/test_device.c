/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's table over the emulator: memory that is refused, and snapshots. */
#include "device_rig.h"
#include "run_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* So many more parameters, and 128 KiB have no room for the copy of one. */
#define FILLING 5

/* Opening asks for a few pieces, the probe's parameter for one, ours for the last. When that is
 * refused the probe's is given back, and it is asked for again. */
START_TEST(any_refused_piece_of_memory_leaves_the_accounting_as_it_was)
{
    char fail[32];
    struct ps_error error = {0};
    struct ps_device *device = NULL;
    struct ps_device_parameter *parameter = NULL;
    int deaths = 0;
    (void)snprintf(fail, sizeof fail, "memory:%d", _i + 1);

    enum ps_status status = device_rig_open(fail, 0, &deaths, &device, &error);
    if (status == PS_OK) {
        status =
            device_rig_plugin()->parameter_create(device, &device_rig_wish, &parameter, &error);
        ck_assert_uint_eq(device_rig_used(device),
                          status == PS_OK ? device_rig_plugin()->parameter_bytes(&device_rig_wish)
                                          : 0);
        device_rig_plugin()->parameter_destroy(parameter);
        ck_assert_uint_eq(device_rig_used(device), 0);
        device_rig_plugin()->close(device);
    }

    ck_assert_int_eq(status, _i < 3 ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert_int_eq(deaths, 0);
}
END_TEST

/* _i 0: the copy stays on the device; 1: there is no room for it. */
START_TEST(a_snapshot_is_one_moment_whatever_is_pushed_afterwards)
{
    struct ps_error error = {0};
    struct ps_device *device = NULL;
    struct ps_device_snapshot *snapshot = NULL;
    struct ps_device_stats stats;
    int deaths = 0;
    float now = 0;
    float then = 0;
    size_t last = (DEVICE_RIG_COUNT - 1) * sizeof now;
    uint64_t budget = _i == 0 ? 1 << 20 : 128 << 10;
    ck_assert_int_eq(device_rig_open(NULL, budget, &deaths, &device, &error), PS_OK);
    struct ps_device_parameter *parameter = device_rig_zeros(device);
    struct ps_device_parameter *others[FILLING];
    for (size_t i = 0; i < FILLING; i++)
        others[i] = device_rig_zeros(device);
    ck_assert_int_eq(device_rig_plugin()->snapshot_reserve(parameter, &snapshot, &error), PS_OK);
    uint64_t reserved = device_rig_used(device);
    ck_assert_int_eq(device_rig_push_ones(device, parameter, 1, &error), PS_OK);

    ck_assert_int_eq(device_rig_plugin()->snapshot_take(parameter, snapshot, &error), PS_OK);
    ck_assert_int_eq(device_rig_push_ones(device, parameter, 2, &error), PS_OK);
    ck_assert_uint_eq(device_rig_used(device), reserved);

    ck_assert_int_eq(
        device_rig_plugin()->snapshot_read(snapshot, 0, last, &then, sizeof then, &error), PS_OK);
    ck_assert_int_eq(device_rig_plugin()->read(parameter, 0, last, &now, sizeof now, &error),
                     PS_OK);
    ck_assert(then == -1.0F && now == -2.0F);
    device_rig_plugin()->stats(device, &stats);
    ck_assert_uint_eq(stats.streamed_count, (uint64_t)_i);
    for (size_t i = 0; i < FILLING; i++)
        device_rig_plugin()->parameter_destroy(others[i]);
    device_rig_plugin()->parameter_destroy(parameter);
    device_rig_plugin()->snapshot_release(snapshot);
    ck_assert_uint_eq(device_rig_used(device), 0);
    device_rig_plugin()->close(device);
}
END_TEST

START_TEST(a_snapshot_that_is_never_taken_gives_its_memory_back)
{
    struct ps_error error = {0};
    struct ps_device *device = NULL;
    struct ps_device_snapshot *snapshot = NULL;
    int deaths = 0;
    ck_assert_int_eq(device_rig_open(NULL, 1 << 20, &deaths, &device, &error), PS_OK);
    struct ps_device_parameter *parameter = device_rig_zeros(device);
    uint64_t before = device_rig_used(device);
    ck_assert_int_eq(device_rig_plugin()->snapshot_reserve(parameter, &snapshot, &error), PS_OK);
    ck_assert_uint_eq(device_rig_used(device),
                      before + device_rig_plugin()->parameter_bytes(&device_rig_wish));

    device_rig_plugin()->snapshot_release(snapshot);

    ck_assert_uint_eq(device_rig_used(device), before);
    device_rig_plugin()->parameter_destroy(parameter);
    device_rig_plugin()->close(device);
}
END_TEST

/* The copy was promised; it is the device that does not live to make it. */
START_TEST(a_snapshot_of_a_dead_device_is_not_taken)
{
    struct ps_error error = {0};
    struct ps_device *device = NULL;
    struct ps_device_snapshot *snapshot = NULL;
    int deaths = 0;
    ck_assert_int_eq(device_rig_open("launch:2:700", 0, &deaths, &device, &error), PS_OK);
    struct ps_device_parameter *parameter = device_rig_zeros(device);
    ck_assert_int_eq(device_rig_plugin()->snapshot_reserve(parameter, &snapshot, &error), PS_OK);
    ck_assert_int_eq(device_rig_push_ones(device, parameter, 1, &error), PS_ERR_UNAVAILABLE);

    ck_assert_int_eq(device_rig_plugin()->snapshot_take(parameter, snapshot, &error),
                     PS_ERR_UNAVAILABLE);

    device_rig_plugin()->snapshot_release(snapshot);
    device_rig_plugin()->parameter_destroy(parameter);
    device_rig_plugin()->close(device);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device");
    TCase *device = tcase_create("device");
    tcase_add_loop_test(device, any_refused_piece_of_memory_leaves_the_accounting_as_it_was, 0, 5);
    tcase_add_loop_test(device, a_snapshot_is_one_moment_whatever_is_pushed_afterwards, 0, 2);
    tcase_add_test(device, a_snapshot_that_is_never_taken_gives_its_memory_back);
    tcase_add_test(device, a_snapshot_of_a_dead_device_is_not_taken);
    suite_add_tcase(suite, device);
    return run_suite(suite);
}
