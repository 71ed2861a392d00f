/* SPDX-License-Identifier: Apache-2.0 */
/* server/front/connections.c and front_hooks.c: real connections, read and written as gRPC does. */
#include "front_world.h"
#include "run_suite.h"
#include "server/front/connections.h"
#include "server/front/offenders.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STREAMS_MAX = 4, OPEN_CALLS_MAX = 6, BYTES_MAX = 300000, ALL_BYTES_MAX = 400000 };

static const struct ps_front_options options = {
    .connection = {.streams_max = STREAMS_MAX, .unfinished_bytes_max = BYTES_MAX, .patience_s = 1},
    .open_calls_max = OPEN_CALLS_MAX,
    .unfinished_bytes_max = ALL_BYTES_MAX,
};

static struct front_world world;
static struct frames frames;

static void begin(void)
{
    front_world_begin(&world, &options);
    frames_begin(&frames);
}

static void end(void)
{
    front_world_end(&world);
    struct ps_front_counts counts = ps_front_count();
    ck_assert_uint_eq(counts.tcp, 0);
    ck_assert_uint_eq(counts.open_calls, 0);
    ck_assert_uint_eq(counts.unfinished_bytes, 0);
}

static void add_calls(uint32_t count, uint32_t bytes)
{
    for (uint32_t i = 0; i < count; i++) {
        frames_add(&frames, HEADERS, END_HEADERS, 2 * i + 1, 50);
        if (bytes > 0)
            frames_add(&frames, DATA, 0, 2 * i + 1, bytes);
    }
}

START_TEST(what_a_connection_holds_is_counted_until_it_is_closed)
{
    struct front_pair pair = front_connect(&world);
    add_calls(2, 1000);

    ck_assert(front_pair_receives(&pair, &frames));

    ck_assert_uint_eq(ps_front_count().tcp, 1);
    ck_assert_uint_eq(ps_front_count().open_calls, 2);
    ck_assert_uint_eq(ps_front_count().unfinished_bytes, 2000);
    front_pair_close(&pair);
    ck_assert_uint_eq(ps_front_count().open_calls, 0);
}
END_TEST

START_TEST(answers_that_are_written_end_their_calls)
{
    struct front_pair pair = front_connect(&world);
    add_calls(2, 1000);
    ck_assert(front_pair_receives(&pair, &frames));

    frames.size = 0;
    frames_add(&frames, HEADERS, END_STREAM, 1, 50);
    front_pair_sends(&pair, &frames);

    ck_assert_uint_eq(ps_front_count().open_calls, 1);
    ck_assert_uint_eq(ps_front_count().unfinished_bytes, 1000);
    front_pair_close(&pair);
}
END_TEST

START_TEST(a_connection_beyond_its_bound_ends_and_hears_why)
{
    struct front_pair pair = front_connect(&world);
    char heard[512] = "";
    add_calls(STREAMS_MAX + 1, 0);

    ck_assert(!front_pair_receives(&pair, &frames));

    ck_assert_uint_eq(world.refused[PS_FRONT_STREAMS], 1);
    ck_assert_str_eq(world.last_peer, "127.0.0.1");
    ck_assert_int_gt(recv(pair.peer, heard, sizeof heard - 1, 0), 17);
    ck_assert_ptr_nonnull(strstr(heard + 17, "--client-calls"));
    ck_assert_int_eq(recv(pair.peer, heard, sizeof heard, 0), 0);
    /* What it has held is not counted any more, though nobody has closed it. */
    ck_assert_uint_eq(ps_front_count().open_calls, 0);
    front_pair_close(&pair);
}
END_TEST

START_TEST(when_all_hold_too_much_the_largest_goes)
{
    struct front_pair greedy = front_connect(&world);
    struct front_pair modest = front_connect(&world);
    add_calls(1, 290000);
    ck_assert(front_pair_receives(&greedy, &frames));

    /* The modest connection comes last, and is not the one that goes. */
    frames_begin(&frames);
    add_calls(1, 150000);
    ck_assert(front_pair_receives(&modest, &frames));

    ck_assert(front_pair_has_ended(&greedy));
    ck_assert(!front_pair_has_ended(&modest));
    ck_assert_uint_eq(world.refused[PS_FRONT_UNFINISHED_ALL], 1);
    ck_assert_uint_eq(ps_front_count().unfinished_bytes, 150000);
    front_pair_close(&greedy);
    front_pair_close(&modest);
}
END_TEST

START_TEST(when_all_have_too_many_calls_the_one_with_the_most_goes)
{
    struct front_pair greedy = front_connect(&world);
    struct front_pair modest = front_connect(&world);
    add_calls(4, 0);
    ck_assert(front_pair_receives(&greedy, &frames));

    frames_begin(&frames);
    add_calls(3, 0);
    ck_assert(front_pair_receives(&modest, &frames));

    ck_assert(front_pair_has_ended(&greedy));
    ck_assert_uint_eq(world.refused[PS_FRONT_STREAMS_ALL], 1);
    front_pair_close(&greedy);
    front_pair_close(&modest);
}
END_TEST

