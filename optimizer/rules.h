/* SPDX-License-Identifier: Apache-2.0 */
/* Every rule, one row each. The enum, the names, the states, the checks of the numbers, the loops
 * of the CPU, the kernels of CUDA and the choices of pstrain come from this table; a rule that is
 * added here is added everywhere (docs/add-a-rule.md).
 *
 * The columns of PS_RULE_TABLE(X, ...) are X(TAG, name, states, floats, wholes, uses, rate, ...):
 *
 *   name     of the rule everywhere: in the .proto in any case of letters, in <name>.rule.h
 *   states   arrays beside the values: 0, 1 or 2
 *   floats   how the loops over float types are made from the rule's arithmetic:
 *              NUMBERS  ps_<name>_<suffix>(step, value, [first state, [second state,]] pushed)
 *              PLAIN    ps_<name>_<suffix>(value, pushed), for every type
 *              OWN      by hand, in loops.c and cuda/rules.cuh
 *              NONE     the rule is refused on these types
 *   wholes   the same for whole numbers
 *   uses     PS_USES_..., and what else is to be known of the rule
 *   rate     learning rate where nobody names one, fit for mini-batches of a convex model;
 *            0: a rule that nobody trains with by name
 *
 * What follows `rate` is passed through from PS_RULE_TABLE to X, so that a table of types can be
 * walked around it. PS_RULE_TABLE(X, ) passes nothing.
 *
 * Threads:  constant data.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_RULES_H
#define PS_OPTIMIZER_RULES_H

/* What rules share. A number that no rule of yours uses is refused or ignored (PS_NUMBER_TABLE). */
enum ps_rule_use {
    PS_USES_GRADIENT = 1 << 0, /* clip_value, clip_norm and l2, as ps_gradient_<suffix> does them */
    PS_USES_DECAY = 1 << 1,
    PS_USES_MOMENTUM = 1 << 2,
    PS_USES_RHO = 1 << 3,
    PS_USES_BETAS = 1 << 4,       /* beta_1 and beta_2; the step's `step` corrects their bias */
    PS_USES_EPSILON = 1 << 5,     /* under the root, or beside with epsilon_outside_root */
    PS_USES_ACCUMULATOR = 1 << 6, /* initial_accumulator is the first state's start */
    PS_USES_FTRL = 1 << 7,        /* l1, ftrl_beta, ftrl_l2, and 1 / eta: a constant rate above 0 */
    PS_EPSILON_INSIDE = 1 << 8,   /* epsilon is under the root whatever is asked */
    PS_EPSILON_OUTSIDE = 1 << 9,  /* epsilon is beside the root whatever is asked */
    PS_LEAVES_ZEROS = 1 << 10     /* without decay and l2, a gradient of 0 changes nothing */
};

#define PS_USES_DESCENT (PS_USES_GRADIENT | PS_USES_DECAY)
#define PS_USES_VELOCITY (PS_USES_DESCENT | PS_USES_MOMENTUM)
#define PS_USES_OUTER (PS_USES_GRADIENT | PS_USES_MOMENTUM)
#define PS_USES_ROOT (PS_USES_GRADIENT | PS_USES_EPSILON)
#define PS_USES_RMSPROP (PS_USES_ROOT | PS_USES_RHO | PS_EPSILON_OUTSIDE)
#define PS_USES_ADAM (PS_USES_ROOT | PS_USES_DECAY | PS_USES_BETAS)
#define PS_USES_ADAGRAD (PS_USES_ROOT | PS_USES_DECAY | PS_USES_ACCUMULATOR)
#define PS_USES_ADADELTA (PS_USES_ROOT | PS_USES_DECAY | PS_USES_RHO | PS_EPSILON_INSIDE)
#define PS_USES_PROXIMAL (PS_USES_GRADIENT | PS_USES_ACCUMULATOR | PS_USES_FTRL)

