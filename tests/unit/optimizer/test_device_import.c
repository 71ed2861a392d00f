/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/device/device_import.c: gradients that another process has on the device. */
#include "device_rig.h"
#include "expect_each.h"
#include "lender.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <string.h>

/* More than the ring holds, so that no gradient of it could be judged there, with an odd end. */
#define COUNT (3u * 1024 * 1024 + 5)
#define BYTES (COUNT * sizeof(float))

static struct ps_device *opened;
static struct ps_device_parameter *parameter;
static struct lender lender;
static uint8_t *memory;
static float values[COUNT];

static const struct ps_optimizer_settings clipped = {
    .rule = PS_RULE_SGD, .learning_rate = {.rate = 1.0}, .clip_norm = 1000.0};

static void set_up(void)
{
    const struct ps_device_options options = {.pinned_bytes = 8u << 20,
                                              .memory = ps_allocator_heap()};
    const struct ps_device_parameter_wish wish = {
        .settings = &device_rig_sgd, .dtype = PS_F32, .count = COUNT};
    const struct ps_bytes content = {(const uint8_t *)values, BYTES};
    lender_begin(&lender, COUNT);
    const struct ps_device_plugin *plugin = device_rig_plugin();
    ck_assert_int_eq(plugin->open(&options, &opened, NULL), PS_OK);
    ck_assert_int_eq(plugin->parameter_create(opened, &wish, &parameter, NULL), PS_OK);
    memset(values, 0, sizeof values);
    ck_assert_int_eq(plugin->write(parameter, 0, 0, ps_view_of(&content), NULL), PS_OK);
    ck_assert_int_eq(plugin->import(opened, &lender.share, &memory, NULL), PS_OK);
}

static void tear_down(void)
{
    const struct ps_device_plugin *plugin = device_rig_plugin();
    if (memory != NULL)
        plugin->unimport(opened, memory);
    plugin->parameter_destroy(parameter);
    plugin->close(opened);
    lender_end(&lender);
}

static struct ps_device_stats stats(void)
{
    struct ps_device_stats now;
    device_rig_plugin()->stats(opened, &now);
    return now;
}

static void lend(float scale)
{
    for (size_t i = 0; i < COUNT; i++)
        lender.window[i] = scale * (float)(i % 1000);
    lender_store(&lender);
}

static void expect_ramp(float slope)
{
    ck_assert_int_eq(device_rig_plugin()->read(parameter, 0, 0, values, BYTES, NULL), PS_OK);
    expect_each(i, COUNT, values[i] == slope * (float)(i % 1000));
}

static struct ps_device_ticket push(void)
{
    const struct ps_gradient_scan scan = {0};
    const struct ps_bytes content = {memory, BYTES};
    struct ps_optimizer_step step;
    struct ps_device_ticket ticket;
    ck_assert_int_eq(ps_optimizer_prepare(&device_rig_sgd, PS_F32, 1, 0, &scan, &step, NULL),
                     PS_OK);
    const struct ps_device_push one = {
        .parameter = parameter, .gradient = ps_view_of(&content), .step = &step};
    ck_assert_int_eq(device_rig_plugin()->push(opened, &one, 1, &ticket, NULL), PS_OK);
    return ticket;
}

START_TEST(a_gradient_is_applied_from_where_it_is_in_one_launch_and_no_copy)
{
    lend(-2);
    struct ps_device_stats before = stats();

    ck_assert_int_eq(device_rig_plugin()->wait(opened, push(), NULL), PS_OK);

    struct ps_device_stats after = stats();
    ck_assert_uint_eq(after.in_place_bytes - before.in_place_bytes, BYTES);
    ck_assert_uint_eq(after.launch_count - before.launch_count, 1);
    ck_assert_uint_eq(after.copy_count, before.copy_count);
    ck_assert_uint_eq(after.bytes_in, before.bytes_in);
    expect_ramp(2);
}
END_TEST

static struct ps_device_judged *judge(const struct ps_optimizer_settings *settings,
                                      struct ps_gradient_scan *scan)
{
    const struct ps_bytes content = {memory, BYTES};
    struct ps_device_judged *judged = NULL;
    const struct ps_device_plugin *plugin = device_rig_plugin();
    ck_assert(plugin->judges(parameter, ps_view_of(&content), PS_ENCODING_NATIVE));
    ck_assert_int_eq(plugin->judge(parameter, settings, ps_view_of(&content), PS_ENCODING_NATIVE,
                                   &judged, scan, NULL),
                     PS_OK);
    return judged;
}

