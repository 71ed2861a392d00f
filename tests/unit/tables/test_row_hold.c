/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_hold.c: a hold stays what it was, whatever comes after. */
#include "tests/unit/tables/row_model.h"

#include "base/slab.h"
#include "server/core/tables/row_aside.h"

#include <stdlib.h>

#define SLAB_ROOM (PS_SLAB_BYTES + (size_t)1024 * 1024)

/* The table of the hold's instant, by its digest. */
static void expect(struct row_model *model, struct ps_row_hold *hold, uint64_t digest)
{
    struct ps_row_table *loaded = row_model_loaded(model, hold);
    ps_row_table_check(loaded);
    ck_assert_uint_eq(ps_row_table_rows(loaded), ps_row_hold_rows(hold));
    ck_assert_uint_eq(ps_row_table_digest(loaded), digest);
    ps_row_table_destroy(loaded);
}

START_TEST(a_hold_stays_what_it_was_while_pushes_go_on)
{
    struct row_model model;
    struct ps_row_hold *hold;
    row_model_open(&model, PS_RULE_ADAM, PS_F32, 16, 5000);
    row_model_push_random(&model, 2000, 3000);
    uint64_t digest = ps_row_table_digest(model.table);
    ck_assert_int_eq(ps_row_hold_take(model.table, &hold, NULL), PS_OK);

    for (int i = 0; i < 5; i++)
        row_model_push_random(&model, 1000, 5000);

    expect(&model, hold, digest);
    row_model_compare(&model);
    ck_assert_uint_ne(ps_row_table_digest(model.table), digest);
    ps_row_hold_release(hold);
    row_model_close(&model);
}
END_TEST

