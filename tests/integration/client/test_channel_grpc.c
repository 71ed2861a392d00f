/* SPDX-License-Identifier: Apache-2.0 */
/* client/channel/channel_grpc.c against servers that misbehave: what it calls refused was refused,
 * and
 * every call comes back. */
#include "client/channel/channel.h"

#include "base/clock.h"
#include "run_suite.h"
#include "tests/support/client/fake_server.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_MS 120000

static struct ps_channel channel;
static const struct fake_answer hold = {.kind = FAKE_HOLD};
static const struct fake_answer break_it = {.kind = FAKE_BREAK};

static void open_channel(uint32_t shard_count)
{
    ck_assert_int_eq(ps_channel_grpc_create(shard_count, (struct ps_busy_poll_wish){0},
                                            ps_clock_real(), ps_allocator_heap(), &channel, NULL),
                     PS_OK);
}

static void close_channel(void)
{
    channel.destroy(channel.self);
}

static void submit(uint64_t call, uint32_t shard, const struct ps_call_request *request,
                   uint64_t timeout_ms)
{
    const struct ps_call_part part = {call, request};
    ck_assert_int_eq(channel.submit(channel.self, shard, &part, 1,
                                    ps_deadline_after(ps_clock_real(), timeout_ms)),
                     PS_OK);
}

/* Waits for the next outcome; its reply is gone afterwards. */
static struct ps_call_outcome await(uint64_t call)
{
    struct ps_delivery delivery;
    uint64_t deadline_ms = ps_deadline_after(ps_clock_real(), LONG_MS);
    for (;;) {
        if (channel.take(channel.self, &delivery))
            break;
        ck_assert_uint_lt(ps_now_ms(ps_clock_real()), deadline_ms);
        channel.poll(channel.self, 1000);
    }
    ck_assert_uint_eq(delivery.call, call);
    channel.release(channel.self, &delivery);
    return delivery.outcome;
}

static struct ps_call_request push_of(struct ps_bytes *content)
{
    return (struct ps_call_request){
        .method = PS_METHOD_PUSH,
        .push = {.name = ps_bytes_of_text("w"), .dtype = PS_F32, .content = ps_view_of(content)}};
}

static const uint8_t few_bytes[8] = {1, 2, 3};
static struct ps_bytes small = {few_bytes, sizeof few_bytes};

START_TEST(a_push_is_answered)
{
    static const uint8_t version_5[] = {0x08, 5};
    struct fake_server *server = fake_server_start(0);
    fake_server_answer(server, PS_METHOD_PUSH,
                       (struct fake_answer){.kind = FAKE_REPLY, .bytes = {version_5, 2}});
    struct ps_call_request push = push_of(&small);
    open_channel(1);
    ck_assert(channel.route(channel.self, 0, fake_server_address(server)));

    submit(7, 0, &push, LONG_MS);
    struct ps_call_outcome outcome = await(7);

    ck_assert_int_eq(outcome.status, PS_OK);
    ck_assert_uint_eq(outcome.reply.push.version, 5);
    close_channel();
    fake_server_stop(server);
}
END_TEST

START_TEST(a_status_of_the_server_is_a_refusal_with_its_text)
{
    static const enum ps_status statuses[] = {PS_ERR_STALE_SESSION, PS_ERR_NOT_READY, PS_ERR_EXISTS,
                                              PS_ERR_BUSY, PS_ERR_BAD_INPUT};
    struct fake_server *server = fake_server_start(0);
    struct ps_call_request push = push_of(&small);
    open_channel(1);
    channel.route(channel.self, 0, fake_server_address(server));

    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        fake_server_answer(server, PS_METHOD_PUSH,
                           (struct fake_answer){.kind = FAKE_REFUSE, .status = statuses[i]});
        submit(i, 0, &push, LONG_MS);
        struct ps_call_outcome outcome = await(i);
        ck_assert_int_eq(outcome.status, statuses[i]);
        ck_assert(outcome.refused);
        ck_assert_str_eq(outcome.text, ps_status_word(statuses[i]));
    }
    close_channel();
    fake_server_stop(server);
}
END_TEST

