/* SPDX-License-Identifier: Apache-2.0 */
/* Who works for the channel: callers that poll, or its own thread. */
#include "client/channel/channel.h"

#include "base/clock.h"
#include "base/thread.h"
#include "run_suite.h"
#include "tests/support/client/fake_server.h"

#include <check.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define LONG_MS 120000

static struct fake_server *server;
static struct ps_channel channel;
static struct ps_bytes content = {(const uint8_t *)"1234", 4};
static struct ps_call_request push;

static void open_channel(void)
{
    server = fake_server_start(0);
    push = (struct ps_call_request){
        .method = PS_METHOD_PUSH,
        .push = {.name = ps_bytes_of_text("w"), .dtype = PS_F32, .content = ps_view_of(&content)}};
    ck_assert_int_eq(ps_channel_grpc_create(1, (struct ps_busy_poll_wish){0}, ps_clock_real(),
                                            ps_allocator_heap(), &channel, NULL),
                     PS_OK);
    channel.route(channel.self, 0, fake_server_address(server));
}

static void close_channel(void)
{
    channel.destroy(channel.self);
    fake_server_stop(server);
}

static void submit(uint64_t call)
{
    const struct ps_call_part part = {call, &push};
    ck_assert_int_eq(
        channel.submit(channel.self, 0, &part, 1, ps_deadline_after(ps_clock_real(), LONG_MS)),
        PS_OK);
}

/* Takes the answer, polling for it or not. */
static void await(uint64_t call, bool polling)
{
    struct ps_delivery delivery;
    uint64_t deadline_ms = ps_deadline_after(ps_clock_real(), LONG_MS);
    while (!channel.take(channel.self, &delivery)) {
        ck_assert_uint_lt(ps_now_ms(ps_clock_real()), deadline_ms);
        if (polling)
            channel.poll(channel.self, 1000);
    }
    ck_assert_uint_eq(delivery.call, call);
    ck_assert_int_eq(delivery.outcome.status, PS_OK);
    channel.release(channel.self, &delivery);
}

START_TEST(calls_end_while_nobody_polls)
{
    open_channel();

    submit(1);

    await(1, false);
    close_channel();
}
END_TEST

static void poll_long(void *argument)
{
    (void)argument;
    channel.poll(channel.self, LONG_MS);
}

START_TEST(an_interruption_ends_the_poll_under_way_or_the_next_one)
{
    struct ps_thread thread = {0};
    open_channel();
    uint64_t started_ms = ps_now_ms(ps_clock_real());

    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(ps_thread_start(&thread, "poll", poll_long, NULL, NULL), PS_OK);
        channel.interrupt(channel.self);
        ps_thread_join(&thread);
    }
    channel.interrupt(channel.self);
    channel.poll(channel.self, LONG_MS);

    ck_assert_uint_lt(ps_now_ms(ps_clock_real()) - started_ms, LONG_MS);
    close_channel();
}
END_TEST

START_TEST(a_poll_without_an_answer_ends_in_time)
{
    open_channel();
    submit(1);
    await(1, true);
    uint64_t started_ms = ps_now_ms(ps_clock_real());

    for (int i = 0; i < 10; i++)
        channel.poll(channel.self, 20);

    ck_assert_uint_lt(ps_now_ms(ps_clock_real()) - started_ms, LONG_MS);
    close_channel();
}
END_TEST

/* Some answers fall to us, some to the channel's thread, and some callers come just when it has
 * taken over or let go. */
START_TEST(callers_that_come_and_go_get_every_answer)
{
    open_channel();

    for (uint64_t i = 0; i < 60; i++) {
        submit(i);
        await(i, i % 5 != 0);
        if (i % 6 == 0)
            channel.poll(channel.self, 25);
        if (i % 7 == 0)
            (void)usleep((useconds_t)(i * 1000));
    }

    close_channel();
}
END_TEST

/* ---- Being told that nobody polls ---- */

static void note_idle(void *owner)
{
    atomic_fetch_add((atomic_int *)owner, 1);
}

