/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of loops. */
#include "optimizer/loops.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static size_t count_loops(void)
{
    size_t count = 0;
    while (ps_loops_at(count) != NULL)
        count++;
    return count;
}

START_TEST(the_best_loops_are_the_last_that_the_processor_can_run)
{
    ck_assert_ptr_eq(ps_loops_best(), ps_loops_at(count_loops() - 1));
}
END_TEST

START_TEST(the_baseline_runs_everywhere)
{
    ck_assert_ptr_eq(ps_loops_at(0), &ps_loops_baseline);
}
END_TEST

START_TEST(each_set_of_loops_is_listed_once)
{
    for (size_t i = 0; i < count_loops(); i++)
        for (size_t j = 0; j < i; j++)
            ck_assert_str_ne(ps_loops_at(i)->name, ps_loops_at(j)->name);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("loops_best");
    TCase *cases = tcase_create("loops_best");
    tcase_add_test(cases, the_best_loops_are_the_last_that_the_processor_can_run);
    tcase_add_test(cases, the_baseline_runs_everywhere);
    tcase_add_test(cases, each_set_of_loops_is_listed_once);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
