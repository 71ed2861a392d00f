/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/device/device_rows.c: rows of a table on a device beside the same rows on the CPU. */
#include "base/random.h"
#include "optimizer/device/runtime.h"
#include "optimizer/emulator/emulator.h"
#include "optimizer/row_wise.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 700
#define WIDTH_MAX 300
#define BODY_MAX (3 * (WIDTH_MAX + 4))

extern ps_device_entry_fn ps_device_entry;

static const struct ps_device_plugin *plugin;
static struct ps_device *device;

/* A ring of 128 KiB has slots of 64 KiB: a push of a few hundred rows takes several. */
static void open_device(uint64_t budget)
{
    const struct ps_device_options options = {
        .memory_bytes = budget, .pinned_bytes = 128u << 10, .memory = ps_allocator_heap()};
    plugin = ps_device_entry(PS_DEVICE_ABI);
    ck_assert_int_eq(plugin->open(&options, &device, NULL), PS_OK);
}

struct rig {
    struct ps_optimizer_settings settings;
    struct ps_device_body body;
    struct ps_device_rows *rows;
    uint32_t width;
    uint64_t count;
    struct ps_random random;
    float bodies[ROWS][BODY_MAX]; /* as they should be */
};

static float random_float(struct rig *rig)
{
    return (float)((double)ps_random_below(&rig->random, 4001) / 1000 - 2);
}

static void write_rows(struct rig *rig, uint64_t first, uint64_t end)
{
    size_t stride = rig->body.stride / sizeof(float);
    uint64_t numbers[ROWS];
    float *content = calloc((end - first) * stride, sizeof *content);
    /* The last one first: numbers come in any order. */
    for (uint64_t i = 0; i < end - first; i++) {
        numbers[i] = end - 1 - i;
        for (size_t k = 0; k < stride; k++)
            rig->bodies[numbers[i]][k] = content[i * stride + k] = random_float(rig) + 3;
    }
    ck_assert_int_eq(plugin->rows_write(rig->rows, numbers, end - first, content, NULL), PS_OK);
    free(content);
}

static void begin(struct rig *rig, enum ps_rule rule, uint32_t width, bool row_wise)
{
    memset(rig, 0, sizeof *rig);
    rig->settings = (struct ps_optimizer_settings){
        .rule = rule, .learning_rate.rate = 0.1, .adagrad_row_wise = row_wise};
    if (rule == PS_RULE_ADAM)
        rig->settings.beta_1 = 0.9, rig->settings.beta_2 = 0.999;
    if (rule != PS_RULE_SGD)
        rig->settings.epsilon = 1e-8;
    rig->settings.table.width = width;
    rig->width = width;
    rig->count = ROWS / 2;
    ps_random_init(&rig->random, 5);
    const struct ps_device_rows_wish wish = {
        .settings = &rig->settings, .dtype = PS_F32, .width = width};
    struct ps_error error = {0};
    ck_assert_msg(plugin->rows_support(&wish, &rig->body, &error) == PS_OK, "%s", error.text);
    ck_assert_msg(plugin->rows_create(device, &wish, rig->count, &rig->rows, &error) == PS_OK, "%s",
                  error.text);
    write_rows(rig, 0, rig->count);
}

/* What the rule does to one row, by the loops of the CPU. */
static void step_row(struct rig *rig, const struct ps_optimizer_step *step, uint64_t number,
                     const float *gradient)
{
    uint8_t *body = (uint8_t *)rig->bodies[number];
    void *states[PS_STATES_MAX] = {body + rig->body.offsets[1], body + rig->body.offsets[2]};
    if (rig->settings.adagrad_row_wise)
        ps_optimizer_row_wise(step, rig->width, body, states[0], gradient);
    else
        ps_optimizer_apply(step, 0, rig->width, body, states, gradient);
}

static void push(struct rig *rig, uint64_t number, uint64_t stride)
{
    const struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    struct ps_device_ticket ticket;
    uint64_t numbers[ROWS];
    size_t count = 0;
    float *gradients = calloc(ROWS * rig->width, sizeof *gradients);
    ck_assert_int_eq(ps_optimizer_prepare(&rig->settings, PS_F32, number, 77, &scan, &step, NULL),
                     PS_OK);
    for (uint64_t i = number % 3; i < rig->count; i += stride) {
        numbers[count] = rig->count - 1 - i;
        for (uint32_t k = 0; k < rig->width; k++)
            gradients[count * rig->width + k] = random_float(rig);
        step_row(rig, &step, numbers[count], gradients + count * rig->width);
        count++;
    }
    ck_assert_int_eq(plugin->rows_push(rig->rows, numbers, count, gradients, &step, &ticket, NULL),
                     PS_OK);
    free(gradients);
    ck_assert_int_eq(plugin->wait(device, ticket, NULL), PS_OK);
}

/* Every array of every row, each in readings of as many rows as go into one. */
static void compare(struct rig *rig)
{
    for (uint32_t array = 0; array < rig->body.array_count; array++) {
        size_t size = rig->body.sizes[array];
        for (uint64_t done = 0; done < rig->count;) {
            struct ps_device_rows_reading reading = {0};
            const uint8_t *pieces = NULL;
            uint64_t numbers[ROWS];
            size_t most = plugin->rows_read_max(rig->rows, size);
            size_t some = rig->count - done < most ? rig->count - done : most;
            for (size_t i = 0; i < some; i++)
                numbers[i] = done + i;
            ck_assert_int_eq(plugin->rows_read_begin(rig->rows, numbers, some,
                                                     rig->body.offsets[array], size, &reading,
                                                     NULL),
                             PS_OK);
            ck_assert_int_eq(plugin->rows_read_end(&reading, &pieces, NULL), PS_OK);
            for (size_t i = 0; i < some; i++)
                if (memcmp(pieces + i * size,
                           (uint8_t *)rig->bodies[done + i] + rig->body.offsets[array], size) != 0)
                    ck_abort_msg("array %u of row %zu is another one", array, (size_t)done + i);
            plugin->rows_read_release(&reading);
            done += some;
        }
    }
}

