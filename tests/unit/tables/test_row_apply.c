/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_apply.c: a table that grows to 100,000 rows has the bits of the model. */
#include "tests/unit/tables/row_model.h"

START_TEST(a_large_table_has_the_bits_of_single_rows)
{
    struct row_model model;
    struct ps_row_hold *hold = NULL;
    row_model_open(&model, PS_RULE_ADAGRAD, PS_F32, 3, 100000);
    for (int i = 0; i < 24; i++) {
        /* Every few pushes a hold is taken, and another one ends. */
        if (i % 5 == 2) {
            struct ps_row_hold *next;
            ck_assert_int_eq(ps_row_hold_take(model.table, &next, NULL), PS_OK);
            ps_row_hold_release(hold);
            hold = next;
        }
        row_model_push_random(&model, 10000, 100000);
    }
    row_model_compare(&model);
    ck_assert_uint_gt(ps_row_table_rows(model.table), 90000);
    ps_row_hold_release(hold);
    row_model_close(&model);
}
END_TEST

START_TEST(the_version_of_the_last_push_is_with_the_row)
{
    static const uint32_t old[] = {1, 2, 3};
    static const uint32_t young[] = {3};
    struct row_model model;
    row_model_open(&model, PS_RULE_ADD, PS_U32, 1, 10);
    row_model_push(&model, old, 3);
    row_model_push(&model, young, 1);
    ck_assert_uint_eq(ps_row_table_sweep(model.table, 2, 2), 2);
    ck_assert_uint_eq(ps_row_table_rows(model.table), 1);
    row_model_close(&model);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_apply");
    tcase_add_test(tests, a_large_table_has_the_bits_of_single_rows);
    tcase_add_test(tests, the_version_of_the_last_push_is_with_the_row);
    return run_tests("row_apply", tests);
}
