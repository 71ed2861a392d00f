/* SPDX-License-Identifier: Apache-2.0 */
/* Taking: gangs, turns, takers. */
#include "mailbox_world.h"

#include "run_suite.h"

#include <string.h>

START_TEST(a_gang_is_whole_or_waits)
{
    static const uint32_t gang[] = {2, 0, 1};
    int32_t commands[3];
    struct ps_asking asking[4];
    asking[0] = world_asked(0, 10);
    asking[1] = world_asked(2, 12);
    asking[2] = world_asked(0, 20);
    ck_assert_uint_eq(world_take_gang(1, gang, 3, false, false, commands, NULL), 0);
    ck_assert_uint_eq(world_take_gang(1, gang, 3, false, true, commands, NULL), 0);
    ck_assert_uint_eq(world_take_gang(1, gang, 3, true, false, commands, NULL), 0);
    asking[3] = world_asked(1, 11);
    ck_assert_uint_eq(world_take_gang(1, gang, 3, false, false, commands, NULL), 3);
    ck_assert_int_eq(commands[0], 12);
    ck_assert_int_eq(commands[1], 10);
    ck_assert_int_eq(commands[2], 11);
    ck_assert_uint_eq(world_take_gang(1, gang, 3, true, true, commands, NULL), 1);
    ck_assert_int_eq(commands[0], 20);
    for (int i = 0; i < 4; i++)
        world_stop(&asking[i]);
}
END_TEST

static enum ps_status begin(const struct ps_take_request *take, struct ps_taking *taking)
{
    bool wakes;
    return ps_mailbox_take(&world, take, world_now, taking, &wakes, &world_error);
}

static enum ps_status look(struct ps_taking *taking)
{
    return ps_mailbox_collect(&world, taking, 1 << 20, false, world_now, &world_error);
}

START_TEST(a_turn_that_is_said_again_gets_the_same)
{
    struct ps_taking first, again, later;
    struct ps_take_request take = {.app = WORLD_APP, .taker = 1, .turn = 1, .max = 2};
    struct ps_asking asking[3];
    for (int i = 0; i < 3; i++)
        asking[i] = world_asked(0, i);
    ck_assert_int_eq(begin(&take, &first), PS_OK);
    ck_assert_int_eq(look(&first), PS_OK);
    ck_assert_int_eq(begin(&take, &again), PS_OK);
    ck_assert_int_eq(look(&again), PS_OK);
    ck_assert_uint_eq(again.row_count, 2);
    ck_assert_uint_eq(again.rows[0].handle, first.rows[0].handle);
    ck_assert_int_eq(world_answer(1, first.rows[0].handle, "", 1), PS_OK);
    ck_assert_int_eq(begin(&take, &later), PS_OK);
    ck_assert_int_eq(look(&later), PS_OK);
    ck_assert_uint_eq(later.row_count, 1);
    ps_mailbox_stop_taking(&world, &later, world_now);
    take.turn = 2;
    ck_assert_int_eq(begin(&take, &later), PS_OK);
    ck_assert_int_eq(look(&later), PS_OK);
    ck_assert_int_eq(later.rows[0].asked.command, 2);
    take.turn = 1;
    ps_mailbox_stop_taking(&world, &later, world_now);
    ck_assert_int_eq(begin(&take, &later), PS_ERR_ABORTED);
    ps_mailbox_stop_taking(&world, &first, world_now);
    ps_mailbox_stop_taking(&world, &again, world_now);
    for (int i = 0; i < 3; i++)
        world_stop(&asking[i]);
}
END_TEST

