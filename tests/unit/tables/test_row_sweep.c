/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_sweep.c: rows that were not pushed to for long go, and no others. */
#include "tests/unit/tables/row_model.h"

#include <string.h>

static void remove_from_model(struct row_model *model, uint32_t id)
{
    model->there[id] = false;
    memset(model->values + id * model->row_bytes, 0, model->row_bytes);
    for (uint32_t k = 0; k < model->options.layout.state_count; k++)
        memset(model->states[k] + id * model->row_bytes, 0, model->row_bytes);
}

static void sweep_model(struct row_model *model, uint64_t before)
{
    for (uint32_t i = 0; i < model->ids; i++)
        if (model->there[i] && model->touched[i] < before)
            remove_from_model(model, i);
}

/* Of these keys alone; says how many rows went. */
static uint64_t remove_found(struct row_model *model, const struct ps_row_found *found,
                             uint64_t before)
{
    uint64_t gone = 0;
    for (uint32_t k = 0; k < found->count; k++)
        for (uint32_t i = 0; i < model->ids; i++)
            if (model->keys[i] == found->keys[k] && model->there[i] && model->touched[i] < before) {
                remove_from_model(model, i);
                gone++;
            }
    return gone;
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

/* Between looking and removing some of what was found is pushed to. */
START_TEST(what_is_found_old_goes_unless_it_was_pushed_to)
{
    struct row_model model;
    struct ps_row_found found;
    uint64_t bent = 0;
    row_model_plan(&model, PS_RULE_SGD, PS_F32, 4, 6000);
    model.options.settings.init = PS_TABLE_ZERO;
    row_model_begin(&model);
    for (int i = 0; i < 12; i++)
        row_model_push_random(&model, 1500, 6000);
    struct ps_row_walk walk = {.before = model.version - 4};
    for (bool is_more = true; is_more;) {
        is_more = ps_row_table_look(model.table, &walk, model.version, &found);
        ck_assert_uint_le(found.count, PS_ROW_FOUND_MAX);
        ck_assert_uint_le(found.looked, 2 * PS_ROW_LOOKED_MAX);
        ck_assert(!found.counts);
        row_model_push_random(&model, 300, 6000);
        const struct ps_row_removal removal = {found.keys, found.count, false, walk.before};
        uint64_t gone = ps_row_table_remove(model.table, &removal, model.version);
        ck_assert_uint_eq(gone, remove_found(&model, &found, walk.before));
        bent += found.count - gone;
        /* Once more there is nothing to do. */
        ck_assert_uint_eq(ps_row_table_remove(model.table, &removal, model.version), 0);
    }
    /* Nothing is left that was old at the begin. */
    uint64_t rows = row_model_rows(&model);
    sweep_model(&model, walk.before);
    ck_assert_uint_eq(row_model_rows(&model), rows);
    row_model_compare(&model);
    ck_assert_uint_gt(bent, 0);
    ck_assert_uint_eq(ps_row_table_sweep(model.table, walk.before, model.version), 0);
    ps_row_table_check(model.table);
    row_model_close(&model);
}
END_TEST

/* Pushes beside a look are ahead of its version, and not 2^32 versions behind. */
START_TEST(rows_of_later_versions_are_young)
{
    struct row_model model;
    struct ps_row_found found;
    row_model_open(&model, PS_RULE_SGD, PS_F32, 1, 100);
    for (int i = 0; i < 9; i++)
        row_model_push_random(&model, 50, 100);
    struct ps_row_walk walk = {.before = 1};
    for (bool is_more = true; is_more;) {
        is_more = ps_row_table_look(model.table, &walk, 1, &found);
        ck_assert_uint_eq(found.count, 0);
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
    tcase_add_test(tests, what_is_found_old_goes_unless_it_was_pushed_to);
    tcase_add_test(tests, rows_of_later_versions_are_young);
    tcase_add_test(tests, room_of_rows_that_went_is_used_again);
    tcase_add_test(tests, versions_go_on_beyond_32_bits);
    tcase_add_test(tests, the_digest_sees_rows_and_not_their_order);
    return run_tests("row_sweep", tests);
}
