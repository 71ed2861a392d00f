/* SPDX-License-Identifier: Apache-2.0 */
/* Ends: answers, once; what is kept of them; takers that are gone. */
#include "mailbox_world.h"

#include "run_suite.h"

#include <string.h>

START_TEST(one_answer_for_each)
{
    uint64_t handle;
    struct ps_ask_request request = world_request(0, 1);
    struct ps_asking asking;
    request.token = 3;
    ck_assert_int_eq(world_ask(&request, "", &asking), PS_OK);
    ck_assert_uint_eq(world_take(1, 1, NULL, &handle), 1);
    ck_assert_int_eq(world_answer(2, handle, "other", 4), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(world_answer(1, handle + 1, "none", 4), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(world_answer(1, handle, "one", 4), PS_OK);
    ck_assert_int_eq(world_answer(1, handle, "one", 4), PS_OK);
    ck_assert_int_eq(world_answer(1, handle, "two", 5), PS_ERR_EXISTS);
    ck_assert_int_eq(world_answer(2, handle, "two", 4), PS_ERR_EXISTS);
    world_stop(&asking);
}
END_TEST

static enum ps_status again(uint64_t token)
{
    char text[64];
    struct ps_ask_request request = world_request(0, 1);
    struct ps_asking asking;
    request.token = token;
    enum ps_status status = world_ask(&request, "", &asking);
    if (status == PS_OK)
        status = world_look(&asking, text);
    world_stop(&asking);
    return status;
}

static void carry_out(uint64_t token, const char *text)
{
    uint64_t handle;
    ck_assert_int_eq(again(token), PS_ERR_NOT_READY);
    ck_assert_uint_eq(world_take(1, 1, NULL, &handle), 1);
    ck_assert_int_eq(world_answer(1, handle, text, token), PS_OK);
}

/* Bytes take the answer, and time takes the rest: then the token is as good as new. */
START_TEST(answers_are_kept_within_bounds)
{
    static char large[100000];
    memset(large, 'x', sizeof large - 1);
    for (uint64_t token = 1; token <= 3; token++)
        carry_out(token, large);
    ck_assert_int_eq(again(1), PS_ERR_ABORTED);
    ck_assert_ptr_nonnull(strstr(world_error.text, "nobody can say"));
    world_pass(1000);
    (void)ps_mailbox_sweep(&world, world_now);
    ck_assert_int_eq(again(1), PS_ERR_NOT_READY);
    world_pass(1000);
    (void)ps_mailbox_sweep(&world, world_now);
}
END_TEST

START_TEST(a_taker_that_is_gone_fails_what_it_had)
{
    char text[64];
    uint64_t handle;
    struct ps_asking asking = world_asked(0, 1);
    const struct ps_take_request named = {
        .app = WORLD_APP, .taker = 1, .touch = true, .name = ps_bytes_of_text("serving")};
    struct ps_taking taking;
    bool wakes;
    ck_assert_uint_eq(world_take(1, 1, NULL, &handle), 1);
    ck_assert_int_eq(ps_mailbox_take(&world, &named, world_now, &taking, &wakes, &world_error),
                     PS_OK);
    world_pass(99);
    (void)ps_mailbox_sweep(&world, world_now);
    ck_assert_int_eq(world_look(&asking, text), PS_ERR_NOT_READY);
    world_pass(1);
    ck_assert(ps_mailbox_sweep(&world, world_now));
    ck_assert_int_eq(world_look(&asking, text), PS_ERR_ABORTED);
    ck_assert_ptr_nonnull(strstr(world_error.text, "the taker \"serving\""));
    ck_assert_ptr_nonnull(strstr(world_error.text, "100 ms"));
    ck_assert_int_eq(world_answer(1, handle, "late", 1), PS_ERR_NOT_FOUND);
    world_stop(&asking);
}
END_TEST

/* Also a taker that has only said that it is there. */
START_TEST(a_taker_may_leave)
{
    char text[64];
    struct ps_taking taking;
    bool wakes;
    struct ps_asking asking = world_asked(0, 1);
    struct ps_take_request leave = {.app = WORLD_APP, .taker = 1, .leave = true, .again = true};
    ck_assert_uint_eq(world_take(1, 1, NULL, NULL), 1);
    ck_assert_int_eq(ps_mailbox_take(&world, &leave, world_now, &taking, &wakes, &world_error),
                     PS_OK);
    ck_assert(wakes);
    ck_assert_int_eq(world_look(&asking, text), PS_ERR_NOT_READY);
    ck_assert_uint_eq(world_take(2, 1, NULL, NULL), 1);
    leave = (struct ps_take_request){.app = WORLD_APP, .taker = 2, .leave = true};
    ck_assert_int_eq(ps_mailbox_take(&world, &leave, world_now, &taking, &wakes, &world_error),
                     PS_OK);
    ck_assert_int_eq(world_look(&asking, text), PS_ERR_ABORTED);
    world_stop(&asking);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mailbox_end");
    TCase *tests = tcase_create("mailbox_end");
    tcase_add_checked_fixture(tests, world_begin, world_end);
    tcase_add_test(tests, one_answer_for_each);
    tcase_add_test(tests, answers_are_kept_within_bounds);
    tcase_add_test(tests, a_taker_that_is_gone_fails_what_it_had);
    tcase_add_test(tests, a_taker_may_leave);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
