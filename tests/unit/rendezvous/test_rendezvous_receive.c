/* SPDX-License-Identifier: Apache-2.0 */
/* Receives have ids: what is got once is got again, until it is done with or given back. */
#include "rendezvous_world.h"

#include "run_suite.h"

#include <stdio.h>
#include <string.h>

static char text[WORLD_TEXT_BYTES];
static struct ps_receiving calls[8];

static enum ps_status begin_receive(int call, const char *key)
{
    return world_ask(WORLD_STEP, 100 + (uint64_t)call, key, &calls[call]);
}

START_TEST(the_same_id_gets_the_same_value_again_until_it_is_done)
{
    ck_assert_int_eq(world_send("foo", "first"), PS_OK);
    ck_assert_int_eq(world_send("foo", "second"), PS_OK);
    ck_assert_int_eq(begin_receive(0, "foo"), PS_OK);
    ck_assert_int_eq(world_look(&calls[0], text), PS_OK);

    ck_assert_int_eq(begin_receive(0, "foo"), PS_OK);
    ck_assert_int_eq(world_look(&calls[0], text), PS_OK);
    ck_assert_str_eq(text, "first");
    world_done(WORLD_STEP, 100);
    ck_assert_int_eq(begin_receive(0, "foo"), PS_OK);
    ck_assert_int_eq(world_look(&calls[0], text), PS_ERR_CANCELLED);
    ck_assert_int_eq(world_poll(WORLD_STEP, "foo", text), PS_OK);
    ck_assert_str_eq(text, "second");
}
END_TEST

START_TEST(two_calls_of_one_receive_get_one_value)
{
    ck_assert_int_eq(begin_receive(0, "foo"), PS_OK);
    ck_assert_int_eq(world_ask(WORLD_STEP, 100, "foo", &calls[1]), PS_OK);
    ps_rendezvous_release(&world, &calls[0]);

    ck_assert_int_eq(world_send("foo", "one"), PS_OK);
    ck_assert_int_eq(world_look(&calls[1], text), PS_OK);
    ck_assert_str_eq(text, "one");
}
END_TEST

START_TEST(a_value_that_is_given_back_is_the_next_one)
{
    ck_assert_int_eq(world_send("foo", "first"), PS_OK);
    ck_assert_int_eq(world_send("foo", "second"), PS_OK);
    ck_assert_int_eq(begin_receive(0, "foo"), PS_OK);
    ck_assert_int_eq(world_look(&calls[0], text), PS_OK);
    world_give_back(WORLD_STEP, 100);

    ck_assert_int_eq(world_poll(WORLD_STEP, "foo", text), PS_OK);
    ck_assert_str_eq(text, "first");
}
END_TEST

START_TEST(a_value_that_is_given_back_goes_to_whoever_waits)
{
    ck_assert_int_eq(begin_receive(0, "foo"), PS_OK);
    ck_assert_int_eq(begin_receive(1, "foo"), PS_OK);
    ck_assert_int_eq(world_send("foo", "hello"), PS_OK);
    world_give_back(WORLD_STEP, 100);

    ck_assert_int_eq(world_look(&calls[0], text), PS_ERR_CANCELLED);
    ck_assert_int_eq(world_look(&calls[1], text), PS_OK);
    ck_assert_str_eq(text, "hello");
}
END_TEST

static void cancel(uint64_t id)
{
    const struct ps_rendezvous_of of = {.step = WORLD_STEP, .now_ms = world_now_ms};
    struct ps_receiving none = {.step = NULL};
    bool wakes;
    ck_assert_int_eq(
        ps_rendezvous_receive(&world, &of,
                              &(struct ps_rendezvous_asked){.cancel = &id, .cancel_count = 1},
                              &none, &wakes, &world_error),
        PS_OK);
    ps_rendezvous_release(&world, &none);
}

