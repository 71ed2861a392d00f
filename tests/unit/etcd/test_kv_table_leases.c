/* SPDX-License-Identifier: Apache-2.0 */
/* etcd/kv_table_leases.c: the time of leases and the keys that go with them. */
#include "run_suite.h"
#include "table_fixture.h"

#include <stdlib.h>

START_TEST(keys_of_one_lease_end_in_one_revision)
{
    struct ps_kv_lease lease;
    ck_assert_int_eq(ps_kv_table_grant(&table, 10, 0, &lease, NULL), PS_OK);
    (void)put(&table, "/a", lease);
    (void)put(&table, "/b", (struct ps_kv_lease){0});
    int64_t before = put(&table, "/c", lease);

    ck_assert(ps_kv_table_expire(&table, 10));

    ck_assert_int_eq(table.revision, before + 1);
    ck_assert_uint_eq(table.entry_count, 1);
    ck_assert(!ps_kv_table_expire(&table, 10));
}
END_TEST

START_TEST(a_lease_lasts_until_its_last_millisecond)
{
    struct ps_kv_lease lease;
    ck_assert_int_eq(ps_kv_table_grant(&table, 10, 100, &lease, NULL), PS_OK);
    ck_assert_uint_eq(ps_kv_table_next_expiry(&table), 110);

    ck_assert(!ps_kv_table_expire(&table, 109));
    ck_assert_int_eq(ps_kv_table_keep(&table, lease, 109, NULL), PS_OK);
    ck_assert(!ps_kv_table_expire(&table, 118));
    ck_assert(ps_kv_table_expire(&table, 119));
    ck_assert_uint_eq(ps_kv_table_next_expiry(&table), PS_DEADLINE_NEVER);
}
END_TEST

START_TEST(a_clock_that_began_anew_leaves_a_lease_its_length)
{
    struct ps_kv_lease lease;
    ck_assert_int_eq(ps_kv_table_grant(&table, 10, 1000000, &lease, NULL), PS_OK);

    ck_assert(ps_kv_table_expire(&table, 5));
    ck_assert_uint_eq(ps_kv_table_next_expiry(&table), 15);
    ck_assert(!ps_kv_table_expire(&table, 14));
    ck_assert(ps_kv_table_expire(&table, 15));
}
END_TEST

START_TEST(a_full_table_says_busy_and_stays_whole)
{
    struct ps_kv_lease lease;
    for (int i = 0; i < PS_KV_TABLE_LEASES_MAX; i++)
        ck_assert_int_eq(ps_kv_table_grant(&table, 10, 0, &lease, NULL), PS_OK);

    ck_assert_int_eq(ps_kv_table_grant(&table, 10, 0, &lease, NULL), PS_ERR_BUSY);
    ck_assert(ps_kv_table_expire(&table, 10));
    ck_assert_int_eq(ps_kv_table_grant(&table, 10, 0, &lease, NULL), PS_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kv_table_leases");
    TCase *tests = tcase_create("kv_table_leases");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, keys_of_one_lease_end_in_one_revision);
    tcase_add_test(tests, a_lease_lasts_until_its_last_millisecond);
    tcase_add_test(tests, a_clock_that_began_anew_leaves_a_lease_its_length);
    tcase_add_test(tests, a_full_table_says_busy_and_stays_whole);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
