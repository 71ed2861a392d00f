/* SPDX-License-Identifier: Apache-2.0 */
/* Keys as the reference writes and reads them. */
#include "proto/rendezvous_key.h"

#include "run_suite.h"

#include <check.h>
#include <stdbool.h>
#include <string.h>

static struct ps_rendezvous_key parsed;
static struct ps_error error;

static enum ps_status parse(const char *text)
{
    return ps_rendezvous_key_parse(ps_bytes_of_text(text), &parsed, &error);
}

static bool is_text(struct ps_bytes bytes, const char *text)
{
    return ps_bytes_equal(bytes, ps_bytes_of_text(text));
}

/* The reference's case, under its name. */
START_TEST(key)
{
    char text[PS_RENDEZVOUS_KEY_BYTES_MAX + 1];
    char twice[2 * sizeof text + 1];
    ck_assert_int_eq(ps_rendezvous_key_create("/job:mnist/replica:1/task:2/CPU:0", 7890,
                                              "/job:mnist/replica:1/task:2/device:GPU:0", "var0", 0,
                                              0, text, sizeof text, &error),
                     PS_OK);
    ck_assert_str_eq(text, "/job:mnist/replica:1/task:2/CPU:0;0000000000001ed2;"
                           "/job:mnist/replica:1/task:2/device:GPU:0;var0;0:0");
    ck_assert_int_eq(parse(text), PS_OK);
    ck_assert(is_text(parsed.source.text, "/job:mnist/replica:1/task:2/CPU:0"));
    ck_assert_uint_eq(parsed.source_incarnation, 7890);
    ck_assert(is_text(parsed.source.type, "CPU"));
    ck_assert(is_text(parsed.destination.text, "/job:mnist/replica:1/task:2/device:GPU:0"));
    ck_assert(is_text(parsed.destination.type, "GPU"));
    ck_assert(is_text(parsed.destination.job, "mnist"));
    ck_assert_uint_eq(parsed.destination.replica, 1);
    ck_assert_uint_eq(parsed.destination.task, 2);
    ck_assert(is_text(parsed.edge, "var0"));
    ck_assert(is_text(parsed.frame, "0:0"));

    ck_assert_int_eq(parse("foo;bar;baz"), PS_ERR_BAD_INPUT);
    ck_assert_str_eq(error.text, "Invalid rendezvous key: foo;bar;baz");
    ck_assert_int_eq(parse("/job:mnist/replica:1/task:2/CPU:0;"
                           "/job:mnist/replica:1/task:2/device:GPU:0;"),
                     PS_ERR_BAD_INPUT);
    strcpy(twice, text);
    strcat(twice, ";");
    ck_assert_int_eq(parse(twice), PS_ERR_BAD_INPUT);
    strcat(twice, text);
    ck_assert_int_eq(parse(twice), PS_ERR_BAD_INPUT);
}
END_TEST

#define SOURCE "/job:a/replica:0/task:0/device:CPU:0"
#define TARGET "/job:b/replica:0/task:11/gpu:3"

START_TEST(what_is_no_key_is_refused)
{
    static const char *const wrong[] = {
        "",
        SOURCE ";1ed2;" TARGET ";w;",
        SOURCE ";1ed2;" TARGET ";;0:0",
        SOURCE ";;" TARGET ";w;0:0",
        SOURCE ";xyz;" TARGET ";w;0:0",
        SOURCE ";00000000000001ed2;" TARGET ";w;0:0",
        "/job:a/task:0/device:CPU:0;1;" TARGET ";w;0:0",
        "/job:a/replica:0/task:0/device:CPU:*;1;" TARGET ";w;0:0",
        "/job:a/replica:0/task:0/tpu:0;1;" TARGET ";w;0:0",
        "/job:a/replica:0/task:1234567890/cpu:0;1;" TARGET ";w;0:0",
        "/job:a/replica:0/task:0/device:CPU:0x;1;" TARGET ";w;0:0",
    };
    memset(&parsed, 7, sizeof parsed);
    const struct ps_rendezvous_key before = parsed;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ck_assert_msg(parse(wrong[i]) == PS_ERR_BAD_INPUT, "%s", wrong[i]);
    ck_assert_mem_eq(&parsed, &before, sizeof before);
}
END_TEST

START_TEST(shorter_incarnations_and_both_forms_of_devices_are_read)
{
    ck_assert_int_eq(parse(SOURCE ";1ED2;" TARGET ";w;frame"), PS_OK);

    ck_assert_uint_eq(parsed.source_incarnation, 7890);
    ck_assert(is_text(parsed.destination.type, "gpu"));
    ck_assert_uint_eq(parsed.destination.task, 11);
    ck_assert_uint_eq(parsed.destination.number, 3);
    ck_assert(is_text(parsed.frame, "frame"));
}
END_TEST

START_TEST(a_part_with_a_semicolon_or_too_long_a_key_is_not_made)
{
    char text[64];
    ck_assert_int_eq(ps_rendezvous_key_create("a;b", 0, "c", "d", 0, 0, text, sizeof text, &error),
                     PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_rendezvous_key_create("a", 0, "c", "", 0, 0, text, sizeof text, &error),
                     PS_ERR_BAD_INPUT);
    ck_assert_int_eq(
        ps_rendezvous_key_create(SOURCE, 0, TARGET, "d", 0, 0, text, sizeof text, &error),
        PS_ERR_OUT_OF_RANGE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rendezvous_key");
    TCase *tests = tcase_create("rendezvous_key");
    tcase_add_test(tests, key);
    tcase_add_test(tests, what_is_no_key_is_refused);
    tcase_add_test(tests, shorter_incarnations_and_both_forms_of_devices_are_read);
    tcase_add_test(tests, a_part_with_a_semicolon_or_too_long_a_key_is_not_made);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
