/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a sparse push on the CPU: sorted stably, added up in their order and in parts. */
#include "optimizer/rows.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

#define COUNT (3 * PS_ROWS_PART + 100)

static const struct ps_optimizer_settings sgd = {.rule = PS_RULE_SGD,
                                                 .learning_rate = {.rate = 1.0}};

/* Numbers whose sum depends on the order in which they are added. */
static float number(size_t i)
{
    return (float)(int32_t)(i * 2654435761U) / 65536.0F;
}

/* What a table of one float per row has afterwards; it begins with zeros. */
static void push(const uint64_t *rows, size_t count, uint64_t row_count, float *values)
{
    static float gradient[COUNT];
    static uint32_t scratch[2 * COUNT];
    const struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    for (size_t i = 0; i < count; i++)
        gradient[i] = number(i);
    for (size_t i = 0; i < row_count; i++)
        values[i] = 0;
    ck_assert_int_eq(ps_optimizer_prepare(&sgd, PS_F32, 1, 0, &scan, &step, NULL), PS_OK);
    const struct ps_rows push = {.step = &step,
                                 .rows = rows,
                                 .count = count,
                                 .row_count = row_count,
                                 .width = 1,
                                 .stride = 1,
                                 .gradient = gradient,
                                 .values = values,
                                 .scratch = scratch};
    ps_optimizer_rows(&push);
}

START_TEST(equal_rows_stay_in_the_order_of_arrival)
{
    static const uint64_t rows[] = {7, 3, 7, 1, 3, 7};
    static const uint32_t expected[] = {3, 1, 4, 0, 2, 5};
    uint32_t order[6];
    uint32_t other[6];

    ps_rows_sort(rows, 6, order, other);

    ck_assert_mem_eq(order, expected, sizeof expected);
}
END_TEST

START_TEST(gradients_of_a_row_are_added_in_the_order_of_arrival)
{
    static const uint64_t rows[] = {1, 0, 1, 1, 0};
    float values[2];

    push(rows, 5, 2, values);

    ck_assert(values[0] == -(number(1) + number(4)));
    ck_assert(values[1] == -((number(0) + number(2)) + number(3)));
}
END_TEST

START_TEST(a_row_that_comes_often_is_added_up_in_parts)
{
    static uint64_t rows[COUNT];
    float value;
    float sum = 0;

    push(rows, COUNT, 1, &value);

    for (size_t begin = 0; begin < COUNT; begin += PS_ROWS_PART) {
        float part = number(begin);
        for (size_t i = begin + 1; i < begin + PS_ROWS_PART && i < COUNT; i++)
            part = part + number(i);
        sum = begin == 0 ? part : sum + part;
    }
    ck_assert(value == -sum);
}
END_TEST

START_TEST(a_row_that_comes_as_often_as_a_part_has_is_added_up_in_one)
{
    static uint64_t rows[PS_ROWS_PART];
    float value;
    float sum = number(0);

    push(rows, PS_ROWS_PART, 1, &value);

    for (size_t i = 1; i < PS_ROWS_PART; i++)
        sum = sum + number(i);
    ck_assert(value == -sum);
}
END_TEST

START_TEST(a_row_beyond_the_table_changes_nothing)
{
    static const uint64_t rows[] = {2, 1, UINT64_MAX};
    float values[3];

    push(rows, 3, 2, values);

    ck_assert(values[0] == 0);
    ck_assert(values[1] == -number(1));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rows");
    TCase *rows = tcase_create("rows");
    tcase_add_test(rows, equal_rows_stay_in_the_order_of_arrival);
    tcase_add_test(rows, gradients_of_a_row_are_added_in_the_order_of_arrival);
    tcase_add_test(rows, a_row_that_comes_often_is_added_up_in_parts);
    tcase_add_test(rows, a_row_that_comes_as_often_as_a_part_has_is_added_up_in_one);
    tcase_add_test(rows, a_row_beyond_the_table_changes_nothing);
    suite_add_tcase(suite, rows);
    return run_suite(suite);
}
