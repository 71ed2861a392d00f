/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/device/device_memory.c: memory that was given back and is kept. */
#include "optimizer/device/runtime.h"
#include "optimizer/emulator/emulator.h"
#include "run_suite.h"

#include <check.h>

#define BUDGET (256u << 10)

extern ps_device_entry_fn ps_device_entry;

static const struct ps_optimizer_settings sgd = {.rule = PS_RULE_SGD,
                                                 .learning_rate = {.rate = 1.0}};
static const struct ps_device_plugin *plugin;
static struct ps_device *device;
static uint64_t bytes_before;  /* of the device, that are not for parameters */
static uint64_t pieces_before; /* asked for until then */

static uint64_t pieces(void)
{
    return ps_emulator_memory_count(device->calls.real.self) - pieces_before;
}

static uint64_t bytes(void)
{
    return ps_emulator_memory_used(device->calls.real.self) - bytes_before;
}

static void begin(void)
{
    const struct ps_device_options options = {
        .memory_bytes = BUDGET, .pinned_bytes = 128u << 10, .memory = ps_allocator_heap()};
    plugin = ps_device_entry(PS_DEVICE_ABI);
    ck_assert_int_eq(plugin->open(&options, &device, NULL), PS_OK);
    ps_device_free_kept(device);
    bytes_before = ps_emulator_memory_used(device->calls.real.self);
    pieces_before = ps_emulator_memory_count(device->calls.real.self);
}

static enum ps_status create(uint64_t size, struct ps_device_parameter **parameter)
{
    const struct ps_device_parameter_wish wish = {
        .settings = &sgd, .dtype = PS_F32, .count = size / sizeof(float)};
    return plugin->parameter_create(device, &wish, parameter, NULL);
}

static void create_and_end(uint64_t size)
{
    struct ps_device_parameter *parameter = NULL;
    ck_assert_int_eq(create(size, &parameter), PS_OK);
    plugin->parameter_destroy(parameter);
}

START_TEST(what_is_given_back_is_used_by_the_next_of_its_size)
{
    struct ps_device_stats stats;
    begin();

    for (int i = 0; i < 5; i++)
        create_and_end(64u << 10);

    ck_assert_uint_eq(pieces(), 1);
    ck_assert_uint_eq(bytes(), 64u << 10);
    plugin->stats(device, &stats);
    ck_assert_uint_eq(stats.used_bytes, 0);
    plugin->close(device);
}
END_TEST

START_TEST(snapshots_one_after_another_take_one_piece)
{
    struct ps_device_parameter *parameter = NULL;
    begin();
    ck_assert_int_eq(create(64u << 10, &parameter), PS_OK);

    for (int i = 0; i < 5; i++) {
        struct ps_device_snapshot *snapshot = NULL;
        ck_assert_int_eq(plugin->snapshot_reserve(parameter, &snapshot, NULL), PS_OK);
        ck_assert_int_eq(plugin->snapshot_take(parameter, snapshot, NULL), PS_OK);
        plugin->snapshot_release(snapshot);
    }

    ck_assert_uint_eq(pieces(), 2);
    plugin->parameter_destroy(parameter);
    plugin->close(device);
}
END_TEST

/* What is kept and what is used are never more than the budget together. */
START_TEST(what_is_kept_goes_where_the_budget_needs_it)
{
    struct ps_device_parameter *parameter = NULL;
    begin();
    for (uint64_t size = 32u << 10; size <= 96u << 10; size += 32u << 10)
        create_and_end(size);
    ck_assert_uint_eq(bytes(), 192u << 10);

    ck_assert_int_eq(create(160u << 10, &parameter), PS_OK);

    ck_assert_uint_le(bytes(), BUDGET);
    ck_assert_uint_eq(bytes(), (160u << 10) + (96u << 10));
    create_and_end(96u << 10);
    ck_assert_uint_eq(pieces(), 4);
    plugin->parameter_destroy(parameter);
    plugin->close(device);
}
END_TEST

START_TEST(what_is_kept_is_given_back_before_a_device_refuses)
{
    const struct ps_emulator_fault fault = {.memory_at = 1};
    struct ps_device_parameter *parameter = NULL;
    begin();
    create_and_end(32u << 10);
    ps_emulator_arm(device->calls.real.self, &fault);

    ck_assert_int_eq(create(64u << 10, &parameter), PS_OK);

    ck_assert_uint_eq(bytes(), 64u << 10);
    plugin->parameter_destroy(parameter);
    plugin->close(device);
}
END_TEST

START_TEST(no_more_pieces_are_kept_than_there_is_room_for)
{
    static struct ps_device_parameter *parameters[PS_KEPT_MAX + 5];
    begin();
    for (size_t i = 0; i < PS_KEPT_MAX + 5; i++)
        ck_assert_int_eq(create(PS_DEVICE_ALIGNMENT, &parameters[i]), PS_OK);

    for (size_t i = 0; i < PS_KEPT_MAX + 5; i++)
        plugin->parameter_destroy(parameters[i]);

    ck_assert_uint_eq(bytes(), (uint64_t)PS_KEPT_MAX * PS_DEVICE_ALIGNMENT);
    plugin->close(device);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_memory");
    TCase *tests = tcase_create("device_memory");
    tcase_add_test(tests, what_is_given_back_is_used_by_the_next_of_its_size);
    tcase_add_test(tests, snapshots_one_after_another_take_one_piece);
    tcase_add_test(tests, what_is_kept_goes_where_the_budget_needs_it);
    tcase_add_test(tests, what_is_kept_is_given_back_before_a_device_refuses);
    tcase_add_test(tests, no_more_pieces_are_kept_than_there_is_room_for);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
