/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of one step: computed in double, rounded once (the bit contract, B2). */
#include "optimizer/judge.rule.h"
#include "optimizer/optimizer.h"
#include "optimizer/power.h"
#include "optimizer/sum.h"

#include "base/assert.h"

#include <math.h>
#include <string.h>

static void fill_rates(const struct ps_optimizer_settings *settings, uint64_t number,
                       struct ps_step_f64 *numbers);
static void fill_betas(const struct ps_optimizer_settings *settings, uint64_t number,
                       struct ps_step_f64 *numbers);
static void fill_epsilon(const struct ps_optimizer_settings *settings, uint64_t number,
                         struct ps_step_f64 *numbers);
static void round_once(const struct ps_step_f64 *wide, struct ps_step_f32 *narrow);

/* Decides about a push that holds something not finite: refuse, skip or go on.
 * Told apart here and nowhere else: the device's verdict comes back as a scan, so that CPU and
 * GPU refuse the same pushes with the same words. */
static enum ps_status judge(const struct ps_optimizer_settings *settings,
                            const struct ps_gradient_scan *scan, double square_sum, bool *skip,
                            struct ps_error *error)
{
    bool norm_overflows = ps_norm_overflows(settings->clip_norm, square_sum);
    *skip = false;
    if (settings->nonfinite == PS_NONFINITE_ALLOW || (!scan->nonfinite && !norm_overflows))
        return PS_OK;
    *skip = settings->nonfinite == PS_NONFINITE_SKIP;
    if (*skip)
        return PS_OK;
    if (scan->nonfinite)
        return ps_fail(error, PS_ERR_BAD_INPUT, "gradient element %llu is not finite",
                       (unsigned long long)scan->nonfinite_index);
    return ps_fail(error, PS_ERR_BAD_INPUT, "the norm of the gradient is too large to be clipped");
}

/* Everything that does not depend on the element is computed here, once for a push, in double,
 * and rounded once: the loops and the kernels then do the same few operations, and a learning
 * rate has the same bits on every machine. Whole numbers and floats are both prepared, since
 * telling them apart would cost more than it saves. */
enum ps_status ps_optimizer_prepare(const struct ps_optimizer_settings *settings,
                                    enum ps_dtype dtype, uint64_t number, uint64_t parameter_id,
                                    const struct ps_gradient_scan *scan,
                                    struct ps_optimizer_step *step, struct ps_error *error)
{
    PS_ASSERT(dtype < PS_DTYPE_COUNT);
    PS_ASSERT(number > 0);
    PS_ASSERT(scan != NULL);
    bool skip = false;
    /* The norm is of the elements after clip_value, as the scan has summed them. */
    double square_sum = settings->clip_norm > 0 ? ps_sum_total(scan) : 0;
    if (ps_optimizer_scans(settings, dtype))
        PS_TRY(judge(settings, scan, square_sum, &skip, error));

    memset(step, 0, sizeof *step);
    step->settings = settings;
    step->dtype = dtype;
    step->number = number;
    step->parameter_id = parameter_id;
    /* A step that is skipped is prepared all the same; its caller looks at the flag before
     * applying. */
    step->skip = skip;
    /* In double first, all of it; the float numbers are made of these at the end. */
    fill_rates(settings, number, &step->f64);
    if (ps_rule_uses(settings->rule, PS_USES_BETAS))
        fill_betas(settings, number, &step->f64);
    fill_epsilon(settings, number, &step->f64);
    step->f64.scale = ps_norm_scale(settings->clip_norm, square_sum);
    round_once(&step->f64, &step->f32);
    step->whole = (struct ps_step_whole){.rate = step->f64.rate,
                                         .number = number,
                                         .parameter_id = parameter_id,
                                         .seed = settings->seed,
                                         .stochastic = settings->rounding == PS_ROUNDING_STOCHASTIC,
                                         .gradient_unsigned = settings->gradient_unsigned};
    return PS_OK;
}

/* The only place where a number of a step loses digits. */
static void round_once(const struct ps_step_f64 *wide, struct ps_step_f32 *narrow)
{
#define ROUND(name) narrow->name = (float)wide->name;
#define ROUND_NUMBER(name, use, range, otherwise) ROUND(name)
    PS_STEP_TABLE(ROUND)
    PS_NUMBER_TABLE(ROUND_NUMBER)
#undef ROUND_NUMBER
#undef ROUND
}

static void fill_rates(const struct ps_optimizer_settings *settings, uint64_t number,
                       struct ps_step_f64 *numbers)
{
#define COPY(name, use, range, otherwise) numbers->name = settings->name;
    PS_NUMBER_TABLE(COPY)
#undef COPY
    double rate = ps_learning_rate_at(&settings->learning_rate, number);
    /* The old system climbed with both terms; the flag is there to repeat its runs. */
    bool reversed = settings->rule == PS_RULE_ADAGRAD && settings->adagrad_reference_sign;
    numbers->rate = reversed ? -rate : rate;
    /* Divided once here: the loops multiply. */
    numbers->rate_inverse = ps_rule_uses(settings->rule, PS_USES_FTRL) ? 1 / rate : 0;
    numbers->shrink = numbers->rate * settings->decay;
    numbers->rho_rest = 1 - settings->rho;
    /* Infinity instead of a flag: the loop holds every element, and compares with infinity where
     * nothing is to be held. */
    numbers->clip = settings->clip_value > 0 ? settings->clip_value : (double)INFINITY;
}

/* sqrt(1 - beta_2^t), which only rules with betas have. */
static double second_correction(const struct ps_optimizer_settings *settings, uint64_t number)
{
    if (!ps_rule_uses(settings->rule, PS_USES_BETAS))
        return 1;
    return sqrt(1 - ps_power(settings->beta_2, (double)number));
}

static void fill_betas(const struct ps_optimizer_settings *settings, uint64_t number,
                       struct ps_step_f64 *numbers)
{
    /* At t = 1 the correction undoes the start of the means at 0 exactly. */
    double first = 1 - ps_power(settings->beta_1, (double)number);
    numbers->beta_1_rest = 1 - settings->beta_1;
    numbers->beta_2_rest = 1 - settings->beta_2;
    numbers->step = numbers->rate * second_correction(settings, number) / first;
}

/* PyTorch adds epsilon to the corrected root. The rules divide by the uncorrected one, so that
 * it is epsilon that takes the correction, once for a push instead of once for an element. */
static void fill_epsilon(const struct ps_optimizer_settings *settings, uint64_t number,
                         struct ps_step_f64 *numbers)
{
    bool always = ps_rule_uses(settings->rule, PS_EPSILON_OUTSIDE);
    bool asked = settings->epsilon_outside_root && !ps_rule_uses(settings->rule, PS_EPSILON_INSIDE);
    bool outside = always || asked;
    numbers->epsilon_inside = outside ? 0 : settings->epsilon;
    numbers->epsilon_outside =
        outside ? settings->epsilon * second_correction(settings, number) : 0;
}