START_TEST(holds_end_in_any_order)
{
    static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                    {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    struct row_model model;
    struct ps_row_hold *holds[3];
    uint64_t digests[3];
    row_model_open(&model, PS_RULE_SGD, PS_F32, 4, 3000);
    for (int i = 0; i < 3; i++) {
        row_model_push_random(&model, 700, 3000);
        digests[i] = ps_row_table_digest(model.table);
        ck_assert_int_eq(ps_row_hold_take(model.table, &holds[i], NULL), PS_OK);
    }
    row_model_push_random(&model, 700, 3000);
    for (int i = 0; i < 3; i++) {
        for (int k = i; k < 3; k++)
            expect(&model, holds[orders[_i][k]], digests[orders[_i][k]]);
        ps_row_hold_release(holds[orders[_i][i]]);
        row_model_push_random(&model, 700, 3000);
    }
    row_model_compare(&model);
    row_model_close(&model);
}
END_TEST

START_TEST(a_row_is_set_aside_once_for_a_hold_and_not_without_one)
{
    struct row_model model;
    struct ps_row_hold *hold;
    row_model_open(&model, PS_RULE_SGD, PS_F32, 16, 20000);
    for (int i = 0; i < 8; i++)
        row_model_push_random(&model, 10000, 20000);
    uint64_t rows = ps_row_table_rows(model.table);
    ck_assert_int_eq(ps_row_hold_take(model.table, &hold, NULL), PS_OK);
    uint64_t before = ps_row_table_bytes(model.table);
    /* The hold was not expected: what is set aside is memory more. */
    for (int i = 0; i < 20; i++)
        row_model_push_random(&model, 10000, 20000);
    uint64_t held = ps_row_table_bytes(model.table);
    ps_row_hold_release(hold);

    /* With the new rows of the late pushes, and a slab that is not full. */
    uint64_t pages = ps_row_aside_pages(model.table, rows);
    ck_assert_uint_le(held - before, pages * model.table->shape.page_bytes + SLAB_ROOM);
    for (int i = 0; i < 5; i++) {
        row_model_push_random(&model, 10000, 20000);
        ck_assert_uint_eq(ps_row_table_bytes(model.table), held);
    }
    row_model_close(&model);
}
END_TEST

START_TEST(what_is_expected_is_there_for_the_copies)
{
    struct row_model model;
    struct ps_row_hold *hold;
    row_model_open(&model, PS_RULE_SGD, PS_F32, 16, 5000);
    for (int i = 0; i < 8; i++)
        row_model_push_random(&model, 5000, 5000);
    ps_row_hold_expect(model.table);
    uint64_t ready = ps_row_table_bytes(model.table);
    const struct ps_row_hold *next = model.table->next_hold;
    ck_assert_int_eq(ps_row_hold_take(model.table, &hold, NULL), PS_OK);
    ck_assert_ptr_eq(hold, next);
    ck_assert_ptr_null(model.table->next_hold);
    static uint32_t ids[5000];
    for (uint32_t i = 0; i < 5000; i++)
        ids[i] = i; /* random pushes may have left some out: their rows have room */
    row_model_push(&model, ids, 5000);
    ck_assert_uint_eq(ps_row_table_bytes(model.table), ready);
    ps_row_hold_release(hold);
    ps_row_hold_expect(model.table);
    ck_assert_uint_eq(ps_row_table_bytes(model.table), ready);
    row_model_close(&model);
}
END_TEST

/* What was made ready is too small by then, or is never used. */
START_TEST(a_table_may_grow_between_the_expectation_and_the_instant)
{
    struct row_model model;
    struct ps_row_hold *hold;
    row_model_open(&model, PS_RULE_SGD, PS_F32, 16, 20000);
    row_model_push_random(&model, 10, 20000);
    ps_row_hold_expect(model.table);
    for (int i = 0; i < 4; i++)
        row_model_push_random(&model, 10000, 20000);
    uint64_t digest = ps_row_table_digest(model.table);
    ck_assert_int_eq(ps_row_hold_take(model.table, &hold, NULL), PS_OK);
    row_model_push_random(&model, 10000, 20000);
    expect(&model, hold, digest);
    ps_row_hold_release(hold);
    ps_row_hold_expect(model.table);
    ps_row_hold_expect(model.table);
    row_model_close(&model);
}
END_TEST

START_TEST(a_hold_outlives_its_table)
{
    struct row_model model;
    struct ps_row_hold *hold;
    row_model_open(&model, PS_RULE_SGD, PS_F64, 3, 500);
    row_model_push_random(&model, 400, 500);
    uint64_t digest = ps_row_table_digest(model.table);
    ck_assert_int_eq(ps_row_hold_take(model.table, &hold, NULL), PS_OK);
    ps_row_table_destroy(model.table);
    model.table = NULL;

    expect(&model, hold, digest);
    ps_row_hold_release(hold);
    row_model_close(&model);
}
END_TEST

START_TEST(an_empty_table_can_be_held)
{
    struct row_model model;
    struct ps_row_hold *hold;
    uint8_t byte;
    row_model_open(&model, PS_RULE_SGD, PS_F32, 3, 500);
    ck_assert_int_eq(ps_row_hold_take(model.table, &hold, NULL), PS_OK);
    row_model_push_random(&model, 400, 500);

    ck_assert_uint_eq(ps_row_hold_rows(hold), 0);
    ck_assert_int_eq(ps_row_hold_read(hold, 0, 0, &byte, 0, NULL), PS_OK);
    ps_row_hold_release(hold);
    ps_row_hold_release(NULL);
    row_model_compare(&model);
    row_model_close(&model);
}
END_TEST

START_TEST(rows_that_a_sweep_takes_stay_in_a_hold)
{
    struct row_model model;
    struct ps_row_hold *hold;
    row_model_open(&model, PS_RULE_ADAGRAD, PS_F32, 4, 2000);
    for (int i = 0; i < 6; i++)
        row_model_push_random(&model, 500, 2000);
    uint64_t digest = ps_row_table_digest(model.table);
    ck_assert_int_eq(ps_row_hold_take(model.table, &hold, NULL), PS_OK);
    ck_assert_uint_gt(ps_row_table_sweep(model.table, 5, 6), 0);
    /* New rows come to where the old ones were. */
    uint32_t ids[700];
    for (uint32_t i = 0; i < 700; i++)
        ids[i] = i * 2;
    size_t size;
    uint8_t *content = row_model_content(&model, ids, 700, &size);
    struct ps_bytes bytes = {content, size};
    ck_assert_int_eq(row_table_push(model.table, bytes, &model.settings, 7), PS_OK);

    expect(&model, hold, digest);
    ps_row_table_check(model.table);
    ps_row_hold_release(hold);
    free(content);
    row_model_close(&model);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_hold");
    tcase_add_test(tests, a_hold_stays_what_it_was_while_pushes_go_on);
    tcase_add_loop_test(tests, holds_end_in_any_order, 0, 6);
    tcase_add_test(tests, a_row_is_set_aside_once_for_a_hold_and_not_without_one);
    tcase_add_test(tests, what_is_expected_is_there_for_the_copies);
    tcase_add_test(tests, a_table_may_grow_between_the_expectation_and_the_instant);
    tcase_add_test(tests, a_hold_outlives_its_table);
    tcase_add_test(tests, an_empty_table_can_be_held);
    tcase_add_test(tests, rows_that_a_sweep_takes_stay_in_a_hold);
    return run_tests("row_hold", tests);
}
