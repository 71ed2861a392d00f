/* SPDX-License-Identifier: Apache-2.0 */
/* The loops over every rule and type. This file is compiled once for each instruction set, under
 * the table name PS_LOOPS_TABLE; the rules themselves are in *.rule.h. */
#include "optimizer/loops.h"

#include "base/attributes.h"
#define PS_RULES_ARITHMETIC
#include "optimizer/rules.h"
#include "optimizer/sum.h"

#include <float.h>
#include <string.h>

_Static_assert(FLT_EVAL_METHOD == 0, "a float is computed as a float");

/* A gradient may lie at any address: it is read where the message left it.
 * memcpy of one element is an unaligned load to the compiler, and not undefined. */
#define LOAD(TAG, suffix, T, SUM, label)                                               \
    static inline T load_##suffix(const void *gradient, size_t i)                      \
    {                                                                                  \
        T element;                                                                     \
        memcpy(&element, (const char *)gradient + i * sizeof element, sizeof element); \
        return element;                                                                \
    }
PS_DTYPE_TABLE(LOAD)
#undef LOAD

/* What every loop takes out of its run first: the compiler cannot know that no store changes it.
 * From and to may be the same array. They are read and written element by element at the same
 * index, which is what PS_TURNS_INDEPENDENT promises to the compiler. */
#define OPEN_RUN(T)                             \
    const void *gradient = run->gradient;       \
    const size_t count = run->count;            \
    const T *old_values = run->arrays->from[0]; \
    T *new_values = run->arrays->to[0];

/* Array `i` of the run under the names that a loop has for it.
 * Pointers are taken out of the struct by name, since a loop with an array of pointers is one
 * that compilers do not make vectors of. */
#define OPEN_STATE(T, name, i)                  \
    const T *old_##name = run->arrays->from[i]; \
    T *new_##name = run->arrays->to[i];

/* Rules without numbers: value and gradient alone. */
#define PLAIN_LOOP(rule, suffix, T)                                   \
    static void rule##_##suffix(const struct ps_run *run)             \
    {                                                                 \
        OPEN_RUN(T)                                                   \
        PS_TURNS_INDEPENDENT                                          \
        for (size_t i = 0; i < count; i++) {                          \
            T value = old_values[i];                                  \
            ps_##rule##_##suffix(&value, load_##suffix(gradient, i)); \
            new_values[i] = value;                                    \
        }                                                             \
    }

/* Float rules with 0, 1 and 2 states.
 * The step's numbers are copied into a local struct, so that no store of a loop could change
 * them: they stay in registers. */
#define LOOP_0(rule, suffix, T)                                                 \
    static void rule##_##suffix(const struct ps_run *run)                       \
    {                                                                           \
        OPEN_RUN(T)                                                             \
        const struct ps_step_##suffix numbers = run->step->suffix;              \
        PS_TURNS_INDEPENDENT                                                    \
        for (size_t i = 0; i < count; i++) {                                    \
            T value = old_values[i];                                            \
            ps_##rule##_##suffix(&numbers, &value, load_##suffix(gradient, i)); \
            new_values[i] = value;                                              \
        }                                                                       \
    }
/* The state is read into a local and written back once, so that the rule's function, which takes
 * pointers, becomes registers. */
#define LOOP_1(rule, suffix, T)                                                         \
    static void rule##_##suffix(const struct ps_run *run)                               \
    {                                                                                   \
        OPEN_RUN(T)                                                                     \
        OPEN_STATE(T, states, 1)                                                        \
        const struct ps_step_##suffix numbers = run->step->suffix;                      \
        PS_TURNS_INDEPENDENT                                                            \
        for (size_t i = 0; i < count; i++) {                                            \
            T value = old_values[i];                                                    \
            T state = old_states[i];                                                    \
            ps_##rule##_##suffix(&numbers, &value, &state, load_##suffix(gradient, i)); \
            new_values[i] = value;                                                      \
            new_states[i] = state;                                                      \
        }                                                                               \
    }
/* Written out rather than made from LOOP_1: a macro that pasted states together would save lines
 * and hide the order of loads and stores. */
