/* SPDX-License-Identifier: Apache-2.0 */
/* etcd/registry*.c: the job's keys and the conditions under which they are written. */
#include "run_suite.h"
#include "tests/support/etcd/registry_fixture.h"

#include <stdlib.h>
#include <string.h>

START_TEST(the_first_wish_for_the_number_of_shards_holds)
{
    uint32_t count = 0;

    ck_assert_int_eq(ps_registry_desired(&registry, 3, soon(), &count, NULL), PS_OK);
    ck_assert_uint_eq(count, 3);
    ck_assert_int_eq(ps_registry_desired(&registry, 5, soon(), &count, NULL), PS_OK);
    ck_assert_uint_eq(count, 3);
    assert_key("/ps_desired", "3");
}
END_TEST

START_TEST(a_senseless_number_of_shards_is_refused)
{
    uint32_t count = 7;

    ck_assert_int_eq(ps_registry_desired(&registry, 0, soon(), &count, NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_registry_desired(&registry, PS_SHARDS_MAX + 1, soon(), &count, NULL),
                     PS_ERR_BAD_INPUT);
    ck_assert_uint_eq(count, 7);
    assert_key("/ps_desired", NULL);
}
END_TEST

START_TEST(a_stored_number_that_is_none_is_reported_and_left)
{
    const char *values[] = {"", "0", "-1", "03", "4097", "3 ", "three", "99999999999"};
    const char *value = values[_i];
    struct ps_error error = {0};
    uint32_t count = 7;
    put("/ps_desired", value);

    ck_assert_int_eq(ps_registry_desired(&registry, 2, soon(), &count, &error), PS_ERR_BAD_INPUT);

    ck_assert_ptr_nonnull(strstr(error.text, "/ps_desired"));
    ck_assert_uint_eq(count, 7);
    assert_key("/ps_desired", value);
}
END_TEST

START_TEST(b13_ps_desired_outlives_the_server_that_wrote_it)
{
    uint32_t count = 0;
    ck_assert_int_eq(ps_registry_desired(&registry, 3, soon(), &count, NULL), PS_OK);
    (void)claim_any(3);

    fake.now_ms += TTL_MS + 1;

    ck_assert_uint_eq(count_keys("/ps/"), 0);
    ck_assert_int_eq(ps_registry_read_desired(&registry, soon(), &count, NULL), PS_OK);
    ck_assert_uint_eq(count, 3);
}
END_TEST

START_TEST(b29_an_absent_number_of_shards_is_an_answer_and_can_be_waited_for)
{
    uint32_t count = 7;
    bool changed = false;

    ck_assert_int_eq(ps_registry_read_desired(&registry, soon(), &count, NULL), PS_ERR_NOT_FOUND);
    ck_assert_uint_eq(count, 7);
    ck_assert_int_eq(ps_registry_watch_members(&registry, 0, soon(), NULL), PS_OK);
    ck_assert_int_eq(ps_kv_watch_wait(kv, soon(), &changed, NULL), PS_OK);
    ck_assert(!changed);

    ck_assert_int_eq(ps_registry_desired(&registry, 2, soon(), &count, NULL), PS_OK);

    ck_assert_int_eq(ps_kv_watch_wait(kv, soon(), &changed, NULL), PS_OK);
    ck_assert(changed);
}
END_TEST

START_TEST(b25_two_jobs_share_one_store_without_meeting)
{
    struct ps_registry red;
    struct ps_registry blue;
    struct ps_claim claim;
    uint32_t count = 0;
    ck_assert_int_eq(ps_registry_init(&red, kv, "red", NULL), PS_OK);
    ck_assert_int_eq(ps_registry_init(&blue, kv, "blue-2.x_", NULL), PS_OK);

    ck_assert_int_eq(ps_registry_desired(&red, 2, soon(), &count, NULL), PS_OK);
    ck_assert_int_eq(ps_registry_desired(&blue, 5, soon(), &count, NULL), PS_OK);
    ck_assert_uint_eq(count, 5);
    ck_assert_int_eq(ps_registry_claim(&red, 2, ANY_INDEX, grant(), soon(), &claim, NULL), PS_OK);
    ck_assert_uint_eq(claim.index, 0);
    ck_assert_int_eq(ps_registry_claim(&blue, 5, ANY_INDEX, grant(), soon(), &claim, NULL), PS_OK);
    ck_assert_uint_eq(claim.index, 0);

    assert_key("/red/ps_desired", "2");
    assert_key("/blue-2.x_/ps_desired", "5");
    assert_key("/red/ps/0", "");
    ck_assert_uint_eq(count_keys("/ps"), 0);
}
END_TEST

START_TEST(b25_a_job_name_that_could_meet_other_keys_is_refused)
{
    struct ps_registry other = {0};
    char long_name[PS_JOB_BYTES_MAX + 2];
    memset(long_name, 'j', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    const char *names[] = {"a/b", "/", " ", "a b", "\xc3\xa4", "a\n", long_name};

    for (size_t i = 0; i < PS_ARRAY_COUNT(names); i++)
        ck_assert_int_eq(ps_registry_init(&other, kv, names[i], NULL), PS_ERR_BAD_INPUT);
    long_name[PS_JOB_BYTES_MAX] = '\0';
    ck_assert_int_eq(ps_registry_init(&other, kv, long_name, NULL), PS_OK);
    ck_assert_int_eq(ps_registry_init(&other, kv, NULL, NULL), PS_OK);
    ck_assert_str_eq(other.job, "");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("registry");
    TCase *tests = tcase_create("registry");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, the_first_wish_for_the_number_of_shards_holds);
    tcase_add_test(tests, a_senseless_number_of_shards_is_refused);
    tcase_add_loop_test(tests, a_stored_number_that_is_none_is_reported_and_left, 0, 8);
    tcase_add_test(tests, b13_ps_desired_outlives_the_server_that_wrote_it);
    tcase_add_test(tests, b29_an_absent_number_of_shards_is_an_answer_and_can_be_waited_for);
    tcase_add_test(tests, b25_two_jobs_share_one_store_without_meeting);
    tcase_add_test(tests, b25_a_job_name_that_could_meet_other_keys_is_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
