/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_sweep.c: rows that were not pushed to for long go, and no others. */
#include "tests/unit/tables/row_model.h"

#include <string.h>

static void sweep_model(struct row_model *model, uint64_t before)
{
    for (uint32_t i = 0; i < model->ids; i++) {
        if (!model->there[i] || model->touched[i] >= before)
            continue;
        model->there[i] = false;
        memset(model->values + i * model->row_bytes, 0, model->row_bytes);
        for (uint32_t k = 0; k < model->options.layout.state_count; k++)
            memset(model->states[k] + i * model->row_bytes, 0, model->row_bytes);
    }
}

START_TEST(old_rows_go_and_come_back_as_new)
{
    struct row_model model;
    row_model_plan(&model, PS_RULE_ADAM, PS_F32, 4, 2000);
    model.options.settings.init = PS_TABLE_ZERO;
    row_model_begin(&model);
    for (uint64_t round = 1; round <= 12; round++) {
        row_model_push_random(&model, 300, 2000);
        uint64_t before = round > 3 ? round - 3 : 0;
        uint64_t rows = row_model_rows(&model);
        sweep_model(&model, before);
        ck_assert_uint_eq(ps_row_table_sweep(model.table, before, model.version),
                          rows - row_model_rows(&model));
        row_model_compare(&model);
    }
    row_model_close(&model);
}
END_TEST

START_TEST(room_of_rows_that_went_is_used_again)
{
    struct row_model model;
    row_model_plan(&model, PS_RULE_SGD, PS_F32, 4, 60000);
    model.options.settings.init = PS_TABLE_ZERO;
    row_model_begin(&model);
    uint64_t bytes = 0;
    for (uint32_t round = 0; round < 6; round++) {
        uint32_t ids[10000];
        for (uint32_t i = 0; i < 10000; i++)
            ids[i] = round * 10000 + i;
        row_model_push(&model, ids, 10000);
        sweep_model(&model, model.version);
        ck_assert_uint_eq(ps_row_table_sweep(model.table, model.version, model.version),
                          round == 0 ? 0 : 10000);
        if (round == 2)
            bytes = ps_row_table_bytes(model.table);
    }
    /* The hash does not fill stripes evenly: some room more, but no growth with each round. */
    ck_assert_uint_le(ps_row_table_bytes(model.table), bytes + bytes / 2);
    row_model_compare(&model);
    row_model_close(&model);
}
END_TEST

START_TEST(versions_go_on_beyond_32_bits)
{
    struct row_model model;
    row_model_open(&model, PS_RULE_SGD, PS_F32, 1, 100);
    model.version = UINT32_MAX - 2;
    uint32_t first[] = {1};
    uint32_t second[] = {2};
    row_model_push(&model, first, 1);
    for (int i = 0; i < 5; i++)
        row_model_push(&model, second, 1);
    uint64_t now = (uint64_t)UINT32_MAX + 4;
    ck_assert_uint_eq(model.version, now);
    ck_assert_uint_eq(ps_row_table_sweep(model.table, now - 6, now), 0);
    ck_assert_uint_eq(ps_row_table_sweep(model.table, now - 4, now), 1);
    ck_assert_uint_eq(ps_row_table_sweep(model.table, now, now), 0);
    ck_assert_uint_eq(ps_row_table_rows(model.table), 1);
    row_model_close(&model);
}
END_TEST

START_TEST(the_digest_sees_rows_and_not_their_order)
{
    struct row_model one;
    struct row_model two;
    row_model_open(&one, PS_RULE_ADD, PS_I64, 2, 1000);
    row_model_open(&two, PS_RULE_ADD, PS_I64, 2, 1000);
    static const uint64_t forward[] = {1, 2, 3, 4};
    int64_t rows[4][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}};
    static const uint64_t backward[] = {4, 3, 2, 1};
    int64_t swor[4][2] = {{7, 8}, {5, 6}, {3, 4}, {1, 2}};
    static const uint32_t touched[4] = {9, 9, 9, 9};
    ck_assert_uint_eq(ps_row_table_digest(one.table), ps_row_table_digest(two.table));
    ck_assert_int_eq(ps_row_table_load(one.table, forward, touched, rows, NULL, 4, NULL), PS_OK);
    ck_assert_uint_ne(ps_row_table_digest(one.table), ps_row_table_digest(two.table));
    ck_assert_int_eq(ps_row_table_load(two.table, backward, touched, swor, NULL, 4, NULL), PS_OK);
    ck_assert_uint_eq(ps_row_table_digest(one.table), ps_row_table_digest(two.table));
    row_model_close(&one);
    row_model_close(&two);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_sweep");
    tcase_add_test(tests, old_rows_go_and_come_back_as_new);
    tcase_add_test(tests, room_of_rows_that_went_is_used_again);
    tcase_add_test(tests, versions_go_on_beyond_32_bits);
    tcase_add_test(tests, the_digest_sees_rows_and_not_their_order);
    return run_tests("row_sweep", tests);
}
