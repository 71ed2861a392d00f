/* SPDX-License-Identifier: Apache-2.0 */
/* Every rule under one form, so that kernels can be written once: one element, one pack, one span
 * of a run. Generated from the rules' own lists; a rule's arithmetic is in its *.rule.h alone.
 *
 * Threads:  those of a kernel.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_CUDA_RULES_CUH
#define PS_OPTIMIZER_CUDA_RULES_CUH

#include "optimizer/cuda/gradient.cuh"
#define PS_RULES_ARITHMETIC
#include "optimizer/rules.h"

/* ADD that wraps counts as a rule of its own here. */
#define ADD_WRAPPING PS_RULE_COUNT

/* A row of PS_RULE_TABLE becomes X(TAG, rule, states, suffix, T) where the rule has a loop. */
#define ROW_NONE(X, TAG, rule, states, suffix, T)
#define ROW_OWN(X, TAG, rule, states, suffix, T) X(TAG, rule, states, suffix, T)
#define ROW_PLAIN(X, TAG, rule, states, suffix, T) X(TAG, rule, states, suffix, T)
#define ROW_NUMBERS(X, TAG, rule, states, suffix, T) X(TAG, rule, states, suffix, T)
#define FLOAT_ROW(TAG, rule, states, floats, wholes, uses, rate, X, suffix, T) \
    ROW_##floats(X, TAG, rule, states, suffix, T)
#define WHOLE_ROW(TAG, rule, states, floats, wholes, uses, rate, X, suffix, T) \
    ROW_##wholes(X, TAG, rule, states, suffix, T)

/* What a float type allows, and what whole numbers do. */
#define PS_FLOAT_RULES(X, suffix, T) PS_RULE_TABLE(FLOAT_ROW, X, suffix, T)
#define PS_WHOLE_RULES(X, suffix, T)       \
    PS_RULE_TABLE(WHOLE_ROW, X, suffix, T) \
    X(ADD_WRAPPING, add_wrapping, 0, suffix, T)

/* What chance says of the four elements at `index`: whole numbers alone ask, and where nobody reads
 * the answer the compiler leaves the question out. */
PS_DEVICE struct ps_philox four_of(const struct ps_step_whole *step, uint64_t index)
{
    return ps_dithers(step) ? ps_dither_four(step, index) : ps_philox();
}

PS_DEVICE struct ps_philox four_of(const struct ps_step_f32 *step, uint64_t index)
{
    (void)step, (void)index;
    return ps_philox();
}

PS_DEVICE struct ps_philox four_of(const struct ps_step_f64 *step, uint64_t index)
{
    (void)step, (void)index;
    return ps_philox();
}

/* One element, number `place` (modulo four) of the four: what the rule does not have, it leaves
 * alone. */
#define ONE(rule, suffix, T)                                                                      \
    PS_DEVICE void one_##rule##_##suffix(const STEP_##suffix *step, const struct ps_philox *four, \
                                         uint64_t place, T *value, T *first, T *second, T pushed)

#define ONE_SIMPLE(rule, call, suffix, T)    \
    ONE(rule, suffix, T)                     \
    {                                        \
        (void)step, (void)four, (void)place; \
        (void)first, (void)second;           \
        ps_##call##_##suffix(value, pushed); \
    }
#define ONE_0(rule, suffix, T)                              \
    ONE(rule, suffix, T)                                    \
    {                                                       \
        (void)four, (void)place, (void)first, (void)second; \
        ps_##rule##_##suffix(step, value, pushed);          \
    }
#define ONE_1(rule, suffix, T)                            \
    ONE(rule, suffix, T)                                  \
    {                                                     \
        (void)four, (void)place, (void)second;            \
        ps_##rule##_##suffix(step, value, first, pushed); \
    }
#define ONE_2(rule, suffix, T)                                    \
    ONE(rule, suffix, T)                                          \
    {                                                             \
        (void)four, (void)place;                                  \
        ps_##rule##_##suffix(step, value, first, second, pushed); \
    }
