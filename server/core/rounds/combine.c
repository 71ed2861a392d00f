/* SPDX-License-Identifier: Apache-2.0 */
/* Block by block: a block of the sum stays in the cache while the same block of every contribution
 * is added to it. */
#include "server/core/rounds/combine.h"

#include "base/assert.h"
#include "base/attributes.h"

/* The arithmetic of one type. Every product is rounded before it is added: the build allows no
 * fused operation, so that the bits are those of the formula in the header on every processor.
 *
 * Loops without a choice inside are what compilers turn into vector instructions. The first
 * contribution is written and not added to zeros, which saves a walk and keeps the sign of a
 * zero. */
#define LOOPS(suffix, T)                                                                     \
    static void first_##suffix(void *sum, const void *gradient, size_t count, double weight) \
    {                                                                                        \
        PS_TURNS_INDEPENDENT                                                                 \
        for (size_t i = 0; i < count; i++)                                                   \
            ((T *)sum)[i] = (T)weight * ((const T *)gradient)[i];                            \
    }                                                                                        \
    static void add_##suffix(void *sum, const void *gradient, size_t count, double weight)   \
    {                                                                                        \
        PS_TURNS_INDEPENDENT                                                                 \
        for (size_t i = 0; i < count; i++)                                                   \
            ((T *)sum)[i] += (T)weight * ((const T *)gradient)[i];                           \
    }                                                                                        \
    static void divide_##suffix(void *sum, size_t count, double by)                          \
    {                                                                                        \
        PS_TURNS_INDEPENDENT                                                                 \
        for (size_t i = 0; i < count; i++)                                                   \
            ((T *)sum)[i] /= (T)by;                                                          \
    }
LOOPS(f32, float)
LOOPS(f64, double)
#undef LOOPS

struct loops {
    void (*first)(void *sum, const void *gradient, size_t count, double weight);
    void (*add)(void *sum, const void *gradient, size_t count, double weight);
    void (*divide)(void *sum, size_t count, double by);
};

static const struct loops f32_loops = {first_f32, add_f32, divide_f32};
static const struct loops f64_loops = {first_f64, add_f64, divide_f64};

/* Rounded to the type after each weight, as whoever follows the formula in the type does. The sum
 * of two floats as doubles is rounded twice, which for floats is the same as once. */
static double add_weight(double divisor, double weight, enum ps_dtype dtype)
{
    double sum = divisor + weight;
    return dtype == PS_F32 ? (double)(float)sum : sum;
}

/* Only floats are trained in rounds (optimizer/settings.c). Without weights each of them is 1, and
 * to multiply by 1 changes no bit; so an average is divided by how many contributions there are.
 * The divisor is never 0, since a weight that is held is above 0 (contributions.c). */
void ps_combine_block(const struct ps_contributions *contributions,
                      const struct ps_parameter_spec *spec, size_t i, void *to)
{
    enum ps_combine combine = spec->settings.rounds.combine;
    const struct loops *loops = spec->dtype == PS_F32 ? &f32_loops : &f64_loops;
    size_t count = 0;
    double divisor = 0;
    PS_ASSERT(spec->dtype == PS_F32 || spec->dtype == PS_F64);
    /* The order of ranks, which is the promise: sums of floats depend on it. */
    for (uint32_t rank = 0; rank < contributions->round.workers; rank++) {
        const struct ps_contribution *one = &contributions->held[rank];
        if (one->values == NULL)
            continue;
        struct ps_bytes piece = one->values->pieces[i];
        double weight = combine == PS_COMBINE_WEIGHTED ? (double)one->weight : 1;
        bool is_first = divisor == 0;
        count = piece.size / ps_dtype_size(spec->dtype);
        (is_first ? loops->first : loops->add)(to, piece.data, count, weight);
        divisor = add_weight(divisor, weight, spec->dtype);
    }
    PS_ASSERT(divisor > 0 && count > 0);
    if (combine != PS_COMBINE_SUM)
        loops->divide(to, count, divisor);
}