#define LOOP_2(rule, suffix, T)                                                                  \
    static void rule##_##suffix(const struct ps_run *run)                                        \
    {                                                                                            \
        OPEN_RUN(T)                                                                              \
        OPEN_STATE(T, firsts, 1)                                                                 \
        OPEN_STATE(T, seconds, 2)                                                                \
        const struct ps_step_##suffix numbers = run->step->suffix;                               \
        PS_TURNS_INDEPENDENT                                                                     \
        for (size_t i = 0; i < count; i++) {                                                     \
            T value = old_values[i];                                                             \
            T first = old_firsts[i];                                                             \
            T second = old_seconds[i];                                                           \
            ps_##rule##_##suffix(&numbers, &value, &first, &second, load_##suffix(gradient, i)); \
            new_values[i] = value;                                                               \
            new_firsts[i] = first;                                                               \
            new_seconds[i] = second;                                                             \
        }                                                                                        \
    }

/* The loops of one row of PS_RULE_TABLE; those that are OWN come below. */
#define LOOPS_NONE(rule, states, suffix, T)
#define LOOPS_OWN(rule, states, suffix, T)
#define LOOPS_PLAIN(rule, states, suffix, T) PLAIN_LOOP(rule, suffix, T)
#define LOOPS_NUMBERS(rule, states, suffix, T) LOOP_##states(rule, suffix, T)
/* Each row names how its loops are made; the name pastes to one of the four above. */
#define FLOAT_LOOP(TAG, rule, states, floats, wholes, uses, rate, suffix, T) \
    LOOPS_##floats(rule, states, suffix, T)
#define WHOLE_LOOP(TAG, rule, states, floats, wholes, uses, rate, suffix, T) \
    LOOPS_##wholes(rule, states, suffix, T)

/* Types outside, rules inside: macros of one table cannot be walked within themselves. */
#define FLOAT_LOOPS(suffix, T, f) PS_RULE_TABLE(FLOAT_LOOP, suffix, T)
#define SIGNED_LOOPS(suffix, T, U, least, greatest) PS_RULE_TABLE(WHOLE_LOOP, suffix, T)
/* Both kinds of whole numbers have the same rules; the arithmetic of each is in its table's
 * types. */
#define UNSIGNED_LOOPS(suffix, T, twin, TWIN, greatest) PS_RULE_TABLE(WHOLE_LOOP, suffix, T)
PS_FLOAT_TABLE(FLOAT_LOOPS)
PS_SIGNED_TABLE(SIGNED_LOOPS)
PS_UNSIGNED_TABLE(UNSIGNED_LOOPS)
#undef FLOAT_LOOPS
#undef SIGNED_LOOPS
#undef UNSIGNED_LOOPS
#undef FLOAT_LOOP
#undef WHOLE_LOOP
#undef LOOPS_NONE
#undef LOOPS_OWN
#undef LOOPS_PLAIN
#undef LOOPS_NUMBERS
#undef LOOP_0
#undef LOOP_1
#undef LOOP_2

