/* SPDX-License-Identifier: Apache-2.0 */
/* proto/digest.c: what receivers in other languages compute with a library. */
#include "proto/digest.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

struct vector {
    size_t size;
    uint64_t digest;
};

/* By libxxhash 0.8.1, of bytes 7 i + 13. */
static const struct vector vectors[] = {
    {0, 0xef46db3751d8e999},   {1, 0x2078e1ad38ad738b},   {3, 0xbdef762e8804c53e},
    {4, 0x6bb99866cb63c0a8},   {7, 0x31365618ad874893},   {8, 0x3ba000679fbee7b5},
    {12, 0x16db5bec86b7f42a},  {31, 0x7231380363bb4388},  {32, 0x56699a69da28fd3b},
    {33, 0xd477447593124012},  {63, 0x8898cd8219f457fc},  {64, 0xbad331060e4cd79a},
    {100, 0xfb443e08ef7b1ef3}, {255, 0x13b7475c10294970}, {262144, 0x131e34f64e3cdb7a},
};

START_TEST(the_digest_is_xxh64)
{
    const struct vector *vector = &vectors[_i];
    uint8_t *bytes = malloc(vector->size + 1);
    ck_assert_ptr_nonnull(bytes);
    /* Not where words begin. */
    for (size_t i = 0; i < vector->size; i++)
        bytes[i + 1] = (uint8_t)(7 * i + 13);

    ck_assert_uint_eq(ps_digest_xxh64((struct ps_bytes){bytes + 1, vector->size}), vector->digest);

    ck_assert_uint_eq(ps_digest_block((struct ps_bytes){bytes + 1, vector->size}), vector->digest);
    free(bytes);
}
END_TEST

START_TEST(the_digest_does_not_depend_on_how_bytes_are_cut)
{
    uint8_t bytes[1000];
    struct ps_bytes pieces[2500]; /* at least every other one has a byte */
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * i);
    size_t count = 0;
    for (size_t at = 0; at < sizeof bytes;) {
        size_t size = at % (size_t)(_i + 2); /* empty ones, too */
        size = count % 2 == 0 ? size : size + 1;
        size = size < sizeof bytes - at ? size : sizeof bytes - at;
        pieces[count++] = (struct ps_bytes){bytes + at, size};
        at += size;
    }
    const struct ps_view view = {pieces, count, sizeof bytes};
    struct ps_view_cursor cursor = {.view = view};

    ck_assert_uint_eq(ps_digest_next_block(&cursor, 700),
                      ps_digest_block((struct ps_bytes){bytes, 700}));
    ck_assert_uint_eq(ps_digest_next_block(&cursor, 300),
                      ps_digest_block((struct ps_bytes){bytes + 700, 300}));
}
END_TEST

START_TEST(every_bit_counts)
{
    uint8_t bytes[100] = {0};
    uint64_t before = ps_digest_block((struct ps_bytes){bytes, sizeof bytes});
    for (size_t i = 0; i < 8 * sizeof bytes; i++) {
        bytes[i / 8] ^= (uint8_t)(1u << i % 8);
        ck_assert_uint_ne(ps_digest_block((struct ps_bytes){bytes, sizeof bytes}), before);
        bytes[i / 8] ^= (uint8_t)(1u << i % 8);
    }
}
END_TEST

START_TEST(the_chain_is_the_digest_of_both)
{
    ck_assert_uint_eq(ps_digest_chain(0, 1), 0x5522e3e91134a8fb);
    ck_assert_uint_eq(ps_digest_chain(5, UINT64_MAX), 0x319b971f892f642e);
}
END_TEST

START_TEST(the_chain_knows_the_order)
{
    ck_assert_uint_ne(ps_digest_chain(ps_digest_chain(0, 1), 2),
                      ps_digest_chain(ps_digest_chain(0, 2), 1));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("digest");
    TCase *tests = tcase_create("digest");
    tcase_add_loop_test(tests, the_digest_is_xxh64, 0, (int)(sizeof vectors / sizeof vectors[0]));
    tcase_add_loop_test(tests, the_digest_does_not_depend_on_how_bytes_are_cut, 0, 70);
    tcase_add_test(tests, every_bit_counts);
    tcase_add_test(tests, the_chain_is_the_digest_of_both);
    tcase_add_test(tests, the_chain_knows_the_order);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
