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

START_TEST(rows_that_expired_are_exactly_these_bytes)
{
    static const uint8_t expected[] = {0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, 0,    0, /* before */
                                       1,    0,    0,    0,    3,    0,    0,    0, /* counts, 3 */
                                       5,    0,    0,    0,    0,    0,    0,    0, /* keys */
                                       0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* */
                                       0,    1,    0,    0,    0,    0,    0,    0x80};
    static const uint64_t keys[] = {5, UINT64_MAX, UINT64_C(0x8000000000000100)};
    uint8_t bytes[PS_EXPIRE_RECORD_HEAD_BYTES + sizeof keys];
    uint64_t back[2];
    struct ps_expire_record read = {0};
    ps_expire_record_write(&(struct ps_expire_record){UINT64_C(0x123456789abc), true, 3}, bytes);
    ps_expire_keys_write(keys, 3, bytes + PS_EXPIRE_RECORD_HEAD_BYTES);
    ck_assert_mem_eq(bytes, expected, sizeof expected);
    const struct ps_bytes content = {bytes, sizeof bytes};
    ck_assert_int_eq(ps_expire_record_read(content, &read, NULL), PS_OK);
    ck_assert_uint_eq(read.before_version, UINT64_C(0x123456789abc));
    ck_assert(read.counts && read.count == 3);
    ps_expire_keys_read(content, 1, 2, back);
    ck_assert(back[0] == keys[1] && back[1] == keys[2]);
}
END_TEST

START_TEST(what_is_not_so_many_keys_is_refused)
{
    uint8_t bytes[PS_EXPIRE_RECORD_HEAD_BYTES + 17] = {0};
    struct ps_expire_record read;
    ps_expire_record_write(&(struct ps_expire_record){1, false, 2}, bytes);
    for (size_t size = 0; size <= sizeof bytes; size++)
        ck_assert_int_eq(ps_expire_record_read((struct ps_bytes){bytes, size}, &read, NULL),
                         size == PS_EXPIRE_RECORD_HEAD_BYTES + 16 ? PS_OK : PS_ERR_CORRUPT);
    const struct ps_bytes content = {bytes, PS_EXPIRE_RECORD_HEAD_BYTES + 16};
    /* Of no version; of neither rows nor counted keys; of none. */
    for (size_t at = 0; at <= 8; at += 8) {
        bytes[at] ^= at == 0 ? 1 : 2;
        ck_assert_int_eq(ps_expire_record_read(content, &read, NULL), PS_ERR_CORRUPT);
        bytes[at] ^= at == 0 ? 1 : 2;
    }
    ck_assert_int_eq(ps_expire_record_read(content, &read, NULL), PS_OK);
    bytes[12] = 0;
    ck_assert_int_eq(
        ps_expire_record_read((struct ps_bytes){bytes, PS_EXPIRE_RECORD_HEAD_BYTES}, &read, NULL),
        PS_ERR_CORRUPT);
    /* A count whose bytes, in 32 bits, would be those that are there. */
    bytes[12] = 2;
    bytes[15] = 0x20;
    ck_assert_int_eq(ps_expire_record_read(content, &read, NULL), PS_ERR_CORRUPT);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("journal_rows");
    tcase_add_test(tests, a_sweep_is_exactly_these_bytes);
    tcase_add_test(tests, other_bytes_are_refused);
    tcase_add_test(tests, rows_that_expired_are_exactly_these_bytes);
    tcase_add_test(tests, what_is_not_so_many_keys_is_refused);
    Suite *suite = suite_create("journal_rows");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
