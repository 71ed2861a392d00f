/* SPDX-License-Identifier: Apache-2.0 */
/* Applies one push to a parameter, block by block. The same source serves CPU and GPU and gives
 * the same bits on both (the bit contract of optimizer/README.md).
 *
 * A push goes through three calls:
 *
 *   1. ps_optimizer_scan      once per contiguous run of the gradient, over the whole push, before
 *                             anything changes: non-finite elements, the sum for clip_norm
 *   2. ps_optimizer_prepare   once: every number that does not depend on the element (learning
 *                             rate, bias corrections, the clip factor), in double, rounded once
 *   3. ps_optimizer_apply     once per contiguous run: the arithmetic
 *
 * Gradient pointers may have any alignment. Values and states are aligned to their element.
 *
 * Threads:  all functions are pure but for the memory they are given.
 * Blocking: never.
 * Errors:   as said at each function.
 * Memory:   nothing is allocated; everything is borrowed for the call.
 */
#ifndef PS_OPTIMIZER_OPTIMIZER_H
#define PS_OPTIMIZER_OPTIMIZER_H

#include "base/bounds.h"
#include "base/dtype.h"
#include "base/status.h"
#include "optimizer/settings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Partial sums that run side by side within a group of PS_SUM_ELEMENTS. */
#define PS_SUM_LANES 256

/* What scanning a push found out. Zero-initialise it before the first run. */
struct ps_gradient_scan {
    bool nonfinite;           /* some element is NaN or infinite */
    uint64_t nonfinite_index; /* the first such element, counted over the push */
    double square_sum;        /* of what is finished, after clip_value */
    /* The group of PS_SUM_ELEMENTS that is still open. Its lanes make the sum independent of how
     * the push was cut into runs: element i of the push always adds to lane i % PS_SUM_LANES. */
    double lanes[PS_SUM_LANES];
    /* The same one level up: the sum of group j adds to lane j % PS_SUM_LANES. */
    double groups[PS_SUM_LANES];
    uint64_t count; /* elements seen */
};

/* Looks at `count` gradient elements, which follow those already scanned. Does only what the
 * settings ask for; a rule and type with nothing to look at costs nothing. */
void ps_optimizer_scan(const struct ps_optimizer_settings *settings, enum ps_dtype dtype,
                       const void *gradient, size_t count, struct ps_gradient_scan *scan);

/* A part of a push that may be scanned beside others: it begins at a multiple of this. */
#define PS_SCAN_PART_ELEMENTS ((uint64_t)PS_SUM_LANES * PS_SUM_ELEMENTS)

/* Adds to `scan` what was found in the elements that follow it, as if it had gone on itself: the
 * sum has the same bits. `part` was scanned from zero; both begin at multiples of
 * PS_SCAN_PART_ELEMENTS, where a norm is asked for, and `part` is not longer than that. */
void ps_optimizer_scan_join(struct ps_gradient_scan *scan, const struct ps_gradient_scan *part);

/* True when ps_optimizer_scan would do anything at all for these settings. */
bool ps_optimizer_scans(const struct ps_optimizer_settings *settings, enum ps_dtype dtype);

/* X(name): what one step derives from its settings. Beside it a step has every number of
 * PS_NUMBER_TABLE as it is. Each is computed in double and rounded once to its type. */
#define PS_STEP_TABLE(X)                                                                          \
    X(rate)         /* eta: the learning rate at this step (negated by adagrad_reference_sign) */ \
    X(shrink)       /* eta * lambda */                                                            \
    X(step)         /* eta * sqrt(1 - beta_2^t) / (1 - beta_1^t) */                               \
    X(rate_inverse) /* 1 / eta, 0 unless FTRL */                                                  \
    X(rho_rest)     /* 1 - rho */                                                                 \
    X(beta_1_rest)  /* 1 - beta_1 */                                                              \
    X(beta_2_rest)  /* 1 - beta_2 */                                                              \
    X(epsilon_inside)  /* added under the root, or 0 */                                           \
    X(epsilon_outside) /* added to the root, or 0; with betas: times sqrt(1 - beta_2^t) */        \
    X(clip)            /* clip_value, or infinity */                                              \
    X(scale)           /* what clip_norm multiplies the gradient by, or 1 */

