/* SPDX-License-Identifier: Apache-2.0 */
/* Named elements are gathered, updated side by side and put back: so the rules' loops, which want
 * neighbours, do the arithmetic, and there is no second arithmetic for sparse gradients whose bits
 * could differ. */
#include "server/core/update/sparse_apply.h"

#include "base/assert.h"
#include "optimizer/encoded.h"

/* One batch of elements of each array, as large as those of any type: 16 KiB on the stack. */
struct batch {
    double arrays[PS_ARRAYS_MAX][PS_GRADIENT_PAIRS];
    double gradient[PS_GRADIENT_PAIRS];
};

/* Copies of elements, for the two types that may be pushed in pairs. `first` is the element with
 * which the array begins: indices count from the parameter's first. */
#define GATHER(T)                                                                                  \
    static void gather_##T(const T *from, uint64_t first, struct ps_gradient_pair_run run, T *to)  \
    {                                                                                              \
        for (size_t i = 0; i < run.count; i++)                                                     \
            to[i] = from[run.indices[i] - first];                                                  \
    }                                                                                              \
    static void scatter_##T(const T *from, uint64_t first, struct ps_gradient_pair_run run, T *to) \
    {                                                                                              \
        for (size_t i = 0; i < run.count; i++)                                                     \
            to[run.indices[i] - first] = from[i];                                                  \
    }
GATHER(float)
GATHER(double)
#undef GATHER

/* By type, since an element is copied as a whole. */
static void gather(enum ps_dtype dtype, const void *from, uint64_t first,
                   struct ps_gradient_pair_run run, void *to)
{
    if (dtype == PS_F32)
        gather_float(from, first, run, to);
    else
        gather_double(from, first, run, to);
}

static void scatter(enum ps_dtype dtype, const void *from, uint64_t first,
                    struct ps_gradient_pair_run run, void *to)
{
    if (dtype == PS_F32)
        scatter_float(from, first, run, to);
    else
        scatter_double(from, first, run, to);
}

/* Only where the rule leaves an element with gradient 0 as it is (ps_encoding_touches_named_only).
 * The loops are told neighbours from the first index on, which these elements are not: in floating
 * types, the only ones that come in pairs, nothing depends on an element's place. */
void ps_sparse_apply(const struct ps_optimizer_step *step, uint64_t first, uint64_t count,
                     void *const arrays[PS_ARRAYS_MAX], size_t array_count,
                     struct ps_gradient_pairs *pairs)
{
    PS_ASSERT(ps_dtype_is_float(step->dtype));
    PS_ASSERT(array_count <= PS_ARRAYS_MAX);
    /* Batches end where the range does: the next block has other arrays. */
    for (;;) {
        struct ps_gradient_pair_run run = ps_gradient_pairs_next(pairs, first + count);
        if (run.count == 0)
            return;
        PS_ASSERT(run.indices[0] >= first);
        /* Not zeroed: every element that is read was gathered. */
        struct batch batch;
        for (size_t i = 0; i < array_count; i++)
            gather(step->dtype, arrays[i], first, run, batch.arrays[i]);
        ps_decode_run(PS_ENCODING_FLOAT32, step->dtype, run.values, run.count, batch.gradient);
        /* As many as the rule has; the loops do not look at the others. */
        void *const states[PS_STATES_MAX] = {batch.arrays[1], batch.arrays[2]};
        ps_optimizer_apply(step, run.indices[0], run.count, batch.arrays[0], states,
                           batch.gradient);
        for (size_t i = 0; i < array_count; i++)
            scatter(step->dtype, batch.arrays[i], first, run, arrays[i]);
    }
}
