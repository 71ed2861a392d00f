/* etcd/etcd_base64.c: the test vectors of RFC 4648 and what is no base64. */
#include "etcd/etcd_base64.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char *const plain[] = {"", "f", "fo", "foo", "foob", "fooba", "foobar"};
static const char *const encoded[] = {"",         "Zg==",     "Zm8=",    "Zm9v",
                                      "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};

START_TEST(text_is_encoded_as_the_standard_says)
{
    struct ps_buffer buffer;
    ps_buffer_init(&buffer, ps_allocator_heap(), 100);
    ps_buffer_append_text(&buffer, ":");

    ps_etcd_base64_encode(&buffer, ps_bytes_of_text(plain[_i]));

    ck_assert_str_eq(buffer.text + 1, encoded[_i]);
    ps_buffer_fini(&buffer);
}
END_TEST

START_TEST(text_is_decoded_as_the_standard_says)
{
    uint8_t bytes[16];
    size_t size = 99;

    ck_assert(ps_etcd_base64_decode(ps_bytes_of_text(encoded[_i]), bytes, &size));

    ck_assert_uint_eq(size, strlen(plain[_i]));
    ck_assert_mem_eq(bytes, plain[_i], size);
}
END_TEST

START_TEST(all_bytes_come_back)
{
    uint8_t bytes[1000];
    uint8_t back[1002];
    for (size_t size = 0; size <= sizeof bytes; size += 7) {
        for (size_t i = 0; i < size; i++)
            bytes[i] = (uint8_t)(i * 31 + size);
        struct ps_buffer text;
        ps_buffer_init(&text, ps_allocator_heap(), 4000);
        size_t got = 0;

        ps_etcd_base64_encode(&text, (struct ps_bytes){bytes, size});
        struct ps_bytes read = {(const uint8_t *)text.text, text.size};
        ck_assert_uint_le(size, ps_etcd_base64_decoded_max(text.size));
        ck_assert(ps_etcd_base64_decode(read, back, &got));

        ck_assert_uint_eq(got, size);
        ck_assert_mem_eq(back, bytes, size);
        ps_buffer_fini(&text);
    }
}
END_TEST

START_TEST(what_no_encoder_writes_is_refused)
{
    const char *texts[] = {"Zg",   "Zg=",  "Zg===",  "Z===", "====",     "Zh==",      "Zm9=",
                           "Zm 9", "Zm-_", "Zm9v\n", "=Zm9", "Zg==Zm9v", "\xc3\xa4Zg"};
    uint8_t bytes[16];
    size_t size;

    for (size_t i = 0; i < PS_ARRAY_COUNT(texts); i++)
        ck_assert_msg(!ps_etcd_base64_decode(ps_bytes_of_text(texts[i]), bytes, &size), "%s",
                      texts[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("etcd_base64");
    TCase *tests = tcase_create("etcd_base64");
    tcase_add_loop_test(tests, text_is_encoded_as_the_standard_says, 0, 7);
    tcase_add_loop_test(tests, text_is_decoded_as_the_standard_says, 0, 7);
    tcase_add_test(tests, all_bytes_come_back);
    tcase_add_test(tests, what_no_encoder_writes_is_refused);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
