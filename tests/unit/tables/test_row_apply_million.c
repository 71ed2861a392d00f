/* SPDX-License-Identifier: Apache-2.0 */
/* A million keys: stripes that have grown many times, under holds that come and go, have the bits
 * of the model, and a table that is loaded from a hold is the same. */
#include "tests/unit/tables/row_model.h"

#define IDS 1000000
#define PUSH 50000

START_TEST(a_million_rows_have_the_bits_of_single_rows)
{
    static uint32_t ids[PUSH];
    struct row_model model;
    struct ps_row_hold *hold = NULL;
    row_model_open(&model, PS_RULE_ADD, PS_I32, 1, IDS);
    for (uint32_t first = 0; first < IDS; first += PUSH) {
        /* New rows, and among them some that there are already. */
        for (uint32_t i = 0; i < PUSH; i++)
            ids[i] = i % 10 == 0 ? (uint32_t)ps_random_below(&model.random, first + 1) : first + i;
        if (first % (4 * PUSH) == 0) {
            ps_row_hold_release(hold);
            ck_assert_int_eq(ps_row_hold_take(model.table, &hold, NULL), PS_OK);
        }
        row_model_push(&model, ids, PUSH);
    }
    row_model_compare(&model);
    ps_row_hold_release(hold);
    ck_assert_int_eq(ps_row_hold_take(model.table, &hold, NULL), PS_OK);
    struct ps_row_table *loaded = row_model_loaded(&model, hold);
    ck_assert_uint_eq(ps_row_table_digest(loaded), ps_row_table_digest(model.table));
    ps_row_table_destroy(loaded);
    ps_row_hold_release(hold);
    row_model_close(&model);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_apply_million");
    tcase_add_test(tests, a_million_rows_have_the_bits_of_single_rows);
    return run_tests("row_apply_million", tests);
}