/* The order is that of the enum: new rules go to the end. */
#define PS_RULE_TABLE(X, ...)                                                                 \
    X(PS_RULE_SGD, sgd, 0, NUMBERS, OWN, PS_USES_DESCENT | PS_LEAVES_ZEROS, 0.1, __VA_ARGS__) \
    X(PS_RULE_MOMENTUM, momentum, 1, NUMBERS, NONE, PS_USES_VELOCITY, 0.02, __VA_ARGS__)      \
    X(PS_RULE_NESTEROV, nesterov, 1, NUMBERS, NONE, PS_USES_VELOCITY, 0.02, __VA_ARGS__)      \
    X(PS_RULE_ADAGRAD, adagrad, 1, NUMBERS, NONE, PS_USES_ADAGRAD | PS_LEAVES_ZEROS, 0.1,     \
      __VA_ARGS__)                                                                            \
    X(PS_RULE_RMSPROP, rmsprop, 1, NUMBERS, NONE, PS_USES_RMSPROP, 0.002, __VA_ARGS__)        \
    X(PS_RULE_ADADELTA, adadelta, 2, NUMBERS, NONE, PS_USES_ADADELTA, 1.0, __VA_ARGS__)       \
    X(PS_RULE_ADAM, adam, 2, NUMBERS, NONE, PS_USES_ADAM, 0.005, __VA_ARGS__)                 \
    X(PS_RULE_ADAMW, adamw, 2, NUMBERS, NONE, PS_USES_ADAM | PS_EPSILON_OUTSIDE, 0.005,       \
      __VA_ARGS__)                                                                            \
    X(PS_RULE_FTRL, ftrl, 2, NUMBERS, NONE, PS_USES_PROXIMAL, 0.1, __VA_ARGS__)               \
    X(PS_RULE_ASSIGN, assign, 0, PLAIN, PLAIN, 0, 0, __VA_ARGS__)                             \
    X(PS_RULE_ADD, add, 0, OWN, OWN, PS_LEAVES_ZEROS, 0, __VA_ARGS__)                         \
    X(PS_RULE_MAX, max, 0, PLAIN, PLAIN, 0, 0, __VA_ARGS__)                                   \
    X(PS_RULE_MIN, min, 0, PLAIN, PLAIN, 0, 0, __VA_ARGS__)                                   \
    X(PS_RULE_OUTER, outer, 1, NUMBERS, NONE, PS_USES_OUTER, 0.7, __VA_ARGS__)

/* X(number, what uses it, its range there, its range in other rules): numbers of the settings that
 * a step hands to the rule under the same name, rounded once to its type. Ranges: FRACTION in
 * [0, 1), AT_LEAST_0, POSITIVE, each also after rounding; ZERO: refused, for it would train
 * otherwise than asked; ANY: ignored.
 *
 *   decay      lambda, as each rule defines it
 *   l2         l2 * p joins the clipped gradient (PyTorch's weight_decay)
 *   ftrl_beta  added to the root of the accumulator
 *   ftrl_l2    the proximal L2 term, a thing of its own beside l2 */
#define PS_NUMBER_TABLE(X)                        \
    X(momentum, PS_USES_MOMENTUM, FRACTION, ZERO) \
    X(decay, PS_USES_DECAY, AT_LEAST_0, ZERO)     \
    X(l2, PS_USES_GRADIENT, AT_LEAST_0, ZERO)     \
    X(l1, PS_USES_FTRL, AT_LEAST_0, ZERO)         \
    X(rho, PS_USES_RHO, FRACTION, ANY)            \
    X(beta_1, PS_USES_BETAS, FRACTION, ANY)       \
    X(beta_2, PS_USES_BETAS, FRACTION, ANY)       \
    X(ftrl_beta, PS_USES_FTRL, AT_LEAST_0, ANY)   \
    X(ftrl_l2, PS_USES_FTRL, AT_LEAST_0, ANY)

/* The same columns: numbers that a step hands on in another form.
 *
 *   clip_value  0: off; else each gradient element is held in [-c, c]
 *   clip_norm   0: off; else the push is scaled so that its L2 norm is <= c */
#define PS_SHAPED_NUMBER_TABLE(X)                                \
    X(epsilon, PS_USES_EPSILON, POSITIVE, ANY)                   \
    X(initial_accumulator, PS_USES_ACCUMULATOR, AT_LEAST_0, ANY) \
    X(clip_value, PS_USES_GRADIENT, AT_LEAST_0, ZERO)            \
    X(clip_norm, PS_USES_GRADIENT, AT_LEAST_0, ZERO)

#endif

/* The arithmetic of all rules, for whoever makes loops of it. It stands on settings.h, which stands
 * on the table above: whoever wants it defines PS_RULES_ARITHMETIC and includes this file again. */
#if defined(PS_RULES_ARITHMETIC) && !defined(PS_OPTIMIZER_RULES_ARITHMETIC)
#define PS_OPTIMIZER_RULES_ARITHMETIC
#include "optimizer/adadelta.rule.h"
#include "optimizer/adagrad.rule.h"
#include "optimizer/adam.rule.h"
#include "optimizer/adamw.rule.h"
#include "optimizer/add.rule.h"
#include "optimizer/assign.rule.h"
#include "optimizer/ftrl.rule.h"
#include "optimizer/integer_sgd.rule.h"
#include "optimizer/max.rule.h"
#include "optimizer/min.rule.h"
#include "optimizer/momentum.rule.h"
#include "optimizer/nesterov.rule.h"
#include "optimizer/outer.rule.h"
#include "optimizer/rmsprop.rule.h"
#include "optimizer/sgd.rule.h"
#endif
