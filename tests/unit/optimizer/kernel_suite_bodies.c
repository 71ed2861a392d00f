/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of rows that lie apart: brought together and back, and stepped where they lie, each row
 * once and in any order. */
#include "kernel_suite.h"
#include "rule_cases.h"

#include "optimizer/row_wise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BODIES 613

/* Bodies twice, and which of them a launch is for. */
struct bodies {
    struct kernel_twin twin; /* its values are the bodies */
    uint64_t count;
    uint64_t stride; /* in elements: values, then a state, both from a multiple of 16 bytes on */
    uint64_t width;
    uint64_t *numbers; /* on the host; all different */
    uint64_t *given;   /* on the machine */
};

static double number_at(uint64_t i)
{
    return 2 + sin((double)i) * (i % 7 == 0 ? 1.5 : 0.25);
}

/* Numbers that no rule makes infinite or a NaN of. */
static void tame(struct kernel_suite *suite, struct kernel_twin *twin, uint64_t count)
{
    size_t size = ps_dtype_size(twin->dtype);
    for (uint64_t i = 0; i < count; i++) {
        double wide = number_at(i);
        float narrow = (float)wide;
        memcpy((char *)twin->host[0] + i * size,
               twin->dtype == PS_F32 ? (void *)&narrow : (void *)&wide, size);
    }
    suite->machine->write(twin->device[0], twin->host[0], count * size);
}

static void open_bodies(struct kernel_suite *suite, enum ps_dtype dtype, uint64_t width,
                        uint64_t count, struct bodies *bodies)
{
    uint64_t pack = 16 / ps_dtype_size(dtype);
    uint64_t padded = (width + pack - 1) / pack * pack;
    *bodies = (struct bodies){.count = count, .stride = 2 * padded, .width = width};
    kernel_twin_open(suite, dtype, BODIES * bodies->stride, 1, &bodies->twin);
    tame(suite, &bodies->twin, BODIES * bodies->stride);
    bodies->numbers = calloc(count + 1, sizeof *bodies->numbers);
    /* A step that has no divisor with a prime: every number comes once. */
    for (uint64_t i = 0; i < count; i++)
        bodies->numbers[i] = (5 + i * 101) % BODIES;
    bodies->given = kernel_put(suite, bodies->numbers, count * sizeof *bodies->numbers, 0);
}

static void close_bodies(struct kernel_suite *suite, struct bodies *bodies)
{
    suite->machine->release(bodies->given);
    free(bodies->numbers);
    kernel_twin_close(suite, &bodies->twin);
}

/* One piece of each body together, and the same pieces back to where others lie. */
static void compare_moves(struct kernel_suite *suite, enum ps_dtype dtype, uint64_t width,
                          uint64_t count)
{
    struct bodies bodies;
    open_bodies(suite, dtype, width, count, &bodies);
    size_t element = ps_dtype_size(dtype);
    size_t size = width * element;
    size_t stride = bodies.stride * element;
    size_t state = stride / 2;
    uint8_t *read = calloc(count + 1, size);
    void *run = kernel_put(suite, read, count * size, 0);
    struct ps_cuda_bodies launch = {.numbers = bodies.given,
                                    .count = count,
                                    .bodies = bodies.twin.device[0],
                                    .stride = stride,
                                    .offset = state,
                                    .size = size,
                                    .run = run,
                                    .to_run = true,
                                    .grid = suite->grids[0]};
    int error = ps_cuda_launch_bodies(&launch, NULL);
    suite->machine->read(run, read, count * size);
    bool equal = true;
    for (uint64_t i = 0; i < count; i++) {
        uint8_t *body = (uint8_t *)bodies.twin.host[0] + bodies.numbers[i] * stride;
        equal = equal && memcmp(read + i * size, body + state, size) == 0;
        /* What was a state becomes the values. */
        memcpy(body, body + state, size);
    }
    launch.offset = 0;
    launch.to_run = false;
    if (error == 0)
        error = ps_cuda_launch_bodies(&launch, NULL);
    equal = equal && kernel_twin_equal(suite, &bodies.twin);
    kernel_expect(suite, error == 0 && equal, "%llu bodies of %llu elements of %s, error %d",
                  (unsigned long long)count, (unsigned long long)width, ps_dtype_name(dtype),
                  error);
    suite->machine->release(run);
    free(read);
    close_bodies(suite, &bodies);
}