/* Nor is "unavailable" to a push: it may wait for a journal that fails. */
START_TEST(a_server_that_says_unknown_is_no_refusal)
{
    const enum ps_status says = _i == 0 ? PS_ERR_TIMEOUT : PS_ERR_UNAVAILABLE;
    struct fake_server *server = fake_server_start(0);
    struct ps_call_request push = push_of(&small);
    fake_server_answer(server, PS_METHOD_PUSH,
                       (struct fake_answer){.kind = FAKE_REFUSE, .status = says});
    open_channel(1);
    channel.route(channel.self, 0, fake_server_address(server));

    submit(1, 0, &push, LONG_MS);
    struct ps_call_outcome outcome = await(1);

    ck_assert_int_eq(outcome.status, says);
    ck_assert(!outcome.refused);
    close_channel();
    fake_server_stop(server);
}
END_TEST

START_TEST(a_call_that_breaks_is_no_refusal)
{
    struct fake_server *server = fake_server_start(0);
    fake_server_answer(server, PS_METHOD_PUSH, break_it);
    struct ps_call_request push = push_of(&small);
    open_channel(1);
    channel.route(channel.self, 0, fake_server_address(server));

    submit(1, 0, &push, LONG_MS);
    struct ps_call_outcome outcome = await(1);

    ck_assert_int_ne(outcome.status, PS_OK);
    ck_assert(!outcome.refused);
    close_channel();
    fake_server_stop(server);
}
END_TEST

START_TEST(a_reply_that_cannot_be_read_is_no_refusal)
{
    static const uint8_t rubbish[] = {0xff, 0xff, 0xff};
    struct fake_server *server = fake_server_start(0);
    fake_server_answer(server, PS_METHOD_PUSH,
                       (struct fake_answer){.kind = FAKE_REPLY, .bytes = {rubbish, 3}});
    struct ps_call_request push = push_of(&small);
    open_channel(1);
    channel.route(channel.self, 0, fake_server_address(server));

    submit(1, 0, &push, LONG_MS);
    struct ps_call_outcome outcome = await(1);

    ck_assert_int_eq(outcome.status, PS_ERR_INTERNAL);
    ck_assert(!outcome.refused);
    close_channel();
    fake_server_stop(server);
}
END_TEST

START_TEST(without_a_route_a_call_is_refused_at_once)
{
    struct ps_call_request push = push_of(&small);
    open_channel(2);

    submit(1, 1, &push, LONG_MS);
    struct ps_call_outcome outcome = await(1);

    ck_assert_int_eq(outcome.status, PS_ERR_UNAVAILABLE);
    ck_assert(outcome.refused);
    close_channel();
}
END_TEST

START_TEST(a_call_that_never_left_is_refused_when_cancelled)
{
    struct fake_server *server = fake_server_start(0);
    char address[64];
    strcpy(address, fake_server_address(server));
    fake_server_stop(server); /* nobody listens there now */
    struct ps_call_request push = push_of(&small);
    open_channel(1);
    channel.route(channel.self, 0, address);

    submit(1, 0, &push, LONG_MS);
    channel.cancel(channel.self, 1);
    struct ps_call_outcome outcome = await(1);

    ck_assert_int_eq(outcome.status, PS_ERR_UNAVAILABLE);
    ck_assert(outcome.refused);
    ck_assert_ptr_nonnull(strstr(outcome.text, address));
    close_channel();
}
END_TEST

START_TEST(a_call_in_flight_comes_back_soon_when_cancelled)
{
    struct fake_server *server = fake_server_start(0);
    fake_server_answer(server, PS_METHOD_PUSH, hold);
    struct ps_call_request push = push_of(&small);
    open_channel(1);
    channel.route(channel.self, 0, fake_server_address(server));

    submit(1, 0, &push, LONG_MS);
    fake_server_await(server, PS_METHOD_PUSH, 1);
    channel.cancel(channel.self, 1);
    channel.cancel(channel.self, 99);
    struct ps_call_outcome outcome = await(1);

    ck_assert_int_eq(outcome.status, PS_ERR_CANCELLED);
    ck_assert(!outcome.refused);
    close_channel();
    fake_server_stop(server);
}
END_TEST

START_TEST(b10_a_call_waits_for_a_server_that_comes_later)
{
    struct fake_server *server = fake_server_start(0);
    int port = fake_server_port(server);
    char address[64];
    strcpy(address, fake_server_address(server));
    fake_server_stop(server);
    struct ps_call_request push = push_of(&small);
    open_channel(1);
    channel.route(channel.self, 0, address);

    submit(1, 0, &push, LONG_MS);
    server = fake_server_start(port);
    struct ps_call_outcome outcome = await(1);

    ck_assert_int_eq(outcome.status, PS_OK);
    close_channel();
    fake_server_stop(server);
}
END_TEST

