/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients and weights of whole numbers. The numbers come from a seeded generator, so that neither
 * array has to be kept: the check makes them again, element by element, and compares. */
#include "tools/psbench/psbench_values.h"

#include "base/random.h"

#define SEED_GRADIENT 11
#define SEED_START 12

static float next_gradient(struct ps_random *random);
static float next_start(struct ps_random *random);

/* Zeros are left out, because an element that no push changes would prove nothing. */
void ps_bench_fill_gradient(float *values, size_t count)
{
    struct ps_random random;
    ps_random_init(&random, SEED_GRADIENT);
    for (size_t i = 0; i < count; i++)
        values[i] = next_gradient(&random);
}

/* Small enough that float32 holds start and all steps exactly. */
void ps_bench_fill_start(float *values, size_t count)
{
    struct ps_random random;
    ps_random_init(&random, SEED_START);
    for (size_t i = 0; i < count; i++)
        values[i] = next_start(&random);
}

/* The expectation is computed in double and is exact; so is the comparison. No tolerance is
 * allowed, because none is needed: start, rate and gradient are chosen so that no step of the
 * server rounds. */
size_t ps_bench_count_wrong(const float *values, size_t count, uint64_t pushes)
{
    struct ps_random gradients, starts;
    ps_random_init(&gradients, SEED_GRADIENT);
    ps_random_init(&starts, SEED_START);
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        double moved = PS_BENCH_LEARNING_RATE * (double)pushes * (double)next_gradient(&gradients);
        wrong += (double)values[i] != (double)next_start(&starts) - moved;
    }
    return wrong;
}

/* Both generators draw once an element, in the order of the elements. */
static float next_gradient(struct ps_random *random)
{
    static const float choices[] = {-3, -2, -1, 1, 2, 3};
    return choices[ps_random_below(random, 6)];
}

/* From -1000 to 1000. */
static float next_start(struct ps_random *random)
{
    return (float)ps_random_below(random, 2001) - 1000;
}
