/* SPDX-License-Identifier: Apache-2.0 */
/* Random pushes to a table and to a plain model: the same bits, for every rule and type that tables
 * have, whatever the batches and however the table has grown. */
#include "server/core/tables/row_stripes.h"
#include "tests/unit/tables/row_model.h"

static bool goes(enum ps_rule rule, enum ps_dtype dtype)
{
    struct ps_optimizer_settings settings;
    return row_model_settings(&settings, rule, dtype, 1);
}

static void run(enum ps_rule rule, enum ps_dtype dtype, uint32_t width, uint32_t ids)
{
    struct row_model model;
    row_model_open(&model, rule, dtype, width, ids);
    static const size_t counts[] = {1, 0, 7, 300, 64, 2000, 33, 1000, 2};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        uint32_t below = i % 3 == 0 ? ids : ids / 7 + 1;
        row_model_push_random(&model, counts[i], below);
    }
    row_model_compare(&model);
    ck_assert_uint_gt(ps_row_table_rows(model.table), 0);
    /* The test shall not pass for want of what it is about. Longer rows may have no room. */
    if (model.table->bodies != NULL && width <= 128)
        ck_assert_uint_gt(ps_row_table_seated(model.table), 0);
    row_model_close(&model);
}

START_TEST(every_rule_and_type_has_the_bits_of_single_rows)
{
    for (int dtype = 0; dtype < PS_DTYPE_COUNT; dtype++) {
        if (!goes((enum ps_rule)_i, (enum ps_dtype)dtype))
            continue;
        run((enum ps_rule)_i, (enum ps_dtype)dtype, 1, 900);
        run((enum ps_rule)_i, (enum ps_dtype)dtype, 5, 900);
    }
}
END_TEST

START_TEST(every_width_has_the_bits_of_single_rows)
{
    static const uint32_t widths[] = {1, 2, 3, 16, 64, 100, 127, 128, 200, 1000, 4096};
    run(PS_RULE_ADAGRAD, PS_F32, widths[_i], 300);
    run(PS_RULE_FTRL, PS_F64, widths[_i], 100);
}
END_TEST

START_TEST(one_accumulator_for_a_row_is_kept_and_loaded)
{
    static const uint32_t widths[] = {1, 2, 5, 16, 64, 333};
    struct row_model model;
    struct ps_row_hold *hold;
    row_model_plan(&model, PS_RULE_ADAGRAD, PS_F32, widths[_i], 800);
    model.settings.adagrad_row_wise = true;
    model.options.layout.state_is_one[0] = true;
    row_model_begin(&model);
    for (int i = 0; i < 5; i++)
        row_model_push_random(&model, 500, 800);
    row_model_compare(&model);
    ck_assert_int_eq(ps_row_hold_take(model.table, &hold, NULL), PS_OK);
    ck_assert_uint_eq(ps_row_hold_row_bytes(hold, 1), 4);
    struct ps_row_table *loaded = row_model_loaded(&model, hold);
    ck_assert_uint_eq(ps_row_table_digest(loaded), ps_row_table_digest(model.table));
    ps_row_table_destroy(loaded);
    ps_row_hold_release(hold);
    row_model_close(&model);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_push_random");
    tcase_add_loop_test(tests, every_rule_and_type_has_the_bits_of_single_rows, 0, PS_RULE_COUNT);
    tcase_add_loop_test(tests, every_width_has_the_bits_of_single_rows, 0, 11);
    tcase_add_loop_test(tests, one_accumulator_for_a_row_is_kept_and_loaded, 0, 6);
    return run_tests("row_push_random", tests);
}
