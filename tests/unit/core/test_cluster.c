/* SPDX-License-Identifier: Apache-2.0 */
/* Where calls and the thread with the store meet: views, and questions on their way. */
#include "server/core/ownership/cluster.h"

#include "run_suite.h"
#include "server/core/requests/topics.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct ps_cluster cluster;
static uint64_t topics;
static uint32_t asked;
static const struct ps_error well = {.status = PS_OK};

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
    ps_cluster_init(&cluster, ps_allocator_heap(),
                    &(struct ps_cluster_listener){.changed = on_changed, .asked = on_asked});
}

static void teardown(void)
{
    ps_cluster_fini(&cluster);
}

static void publish(const char *address, uint64_t epoch, int64_t revision)
{
    struct ps_members members = {
        .memory = ps_allocator_heap(), .shard_count = 1, .revision = revision};
    members.rows = ps_zeroed_array(members.memory, 1, sizeof *members.rows);
    strcpy(members.rows[0].address, address);
    members.rows[0].epoch = epoch;
    topics = 0;
    ps_cluster_publish(&cluster, &members);
    ck_assert_ptr_null(members.rows);
}

START_TEST(a_change_is_told_and_a_repetition_is_not)
{
    ck_assert_ptr_null(ps_cluster_view(&cluster));
    publish("a:1", 1, 10);
    ck_assert_uint_eq(topics, PS_TOPIC_BIT(PS_TOPIC_CLUSTER));
    publish("a:1", 1, 11);
    ck_assert_uint_eq(topics, 0);
    publish("a:1", 2, 12);
    ck_assert_uint_ne(topics, 0);
    publish("b:1", 2, 13);
    ck_assert_uint_ne(topics, 0);
}
END_TEST

START_TEST(a_view_outlives_the_next_one)
{
    publish("a:1", 1, 10);
    struct ps_cluster_view *view = ps_cluster_view(&cluster);
    publish("b:1", 2, 20);
    ck_assert_str_eq(view->members.rows[0].address, "a:1");
    ck_assert_int_eq(view->members.revision, 10);
    ps_cluster_view_release(&cluster, view);
    ps_cluster_view_release(&cluster, NULL);
}
END_TEST

START_TEST(a_question_is_answered)
{
    const struct ps_init_question question = {.client = 7};
    struct ps_cluster_inquiry *inquiry;
    ck_assert_int_eq(ps_cluster_ask(&cluster, &question, &inquiry, NULL), PS_OK);
    ck_assert_uint_eq(asked, 1);
    ck_assert(!atomic_load(&inquiry->answered));

    struct ps_cluster_inquiry *taken = ps_cluster_take(&cluster);
    ck_assert_ptr_eq(taken, inquiry);
    ck_assert_ptr_null(ps_cluster_take(&cluster));
    taken->question.right = 9;
    ps_cluster_answer(taken, PS_OK, &well);
    ps_cluster_tell_answered(&cluster);

    ck_assert_uint_eq(topics, PS_TOPIC_BIT(PS_TOPIC_INIT));
    ck_assert(atomic_load(&inquiry->answered));
    ck_assert_int_eq(inquiry->question.right, 9);
    ps_cluster_inquiry_release(inquiry);
}
END_TEST

START_TEST(a_call_may_go_before_its_answer)
{
    const struct ps_init_question question = {.client = 7};
    struct ps_cluster_inquiry *inquiry;
    ck_assert_int_eq(ps_cluster_ask(&cluster, &question, &inquiry, NULL), PS_OK);
    ps_cluster_inquiry_release(inquiry);
    inquiry = ps_cluster_take(&cluster);
    ck_assert_uint_eq(inquiry->question.client, 7);
    ps_cluster_answer(inquiry, PS_OK, &well);
}
END_TEST

START_TEST(more_questions_than_there_may_be_are_refused)
{
    const struct ps_init_question question = {.client = 7};
    struct ps_cluster_inquiry *inquiry;
    for (int i = 0; i < PS_CLUSTER_QUESTIONS_MAX; i++) {
        ck_assert_int_eq(ps_cluster_ask(&cluster, &question, &inquiry, NULL), PS_OK);
        ps_cluster_inquiry_release(inquiry);
    }
    ck_assert_int_eq(ps_cluster_ask(&cluster, &question, &inquiry, NULL), PS_ERR_BUSY);
}
END_TEST

START_TEST(a_closed_one_answers_everybody_and_takes_nothing)
{
    const struct ps_init_question question = {.client = 7};
    struct ps_cluster_inquiry *inquiry;
    struct ps_cluster_inquiry *late;
    ck_assert_int_eq(ps_cluster_ask(&cluster, &question, &inquiry, NULL), PS_OK);
    ps_cluster_close(&cluster);
    ck_assert(atomic_load(&inquiry->answered));
    ck_assert_int_eq(inquiry->status, PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(inquiry->error.status, PS_ERR_UNAVAILABLE);
    ps_cluster_inquiry_release(inquiry);
    ck_assert_int_eq(ps_cluster_ask(&cluster, &question, &late, NULL), PS_ERR_UNAVAILABLE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cluster");
    TCase *tests = tcase_create("cluster");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_change_is_told_and_a_repetition_is_not);
    tcase_add_test(tests, a_view_outlives_the_next_one);
    tcase_add_test(tests, a_question_is_answered);
    tcase_add_test(tests, a_call_may_go_before_its_answer);
    tcase_add_test(tests, more_questions_than_there_may_be_are_refused);
    tcase_add_test(tests, a_closed_one_answers_everybody_and_takes_nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
