/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/device/device_snapshot.c where the device has no room for a copy: the parameter is lent
 * to the snapshot until somebody brings it to the host. */
#include "base/thread.h"
#include "optimizer/device.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

#define COUNT 50003 /* several slots of the ring */
#define SIZE (COUNT * sizeof(float))
#define BUDGET (300u << 10) /* has room for one */
#define READERS 3

extern ps_device_entry_fn ps_device_entry;

static const struct ps_optimizer_settings sgd = {.rule = PS_RULE_SGD,
                                                 .learning_rate = {.rate = 1.0}};
static float elements[COUNT];

static const struct ps_device_plugin *plugin;
static struct ps_device *device;
static struct ps_device_parameter *parameter;
static uint64_t pushes; /* every element is minus that */

static void begin(const char *fail)
{
    const struct ps_device_options options = {
        .memory_bytes = BUDGET, .pinned_bytes = 256u << 10, .memory = ps_allocator_heap()};
    const struct ps_device_parameter_wish wish = {
        .settings = &sgd, .dtype = PS_F32, .count = COUNT};
    const struct ps_bytes zeros = {(const uint8_t *)elements, SIZE};
    if (fail != NULL)
        (void)setenv("PS_EMULATOR_FAIL", fail, 1);
    plugin = ps_device_entry(PS_DEVICE_ABI);
    ck_assert_int_eq(plugin->open(&options, &device, NULL), PS_OK);
    ck_assert_int_eq(plugin->parameter_create(device, &wish, &parameter, NULL), PS_OK);
    ck_assert_int_eq(plugin->write(parameter, 0, 0, ps_view_of(&zeros), NULL), PS_OK);
    for (size_t i = 0; i < COUNT; i++)
        elements[i] = 1;
    pushes = 0;
}

static void end(void)
{
    plugin->parameter_destroy(parameter);
    plugin->close(device);
}

static enum ps_status push(size_t count)
{
    const struct ps_bytes ones = {(const uint8_t *)elements, count * sizeof elements[0]};
    const struct ps_gradient_scan nothing = {0};
    struct ps_optimizer_step step;
    struct ps_device_ticket ticket;
    PS_TRY(ps_optimizer_prepare(&sgd, PS_F32, ++pushes, 0, &nothing, &step, NULL));
    const struct ps_device_push one = {
        .parameter = parameter, .gradient = ps_view_of(&ones), .step = &step};
    PS_TRY(plugin->push(device, &one, 1, &ticket, NULL));
    return plugin->wait(device, ticket, NULL);
}

static struct ps_device_snapshot *take(void)
{
    struct ps_device_snapshot *snapshot = NULL;
    ck_assert_int_eq(plugin->snapshot_reserve(parameter, &snapshot, NULL), PS_OK);
    ck_assert_int_eq(plugin->snapshot_take(parameter, snapshot, NULL), PS_OK);
    return snapshot;
}

static void expect_part(struct ps_device_snapshot *snapshot, size_t first, size_t count,
                        uint64_t version)
{
    float *seen = malloc(SIZE);
    ck_assert_int_eq(
        plugin->snapshot_read(snapshot, 0, first * sizeof *seen, seen, count * sizeof *seen, NULL),
        PS_OK);
    for (size_t i = 0; i < count; i++)
        ck_assert_float_eq(seen[i], -(float)version);
    free(seen);
}

static uint64_t bytes_out(void)
{
    struct ps_device_stats stats;
    plugin->stats(device, &stats);
    ck_assert_uint_gt(stats.streamed_count, 0);
    return stats.bytes_out;
}

START_TEST(pushes_go_through_while_it_is_read_and_it_shows_one_instant)
{
    begin(NULL);
    ck_assert_int_eq(push(COUNT), PS_OK);
    struct ps_device_snapshot *snapshot = take();

    expect_part(snapshot, 0, COUNT / 2, 1);
    ck_assert_int_eq(push(COUNT), PS_OK);
    expect_part(snapshot, COUNT / 2, COUNT - COUNT / 2, 1);
    ck_assert_int_eq(push(COUNT), PS_OK);
    expect_part(snapshot, 0, COUNT, 1);

    plugin->snapshot_release(snapshot);
    end();
}
END_TEST

START_TEST(to_take_it_moves_nothing_and_the_first_push_moves_it_once)
{
    begin(NULL);
    ck_assert_int_eq(push(COUNT), PS_OK);
    struct ps_device_snapshot *snapshot = take();
    uint64_t before = bytes_out();

    ck_assert_int_eq(plugin->make_way(parameter, NULL), PS_OK);
    uint64_t moved = bytes_out() - before;
    ck_assert_int_eq(push(COUNT), PS_OK);
    ck_assert_int_eq(push(COUNT), PS_OK);
    expect_part(snapshot, 0, COUNT, 1);

    ck_assert_uint_ge(moved, SIZE);
    ck_assert_uint_eq(bytes_out() - before, moved);
    plugin->snapshot_release(snapshot);
    end();
}
END_TEST