/* The elements of one row; those that are OWN come below. */
#define ONES_NONE(rule, states, suffix, T)
#define ONES_OWN(rule, states, suffix, T)
#define ONES_PLAIN(rule, states, suffix, T) ONE_SIMPLE(rule, rule, suffix, T)
#define ONES_NUMBERS(rule, states, suffix, T) ONE_##states(rule, suffix, T)
#define FLOAT_ONE(TAG, rule, states, floats, wholes, uses, rate, suffix, T) \
    ONES_##floats(rule, states, suffix, T)
#define WHOLE_ONE(TAG, rule, states, floats, wholes, uses, rate, suffix, T) \
    ONES_##wholes(rule, states, suffix, T)
#define FLOAT_ONES(suffix, T, f) PS_RULE_TABLE(FLOAT_ONE, suffix, T)
#define SIGNED_ONES(suffix, T, U, least, greatest) PS_RULE_TABLE(WHOLE_ONE, suffix, T)
#define UNSIGNED_ONES(suffix, T, twin, TWIN, greatest) PS_RULE_TABLE(WHOLE_ONE, suffix, T)
PS_FLOAT_TABLE(FLOAT_ONES)
PS_SIGNED_TABLE(SIGNED_ONES)
PS_UNSIGNED_TABLE(UNSIGNED_ONES)
#undef FLOAT_ONES
#undef SIGNED_ONES
#undef UNSIGNED_ONES
#undef FLOAT_ONE
#undef WHOLE_ONE
#undef ONES_NONE
#undef ONES_OWN
#undef ONES_PLAIN
#undef ONES_NUMBERS
#undef ONE_0
#undef ONE_1
#undef ONE_2

#define ONE_ADD(TAG, suffix, T, SUM, label)    \
    ONE_SIMPLE(add, add_saturating, suffix, T) \
    ONE_SIMPLE(add_wrapping, add_wrapping, suffix, T)
PS_DTYPE_TABLE(ONE_ADD)
#undef ONE_ADD
#undef ONE_SIMPLE

#define ONE_SIGNED(suffix, T, U, least, greatest)          \
    ONE(sgd, suffix, T)                                    \
    {                                                      \
        (void)first, (void)second;                         \
        ps_sgd_##suffix(step, four, place, value, pushed); \
    }
PS_SIGNED_TABLE(ONE_SIGNED)
#undef ONE_SIGNED

#define ONE_UNSIGNED(suffix, T, twin, TWIN, greatest)                   \
    ONE(sgd, suffix, T)                                                 \
    {                                                                   \
        (void)first, (void)second;                                      \
        if (step->gradient_unsigned)                                    \
            ps_sgd_unsigned_##suffix(step, four, place, value, pushed); \
        else                                                            \
            ps_sgd_##suffix(step, four, place, value, pushed);          \
    }
PS_UNSIGNED_TABLE(ONE_UNSIGNED)
#undef ONE_UNSIGNED
#undef ONE

/* Packs that a thread has on their way at once. All are loaded before the first is stored: a
 * multiprocessor needs some twenty kilobytes on their way to keep its share of the memory busy, and
 * a compiler that cannot know whether arrays overlap moves no load across a store. More would need
 * more than the 64 registers that four blocks leave to a thread; in a table, where the step's
 * numbers are in registers, too, there is room for fewer. */
#define AT_ONCE(TAG, states_, T) \
    ((TAG) == PS_RULE_ASSIGN ? 4 : (states_) < 2 || sizeof(T) == 4 ? 2 : 1)
#define AT_ONCE_ENCODED(states_, T) ((states_) < 2 || sizeof(T) == 4 ? 2 : 1)
#define AT_ONCE_IN_TABLE(states_, T) (sizeof(T) == 4 && (states_) < 1 ? 2 : 1)

/* Packs of a parameter that a thread has in hand. */
#define HELD(TAG, suffix, T, SUM, label)          \
    struct held_##suffix {                        \
        struct pack_##suffix value[AT_ONCE_MAX];  \
        struct pack_##suffix first[AT_ONCE_MAX];  \
        struct pack_##suffix second[AT_ONCE_MAX]; \
    };
PS_DTYPE_TABLE(HELD)
#undef HELD

