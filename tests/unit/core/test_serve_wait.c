/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/serve_wait.c: a pull does not wait for a round that its own gradient was refused
 * for. */
#include "server/core/requests/serve_wait.h"

#include "tests/unit/core/core_round.h"
#include "tests/unit/core/core_serve.h"

/* "m" with two workers, and a bundle of a contribution and a pull of what its round makes. */
static void begin(uint32_t worker)
{
    world_init_empty(&world);
    round_begin(&world, &(struct ps_round_settings){.workers = 2, .combine = PS_COMBINE_SUM});
    serve_begin();
    struct ps_push_request *push = serve_add_push("m");
    push->worker = worker;
    push->round = 1;
    push->request = (struct ps_request_id){
        .present = true, .client_id = text("worker"), .session = 1, .sequence = 1};
    serve_add_pull("m")->at_least_version = 1;
}

START_TEST(a_pull_waits_for_the_round_that_its_gradient_is_part_of)
{
    begin(1);

    ck_assert_int_eq(serve_step(turn), PS_SERVE_WAITS);

    ck_assert_int_eq(pushes[0].status.status, PS_OK);
    ck_assert_int_eq(round_push(&world, 1, 1, -1, 1), PS_OK);
    ck_assert_int_eq(serve_step(turn), PS_SERVE_DONE);
    ck_assert_int_eq(pulls[0].status.status, PS_OK);
    serve_end();
}
END_TEST

START_TEST(a_pull_whose_gradient_was_refused_is_answered_at_once)
{
    begin(3);

    ck_assert_int_eq(serve_step(turn), PS_SERVE_DONE);

    ck_assert_int_eq(pushes[0].status.status, PS_ERR_BAD_INPUT);
    ck_assert_int_eq(pulls[0].status.status, PS_ERR_CONFLICT);
    serve_end();
}
END_TEST

START_TEST(a_worker_that_has_contributed_before_waits_for_its_round)
{
    begin(1);
    ck_assert_int_eq(round_push(&world, 0, 1, -4, 9), PS_OK);

    ck_assert_int_eq(serve_step(turn), PS_SERVE_WAITS);

    ck_assert_int_eq(pushes[0].status.status, PS_ERR_EXISTS);
    ck_assert_int_eq(round_push(&world, 1, 1, -1, 1), PS_OK);
    ck_assert_int_eq(serve_step(turn), PS_SERVE_DONE);
    serve_expect_pulled(5);
    serve_end();
}
END_TEST

START_TEST(what_others_push_is_waited_for_whatever_else_was_refused)
{
    serve_begin_ready();
    serve_add_push("no such");
    serve_add_pull("w")->at_least_version = 1;

    ck_assert_int_eq(serve_step(turn), PS_SERVE_WAITS);
    serve_end();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("serve_wait");
    tcase_add_test(tests, a_pull_waits_for_the_round_that_its_gradient_is_part_of);
    tcase_add_test(tests, a_pull_whose_gradient_was_refused_is_answered_at_once);
    tcase_add_test(tests, a_worker_that_has_contributed_before_waits_for_its_round);
    tcase_add_test(tests, what_others_push_is_waited_for_whatever_else_was_refused);
    return run_tests("serve_wait", tests);
}
