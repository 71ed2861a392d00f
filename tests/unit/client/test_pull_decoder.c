/* SPDX-License-Identifier: Apache-2.0 */
/* client/calls/pull_decoder.c: a reply in any encoding, cut anywhere, and replies that cannot
 * be. */
#include "client/calls/pull_decoder.h"
#include "optimizer/encoded.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 3001

static double elements[COUNT];
static double expected[COUNT];
static double taken[COUNT];
static uint8_t content[COUNT * 8];
static struct ps_bytes pieces[COUNT * 8];

/* In pieces of `size` bytes. */
static struct ps_view cut(size_t bytes, size_t size)
{
    size_t count = 0;
    for (size_t at = 0; at < bytes; at += size)
        pieces[count++] = (struct ps_bytes){content + at, bytes - at < size ? bytes - at : size};
    return (struct ps_view){pieces, count, bytes};
}

START_TEST(a_reply_is_what_its_bytes_decode_to)
{
    static const size_t sizes[] = {1, 3, 7, 1024, sizeof content};
    enum ps_encoding encoding = (enum ps_encoding)_i;
    for (enum ps_dtype dtype = PS_F32; dtype <= PS_F64; dtype++) {
        size_t bytes = (size_t)ps_encoding_bytes(encoding, dtype, COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            if (dtype == PS_F32)
                ((float *)elements)[i] = (float)sin((double)i);
            else
                elements[i] = sin((double)i);
        }
        ck_assert_int_eq(ps_encode_all(encoding, dtype, elements, COUNT, content, NULL), PS_OK);
        ps_decode_all(encoding, dtype, content, COUNT, expected);
        for (size_t i = 0; i < 5; i++) {
            const struct ps_pull_reply reply = {
                .dtype = dtype, .encoding = encoding, .content = cut(bytes, sizes[i])};
            size_t size = COUNT * ps_dtype_size(dtype);
            memset(taken, 0, sizeof taken);
            ck_assert_int_eq(ps_pull_reply_take(&reply, ps_bytes_of_text("w"), taken, size, NULL),
                             PS_OK);
            ck_assert_mem_eq(taken, expected, size);
        }
    }
}
END_TEST

START_TEST(a_reply_of_another_length_is_refused)
{
    struct ps_error error;
    for (enum ps_encoding encoding = 0; encoding < PS_ENCODING_TOP_K; encoding++) {
        size_t bytes = (size_t)ps_encoding_bytes(encoding, PS_F32, 100);
        const struct ps_pull_reply reply = {
            .dtype = PS_F32, .encoding = encoding, .content = cut(bytes + 1, 64)};
        ck_assert_int_eq(ps_pull_reply_take(&reply, ps_bytes_of_text("w"), taken, 400, &error),
                         PS_ERR_BAD_INPUT);
        ck_assert_ptr_nonnull(strstr(error.text, "parameter w: has"));
    }
}
END_TEST

START_TEST(a_reply_in_pairs_or_of_encoded_whole_numbers_is_refused)
{
    const struct ps_pull_reply pairs = {
        .dtype = PS_F32, .encoding = PS_ENCODING_TOP_K, .content = cut(800, 64)};
    const struct ps_pull_reply numbers = {
        .dtype = PS_I32, .encoding = PS_ENCODING_FLOAT32, .content = cut(400, 64)};

    ck_assert_int_eq(ps_pull_reply_take(&pairs, ps_bytes_of_text("w"), taken, 400, NULL),
                     PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_pull_reply_take(&numbers, ps_bytes_of_text("w"), taken, 400, NULL),
                     PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(elements_of_the_encoding_are_taken_as_they_come)
{
    for (enum ps_encoding encoding = PS_ENCODING_BFLOAT16; encoding <= PS_ENCODING_FLOAT16;
         encoding++) {
        size_t bytes = 2 * COUNT;
        for (size_t i = 0; i < bytes; i++)
            content[i] = (uint8_t)(i * 7);
        struct ps_pull_reply reply = {
            .dtype = PS_F32, .encoding = encoding, .content = cut(bytes, 3)};
        memset(taken, 0, sizeof taken);

        ck_assert_int_eq(
            ps_pull_reply_take_as_is(&reply, encoding, ps_bytes_of_text("w"), taken, COUNT, NULL),
            PS_OK);
        ck_assert_mem_eq(taken, content, bytes);

        ck_assert_int_eq(ps_pull_reply_take_as_is(&reply, encoding, ps_bytes_of_text("w"), taken,
                                                  COUNT - 1, NULL),
                         PS_ERR_BAD_INPUT);
        reply.encoding = PS_ENCODING_NATIVE;
        ck_assert_int_eq(
            ps_pull_reply_take_as_is(&reply, encoding, ps_bytes_of_text("w"), taken, COUNT, NULL),
            PS_ERR_BAD_INPUT);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pull_decoder");
    TCase *tests = tcase_create("pull_decoder");
    tcase_add_loop_test(tests, a_reply_is_what_its_bytes_decode_to, 0, PS_ENCODING_TOP_K);
    tcase_add_test(tests, a_reply_of_another_length_is_refused);
    tcase_add_test(tests, a_reply_in_pairs_or_of_encoded_whole_numbers_is_refused);
    tcase_add_test(tests, elements_of_the_encoding_are_taken_as_they_come);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
