/* SPDX-License-Identifier: Apache-2.0 */
/* client/programs/request_tracker.c: numbers, answers and what is remembered. */
#include "client/programs/request_tracker.h"

#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdio.h>

static struct fault_heap heap;
static struct ps_allocator memory;
static struct ps_request_tracker tracker;
static struct ps_error error;

static void begin(void)
{
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
    ps_request_tracker_init(&tracker, &memory);
}

static void end(void)
{
    ps_request_tracker_fini(&tracker);
    ck_assert_int_eq(heap.live, 0);
}

static int64_t ask(size_t expected)
{
    int64_t timestamp = -1;
    ck_assert_int_eq(ps_request_tracker_begin(&tracker, expected, NULL, &timestamp, &error), PS_OK);
    return timestamp;
}

static bool fail_answer(int64_t timestamp, size_t i, enum ps_status status)
{
    struct ps_error why = {.status = status};
    (void)snprintf(why.text, sizeof why.text, "node %zu", i);
    return ps_request_tracker_answer(&tracker, timestamp, i, &why);
}

START_TEST(numbers_are_dense_whatever_is_forgotten)
{
    for (int64_t i = 0; i < 1000; i++) {
        ck_assert_int_eq(ask(1), i);
        if (i % 3 == 0)
            ps_request_tracker_forget(&tracker, i);
    }
    ck_assert_uint_eq(ps_request_tracker_open_count(&tracker), 666);
}
END_TEST

START_TEST(a_request_is_over_with_its_last_answer)
{
    int64_t timestamp = ask(3);

    ck_assert(!fail_answer(timestamp, 0, PS_OK));
    ck_assert(!fail_answer(timestamp, 2, PS_OK));
    ck_assert_int_eq(ps_request_tracker_look(&tracker, timestamp, &error), PS_TRACKED_OPEN);
    ck_assert_uint_eq(ps_request_tracker_responses(&tracker, timestamp), 2);
    ck_assert(!ps_request_tracker_has_answered(&tracker, timestamp, 1));
    ck_assert(ps_request_tracker_answer(&tracker, timestamp, 1, NULL));
    ck_assert_int_eq(ps_request_tracker_look(&tracker, timestamp, &error), PS_TRACKED_OVER);
    ck_assert_int_eq(ps_request_tracker_look(&tracker, timestamp + 1, NULL), PS_TRACKED_NONE);
    ck_assert_int_eq(ps_request_tracker_look(&tracker, -1, NULL), PS_TRACKED_NONE);
}
END_TEST

/* ps-lite counts past the expected number, and then waits for ever. */
START_TEST(a_second_answer_of_a_node_changes_nothing)
{
    int64_t timestamp = ask(2);

    ck_assert(!fail_answer(timestamp, 0, PS_ERR_ABORTED));
    ck_assert(!fail_answer(timestamp, 0, PS_OK));
    ck_assert_uint_eq(ps_request_tracker_responses(&tracker, timestamp), 1);
    ck_assert(fail_answer(timestamp, 1, PS_ERR_NOT_FOUND));
    ck_assert(!fail_answer(timestamp, 1, PS_OK));
    (void)ps_request_tracker_look(&tracker, timestamp, &error);
    ck_assert_int_eq(error.status, PS_ERR_ABORTED);
    ck_assert_str_eq(error.text, "node 0");
}
END_TEST

START_TEST(a_request_to_nobody_is_over_at_once)
{
    ck_assert_int_eq(ps_request_tracker_look(&tracker, ask(0), NULL), PS_TRACKED_OVER);
}
END_TEST

START_TEST(the_last_failures_are_remembered_and_no_more)
{
    for (int64_t i = 0; i < PS_TRACKER_FAILURES_MAX + 10; i++) {
        (void)fail_answer(ask(1), 0, PS_ERR_TIMEOUT);
        ps_request_tracker_forget(&tracker, i);
    }

    ck_assert_int_eq(ps_request_tracker_look(&tracker, 9, &error), PS_TRACKED_FORGOTTEN);
    ck_assert_int_eq(error.status, PS_OK);
    ck_assert_int_eq(ps_request_tracker_look(&tracker, 10, &error), PS_TRACKED_FORGOTTEN);
    ck_assert_int_eq(error.status, PS_ERR_TIMEOUT);
    ck_assert_uint_eq(ps_request_tracker_open_count(&tracker), 0);
    ck_assert(!fail_answer(10, 0, PS_OK));
}
END_TEST

START_TEST(refused_memory_uses_no_number)
{
    int64_t timestamp = -1;
    enum ps_status status = PS_ERR_NO_MEMORY;
    for (int64_t at = 0; status != PS_OK; at++) {
        heap.seen = 0;
        heap.refuse_at = at;
        status = ps_request_tracker_begin(&tracker, 2, NULL, &timestamp, &error);
        ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
    }
    ck_assert_int_eq(timestamp, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("request tracker");
    TCase *tests = tcase_create("requests");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, numbers_are_dense_whatever_is_forgotten);
    tcase_add_test(tests, a_request_is_over_with_its_last_answer);
    tcase_add_test(tests, a_second_answer_of_a_node_changes_nothing);
    tcase_add_test(tests, a_request_to_nobody_is_over_at_once);
    tcase_add_test(tests, the_last_failures_are_remembered_and_no_more);
    tcase_add_test(tests, refused_memory_uses_no_number);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
