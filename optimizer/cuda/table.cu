/* The update of many small runs in one launch. A block takes a chunk, looks up which run it is of,
 * and does it alone. */
#include "optimizer/cuda/rules.cuh"

#define STEP_IN_ENTRY_i32 whole
#define STEP_IN_ENTRY_u32 whole
#define STEP_IN_ENTRY_i64 whole
#define STEP_IN_ENTRY_u64 whole
#define STEP_IN_ENTRY_f32 f32
#define STEP_IN_ENTRY_f64 f64

#define TABLE_KERNEL(TAG, rule, states_, suffix, T)                                           \
    PS_KERNEL table_##rule##_##suffix(const struct ps_cuda_entry *entries,                    \
                                      const struct ps_cuda_chunk *chunks, uint64_t count)     \
    {                                                                                         \
        for (uint64_t i = blockIdx.x; i < count; i += gridDim.x) {                            \
            const struct ps_cuda_chunk chunk = chunks[i];                                     \
            const struct ps_cuda_entry *entry = &entries[chunk.entry];                        \
            const struct ps_cuda_run run = entry->run;                                        \
            struct STEP_##suffix step = entry->step.STEP_IN_ENTRY_##suffix;                   \
            if (admit(entry->verdict, &step))                                                 \
                span_##rule##_##suffix(&step, &run,                                           \
                                       span_of_chunk(run.count, PACK(T), chunk.chunk), true); \
        }                                                                                     \
    }
PS_FLOAT_RULES(TABLE_KERNEL, f32, float)
PS_FLOAT_RULES(TABLE_KERNEL, f64, double)
PS_WHOLE_RULES(TABLE_KERNEL, i32, int32_t)
PS_WHOLE_RULES(TABLE_KERNEL, u32, uint32_t)
PS_WHOLE_RULES(TABLE_KERNEL, i64, int64_t)
PS_WHOLE_RULES(TABLE_KERNEL, u64, uint64_t)
#undef TABLE_KERNEL

#define LAUNCH_TABLE(TAG, rule, states_, suffix, T)                                            \
    case TAG:                                                                                  \
        return PS_LAUNCH(table_##rule##_##suffix, grid, stream, table->entries, table->chunks, \
                         table->chunk_count);

#define TABLE(RULES, suffix, T)                                                           \
    static int table_##suffix(const struct ps_cuda_table *table, int rule, unsigned grid, \
                              void *stream)                                               \
    {                                                                                     \
        switch (rule) {                                                                   \
            RULES(LAUNCH_TABLE, suffix, T)                                                \
        }                                                                                 \
        PS_NO_SUCH("a rule that the type does not have");                                 \
    }
TABLE(PS_FLOAT_RULES, f32, float)
TABLE(PS_FLOAT_RULES, f64, double)
TABLE(PS_WHOLE_RULES, i32, int32_t)
TABLE(PS_WHOLE_RULES, u32, uint32_t)
TABLE(PS_WHOLE_RULES, i64, int64_t)
TABLE(PS_WHOLE_RULES, u64, uint64_t)
#undef TABLE
#undef LAUNCH_TABLE

static bool is_float(enum ps_dtype dtype)
{
    return dtype == PS_F32 || dtype == PS_F64;
}

int ps_cuda_launch_table(const struct ps_cuda_table *table, void *stream)
{
    bool wraps = table->rule == PS_RULE_ADD && table->overflow == PS_OVERFLOW_WRAP;
    int rule = wraps && !is_float(table->dtype) ? (int)ADD_WRAPPING : (int)table->rule;
    if (table->chunk_count == 0)
        return 0;
    unsigned grid = ps_cuda_blocks(table->chunk_count, table->grid);
    switch (table->dtype) {
#define BY_TYPE(TAG, suffix, T, SUM, label) \
    case TAG:                               \
        return table_##suffix(table, rule, grid, stream);
        PS_DTYPE_TABLE(BY_TYPE)
#undef BY_TYPE
    case PS_DTYPE_COUNT:
        break;
    }
    PS_NO_SUCH("unknown element type");
}