static void await_told(atomic_int *told, int count)
{
    uint64_t deadline_ms = ps_deadline_after(ps_clock_real(), LONG_MS);
    while (atomic_load(told) < count)
        ck_assert_uint_lt(ps_now_ms(ps_clock_real()), deadline_ms);
}

START_TEST(whoever_asks_is_told_once_that_nobody_polls)
{
    atomic_int told = 0;
    open_channel();

    for (int i = 1; i <= 3; i++) {
        channel.tell_idle(channel.self, note_idle, &told);
        await_told(&told, i);
    }
    (void)usleep(100 * 1000);

    ck_assert_int_eq(atomic_load(&told), 3);
    close_channel();
}
END_TEST

START_TEST(whoever_asks_is_told_after_callers_have_polled)
{
    atomic_int told = 0;
    open_channel();
    submit(1);
    await(1, true);

    channel.tell_idle(channel.self, note_idle, &told);
    channel.poll(channel.self, 5);

    await_told(&told, 1);
    submit(2);
    await(2, true);
    close_channel();
}
END_TEST

START_TEST(a_channel_ends_with_somebody_still_to_be_told)
{
    atomic_int told = 0;
    open_channel();

    channel.tell_idle(channel.self, note_idle, &told);

    close_channel();
}
END_TEST

/* ---- Work that the channel's thread does besides ---- */

static atomic_int worked, taken;
static atomic_bool takes;

/* As an owner does it: takes what has come. */
static uint64_t work(void *owner)
{
    struct ps_delivery delivery;
    while (atomic_load(&takes) && channel.take(channel.self, &delivery)) {
        channel.release(channel.self, &delivery);
        atomic_fetch_add(&taken, 1);
    }
    atomic_fetch_add(&worked, 1);
    return owner != NULL ? ps_now_ms(ps_clock_real()) + 5 : PS_DEADLINE_NEVER;
}

static void employ(bool does_take, bool comes_again)
{
    atomic_store(&worked, 0);
    atomic_store(&taken, 0);
    atomic_store(&takes, does_take);
    channel.employ(channel.self, work, comes_again ? &worked : NULL);
}

START_TEST(answers_are_taken_by_work_while_nobody_polls)
{
    open_channel();
    employ(true, false);

    for (int i = 0; i < 50; i++) {
        submit((uint64_t)i);
        await_told(&taken, i + 1);
    }

    close_channel();
}
END_TEST

START_TEST(work_comes_again_when_it_says)
{
    open_channel();

    employ(false, true);

    await_told(&worked, 5);
    close_channel();
}
END_TEST

START_TEST(work_that_is_roused_comes_at_that_time)
{
    open_channel();
    employ(false, false);
    await_told(&worked, 1);

    for (int i = 0; i < 20; i++) {
        int before = atomic_load(&worked);
        channel.rouse(channel.self, ps_now_ms(ps_clock_real()) + (uint64_t)i % 3);
        await_told(&worked, before + 1);
    }

    close_channel();
}
END_TEST

START_TEST(callers_get_their_answers_beside_work)
{
    open_channel();
    employ(false, true);

    for (uint64_t i = 0; i < 60; i++) {
        submit(i);
        await(i, i % 5 != 0);
        if (i % 6 == 0)
            channel.poll(channel.self, 25);
    }

    close_channel();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("channel_grpc_poll");
    TCase *tests = tcase_create("polling");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, calls_end_while_nobody_polls);
    tcase_add_test(tests, an_interruption_ends_the_poll_under_way_or_the_next_one);
    tcase_add_test(tests, a_poll_without_an_answer_ends_in_time);
    tcase_add_test(tests, callers_that_come_and_go_get_every_answer);
    tcase_add_test(tests, whoever_asks_is_told_once_that_nobody_polls);
    tcase_add_test(tests, whoever_asks_is_told_after_callers_have_polled);
    tcase_add_test(tests, a_channel_ends_with_somebody_still_to_be_told);
    tcase_add_test(tests, answers_are_taken_by_work_while_nobody_polls);
    tcase_add_test(tests, work_comes_again_when_it_says);
    tcase_add_test(tests, work_that_is_roused_comes_at_that_time);
    tcase_add_test(tests, callers_get_their_answers_beside_work);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
