/* SPDX-License-Identifier: Apache-2.0 */
/* server/front/admission.c: who is let in, and who goes for another. */
#include "front_world.h"
#include "run_suite.h"
#include "server/front/connections.h"

#include <check.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 4, HTTP_MAX = 3, HOST_SHARE = 64 };

static const struct ps_front_options options = {
    .connection = {.streams_max = 4, .unfinished_bytes_max = 100000},
    .connections_max = CONNECTIONS_MAX,
    .open_calls_max = 100,
    .unfinished_bytes_max = 100000,
};

static struct front_world world;

static void begin(void)
{
    front_world_begin(&world, &options);
}

static void end(void)
{
    front_world_end(&world);
}

START_TEST(connections_beyond_the_bound_are_turned_away)
{
    struct front_pair pairs[CONNECTIONS_MAX];
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        pairs[i] = front_connect(&world);

    struct front_pair late = front_connect(&world);

    ck_assert_int_eq(late.server, -1);
    ck_assert_uint_eq(world.refused[PS_FRONT_CONNECTIONS], 1);
    ck_assert(front_pair_has_ended(&late));
    front_pair_close(&late);
    /* Whoever leaves makes room. */
    front_pair_close(&pairs[0]);
    pairs[0] = front_connect(&world);
    ck_assert_int_ge(pairs[0].server, 0);
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        front_pair_close(&pairs[i]);
}
END_TEST

START_TEST(http_takes_the_newest_for_the_oldest)
{
    struct front_pair pairs[HTTP_MAX + 2];
    ps_front_claim_http(world.listener, HTTP_MAX);

    for (int i = 0; i < HTTP_MAX + 2; i++) {
        pairs[i] = front_connect(&world);
        ck_assert_int_ge(pairs[i].server, 0);
    }

    ck_assert(front_pair_has_ended(&pairs[0]));
    ck_assert(front_pair_has_ended(&pairs[1]));
    for (int i = 2; i < HTTP_MAX + 2; i++)
        ck_assert(!front_pair_has_ended(&pairs[i]));
    ck_assert_uint_eq(ps_front_count().http, HTTP_MAX);
    ck_assert_uint_eq(world.refused[PS_FRONT_DISPLACED_HTTP], 2);
    for (int i = 0; i < HTTP_MAX + 2; i++)
        front_pair_close(&pairs[i]);
    ps_front_release_http(world.listener);
}
END_TEST

START_TEST(http_is_not_read_as_frames)
{
    ps_front_claim_http(world.listener, HTTP_MAX);
    struct front_pair pair = front_connect(&world);

    ck_assert_ptr_null(ps_connections_find(pair.server));
    front_pair_close(&pair);
    ps_front_release_http(world.listener);
    pair = front_connect(&world);
    ck_assert_ptr_nonnull(ps_connections_find(pair.server));
    front_pair_close(&pair);
}
END_TEST

START_TEST(the_last_descriptors_are_not_for_connections)
{
    const struct rlimit limit = {64, 64};
    struct front_pair pairs[64];
    int count = 0;
    struct ps_front_options many = options;
    many.connections_max = 0;
    front_world_end(&world);
    front_world_begin(&world, &many);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);

    do
        pairs[count] = front_connect(&world);
    while (pairs[count++].server >= 0);

    ck_assert_uint_eq(world.refused[PS_FRONT_DESCRIPTORS], 1);
    ck_assert_uint_ge(ps_front_count().dropped, 1);
    int file = dup(world.listener);
    ck_assert_int_ge(file, 0);
    ck_assert_int_lt(file, 64 - 8);
    while (count-- > 0)
        front_pair_close(&pairs[count]);
}
END_TEST

/* Addresses of hosts that are not here: nobody is written to. */
static bool admit_from(uint8_t last, int descriptor)
{
    struct sockaddr_storage peer = {0};
    struct sockaddr_in *four = (struct sockaddr_in *)&peer;
    four->sin_family = AF_INET;
    four->sin_addr.s_addr = htonl(0x0a000000u | last);
    return ps_connections_admit(descriptor, -2, &peer);
}

START_TEST(one_host_of_many_has_a_share)
{
    struct ps_front_options many = options;
    many.connections_max = 2 * HOST_SHARE;
    ps_front_close(&world);
    front_world_end(&world);
    front_world_begin(&world, &many);
    int first = dup(world.listener);
    for (int i = 0; i < HOST_SHARE; i++)
        ck_assert(admit_from(1, first + i));

    ck_assert(!admit_from(1, first + HOST_SHARE));

    ck_assert_uint_eq(world.refused[PS_FRONT_HOST], 1);
    ck_assert_str_eq(world.last_peer, "10.0.0.1");
    ck_assert(admit_from(2, first + HOST_SHARE));
    for (int i = 0; i <= HOST_SHARE; i++)
        ps_connections_leave(first + i);
}
END_TEST

/* The other end of a pair of sockets is of this process. */
static bool admit_local(uint32_t user)
{
    struct ps_front_options some = options;
    struct sockaddr_storage address = {.ss_family = AF_UNIX};
    int pair[2];
    some.local_users = (struct ps_local_users){.is_restricted = true, .count = 1, .users = {user}};
    ps_front_close(&world);
    front_world_end(&world);
    front_world_begin(&world, &some);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    bool is_in = ps_connections_admit(pair[0], world.listener, &address);
    ps_connections_leave(pair[0]);
    (void)close(pair[0]);
    (void)close(pair[1]);
    return is_in;
}

START_TEST(of_a_list_of_users_others_are_turned_away)
{
    ck_assert(admit_local(geteuid()));

    ck_assert(!admit_local(geteuid() + 1));

    ck_assert_uint_eq(world.refused[PS_FRONT_LOCAL_USER], 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("admission");
    TCase *tests = tcase_create("admission");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, connections_beyond_the_bound_are_turned_away);
    tcase_add_test(tests, http_takes_the_newest_for_the_oldest);
    tcase_add_test(tests, http_is_not_read_as_frames);
    tcase_add_test(tests, the_last_descriptors_are_not_for_connections);
    tcase_add_test(tests, one_host_of_many_has_a_share);
    tcase_add_test(tests, of_a_list_of_users_others_are_turned_away);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
