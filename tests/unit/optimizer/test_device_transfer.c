/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/device/device_transfer.c: copies by way of the pinned slots. */
#include "device_rig.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* Six slots of 64 KiB and a bit. */
#define LARGE_COUNT 100003

static struct ps_device *device;
static struct ps_device_parameter *parameter;
static float written[LARGE_COUNT];
static float seen[LARGE_COUNT];

static void set_up(void)
{
    static int deaths;
    const struct ps_device_parameter_wish wish = {
        .settings = &device_rig_sgd, .dtype = PS_F32, .count = LARGE_COUNT};
    ck_assert_int_eq(device_rig_open(NULL, 0, &deaths, &device, NULL), PS_OK);
    ck_assert_int_eq(device_rig_plugin()->parameter_create(device, &wish, &parameter, NULL), PS_OK);
    for (size_t i = 0; i < LARGE_COUNT; i++)
        written[i] = (float)i;
}

static void tear_down(void)
{
    device_rig_plugin()->parameter_destroy(parameter);
    device_rig_plugin()->close(device);
}

static void write_at(size_t first, const void *bytes, size_t size)
{
    const struct ps_bytes piece = {bytes, size};
    ck_assert_int_eq(device_rig_plugin()->write(parameter, 0, first * sizeof written[0],
                                                ps_view_of(&piece), NULL),
                     PS_OK);
}

START_TEST(what_is_written_through_many_slots_comes_back)
{
    write_at(0, written, sizeof written);

    ck_assert_int_eq(device_rig_plugin()->read(parameter, 0, 0, seen, sizeof seen, NULL), PS_OK);

    ck_assert_mem_eq(seen, written, sizeof written);
}
END_TEST

START_TEST(a_part_is_written_and_read_where_it_belongs)
{
    const size_t firsts[] = {0, 1, 16383, 16384, 99999};
    write_at(0, written, sizeof written);
    for (size_t i = 0; i < PS_ARRAY_COUNT(firsts); i++) {
        const float other[] = {-1.0F, -2.0F, -3.0F};
        float around[5];
        size_t first = firsts[i];
        write_at(first, other, sizeof other);

        size_t from = first > 0 ? first - 1 : first;
        size_t count = first > 0 ? 5 : 4;
        ck_assert_int_eq(device_rig_plugin()->read(parameter, 0, from * sizeof around[0], around,
                                                   count * sizeof around[0], NULL),
                         PS_OK);

        ck_assert_mem_eq(&around[first - from], other, sizeof other);
        ck_assert(first == 0 || around[0] == written[first - 1]);
        ck_assert(around[count - 1] == written[first + 3]);
        write_at(first, &written[first], sizeof other);
    }
}
END_TEST

START_TEST(content_in_pieces_is_written_as_one)
{
    struct ps_bytes pieces[] = {{(const uint8_t *)written, 4},
                                {(const uint8_t *)written + 4, 70001},
                                {(const uint8_t *)written + 70005, 0},
                                {(const uint8_t *)written + 70005, sizeof written - 70005}};
    const struct ps_view view = {pieces, PS_ARRAY_COUNT(pieces), sizeof written};

    ck_assert_int_eq(device_rig_plugin()->write(parameter, 0, 0, view, NULL), PS_OK);

    ck_assert_int_eq(device_rig_plugin()->read(parameter, 0, 0, seen, sizeof seen, NULL), PS_OK);
    ck_assert_mem_eq(seen, written, sizeof written);
}
END_TEST

START_TEST(nothing_is_written_and_read_without_a_slot)
{
    struct ps_device_stats before;
    struct ps_device_stats after;
    device_rig_plugin()->stats(device, &before);

    write_at(0, written, 0);
    ck_assert_int_eq(device_rig_plugin()->read(parameter, 0, 0, seen, 0, NULL), PS_OK);

    device_rig_plugin()->stats(device, &after);
    ck_assert_uint_eq(after.bytes_in, before.bytes_in);
    ck_assert_uint_eq(after.bytes_out, before.bytes_out);
}
END_TEST

START_TEST(a_read_sees_every_push_before_it)
{
    const struct ps_gradient_scan scan = {0};
    const struct ps_bytes gradient = {(const uint8_t *)written, sizeof written};
    struct ps_optimizer_step step;
    struct ps_device_ticket ticket;
    memset(seen, 0, sizeof seen);
    write_at(0, seen, sizeof seen);
    ck_assert_int_eq(ps_optimizer_prepare(&device_rig_sgd, PS_F32, 1, 0, &scan, &step, NULL),
                     PS_OK);
    const struct ps_device_push push = {
        .parameter = parameter, .gradient = ps_view_of(&gradient), .step = &step};
    ck_assert_int_eq(device_rig_plugin()->push(device, &push, 1, &ticket, NULL), PS_OK);

    ck_assert_int_eq(device_rig_plugin()->read(parameter, 0, 0, seen, sizeof seen, NULL), PS_OK);

    for (size_t i = 0; i < LARGE_COUNT; i++)
        ck_assert(seen[i] == -written[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_transfer");
    TCase *tests = tcase_create("device_transfer");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, what_is_written_through_many_slots_comes_back);
    tcase_add_test(tests, a_part_is_written_and_read_where_it_belongs);
    tcase_add_test(tests, content_in_pieces_is_written_as_one);
    tcase_add_test(tests, nothing_is_written_and_read_without_a_slot);
    tcase_add_test(tests, a_read_sees_every_push_before_it);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
