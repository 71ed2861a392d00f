/* Gradients and weights of whole numbers. */
#include "tools/psbench/psbench_values.h"

#include "base/random.h"

#define SEED_GRADIENT 11
#define SEED_START 12

static float next_gradient(struct ps_random *random);
static float next_start(struct ps_random *random);

void ps_bench_fill_gradient(float *values, size_t count)
{
    struct ps_random random;
    ps_random_init(&random, SEED_GRADIENT);
    for (size_t i = 0; i < count; i++)
        values[i] = next_gradient(&random);
}

void ps_bench_fill_start(float *values, size_t count)
{
    struct ps_random random;
    ps_random_init(&random, SEED_START);
    for (size_t i = 0; i < count; i++)
        values[i] = next_start(&random);
}

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

static float next_gradient(struct ps_random *random)
{
    static const float choices[] = {-3, -2, -1, 1, 2, 3};
    return choices[ps_random_below(random, 6)];
}

static float next_start(struct ps_random *random)
{
    return (float)ps_random_below(random, 2001) - 1000;
}
