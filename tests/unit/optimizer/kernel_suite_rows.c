/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse pushes: sorting row numbers, and updating rows that come more than once. */
#include "kernel_suite.h"
#include "rule_cases.h"

#include "optimizer/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_IN_TABLE 97

/* How the rows of a push are chosen. */
enum rows_kind { ROWS_MIXED, ROWS_EQUAL, ROWS_RISING, ROWS_FALLING, ROWS_SKEWED, ROWS_KINDS };

/* Some are beyond the table's end. */
static uint64_t row_at(enum rows_kind kind, uint64_t i)
{
    uint64_t mixed = (i + 1) * UINT64_C(0x9e3779b97f4a7c15) >> 40;
    switch (kind) {
    case ROWS_EQUAL:
        return 5;
    case ROWS_RISING:
        return i;
    case ROWS_FALLING:
        return ROWS_IN_TABLE + 3 - i % (ROWS_IN_TABLE + 4);
    case ROWS_SKEWED:
        return mixed % 2 == 0 ? 7 : mixed % 11 == 0 ? 8 : mixed % ROWS_IN_TABLE;
    default:
        return mixed % (ROWS_IN_TABLE + 5);
    }
}

/* The rows of a push as they arrive, and sorted by the machine. */
struct arrivals {
    uint64_t count;
    uint64_t *rows;  /* on the host */
    uint64_t *given; /* this and the rest: on the machine */
    uint64_t *sorted;
    uint32_t *arrival;
    void *scratch;
};

static void arrivals_open(struct kernel_suite *suite, enum rows_kind kind, uint64_t count,
                          struct arrivals *arrivals)
{
    size_t scratch_bytes = ps_cuda_sort_scratch(count, 64);
    arrivals->count = count;
    arrivals->rows = calloc(count + 1, sizeof *arrivals->rows);
    for (uint64_t i = 0; i < count; i++)
        arrivals->rows[i] = row_at(kind, i);
    arrivals->given = kernel_put(suite, arrivals->rows, count * sizeof *arrivals->rows, 0);
    arrivals->sorted = suite->machine->acquire(count * sizeof *arrivals->sorted);
    arrivals->arrival = suite->machine->acquire(count * sizeof *arrivals->arrival);
    arrivals->scratch = suite->machine->acquire(scratch_bytes);
    const struct ps_cuda_sort sort = {.rows = arrivals->given,
                                      .count = count,
                                      .bits = 64,
                                      .sorted = arrivals->sorted,
                                      .arrival = arrivals->arrival,
                                      .scratch = arrivals->scratch,
                                      .scratch_bytes = scratch_bytes};
    kernel_expect(suite, ps_cuda_launch_sort(&sort, NULL) == 0, "the sort fails");
}

static void arrivals_close(struct kernel_suite *suite, struct arrivals *arrivals)
{
    suite->machine->release(arrivals->scratch);
    suite->machine->release(arrivals->arrival);
    suite->machine->release(arrivals->sorted);
    suite->machine->release(arrivals->given);
    free(arrivals->rows);
}

static void compare_sort(struct kernel_suite *suite, enum rows_kind kind, uint64_t count)
{
    struct arrivals arrivals;
    arrivals_open(suite, kind, count, &arrivals);
    uint32_t *order = calloc(2 * count + 1, sizeof *order);
    uint32_t *read = calloc(count + 1, sizeof *read);
    uint64_t *sorted = calloc(count + 1, sizeof *sorted);
    ps_rows_sort(arrivals.rows, count, order, order + count);
    suite->machine->read(arrivals.arrival, read, count * sizeof *read);
    suite->machine->read(arrivals.sorted, sorted, count * sizeof *sorted);
    bool equal = true;
    for (uint64_t i = 0; i < count; i++)
        equal = equal && order[i] == read[i] && sorted[i] == arrivals.rows[order[i]];
    kernel_expect(suite, equal, "kind %d, %llu rows", (int)kind, (unsigned long long)count);
    suite->seen += count;
    free(sorted);
    free(read);
    free(order);
    arrivals_close(suite, &arrivals);
}

void kernels_sort_rows_stably(struct kernel_suite *suite)
{
    for (size_t i = 0; suite->counts[i] != UINT64_MAX; i++)
        for (enum rows_kind kind = 0; kind < ROWS_KINDS; kind++)
            compare_sort(suite, kind, suite->counts[i]);
}