/* Its answer may be on its way while the cancellation comes. */
START_TEST(a_receive_that_is_cancelled_keeps_what_it_has)
{
    struct ps_receiving receiving;
    ck_assert_int_eq(world_send("foo", "hello"), PS_OK);
    ck_assert_int_eq(world_ask(WORLD_STEP, 5, "foo", &receiving), PS_OK);
    ck_assert_int_eq(world_look(&receiving, text), PS_OK);
    cancel(5);
    ck_assert_int_eq(world_poll(WORLD_STEP, "foo", text), PS_ERR_NOT_READY);
    ck_assert_int_eq(world_ask(WORLD_STEP, 5, "foo", &receiving), PS_OK);
    ck_assert_int_eq(world_look(&receiving, text), PS_OK);
    ck_assert_str_eq(text, "hello");
    world_done(WORLD_STEP, 5);
}
END_TEST

START_TEST(a_receive_that_is_cancelled_without_a_value_gets_none)
{
    struct ps_receiving receiving;
    ck_assert_int_eq(world_ask(WORLD_STEP, 5, "foo", &receiving), PS_OK);
    cancel(5);
    ck_assert_int_eq(world_look(&receiving, text), PS_ERR_CANCELLED);
    ck_assert_int_eq(world_send("foo", "hello"), PS_OK);
    /* Also one that was between two calls when it was cancelled. */
    ck_assert_int_eq(world_ask(WORLD_STEP, 5, "foo", &receiving), PS_OK);
    ck_assert_int_eq(world_look(&receiving, text), PS_ERR_CANCELLED);
    ck_assert_int_eq(world_poll(WORLD_STEP, "foo", text), PS_OK);
}
END_TEST

START_TEST(a_receive_that_has_left_takes_nothing)
{
    ck_assert_int_eq(begin_receive(0, "foo"), PS_OK);
    ps_rendezvous_release(&world, &calls[0]);

    ck_assert_int_eq(world_send("foo", "hello"), PS_OK);
    ck_assert_int_eq(world_poll(WORLD_STEP, "foo", text), PS_OK);
    ck_assert_str_eq(text, "hello");
}
END_TEST

/* Its client knew no epoch, and has gone or has its answer: nobody would read what it took. */
START_TEST(a_copy_of_a_receive_takes_nothing_of_the_next_step_of_the_number)
{
    struct ps_receiving *copy = &calls[1];
    ck_assert_int_eq(world_send("foo", "of the first"), PS_OK);
    ck_assert_int_eq(world_ask(WORLD_STEP, 5, "foo", &calls[0]), PS_OK);
    ck_assert_int_eq(world_look(&calls[0], text), PS_OK);
    world_cleanup(WORLD_STEP);
    ck_assert_int_eq(world_send("foo", "of the second"), PS_OK);

    ck_assert_int_eq(world_ask(WORLD_STEP, 5, "foo", copy), PS_ERR_ABORTED);
    ck_assert_str_eq(world_error.text, "Cleanup 123");
    ck_assert_int_eq(world_poll(WORLD_STEP, "foo", text), PS_OK);
    ck_assert_str_eq(text, "of the second");
    ck_assert_int_eq(world_ask(WORLD_STEP, 5, "foo", copy), PS_ERR_ABORTED);
}
END_TEST

/* One that waited and has left with nothing, too; in its own step it may come again. */
START_TEST(a_receive_that_got_nothing_is_of_its_step_as_well)
{
    struct ps_receiving *copy = &calls[1];
    ck_assert_int_eq(world_ask(WORLD_STEP, 5, "foo", &calls[0]), PS_OK);
    ps_rendezvous_release(&world, &calls[0]);
    ck_assert_int_eq(world_ask(WORLD_STEP, 5, "foo", &calls[0]), PS_OK);
    ps_rendezvous_release(&world, &calls[0]);
    ps_rendezvous_lose(&world, 78);

    ck_assert_int_eq(world_ask(WORLD_STEP, 5, "foo", copy), PS_ERR_ABORTED);
    ck_assert_int_eq(world_ask(WORLD_STEP, 6, "foo", &calls[0]), PS_OK);
    ck_assert_int_eq(world_ask(9, 5, "foo", copy), PS_OK);
    ps_rendezvous_release(&world, &calls[0]);
    ps_rendezvous_release(&world, copy);
}
END_TEST

