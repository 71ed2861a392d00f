/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/checksum.c: CRC-32C and CRC-32. */
#include "checkpoint/checksum.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

START_TEST(crc32c_of_nine_digits_is_the_published_one)
{
    ck_assert_uint_eq(ps_checksum_crc32c(0, ps_bytes_of_text("123456789")), 0xe3069283);
}
END_TEST

START_TEST(crc32_of_nine_digits_is_the_published_one)
{
    ck_assert_uint_eq(ps_checksum_crc32(0, ps_bytes_of_text("123456789")), 0xcbf43926);
}
END_TEST

START_TEST(nothing_has_the_checksum_zero)
{
    ck_assert_uint_eq(ps_checksum_crc32c(0, (struct ps_bytes){0}), 0);
    ck_assert_uint_eq(ps_checksum_crc32(0, (struct ps_bytes){0}), 0);
}
END_TEST

START_TEST(a_continued_checksum_is_that_of_the_whole)
{
    static const char text[] = "The quick brown fox jumps over the lazy dog, twice and again.";
    struct ps_bytes whole = ps_bytes_of_text(text);
    for (size_t cut = 0; cut <= whole.size; cut++) {
        struct ps_bytes first = {whole.data, cut};
        struct ps_bytes rest = {whole.data + cut, whole.size - cut};

        ck_assert_uint_eq(ps_checksum_crc32c(ps_checksum_crc32c(0, first), rest),
                          ps_checksum_crc32c(0, whole));
        ck_assert_uint_eq(ps_checksum_crc32(ps_checksum_crc32(0, first), rest),
                          ps_checksum_crc32(0, whole));
        ck_assert_uint_eq(ps_checksum_crc32_join(ps_checksum_crc32(0, first),
                                                 ps_checksum_crc32(0, rest), rest.size),
                          ps_checksum_crc32(0, whole));
        ck_assert_uint_eq(ps_checksum_crc32c_join(ps_checksum_crc32c(0, first),
                                                  ps_checksum_crc32c(0, rest), rest.size),
                          ps_checksum_crc32c(0, whole));
    }
}
END_TEST

START_TEST(checksums_of_long_runs_are_joined)
{
    static uint8_t bytes[300000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * i >> 3);
    for (size_t cut = 1; cut < sizeof bytes; cut = cut * 3 + 1) {
        struct ps_bytes first = {bytes, cut};
        struct ps_bytes rest = {bytes + cut, sizeof bytes - cut};

        ck_assert_uint_eq(ps_checksum_crc32_join(ps_checksum_crc32(0, first),
                                                 ps_checksum_crc32(0, rest), rest.size),
                          ps_checksum_crc32(0, (struct ps_bytes){bytes, sizeof bytes}));
        ck_assert_uint_eq(ps_checksum_crc32c_join(ps_checksum_crc32c(0, first),
                                                  ps_checksum_crc32c(0, rest), rest.size),
                          ps_checksum_crc32c(0, (struct ps_bytes){bytes, sizeof bytes}));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("checksum");
    TCase *tests = tcase_create("checksum");
    tcase_add_test(tests, crc32c_of_nine_digits_is_the_published_one);
    tcase_add_test(tests, crc32_of_nine_digits_is_the_published_one);
    tcase_add_test(tests, nothing_has_the_checksum_zero);
    tcase_add_test(tests, a_continued_checksum_is_that_of_the_whole);
    tcase_add_test(tests, checksums_of_long_runs_are_joined);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