/* `n` packs (a constant) of a run, pack i, i + stride and so on, are fetched, and updated and put
 * back; and one element, in place. A pack lies within four elements that chance is asked for at
 * once, since a run begins at a multiple of four. */
#define UPDATE(TAG, rule, states_, suffix, T)                                                   \
    PS_DEVICE void fetch_##rule##_##suffix(const struct ps_cuda_run *run, uint64_t i,           \
                                           uint64_t stride, unsigned n,                         \
                                           struct held_##suffix *held)                          \
    {                                                                                           \
        PS_UNROLL                                                                               \
        for (unsigned j = 0; j < n; j++) {                                                      \
            const uint64_t at = i + j * stride;                                                 \
            held->value[j] = load_##suffix(run->values, at);                                    \
            held->first[j] = states_ > 0 ? load_##suffix(run->states[0], at) : held->value[j];  \
            held->second[j] = states_ > 1 ? load_##suffix(run->states[1], at) : held->value[j]; \
        }                                                                                       \
    }                                                                                           \
    PS_DEVICE void finish_##rule##_##suffix(                                                    \
        const STEP_##suffix *step, const struct ps_cuda_run *run, uint64_t i, uint64_t stride,  \
        unsigned n, const struct pack_##suffix *gradient, struct held_##suffix *held)           \
    {                                                                                           \
        PS_UNROLL                                                                               \
        for (unsigned j = 0; j < n; j++) {                                                      \
            const uint64_t at = (i + j * stride) * PACK(T);                                     \
            const struct ps_philox four = four_of(step, run->first + at);                       \
            PS_UNROLL                                                                           \
            for (unsigned k = 0; k < PACK(T); k++)                                              \
                one_##rule##_##suffix(step, &four, at + k, &held->value[j].element[k],          \
                                      &held->first[j].element[k], &held->second[j].element[k],  \
                                      gradient[j].element[k]);                                  \
        }                                                                                       \
        PS_UNROLL                                                                               \
        for (unsigned j = 0; j < n; j++) {                                                      \
            store_##suffix(run->values, i + j * stride, held->value[j]);                        \
            if (states_ > 0)                                                                    \
                store_##suffix(run->states[0], i + j * stride, held->first[j]);                 \
            if (states_ > 1)                                                                    \
                store_##suffix(run->states[1], i + j * stride, held->second[j]);                \
        }                                                                                       \
    }                                                                                           \
    PS_DEVICE void element_##rule##_##suffix(                                                   \
        const STEP_##suffix *step, const struct ps_cuda_run *run, uint64_t i, T gradient)       \
    {                                                                                           \
        T none = 0;                                                                             \
        T *value = (T *)run->values + i;                                                        \
        T *first = states_ > 0 ? (T *)run->states[0] + i : &none;                               \
        T *second = states_ > 1 ? (T *)run->states[1] + i : &none;                              \
        const struct ps_philox four = four_of(step, run->first + i);                            \
        one_##rule##_##suffix(step, &four, i, value, first, second, gradient);                  \
    }

/* What one thread does of a run with a native gradient: `n` packs at once (a constant), then one by
 * one, and perhaps an element of the tail. The span is in packs. */
#define SPAN(TAG, rule, states_, suffix, T)                                            \
    PS_DEVICE void native_##rule##_##suffix(const STEP_##suffix *step,                 \
                                            const struct ps_cuda_run *run, uint64_t i, \
                                            uint64_t stride, unsigned n)               \
    {                                                                                  \
        struct pack_##suffix gradient[AT_ONCE_MAX];                                    \
        struct held_##suffix held;                                                     \
        PS_UNROLL                                                                      \
        for (unsigned j = 0; j < n; j++)                                               \
            gradient[j] = load_##suffix(run->gradient.elements, i + j * stride);       \
        fetch_##rule##_##suffix(run, i, stride, n, &held);                             \
        finish_##rule##_##suffix(step, run, i, stride, n, gradient, &held);            \
    }                                                                                  \
    PS_DEVICE void span_##rule##_##suffix(const STEP_##suffix *step,                   \
                                          const struct ps_cuda_run *run,               \
                                          const struct ps_span &span, unsigned n)      \
    {                                                                                  \
        uint64_t i = span.pack;                                                        \
        for (; i + (n - 1) * span.stride < span.packs; i += n * span.stride)           \
            native_##rule##_##suffix(step, run, i, span.stride, n);                    \
        for (; n > 1 && i < span.packs; i += span.stride)                              \
            native_##rule##_##suffix(step, run, i, span.stride, 1);                    \
        if (span.tail < span.count)                                                    \
            element_##rule##_##suffix(step, run, span.tail,                            \
                                      ((const T *)run->gradient.elements)[span.tail]); \
    }

