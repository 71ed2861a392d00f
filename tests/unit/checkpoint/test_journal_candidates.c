/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/journal_candidates.c: how many there are, and what no writer has made so. */
#include "checkpoint/journal_candidates.h"

#include "run_suite.h"

#include <check.h>

static enum ps_status read_bytes(size_t size, size_t *count)
{
    static const uint8_t content[64];
    return ps_candidates_record_read((struct ps_bytes){content, size}, count, NULL);
}

START_TEST(candidates_are_counted_by_the_bytes)
{
    size_t count;
    ck_assert_int_eq(read_bytes(16, &count), PS_OK);
    ck_assert_uint_eq(count, 1);
    ck_assert_int_eq(read_bytes(48, &count), PS_OK);
    ck_assert_uint_eq(count, 3);
    ck_assert_uint_eq(PS_CANDIDATES_COUNTS_AT(count), 24);
    ck_assert_uint_eq(PS_CANDIDATES_VERSIONS_AT(count), 36);
}
END_TEST

START_TEST(none_and_half_of_one_are_damage)
{
    size_t count = 7;
    ck_assert_int_eq(read_bytes(0, &count), PS_ERR_CORRUPT);
    ck_assert_int_eq(read_bytes(24, &count), PS_ERR_CORRUPT);
    ck_assert_int_eq(read_bytes(31, &count), PS_ERR_CORRUPT);
    ck_assert_uint_eq(count, 7);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("journal_candidates");
    tcase_add_test(tests, candidates_are_counted_by_the_bytes);
    tcase_add_test(tests, none_and_half_of_one_are_damage);
    Suite *suite = suite_create("journal_candidates");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
