/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_load.c: what was saved is there again; what cannot be right is refused. */
#include "tests/unit/tables/row_model.h"

START_TEST(a_loaded_table_goes_on_like_the_first)
{
    struct row_model model;
    struct ps_row_hold *hold;
    row_model_open(&model, PS_RULE_ADAM, PS_F64, 3, 2000);
    for (int i = 0; i < 4; i++)
        row_model_push_random(&model, 600, 2000);
    ck_assert_int_eq(ps_row_hold_take(model.table, &hold, NULL), PS_OK);
    struct ps_row_table *loaded = row_model_loaded(&model, hold);
    ps_row_hold_release(hold);
    ps_row_table_destroy(model.table);
    model.table = loaded;

    for (int i = 0; i < 4; i++)
        row_model_push_random(&model, 600, 2000);
    row_model_compare(&model);
    row_model_close(&model);
}
END_TEST

START_TEST(a_table_that_expects_its_rows_is_the_same)
{
    static const uint64_t counts[] = {0, 1, 300, 1999, 50000};
    struct row_model model;
    struct ps_row_hold *hold;
    row_model_open(&model, PS_RULE_SGD, PS_F32, 2, 2000);
    row_model_push_random(&model, 1500, 2000);
    ck_assert_int_eq(ps_row_hold_take(model.table, &hold, NULL), PS_OK);
    ck_assert_uint_lt(ps_row_hold_rows(hold), 2000);
    uint64_t keys[2000];
    uint32_t touched[2000];
    float values[2000][2];
    size_t rows = ps_row_hold_rows(hold);
    ck_assert_int_eq(ps_row_hold_read(hold, 0, 0, values, rows * sizeof values[0], NULL), PS_OK);
    ck_assert_int_eq(ps_row_hold_read(hold, 1, 0, keys, rows * sizeof keys[0], NULL), PS_OK);
    ck_assert_int_eq(ps_row_hold_read(hold, 2, 0, touched, rows * sizeof touched[0], NULL), PS_OK);
    struct ps_row_table *loaded;
    ck_assert_int_eq(ps_row_table_create(&model.options, &loaded, NULL), PS_OK);
    ck_assert_int_eq(ps_row_table_expect(loaded, counts[_i], model.version, NULL), PS_OK);
    ck_assert_int_eq(ps_row_table_load(loaded, keys, touched, values, NULL, rows, NULL), PS_OK);
    ps_row_table_check(loaded);
    ck_assert_uint_eq(ps_row_table_digest(loaded), ps_row_table_digest(model.table));
    ps_row_table_destroy(loaded);
    ps_row_hold_release(hold);
    row_model_close(&model);
}
END_TEST

START_TEST(a_key_that_comes_twice_is_damage)
{
    static const uint64_t keys[] = {5, 6, 5};
    static const uint32_t touched[3] = {1, 1, 1};
    static const float values[3] = {1, 2, 3};
    struct row_model model;
    row_model_open(&model, PS_RULE_SGD, PS_F32, 1, 10);
    ck_assert_int_eq(ps_row_table_load(model.table, keys, touched, values, NULL, 3, NULL),
                     PS_ERR_CORRUPT);
    row_model_close(&model);
}
END_TEST

START_TEST(a_key_of_another_shard_is_refused)
{
    static const uint64_t keys[] = {5, 6};
    static const uint32_t touched[2] = {1, 1};
    static const float values[2] = {1, 2};
    struct row_model model;
    row_model_plan(&model, PS_RULE_SGD, PS_F32, 1, 10);
    model.options.key_end = 6;
    row_model_begin(&model);
    ck_assert_int_eq(ps_row_table_load(model.table, keys, touched, values, NULL, 2, NULL),
                     PS_ERR_OUT_OF_RANGE);
    row_model_close(&model);
}
END_TEST

