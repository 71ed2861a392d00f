/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/serve.c: the stages, which item waits for what, and what each is told. */
#include "tests/unit/core/core_serve.h"

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

int main(void)
{
    TCase *tests = tcase_create("serve");
    tcase_add_test(tests, a_push_alone_is_done_in_one_step);
    tcase_add_test(tests, p1_pushes_wait_until_the_last_of_them_is_durable);
    tcase_add_test(tests, p1_a_push_waits_whatever_the_caller_allows);
    tcase_add_test(tests, a_refused_push_holds_up_no_other);
    tcase_add_test(tests, without_an_arena_the_error_says_why);
    tcase_add_test(tests, without_memory_for_its_text_a_failure_keeps_its_status);
    tcase_add_test(tests, a_full_journal_queue_says_when_to_try_again);
    tcase_add_test(tests, a_stale_session_is_told_which_may_begin);
    tcase_add_test(tests, p4_pushes_of_a_generation_that_is_over_are_to_be_repeated);
    return run_tests("serve", tests);
}
