/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow's cases of a rendezvous, under their names, and those of its legacy table. What takes
 * two threads there takes two calls here, in a given order; test_rendezvous_manager.c and
 * test_rendezvous_threads.c have the threads. */
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

START_TEST(send_recv)
{
    ck_assert_int_eq(world_send("foo", "hello"), PS_OK);

    ck_assert_int_eq(world_poll(WORLD_STEP, "foo", text), PS_OK);
    ck_assert_str_eq(text, "hello");
}
END_TEST

START_TEST(recv_send)
{
    ck_assert_int_eq(begin_receive(0, "foo"), PS_OK);
    ck_assert_int_eq(world_look(&calls[0], text), PS_ERR_NOT_READY);

    ck_assert_int_eq(world_send("foo", "hello"), PS_OK);

    ck_assert_int_eq(world_look(&calls[0], text), PS_OK);
    ck_assert_str_eq(text, "hello");
}
END_TEST

START_TEST(ping_pong)
{
    ck_assert_int_eq(begin_receive(0, "foo"), PS_OK);
    ck_assert_int_eq(begin_receive(1, "bar"), PS_OK);
    ck_assert_int_eq(world_send("foo", "secret"), PS_OK);
    ck_assert_int_eq(world_look(&calls[0], text), PS_OK);
    ck_assert_int_eq(world_send("bar", text), PS_OK);

    ck_assert_int_eq(world_look(&calls[1], text), PS_OK);
    ck_assert_str_eq(text, "secret");
}
END_TEST

START_TEST(cancel_before_recv)
{
    world_give_back(WORLD_STEP, 100);

    ck_assert_int_eq(begin_receive(0, "foo"), PS_OK);
    ck_assert_int_eq(world_look(&calls[0], text), PS_ERR_CANCELLED);
    ck_assert_int_eq(world_send("foo", "for another"), PS_OK);
    ck_assert_int_eq(world_poll(WORLD_STEP, "foo", text), PS_OK);
}
END_TEST

START_TEST(cancel_after_recv)
{
    ck_assert_int_eq(begin_receive(0, "foo"), PS_OK);
    world_give_back(WORLD_STEP, 100);

    ck_assert_int_eq(world_look(&calls[0], text), PS_ERR_CANCELLED);
}
END_TEST

START_TEST(cancel_empty_queue)
{
    ck_assert_int_eq(begin_receive(0, "foo"), PS_OK);
    ck_assert_int_eq(world_send("foo", "hello"), PS_OK);
    ck_assert_int_eq(world_look(&calls[0], text), PS_OK);
    world_done(WORLD_STEP, 100);
    world_give_back(WORLD_STEP, 100);

    ck_assert_str_eq(text, "hello");
    ck_assert_int_eq(world_poll(WORLD_STEP, "foo", text), PS_ERR_NOT_READY);
}
END_TEST

START_TEST(cancel_multiple)
{
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(begin_receive(i, "foo"), PS_OK);
    world_give_back(WORLD_STEP, 101);
    world_give_back(WORLD_STEP, 103);

    ck_assert_int_eq(world_send("foo", "first"), PS_OK);
    ck_assert_int_eq(world_send("foo", "second"), PS_OK);

    ck_assert_int_eq(world_look(&calls[0], text), PS_OK);
    ck_assert_str_eq(text, "first");
    ck_assert_int_eq(world_look(&calls[1], text), PS_ERR_CANCELLED);
    ck_assert_int_eq(world_look(&calls[2], text), PS_OK);
    ck_assert_str_eq(text, "second");
    ck_assert_int_eq(world_look(&calls[3], text), PS_ERR_CANCELLED);
}
END_TEST

START_TEST(multi_sends)
{
    char word[16];
    for (int i = 0; i < 100; i++) {
        (void)snprintf(word, sizeof word, "%d", i);
        ck_assert_int_eq(world_send("foo", word), PS_OK);
    }

    for (int i = 0; i < 100; i++) {
        (void)snprintf(word, sizeof word, "%d", i);
        ck_assert_int_eq(world_poll(WORLD_STEP, "foo", text), PS_OK);
        ck_assert_str_eq(text, word);
    }
}
END_TEST

START_TEST(recv_abort)
{
    ck_assert_int_eq(begin_receive(0, "foo"), PS_OK);
    world_abort(WORLD_STEP, "fantasia!");

    ck_assert_int_eq(world_look(&calls[0], text), PS_ERR_ABORTED);
    ck_assert_str_eq(world_error.text, "fantasia!");
}
END_TEST

START_TEST(abort_then_recv_or_send)
{
    ck_assert_int_eq(world_send("queued", "is dropped"), PS_OK);
    world_abort(WORLD_STEP, "fantasia!");
    world_abort(WORLD_STEP, "a later one");

    ck_assert_int_eq(world_send("foo", "hello"), PS_ERR_ABORTED);
    ck_assert_str_eq(world_error.text, "fantasia!");
    ck_assert_int_eq(begin_receive(0, "queued"), PS_ERR_ABORTED);
    ck_assert_str_eq(world_error.text, "fantasia!");
    ck_assert_uint_eq(world.bytes, 0);
}
END_TEST

