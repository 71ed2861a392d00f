/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/journal_rows.c: there and back, and what is not one. */
#include "checkpoint/journal_rows.h"

#include "run_suite.h"

#include <check.h>

/* Byte by byte, so that the format cannot drift. */
START_TEST(a_sweep_is_exactly_these_bytes)
{
    static const uint8_t expected[] = {0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, 0, 0};
    uint8_t bytes[PS_SWEEP_RECORD_BYTES];
    struct ps_sweep_record read = {0};
    ps_sweep_record_write(&(struct ps_sweep_record){UINT64_C(0x123456789abc)}, bytes);
    ck_assert_mem_eq(bytes, expected, sizeof expected);
    ck_assert_int_eq(ps_sweep_record_read((struct ps_bytes){bytes, sizeof bytes}, &read, NULL),
                     PS_OK);
    ck_assert_uint_eq(read.before_version, UINT64_C(0x123456789abc));
}
END_TEST

START_TEST(other_bytes_are_refused)
{
    static const uint8_t bytes[PS_SWEEP_RECORD_BYTES + 1] = {1};
    static const uint8_t zeros[PS_SWEEP_RECORD_BYTES];
    struct ps_sweep_record read;
    for (size_t size = 0; size <= sizeof bytes; size++)
        ck_assert_int_eq(ps_sweep_record_read((struct ps_bytes){bytes, size}, &read, NULL),
                         size == PS_SWEEP_RECORD_BYTES ? PS_OK : PS_ERR_CORRUPT);
    ck_assert_int_eq(ps_sweep_record_read((struct ps_bytes){zeros, sizeof zeros}, &read, NULL),
                     PS_ERR_CORRUPT);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("journal_rows");
    tcase_add_test(tests, a_sweep_is_exactly_these_bytes);
    tcase_add_test(tests, other_bytes_are_refused);
    Suite *suite = suite_create("journal_rows");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
