/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers in this process: one request at a time, in order. */
#include "mailbox_world.h"

#include "run_suite.h"
#include "server/core/programs/program_request.h"

START_TEST(a_handler_has_one_request_at_a_time)
{
    char text[64];
    uint64_t next;
    struct ps_asking first, second;
    ck_assert_int_eq(ps_mailbox_register(&world, WORLD_APP, &world_error), PS_OK);
    ck_assert_ptr_null(ps_mailbox_next(&world, WORLD_APP, world_now));
    first = world_asked(0, 1);
    second = world_asked(1, 2);
    struct ps_program_request *request = ps_mailbox_next(&world, WORLD_APP, world_now);
    ck_assert_int_eq(request->asked.command, 1);
    ck_assert_ptr_null(ps_mailbox_next(&world, WORLD_APP, world_now));
    ps_mailbox_check(&world);
    ck_assert_int_eq(world_answer(0, request->handle, "one", 0), PS_OK);
    ps_program_request_release(&world, request);
    ck_assert(ps_mailbox_handled(&world, WORLD_APP, &next));
    ck_assert_int_eq(world_look(&first, text), PS_OK);
    request = ps_mailbox_next(&world, WORLD_APP, world_now);
    ck_assert_uint_eq(request->handle, next);
    (void)ps_program_request_acquire(&world, request);
    ps_program_request_release(&world, request);
    ck_assert(!ps_mailbox_handled(&world, WORLD_APP, &next));
    ck_assert_uint_eq(next, 0);
    /* Answered later, when its asker has gone. */
    world_stop(&second);
    ck_assert_int_eq(world_answer(0, request->handle, "two", 0), PS_OK);
    ck_assert_int_eq(world_answer(0, request->handle, "two", 0), PS_ERR_NOT_FOUND);
    ps_program_request_release(&world, request);
    world_stop(&first);
}
END_TEST

START_TEST(an_app_has_takers_or_a_handler)
{
    struct ps_taking taking;
    bool wakes;
    const struct ps_take_request take = {.app = WORLD_APP, .taker = 1, .turn = 1};
    ck_assert_int_eq(ps_mailbox_register(&world, WORLD_APP, &world_error), PS_OK);
    ck_assert_int_eq(ps_mailbox_register(&world, WORLD_APP, &world_error), PS_ERR_EXISTS);
    ck_assert_int_eq(ps_mailbox_take(&world, &take, world_now, &taking, &wakes, &world_error),
                     PS_ERR_EXISTS);
}
END_TEST

START_TEST(what_a_handler_has_is_lost_with_the_shard)
{
    char text[64];
    uint64_t next;
    ck_assert_int_eq(ps_mailbox_register(&world, WORLD_APP, &world_error), PS_OK);
    struct ps_asking asking = world_asked(0, 1);
    struct ps_program_request *request = ps_mailbox_next(&world, WORLD_APP, world_now);
    ps_mailbox_lose(&world, 3, world_now);
    ck_assert_int_eq(world_look(&asking, text), PS_ERR_ABORTED);
    ck_assert_int_eq(world_answer(0, request->handle, "late", 0), PS_ERR_NOT_FOUND);
    /* The handler may still read it. */
    ck_assert_ptr_nonnull(request->question);
    ps_program_request_release(&world, request);
    (void)ps_mailbox_handled(&world, WORLD_APP, &next);
    world_stop(&asking);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mailbox_handler");
    TCase *tests = tcase_create("mailbox_handler");
    tcase_add_checked_fixture(tests, world_begin, world_end);
    tcase_add_test(tests, a_handler_has_one_request_at_a_time);
    tcase_add_test(tests, an_app_has_takers_or_a_handler);
    tcase_add_test(tests, what_a_handler_has_is_lost_with_the_shard);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
