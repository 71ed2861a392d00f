/* SPDX-License-Identifier: Apache-2.0 */
/* Where calls about workers and the thread with the store meet. */
#include "server/core/ownership/workers.h"

#include "run_suite.h"
#include "server/core/requests/topics.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct fake_clock fake;
static struct ps_clock fake_time;
static struct ps_workers workers;
static uint64_t topics;
static uint32_t asked;
static const struct ps_error well = {.status = PS_OK};
static const struct ps_worker_question joining = {.task = PS_WORKER_JOIN, .worker.client = 7};

static void on_changed(void *self, uint64_t changed)
{
    (void)self;
    topics |= changed;
}

static void on_asked(void *self)
{
    (void)self;
    asked++;
}

static void setup(void)
{
    topics = 0;
    asked = 0;
    fake = (struct fake_clock){.now_ms = 1000};
    fake_time = fake_clock_clock(&fake);
    ps_workers_init(&workers, ps_allocator_heap(), &fake_time,
                    &(struct ps_workers_listener){.changed = on_changed, .asked = on_asked});
}

static void teardown(void)
{
    ps_workers_fini(&workers);
}

static void publish(int64_t incarnation, uint32_t size, int64_t revision)
{
    struct ps_worker_rows rows = {.memory = ps_allocator_heap(), .revision = revision};
    rows.rows = ps_zeroed_array(rows.memory, 1, sizeof *rows.rows);
    rows.groups = ps_zeroed_array(rows.memory, 1, sizeof *rows.groups);
    rows.row_count = 1;
    rows.group_count = 1;
    rows.rows[0].incarnation = incarnation;
    rows.groups[0].size = size;
    topics = 0;
    ps_workers_publish(&workers, &rows);
    ck_assert_ptr_null(rows.rows);
}

static struct ps_worker_inquiry *ask(void)
{
    struct ps_worker_inquiry *inquiry;
    ck_assert_int_eq(ps_workers_ask(&workers, &joining, &inquiry, NULL), PS_OK);
    return inquiry;
}

START_TEST(a_change_is_told_and_a_repetition_is_not)
{
    publish(5, 0, 10);
    ck_assert_uint_eq(topics, PS_TOPIC_BIT(PS_TOPIC_WORKERS));
    publish(5, 0, 11);
    ck_assert_uint_eq(topics, 0);
    publish(6, 0, 12);
    ck_assert_uint_ne(topics, 0);
    publish(6, 4, 13);
    ck_assert_uint_ne(topics, 0);
}
END_TEST

START_TEST(a_view_outlives_the_next_one)
{
    publish(5, 0, 10);
    struct ps_worker_view *view = ps_workers_view(&workers);
    publish(6, 0, 20);
    ck_assert_int_eq(view->revision, 10);
    ck_assert_int_eq(view->rows.rows[0].incarnation, 5);
    ps_workers_view_release(&workers, view);
    ps_workers_view_release(&workers, NULL);
}
END_TEST

START_TEST(the_list_is_kept_fresh_while_somebody_waits_for_it)
{
    ck_assert(!ps_workers_is_watched(&workers));
    ck_assert_ptr_null(ps_workers_view(&workers));
    ck_assert_uint_eq(asked, 1);
    ck_assert(ps_workers_is_watched(&workers));
    /* The thread knows already. */
    ck_assert_ptr_null(ps_workers_view(&workers));
    ck_assert_uint_eq(asked, 1);
    fake.now_ms += PS_WORKERS_WATCHED_MS;
    ck_assert(!ps_workers_is_watched(&workers));
    ck_assert_ptr_null(ps_workers_view(&workers));
    ck_assert_uint_eq(asked, 2);
}
END_TEST

