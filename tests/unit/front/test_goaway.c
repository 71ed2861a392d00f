/* SPDX-License-Identifier: Apache-2.0 */
/* server/front/goaway.c: a peer that is turned away hears why, where that is possible. */
#include "server/front/goaway.h"

#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int ends[2];

static void begin(void)
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
}

static void end(void)
{
    (void)close(ends[0]);
    (void)close(ends[1]);
}

START_TEST(a_frame_says_why_and_the_connection_ends)
{
    unsigned char got[512];

    ps_goaway(ends[0], true, "too much");

    ck_assert_int_eq(recv(ends[1], got, sizeof got, 0), 9 + 8 + 8);
    ck_assert_int_eq(got[2], 8 + 8);
    ck_assert_int_eq(got[3], 7);
    ck_assert_int_eq(got[16], 11);
    ck_assert_mem_eq(got + 17, "too much", 8);
    ck_assert_int_eq(recv(ends[1], got, sizeof got, 0), 0);
}
END_TEST

START_TEST(in_the_middle_of_a_frame_nothing_is_said)
{
    unsigned char got[512];

    ps_goaway(ends[0], false, "too much");

    ck_assert_int_eq(recv(ends[1], got, sizeof got, 0), 0);
}
END_TEST

START_TEST(a_long_text_is_cut)
{
    char text[1000];
    unsigned char got[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';

    ps_goaway(ends[0], true, text);

    ssize_t size = recv(ends[1], got, sizeof got, 0);
    ck_assert_int_eq(size, 9 + 8 + 200);
    ck_assert_int_eq(got[2], 208);
}
END_TEST

START_TEST(a_peer_that_has_gone_hears_nothing)
{
    (void)close(ends[1]);
    ends[1] = dup(ends[0]);

    ps_goaway(ends[0], true, "too much");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("goaway");
    TCase *tests = tcase_create("goaway");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, a_frame_says_why_and_the_connection_ends);
    tcase_add_test(tests, in_the_middle_of_a_frame_nothing_is_said);
    tcase_add_test(tests, a_long_text_is_cut);
    tcase_add_test(tests, a_peer_that_has_gone_hears_nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
