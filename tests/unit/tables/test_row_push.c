/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_push.c: what a push is made of, and what is refused. */
#include "tests/unit/tables/row_model.h"

#include "server/core/tables/row_push_parts.h"

#include <math.h>
#include <string.h>

static struct row_model model;

static enum ps_status read_push(const void *data, size_t size, struct ps_row_push **push)
{
    struct ps_bytes bytes = {data, size};
    return ps_row_push_read(model.table, ps_view_of(&bytes), push, NULL);
}

static void open(void)
{
    row_model_open(&model, PS_RULE_SGD, PS_F32, 2, 10);
}

static void close(void)
{
    row_model_close(&model);
}

struct pushed {
    uint64_t keys[4];
    float gradients[4][2];
};

START_TEST(bytes_that_are_no_rows_are_refused)
{
    uint8_t bytes[64] = {0};
    struct ps_row_push *push;
    for (size_t size = 1; size < sizeof bytes; size++) {
        enum ps_status status = read_push(bytes, size, &push);
        ck_assert_int_eq(status, size % 16 == 0 ? PS_OK : PS_ERR_BAD_INPUT);
        if (status == PS_OK)
            ps_row_push_release(push);
    }
}
END_TEST

START_TEST(a_push_of_no_rows_changes_nothing)
{
    struct ps_row_push *push;
    ck_assert_int_eq(read_push(NULL, 0, &push), PS_OK);
    ck_assert_uint_eq(ps_row_push_keys(push), 0);
    ck_assert_uint_eq(ps_row_push_rows(push), 0);
    ps_row_push_release(push);
    ps_row_push_release(NULL);

    row_model_push(&model, NULL, 0);
    row_model_compare(&model);
}
END_TEST

START_TEST(gradients_of_one_key_are_added_in_the_order_of_arrival)
{
    /* In another order the sum would be 1. */
    static const struct pushed pushed = {{7, 9, 7, 7}, {{1e8F, 1}, {5, 6}, {1, 2}, {-1e8F, 3}}};
    struct ps_row_push *push;
    ck_assert_int_eq(read_push(&pushed, sizeof pushed, &push), PS_OK);
    ck_assert_uint_eq(ps_row_push_keys(push), 4);
    ck_assert_uint_eq(ps_row_push_rows(push), 2);
    for (uint32_t i = 0; i < 2; i++) {
        float sum[2];
        memcpy(sum, push->gradients + i * sizeof sum, sizeof sum);
        ck_assert_float_eq(sum[0], push->keys[i] == 7 ? 0 : 5);
        ck_assert_float_eq(sum[1], 6);
        ck_assert_uint_eq(push->firsts[i], push->keys[i] == 7 ? 0 : 1);
    }
    ps_row_push_release(push);
}
END_TEST

START_TEST(a_push_in_pieces_is_the_same)
{
    static const struct pushed pushed = {{7, 9, 7, 8}, {{1, 1}, {5, 6}, {1, 2}, {2, 3}}};
    struct ps_row_push *whole;
    ck_assert_int_eq(read_push(&pushed, sizeof pushed, &whole), PS_OK);
    for (size_t cut = 0; cut <= sizeof pushed; cut++) {
        const uint8_t *data = (const uint8_t *)&pushed;
        struct ps_bytes pieces[] = {{data, cut}, {NULL, 0}, {data + cut, sizeof pushed - cut}};
        struct ps_view view = {pieces, 3, sizeof pushed};
        struct ps_row_push *push;
        ck_assert_int_eq(ps_row_push_read(model.table, view, &push, NULL), PS_OK);
        ck_assert_uint_eq(push->unique, whole->unique);
        ck_assert_mem_eq(push->keys, whole->keys, push->unique * 8);
        ck_assert_mem_eq(push->gradients, whole->gradients, push->unique * (size_t)8);
        ps_row_push_release(push);
    }
    ps_row_push_release(whole);
}
END_TEST

START_TEST(what_is_not_finite_is_named_as_it_was_pushed)
{
    struct pushed pushed = {{7, 9, 7, 8}, {{1, 1}, {5, 6}, {1, 2}, {2, NAN}}};
    struct ps_gradient_scan scan = {0};
    struct ps_row_push *push;
    ck_assert_int_eq(read_push(&pushed, sizeof pushed, &push), PS_OK);
    ps_row_push_scan(push, &model.settings, &scan);
    ck_assert(scan.nonfinite);
    ck_assert_uint_eq(scan.nonfinite_index, 7);
    struct ps_error error;
    ck_assert_int_eq(ps_row_push_fail_nonfinite(push, &scan, &error), PS_ERR_BAD_INPUT);
    ck_assert_str_eq(error.text, "element 1 of the gradient of key 8 is not finite");
    ps_row_push_release(push);
}
END_TEST

START_TEST(a_key_of_another_shard_refuses_the_push)
{
    static const struct pushed pushed = {{7, 9, 7, 99}, {{1, 1}}};
    struct ps_row_push *push;
    row_model_close(&model);
    row_model_plan(&model, PS_RULE_SGD, PS_F32, 2, 10);
    model.options.key_end = 99;
    row_model_begin(&model);

    ck_assert_int_eq(read_push(&pushed, sizeof pushed, &push), PS_ERR_OUT_OF_RANGE);
    ck_assert_uint_eq(ps_row_table_rows(model.table), 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_push");
    tcase_add_checked_fixture(tests, open, close);
    tcase_add_test(tests, bytes_that_are_no_rows_are_refused);
    tcase_add_test(tests, a_push_of_no_rows_changes_nothing);
    tcase_add_test(tests, gradients_of_one_key_are_added_in_the_order_of_arrival);
    tcase_add_test(tests, a_push_in_pieces_is_the_same);
    tcase_add_test(tests, what_is_not_finite_is_named_as_it_was_pushed);
    tcase_add_test(tests, a_key_of_another_shard_refuses_the_push);
    return run_tests("row_push", tests);
}
