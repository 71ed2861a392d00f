/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/device/driver_calls.c: how often the device is spoken to for a push of each kind. These
 * are the numbers of docs/gpu.md, "What a push asks of the driver". */
#include "device_rig.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

/* The ring has slots of 64 KiB. */
#define SLOT_FLOATS 16384
#define SMALL_FLOATS 1024

static struct ps_device *opened;
static float ones[4 * SLOT_FLOATS];

struct calls {
    uint64_t kernels, copies, orders, waits;
};

static void set_up(void)
{
    static int deaths;
    ck_assert_int_eq(device_rig_open(NULL, 0, &deaths, &opened, NULL), PS_OK);
    for (size_t i = 0; i < sizeof ones / sizeof ones[0]; i++)
        ones[i] = 1.0F;
}

static void tear_down(void)
{
    device_rig_plugin()->close(opened);
}

static struct calls calls_now(void)
{
    struct ps_device_stats stats;
    device_rig_plugin()->stats(opened, &stats);
    return (struct calls){stats.kernel_count, stats.copy_count, stats.order_count,
                          stats.wait_count};
}

static void expect(struct calls before, struct calls expected)
{
    struct calls now = calls_now();
    ck_assert_uint_eq(now.kernels - before.kernels, expected.kernels);
    ck_assert_uint_eq(now.copies - before.copies, expected.copies);
    ck_assert_uint_eq(now.orders - before.orders, expected.orders);
    ck_assert_uint_eq(now.waits - before.waits, expected.waits);
}

static struct ps_device_parameter *parameter_of(size_t count)
{
    const struct ps_device_parameter_wish wish = {
        .settings = &device_rig_sgd, .dtype = PS_F32, .count = count};
    struct ps_device_parameter *parameter = NULL;
    ck_assert_int_eq(device_rig_plugin()->parameter_create(opened, &wish, &parameter, NULL), PS_OK);
    return parameter;
}

static struct ps_optimizer_step step_one(void)
{
    const struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    ck_assert_int_eq(ps_optimizer_prepare(&device_rig_sgd, PS_F32, 1, 0, &scan, &step, NULL),
                     PS_OK);
    return step;
}

/* One message with `each` elements for each of the parameters, and its acknowledgement. */
static struct calls push(struct ps_device_parameter **parameters, size_t count, size_t each)
{
    const struct ps_optimizer_step step = step_one();
    const struct ps_bytes content = {(const uint8_t *)ones, each * sizeof ones[0]};
    struct ps_device_push *pushes = calloc(count, sizeof *pushes);
    struct ps_device_ticket ticket;
    for (size_t i = 0; i < count; i++)
        pushes[i] = (struct ps_device_push){
            .parameter = parameters[i], .gradient = ps_view_of(&content), .step = &step};
    struct calls before = calls_now();
    ck_assert_int_eq(device_rig_plugin()->push(opened, pushes, count, &ticket, NULL), PS_OK);
    ck_assert_int_eq(device_rig_plugin()->wait(opened, ticket, NULL), PS_OK);
    free(pushes);
    return before;
}

START_TEST(one_gradient_in_one_slot)
{
    struct ps_device_parameter *parameter = parameter_of(SLOT_FLOATS);

    struct calls before = push(&parameter, 1, SLOT_FLOATS);

    expect(before, (struct calls){.kernels = 1, .copies = 1, .orders = 2, .waits = 2});
    device_rig_plugin()->parameter_destroy(parameter);
}
END_TEST

START_TEST(one_gradient_in_four_slots)
{
    struct ps_device_parameter *parameter = parameter_of(4 * SLOT_FLOATS);

    struct calls before = push(&parameter, 1, 4 * SLOT_FLOATS);

    expect(before, (struct calls){.kernels = 4, .copies = 4, .orders = 8, .waits = 5});
    device_rig_plugin()->parameter_destroy(parameter);
}
END_TEST

START_TEST(sixteen_small_gradients_in_one_message)
{
    struct ps_device_parameter *parameters[16];
    for (size_t i = 0; i < 16; i++)
        parameters[i] = parameter_of(SMALL_FLOATS);

    struct calls before = push(parameters, 16, SMALL_FLOATS);

    /* The second copy is the table. */
    expect(before, (struct calls){.kernels = 1, .copies = 2, .orders = 2, .waits = 2});
    for (size_t i = 0; i < 16; i++)
        device_rig_plugin()->parameter_destroy(parameters[i]);
}
END_TEST

START_TEST(a_gradient_that_the_device_looks_at)
{
    const struct ps_device_plugin *plugin = device_rig_plugin();
    struct ps_device_parameter *parameter = parameter_of(SLOT_FLOATS);
    const struct ps_optimizer_step step = step_one();
    const struct ps_bytes content = {(const uint8_t *)ones, SLOT_FLOATS * sizeof ones[0]};
    struct ps_device_judged *judged = NULL;
    struct ps_gradient_scan scan;
    struct ps_device_ticket ticket;
    struct calls before = calls_now();

    ck_assert(plugin->judges(parameter, ps_view_of(&content), PS_ENCODING_NATIVE));
    ck_assert_int_eq(plugin->judge(parameter, &device_rig_sgd, ps_view_of(&content),
                                   PS_ENCODING_NATIVE, &judged, &scan, NULL),
                     PS_OK);
    ck_assert_int_eq(plugin->push_judged(judged, &step, &ticket, NULL), PS_OK);
    ck_assert_int_eq(plugin->wait(opened, ticket, NULL), PS_OK);

    /* A verdict is opened, the gradient scanned, and judged; the verdict comes back. */
    expect(before, (struct calls){.kernels = 4, .copies = 2, .orders = 2, .waits = 3});
    plugin->judged_release(judged);
    plugin->parameter_destroy(parameter);
}
END_TEST

START_TEST(a_pull)
{
    const struct ps_device_plugin *plugin = device_rig_plugin();
    struct ps_device_parameter *parameter = parameter_of(SLOT_FLOATS);
    const size_t size = SLOT_FLOATS * sizeof ones[0];
    uint8_t *room = plugin->host_acquire(opened, size);
    const struct ps_bytes piece = {room, size};
    struct ps_device_ticket ticket;
    (void)push(&parameter, 1, SLOT_FLOATS);
    struct calls before = calls_now();

    ck_assert_int_eq(plugin->read_begin(parameter, 0, 0, &piece, 1, &ticket, NULL), PS_OK);
    ck_assert_int_eq(plugin->wait(opened, ticket, NULL), PS_OK);

    expect(before, (struct calls){.kernels = 0, .copies = 1, .orders = 1, .waits = 1});
    plugin->host_release(opened, room, size);
    plugin->parameter_destroy(parameter);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("driver_calls");
    TCase *tests = tcase_create("driver_calls");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, one_gradient_in_one_slot);
    tcase_add_test(tests, one_gradient_in_four_slots);
    tcase_add_test(tests, sixteen_small_gradients_in_one_message);
    tcase_add_test(tests, a_gradient_that_the_device_looks_at);
    tcase_add_test(tests, a_pull);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
