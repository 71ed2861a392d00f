/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/serve.c: the stages, which item waits for what, and what each is told. */
#include "tests/unit/core/core_serve.h"

/* ---- Pushes ---- */

START_TEST(a_push_alone_is_done_in_one_step)
{
    serve_begin_ready();
    serve_add_push("w");

    ck_assert_int_eq(serve_step(turn), PS_SERVE_DONE);

    ck_assert_int_eq(pushes[0].status.status, PS_OK);
    ck_assert_uint_eq(pushes[0].reply.version, 1);
    ck_assert_uint_eq(ps_serve_pushed(&serve), 1);
    serve_end();
}
END_TEST

START_TEST(p1_pushes_wait_until_the_last_of_them_is_durable)
{
    serve_begin_journal();
    serve_add_push("w");
    serve_add_push("w");

    ck_assert_int_eq(serve_step(turn), PS_SERVE_WAITS);
    ck_assert_int_eq(serve_step(turn), PS_SERVE_WAITS);
    ck_assert_uint_eq(ps_serve_pushed(&serve), 2);
    world_write_journal(&world);

    ck_assert_int_eq(serve_step(turn), PS_SERVE_DONE);
    ck_assert_uint_eq(pushes[0].reply.durable_position, 2);
    ck_assert_uint_eq(pushes[1].reply.durable_position, 2);
    serve_end();
}
END_TEST

/* Also where the caller does not wait for initialisation. */
START_TEST(p1_a_push_waits_whatever_the_caller_allows)
{
    serve_begin_journal();
    serve_add_push("w");

    ck_assert_int_eq(serve_step(hurried), PS_SERVE_WAITS);
    serve_end();
}
END_TEST

START_TEST(a_refused_push_holds_up_no_other)
{
    serve_begin_ready();
    serve_add_push("nobody");
    serve_add_push("w");

    ck_assert_int_eq(serve_step(turn), PS_SERVE_DONE);

    ck_assert_int_eq(pushes[0].status.status, PS_ERR_NOT_FOUND);
    ck_assert(ps_bytes_equal(pushes[0].status.text, text("parameter: nobody does not exist")));
    ck_assert_uint_eq(pushes[0].status.retry_ms, 0);
    ck_assert_int_eq(pushes[1].status.status, PS_OK);
    serve_end();
}
END_TEST

START_TEST(without_an_arena_the_error_says_why)
{
    serve_begin_ready();
    serve.texts = NULL;
    serve_add_push("nobody");

    ck_assert_int_eq(serve_step(turn), PS_SERVE_DONE);

    ck_assert_int_eq(pushes[0].status.status, PS_ERR_NOT_FOUND);
    ck_assert_uint_eq(pushes[0].status.text.size, 0);
    ck_assert_str_eq(error.text, "parameter: nobody does not exist");
    serve_end();
}
END_TEST

START_TEST(without_memory_for_its_text_a_failure_keeps_its_status)
{
    serve_begin_ready();
    serve_add_push("nobody");
    world.heap.refuse_at = world.heap.seen;

    ck_assert_int_eq(serve_step(turn), PS_SERVE_DONE);

    ck_assert_int_eq(pushes[0].status.status, PS_ERR_NOT_FOUND);
    ck_assert_uint_eq(pushes[0].status.text.size, 0);
    serve_end();
}
END_TEST

START_TEST(a_full_journal_queue_says_when_to_try_again)
{
    serve_begin_journal();
    while (world_push_with(&world, PS_ACK_MEMORY, 0) == PS_OK)
        continue;
    serve_add_push("w");

    ck_assert_int_eq(serve_step(turn), PS_SERVE_DONE);

    ck_assert_int_eq(pushes[0].status.status, PS_ERR_BUSY);
    ck_assert_uint_gt(pushes[0].status.retry_ms, 0);
    serve_end();
}
END_TEST

START_TEST(a_stale_session_is_told_which_may_begin)
{
    serve_begin_ready();
    ck_assert_int_eq(world_push_as(&world, "w", 2, 1, NULL), PS_OK);
    serve_add_push("w")->request = (struct ps_request_id){
        .present = true, .client_id = text("client"), .session = 1, .sequence = 1};

    ck_assert_int_eq(serve_step(turn), PS_SERVE_DONE);

    ck_assert_int_eq(pushes[0].status.status, PS_ERR_STALE_SESSION);
    ck_assert_uint_gt(pushes[0].status.session, 2);
    serve_end();
}
END_TEST

/* The shard is lost and won back while two pushes wait: neither may be acknowledged. */
START_TEST(p4_pushes_of_a_generation_that_is_over_are_to_be_repeated)
{
    serve_begin_journal();
    serve_add_push("w");
    serve_add_push("w");
    ck_assert_int_eq(serve_step(turn), PS_SERVE_WAITS);

    ps_service_reset(world.service);
    world_own(&world, 2);
    ps_service_begin_empty(world.service);

    ck_assert_int_eq(serve_step(turn), PS_SERVE_DONE);
    ck_assert_int_eq(pushes[0].status.status, PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(pushes[1].status.status, PS_ERR_UNAVAILABLE);
    ck_assert_uint_gt(pushes[1].status.text.size, 0);
    serve_end();
}
END_TEST

/* ---- Pulls ---- */

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
    TCase *tests = tcase_create("serve");
    tcase_add_test(tests, a_pull_waits_for_a_version_also_beside_gradients);
    tcase_add_loop_test(tests, a_pull_that_waited_too_long_or_may_not_wait_says_why, 0, 3);
    tcase_add_test(tests, a_push_alone_is_done_in_one_step);
    tcase_add_test(tests, p1_pushes_wait_until_the_last_of_them_is_durable);
    tcase_add_test(tests, p1_a_push_waits_whatever_the_caller_allows);
    tcase_add_test(tests, a_refused_push_holds_up_no_other);
    tcase_add_test(tests, without_an_arena_the_error_says_why);
    tcase_add_test(tests, without_memory_for_its_text_a_failure_keeps_its_status);
    tcase_add_test(tests, a_full_journal_queue_says_when_to_try_again);
    tcase_add_test(tests, a_stale_session_is_told_which_may_begin);
    tcase_add_test(tests, p4_pushes_of_a_generation_that_is_over_are_to_be_repeated);
    tcase_add_test(tests, a_pull_sees_the_pushes_of_its_message);
    tcase_add_test(tests, nothing_is_pulled_before_the_pushes_are_durable);
    tcase_add_test(tests, pulls_wait_for_initialisation);
    tcase_add_test(tests, pulls_do_not_wait_for_initialisation_where_nobody_may);
    tcase_add_test(tests, pulls_beside_a_gradient_do_not_wait_for_initialisation);
    tcase_add_test(tests, values_that_no_range_made_are_a_conflict);
    tcase_add_test(tests, early_values_without_any_push_are_a_conflict);
    return run_tests("serve", tests);
}
