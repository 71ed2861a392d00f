/* What one client may have on its way. */
#include "run_suite.h"
#include "server/rpc/peer_limits.h"

#include <check.h>
#include <stdlib.h>

static struct ps_peer_limits limits;

static enum ps_status enter(uint32_t peer, size_t bytes)
{
    return ps_peer_limits_enter(&limits, peer, bytes, NULL);
}

START_TEST(a_client_is_refused_beyond_its_limit_until_it_has_less)
{
    ps_peer_limits_init(&limits, 1000);

    ck_assert_int_eq(enter(1, 600), PS_OK);
    ck_assert_int_eq(enter(1, 400), PS_OK);
    ck_assert_int_eq(enter(1, 1), PS_ERR_BUSY);
    ps_peer_limits_leave(&limits, 1, 400);

    ck_assert_int_eq(enter(1, 401), PS_ERR_BUSY);
    ck_assert_int_eq(enter(1, 400), PS_OK);
    ps_peer_limits_fini(&limits);
}
END_TEST

START_TEST(one_clients_bytes_are_not_anothers)
{
    ps_peer_limits_init(&limits, 1000);
    ck_assert_int_eq(enter(1, 1000), PS_OK);

    ck_assert_int_eq(enter(2, 1000), PS_OK);

    ck_assert_int_eq(enter(1, 1), PS_ERR_BUSY);
    ps_peer_limits_fini(&limits);
}
END_TEST

START_TEST(one_message_goes_however_large_it_is)
{
    ps_peer_limits_init(&limits, 1000);

    ck_assert_int_eq(enter(1, 5000), PS_OK);

    ck_assert_int_eq(enter(1, 1), PS_ERR_BUSY);
    ps_peer_limits_leave(&limits, 1, 5000);
    ck_assert_int_eq(enter(1, 1), PS_OK);
    ps_peer_limits_fini(&limits);
}
END_TEST

START_TEST(what_must_be_answered_is_counted_but_not_refused)
{
    ps_peer_limits_init(&limits, 1000);
    ck_assert_int_eq(enter(1, 1000), PS_OK);

    ps_peer_limits_add(&limits, 1, 500);

    ps_peer_limits_leave(&limits, 1, 1000);
    ck_assert_int_eq(enter(1, 501), PS_ERR_BUSY);
    ck_assert_int_eq(enter(1, 500), PS_OK);
    ps_peer_limits_fini(&limits);
}
END_TEST

START_TEST(without_a_limit_nobody_is_refused)
{
    ps_peer_limits_init(&limits, 0);

    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(enter(1, SIZE_MAX / 200), PS_OK);

    ps_peer_limits_fini(&limits);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("peer_limits");
    TCase *tests = tcase_create("limits");
    tcase_add_test(tests, a_client_is_refused_beyond_its_limit_until_it_has_less);
    tcase_add_test(tests, one_clients_bytes_are_not_anothers);
    tcase_add_test(tests, one_message_goes_however_large_it_is);
    tcase_add_test(tests, what_must_be_answered_is_counted_but_not_refused);
    tcase_add_test(tests, without_a_limit_nobody_is_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
