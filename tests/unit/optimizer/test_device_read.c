/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/device/device_read.c: reads that are on their way, and what is written meanwhile. */
#include "optimizer/device/runtime.h"
#include "optimizer/emulator/emulator.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>

/* Four slots of 64 KiB; a read of all is cut in three. */
#define RING_BYTES (256u << 10)
#define COUNT 40000
#define PIECE 1000
#define PIECES (COUNT / PIECE)

extern ps_device_entry_fn ps_device_entry;

static const struct ps_device_plugin *plugin;
static struct ps_device *device;
static struct ps_device_parameter *parameter;
static float *pinned;
static float values[COUNT];

static void write_values(size_t first, size_t count, float base)
{
    for (size_t i = first; i < first + count; i++)
        values[i] = base + (float)i;
    const struct ps_bytes content = {(const uint8_t *)&values[first], count * sizeof(float)};
    ck_assert_int_eq(plugin->write(parameter, 0, first * sizeof(float), ps_view_of(&content), NULL),
                     PS_OK);
}

static void begin(void)
{
    static const struct ps_optimizer_settings sgd = {.rule = PS_RULE_SGD,
                                                     .learning_rate = {.rate = 1.0}};
    const struct ps_device_parameter_wish wish = {
        .settings = &sgd, .dtype = PS_F32, .count = COUNT};
    const struct ps_device_options options = {.pinned_bytes = RING_BYTES,
                                              .memory = ps_allocator_heap()};
    plugin = ps_device_entry(PS_DEVICE_ABI);
    ck_assert_int_eq(plugin->open(&options, &device, NULL), PS_OK);
    ck_assert_int_eq(plugin->parameter_create(device, &wish, &parameter, NULL), PS_OK);
    pinned = plugin->host_acquire(device, 2 * sizeof values);
    ck_assert_ptr_nonnull(pinned);
    write_values(0, COUNT, 1);
}

static void end(void)
{
    plugin->parameter_destroy(parameter);
    plugin->host_release(device, pinned, 2 * sizeof values);
    plugin->close(device);
}

static struct ps_device_ticket read_piece(size_t first, size_t count, float *to)
{
    struct ps_device_ticket ticket = {0};
    const struct ps_bytes piece = {(const uint8_t *)to, count * sizeof(float)};
    ck_assert_int_eq(
        plugin->read_begin(parameter, 0, first * sizeof(float), &piece, 1, &ticket, NULL), PS_OK);
    return ticket;
}

/* `gap` elements between one piece and the next on the host. */
static struct ps_device_ticket read_all(size_t gap)
{
    struct ps_device_ticket ticket = {0};
    struct ps_bytes pieces[PIECES];
    for (size_t i = 0; i < PIECES; i++)
        pieces[i] =
            (struct ps_bytes){(const uint8_t *)&pinned[i * (PIECE + gap)], PIECE * sizeof(float)};
    ck_assert_int_eq(plugin->read_begin(parameter, 0, 0, pieces, PIECES, &ticket, NULL), PS_OK);
    return ticket;
}

START_TEST(a_write_waits_for_reads_of_its_own_elements_alone)
{
    static float before[COUNT];
    begin();
    memcpy(before, values, sizeof values);
    struct ps_device_ticket ticket = read_all(0);
    ck_assert_uint_eq(parameter->reading_count, 3);

    write_values(10, 5, -1);
    ck_assert_uint_eq(parameter->reading_count, 2);
    write_values(11, 5, -1);
    ck_assert_uint_eq(parameter->reading_count, 2);
    write_values(COUNT - 5, 5, -1);
    ck_assert_uint_eq(parameter->reading_count, 0);

    ck_assert_int_eq(plugin->wait(device, ticket, NULL), PS_OK);
    ck_assert_mem_eq(pinned, before, sizeof before);
    ck_assert_int_eq(plugin->read(parameter, 0, 0, before, sizeof before, NULL), PS_OK);
    ck_assert_mem_eq(before, values, sizeof values);
    end();
}
END_TEST

START_TEST(pieces_that_lie_one_behind_the_other_come_in_one_copy_for_each_part)
{
    begin();
    uint64_t copies = ps_emulator_copy_count(device->calls.real.self);

    struct ps_device_ticket ticket = read_all(0);

    ck_assert_uint_eq(ps_emulator_copy_count(device->calls.real.self) - copies, 3);
    ck_assert_int_eq(plugin->wait(device, ticket, NULL), PS_OK);
    ck_assert_mem_eq(pinned, values, sizeof values);
    end();
}
END_TEST

START_TEST(pieces_with_something_between_them_come_each_by_itself)
{
    begin();
    uint64_t copies = ps_emulator_copy_count(device->calls.real.self);

    struct ps_device_ticket ticket = read_all(7);

    ck_assert_uint_eq(ps_emulator_copy_count(device->calls.real.self) - copies, PIECES);
    ck_assert_int_eq(plugin->wait(device, ticket, NULL), PS_OK);
    for (size_t i = 0; i < PIECES; i++)
        ck_assert_mem_eq(&pinned[i * (PIECE + 7)], &values[i * PIECE], PIECE * sizeof(float));
    end();
}
END_TEST

START_TEST(of_more_reads_than_are_told_apart_none_is_written_over)
{
    static float before[COUNT];
    struct ps_device_ticket ticket = {0};
    begin();
    memcpy(before, values, sizeof values);
    for (size_t i = 0; i < PS_READINGS_MAX + 3; i++)
        ticket = read_piece(i, 1, &pinned[i]);

    write_values(0, COUNT, -1);

    ck_assert_uint_eq(parameter->reading_count, 0);
    ck_assert_int_eq(plugin->wait(device, ticket, NULL), PS_OK);
    ck_assert_mem_eq(pinned, before, (PS_READINGS_MAX + 3) * sizeof(float));
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_read");
    TCase *tests = tcase_create("device_read");
    tcase_add_test(tests, a_write_waits_for_reads_of_its_own_elements_alone);
    tcase_add_test(tests, pieces_that_lie_one_behind_the_other_come_in_one_copy_for_each_part);
    tcase_add_test(tests, pieces_with_something_between_them_come_each_by_itself);
    tcase_add_test(tests, of_more_reads_than_are_told_apart_none_is_written_over);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
