/* SPDX-License-Identifier: Apache-2.0 */
/* The loops over the rules, compiled several times from loops.c for different instruction sets.
 * Which set runs can never be seen in a result.
 *
 * Threads:  constant tables.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_LOOPS_H
#define PS_OPTIMIZER_LOOPS_H

#include "optimizer/optimizer.h"

/* One contiguous run of elements. Everything is borrowed. */
struct ps_run {
    const struct ps_optimizer_step *step;
    uint64_t first; /* index of values[0] within the parameter */
    size_t count;
    const struct ps_optimizer_arrays *arrays;
    const void *gradient; /* any alignment */
};

typedef void ps_run_fn(const struct ps_run *run);
typedef void ps_scan_fn(const struct ps_optimizer_settings *settings, const void *gradient,
                        size_t count, struct ps_gradient_scan *scan);
typedef bool ps_overflow_fn(const void *values, const void *gradient, size_t count, size_t *index);

struct ps_loops {
    const char *name; /* "ps_loops_avx2" ... */
    ps_run_fn
        *apply[PS_RULE_COUNT][PS_DTYPE_COUNT]; /* NULL where rule and type do not go together */
    ps_scan_fn *scan[PS_DTYPE_COUNT];          /* NULL for whole numbers */
    ps_overflow_fn *overflows[PS_DTYPE_COUNT]; /* would ADD overflow? false for floats */
};

extern const struct ps_loops ps_loops_baseline;
#ifdef PS_LOOPS_X86
extern const struct ps_loops ps_loops_avx2;
extern const struct ps_loops ps_loops_avx512;
#endif

/* The fastest loops that this processor can run. */
const struct ps_loops *ps_loops_best(void);

/* All loops that this processor can run, from the slowest on: 0 is the baseline, NULL ends them. */
const struct ps_loops *ps_loops_at(size_t index);

#endif