START_TEST(an_ended_connection_brings_nothing_more)
{
    struct front_pair pair = front_connect(&world);
    add_calls(1, 0);
    ck_assert(front_pair_receives(&pair, &frames));
    frames_begin(&frames);
    ck_assert_int_eq(send(pair.peer, frames.bytes, frames.size, 0), (ssize_t)frames.size);
    struct iovec piece = {frames.bytes, sizeof frames.bytes};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    struct ps_connection *connection = ps_connections_find(pair.server);
    frames_begin(&frames);
    frames_add(&frames, HEADERS, 0, 9, 70000);
    ck_assert(!ps_connection_received(connection, &(struct iovec){frames.bytes + 24, 9}, 1, 9));

    /* There are bytes in the socket. */
    ck_assert_int_eq(recvmsg(pair.server, &message, 0), 0);

    front_pair_close(&pair);
}
END_TEST

START_TEST(a_number_that_was_a_connection_may_be_a_file)
{
    struct front_pair pair = front_connect(&world);
    int number = pair.server;
    front_pair_close(&pair);

    int file = open("/dev/null", O_WRONLY);
    while (file < number)
        file = dup(file);

    ck_assert_ptr_null(ps_connections_find(number));
}
END_TEST

START_TEST(numbers_out_of_range_are_no_connections)
{
    ck_assert_ptr_null(ps_connections_find(-1));
    ck_assert_ptr_null(ps_connections_find(PS_FRONT_DESCRIPTORS_MAX));
    ck_assert_int_eq(close(-1), -1);
    ps_connections_leave(PS_FRONT_DESCRIPTORS_MAX);
}
END_TEST

START_TEST(plain_bytes_under_tls_are_bounded_as_well)
{
    struct ps_connection *connection = ps_connection_of_tls();
    add_calls(STREAMS_MAX + 1, 0);
    struct iovec piece = {frames.bytes, frames.size};

    ck_assert(!ps_connection_received(connection, &piece, 1, frames.size));

    ck_assert_uint_eq(world.refused[PS_FRONT_STREAMS], 1);
    ck_assert_str_eq(world.last_peer, "");
    ps_connection_forget(connection);
}
END_TEST

START_TEST(whoever_was_turned_away_is_distrusted_when_it_comes_back)
{
    struct front_pair pair = front_connect(&world);
    add_calls(STREAMS_MAX + 1, 0);
    ck_assert(!front_pair_receives(&pair, &frames));
    front_pair_close(&pair);
    frames_begin(&frames);
    for (int i = 0; i < STREAMS_MAX; i++)
        frames_add(&frames, RST_STREAM, 0, 1, 4);

    pair = front_connect(&world);
    ck_assert(front_pair_receives(&pair, &frames));
    frames.size = 0;
    frames_add(&frames, RST_STREAM, 0, 1, 4);
    ck_assert(!front_pair_receives(&pair, &frames));

    front_pair_close(&pair);
}
END_TEST

START_TEST(a_host_that_offends_again_and_again_is_shut_out)
{
    struct front_pair pair, inside = front_connect(&world);
    add_calls(STREAMS_MAX + 1, 0);
    for (int i = 0; i < PS_OFFENCES_AT_ONCE; i++) {
        pair = front_connect(&world);
        ck_assert_int_ge(pair.server, 0);
        ck_assert(!front_pair_receives(&pair, &frames));
        front_pair_close(&pair);
    }

    pair = front_connect(&world);

    ck_assert_int_eq(pair.server, -1);
    ck_assert_uint_eq(world.refused[PS_FRONT_OFFENDER], 1);
    front_pair_close(&pair);
    /* Whoever is inside stays there. */
    frames_begin(&frames);
    add_calls(1, 0);
    ck_assert(front_pair_receives(&inside, &frames));
    front_pair_close(&inside);
}
END_TEST

START_TEST(a_closed_door_looks_at_nobody)
{
    ps_front_close(&world);
    struct front_pair pair = front_connect(&world);
    add_calls(STREAMS_MAX + 1, 0);

    ck_assert(front_pair_receives(&pair, &frames));

    ck_assert_ptr_null(ps_connections_find(pair.server));
    ck_assert_ptr_null(ps_connection_of_tls());
    front_pair_close(&pair);
}
END_TEST

START_TEST(only_who_opened_the_door_last_closes_it)
{
    int other = 0;
    ps_front_close(&other);
    struct front_pair pair = front_connect(&world);

    ck_assert_ptr_nonnull(ps_connections_find(pair.server));
    front_pair_close(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("connections");
    TCase *tests = tcase_create("connections");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, what_a_connection_holds_is_counted_until_it_is_closed);
    tcase_add_test(tests, answers_that_are_written_end_their_calls);
    tcase_add_test(tests, a_connection_beyond_its_bound_ends_and_hears_why);
    tcase_add_test(tests, when_all_hold_too_much_the_largest_goes);
    tcase_add_test(tests, when_all_have_too_many_calls_the_one_with_the_most_goes);
    tcase_add_test(tests, an_ended_connection_brings_nothing_more);
    tcase_add_test(tests, a_number_that_was_a_connection_may_be_a_file);
    tcase_add_test(tests, numbers_out_of_range_are_no_connections);
    tcase_add_test(tests, plain_bytes_under_tls_are_bounded_as_well);
    tcase_add_test(tests, whoever_was_turned_away_is_distrusted_when_it_comes_back);
    tcase_add_test(tests, a_host_that_offends_again_and_again_is_shut_out);
    tcase_add_test(tests, a_closed_door_looks_at_nobody);
    tcase_add_test(tests, only_who_opened_the_door_last_closes_it);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