#define PS_DERIVED_F32(name) float name;
#define PS_NUMBER_F32(name, use, range, otherwise) float name;
struct ps_step_f32 {
    PS_STEP_TABLE(PS_DERIVED_F32)
    PS_NUMBER_TABLE(PS_NUMBER_F32)
};
#undef PS_DERIVED_F32
#undef PS_NUMBER_F32

#define PS_DERIVED_F64(name) double name;
#define PS_NUMBER_F64(name, use, range, otherwise) double name;
struct ps_step_f64 {
    PS_STEP_TABLE(PS_DERIVED_F64)
    PS_NUMBER_TABLE(PS_NUMBER_F64)
};
#undef PS_DERIVED_F64
#undef PS_NUMBER_F64

/* What whole numbers need to know of a step. */
struct ps_step_whole {
    double rate;
    uint64_t number; /* these three make the random counter of stochastic rounding */
    uint64_t parameter_id;
    uint64_t seed;
    bool stochastic;
    bool gradient_unsigned;
};

/* One prepared step of one parameter. */
struct ps_optimizer_step {
    const struct ps_optimizer_settings *settings; /* borrowed; outlives the step */
    enum ps_dtype dtype;
    uint64_t number;       /* t: 1 for the first push */
    uint64_t parameter_id; /* part of the random counter of stochastic rounding */
    struct ps_step_f32 f32;
    struct ps_step_f64 f64;
    struct ps_step_whole whole;
    bool skip; /* nonfinite == SKIP and something was not finite: apply nothing */
};

/* Prepares step `number` of a parameter.
 *
 * scan     what scanning the whole push found
 *
 * PS_OK               `*step` is ready; look at step->skip
 * PS_ERR_BAD_INPUT    nonfinite == REJECT and an element is not finite (the text names its index),
 *                     or clip_norm is set and the push's norm is beyond the range of a double
 */
PS_MUST_USE enum ps_status
ps_optimizer_prepare(const struct ps_optimizer_settings *settings, enum ps_dtype dtype,
                     uint64_t number, uint64_t parameter_id, const struct ps_gradient_scan *scan,
                     struct ps_optimizer_step *step, struct ps_error *error);

/* Would ADD with overflow == FAIL overflow somewhere in this run? To be asked of the whole push
 * before the first apply; true sets `*index` to the first such element of the run. Always false
 * for other settings. */
bool ps_optimizer_overflows(const struct ps_optimizer_step *step, const void *values,
                            const void *gradient, size_t count, size_t *index);

/* Where a run is read and where it is written: first the values, then as many states as
 * ps_rule_states says; entries beyond are ignored. from[i] and to[i] are the same array, which is
 * then updated in place, or have no byte in common; nor has either with any of the others. */
struct ps_optimizer_arrays {
    const void *from[PS_ARRAYS_MAX];
    void *to[PS_ARRAYS_MAX];
};

/* Applies one run. A step with `skip` set must not be applied.
 *
 * first    index within the parameter of what the arrays begin with (stochastic rounding depends
 *          on it)
 */
void ps_optimizer_apply_to(const struct ps_optimizer_step *step, uint64_t first, size_t count,
                           const struct ps_optimizer_arrays *arrays, const void *gradient);

/* The same in place; `states` is ignored beyond what ps_rule_states says. */
void ps_optimizer_apply(const struct ps_optimizer_step *step, uint64_t first, size_t count,
                        void *values, void *const states[PS_STATES_MAX], const void *gradient);

/* Fills `count` elements of a state array with its start value. */
void ps_optimizer_fill(enum ps_dtype dtype, double value, void *array, size_t count);

/* Makes this thread round as IEEE 754 says (no flush to zero): a library linked with -ffast-math
 * changes that behind everybody's back. Call at the start of every thread that applies. */
void ps_optimizer_enter_thread(void);

#endif