/* What a device context is there is the facts here: they reach whoever receives. */
START_TEST(transfer_dummy_device_context)
{
    const struct ps_value_facts facts = {
        .dtype = 123, .element_size = 4, .rank = 2, .extents = {1, 2}, .dead = true};
    const uint8_t numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const struct ps_bytes bytes = {numbers, sizeof numbers};
    const struct ps_rendezvous_of of = {.step = WORLD_STEP, .now_ms = 1};
    const struct ps_hold none = {.keep = NULL};
    uint64_t epoch;
    bool wakes;
    ck_assert_int_eq(world_send_value(&of, "foo", 0,
                                      ps_held_value_create(ps_allocator_heap(), &facts,
                                                           ps_view_of(&bytes), &none),
                                      &epoch, &wakes, NULL),
                     PS_OK);

    ck_assert_int_eq(begin_receive(0, "foo"), PS_OK);
    ck_assert_int_eq(ps_rendezvous_collect(&world, &calls[0], 1, 1000, false, NULL), PS_OK);
    const struct ps_held_value *value = calls[0].rows[0].value;
    ck_assert_mem_eq(&value->facts, &facts, sizeof facts);
    ck_assert_mem_eq(value->content.pieces[0].data, numbers, sizeof numbers);
    ps_rendezvous_release(&world, &calls[0]);
}
END_TEST

/* ---- The legacy table: a strict step ---- */

START_TEST(legacy_send_twice)
{
    ck_assert_int_eq(world_step_begin(WORLD_STEP, "w", true), PS_OK);
    ck_assert_int_eq(world_send("foo", "hello"), PS_OK);

    ck_assert_int_eq(world_send("foo", "again"), PS_ERR_ABORTED);
    ck_assert_str_eq(world_error.text, "Duplicated send: foo");
    ck_assert_int_eq(world_poll(WORLD_STEP, "foo", text), PS_OK);
    ck_assert_str_eq(text, "hello");
    ck_assert_int_eq(world_send("foo", "after consumption"), PS_ERR_ABORTED);
}
END_TEST

START_TEST(duplicate_waiter_recv)
{
    ck_assert_int_eq(world_step_begin(WORLD_STEP, "w", true), PS_OK);
    ck_assert_int_eq(begin_receive(0, "foo"), PS_OK);

    ck_assert_int_eq(begin_receive(1, "foo"), PS_OK);
    ck_assert_int_eq(world_look(&calls[1], text), PS_ERR_ABORTED);
    ck_assert_int_eq(world_send("foo", "secret"), PS_OK);
    ck_assert_int_eq(world_look(&calls[0], text), PS_OK);
    ck_assert_str_eq(text, "secret");
}
END_TEST

START_TEST(duplicate_serial_recv)
{
    ck_assert_int_eq(world_step_begin(WORLD_STEP, "w", true), PS_OK);
    ck_assert_int_eq(world_send("foo", "hello"), PS_OK);
    ck_assert_int_eq(world_poll(WORLD_STEP, "foo", text), PS_OK);

    ck_assert_int_eq(world_poll(WORLD_STEP, "foo", text), PS_ERR_ABORTED);
}
END_TEST

START_TEST(a_strict_receive_that_gave_up_may_come_again)
{
    ck_assert_int_eq(world_step_begin(WORLD_STEP, "w", true), PS_OK);
    ck_assert_int_eq(world_poll(WORLD_STEP, "foo", text), PS_ERR_NOT_READY);

    ck_assert_int_eq(world_send("foo", "hello"), PS_OK);
    ck_assert_int_eq(world_poll(WORLD_STEP, "foo", text), PS_OK);
    ck_assert_str_eq(text, "hello");
}
END_TEST

/* ---- RendezvousUtil: lists of keys ---- */

static void receive_list(bool sends_first)
{
    const struct ps_rendezvous_of of = {.step = WORLD_STEP, .now_ms = 1};
    const struct ps_rendezvous_wish wishes[] = {{.id = 1, .key = ps_bytes_of_text("hello1")},
                                                {.id = 2, .key = ps_bytes_of_text("hello2")}};
    const struct ps_rendezvous_asked asked = {.wishes = wishes, .wish_count = 2};
    struct ps_receiving receiving = {.step = NULL};
    bool wakes;
    for (int turn = 0; turn < 2; turn++) {
        if ((turn == 0) == sends_first) {
            ck_assert_int_eq(world_send("hello2", "b"), PS_OK);
            ck_assert_int_eq(world_send("hello1", "a"), PS_OK);
        } else {
            ck_assert_int_eq(ps_rendezvous_receive(&world, &of, &asked, &receiving, &wakes, NULL),
                             PS_OK);
        }
    }
    ck_assert_int_eq(ps_rendezvous_collect(&world, &receiving, 2, 1000, false, NULL), PS_OK);
    ck_assert_uint_eq(receiving.count, 2);
    ck_assert_int_eq(receiving.rows[0].value->content.pieces[0].data[0], 'a');
    ck_assert_int_eq(receiving.rows[1].value->content.pieces[0].data[0], 'b');
    ps_rendezvous_release(&world, &receiving);
}

START_TEST(send_before_recv)
{
    receive_list(true);
}
END_TEST

START_TEST(recv_before_send)
{
    receive_list(false);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rendezvous_match");
    TCase *tests = tcase_create("rendezvous_match");
    tcase_add_checked_fixture(tests, world_begin, world_end);
    tcase_add_test(tests, send_recv);
    tcase_add_test(tests, recv_send);
    tcase_add_test(tests, ping_pong);
    tcase_add_test(tests, cancel_before_recv);
    tcase_add_test(tests, cancel_after_recv);
    tcase_add_test(tests, cancel_empty_queue);
    tcase_add_test(tests, cancel_multiple);
    tcase_add_test(tests, multi_sends);
    tcase_add_test(tests, recv_abort);
    tcase_add_test(tests, abort_then_recv_or_send);
    tcase_add_test(tests, transfer_dummy_device_context);
    tcase_add_test(tests, legacy_send_twice);
    tcase_add_test(tests, duplicate_waiter_recv);
    tcase_add_test(tests, duplicate_serial_recv);
    tcase_add_test(tests, a_strict_receive_that_gave_up_may_come_again);
    tcase_add_test(tests, send_before_recv);
    tcase_add_test(tests, recv_before_send);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
