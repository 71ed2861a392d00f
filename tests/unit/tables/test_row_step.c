/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_step.c: rows that lie apart get what they would get alone. */
#include "server/core/tables/row_step.h"
#include "tests/unit/tables/row_model.h"

#include <stdlib.h>

static void check(uint32_t width, uint32_t count)
{
    struct ps_optimizer_settings settings = {.rule = PS_RULE_ADAM,
                                             .learning_rate.rate = 0.1,
                                             .beta_1 = 0.9,
                                             .beta_2 = 0.999,
                                             .epsilon = 1e-8};
    struct ps_row_layout layout = {.dtype = PS_F32, .width = width, .state_count = 2};
    struct ps_row_shape shape;
    struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    struct ps_random random;
    ps_row_shape_init(&shape, &layout);
    ps_random_init(&random, width);
    ck_assert_int_eq(ps_optimizer_prepare(&settings, PS_F32, 3, 0, &scan, &step, NULL), PS_OK);
    uint8_t **rows = calloc(count, sizeof *rows);
    uint8_t *apart = calloc(count, shape.stride);
    uint8_t *expected = calloc(count, shape.stride);
    float *gradients = calloc((size_t)count * width, sizeof *gradients);
    for (uint32_t i = 0; i < count * width; i++)
        gradients[i] = (float)ps_random_unit(&random) - 0.5F;
    for (uint32_t i = 0; i < count; i++) {
        rows[i] = apart + (count - 1 - i) * shape.stride;
        uint8_t *row = expected + (count - 1 - i) * shape.stride;
        void *states[] = {row + shape.arrays[1].offset, row + shape.arrays[2].offset};
        ps_optimizer_apply(&step, 0, width, row + shape.arrays[0].offset, states,
                           gradients + (size_t)i * width);
    }
    ps_row_step(&shape, &step, rows, count, (const uint8_t *)gradients);
    ck_assert_int_eq(memcmp(apart, expected, count * shape.stride), 0);
    free(rows);
    free(apart);
    free(expected);
    free(gradients);
}

START_TEST(any_number_of_rows_of_any_width_are_stepped_as_if_alone)
{
    static const uint32_t widths[] = {1, 3, 16, 64, 127, 128, 129, 1024, 1025, 4096};
    for (uint32_t count = 0; count < 1200; count = count * 3 + 1)
        check(widths[_i], count);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_step");
    tcase_add_loop_test(tests, any_number_of_rows_of_any_width_are_stepped_as_if_alone, 0, 10);
    return run_tests("row_step", tests);
}
