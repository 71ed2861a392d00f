/* SPDX-License-Identifier: Apache-2.0 */
/* server/front/offenders.c: how far a host is trusted after its connections were ended. */
#include "run_suite.h"
#include "server/front/offenders.h"

#include <check.h>
#include <stdlib.h>

static const struct ps_peer_host one = {{[15] = 7}}, other = {{[15] = 8}};

static struct ps_offenders offenders;

static void begin(void)
{
    offenders = (struct ps_offenders){0};
}

static enum ps_trust trust(const struct ps_peer_host *host, uint64_t now_ms)
{
    return ps_offenders_trust(&offenders, host, now_ms);
}

static void offend(const struct ps_peer_host *host, int count, uint64_t now_ms)
{
    for (int i = 0; i < count; i++)
        ps_offenders_note(&offenders, host, now_ms);
}

START_TEST(an_offence_costs_some_trust_for_a_while)
{
    ck_assert_int_eq(trust(&one, 1000), PS_TRUST_FULL);
    offend(&one, 1, 1000);
    ck_assert_int_eq(trust(&one, 1000), PS_TRUST_LITTLE);
    ck_assert_int_eq(trust(&other, 1000), PS_TRUST_FULL);
    ck_assert_int_eq(trust(&one, 999 + PS_OFFENDERS_MS), PS_TRUST_LITTLE);
    ck_assert_int_eq(trust(&one, 1000 + PS_OFFENDERS_MS), PS_TRUST_FULL);
}
END_TEST

START_TEST(many_offences_shut_the_host_out_until_time_has_passed)
{
    offend(&one, PS_OFFENCES_AT_ONCE, 1000);
    ck_assert_int_eq(trust(&one, 1000), PS_TRUST_NONE);
    ck_assert_int_eq(trust(&other, 1000), PS_TRUST_FULL);
    ck_assert_int_eq(trust(&one, 1000 + 60000 / PS_OFFENCES_A_MINUTE), PS_TRUST_LITTLE);
}
END_TEST

/* Connections that were let in before may all offend at once. */
START_TEST(offences_beyond_the_bucket_do_not_add_up)
{
    offend(&one, 100 * PS_OFFENCES_AT_ONCE, 1000);
    ck_assert_int_eq(trust(&one, 1000), PS_TRUST_NONE);
    ck_assert_int_eq(trust(&one, 1000 + 60000 / PS_OFFENCES_A_MINUTE), PS_TRUST_LITTLE);
}
END_TEST

START_TEST(a_host_has_one_place_and_the_oldest_is_forgotten)
{
    offend(&one, 3, 1000);
    for (uint8_t i = 0; i < PS_OFFENDERS_MAX - 1; i++) {
        const struct ps_peer_host many = {{[0] = 1, [15] = i}};
        offend(&many, 3, 1000);
    }
    ck_assert_int_eq(trust(&one, 1000), PS_TRUST_LITTLE);
    offend(&other, 1, 1000);
    ck_assert_int_eq(trust(&one, 1000), PS_TRUST_FULL);
    ck_assert_int_eq(trust(&other, 1000), PS_TRUST_LITTLE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("offenders");
    TCase *tests = tcase_create("offenders");
    tcase_add_checked_fixture(tests, begin, NULL);
    tcase_add_test(tests, an_offence_costs_some_trust_for_a_while);
    tcase_add_test(tests, many_offences_shut_the_host_out_until_time_has_passed);
    tcase_add_test(tests, offences_beyond_the_bucket_do_not_add_up);
    tcase_add_test(tests, a_host_has_one_place_and_the_oldest_is_forgotten);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