/* Three candidates of a table that wants three pushes, the last of them with this count or key. */
static enum ps_status load_candidates(uint64_t key, uint32_t count)
{
    const uint64_t keys[] = {5, 6, key};
    const uint32_t counts[] = {1, 2, count};
    static const uint32_t touched[3] = {7, 7, 7};
    static const float values[1] = {1};
    static const uint64_t row[] = {9};
    struct row_model model;
    row_model_plan(&model, PS_RULE_SGD, PS_F32, 1, 10);
    model.options.key_end = 100;
    model.options.settings.admission = 3;
    row_model_begin(&model);
    ck_assert_int_eq(ps_row_table_load(model.table, row, touched, values, NULL, 1, NULL), PS_OK);
    enum ps_status status =
        ps_row_table_load_candidates(model.table, keys, counts, touched, 3, NULL);
    if (status == PS_OK) {
        ps_row_table_check(model.table);
        ck_assert_uint_eq(ps_row_table_rows(ps_row_table_candidates(model.table)), 3);
    }
    row_model_close(&model);
    return status;
}

START_TEST(candidates_that_cannot_be_are_refused)
{
    ck_assert_int_eq(load_candidates(8, 1), PS_OK);
    ck_assert_int_eq(load_candidates(8, 2), PS_OK);
    /* No push, enough for a row, a key that is there or has a row, one of another shard. */
    ck_assert_int_eq(load_candidates(8, 0), PS_ERR_CORRUPT);
    ck_assert_int_eq(load_candidates(8, 3), PS_ERR_CORRUPT);
    ck_assert_int_eq(load_candidates(5, 1), PS_ERR_CORRUPT);
    ck_assert_int_eq(load_candidates(9, 1), PS_ERR_CORRUPT);
    ck_assert_int_eq(load_candidates(100, 1), PS_ERR_OUT_OF_RANGE);
}
END_TEST

/* A limit of two rows, of which one was pushed to last more than 2^31 versions ago: that one goes,
 * in whatever order they stand in the file. */
START_TEST(the_oldest_goes_however_far_apart_versions_are)
{
    static const uint64_t keys[2][2] = {{5, 6}, {6, 5}};
    static const uint64_t asked[] = {5, 6, 7};
    const uint64_t version = ((uint64_t)1 << 31) + 100;
    const uint32_t touched[2][2] = {{1, (uint32_t)version}, {(uint32_t)version, 1}};
    static const float values[2][2] = {{1, 2}, {2, 1}};
    static const struct {
        uint64_t key;
        float gradient;
    } __attribute__((packed)) push = {7, 3};
    const struct ps_bytes content = {(const uint8_t *)&push, sizeof push};
    const struct ps_bytes wanted = {(const uint8_t *)asked, sizeof asked};
    float found[3];
    struct row_model model;
    row_model_plan(&model, PS_RULE_ADD, PS_F32, 1, 10);
    model.options.settings.init = PS_TABLE_ZERO;
    model.options.settings.rows_max = 2;
    model.options.settings.full = PS_TABLE_OLDEST;
    row_model_begin(&model);
    ck_assert_int_eq(ps_row_table_expect(model.table, 2, version, NULL), PS_OK);
    ck_assert_int_eq(
        ps_row_table_load(model.table, keys[_i], touched[_i], values[_i], NULL, 2, NULL), PS_OK);
    ck_assert_int_eq(row_table_push(model.table, content, &model.settings, version + 1), PS_OK);
    ck_assert_int_eq(ps_row_table_get(model.table, ps_view_of(&wanted), found, NULL), PS_OK);
    ck_assert_float_eq(found[0], 0);
    ck_assert_float_eq(found[1], 2);
    ck_assert_float_eq(found[2], 3);
    row_model_close(&model);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_load");
    tcase_add_test(tests, a_loaded_table_goes_on_like_the_first);
    tcase_add_loop_test(tests, a_table_that_expects_its_rows_is_the_same, 0, 5);
    tcase_add_test(tests, a_key_that_comes_twice_is_damage);
    tcase_add_test(tests, a_key_of_another_shard_is_refused);
    tcase_add_test(tests, candidates_that_cannot_be_are_refused);
    tcase_add_loop_test(tests, the_oldest_goes_however_far_apart_versions_are, 0, 2);
    return run_tests("row_load", tests);
}
