/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/journal_definition.c: there and back, and what is not one. */
#include "checkpoint/journal_definition.h"

#include "run_suite.h"

#include <check.h>
#include <string.h>

static uint8_t bytes[PS_DEFINITION_HEAD_BYTES_MAX + 8];
static const struct ps_shape shapes[] = {
    {0}, {.is_given = true}, {.is_given = true, .rank = 2, .lengths = {2, 1}}};

static size_t write_one(const struct ps_shape *shape)
{
    const struct ps_definition definition = {.shape = *shape, .config = ps_bytes_of_text("config")};
    size_t size = ps_definition_head_write(&definition, bytes);
    memcpy(bytes + size, "\1\2\3\4\5\6\7\10", 8);
    return size + 8;
}

START_TEST(a_definition_comes_back_as_it_went)
{
    size_t size = write_one(&shapes[_i]);
    struct ps_definition read;

    ck_assert_int_eq(ps_definition_read((struct ps_bytes){bytes, size}, &read, NULL), PS_OK);

    ck_assert(ps_shape_equal(&read.shape, &shapes[_i]));
    ck_assert(ps_bytes_equal(read.config, ps_bytes_of_text("config")));
    ck_assert_uint_eq(read.values.size, 8);
    ck_assert_uint_eq((size_t)(read.values.data - bytes) % 8, 0);
    ck_assert_mem_eq(read.values.data, "\1\2\3", 3);
}
END_TEST

/* Byte by byte, so that the format cannot drift. */
START_TEST(a_head_is_exactly_these_bytes)
{
    static const uint8_t expected[] = {40, 0, 0, 0, 6,   0,   0,   0,   2,   0,   0, 0, 1, 0,
                                       0,  0, 2, 0, 0,   0,   0,   0,   0,   0,   1, 0, 0, 0,
                                       0,  0, 0, 0, 'c', 'o', 'n', 'f', 'i', 'g', 0, 0};

    ck_assert_uint_eq(write_one(&shapes[2]), sizeof expected + 8);

    ck_assert_mem_eq(bytes, expected, sizeof expected);
}
END_TEST

START_TEST(a_head_that_is_cut_or_says_otherwise_is_refused)
{
    size_t size = write_one(&shapes[2]);
    struct ps_definition read;
    for (size_t cut = 0; cut < size - 8; cut++)
        ck_assert_int_eq(ps_definition_read((struct ps_bytes){bytes, cut}, &read, NULL),
                         PS_ERR_CORRUPT);
    for (size_t at = 0; at < 16; at++) {
        (void)write_one(&shapes[2]);
        bytes[at] ^= 0xff;
        ck_assert_int_eq(ps_definition_read((struct ps_bytes){bytes, size}, &read, NULL),
                         PS_ERR_CORRUPT);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("journal_definition");
    tcase_add_loop_test(tests, a_definition_comes_back_as_it_went, 0, 3);
    tcase_add_test(tests, a_head_is_exactly_these_bytes);
    tcase_add_test(tests, a_head_that_is_cut_or_says_otherwise_is_refused);
    Suite *suite = suite_create("journal_definition");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