void kernels_move_bodies(struct kernel_suite *suite)
{
    static const uint64_t widths[] = {1, 3, 4, 8, 17, 64};
    static const uint64_t counts[] = {0, 1, 33, BODIES};
    for (enum ps_dtype dtype = PS_F32; dtype <= PS_F64; dtype++)
        for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
            for (size_t j = 0; j < sizeof counts / sizeof counts[0]; j++)
                compare_moves(suite, dtype, widths[i], counts[j]);
}

/* Adagrad, with an accumulator for each element or one for the row. */
static void compare_steps(struct kernel_suite *suite, enum ps_dtype dtype, uint64_t width,
                          uint64_t count, bool row_wise)
{
    const struct ps_optimizer_settings settings = {.rule = PS_RULE_ADAGRAD,
                                                   .learning_rate.rate = 0.25,
                                                   .epsilon = 1e-6,
                                                   .decay = 0.125,
                                                   .l2 = 0.0625,
                                                   .clip_value = 2.25,
                                                   .adagrad_row_wise = row_wise};
    struct ps_optimizer_step step;
    struct kernel_twin pushed; /* its values are the gradients */
    struct bodies bodies;
    rule_case_step(&settings, dtype, &step);
    open_bodies(suite, dtype, width, count, &bodies);
    kernel_twin_open(suite, dtype, count * width, 2, &pushed);
    tame(suite, &pushed, count * width);
    size_t element = ps_dtype_size(dtype);
    uint8_t *states = (uint8_t *)bodies.twin.device[0] + bodies.stride / 2 * element;
    const struct ps_cuda_rows launch = {.step = &step,
                                        .numbers = bodies.given,
                                        .count = count,
                                        .row_count = BODIES,
                                        .width = width,
                                        .stride = bodies.stride,
                                        .gradient = pushed.device[0],
                                        .values = bodies.twin.device[0],
                                        .states = {states},
                                        .grid = suite->grids[0]};
    int error =
        row_wise ? ps_cuda_launch_row_wise(&launch, NULL) : ps_cuda_launch_rows(&launch, NULL);
    for (uint64_t i = 0; i < count; i++) {
        uint8_t *body =
            (uint8_t *)bodies.twin.host[0] + bodies.numbers[i] * bodies.stride * element;
        void *state[PS_STATES_MAX] = {body + bodies.stride / 2 * element};
        const uint8_t *gradient = (const uint8_t *)pushed.host[0] + i * width * element;
        if (row_wise)
            ps_optimizer_row_wise(&step, width, body, state[0], gradient);
        else
            ps_optimizer_apply(&step, 0, width, body, state, gradient);
    }
    kernel_expect(suite, error == 0 && kernel_twin_equal(suite, &bodies.twin),
                  "%llu rows of %llu elements of %s, row-wise %d, error %d",
                  (unsigned long long)count, (unsigned long long)width, ps_dtype_name(dtype),
                  row_wise, error);
    kernel_twin_close(suite, &pushed);
    close_bodies(suite, &bodies);
}

void kernels_step_different_rows_as_the_cpu_does(struct kernel_suite *suite)
{
    static const uint64_t widths[] = {1, 4, 7, 8, 9, 64, 130};
    static const uint64_t counts[] = {0, 1, 33, BODIES};
    for (enum ps_dtype dtype = PS_F32; dtype <= PS_F64; dtype++)
        for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
            for (size_t j = 0; j < sizeof counts / sizeof counts[0]; j++)
                for (int row_wise = 0; row_wise < 2; row_wise++)
                    compare_steps(suite, dtype, widths[i], counts[j], row_wise != 0);
}
