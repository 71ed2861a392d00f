/* SPDX-License-Identifier: Apache-2.0 */
/* The examples of the standard, and every way to cut a message. */
#include "run_suite.h"
#include "tools/psckpt/sha256.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char *hash_of(const char *text)
{
    static char result[SHA256_TEXT_BYTES];
    uint8_t digest[SHA256_BYTES];
    struct sha256 hash;
    sha256_init(&hash);
    sha256_add(&hash, ps_bytes_of_text(text));
    ck_assert_int_eq(sha256_end(&hash, digest, NULL), PS_OK);
    sha256_text(digest, result);
    return result;
}

START_TEST(examples_of_the_standard_come_out)
{
    ck_assert_str_eq(hash_of(""),
                     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    ck_assert_str_eq(hash_of("abc"),
                     "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    ck_assert_str_eq(hash_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
                     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}
END_TEST

START_TEST(a_million_times_a_comes_out)
{
    uint8_t digest[SHA256_BYTES];
    char text[SHA256_TEXT_BYTES];
    struct sha256 hash;
    sha256_init(&hash);
    for (int i = 0; i < 100000; i++)
        sha256_add(&hash, ps_bytes_of_text("aaaaaaaaaa"));
    ck_assert_int_eq(sha256_end(&hash, digest, NULL), PS_OK);
    sha256_text(digest, text);

    ck_assert_str_eq(text, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}
END_TEST

START_TEST(it_does_not_matter_where_a_message_is_cut)
{
    uint8_t message[200];
    memset(message, 0x5a, sizeof message);
    for (size_t size = 0; size <= sizeof message; size++) {
        uint8_t whole[SHA256_BYTES];
        struct sha256 hash;
        sha256_init(&hash);
        sha256_add(&hash, (struct ps_bytes){message, size});
        ck_assert_int_eq(sha256_end(&hash, whole, NULL), PS_OK);
        for (size_t cut = 0; cut <= size; cut += 7) {
            uint8_t parts[SHA256_BYTES];
            const struct ps_bytes pieces[2] = {{message, cut}, {message + cut, size - cut}};
            sha256_init(&hash);
            sha256_add_view(&hash, (struct ps_view){pieces, 2, size});
            ck_assert_int_eq(sha256_end(&hash, parts, NULL), PS_OK);
            ck_assert_mem_eq(whole, parts, sizeof whole);
        }
    }
}
END_TEST

START_TEST(numbers_are_added_lowest_byte_first)
{
    uint8_t a[SHA256_BYTES];
    uint8_t b[SHA256_BYTES];
    struct sha256 hash;
    sha256_init(&hash);
    sha256_add_number(&hash, 0x63626160, 4);
    ck_assert_int_eq(sha256_end(&hash, a, NULL), PS_OK);
    sha256_init(&hash);
    sha256_add(&hash, ps_bytes_of_text("`abc"));
    ck_assert_int_eq(sha256_end(&hash, b, NULL), PS_OK);

    ck_assert_mem_eq(a, b, sizeof a);
}
END_TEST

START_TEST(a_hash_without_memory_has_no_result)
{
    uint8_t digest[SHA256_BYTES];
    struct ps_error error = {.status = PS_OK};
    struct sha256 hash = {.context = NULL};
    sha256_add(&hash, ps_bytes_of_text("abc"));

    ck_assert_int_eq(sha256_end(&hash, digest, &error), PS_ERR_NO_MEMORY);
    ck_assert_str_eq(error.text, "no memory for a SHA-256");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sha256");
    TCase *tcase = tcase_create("sha256");
    tcase_add_test(tcase, examples_of_the_standard_come_out);
    tcase_add_test(tcase, a_million_times_a_comes_out);
    tcase_add_test(tcase, it_does_not_matter_where_a_message_is_cut);
    tcase_add_test(tcase, numbers_are_added_lowest_byte_first);
    tcase_add_test(tcase, a_hash_without_memory_has_no_result);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
