/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_hold_read.c: what is read are the rows of the instant, beside pushes. */
#include "server/core/tables/row_aside.h"
#include "tests/unit/tables/row_model.h"

#include <stdlib.h>

START_TEST(arrays_are_read_from_anywhere_while_rows_are_set_aside)
{
    struct row_model model;
    struct ps_row_hold *hold;
    row_model_open(&model, PS_RULE_ADAGRAD, PS_F32, 3, 2000);
    row_model_push_random(&model, 1500, 2000);
    ck_assert_int_eq(ps_row_hold_take(model.table, &hold, NULL), PS_OK);
    size_t size = ps_row_hold_rows(hold) * ps_row_hold_row_bytes(hold, 0);
    uint8_t *before = malloc(size);
    uint8_t *after = malloc(size);
    ck_assert_int_eq(ps_row_hold_read(hold, 0, 0, before, size, NULL), PS_OK);

    for (size_t at = 0; at < size; at += 97) {
        size_t some = size - at < 97 ? size - at : 97;
        ck_assert_int_eq(ps_row_hold_read(hold, 0, at, after + at, some, NULL), PS_OK);
        if (at % (97 * 7) == 0)
            row_model_push_random(&model, 30, 2000);
    }

    ck_assert_mem_eq(before, after, size);
    row_model_compare(&model);
    ps_row_hold_release(hold);
    free(before);
    free(after);
    row_model_close(&model);
}
END_TEST

/* As a checkpoint's writer goes: some rows of each array, and then they are let go, beside pushes.
 * */
START_TEST(rows_are_let_go_as_they_are_read)
{
    struct row_model model;
    struct ps_row_hold *hold;
    uint8_t *before[4];
    row_model_open(&model, PS_RULE_ADAGRAD, PS_F32, 3, 20000);
    for (int i = 0; i < 4; i++)
        row_model_push_random(&model, 15000, 20000);
    ck_assert_int_eq(ps_row_hold_take(model.table, &hold, NULL), PS_OK);
    uint64_t rows = ps_row_hold_rows(hold);
    ck_assert_uint_eq(ps_row_hold_arrays(hold), 4);
    for (uint32_t array = 0; array < 4; array++) {
        size_t size = rows * ps_row_hold_row_bytes(hold, array);
        before[array] = malloc(size);
        ck_assert_int_eq(ps_row_hold_read(hold, array, 0, before[array], size, NULL), PS_OK);
    }
    for (uint64_t row = 0; row < rows; row += 501) {
        uint64_t some = rows - row < 501 ? rows - row : 501;
        row_model_push_random(&model, 3000, 20000);
        for (uint32_t array = 0; array < 4; array++) {
            size_t each = ps_row_hold_row_bytes(hold, array);
            uint8_t read[501 * 12];
            ck_assert_int_eq(ps_row_hold_read(hold, array, row * each, read, some * each, NULL),
                             PS_OK);
            ck_assert_mem_eq(read, before[array] + row * each, some * each);
        }
        ps_row_hold_let_go(hold, row + some);
    }
    ck_assert_uint_eq(row_model_due(model.table, model.table->asides), 0);
    for (uint32_t i = 0; i < PS_ROW_LOCKS; i++)
        ck_assert_ptr_null(model.table->asides->kept[i].pages);
    row_model_compare(&model);
    ps_row_hold_release(hold);
    for (uint32_t array = 0; array < 4; array++)
        free(before[array]);
    row_model_close(&model);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_hold_read");
    tcase_add_test(tests, arrays_are_read_from_anywhere_while_rows_are_set_aside);
    tcase_add_test(tests, rows_are_let_go_as_they_are_read);
    return run_tests("row_hold_read", tests);
}
