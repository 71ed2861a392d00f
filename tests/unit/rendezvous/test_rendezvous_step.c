/* SPDX-License-Identifier: Apache-2.0 */
/* How a step begins: receives that were there before it, the mode, and who may begin it. */
#include "rendezvous_world.h"

#include "run_suite.h"

#include <string.h>

static char text[WORLD_TEXT_BYTES];
static struct ps_receiving calls[4];

static enum ps_status begin_receive(int call, const char *key)
{
    return world_ask(WORLD_STEP, 100 + (uint64_t)call, key, &calls[call]);
}

START_TEST(a_receive_before_the_step_begins_is_deferred)
{
    ck_assert_int_eq(begin_receive(0, "foo"), PS_OK);
    ck_assert_int_eq(world_step_begin(WORLD_STEP, "worker", false), PS_OK);
    ck_assert_int_eq(world_look(&calls[0], text), PS_ERR_NOT_READY);

    ck_assert_int_eq(world_send("foo", "hello"), PS_OK);
    ck_assert_int_eq(world_look(&calls[0], text), PS_OK);
    ck_assert_str_eq(text, "hello");
}
END_TEST

START_TEST(deferred_receives_stay_when_the_step_begins_strict)
{
    ck_assert_int_eq(begin_receive(0, "foo"), PS_OK);
    ck_assert_int_eq(begin_receive(1, "foo"), PS_OK);
    ck_assert_int_eq(begin_receive(2, "bar"), PS_OK);
    ck_assert_int_eq(world_step_begin(WORLD_STEP, "worker", true), PS_OK);
    ps_rendezvous_check(&world);

    ck_assert_int_eq(world_look(&calls[1], text), PS_ERR_ABORTED);
    ck_assert_int_eq(world_send("foo", "hello"), PS_OK);
    ck_assert_int_eq(world_look(&calls[0], text), PS_OK);
    ck_assert_int_eq(world_send("foo", "again"), PS_ERR_ABORTED);
    ck_assert_int_eq(world_send("bar", "there"), PS_OK);
    ck_assert_int_eq(world_look(&calls[2], text), PS_OK);
    ck_assert_str_eq(text, "there");
}
END_TEST

START_TEST(a_deferred_receive_counts_as_the_one_of_a_strict_step)
{
    ck_assert_int_eq(begin_receive(0, "foo"), PS_OK);
    ck_assert_int_eq(begin_receive(1, "foo"), PS_OK);
    ps_rendezvous_release(&world, &calls[1]);
    ck_assert_int_eq(world_step_begin(WORLD_STEP, "worker", true), PS_OK);

    ck_assert_int_eq(begin_receive(2, "foo"), PS_OK);
    ck_assert_int_eq(world_look(&calls[2], text), PS_ERR_ABORTED);
    ps_rendezvous_release(&world, &calls[0]);
}
END_TEST

START_TEST(a_send_before_the_step_begins_does_not_wait)
{
    ck_assert_int_eq(world_send("foo", "hello"), PS_OK);
    ck_assert_int_eq(world_step_begin(WORLD_STEP, "worker", true), PS_ERR_MISMATCH);
    ck_assert_int_eq(world_step_begin(WORLD_STEP, "worker", false), PS_OK);

    ck_assert_int_eq(world_poll(WORLD_STEP, "foo", text), PS_OK);
    ck_assert_str_eq(text, "hello");
}
END_TEST

START_TEST(a_step_begins_once_for_each_session)
{
    ck_assert_int_eq(world_step_begin(WORLD_STEP, "worker", false), PS_OK);
    ck_assert_int_eq(world_step_begin(WORLD_STEP, "worker", false), PS_OK);

    ck_assert_int_eq(world_step_begin(WORLD_STEP, "another", false), PS_ERR_MISMATCH);
    ck_assert_ptr_nonnull(strstr(world_error.text, "Double init"));
    ck_assert_int_eq(world_step_begin(WORLD_STEP, "worker", true), PS_ERR_MISMATCH);
    ck_assert_int_eq(world_step_begin(WORLD_STEP, "", false), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(an_aborted_step_does_not_begin)
{
    world_abort(WORLD_STEP, "fantasia!");

    ck_assert_int_eq(world_step_begin(WORLD_STEP, "worker", false), PS_ERR_ABORTED);
    ck_assert_str_eq(world_error.text, "fantasia!");
}
END_TEST

START_TEST(a_queue_that_is_empty_takes_no_memory)
{
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(world_send("foo", "x"), PS_OK);
        ck_assert_int_eq(world_poll(WORLD_STEP, "foo", text), PS_OK);
        ck_assert_int_eq(world_poll(WORLD_STEP, "bar", text), PS_ERR_NOT_READY);
    }

    ck_assert_ptr_null(world.steps->queues);
    ck_assert_ptr_null(world.steps->receives);
    ck_assert_uint_eq(world.bytes, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rendezvous_step");
    TCase *tests = tcase_create("rendezvous_step");
    tcase_add_checked_fixture(tests, world_begin, world_end);
    tcase_add_test(tests, a_receive_before_the_step_begins_is_deferred);
    tcase_add_test(tests, deferred_receives_stay_when_the_step_begins_strict);
    tcase_add_test(tests, a_deferred_receive_counts_as_the_one_of_a_strict_step);
    tcase_add_test(tests, a_send_before_the_step_begins_does_not_wait);
    tcase_add_test(tests, a_step_begins_once_for_each_session);
    tcase_add_test(tests, an_aborted_step_does_not_begin);
    tcase_add_test(tests, a_queue_that_is_empty_takes_no_memory);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