START_TEST(a_gradient_of_any_size_is_judged_where_it_is)
{
    struct ps_gradient_scan scan, on_host = {0};
    struct ps_optimizer_step step, as_on_host;
    struct ps_device_ticket ticket;
    const struct ps_device_plugin *plugin = device_rig_plugin();
    lend(-3);
    ps_optimizer_scan(&clipped, PS_F32, lender.window, COUNT, &on_host);

    struct ps_device_judged *judged = judge(&clipped, &scan);

    ck_assert(!scan.nonfinite);
    ck_assert_int_eq(ps_optimizer_prepare(&clipped, PS_F32, 1, 0, &scan, &step, NULL), PS_OK);
    ck_assert_int_eq(ps_optimizer_prepare(&clipped, PS_F32, 1, 0, &on_host, &as_on_host, NULL),
                     PS_OK);
    ck_assert_float_lt(step.f32.scale, 1);
    ck_assert(memcmp(&step.f32.scale, &as_on_host.f32.scale, sizeof(float)) == 0);
    const struct ps_gradient_scan plain = {0};
    ck_assert_int_eq(ps_optimizer_prepare(&device_rig_sgd, PS_F32, 1, 0, &plain, &step, NULL),
                     PS_OK);
    ck_assert_int_eq(plugin->push_judged(judged, &step, &ticket, NULL), PS_OK);
    plugin->judged_release(judged);
    ck_assert_int_eq(plugin->wait(opened, ticket, NULL), PS_OK);
    expect_ramp(3);
}
END_TEST

START_TEST(what_is_not_finite_is_found_where_it_is)
{
    struct ps_gradient_scan scan;
    lend(1);
    lender.window[COUNT - 1] = INFINITY;
    lender.window[COUNT - 7] = NAN;
    lender_store(&lender);

    struct ps_device_judged *judged = judge(&device_rig_sgd, &scan);

    ck_assert(scan.nonfinite);
    ck_assert_uint_eq(scan.nonfinite_index, COUNT - 7);
    device_rig_plugin()->judged_release(judged);
    expect_ramp(0);
}
END_TEST

/* The ring's slots are used by other gradients between a look and its update. */
START_TEST(looks_in_place_and_gradients_of_the_host_take_turns_in_the_ring)
{
    static float ones[COUNT];
    const struct ps_bytes host = {(const uint8_t *)ones, BYTES};
    const struct ps_gradient_scan plain = {0};
    struct ps_gradient_scan scan;
    struct ps_optimizer_step step;
    struct ps_device_ticket ticket = {0};
    const struct ps_device_plugin *plugin = device_rig_plugin();
    for (size_t i = 0; i < COUNT; i++)
        ones[i] = -(float)(i % 1000);
    lend(-1);
    ck_assert_int_eq(ps_optimizer_prepare(&device_rig_sgd, PS_F32, 1, 0, &plain, &step, NULL),
                     PS_OK);
    const struct ps_device_push one = {
        .parameter = parameter, .gradient = ps_view_of(&host), .step = &step};
    for (int turn = 0; turn < 10; turn++) {
        ck_assert_int_eq(plugin->push(opened, &one, 1, &ticket, NULL), PS_OK);
        struct ps_device_judged *judged = judge(&clipped, &scan);
        ck_assert_int_eq(plugin->push_judged(judged, &step, &ticket, NULL), PS_OK);
        plugin->judged_release(judged);
    }
    ck_assert_int_eq(plugin->wait(opened, ticket, NULL), PS_OK);
    expect_ramp(20);
}
END_TEST

START_TEST(memory_is_let_go_of_behind_the_updates_that_read_it)
{
    lend(-5);
    struct ps_device_ticket ticket = push();

    device_rig_plugin()->unimport(opened, memory);
    memory = NULL;

    ck_assert_int_eq(device_rig_plugin()->wait(opened, ticket, NULL), PS_OK);
    expect_ramp(5);
}
END_TEST

