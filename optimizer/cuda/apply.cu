/* SPDX-License-Identifier: Apache-2.0 */
/* The update of one contiguous run: a kernel per rule and type for gradients of the native type,
 * and one for all other encodings. */
#include "optimizer/cuda/rules.cuh"
#include "optimizer/encoded.h"

#define RUN_KERNEL(TAG, rule, states_, suffix, T)                                                \
    PS_WIDE_KERNEL run_##rule##_##suffix(                                                        \
        const struct ps_cuda_run run, const struct ps_cuda_verdict *verdict, STEP_##suffix step) \
    {                                                                                            \
        if (admit(verdict, &step))                                                               \
            span_##rule##_##suffix(&step, &run, span_of_run(run.count, PACK(T)),                 \
                                   AT_ONCE(TAG, states_, T));                                    \
    }
#define ENCODED_KERNEL(TAG, rule, states_, suffix, T)                                            \
    PS_WIDE_KERNEL decoded_##rule##_##suffix(                                                    \
        const struct ps_cuda_run run, const struct ps_cuda_verdict *verdict, STEP_##suffix step) \
    {                                                                                            \
        if (admit(verdict, &step))                                                               \
            encoded_span_##rule##_##suffix(&step, &run, span_of_run(run.count, PACK(T)),         \
                                           AT_ONCE_ENCODED(states_, T));                         \
    }
#define FLOAT_KERNELS(suffix, T, f)       \
    PS_FLOAT_RULES(RUN_KERNEL, suffix, T) \
    PS_FLOAT_RULES(ENCODED_KERNEL, suffix, T)
#define SIGNED_KERNELS(suffix, T, U, least, greatest) PS_WHOLE_RULES(RUN_KERNEL, suffix, T)
#define UNSIGNED_KERNELS(suffix, T, twin, TWIN, greatest) PS_WHOLE_RULES(RUN_KERNEL, suffix, T)
PS_FLOAT_TABLE(FLOAT_KERNELS)
PS_SIGNED_TABLE(SIGNED_KERNELS)
PS_UNSIGNED_TABLE(UNSIGNED_KERNELS)
#undef FLOAT_KERNELS
#undef SIGNED_KERNELS
#undef UNSIGNED_KERNELS
#undef RUN_KERNEL
#undef ENCODED_KERNEL

/* Blocks in which every thread has something to do. */
#define BLOCKS_FOR(elements, each) ((elements) / (each) / PS_THREADS + 1)

#define LAUNCH_RUN(TAG, rule, states_, suffix, T)                                               \
    case TAG:                                                                                   \
        return PS_LAUNCH_MANY(run_##rule##_##suffix,                                            \
                              BLOCKS_FOR(apply->run.count, PACK(T) * AT_ONCE(TAG, states_, T)), \
                              apply->grid, stream, apply->run, apply->verdict, step);
#define LAUNCH_ENCODED(TAG, rule, states_, suffix, T)                                       \
    case TAG:                                                                               \
        return PS_LAUNCH_MANY(decoded_##rule##_##suffix,                                    \
                              BLOCKS_FOR(run.count, PACK(T) * AT_ONCE_ENCODED(states_, T)), \
                              apply->grid, stream, run, apply->verdict, step);

/* A list of elements where the rule changes the others, too. */
static bool goes_by_chunks(const struct ps_cuda_apply *apply)
{
    return apply->run.gradient.encoding == PS_ENCODING_TOP_K &&
           !ps_encoding_touches_named_only(apply->step->settings);
}

#define FLOAT_APPLY(suffix, T, f)                                                        \
    static int encoded_##suffix(const struct ps_cuda_apply *apply, void *stream)         \
    {                                                                                    \
        const struct ps_step_##suffix step = apply->step->suffix;                        \
        struct ps_cuda_run run = apply->run;                                             \
        run.gradient.named_only = ps_encoding_touches_named_only(apply->step->settings); \
        switch ((int)apply->step->settings->rule) {                                      \
            PS_FLOAT_RULES(LAUNCH_ENCODED, suffix, T)                                    \
        }                                                                                \
        PS_NO_SUCH("unknown rule");                                                      \
    }                                                                                    \
    static int apply_##suffix(const struct ps_cuda_apply *apply, void *stream)           \
    {                                                                                    \
        const struct ps_step_##suffix step = apply->step->suffix;                        \
        if (goes_by_chunks(apply))                                                       \
            return ps_cuda_launch_scattered(apply, stream);                              \
        if (apply->run.gradient.encoding != PS_ENCODING_NATIVE)                          \
            return encoded_##suffix(apply, stream);                                      \
        switch ((int)apply->step->settings->rule) {                                      \
            PS_FLOAT_RULES(LAUNCH_RUN, suffix, T)                                        \
        }                                                                                \
        PS_NO_SUCH("unknown rule");                                                      \
    }
PS_FLOAT_TABLE(FLOAT_APPLY)
#undef FLOAT_APPLY

static int rule_of(const struct ps_optimizer_settings *settings)
{
    bool wraps = settings->rule == PS_RULE_ADD && settings->overflow == PS_OVERFLOW_WRAP;
    return wraps ? (int)ADD_WRAPPING : (int)settings->rule;
}

#define WHOLE_APPLY(suffix, T)                                                 \
    static int apply_##suffix(const struct ps_cuda_apply *apply, void *stream) \
    {                                                                          \
        const struct ps_step_whole step = apply->step->whole;                  \
        PS_ASSERT(apply->run.gradient.encoding == PS_ENCODING_NATIVE);         \
        switch (rule_of(apply->step->settings)) {                              \
            PS_WHOLE_RULES(LAUNCH_RUN, suffix, T)                              \
        }                                                                      \
        PS_NO_SUCH("a rule that whole numbers do not have");                   \
    }
#define SIGNED_APPLY(suffix, T, U, least, greatest) WHOLE_APPLY(suffix, T)
#define UNSIGNED_APPLY(suffix, T, twin, TWIN, greatest) WHOLE_APPLY(suffix, T)
PS_SIGNED_TABLE(SIGNED_APPLY)
PS_UNSIGNED_TABLE(UNSIGNED_APPLY)
#undef SIGNED_APPLY
#undef UNSIGNED_APPLY
#undef WHOLE_APPLY
#undef LAUNCH_RUN
#undef LAUNCH_ENCODED

int ps_cuda_launch_apply(const struct ps_cuda_apply *apply, void *stream)
{
    const struct ps_cuda_run *run = &apply->run;
    PS_ASSERT(!apply->step->skip);
    if (run->count == 0)
        return 0;
    PS_ASSERT(aligned(run->values) && aligned(run->states[0]) && aligned(run->states[1]));
    PS_ASSERT(aligned(run->gradient.elements));
    PS_ASSERT(run->gradient.encoding != PS_ENCODING_INT8 || run->first % PS_ENCODING_GROUP == 0);
    PS_ASSERT(run->first % 4 == 0);
    switch (apply->step->dtype) {
#define APPLY(TAG, suffix, T, SUM, label) \
    case TAG:                             \
        return apply_##suffix(apply, stream);
        PS_DTYPE_TABLE(APPLY)
#undef APPLY
    case PS_DTYPE_COUNT:
        break;
    }
    PS_NO_SUCH("unknown element type");
}