/* What was refused has changed nothing: the next step may be the first to have room for it. */
START_TEST(a_receive_that_found_no_room_is_of_no_step)
{
    struct ps_rendezvous_bounds bounds = world_bounds();
    world_end();
    bounds.step_entries_max = 2;
    world_begin_with(ps_allocator_heap(), &bounds);
    ck_assert_int_eq(world_send("a", "x"), PS_OK);
    ck_assert_int_eq(world_send("b", "x"), PS_OK);
    ck_assert_int_eq(world_ask(WORLD_STEP, 5, "foo", &calls[0]), PS_ERR_BUSY);
    world_cleanup(WORLD_STEP);

    ck_assert_int_eq(world_ask(WORLD_STEP, 5, "foo", &calls[0]), PS_OK);
    ps_rendezvous_release(&world, &calls[0]);
}
END_TEST

START_TEST(keys_and_ids_are_checked)
{
    char longest[1026];
    memset(longest, 'k', sizeof longest);
    longest[1025] = '\0';
    ck_assert_int_eq(world_send("", "x"), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(world_send(longest, "x"), PS_ERR_BAD_INPUT);
    longest[1024] = '\0';
    ck_assert_int_eq(world_send(longest, "x"), PS_OK);
    ck_assert_int_eq(world_ask(WORLD_STEP, 0, "k", &calls[0]), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(world_ask(WORLD_STEP, 1, "", &calls[0]), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(world_ask(WORLD_STEP, 1, "k", &calls[0]), PS_OK);
    ck_assert_int_eq(world_ask(WORLD_STEP, 1, "l", &calls[1]), PS_OK);
    ck_assert_int_eq(world_look(&calls[1], text), PS_ERR_BAD_INPUT);
    ps_rendezvous_release(&world, &calls[0]);
}
END_TEST

START_TEST(a_reply_has_one_value_at_least_and_no_more_than_fit)
{
    const struct ps_rendezvous_of of = {.step = WORLD_STEP, .now_ms = 1};
    const struct ps_rendezvous_wish wishes[] = {{.id = 1, .key = ps_bytes_of_text("a")},
                                                {.id = 2, .key = ps_bytes_of_text("b")}};
    const struct ps_rendezvous_asked asked = {.wishes = wishes, .wish_count = 2};
    struct ps_receiving receiving = {.step = NULL};
    bool wakes;
    ck_assert_int_eq(world_send("a", "longer"), PS_OK);
    ck_assert_int_eq(world_send("b", "longer"), PS_OK);
    ck_assert_int_eq(ps_rendezvous_receive(&world, &of, &asked, &receiving, &wakes, NULL), PS_OK);

    ck_assert_int_eq(ps_rendezvous_collect(&world, &receiving, 2, 3, false, NULL), PS_OK);
    ck_assert_ptr_nonnull(receiving.rows[0].value);
    ck_assert_ptr_null(receiving.rows[1].value);
    ps_rendezvous_release(&world, &receiving);
    ck_assert_int_eq(world_ask(WORLD_STEP, 2, "b", &receiving), PS_OK);
    ck_assert_int_eq(world_look(&receiving, text), PS_OK);
    ck_assert_str_eq(text, "longer");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rendezvous_receive");
    TCase *tests = tcase_create("rendezvous_receive");
    tcase_add_checked_fixture(tests, world_begin, world_end);
    tcase_add_test(tests, the_same_id_gets_the_same_value_again_until_it_is_done);
    tcase_add_test(tests, two_calls_of_one_receive_get_one_value);
    tcase_add_test(tests, a_value_that_is_given_back_is_the_next_one);
    tcase_add_test(tests, a_value_that_is_given_back_goes_to_whoever_waits);
    tcase_add_test(tests, a_receive_that_is_cancelled_keeps_what_it_has);
    tcase_add_test(tests, a_receive_that_is_cancelled_without_a_value_gets_none);
    tcase_add_test(tests, a_receive_that_has_left_takes_nothing);
    tcase_add_test(tests, a_copy_of_a_receive_takes_nothing_of_the_next_step_of_the_number);
    tcase_add_test(tests, a_receive_that_got_nothing_is_of_its_step_as_well);
    tcase_add_test(tests, a_receive_that_found_no_room_is_of_no_step);
    tcase_add_test(tests, keys_and_ids_are_checked);
    tcase_add_test(tests, a_reply_has_one_value_at_least_and_no_more_than_fit);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
