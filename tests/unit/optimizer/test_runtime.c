/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/device/runtime.c: opening and closing a device, its errors, its tickets. */
#include "device_rig.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(a_device_that_is_not_there_is_not_found)
{
    const struct ps_device_options options = {.ordinal = 7, .memory = ps_allocator_heap()};
    struct ps_device *device = NULL;
    ck_assert_int_eq(device_rig_plugin()->open(&options, &device, NULL), PS_ERR_NOT_FOUND);
}
END_TEST

START_TEST(a_budget_beyond_the_free_memory_is_refused_with_both_numbers)
{
    struct ps_device *device = NULL;
    struct ps_error error = {0};
    int deaths = 0;
    (void)setenv("PS_EMULATOR_MEMORY", "100000000", 1);

    ck_assert_int_eq(device_rig_open(NULL, 200000000, &deaths, &device, &error), PS_ERR_BUSY);

    ck_assert_ptr_nonnull(strstr(error.text, "200000000 bytes was asked for"));
    ck_assert_ptr_null(device);
}
END_TEST

START_TEST(the_facts_say_what_opening_took)
{
    struct ps_device *device = NULL;
    struct ps_device_facts facts;
    int deaths = 0;
    ck_assert_int_eq(device_rig_open(NULL, 3 << 20, &deaths, &device, NULL), PS_OK);

    device_rig_plugin()->facts(device, &facts);

    ck_assert_uint_eq(facts.budget_bytes, 3 << 20);
    ck_assert_uint_ge(facts.context_bytes, 128 << 10);
    ck_assert_uint_lt(facts.context_bytes, 3 * (128 << 10));
    ck_assert_uint_ge(facts.capability_major, 8);
    device_rig_plugin()->close(device);
}
END_TEST

START_TEST(any_refused_allocation_of_the_host_leaves_nothing)
{
    struct fault_heap heap = {.refuse_at = _i};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    const struct ps_device_options options = {.pinned_bytes = 128u << 10, .memory = &memory};
    struct ps_device *device = NULL;

    enum ps_status status = device_rig_plugin()->open(&options, &device, NULL);

    if (status == PS_OK)
        device_rig_plugin()->close(device);
    else
        ck_assert_ptr_null(device);
    ck_assert_int_eq(status == PS_OK, heap.seen <= _i);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(a_ticket_of_nothing_is_done)
{
    struct ps_device *device = NULL;
    int deaths = 0;
    ck_assert_int_eq(device_rig_open(NULL, 0, &deaths, &device, NULL), PS_OK);

    ck_assert_int_eq(device_rig_plugin()->wait(device, (struct ps_device_ticket){0}, NULL), PS_OK);

    device_rig_plugin()->close(device);
}
END_TEST

/* More records than are told apart: an old ticket waits for a newer record, which is as good. */
START_TEST(a_ticket_that_many_others_have_followed_is_done)
{
    struct ps_device *device = NULL;
    int deaths = 0;
    ck_assert_int_eq(device_rig_open(NULL, 0, &deaths, &device, NULL), PS_OK);
    struct ps_device_parameter *parameter = device_rig_zeros(device);
    for (uint64_t step = 1; step <= 300; step++)
        ck_assert_int_eq(device_rig_push_ones(device, parameter, step, NULL), PS_OK);

    ck_assert_int_eq(
        device_rig_plugin()->wait(device, (struct ps_device_ticket){.compute = 1}, NULL), PS_OK);

    float value = 0;
    ck_assert_int_eq(device_rig_plugin()->read(parameter, 0, 0, &value, sizeof value, NULL), PS_OK);
    ck_assert(value == -300.0F);
    device_rig_plugin()->parameter_destroy(parameter);
    device_rig_plugin()->close(device);
}
END_TEST

/* What goes wrong while opening is the caller's to hear, and no death. */
START_TEST(a_device_that_breaks_while_it_is_opened_tells_the_caller_alone)
{
    struct ps_device *device = NULL;
    struct ps_error error = {0};
    int deaths = 0;

    ck_assert_int_eq(device_rig_open("launch:1:700", 0, &deaths, &device, &error),
                     PS_ERR_UNAVAILABLE);

    ck_assert_int_eq(deaths, 0);
    ck_assert_ptr_nonnull(strstr(error.text, "(700)"));
}
END_TEST

START_TEST(nothing_is_closed_where_nothing_was_opened)
{
    device_rig_plugin()->close(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("runtime");
    TCase *tests = tcase_create("runtime");
    tcase_add_test(tests, a_device_that_is_not_there_is_not_found);
    tcase_add_test(tests, a_budget_beyond_the_free_memory_is_refused_with_both_numbers);
    tcase_add_test(tests, the_facts_say_what_opening_took);
    tcase_add_loop_test(tests, any_refused_allocation_of_the_host_leaves_nothing, 0, 40);
    tcase_add_test(tests, a_ticket_of_nothing_is_done);
    tcase_add_test(tests, a_ticket_that_many_others_have_followed_is_done);
    tcase_add_test(tests, a_device_that_breaks_while_it_is_opened_tells_the_caller_alone);
    tcase_add_test(tests, nothing_is_closed_where_nothing_was_opened);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