START_TEST(whoever_was_let_in_was_heard)
{
    uint64_t silent_ms = 0;
    struct ps_worker_inquiry *inquiry = ask();
    ck_assert_uint_eq(asked, 1);
    ck_assert(!ps_workers_silence(&workers, 9, &silent_ms));

    ck_assert_ptr_eq(ps_workers_take(&workers), inquiry);
    ck_assert_ptr_null(ps_workers_take(&workers));
    inquiry->question.has_joined = true;
    inquiry->question.incarnation = 9;
    ps_workers_answer(&workers, inquiry, PS_OK, &well);
    ps_workers_tell_answered(&workers);
    fake.now_ms += 70;

    ck_assert_uint_eq(topics, PS_TOPIC_BIT(PS_TOPIC_WORKERS));
    ck_assert(atomic_load(&inquiry->answered));
    ck_assert(ps_workers_silence(&workers, 9, &silent_ms));
    ck_assert_uint_eq(silent_ms, 70);
    ck_assert(!ps_workers_silence(&workers, 10, &silent_ms));
    ps_workers_inquiry_release(inquiry);
}
END_TEST

START_TEST(a_call_may_go_before_its_answer)
{
    ps_workers_inquiry_release(ask());
    struct ps_worker_inquiry *inquiry = ps_workers_take(&workers);
    ck_assert_uint_eq(inquiry->question.worker.client, 7);
    ps_workers_answer(&workers, inquiry, PS_ERR_UNAVAILABLE, &well);
}
END_TEST

START_TEST(more_questions_than_there_may_be_are_refused)
{
    struct ps_worker_inquiry *inquiry;
    for (int i = 0; i < PS_WORKER_QUESTIONS_MAX; i++)
        ps_workers_inquiry_release(ask());
    ck_assert_int_eq(ps_workers_ask(&workers, &joining, &inquiry, NULL), PS_ERR_BUSY);
}
END_TEST

START_TEST(refused_memory_costs_a_question_and_not_the_list)
{
    struct fault_heap heap = {.refuse_at = 0};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_workers poor;
    struct ps_worker_inquiry *inquiry;
    uint64_t silent_ms;
    ps_workers_init(&poor, &memory, &fake_time, &(struct ps_workers_listener){0});
    ck_assert_int_eq(ps_workers_ask(&poor, &joining, &inquiry, NULL), PS_ERR_NO_MEMORY);
    struct ps_worker_rows rows = {.memory = &memory, .revision = 5};
    heap.refuse_at = heap.seen;
    ps_workers_publish(&poor, &rows);
    ck_assert_ptr_null(ps_workers_view(&poor));
    /* Whoever joins is let in, and only not remembered as heard. */
    ck_assert_int_eq(ps_workers_ask(&poor, &joining, &inquiry, NULL), PS_OK);
    ck_assert_ptr_eq(ps_workers_take(&poor), inquiry);
    inquiry->question.has_joined = true;
    inquiry->question.incarnation = 9;
    heap.refuse_at = heap.seen;
    ps_workers_answer(&poor, inquiry, PS_OK, &well);
    ck_assert(!ps_workers_silence(&poor, 9, &silent_ms));
    ps_workers_inquiry_release(inquiry);
    ps_workers_fini(&poor);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(nobody_is_left_waiting_at_the_end)
{
    struct ps_worker_inquiry *inquiry = ask();
    struct ps_worker_inquiry *late;
    ps_workers_close(&workers);
    ck_assert(atomic_load(&inquiry->answered));
    ck_assert_int_eq(inquiry->status, PS_ERR_UNAVAILABLE);
    ck_assert_uint_ne(topics, 0);
    ck_assert_int_eq(ps_workers_ask(&workers, &joining, &late, NULL), PS_ERR_UNAVAILABLE);
    ps_workers_inquiry_release(inquiry);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("workers");
    TCase *tests = tcase_create("workers");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_change_is_told_and_a_repetition_is_not);
    tcase_add_test(tests, a_view_outlives_the_next_one);
    tcase_add_test(tests, the_list_is_kept_fresh_while_somebody_waits_for_it);
    tcase_add_test(tests, whoever_was_let_in_was_heard);
    tcase_add_test(tests, a_call_may_go_before_its_answer);
    tcase_add_test(tests, more_questions_than_there_may_be_are_refused);
    tcase_add_test(tests, refused_memory_costs_a_question_and_not_the_list);
    tcase_add_test(tests, nobody_is_left_waiting_at_the_end);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