/* The same with any encoding. The parameter's packs are on their way while the gradient is decoded.
 * A TOP_K that leaves alone what it does not name goes by its list. */
#define ENCODED_SPAN(TAG, rule, states_, suffix, T)                                           \
    PS_DEVICE void names_##rule##_##suffix(                                                   \
        const STEP_##suffix *step, const struct ps_cuda_run *run, const struct ps_span &span) \
    {                                                                                         \
        const struct ps_cuda_gradient *gradient = &run->gradient;                             \
        uint64_t at = listed_from(gradient, run->first + span.begin) + span.thread;           \
        for (; at < gradient->kept; at += span.stride) {                                      \
            const uint64_t i = gradient->indices[at] - run->first;                            \
            if (i >= span.end)                                                                \
                break;                                                                        \
            element_##rule##_##suffix(step, run, i, named_##suffix(gradient, at));            \
        }                                                                                     \
    }                                                                                         \
    PS_DEVICE void encoded_##rule##_##suffix(const STEP_##suffix *step,                       \
                                             const struct ps_cuda_run *run, uint64_t i,       \
                                             uint64_t stride, unsigned n)                     \
    {                                                                                         \
        struct pack_##suffix gradient[AT_ONCE_MAX];                                           \
        struct held_##suffix held;                                                            \
        fetch_##rule##_##suffix(run, i, stride, n, &held);                                    \
        gradient_packs_##suffix(run, i, stride, n, gradient);                                 \
        finish_##rule##_##suffix(step, run, i, stride, n, gradient, &held);                   \
    }                                                                                         \
    PS_DEVICE void encoded_span_##rule##_##suffix(const STEP_##suffix *step,                  \
                                                  const struct ps_cuda_run *run,              \
                                                  const struct ps_span &span, unsigned n)     \
    {                                                                                         \
        if (leaves_unnamed(&run->gradient)) {                                                 \
            names_##rule##_##suffix(step, run, span);                                         \
            return;                                                                           \
        }                                                                                     \
        uint64_t i = span.pack;                                                               \
        for (; i + (n - 1) * span.stride < span.packs; i += n * span.stride)                  \
            encoded_##rule##_##suffix(step, run, i, span.stride, n);                          \
        for (; n > 1 && i < span.packs; i += span.stride)                                     \
            encoded_##rule##_##suffix(step, run, i, span.stride, 1);                          \
        if (span.tail < span.count)                                                           \
            element_##rule##_##suffix(step, run, span.tail,                                   \
                                      gradient_one_##suffix(run, span.tail));                 \
    }

#define UPDATE_AND_SPAN(TAG, rule, states_, suffix, T) \
    UPDATE(TAG, rule, states_, suffix, T)              \
    SPAN(TAG, rule, states_, suffix, T)
PS_FLOAT_RULES(UPDATE_AND_SPAN, f32, float)
PS_FLOAT_RULES(UPDATE_AND_SPAN, f64, double)
PS_WHOLE_RULES(UPDATE_AND_SPAN, i32, int32_t)
PS_WHOLE_RULES(UPDATE_AND_SPAN, u32, uint32_t)
PS_WHOLE_RULES(UPDATE_AND_SPAN, i64, int64_t)
PS_WHOLE_RULES(UPDATE_AND_SPAN, u64, uint64_t)
PS_FLOAT_RULES(ENCODED_SPAN, f32, float)
PS_FLOAT_RULES(ENCODED_SPAN, f64, double)
#undef UPDATE_AND_SPAN
#undef UPDATE
#undef SPAN
#undef ENCODED_SPAN

#endif