/* Numbers whose sum depends on the order in which they are added, and is not a NaN. */
static void tame(struct kernel_suite *suite, enum ps_dtype dtype, struct kernel_twin *pushed,
                 uint64_t count)
{
    size_t size = ps_dtype_size(dtype);
    for (uint64_t i = 0; i < count; i++) {
        double wide = sin((double)i) * (i % 7 == 0 ? 1000 : 1);
        float narrow = (float)wide;
        memcpy((char *)pushed->host[0] + i * size,
               dtype == PS_F32 ? (void *)&narrow : (void *)&wide, size);
    }
    suite->machine->write(pushed->device[0], pushed->host[0], count * size);
}

/* A push of `count` gradients to a table whose rows have `width` elements, `stride` apart. */
static void compare_rows(struct kernel_suite *suite, const struct ps_optimizer_step *step,
                         enum rows_kind kind, uint64_t count, uint64_t width, uint64_t stride)
{
    struct kernel_twin table;
    struct kernel_twin pushed; /* its values are the gradients */
    struct arrivals arrivals;
    arrivals_open(suite, kind, count, &arrivals);
    kernel_twin_open(suite, step->dtype, ROWS_IN_TABLE * stride, 1, &table);
    kernel_twin_open(suite, step->dtype, count * width, 2, &pushed);
    if (count >= PS_ROWS_PART)
        tame(suite, step->dtype, &pushed, count * width);
    uint32_t *scratch = calloc(2 * count + 1, sizeof *scratch);
    const struct ps_cuda_rows launch = {.step = step,
                                        .sorted = arrivals.sorted,
                                        .arrival = arrivals.arrival,
                                        .count = count,
                                        .row_count = ROWS_IN_TABLE,
                                        .width = width,
                                        .stride = stride,
                                        .gradient = pushed.device[0],
                                        .values = table.device[0],
                                        .states = {table.device[1], table.device[2]},
                                        .grid = suite->grids[0]};
    const struct ps_rows rows = {.step = step,
                                 .rows = arrivals.rows,
                                 .count = count,
                                 .row_count = ROWS_IN_TABLE,
                                 .width = width,
                                 .stride = stride,
                                 .gradient = pushed.host[0],
                                 .values = table.host[0],
                                 .states = {table.host[1], table.host[2]},
                                 .scratch = scratch};

    int error = ps_cuda_launch_rows(&launch, NULL);
    ps_optimizer_rows(&rows);

    kernel_expect(suite, error == 0 && kernel_twin_equal(suite, &table),
                  "%s on %s, kind %d, %llu gradients of %llu elements, error %d",
                  ps_rule_name(step->settings->rule), ps_dtype_name(step->dtype), (int)kind,
                  (unsigned long long)count, (unsigned long long)width, error);
    free(scratch);
    kernel_twin_close(suite, &pushed);
    kernel_twin_close(suite, &table);
    arrivals_close(suite, &arrivals);
}

/* Rows that come so often that they are added up in parts: just not, just so, and several parts. */
void kernels_split_rows_that_come_often_as_the_cpu_does(struct kernel_suite *suite)
{
    static const uint64_t counts[] = {PS_ROWS_PART, PS_ROWS_PART + 1, 2 * PS_ROWS_PART + 77};
    static const uint64_t widths[] = {4, 6, 1};
    static const enum rows_kind kinds[] = {ROWS_EQUAL, ROWS_SKEWED};
    struct ps_optimizer_settings settings;
    struct ps_optimizer_step step;
    for (enum ps_dtype dtype = PS_F32; dtype <= PS_F64; dtype++) {
        (void)rule_case(0, dtype, &settings);
        rule_case_step(&settings, dtype, &step);
        for (size_t i = 0; i < 6; i++)
            compare_rows(suite, &step, kinds[i % 2], counts[i / 2], widths[i % 3],
                         widths[i % 3] + (i % 3 == 1 ? 2 : 0));
    }
}

void kernels_update_rows_as_the_cpu_does(struct kernel_suite *suite)
{
    static const uint64_t counts[] = {0, 1, 33, 200};
    static const uint64_t widths[] = {1, 4, 6, 128, 130};
    struct ps_optimizer_settings settings;
    struct ps_optimizer_step step;
    for (enum ps_dtype dtype = PS_F32; dtype <= PS_F64; dtype++) {
        for (size_t i = 0; rule_case(i, dtype, &settings); i++) {
            uint64_t width = widths[i % 5];
            rule_case_step(&settings, dtype, &step);
            for (size_t j = 0; j < 4; j++)
                compare_rows(suite, &step, (enum rows_kind)((i + j) % ROWS_KINDS), counts[j], width,
                             width + (i % 3 == 0 ? 0 : 4 * (i % 3)));
        }
    }
}
