/* SPDX-License-Identifier: Apache-2.0 */
/* base/token_bucket.c: so many at once, then so many a minute. */
#include "base/token_bucket.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

static const struct ps_bucket_size size = {.at_once = 5, .a_minute = 120};

static uint64_t take_all(struct ps_bucket *bucket, uint64_t now_ms)
{
    uint64_t count = 0;
    while (ps_bucket_take(bucket, &size, now_ms))
        count++;
    return count;
}

START_TEST(begins_full_and_fills_with_time)
{
    struct ps_bucket bucket = {0};
    ck_assert(ps_bucket_is_full(&bucket, &size, 1000));
    ck_assert_uint_eq(ps_bucket_wait_ms(&bucket, &size, 1000), 0);
    ck_assert_uint_eq(take_all(&bucket, 1000), size.at_once);
    ck_assert_uint_eq(ps_bucket_wait_ms(&bucket, &size, 1000), 500);
    ck_assert_uint_eq(ps_bucket_wait_ms(&bucket, &size, 1499), 1);
    ck_assert_uint_eq(ps_bucket_wait_ms(&bucket, &size, 1500), 0);
    ck_assert_uint_eq(take_all(&bucket, 2000), 2);
    ck_assert(!ps_bucket_is_full(&bucket, &size, 4499));
    ck_assert(ps_bucket_is_full(&bucket, &size, 4500));
}
END_TEST

START_TEST(never_holds_more_than_its_size)
{
    struct ps_bucket bucket = {0};
    take_all(&bucket, 0);
    ck_assert_uint_eq(take_all(&bucket, UINT64_MAX), size.at_once);
}
END_TEST

START_TEST(a_clock_that_goes_back_adds_nothing)
{
    struct ps_bucket bucket = {0};
    take_all(&bucket, 10000);
    ck_assert_uint_eq(take_all(&bucket, 9000), 0);
    ck_assert_uint_eq(take_all(&bucket, 9500), 1);
}
END_TEST

START_TEST(may_begin_with_less)
{
    struct ps_bucket bucket = ps_bucket_with(&size, 2, 7);
    ck_assert_uint_eq(take_all(&bucket, 7), 2);
}
END_TEST

/* Parts of a token are kept however often somebody asks too early. */
START_TEST(asking_early_loses_nothing)
{
    struct ps_bucket bucket = {0};
    take_all(&bucket, 0);
    for (uint64_t now_ms = 1; now_ms < 500; now_ms++)
        ck_assert(!ps_bucket_take(&bucket, &size, now_ms));
    ck_assert(ps_bucket_take(&bucket, &size, 500));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("token_bucket");
    TCase *tests = tcase_create("token_bucket");
    tcase_add_test(tests, begins_full_and_fills_with_time);
    tcase_add_test(tests, never_holds_more_than_its_size);
    tcase_add_test(tests, a_clock_that_goes_back_adds_nothing);
    tcase_add_test(tests, may_begin_with_less);
    tcase_add_test(tests, asking_early_loses_nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
