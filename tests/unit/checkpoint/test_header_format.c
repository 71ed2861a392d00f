/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/header_format.c: what both sides of a file do in the same way. */
#include "checkpoint/header_format.h"

#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

START_TEST(the_checksum_covers_length_and_header)
{
    uint8_t head[PS_HEADER_CHECKSUM_AT + PS_HEADER_CHECKSUM_DIGITS + 20];
    const struct ps_bytes bytes = {head, sizeof head};
    for (size_t i = 0; i < sizeof head; i++)
        head[i] = (uint8_t)(i * 7);
    uint32_t before = ps_header_checksum(bytes);
    for (size_t i = 0; i < sizeof head; i++) {
        bool digit =
            i >= PS_HEADER_CHECKSUM_AT && i < PS_HEADER_CHECKSUM_AT + PS_HEADER_CHECKSUM_DIGITS;
        head[i] ^= 1;

        uint32_t after = ps_header_checksum(bytes);

        ck_assert(digit == (before == after));
        head[i] ^= 1;
    }
}
END_TEST

START_TEST(wide_elements_come_first_then_names_decide)
{
    struct ps_bytes a = ps_bytes_of_text("a");
    struct ps_bytes b = ps_bytes_of_text("b");

    ck_assert_int_lt(ps_header_order(PS_F64, b, PS_F32, a), 0);
    ck_assert_int_gt(ps_header_order(PS_I32, a, PS_U64, b), 0);
    ck_assert_int_lt(ps_header_order(PS_U32, a, PS_I32, b), 0);
    ck_assert_int_eq(ps_header_order(PS_U32, a, PS_I32, a), 0);
}
END_TEST

START_TEST(names_of_the_formats_own_are_reserved)
{
    static const char *const reserved[] = {"__metadata__", "ps.sessions", "ps.rounds", "ps.clocks",
                                           "ps.candidates"};
    static const char *const free_names[] = {"", "w", "__metadata", "ps.", "PS.sessions"};

    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        ck_assert_msg(ps_header_name_reserved(ps_bytes_of_text(reserved[i])), "%s", reserved[i]);
    for (size_t i = 0; i < sizeof free_names / sizeof *free_names; i++)
        ck_assert_msg(!ps_header_name_reserved(ps_bytes_of_text(free_names[i])), "%s",
                      free_names[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("header_format");
    TCase *tests = tcase_create("header_format");
    tcase_add_test(tests, the_checksum_covers_length_and_header);
    tcase_add_test(tests, wide_elements_come_first_then_names_decide);
    tcase_add_test(tests, names_of_the_formats_own_are_reserved);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
