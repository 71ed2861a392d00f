/* SPDX-License-Identifier: Apache-2.0 */
/* Order: priorities, senders' numbers, gaps. */
#include "mailbox_world.h"

#include "run_suite.h"

static struct ps_asking asking[64];
static size_t asked;

static void ask_by(uint32_t worker, int32_t command, int32_t priority, uint64_t order,
                   uint64_t from)
{
    struct ps_ask_request request = world_request(worker, command);
    request.asked.priority = priority;
    request.sender = order != 0 ? 77 : 0;
    request.order = order;
    request.order_from = from;
    ck_assert_int_eq(world_ask(&request, "", &asking[asked++]), PS_OK);
}

static void expect_order(size_t count, const int32_t *expected)
{
    int32_t commands[64];
    ck_assert_uint_eq(world_take(1, 64, commands, NULL), count);
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(commands[i], expected[i]);
}

static void stop_all(void)
{
    while (asked > 0)
        world_stop(&asking[--asked]);
}

/* The reference hands these out as 11 1 7 2 3 0 4 5 8 6 10 9. */
START_TEST(the_order_experiment_prints_0_to_11)
{
    static const int32_t expected[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    for (int32_t i = 0; i < 12; i++)
        ask_by(0, i, 0, 0, 0);
    expect_order(12, expected);
    stop_all();
}
END_TEST

START_TEST(larger_priorities_first_and_equal_ones_stable)
{
    static const int32_t expected[] = {1, 4, 0, 3, 2, 5};
    static const int32_t priorities[] = {0, INT32_MAX, INT32_MIN, 0, INT32_MAX, INT32_MIN};
    for (int32_t i = 0; i < 6; i++)
        ask_by((uint32_t)i % 2, i, priorities[i], 0, 0);
    expect_order(6, expected);
    stop_all();
}
END_TEST

START_TEST(a_sender_numbers_its_requests)
{
    static const int32_t before[] = {1};
    static const int32_t behind[] = {2, 3, 4, 5};
    ask_by(0, 1, 0, 1, 1);
    ask_by(0, 4, 0, 4, 1);
    ask_by(0, 3, 0, 3, 1);
    ask_by(0, 5, 0, 5, 1);
    expect_order(1, before);
    ask_by(0, 2, 0, 2, 1);
    expect_order(4, behind);
    stop_all();
}
END_TEST

/* By the word of its sender, or after a while. */
START_TEST(gaps_close)
{
    static const int32_t by_word[] = {5, 6};
    static const int32_t by_time[] = {9, 10};
    ask_by(0, 1, 0, 1, 1);
    ck_assert_uint_eq(world_take(1, 64, NULL, NULL), 1);
    ask_by(0, 6, 0, 6, 1);
    ck_assert_uint_eq(world_take(1, 64, NULL, NULL), 0);
    ask_by(0, 5, 0, 5, 5);
    expect_order(2, by_word);
    ask_by(0, 9, 0, 9, 5);
    ask_by(0, 10, 0, 10, 5);
    ck_assert_uint_eq(world_take(1, 64, NULL, NULL), 0);
    world_pass(49);
    ck_assert(!ps_mailbox_sweep(&world, world_now));
    world_pass(1);
    ck_assert(ps_mailbox_sweep(&world, world_now));
    expect_order(2, by_time);
    stop_all();
}
END_TEST

/* The sender has given up what is held, and says so with a later one: its numbers go on from there,
 * and not from the held ones. */
START_TEST(what_is_held_when_its_sender_goes_on_does_not_turn_numbers_back)
{
    static const int32_t expected[] = {2, 5, 20, 21};
    ask_by(0, 2, 0, 2, 1);
    ask_by(0, 5, 0, 5, 1);
    ask_by(0, 20, 0, 20, 20);
    ps_mailbox_check(&world);
    ask_by(0, 21, 0, 21, 21);
    ps_mailbox_check(&world);
    expect_order(4, expected);

    struct ps_ask_request late = world_request(0, 4);
    struct ps_asking refused;
    late.sender = 77;
    late.order = 4;
    late.order_from = 1;
    ck_assert_int_eq(world_ask(&late, "", &refused), PS_ERR_ABORTED);
    stop_all();
}
END_TEST

START_TEST(a_number_that_has_come_is_not_carried_out_again)
{
    struct ps_ask_request request = world_request(0, 1);
    struct ps_asking again;
    ask_by(0, 1, 0, 1, 1);
    ask_by(0, 2, 0, 2, 1);
    request.sender = 77;
    request.order = 1;
    request.token = 4;
    ck_assert_int_eq(world_ask(&request, "", &again), PS_ERR_ABORTED);
    stop_all();
}
END_TEST

/* Of senders without anything open the one goes that was silent for longest. */
START_TEST(senders_have_a_bound)
{
    struct ps_asking open[11];
    struct ps_ask_request request = world_request(0, 1);
    request.order = 1;
    for (uint64_t i = 0; i < 10; i++) {
        request.sender = i + 1;
        ck_assert_int_eq(world_ask(&request, "", &open[i]), PS_OK);
        world_pass(1);
    }
    request.sender = 11;
    ck_assert_int_eq(world_ask(&request, "", &open[10]), PS_ERR_BUSY);
    world_stop(&open[3]);
    ck_assert_int_eq(world_ask(&request, "", &open[10]), PS_OK);
    for (size_t i = 0; i < 11; i++)
        world_stop(&open[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mailbox_order");
    TCase *tests = tcase_create("mailbox_order");
    tcase_add_checked_fixture(tests, world_begin, world_end);
    tcase_add_test(tests, the_order_experiment_prints_0_to_11);
    tcase_add_test(tests, larger_priorities_first_and_equal_ones_stable);
    tcase_add_test(tests, a_sender_numbers_its_requests);
    tcase_add_test(tests, gaps_close);
    tcase_add_test(tests, what_is_held_when_its_sender_goes_on_does_not_turn_numbers_back);
    tcase_add_test(tests, a_number_that_has_come_is_not_carried_out_again);
    tcase_add_test(tests, senders_have_a_bound);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