START_TEST(b10_a_server_that_went_and_came_back_is_found_again)
{
    struct fake_server *server = fake_server_start(0);
    int port = fake_server_port(server);
    struct ps_call_request push = push_of(&small);
    open_channel(1);
    channel.route(channel.self, 0, fake_server_address(server));
    submit(1, 0, &push, LONG_MS);
    ck_assert_int_eq(await(1).status, PS_OK);

    fake_server_stop(server);
    server = fake_server_start(port);
    submit(2, 0, &push, LONG_MS);
    struct ps_call_outcome outcome = await(2);

    /* It may have left on the old connection before we heard that it is gone. */
    if (!(outcome.status == PS_ERR_UNAVAILABLE && !outcome.refused))
        ck_assert_int_eq(outcome.status, PS_OK);
    submit(3, 0, &push, LONG_MS);
    ck_assert_int_eq(await(3).status, PS_OK);
    close_channel();
    fake_server_stop(server);
}
END_TEST

START_TEST(b11_the_same_address_again_makes_a_new_connection)
{
    struct fake_server *server = fake_server_start(0);
    fake_server_next(server, PS_METHOD_STATUS, 1, hold);
    struct ps_call_request status = {.method = PS_METHOD_STATUS};
    open_channel(1);
    channel.route(channel.self, 0, fake_server_address(server));
    submit(1, 0, &status, LONG_MS);
    fake_server_await(server, PS_METHOD_STATUS, 1);

    channel.route(channel.self, 0, fake_server_address(server));
    struct ps_call_outcome outcome = await(1);
    ck_assert_int_eq(outcome.status, PS_ERR_UNAVAILABLE);
    ck_assert(!outcome.refused);

    submit(2, 0, &status, LONG_MS);
    ck_assert_int_eq(await(2).status, PS_OK);
    close_channel();
    fake_server_stop(server);
}
END_TEST

START_TEST(a_push_under_way_is_given_up_for_a_new_route)
{
    struct fake_server *server = fake_server_start(0);
    struct fake_server *next = fake_server_start(0);
    fake_server_next(server, PS_METHOD_PUSH, 1, hold);
    struct ps_call_request push = push_of(&small);
    open_channel(1);
    channel.route(channel.self, 0, fake_server_address(server));
    submit(1, 0, &push, LONG_MS);
    fake_server_await(server, PS_METHOD_PUSH, 1);

    channel.route(channel.self, 0, fake_server_address(next));
    struct ps_call_outcome outcome = await(1);

    ck_assert_int_ne(outcome.status, PS_OK);
    ck_assert(!outcome.refused); /* repeated under its request id, it is safe on the new one */
    close_channel();
    fake_server_stop(server);
    fake_server_stop(next);
}
END_TEST

START_TEST(waiting_calls_go_to_the_shards_next_server)
{
    struct fake_server *gone = fake_server_start(0);
    char address[64];
    strcpy(address, fake_server_address(gone));
    fake_server_stop(gone);
    struct fake_server *server = fake_server_start(0);
    struct ps_call_request push = push_of(&small);
    open_channel(1);
    channel.route(channel.self, 0, address);
    submit(1, 0, &push, LONG_MS);

    channel.route(channel.self, 0, fake_server_address(server));

    ck_assert_int_eq(await(1).status, PS_OK);
    close_channel();
    fake_server_stop(server);
}
END_TEST

START_TEST(b9_a_lost_route_leaves_calls_and_other_shards_alone)
{
    struct fake_server *server = fake_server_start(0);
    struct fake_server *other = fake_server_start(0);
    struct ps_call_request push = push_of(&small);
    open_channel(2);
    channel.route(channel.self, 0, fake_server_address(server));
    channel.route(channel.self, 1, fake_server_address(other));

    channel.route(channel.self, 1, NULL);
    submit(1, 0, &push, LONG_MS);
    ck_assert_int_eq(await(1).status, PS_OK);
    submit(2, 1, &push, LONG_MS);
    ck_assert(await(2).refused);
    close_channel();
    fake_server_stop(server);
    fake_server_stop(other);
}
END_TEST

START_TEST(large_content_arrives_whole_from_where_it_lies)
{
    struct fake_server *server = fake_server_start(0);
    size_t size = (size_t)8 << 20;
    uint8_t *bytes = malloc(size);
    memset(bytes, 7, size);
    struct ps_bytes content = {bytes, size};
    struct ps_call_request push = push_of(&content);
    open_channel(1);
    channel.route(channel.self, 0, fake_server_address(server));

    for (uint64_t i = 0; i < 5; i++) {
        submit(i, 0, &push, LONG_MS);
        ck_assert_int_eq(await(i).status, PS_OK);
        ck_assert_uint_ge(fake_server_last_size(server, PS_METHOD_PUSH), size);
    }
    close_channel();
    fake_server_stop(server);
    free(bytes);
}
END_TEST

