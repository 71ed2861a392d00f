/* SPDX-License-Identifier: Apache-2.0 */
/* Lives, apps and time. */
#include "mailbox_world.h"

#include "run_suite.h"

#include <string.h>

START_TEST(another_life_ends_everything)
{
    char text[64];
    struct ps_ask_request request = world_request(0, 1);
    struct ps_asking waits, taken;
    request.token = 3;
    ck_assert_int_eq(world_ask(&request, "a", &taken), PS_OK);
    ck_assert_uint_eq(world_take(1, 1, NULL, NULL), 1);
    waits = world_asked(0, 2);
    ps_mailbox_own(&world, 7);
    ps_mailbox_lose(&world, 10, world_now);
    ps_mailbox_check(&world);
    ck_assert_uint_eq(ps_mailbox_epoch(&world), 10);
    ck_assert_int_eq(world_look(&taken, text), PS_ERR_ABORTED);
    ck_assert_ptr_nonnull(strstr(world_error.text, "the server of shard 7 is another one"));
    ck_assert_int_eq(world_look(&waits, text), PS_ERR_ABORTED);
    world_stop(&waits);
    world_stop(&taken);
    request.epoch = WORLD_LIFE;
    ck_assert_int_eq(world_ask(&request, "a", &taken), PS_ERR_ABORTED);
    request.epoch = 10;
    ck_assert_int_eq(world_ask(&request, "a", &taken), PS_OK);
    world_stop(&taken);
}
END_TEST

/* By the token alone, as of a client that had no answer of either life. */
START_TEST(a_repeat_that_knows_no_life_is_joined_where_it_is_known_and_nowhere_else)
{
    struct ps_ask_request request = world_request(0, 1);
    struct ps_asking first, again;
    request.token = 3;
    ck_assert_int_eq(world_ask(&request, "a", &first), PS_OK);
    request.epoch = PS_EPOCH_BY_TOKEN;
    ck_assert_int_eq(world_ask(&request, "a", &again), PS_OK);
    ck_assert_ptr_eq(again.request, first.request);
    world_stop(&first);
    world_stop(&again);

    ps_mailbox_lose(&world, 10, world_now);

    ck_assert_int_eq(world_ask(&request, "a", &again), PS_ERR_ABORTED);
    ck_assert_uint_eq(world_error.session, 10);
    ck_assert_uint_eq(world_take(1, 1, NULL, NULL), 0);
}
END_TEST

START_TEST(no_more_apps_than_there_may_be)
{
    struct ps_asking asking[11];
    struct ps_ask_request request = world_request(0, 0);
    for (uint32_t i = 0; i < 10; i++) {
        request.asked.app = i;
        ck_assert_int_eq(world_ask(&request, "", &asking[i]), PS_OK);
    }
    request.asked.app = 10;
    ck_assert_int_eq(world_ask(&request, "", &asking[10]), PS_ERR_BUSY);
    ck_assert_ptr_nonnull(strstr(world_error.text, "app 10"));
    for (uint32_t i = 0; i < 10; i++)
        world_stop(&asking[i]);
    /* An app that nobody uses goes with the next turn. */
    (void)ps_mailbox_sweep(&world, world_now);
    ck_assert_int_eq(world_ask(&request, "", &asking[10]), PS_OK);
    world_stop(&asking[10]);
}
END_TEST

START_TEST(a_request_that_nobody_waits_for_waits_a_while)
{
    uint64_t apps, bytes;
    struct ps_ask_request request = world_request(0, 1);
    struct ps_asking asking;
    request.token = 3;
    ck_assert_int_eq(world_ask(&request, "a", &asking), PS_OK);
    world_stop(&asking);
    world_pass(999);
    (void)ps_mailbox_sweep(&world, world_now);
    ck_assert_int_eq(world_ask(&request, "a", &asking), PS_OK);
    world_stop(&asking);
    world_pass(1);
    (void)ps_mailbox_sweep(&world, world_now);
    ck_assert_uint_eq(world_take(1, 1, NULL, NULL), 0);
    world_pass(1000);
    (void)ps_mailbox_sweep(&world, world_now);
    (void)ps_mailbox_sweep(&world, world_now);
    ps_mailbox_count(&world, &apps, &bytes);
    ck_assert_uint_eq(bytes, 0);
    ck_assert_uint_eq(apps, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mailbox");
    TCase *tests = tcase_create("mailbox");
    tcase_add_checked_fixture(tests, world_begin, world_end);
    tcase_add_test(tests, another_life_ends_everything);
    tcase_add_test(tests, a_repeat_that_knows_no_life_is_joined_where_it_is_known_and_nowhere_else);
    tcase_add_test(tests, no_more_apps_than_there_may_be);
    tcase_add_test(tests, a_request_that_nobody_waits_for_waits_a_while);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
