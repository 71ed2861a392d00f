/* SPDX-License-Identifier: Apache-2.0 */
/* base/encoding.c: the names and numbers of the encodings. */
#include "base/encoding.h"
#include "run_suite.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>

/* In the order of their numbers on the wire. */
static const char *const names[] = {"native",  "float32", "float64", "bfloat16",
                                    "float16", "int8",    "top_k"};

START_TEST(numbers_on_the_wire_never_change)
{
    enum ps_encoding encoding = PS_ENCODING_COUNT;

    ck_assert_str_eq(ps_encoding_name((enum ps_encoding)_i), names[_i]);
    ck_assert(ps_encoding_from_name(names[_i], &encoding));
    ck_assert_int_eq(encoding, _i);
}
END_TEST

START_TEST(other_names_are_not_found)
{
    enum ps_encoding encoding = PS_ENCODING_INT8;

    ck_assert(!ps_encoding_from_name("Float32", &encoding));
    ck_assert(!ps_encoding_from_name("bf16", &encoding));
    ck_assert(!ps_encoding_from_name("", &encoding));
    ck_assert_int_eq(encoding, PS_ENCODING_INT8);
}
END_TEST

START_TEST(eighth_encoding_is_a_bug)
{
    (void)ps_encoding_name(PS_ENCODING_COUNT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("encoding");
    TCase *tests = tcase_create("encoding");
    tcase_add_loop_test(tests, numbers_on_the_wire_never_change, 0, PS_ENCODING_COUNT);
    tcase_add_test(tests, other_names_are_not_found);
    tcase_add_test_raise_signal(tests, eighth_encoding_is_a_bug, SIGABRT);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