/* All rows, some, one; then more of them. */
static void train(enum ps_rule rule, uint32_t width, bool row_wise)
{
    struct rig *rig = malloc(sizeof *rig);
    begin(rig, rule, width, row_wise);
    push(rig, 1, 1);
    push(rig, 2, 7);
    push(rig, 3, ROWS);
    compare(rig);
    ck_assert_int_eq(plugin->rows_grow(rig->rows, ROWS, NULL), PS_OK);
    uint64_t before = rig->count;
    rig->count = ROWS;
    write_rows(rig, before, ROWS);
    push(rig, 4, 2);
    compare(rig);
    plugin->rows_destroy(rig->rows);
    free(rig);
}

static const uint32_t widths[] = {1, 3, 4, 8, 16, 33, 64, 129, WIDTH_MAX};
#define WIDTHS ((int)(sizeof widths / sizeof widths[0]))

START_TEST(rows_get_the_bits_of_the_cpu)
{
    open_device(16u << 20);
    train(PS_RULE_SGD, widths[_i], false);
    train(PS_RULE_ADAGRAD, widths[_i], false);
    train(PS_RULE_ADAM, widths[_i], false);
    train(PS_RULE_ADAGRAD, widths[_i], true);
    plugin->close(device);
}
END_TEST

START_TEST(what_the_budget_has_no_room_for_is_refused_and_changes_nothing)
{
    struct ps_device_stats stats;
    struct ps_error error = {0};
    struct rig *rig = malloc(sizeof *rig);
    open_device(128u << 10);
    begin(rig, PS_RULE_SGD, 64, false);
    push(rig, 1, 1);
    ck_assert_int_eq(plugin->rows_grow(rig->rows, ROWS, &error), PS_ERR_BUSY);
    ck_assert_ptr_nonnull(strstr(error.text, "budget"));
    plugin->stats(device, &stats);
    ck_assert_uint_eq(stats.used_bytes, rig->count * rig->body.stride);
    push(rig, 2, 1);
    compare(rig);
    plugin->rows_destroy(rig->rows);
    plugin->stats(device, &stats);
    ck_assert_uint_eq(stats.used_bytes, 0);
    plugin->close(device);
    free(rig);
}
END_TEST

START_TEST(rows_that_no_device_has_are_refused_with_a_reason)
{
    struct ps_optimizer_settings settings = {.rule = PS_RULE_ADD};
    struct ps_device_rows_wish wish = {.settings = &settings, .dtype = PS_I64, .width = 1};
    struct ps_device_rows *rows = NULL;
    struct ps_error error = {0};
    open_device(16u << 20);
    settings.table.width = 1;
    ck_assert_int_eq(plugin->rows_support(&wish, NULL, &error), PS_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "whole numbers"));
    /* A body that is longer than a slot of the ring. */
    settings = (struct ps_optimizer_settings){.rule = PS_RULE_SGD, .learning_rate.rate = 1};
    wish = (struct ps_device_rows_wish){.settings = &settings, .dtype = PS_F64, .width = 4096 * 4};
    ck_assert_int_eq(plugin->rows_create(device, &wish, 1, &rows, &error), PS_ERR_UNSUPPORTED);
    ck_assert_ptr_null(rows);
    plugin->close(device);
}
END_TEST

START_TEST(a_kernel_that_breaks_is_the_end_of_all_calls)
{
    const struct ps_emulator_fault fault = {.launch_at = 1, .launch_code = 700};
    struct ps_device_rows_reading reading = {0};
    const uint8_t *pieces = NULL;
    const uint64_t numbers[] = {0};
    struct rig *rig = malloc(sizeof *rig);
    open_device(16u << 20);
    begin(rig, PS_RULE_SGD, 16, false);
    compare(rig);
    ps_emulator_arm(device->calls.real.self, &fault);
    ck_assert_int_eq(plugin->rows_read_begin(rig->rows, numbers, 1, 0, 64, &reading, NULL), PS_OK);
    ck_assert_int_eq(plugin->rows_read_end(&reading, &pieces, NULL), PS_ERR_UNAVAILABLE);
    plugin->rows_read_release(&reading);
    ck_assert_int_eq(plugin->rows_write(rig->rows, numbers, 1, rig->bodies[0], NULL),
                     PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(plugin->rows_grow(rig->rows, ROWS, NULL), PS_ERR_UNAVAILABLE);
    plugin->rows_destroy(rig->rows);
    plugin->close(device);
    free(rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_rows");
    TCase *tests = tcase_create("device_rows");
    tcase_add_loop_test(tests, rows_get_the_bits_of_the_cpu, 0, WIDTHS);
    tcase_add_test(tests, what_the_budget_has_no_room_for_is_refused_and_changes_nothing);
    tcase_add_test(tests, rows_that_no_device_has_are_refused_with_a_reason);
    tcase_add_test(tests, a_kernel_that_breaks_is_the_end_of_all_calls);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