START_TEST(values_are_copied_to_another_process_between_two_updates)
{
    struct ps_device_ticket copied;
    lend(-1);
    (void)push();

    /* The gradient's own place: the update has read it by then. */
    ck_assert_int_eq(device_rig_plugin()->copy_out(parameter, 0, 0, memory, BYTES, &copied, NULL),
                     PS_OK);
    ck_assert_int_eq(device_rig_plugin()->wait(opened, copied, NULL), PS_OK);

    lender_load(&lender);
    expect_each(i, COUNT, lender.window[i] == (float)(i % 1000));
}
END_TEST

START_TEST(the_host_reads_and_writes_it_through_the_device)
{
    const struct ps_bytes content = {(const uint8_t *)values, BYTES};
    const struct ps_device_plugin *plugin = device_rig_plugin();
    lend(4);
    ck_assert_int_eq(plugin->import_read(opened, values, memory, BYTES, NULL), PS_OK);
    ck_assert_mem_eq(values, lender.window, BYTES);
    for (size_t i = 0; i < COUNT; i++)
        values[i] += 1;
    ck_assert_int_eq(plugin->import_write(opened, memory, ps_view_of(&content), NULL), PS_OK);
    lender_load(&lender);
    ck_assert_mem_eq(values, lender.window, BYTES);
}
END_TEST

START_TEST(wrong_pieces_are_refused_and_the_device_lives)
{
    const struct ps_device_plugin *plugin = device_rig_plugin();
    struct ps_device_share wrong = lender.share;
    struct ps_error error = {0};
    uint8_t *none = NULL;
    (void)strcpy(wrong.device, "GPU-of-somebody-else");
    ck_assert_int_eq(plugin->import(opened, &wrong, &none, &error), PS_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "GPU-of-somebody-else"));
    memset(wrong.device, 'x', sizeof wrong.device);
    ck_assert_int_eq(plugin->import(opened, &wrong, &none, &error), PS_ERR_UNSUPPORTED);
    wrong = lender.share;
    wrong.handle[0] ^= 1;
    ck_assert_int_eq(plugin->import(opened, &wrong, &none, &error), PS_ERR_BAD_INPUT);
    wrong = lender.share;
    wrong.bytes = UINT64_C(1) << 40;
    ck_assert_int_eq(plugin->import(opened, &wrong, &none, &error), PS_ERR_BAD_INPUT);
    wrong.bytes = 0;
    ck_assert_int_eq(plugin->import(opened, &wrong, &none, &error), PS_ERR_BAD_INPUT);
    ck_assert_ptr_null(none);
    ck_assert(!plugin->dead(opened, NULL));
}
END_TEST

START_TEST(more_pieces_than_there_is_room_for_are_refused)
{
    static uint8_t *all[1024];
    const struct ps_device_plugin *plugin = device_rig_plugin();
    uint8_t *none = NULL;
    struct ps_error error = {0};
    for (size_t i = 1; i < 1024; i++)
        ck_assert_int_eq(plugin->import(opened, &lender.share, &all[i], NULL), PS_OK);
    ck_assert_int_eq(plugin->import(opened, &lender.share, &none, &error), PS_ERR_BUSY);
    for (size_t i = 1; i < 1024; i++)
        plugin->unimport(opened, all[i]);
    ck_assert_int_eq(plugin->import(opened, &lender.share, &all[1], NULL), PS_OK);
    plugin->unimport(opened, all[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_import");
    TCase *tests = tcase_create("device_import");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_gradient_is_applied_from_where_it_is_in_one_launch_and_no_copy);
    tcase_add_test(tests, a_gradient_of_any_size_is_judged_where_it_is);
    tcase_add_test(tests, what_is_not_finite_is_found_where_it_is);
    tcase_add_test(tests, looks_in_place_and_gradients_of_the_host_take_turns_in_the_ring);
    tcase_add_test(tests, memory_is_let_go_of_behind_the_updates_that_read_it);
    tcase_add_test(tests, values_are_copied_to_another_process_between_two_updates);
    tcase_add_test(tests, the_host_reads_and_writes_it_through_the_device);
    tcase_add_test(tests, wrong_pieces_are_refused_and_the_device_lives);
    tcase_add_test(tests, more_pieces_than_there_is_room_for_are_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
