/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of optimizer.h, each sent to the loop for its rule, its type and this processor. */
#include "optimizer/optimizer.h"
#include "optimizer/loops.h"

#include "base/assert.h"

/* Whole numbers are always finite, and a norm of counts has no use; floats are looked at unless
 * everything is let through and nothing is clipped. */
bool ps_optimizer_scans(const struct ps_optimizer_settings *settings, enum ps_dtype dtype)
{
    if (!ps_dtype_is_float(dtype))
        return false;
    return settings->nonfinite != PS_NONFINITE_ALLOW || settings->clip_norm > 0;
}

void ps_optimizer_scan(const struct ps_optimizer_settings *settings, enum ps_dtype dtype,
                       const void *gradient, size_t count, struct ps_gradient_scan *scan)
{
    PS_ASSERT(settings != NULL);
    PS_ASSERT(scan != NULL);
    /* A run without elements may come with no pointer. */
    if (count == 0 || !ps_optimizer_scans(settings, dtype))
        return;
    PS_ASSERT(gradient != NULL);
    ps_loops_best()->scan[dtype](settings, gradient, count, scan);
}

/* Only ADD that fails as a whole asks: the others have a result for every sum. */
bool ps_optimizer_overflows(const struct ps_optimizer_step *step, const void *values,
                            const void *gradient, size_t count, size_t *index)
{
    PS_ASSERT(index != NULL);
    if (step->settings->rule != PS_RULE_ADD || step->settings->overflow != PS_OVERFLOW_FAIL)
        return false;
    return ps_loops_best()->overflows[step->dtype](values, gradient, count, index);
}

/* In place is the same loop, with from and to the same arrays: the compiler was told that they
 * are the same or apart, and both give the same bits. */
void ps_optimizer_apply(const struct ps_optimizer_step *step, uint64_t first, size_t count,
                        void *values, void *const states[PS_STATES_MAX], const void *gradient)
{
    /* States beyond those of the rule stay NULL: a caller may hand over fewer than two. */
    struct ps_optimizer_arrays arrays = {.from = {values}, .to = {values}};
    for (size_t i = 0; i < ps_rule_states(step->settings->rule); i++)
        arrays.from[1 + i] = arrays.to[1 + i] = states[i];
    ps_optimizer_apply_to(step, first, count, &arrays, gradient);
}

void ps_optimizer_apply_to(const struct ps_optimizer_step *step, uint64_t first, size_t count,
                           const struct ps_optimizer_arrays *arrays, const void *gradient)
{
    PS_ASSERT(!step->skip);
    if (count == 0)
        return;
    PS_ASSERT(arrays->from[0] != NULL && arrays->to[0] != NULL);
    PS_ASSERT(gradient != NULL);
    /* A table look-up for each run; a run is a block of a parameter or more, so that it costs
     * nothing. */
    ps_run_fn *apply = ps_loops_best()->apply[step->settings->rule][step->dtype];
    PS_ASSERT(apply != NULL);
    const struct ps_run run = {
        .step = step, .first = first, .count = count, .arrays = arrays, .gradient = gradient};
    apply(&run);
}

/* Generated for each type, since a double is rounded to the element's type: 0.1 is another
 * number in each. */
void ps_optimizer_fill(enum ps_dtype dtype, double value, void *array, size_t count)
{
    /* Whole numbers have no states; only 0 is in the range of every type. */
    PS_ASSERT(ps_dtype_is_float(dtype) || value == 0);
    switch (dtype) {
#define FILL(TAG, suffix, T, SUM, label)   \
    case TAG:                              \
        for (size_t i = 0; i < count; i++) \
            ((T *)array)[i] = (T)value;    \
        return;
        PS_DTYPE_TABLE(FILL)
#undef FILL
    case PS_DTYPE_COUNT:
        break;
    }
    PS_ASSERT(0 && "unknown element type");
}
