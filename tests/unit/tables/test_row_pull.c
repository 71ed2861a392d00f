/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_pull.c: rows in the order asked, and nothing else. */
#include "tests/unit/tables/row_model.h"

#include <stdlib.h>
#include <string.h>

static enum ps_status get(struct row_model *model, const uint64_t *keys, size_t count, void *to)
{
    struct ps_bytes bytes = {(const uint8_t *)keys, count * sizeof *keys};
    return ps_row_table_get(model->table, ps_view_of(&bytes), to, NULL);
}

START_TEST(rows_come_in_the_order_asked_also_more_than_once)
{
    struct row_model model;
    row_model_open(&model, PS_RULE_SGD, PS_F32, 3, 1000);
    row_model_push_random(&model, 800, 1000);
    for (size_t count = 1; count < 3000; count = count * 3 + 1) {
        uint64_t keys[3000];
        uint32_t ids[3000];
        float rows[3000][3];
        for (size_t i = 0; i < count; i++) {
            ids[i] = (uint32_t)ps_random_below(&model.random, 1000);
            keys[i] = model.keys[ids[i]];
        }
        ck_assert_int_eq(get(&model, keys, count, rows), PS_OK);
        for (size_t i = 0; i < count; i++)
            ck_assert_int_eq(memcmp(rows[i], model.values + ids[i] * model.row_bytes, 12), 0);
    }
    row_model_close(&model);
}
END_TEST

START_TEST(an_unknown_key_has_its_first_values_and_makes_no_row)
{
    struct row_model model;
    row_model_open(&model, PS_RULE_SGD, PS_F32, 16, 100);
    row_model_compare(&model);
    ck_assert_uint_eq(ps_row_table_rows(model.table), 0);
    row_model_push_random(&model, 10, 50);
    row_model_compare(&model);
    row_model_close(&model);
}
END_TEST

START_TEST(no_keys_are_no_rows)
{
    struct row_model model;
    row_model_open(&model, PS_RULE_SGD, PS_F32, 16, 100);
    ck_assert_int_eq(get(&model, NULL, 0, NULL), PS_OK);
    row_model_close(&model);
}
END_TEST

START_TEST(half_a_key_and_a_key_of_another_shard_are_refused)
{
    static const uint64_t keys[] = {5, 50};
    struct row_model model;
    float rows[2];
    row_model_plan(&model, PS_RULE_SGD, PS_F32, 1, 100);
    model.options.key_end = 50;
    row_model_begin(&model);
    struct ps_bytes odd = {(const uint8_t *)keys, 12};
    ck_assert_int_eq(ps_row_table_get(model.table, ps_view_of(&odd), rows, NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(get(&model, keys, 2, rows), PS_ERR_OUT_OF_RANGE);
    ck_assert_int_eq(get(&model, keys, 1, rows), PS_OK);
    row_model_close(&model);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_pull");
    tcase_add_test(tests, rows_come_in_the_order_asked_also_more_than_once);
    tcase_add_test(tests, an_unknown_key_has_its_first_values_and_makes_no_row);
    tcase_add_test(tests, no_keys_are_no_rows);
    tcase_add_test(tests, half_a_key_and_a_key_of_another_shard_are_refused);
    return run_tests("row_pull", tests);
}
