/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_prepare.c: nothing that anybody sees happens before apply. */
#include "tests/unit/tables/row_model.h"

#include <stdlib.h>

static struct row_model model;
static uint8_t *content;
static struct ps_row_push *push;

/* A table with 500 rows, and a push that makes some more. */
static void open(void)
{
    size_t size;
    uint32_t ids[1000];
    row_model_open(&model, PS_RULE_ADAGRAD, PS_F32, 8, 1000);
    row_model_push_random(&model, 700, 500);
    for (uint32_t i = 0; i < 1000; i++)
        ids[i] = i;
    content = row_model_content(&model, ids, 1000, &size);
    struct ps_bytes bytes = {content, size};
    ck_assert_int_eq(ps_row_push_read(model.table, ps_view_of(&bytes), &push, NULL), PS_OK);
}

static void close(void)
{
    ps_row_push_release(push);
    free(content);
    row_model_close(&model);
}

START_TEST(a_push_that_is_prepared_and_given_up_changes_nothing)
{
    uint64_t digest = ps_row_table_digest(model.table);
    ck_assert_int_eq(ps_row_push_prepare(push, UINT64_MAX, NULL), PS_OK);
    ck_assert_uint_eq(ps_row_push_made(push), 1000 - row_model_rows(&model));
    ck_assert_uint_eq(ps_row_push_evicted(push), 0);
    ck_assert_uint_eq(ps_row_table_digest(model.table), digest);
    row_model_compare(&model);
}
END_TEST

START_TEST(memory_that_is_not_left_refuses_the_push)
{
    uint64_t bytes = ps_row_table_bytes(model.table);
    ck_assert_int_eq(ps_row_push_prepare(push, 1000, NULL), PS_ERR_TABLE_FULL);
    ck_assert_uint_le(ps_row_table_bytes(model.table), bytes + 1000);
    row_model_compare(&model);
    row_model_push_random(&model, 700, 1000);
    row_model_compare(&model);
}
END_TEST

START_TEST(a_step_that_is_skipped_changes_nothing)
{
    struct ps_optimizer_step step = {.settings = &model.settings, .dtype = PS_F32, .skip = true};
    uint64_t digest = ps_row_table_digest(model.table);
    ck_assert_int_eq(ps_row_push_prepare(push, UINT64_MAX, NULL), PS_OK);
    ps_row_push_apply(push, &step, 2);
    ck_assert_uint_eq(ps_row_table_digest(model.table), digest);
    row_model_compare(&model);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_prepare");
    tcase_add_checked_fixture(tests, open, close);
    tcase_add_test(tests, a_push_that_is_prepared_and_given_up_changes_nothing);
    tcase_add_test(tests, memory_that_is_not_left_refuses_the_push);
    tcase_add_test(tests, a_step_that_is_skipped_changes_nothing);
    return run_tests("row_prepare", tests);
}