/* A float's saturating sum is its IEEE sum, and so is its wrapping one. */
#define ADD_LOOP(TAG, suffix, T, SUM, label)                                               \
    PLAIN_LOOP(add_saturating, suffix, T)                                                  \
    PLAIN_LOOP(add_wrapping, suffix, T)                                                    \
    static void add_##suffix(const struct ps_run *run)                                     \
    {                                                                                      \
        if (run->step->settings->overflow == PS_OVERFLOW_WRAP)                             \
            add_wrapping_##suffix(run);                                                    \
        else                                                                               \
            add_saturating_##suffix(run);                                                  \
    }                                                                                      \
    static bool overflows_##suffix(const void *values, const void *gradient, size_t count, \
                                   size_t *index)                                          \
    {                                                                                      \
        const T *value = values;                                                           \
        for (size_t i = 0; i < count; i++) {                                               \
            if (!ps_add_overflows_##suffix(value[i], load_##suffix(gradient, i)))          \
                continue;                                                                  \
            *index = i;                                                                    \
            return true;                                                                   \
        }                                                                                  \
        return false;                                                                      \
    }
PS_DTYPE_TABLE(ADD_LOOP)
#undef ADD_LOOP
#undef PLAIN_LOOP

/* The index of the element goes along, since stochastic rounding takes its random number from
 * it; that is why these loops are not those of LOOP_0. Chance is asked once for four elements: at
 * each multiple of four, and where a run begins within such four. */
#define DRAW(step, four, index, begins)                         \
    do {                                                        \
        if (ps_dithers(step) && ((begins) || (index) % 4 == 0)) \
            *(four) = ps_dither_four(step, index);              \
    } while (0)
#define SIGNED_SGD_LOOP(suffix, T, U, least, greatest)                                    \
    static void sgd_##suffix(const struct ps_run *run)                                    \
    {                                                                                     \
        OPEN_RUN(T)                                                                       \
        const struct ps_step_whole step = run->step->whole;                               \
        const uint64_t first = run->first;                                                \
        struct ps_philox four = {{0}};                                                    \
        for (size_t i = 0; i < count; i++) {                                              \
            T value = old_values[i];                                                      \
            DRAW(&step, &four, first + i, i == 0);                                        \
            ps_sgd_##suffix(&step, &four, first + i, &value, load_##suffix(gradient, i)); \
            new_values[i] = value;                                                        \
        }                                                                                 \
    }
PS_SIGNED_TABLE(SIGNED_SGD_LOOP)
#undef SIGNED_SGD_LOOP

/* Which type the gradient has is asked in the loop, and the answer is the same in each turn:
 * compilers take it out. */
#define UNSIGNED_SGD_LOOP(suffix, T, twin, TWIN, greatest)                         \
    static void sgd_##suffix(const struct ps_run *run)                             \
    {                                                                              \
        OPEN_RUN(T)                                                                \
        const struct ps_step_whole step = run->step->whole;                        \
        const uint64_t first = run->first;                                         \
        struct ps_philox four = {{0}};                                             \
        for (size_t i = 0; i < count; i++) {                                       \
            T value = old_values[i];                                               \
            T pushed = load_##suffix(gradient, i);                                 \
            DRAW(&step, &four, first + i, i == 0);                                 \
            if (step.gradient_unsigned)                                            \
                ps_sgd_unsigned_##suffix(&step, &four, first + i, &value, pushed); \
            else                                                                   \
                ps_sgd_##suffix(&step, &four, first + i, &value, pushed);          \
            new_values[i] = value;                                                 \
        }                                                                          \
    }
PS_UNSIGNED_TABLE(UNSIGNED_SGD_LOOP)
#undef DRAW
#undef UNSIGNED_SGD_LOOP
#undef OPEN_STATE
#undef OPEN_RUN

/* What a float's bits are, and those that are all set in what is not finite.
 * Infinity and NaN are the numbers whose exponent has all bits set. Bits are compared, and not
 * isfinite called, so that the loop has no branch and goes in vectors; the place of the first
 * one is looked for afterwards, only where there is one. */
#define BITS_f32 uint32_t
#define BITS_f64 uint64_t
#define EXPONENT_f32 UINT32_C(0x7f800000)
#define EXPONENT_f64 UINT64_C(0x7ff0000000000000)

/* Scanning goes by pieces that end where a row of lanes ends.
 * `lanes` is restrict: a compiler that thought the sums might be the gradient would add one
 * element at a time. */
#define SCAN_PIECES(suffix, T, f)                                                          \
    static bool all_finite_##suffix(const void *gradient, size_t count)                    \
    {                                                                                      \
        BITS_##suffix strange = 0;                                                         \
        for (size_t i = 0; i < count; i++) {                                               \
            T element = load_##suffix(gradient, i);                                        \
            BITS_##suffix bits;                                                            \
            memcpy(&bits, &element, sizeof bits);                                          \
            strange |= (bits & EXPONENT_##suffix) == EXPONENT_##suffix;                    \
        }                                                                                  \
        return strange == 0;                                                               \
    }                                                                                      \
    static size_t first_strange_##suffix(const void *gradient)                             \
    {                                                                                      \
        size_t i = 0;                                                                      \
        while (isfinite(load_##suffix(gradient, i)))                                       \
            i++;                                                                           \
        return i;                                                                          \
    }                                                                                      \
    static void add_squares_##suffix(double *restrict lanes, T clip, const void *gradient, \
                                     size_t count)                                         \
    {                                                                                      \
        for (size_t i = 0; i < count; i++) {                                               \
            double held = (double)ps_hold_##suffix(clip, load_##suffix(gradient, i));      \
            lanes[i] += held * held;                                                       \
        }                                                                                  \
    }
PS_FLOAT_TABLE(SCAN_PIECES)
#undef SCAN_PIECES

/* Without a norm to sum up, a run is one piece.
 * The norm is summed in pieces that end where a row of lanes ends, and closed after each:
 * element i goes to lane i mod 256, wherever a run begins. */
#define SCAN_PIECE(suffix, T, f)                                                                   \
    static void judge_##suffix(const struct ps_optimizer_settings *settings, const void *gradient, \
                               size_t count, struct ps_gradient_scan *scan)                        \
    {                                                                                              \
        bool judges = settings->nonfinite != PS_NONFINITE_ALLOW && !scan->nonfinite;               \
        if (!judges || all_finite_##suffix(gradient, count))                                       \
            return;                                                                                \
        scan->nonfinite = true;                                                                    \
        scan->nonfinite_index = scan->count + first_strange_##suffix(gradient);                    \
    }                                                                                              \
    static void scan_##suffix(const struct ps_optimizer_settings *settings, const void *gradient,  \
                              size_t count, struct ps_gradient_scan *scan)                         \
    {                                                                                              \
        judge_##suffix(settings, gradient, count, scan);                                           \
        if (!(settings->clip_norm > 0)) {                                                          \
            scan->count += count;                                                                  \
            return;                                                                                \
        }                                                                                          \
        T clip = settings->clip_value > 0 ? (T)settings->clip_value : (T)INFINITY;                 \
        for (size_t done = 0; done < count;) {                                                     \
            size_t lane = (size_t)(scan->count % PS_SUM_LANES);                                    \
            size_t room = PS_SUM_LANES - lane;                                                     \
            size_t piece = count - done < room ? count - done : room;                              \
            add_squares_##suffix(&scan->lanes[lane], clip,                                         \
                                 (const char *)gradient + done * sizeof(T), piece);                \
            scan->count += piece;                                                                  \
            ps_sum_close(scan);                                                                    \
            done += piece;                                                                         \
        }                                                                                          \
    }
PS_FLOAT_TABLE(SCAN_PIECE)
#undef SCAN_PIECE
#undef EXPONENT_f64
#undef EXPONENT_f32
#undef BITS_f64
#undef BITS_f32

/* The name of the table is given by the build (loops.cmake), and is text in what tests print. */
#define WORD(word) #word
#define TEXT(macro) WORD(macro)

/* Where a row of PS_RULE_TABLE has a loop, the loop has the rule's name.
 * No designator at all: the entry is NULL, as the rest of a table is that nobody names. */
#define ENTRY_NONE(TAG, rule, suffix)
#define ENTRY_OWN(TAG, rule, suffix) [TAG][PS_DTYPE_##suffix] = rule##_##suffix,
#define ENTRY_PLAIN(TAG, rule, suffix) ENTRY_OWN(TAG, rule, suffix)
#define ENTRY_NUMBERS(TAG, rule, suffix) ENTRY_OWN(TAG, rule, suffix)
/* The same columns as above, this time for the table of functions. */
#define FLOAT_ENTRY(TAG, rule, states, floats, wholes, uses, rate, suffix) \
    ENTRY_##floats(TAG, rule, suffix)
#define WHOLE_ENTRY(TAG, rule, states, floats, wholes, uses, rate, suffix) \
    ENTRY_##wholes(TAG, rule, suffix)

#define FLOAT_ENTRIES(suffix, T, f) PS_RULE_TABLE(FLOAT_ENTRY, suffix)
#define SIGNED_ENTRIES(suffix, T, U, least, greatest) PS_RULE_TABLE(WHOLE_ENTRY, suffix)
#define UNSIGNED_ENTRIES(suffix, T, twin, TWIN, greatest) PS_RULE_TABLE(WHOLE_ENTRY, suffix)
#define SCAN_ENTRY(suffix, T, f) [PS_DTYPE_##suffix] = scan_##suffix,
#define OVERFLOWS_ENTRY(TAG, suffix, T, SUM, label) [TAG] = overflows_##suffix,

/* One table for each instruction set. Pairs of rule and type that do not go together stay NULL,
 * which test_loops compares with what the check of the settings refuses. */
const struct ps_loops PS_LOOPS_TABLE = {
    .name = TEXT(PS_LOOPS_TABLE),
    .apply = {PS_FLOAT_TABLE(FLOAT_ENTRIES) PS_SIGNED_TABLE(SIGNED_ENTRIES)
                  PS_UNSIGNED_TABLE(UNSIGNED_ENTRIES)},
    .scan = {PS_FLOAT_TABLE(SCAN_ENTRY)},
    .overflows = {PS_DTYPE_TABLE(OVERFLOWS_ENTRY)},
};
