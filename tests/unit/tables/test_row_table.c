/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_table.c: settings that may change, keys of the shard, and what it takes.
 * */
#include "tests/unit/tables/row_model.h"

#include "tests/support/fault_heap.h"

#include <stdlib.h>

START_TEST(what_may_change_changes_and_nothing_else_does)
{
    struct row_model model;
    row_model_open(&model, PS_RULE_SGD, PS_F32, 4, 10);
    struct ps_table_settings settings = model.options.settings;
    settings.rows_max = 100;
    settings.expire_ms = 5;
    ck_assert_int_eq(ps_row_table_configure(model.table, &settings, NULL), PS_OK);

    for (int i = 0; i < 6; i++) {
        struct ps_table_settings wrong = settings;
        wrong.width += i == 0;
        wrong.seed += i == 1;
        wrong.init = i == 2 ? PS_TABLE_ZERO : wrong.init;
        wrong.low -= i == 3;
        wrong.partition = i == 4 ? PS_TABLE_RANGE : wrong.partition;
        wrong.admission += i == 5;
        ck_assert_int_eq(ps_row_table_configure(model.table, &wrong, NULL), PS_ERR_BAD_INPUT);
    }
    row_model_close(&model);
}
END_TEST

START_TEST(keys_of_other_shards_are_refused_with_key_and_range)
{
    struct row_model model;
    struct ps_error error = {0};
    row_model_plan(&model, PS_RULE_SGD, PS_F32, 4, 10);
    model.options.key_first = 100;
    model.options.key_end = 200;
    row_model_begin(&model);

    ck_assert_int_eq(ps_row_table_check_key(model.table, 100, &error), PS_OK);
    ck_assert_int_eq(ps_row_table_check_key(model.table, 199, &error), PS_OK);
    ck_assert_int_eq(ps_row_table_check_key(model.table, 99, &error), PS_ERR_OUT_OF_RANGE);
    ck_assert_int_eq(ps_row_table_check_key(model.table, 200, &error), PS_ERR_OUT_OF_RANGE);
    ck_assert_str_eq(error.text,
                     "key 200 is not one of this shard's: they are from 100 to before 200");
    row_model_close(&model);
}
END_TEST

START_TEST(the_last_shard_has_all_keys_to_the_last)
{
    struct row_model model;
    row_model_plan(&model, PS_RULE_SGD, PS_F32, 4, 10);
    model.options.key_first = 100;
    row_model_begin(&model);

    ck_assert_int_eq(ps_row_table_check_key(model.table, UINT64_MAX, NULL), PS_OK);
    ck_assert_int_eq(ps_row_table_check_key(model.table, 99, NULL), PS_ERR_OUT_OF_RANGE);
    row_model_close(&model);
}
END_TEST

START_TEST(a_refused_allocation_changes_nothing)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct row_model model;
    row_model_plan(&model, PS_RULE_ADAM, PS_F32, 8, 3000);
    model.options.memory = &memory;
    row_model_begin(&model);
    row_model_push_random(&model, 300, 1000);
    uint32_t ids[2000];
    for (uint32_t i = 0; i < 2000; i++)
        ids[i] = i;
    size_t size;
    uint8_t *content = row_model_content(&model, ids, 2000, &size);
    struct ps_bytes bytes = {content, size};
    uint64_t digest = ps_row_table_digest(model.table);
    enum ps_status status = PS_ERR_NO_MEMORY;
    int refused = 0;
    for (; status != PS_OK; refused++) {
        heap.seen = 0;
        heap.refuse_at = refused;
        status = row_table_push(model.table, bytes, &model.settings, 2);
        if (status == PS_OK)
            break;
        ck_assert_int_eq(status, PS_ERR_NO_MEMORY);
        ck_assert_uint_eq(ps_row_table_digest(model.table), digest);
        ps_row_table_check(model.table);
    }

    ck_assert_int_gt(refused, 5);
    ck_assert_uint_ge(ps_row_table_rows(model.table), 2000);
    free(content);
    row_model_close(&model);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(ten_thousand_rows_and_more_take_few_bytes_beside_their_elements)
{
    struct row_model model;
    row_model_open(&model, PS_RULE_SGD, PS_F32, 16, 400000);
    for (uint32_t first = 0; first < 400000; first += 10000) {
        uint32_t ids[10000];
        for (uint32_t i = 0; i < 10000; i++)
            ids[i] = first + i;
        row_model_push(&model, ids, 10000);
    }

    ck_assert_uint_eq(ps_row_table_rows(model.table), 400000);
    /* 20 bytes of a large table; of this one a quarter of the pages of a stripe may be empty. */
    ck_assert_uint_lt(ps_row_table_bytes(model.table), 400000 * (64 + 28));
    row_model_compare(&model);
    row_model_close(&model);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_table");
    tcase_add_test(tests, what_may_change_changes_and_nothing_else_does);
    tcase_add_test(tests, keys_of_other_shards_are_refused_with_key_and_range);
    tcase_add_test(tests, the_last_shard_has_all_keys_to_the_last);
    tcase_add_test(tests, a_refused_allocation_changes_nothing);
    tcase_add_test(tests, ten_thousand_rows_and_more_take_few_bytes_beside_their_elements);
    return run_tests("row_table", tests);
}
