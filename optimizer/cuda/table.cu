/* SPDX-License-Identifier: Apache-2.0 */
/* The update of many small runs in one launch. A block takes a chunk, looks up which run it is of,
 * and does it alone. */
#include "optimizer/cuda/rules.cuh"

/* One loop for all encodings would do; a float32 parameter has registers for two, the second with
 * one pack at a time. */
#define FLOAT_CHUNK(rule, states_, suffix, T)                                                  \
    const struct ps_span span = span_of_chunk(run.count, PACK(T), chunk.chunk, PS_CUDA_CHUNK); \
    if (sizeof(T) == 4 && run.gradient.encoding == PS_ENCODING_NATIVE)                         \
        span_##rule##_##suffix(&step, &run, span, AT_ONCE_IN_TABLE(states_, T));               \
    else                                                                                       \
        encoded_span_##rule##_##suffix(&step, &run, span, 1);
#define WHOLE_CHUNK(rule, states_, suffix, T)                                             \
    span_##rule##_##suffix(&step, &run,                                                   \
                           span_of_chunk(run.count, PACK(T), chunk.chunk, PS_CUDA_CHUNK), \
                           AT_ONCE_IN_TABLE(states_, T));

/* The block's entry, in memory that its threads share: the step's numbers would fill each thread's
 * registers. Everybody comes here. */
PS_DEVICE void fetch_entry(const struct ps_cuda_entry *from, struct ps_cuda_entry *to)
{
    if (PS_MUTATED(PS_KERNELS_ENTRY_LATE, false, true))
        __syncthreads(); /* Nobody needs the one before any more. */
    for (unsigned i = threadIdx.x; i < sizeof *to / sizeof(uint64_t); i += blockDim.x)
        ((uint64_t *)to)[i] = ((const uint64_t *)from)[i];
    if (PS_MUTATED(PS_KERNELS_ENTRY_EARLY, false, true))
        __syncthreads();
}

#define TABLE_KERNEL(KERNEL, CHUNK, rule, states_, suffix, T)                          \
    KERNEL table_##rule##_##suffix(const struct ps_cuda_entry *entries,                \
                                   const struct ps_cuda_chunk *chunks, uint64_t count) \
    {                                                                                  \
        PS_SHARED struct ps_cuda_entry entry;                                          \
        for (uint64_t i = blockIdx.x; i < count; i += gridDim.x) {                     \
            const struct ps_cuda_chunk chunk = chunks[i];                              \
            fetch_entry(&entries[chunk.entry], &entry);                                \
            const struct ps_cuda_run run = entry.run;                                  \
            STEP_##suffix step = step_of_##suffix(&entry);                             \
            if (admit(entry.verdict, &step)) {                                         \
                CHUNK(rule, states_, suffix, T)                                        \
            }                                                                          \
        }                                                                              \
    }
/* ptxas finds room for all of a double's numbers only where nobody tells it how much there is, or,
 * for compute capability 10, that there is much. */
#define KERNEL_f32 PS_WIDE_KERNEL
#if PS_BLOCKS == 4
#define KERNEL_f64 PS_KERNEL
#else
#define KERNEL_f64 static __global__ void __launch_bounds__(PS_THREADS, 2)
#endif
#define FLOAT_TABLE_KERNEL(TAG, rule, states_, suffix, T) \
    TABLE_KERNEL(KERNEL_##suffix, FLOAT_CHUNK, rule, states_, suffix, T)
#define WHOLE_TABLE_KERNEL(TAG, rule, states_, suffix, T) \
    TABLE_KERNEL(PS_WIDE_KERNEL, WHOLE_CHUNK, rule, states_, suffix, T)
#define FLOAT_TABLE_KERNELS(suffix, T, f) PS_FLOAT_RULES(FLOAT_TABLE_KERNEL, suffix, T)
#define SIGNED_TABLE_KERNELS(suffix, T, U, least, greatest) \
    PS_WHOLE_RULES(WHOLE_TABLE_KERNEL, suffix, T)
#define UNSIGNED_TABLE_KERNELS(suffix, T, twin, TWIN, greatest) \
    PS_WHOLE_RULES(WHOLE_TABLE_KERNEL, suffix, T)
PS_FLOAT_TABLE(FLOAT_TABLE_KERNELS)
PS_SIGNED_TABLE(SIGNED_TABLE_KERNELS)
PS_UNSIGNED_TABLE(UNSIGNED_TABLE_KERNELS)
#undef FLOAT_TABLE_KERNELS
#undef SIGNED_TABLE_KERNELS
#undef UNSIGNED_TABLE_KERNELS
#undef FLOAT_TABLE_KERNEL
#undef WHOLE_TABLE_KERNEL
#undef TABLE_KERNEL
#undef FLOAT_CHUNK
#undef WHOLE_CHUNK

#define LAUNCH_TABLE(TAG, rule, states_, suffix, T)                                             \
    case TAG:                                                                                   \
        return PS_LAUNCH_MANY(table_##rule##_##suffix, table->chunk_count, table->grid, stream, \
                              table->entries, table->chunks, table->chunk_count);

#define TABLE(RULES, suffix, T)                                                          \
    static int table_##suffix(const struct ps_cuda_table *table, int rule, void *stream) \
    {                                                                                    \
        switch (rule) {                                                                  \
            RULES(LAUNCH_TABLE, suffix, T)                                               \
        }                                                                                \
        PS_NO_SUCH("a rule that the type does not have");                                \
    }
#define FLOAT_CHOICE(suffix, T, f) TABLE(PS_FLOAT_RULES, suffix, T)
#define SIGNED_CHOICE(suffix, T, U, least, greatest) TABLE(PS_WHOLE_RULES, suffix, T)
#define UNSIGNED_CHOICE(suffix, T, twin, TWIN, greatest) TABLE(PS_WHOLE_RULES, suffix, T)
PS_FLOAT_TABLE(FLOAT_CHOICE)
PS_SIGNED_TABLE(SIGNED_CHOICE)
PS_UNSIGNED_TABLE(UNSIGNED_CHOICE)
#undef FLOAT_CHOICE
#undef SIGNED_CHOICE
#undef UNSIGNED_CHOICE
#undef TABLE
#undef LAUNCH_TABLE

/* As ps_dtype_is_float, which is C and not to be called from here. */
static bool is_float(enum ps_dtype dtype)
{
#define IS_FLOAT(suffix, T, f) dtype == PS_DTYPE_##suffix ||
    return PS_FLOAT_TABLE(IS_FLOAT) false;
#undef IS_FLOAT
}

int ps_cuda_launch_table(const struct ps_cuda_table *table, void *stream)
{
    bool wraps = table->rule == PS_RULE_ADD && table->overflow == PS_OVERFLOW_WRAP;
    int rule = wraps && !is_float(table->dtype) ? (int)ADD_WRAPPING : (int)table->rule;
    if (table->chunk_count == 0)
        return 0;
    switch (table->dtype) {
#define BY_TYPE(TAG, suffix, T, SUM, label) \
    case TAG:                               \
        return table_##suffix(table, rule, stream);
        PS_DTYPE_TABLE(BY_TYPE)
#undef BY_TYPE
    case PS_DTYPE_COUNT:
        break;
    }
    PS_NO_SUCH("unknown element type");
}
