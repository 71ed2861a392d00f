/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of rows of a table, under every rule. */
#include "kernel_suite.h"
#include "rule_cases.h"

#include <stdlib.h>

enum { ROWS_IN_TABLE = 97, COUNT_MAX = ROWS_IN_TABLE + 4 };

/* `count` gradients for different rows in no order, some of them beyond the table's end. */
static void compare_rows(struct kernel_suite *suite, const struct ps_optimizer_step *step,
                         uint64_t count, uint64_t width, uint64_t stride)
{
    struct kernel_twin table;
    struct kernel_twin pushed; /* its values are the gradients */
    uint64_t numbers[COUNT_MAX];
    for (uint64_t i = 0; i < count; i++)
        numbers[i] = 37 * i % COUNT_MAX;
    void *given = kernel_put(suite, numbers, count * sizeof *numbers, 0);
    kernel_twin_open(suite, step->dtype, ROWS_IN_TABLE * stride, 1, &table);
    kernel_twin_open(suite, step->dtype, count * width, 2, &pushed);
    const struct ps_cuda_rows launch = {.step = step,
                                        .numbers = given,
                                        .count = count,
                                        .row_count = ROWS_IN_TABLE,
                                        .width = width,
                                        .stride = stride,
                                        .gradient = pushed.device[0],
                                        .values = table.device[0],
                                        .states = {table.device[1], table.device[2]},
                                        .grid = suite->grids[0]};

    int error = ps_cuda_launch_rows(&launch, NULL);
    for (uint64_t i = 0; i < count; i++) {
        size_t start = numbers[i] * stride * ps_dtype_size(step->dtype);
        void *states[PS_STATES_MAX] = {NULL};
        for (uint32_t j = 0; j < ps_rule_states(step->settings->rule); j++)
            states[j] = (char *)table.host[1 + j] + start;
        if (numbers[i] < ROWS_IN_TABLE)
            ps_optimizer_apply(step, 0, width, (char *)table.host[0] + start, states,
                               (const char *)pushed.host[0] +
                                   i * width * ps_dtype_size(step->dtype));
    }

    kernel_expect(suite, error == 0 && kernel_twin_equal(suite, &table),
                  "%s on %s, %llu rows of %llu elements, error %d",
                  ps_rule_name(step->settings->rule), ps_dtype_name(step->dtype),
                  (unsigned long long)count, (unsigned long long)width, error);
    kernel_twin_close(suite, &pushed);
    kernel_twin_close(suite, &table);
    suite->machine->release(given);
}

void kernels_update_rows_as_the_cpu_does(struct kernel_suite *suite)
{
    static const uint64_t counts[] = {0, 1, 33, COUNT_MAX};
    static const uint64_t widths[] = {1, 4, 6, 128, 130};
    struct ps_optimizer_settings settings;
    struct ps_optimizer_step step;
    for (enum ps_dtype dtype = PS_F32; dtype <= PS_F64; dtype++) {
        for (size_t i = 0; rule_case(i, dtype, &settings); i++) {
            uint64_t width = widths[i % 5];
            rule_case_step(&settings, dtype, &step);
            for (size_t j = 0; j < 4; j++)
                compare_rows(suite, &step, counts[j], width,
                             width + (i % 3 == 0 ? 0 : 4 * (i % 3)));
        }
    }
}
