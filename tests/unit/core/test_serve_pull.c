/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/serve_pull.c: the pulls of a message, and for what they wait. */
#include "tests/unit/core/core_serve.h"

START_TEST(a_pull_sees_the_pushes_of_its_message)
{
    serve_begin_ready();
    serve_add_pull("w");
    serve_add_push("w");
    serve_add_push("w");

    ck_assert_int_eq(serve_step(turn), PS_SERVE_DONE);

    serve_expect_pulled(1 - 2);
    ck_assert_uint_eq(ps_serve_pulled(&serve), 1);
    serve_end();
}
END_TEST

START_TEST(nothing_is_pulled_before_the_pushes_are_durable)
{
    serve_begin_journal();
    serve_add_push("w");
    serve_add_pull("w");

    ck_assert_int_eq(serve_step(turn), PS_SERVE_WAITS);

    ck_assert_uint_eq(ps_serve_pulled(&serve), 0);
    ck_assert_ptr_null(pulls[0].pull.held);
    serve_end();
}
END_TEST

START_TEST(pulls_wait_for_initialisation)
{
    static const float values[] = {1, 2, 3, 4};
    world_init_empty(&world);
    serve_begin();
    serve_add_pull("w");
    ck_assert_int_eq(serve_step(turn), PS_SERVE_WAITS);
    ck_assert_int_eq(
        world_init_param(&world, "w", PS_F32, values, sizeof values, (struct ps_bytes){NULL, 0}),
        PS_OK);
    ck_assert_int_eq(serve_step(turn), PS_SERVE_WAITS);

    ck_assert_int_eq(world_finish(&world), PS_OK);

    ck_assert_int_eq(serve_step(turn), PS_SERVE_DONE);
    serve_expect_pulled(1);
    serve_end();
}
END_TEST

START_TEST(pulls_do_not_wait_for_initialisation_where_nobody_may)
{
    world_init_empty(&world);
    serve_begin();
    serve_add_pull("w");

    ck_assert_int_eq(serve_step(hurried), PS_SERVE_DONE);

    ck_assert_int_eq(pulls[0].status.status, PS_ERR_NOT_READY);
    serve_end();
}
END_TEST

START_TEST(pulls_beside_a_gradient_do_not_wait_for_initialisation)
{
    world_init_empty(&world);
    serve_begin();
    serve_add_push("w");
    serve_add_pull("w");

    ck_assert_int_eq(serve_step(turn), PS_SERVE_DONE);

    ck_assert_int_eq(pushes[0].status.status, PS_ERR_NOT_READY);
    ck_assert_int_eq(pulls[0].status.status, PS_ERR_NOT_READY);
    serve_end();
}
END_TEST

/* Early values are those of a range: a gradient in one piece makes none. */
START_TEST(values_that_no_range_made_are_a_conflict)
{
    serve_begin_ready();
    serve_add_push("w");
    serve_add_pull("w")->of_push = true;

    ck_assert_int_eq(serve_step(turn), PS_SERVE_DONE);

    ck_assert_int_eq(pushes[0].status.status, PS_OK);
    ck_assert_int_eq(pulls[0].status.status, PS_ERR_CONFLICT);
    serve_end();
}
END_TEST

START_TEST(early_values_without_any_push_are_a_conflict)
{
    serve_begin_ready();
    serve_add_pull("w")->of_push = true;

    ck_assert_int_eq(serve_step(turn), PS_SERVE_DONE);

    ck_assert_int_eq(pulls[0].status.status, PS_ERR_CONFLICT);
    serve_end();
}
END_TEST

START_TEST(a_pull_waits_for_a_version_also_beside_gradients)
{
    serve_begin_ready();
    serve_add_push("w");
    serve_add_pull("w")->at_least_version = 2;

    ck_assert_int_eq(serve_step(turn), PS_SERVE_WAITS);
    ck_assert_uint_eq(serve.topic, ps_topic_of_name(text("w")));
    ck_assert_uint_eq(ps_serve_pulled(&serve), 0);
    ck_assert_int_eq(world_push(&world, "w", PS_F32, ones.data, ones.size, NULL), PS_OK);

    ck_assert_int_eq(serve_step(turn), PS_SERVE_DONE);
    ck_assert_uint_eq(pushes[0].reply.version, 1);
    serve_expect_pulled(-1);
    serve_end();
}
END_TEST

/* What was waited for stands in the text; gradients keep their own results. */
START_TEST(a_pull_that_waited_too_long_or_may_not_wait_says_why)
{
    static const struct ps_error crowded = {.status = PS_ERR_BUSY, .text = "full", .retry_ms = 7};
    const struct ps_serve_turn turns[] = {
        {.may_wait = true, .is_late = true}, {.is_late = false}, {.refusal = &crowded}};
    const enum ps_status expected[] = {PS_ERR_TIMEOUT, PS_ERR_UNAVAILABLE, PS_ERR_BUSY};
    const char *const texts[] = {"parameter: w is at version 1, waited for: 2", "shutting down",
                                 "full"};
    serve_begin_ready();
    serve_add_push("w");
    serve_add_pull("w")->at_least_version = 2;

    ck_assert_int_eq(serve_step(turns[_i]), PS_SERVE_DONE);

    ck_assert_int_eq(pushes[0].status.status, PS_OK);
    ck_assert_int_eq(pulls[0].status.status, expected[_i]);
    ck_assert(ps_bytes_equal(pulls[0].status.text, text(texts[_i])));
    ck_assert_uint_eq(pulls[0].status.retry_ms, _i == 2 ? 7 : 0);
    serve_end();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("serve_pull");
    tcase_add_test(tests, a_pull_sees_the_pushes_of_its_message);
    tcase_add_test(tests, nothing_is_pulled_before_the_pushes_are_durable);
    tcase_add_test(tests, pulls_wait_for_initialisation);
    tcase_add_test(tests, pulls_do_not_wait_for_initialisation_where_nobody_may);
    tcase_add_test(tests, pulls_beside_a_gradient_do_not_wait_for_initialisation);
    tcase_add_test(tests, values_that_no_range_made_are_a_conflict);
    tcase_add_test(tests, early_values_without_any_push_are_a_conflict);
    tcase_add_test(tests, a_pull_waits_for_a_version_also_beside_gradients);
    tcase_add_loop_test(tests, a_pull_that_waited_too_long_or_may_not_wait_says_why, 0, 3);
    return run_tests("serve_pull", tests);
}