START_TEST(the_last_call_of_a_taker_is_the_one_that_takes)
{
    struct ps_taking first, second;
    const struct ps_take_request take = {.app = WORLD_APP, .taker = 1, .turn = 1};
    ck_assert_int_eq(begin(&take, &first), PS_OK);
    ck_assert_int_eq(look(&first), PS_ERR_NOT_READY);
    ck_assert_int_eq(begin(&take, &second), PS_OK);
    ck_assert_int_eq(look(&first), PS_ERR_CANCELLED);
    struct ps_asking asking = world_asked(0, 1);
    ck_assert_int_eq(look(&second), PS_OK);
    ps_mailbox_stop_taking(&world, &first, world_now);
    ps_mailbox_stop_taking(&world, &second, world_now);
    world_stop(&asking);
}
END_TEST

/* "Nobody has taken it" would be as good as a promise that nobody has begun it. */
START_TEST(a_request_that_was_given_back_is_not_said_to_be_untaken)
{
    struct ps_taking taking;
    struct ps_take_request take = {
        .app = WORLD_APP, .taker = 1, .turn = 1, .max = 1, .again = true};
    struct ps_asking asking = world_asked(0, 7);
    ck_assert_int_eq(begin(&take, &taking), PS_OK);
    ck_assert_int_eq(look(&taking), PS_OK);
    ck_assert_uint_eq(taking.row_count, 1);
    ps_mailbox_stop_taking(&world, &taking, world_now);
    take.leave = true;
    ck_assert_int_eq(begin(&take, &taking), PS_OK);

    ck_assert_int_eq(ps_mailbox_await(&world, &asking, world_now, true, &world_error),
                     PS_ERR_TIMEOUT);

    ck_assert_ptr_nonnull(strstr(world_error.text, "may have been begun"));
    world_stop(&asking);
}
END_TEST

START_TEST(what_is_wrong_is_refused)
{
    static const uint32_t twice[] = {1, 2, 1};
    struct ps_taking taking;
    struct ps_take_request take = {.app = WORLD_APP, .turn = 1};
    ck_assert_int_eq(begin(&take, &taking), PS_ERR_BAD_INPUT);
    take = (struct ps_take_request){.app = WORLD_APP, .taker = 1};
    ck_assert_int_eq(begin(&take, &taking), PS_ERR_BAD_INPUT);
    take.turn = 1;
    take.workers = twice;
    take.worker_count = 3;
    ck_assert_int_eq(begin(&take, &taking), PS_ERR_BAD_INPUT);
    for (uint64_t taker = 1; taker <= 10; taker++)
        ck_assert_uint_eq(world_take(taker, 1, NULL, NULL), 0);
    take = (struct ps_take_request){.app = WORLD_APP, .taker = 11, .turn = 1};
    ck_assert_int_eq(begin(&take, &taking), PS_ERR_BUSY);
}
END_TEST

/* Each call of it, and each word of its, is heard. */
START_TEST(a_taker_that_waits_is_there)
{
    struct ps_taking taking;
    const struct ps_take_request take = {.app = WORLD_APP, .taker = 1, .turn = 1};
    ck_assert_int_eq(begin(&take, &taking), PS_OK);
    world_pass(1000);
    (void)ps_mailbox_sweep(&world, world_now);
    ck_assert_int_eq(look(&taking), PS_ERR_NOT_READY);
    ps_mailbox_stop_taking(&world, &taking, world_now);
    world_pass(100);
    (void)ps_mailbox_sweep(&world, world_now);
    (void)ps_mailbox_sweep(&world, world_now);
    uint64_t apps, bytes;
    ps_mailbox_count(&world, &apps, &bytes);
    ck_assert_uint_eq(apps, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mailbox_take");
    TCase *tests = tcase_create("mailbox_take");
    tcase_add_checked_fixture(tests, world_begin, world_end);
    tcase_add_test(tests, a_gang_is_whole_or_waits);
    tcase_add_test(tests, a_turn_that_is_said_again_gets_the_same);
    tcase_add_test(tests, the_last_call_of_a_taker_is_the_one_that_takes);
    tcase_add_test(tests, a_request_that_was_given_back_is_not_said_to_be_untaken);
    tcase_add_test(tests, what_is_wrong_is_refused);
    tcase_add_test(tests, a_taker_that_waits_is_there);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
