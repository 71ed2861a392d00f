/* SPDX-License-Identifier: Apache-2.0 */
/* The sets that this processor runs, and the loops that are chosen for them. */
#include "optimizer/encoding_loops.h"
#include "optimizer/instruction_sets.h"
#include "optimizer/loops.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

START_TEST(there_is_always_the_baseline)
{
    ck_assert_uint_ge(ps_instruction_sets(), 1);
    ck_assert_uint_le(ps_instruction_sets(), 3);
}
END_TEST

START_TEST(there_are_loops_of_either_kind_for_each_set_and_no_more)
{
    for (size_t i = 0; i < ps_instruction_sets(); i++) {
        ck_assert_ptr_nonnull(ps_loops_at(i));
        ck_assert_ptr_nonnull(ps_encoding_loops_at(i));
    }
    ck_assert_ptr_null(ps_loops_at(ps_instruction_sets()));
    ck_assert_ptr_null(ps_encoding_loops_at(ps_instruction_sets()));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("instruction_sets");
    TCase *cases = tcase_create("instruction_sets");
    tcase_add_test(cases, there_is_always_the_baseline);
    tcase_add_test(cases, there_are_loops_of_either_kind_for_each_set_and_no_more);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
