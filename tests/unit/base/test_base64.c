/* SPDX-License-Identifier: Apache-2.0 */
/* base/base64.c: bytes as text. */
#include "base/base64.h"

#include "base/random.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static void assert_encoded(const char *plain, const char *expected)
{
    struct ps_buffer buffer;
    ps_buffer_init(&buffer, ps_allocator_heap(), 100);
    ps_base64_append(&buffer, ps_bytes_of_text(plain));
    ck_assert_uint_eq(buffer.size, strlen(expected));
    ck_assert_uint_eq(buffer.size, ps_base64_encoded_size(strlen(plain)));
    if (buffer.size > 0)
        ck_assert_str_eq(buffer.text, expected);
    ps_buffer_fini(&buffer);
}

START_TEST(the_published_examples_encode)
{
    assert_encoded("", "");
    assert_encoded("f", "Zg==");
    assert_encoded("fo", "Zm8=");
    assert_encoded("foo", "Zm9v");
    assert_encoded("foob", "Zm9vYg==");
    assert_encoded("fooba", "Zm9vYmE=");
    assert_encoded("foobar", "Zm9vYmFy");
}
END_TEST

START_TEST(every_length_comes_back)
{
    struct ps_random random;
    ps_random_init(&random, 3);
    for (size_t size = 0; size < 300; size++) {
        uint8_t bytes[300];
        uint8_t back[304];
        size_t got = 999;
        for (size_t i = 0; i < size; i++)
            bytes[i] = (uint8_t)ps_random_next(&random);
        struct ps_buffer buffer;
        ps_buffer_init(&buffer, ps_allocator_heap(), 1000);

        ps_base64_append(&buffer, (struct ps_bytes){bytes, size});
        struct ps_bytes text = {(const uint8_t *)buffer.text, buffer.size};

        ck_assert(ps_base64_decode(text, back, &got));
        ck_assert_uint_eq(got, size);
        ck_assert(size == 0 || memcmp(back, bytes, size) == 0);
        ps_buffer_fini(&buffer);
    }
}
END_TEST

START_TEST(text_that_no_encoder_writes_is_refused)
{
    static const char *const wrong[] = {
        "Z",    "Zg",   "Zg=",      "====", "Zg==Zg==", "Z===", "Zh==", /* left-over bits */
        "Zm9=", "Zm-v", "Zm9v\nZg", "Z=9v", "=m9v",     "Zm9 ", "Zg==\n\n\n\n"};
    uint8_t bytes[16];
    for (size_t i = 0; i < PS_ARRAY_COUNT(wrong); i++) {
        size_t size = 999;

        ck_assert_msg(!ps_base64_decode(ps_bytes_of_text(wrong[i]), bytes, &size), "%s", wrong[i]);

        ck_assert_uint_eq(size, 999);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base64");
    TCase *tests = tcase_create("base64");
    tcase_add_test(tests, the_published_examples_encode);
    tcase_add_test(tests, every_length_comes_back);
    tcase_add_test(tests, text_that_no_encoder_writes_is_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
