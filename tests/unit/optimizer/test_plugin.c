/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/device/plugin.c: the one table that a plugin exports. */
#include "device_rig.h"
#include "optimizer/device/runtime.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

extern ps_device_entry_fn ps_device_entry;

START_TEST(another_abi_gets_no_table)
{
    ck_assert_ptr_null(ps_device_entry(PS_DEVICE_ABI + 1));
    ck_assert_ptr_nonnull(ps_device_entry(PS_DEVICE_ABI));
}
END_TEST

START_TEST(every_call_of_the_table_is_there)
{
    const struct ps_device_plugin *plugin = device_rig_plugin();
    const uint8_t *bytes = (const uint8_t *)&plugin->count;
    const uint8_t *end = (const uint8_t *)(plugin + 1);
    for (; bytes < end; bytes += sizeof(void (*)(void))) {
        static const uint8_t null[sizeof(void (*)(void))];
        ck_assert(memcmp(bytes, null, sizeof null) != 0);
    }
    ck_assert_uint_eq(plugin->abi, PS_DEVICE_ABI);
    ck_assert_str_eq(plugin->name, "emu");
}
END_TEST

START_TEST(devices_are_counted_and_none_is_said_in_words)
{
    struct ps_error error = {0};
    uint32_t count = 0;
    ck_assert_int_eq(device_rig_plugin()->count(&count, NULL), PS_OK);
    ck_assert_uint_eq(count, 1);
    (void)setenv("PS_EMULATOR_DEVICES", "0", 1);

    ck_assert_int_eq(device_rig_plugin()->count(&count, &error), PS_ERR_UNAVAILABLE);

    ck_assert_ptr_nonnull(strstr(error.text, "no visible device"));
}
END_TEST

START_TEST(numbers_follow_what_was_done)
{
    struct ps_device *device = NULL;
    struct ps_device_stats before;
    struct ps_device_stats after;
    int deaths = 0;
    float value = 0;
    ck_assert_int_eq(device_rig_open(NULL, 1 << 20, &deaths, &device, NULL), PS_OK);
    device_rig_plugin()->stats(device, &before);
    struct ps_device_parameter *parameter = device_rig_zeros(device);
    ck_assert_int_eq(device_rig_push_ones(device, parameter, 1, NULL), PS_OK);
    ck_assert_int_eq(device_rig_plugin()->read(parameter, 0, 0, &value, sizeof value, NULL), PS_OK);

    device_rig_plugin()->stats(device, &after);

    ck_assert_uint_eq(after.budget_bytes, 1 << 20);
    ck_assert_uint_eq(after.used_bytes, device_rig_plugin()->parameter_bytes(&device_rig_wish));
    ck_assert_uint_ge(after.used_bytes_max, after.used_bytes);
    ck_assert_uint_eq(after.parameter_count, 1);
    ck_assert_uint_eq(after.push_count - before.push_count, 1);
    ck_assert_uint_eq(after.launch_count - before.launch_count, 1);
    ck_assert_uint_eq(after.bytes_in - before.bytes_in, 2 * DEVICE_RIG_COUNT * sizeof value);
    ck_assert_uint_eq(after.bytes_out - before.bytes_out, sizeof value);
    device_rig_plugin()->parameter_destroy(parameter);
    device_rig_plugin()->close(device);
}
END_TEST

START_TEST(pinned_memory_is_counted_and_comes_back)
{
    struct ps_device *device = NULL;
    struct ps_device_stats stats;
    int deaths = 0;
    ck_assert_int_eq(device_rig_open(NULL, 1 << 20, &deaths, &device, NULL), PS_OK);
    device_rig_plugin()->stats(device, &stats);
    uint64_t ring = stats.pinned_bytes;

    void *memory = device_rig_plugin()->host_acquire(device, 12345);
    ck_assert_ptr_nonnull(memory);
    device_rig_plugin()->stats(device, &stats);
    ck_assert_uint_eq(stats.pinned_bytes, ring + 12345);
    device_rig_plugin()->host_release(device, memory, 12345);
    device_rig_plugin()->host_release(device, NULL, 0);

    device_rig_plugin()->stats(device, &stats);
    ck_assert_uint_eq(stats.pinned_bytes, ring);
    device_rig_plugin()->close(device);
}
END_TEST

/* Readers may hold such memory until after the device's end. */
START_TEST(a_dead_device_gives_no_pinned_memory_and_takes_it_back)
{
    struct ps_device *device = NULL;
    struct ps_error error = {0};
    int deaths = 0;
    ck_assert_int_eq(device_rig_open("launch:2:700", 0, &deaths, &device, NULL), PS_OK);
    void *memory = device_rig_plugin()->host_acquire(device, 4096);
    ck_assert_ptr_nonnull(memory);
    struct ps_device_parameter *parameter = device_rig_zeros(device);
    ck_assert_int_eq(device_rig_push_ones(device, parameter, 1, NULL), PS_ERR_UNAVAILABLE);

    ck_assert(device_rig_plugin()->dead(device, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "(700)"));
    ck_assert_ptr_null(device_rig_plugin()->host_acquire(device, 4096));

    device_rig_plugin()->host_release(device, memory, 4096);
    device_rig_plugin()->parameter_destroy(parameter);
    device_rig_plugin()->close(device);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plugin");
    TCase *tests = tcase_create("plugin");
    tcase_add_test(tests, another_abi_gets_no_table);
    tcase_add_test(tests, every_call_of_the_table_is_there);
    tcase_add_test(tests, devices_are_counted_and_none_is_said_in_words);
    tcase_add_test(tests, numbers_follow_what_was_done);
    tcase_add_test(tests, pinned_memory_is_counted_and_comes_back);
    tcase_add_test(tests, a_dead_device_gives_no_pinned_memory_and_takes_it_back);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