START_TEST(what_nobody_reads_or_pushes_to_never_moves)
{
    begin(NULL);
    struct ps_device_snapshot *snapshot = take();
    uint64_t before = bytes_out();

    plugin->snapshot_release(snapshot);
    ck_assert_int_eq(push(COUNT), PS_OK);

    ck_assert_uint_eq(bytes_out(), before);
    end();
}
END_TEST

/* _i: which of them ends first. */
START_TEST(snapshots_of_several_instants_are_each_one)
{
    struct ps_device_snapshot *snapshots[3];
    begin(NULL);
    snapshots[0] = take();
    snapshots[1] = take();
    ck_assert_int_eq(push(COUNT), PS_OK);
    snapshots[2] = take();
    plugin->snapshot_release(snapshots[_i]);
    ck_assert_int_eq(push(COUNT), PS_OK);

    for (int i = 0; i < 3; i++)
        if (i != _i)
            expect_part(snapshots[i], 0, COUNT, i == 2 ? 1 : 0);

    for (int i = 0; i < 3; i++)
        if (i != _i)
            plugin->snapshot_release(snapshots[i]);
    end();
}
END_TEST

START_TEST(it_outlives_its_parameter)
{
    begin(NULL);
    ck_assert_int_eq(push(COUNT), PS_OK);
    struct ps_device_snapshot *snapshot = take();

    plugin->parameter_destroy(parameter);

    expect_part(snapshot, 0, COUNT, 1);
    plugin->snapshot_release(snapshot);
    plugin->close(device);
}
END_TEST

/* The probe launches one kernel; the second is that of a push to another parameter. _i: the first
 * one ends before its snapshot. */
START_TEST(of_a_dead_device_nothing_is_read)
{
    float seen;
    const struct ps_device_parameter_wish wish = {.settings = &sgd, .dtype = PS_F32, .count = 1};
    begin("launch:2:700");
    struct ps_device_parameter *first = parameter;
    struct ps_device_snapshot *snapshot = take();
    ck_assert_int_eq(plugin->parameter_create(device, &wish, &parameter, NULL), PS_OK);
    ck_assert_int_eq(push(1), PS_ERR_UNAVAILABLE);
    if (_i == 1)
        plugin->parameter_destroy(first);

    ck_assert_int_eq(plugin->snapshot_read(snapshot, 0, 0, &seen, sizeof seen, NULL),
                     PS_ERR_UNAVAILABLE);

    plugin->snapshot_release(snapshot);
    if (_i == 0)
        plugin->parameter_destroy(first);
    end();
}
END_TEST

/* ---- Several threads ---- */

static void read_all(void *argument)
{
    expect_part(argument, 0, COUNT, 1);
}

START_TEST(readers_and_pushes_bring_each_one_once)
{
    struct ps_thread readers[READERS] = {0};
    struct ps_device_snapshot *snapshots[READERS];
    begin(NULL);
    ck_assert_int_eq(push(COUNT), PS_OK);
    for (size_t i = 0; i < READERS; i++)
        snapshots[i] = take();
    uint64_t before = bytes_out();

    for (size_t i = 0; i < READERS; i++)
        ck_assert_int_eq(ps_thread_start(&readers[i], "reader", read_all, snapshots[i], NULL),
                         PS_OK);
    ck_assert_int_eq(push(COUNT), PS_OK);
    for (size_t i = 0; i < READERS; i++) {
        ps_thread_join(&readers[i]);
        plugin->snapshot_release(snapshots[i]);
    }

    ck_assert_uint_lt(bytes_out() - before, READERS * (SIZE + 4096));
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_snapshot");
    TCase *tests = tcase_create("device_snapshot");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, pushes_go_through_while_it_is_read_and_it_shows_one_instant);
    tcase_add_test(tests, to_take_it_moves_nothing_and_the_first_push_moves_it_once);
    tcase_add_test(tests, what_nobody_reads_or_pushes_to_never_moves);
    tcase_add_loop_test(tests, snapshots_of_several_instants_are_each_one, 0, 3);
    tcase_add_test(tests, it_outlives_its_parameter);
    tcase_add_loop_test(tests, of_a_dead_device_nothing_is_read, 0, 2);
    tcase_add_test(tests, readers_and_pushes_bring_each_one_once);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