/* Runs a server in a process of its own. Before gRPC is first used here: it does not fork well. */
static pid_t fork_server(char address[64])
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct fake_server *server = fake_server_start(0);
        ssize_t written = write(ends[1], fake_server_address(server), 32);
        for (;;)
            pause();
        (void)written;
    }
    ck_assert_int_gt(read(ends[0], address, 32), 0);
    address[31] = '\0';
    close(ends[0]);
    close(ends[1]);
    return child;
}

START_TEST(a_server_that_stops_reading_does_not_keep_a_cancelled_push)
{
    char address[64];
    pid_t child = fork_server(address);
    size_t size = (size_t)64 << 20;
    uint8_t *bytes = calloc(1, size);
    struct ps_bytes content = {bytes, size};
    struct ps_call_request push = push_of(&small), large = push_of(&content);
    open_channel(1);
    channel.route(channel.self, 0, address);
    submit(1, 0, &push, LONG_MS);
    ck_assert_int_eq(await(1).status, PS_OK);

    kill(child, SIGSTOP);
    submit(2, 0, &large, LONG_MS);
    channel.poll(channel.self, 50);
    channel.cancel(channel.self, 2);
    uint64_t started_ms = ps_now_ms(ps_clock_real());
    struct ps_call_outcome outcome = await(2);

    ck_assert_int_eq(outcome.status, PS_ERR_CANCELLED);
    ck_assert(!outcome.refused);
    ck_assert_uint_lt(ps_now_ms(ps_clock_real()) - started_ms, LONG_MS);
    fprintf(stderr, "let go after %llu ms\n",
            (unsigned long long)(ps_now_ms(ps_clock_real()) - started_ms));
    free(bytes); /* nobody reads it any more: the address sanitizer would tell */
    close_channel();
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}
END_TEST

START_TEST(many_calls_at_once_all_come_back)
{
    struct fake_server *server = fake_server_start(0);
    struct ps_call_request push = push_of(&small);
    open_channel(1);
    channel.route(channel.self, 0, fake_server_address(server));
    for (uint64_t i = 0; i < 500; i++)
        submit(i, 0, &push, LONG_MS);

    uint32_t ok = 0;
    while (ok < 500) {
        struct ps_delivery delivery;
        if (!channel.take(channel.self, &delivery)) {
            channel.poll(channel.self, 1000);
            continue;
        }
        ck_assert_int_eq(delivery.outcome.status, PS_OK);
        channel.release(channel.self, &delivery);
        ok++;
    }
    close_channel();
    fake_server_stop(server);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("channel_grpc");
    TCase *tests = tcase_create("channel_grpc");
    tcase_add_test(tests, a_push_is_answered);
    tcase_add_test(tests, a_status_of_the_server_is_a_refusal_with_its_text);
    tcase_add_loop_test(tests, a_server_that_says_unknown_is_no_refusal, 0, 2);
    tcase_add_test(tests, a_call_that_breaks_is_no_refusal);
    tcase_add_test(tests, a_reply_that_cannot_be_read_is_no_refusal);
    tcase_add_test(tests, without_a_route_a_call_is_refused_at_once);
    tcase_add_test(tests, a_call_that_never_left_is_refused_when_cancelled);
    tcase_add_test(tests, a_call_in_flight_comes_back_soon_when_cancelled);
    tcase_add_test(tests, b10_a_call_waits_for_a_server_that_comes_later);
    tcase_add_test(tests, b10_a_server_that_went_and_came_back_is_found_again);
    tcase_add_test(tests, b11_the_same_address_again_makes_a_new_connection);
    tcase_add_test(tests, a_push_under_way_is_given_up_for_a_new_route);
    tcase_add_test(tests, waiting_calls_go_to_the_shards_next_server);
    tcase_add_test(tests, b9_a_lost_route_leaves_calls_and_other_shards_alone);
    tcase_add_test(tests, large_content_arrives_whole_from_where_it_lies);
    tcase_add_test(tests, a_server_that_stops_reading_does_not_keep_a_cancelled_push);
    tcase_add_test(tests, many_calls_at_once_all_come_back);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
