/* SPDX-License-Identifier: Apache-2.0 */
/* Updates: one run, encoded gradients, tables, and start values. */
#include "kernel_suite.h"
#include "rule_cases.h"

#include "optimizer/encoded.h"

#include <stdlib.h>
#include <string.h>

/* Elements [first, first + count) on the CPU. */
static void apply_part(const struct ps_optimizer_step *step, struct kernel_twin *twin,
                       const void *gradient, uint64_t first, uint64_t count)
{
    size_t offset = first * ps_dtype_size(step->dtype);
    void *const states[PS_STATES_MAX] = {(char *)twin->host[1] + offset,
                                         (char *)twin->host[2] + offset};
    ps_optimizer_apply(step, first, count, (char *)twin->host[0] + offset, states,
                       (const char *)gradient + offset);
}

/* The CPU's side of a push of a whole gradient. */
static void apply_on_cpu(const struct ps_optimizer_step *step, struct kernel_twin *twin,
                         const struct kernel_gradient *gradient)
{
    if (gradient->named == NULL || !ps_encoding_touches_named_only(step->settings)) {
        apply_part(step, twin, gradient->elements, 0, twin->count);
        return;
    }
    for (uint64_t i = 0; i < twin->count; i++)
        if (gradient->named[i])
            apply_part(step, twin, gradient->elements, i, 1);
}

static void compare(struct kernel_suite *suite, const struct ps_optimizer_step *step,
                    enum ps_encoding encoding, uint64_t count, uint32_t grid)
{
    struct kernel_twin twin;
    struct kernel_gradient gradient;
    kernel_twin_open(suite, step->dtype, count, count + 11, &twin);
    kernel_gradient_open(suite, step->dtype, encoding, count, count + 7, &gradient);
    const struct ps_cuda_apply apply = {
        .step = step, .run = kernel_twin_run(&twin, &gradient.device), .grid = grid};

    int error = ps_cuda_launch_apply(&apply, NULL);
    apply_on_cpu(step, &twin, &gradient);

    kernel_expect(suite, error == 0 && kernel_twin_equal(suite, &twin),
                  "%s on %s, %s, %llu elements, %u blocks, error %d",
                  ps_rule_name(step->settings->rule), ps_dtype_name(step->dtype),
                  ps_encoding_name(encoding), (unsigned long long)count, grid, error);
    kernel_gradient_close(suite, &gradient);
    kernel_twin_close(suite, &twin);
}

static void compare_sizes(struct kernel_suite *suite, const struct ps_optimizer_step *step,
                          enum ps_encoding encoding)
{
    for (size_t i = 0; suite->counts[i] != UINT64_MAX; i++)
        for (size_t j = 0; suite->grids[j] != UINT32_MAX; j++)
            compare(suite, step, encoding, suite->counts[i], suite->grids[j]);
}

void kernels_apply_as_the_cpu_does(struct kernel_suite *suite)
{
    struct ps_optimizer_settings settings;
    struct ps_optimizer_step step;
    for (enum ps_dtype dtype = 0; dtype < PS_DTYPE_COUNT; dtype++) {
        for (size_t i = 0; rule_case(i, dtype, &settings); i++) {
            rule_case_step(&settings, dtype, &step);
            compare_sizes(suite, &step, PS_ENCODING_NATIVE);
        }
    }
}

void kernels_decode_as_the_cpu_does(struct kernel_suite *suite)
{
    struct ps_optimizer_settings settings;
    struct ps_optimizer_step step;
    for (enum ps_dtype dtype = PS_F32; dtype <= PS_F64; dtype++) {
        enum ps_rule last = PS_RULE_COUNT;
        for (size_t i = 0; rule_case(i, dtype, &settings); i++) {
            rule_case_step(&settings, dtype, &step);
            compare_sizes(suite, &step, PS_ENCODING_TOP_K);
            if (settings.rule == last)
                continue; /* Of the others one case of each rule will do. */
            last = settings.rule;
            for (enum ps_encoding j = PS_ENCODING_FLOAT32; j < PS_ENCODING_TOP_K; j++)
                compare_sizes(suite, &step, j);
        }
    }
}

/* Lists that are longer than a chunk (scattered.cu), with several chunks for each block and blocks
 * without one. */
void kernels_scatter_lists_as_the_cpu_does(struct kernel_suite *suite)
{
    static const uint64_t counts[] = {4095, 4096, 4097, 5 * 4096, 7 * 4096 + 3};
    static const uint32_t grids[] = {1, 3, 11};
    struct ps_optimizer_settings settings;
    struct ps_optimizer_step step;
    for (enum ps_dtype dtype = PS_F32; dtype <= PS_F64; dtype++) {
        for (size_t i = 0; rule_case(i, dtype, &settings); i++) {
            if (settings.rule != PS_RULE_MOMENTUM && settings.rule != PS_RULE_ADAM)
                continue;
            rule_case_step(&settings, dtype, &step);
            for (size_t j = 0; j < sizeof counts / sizeof counts[0]; j++)
                for (size_t k = 0; k < sizeof grids / sizeof grids[0]; k++)
                    compare(suite, &step, PS_ENCODING_TOP_K, counts[j], grids[k]);
        }
    }
}

/* A table of one rule and type: runs of all sizes, each with its own step and encoding. */
struct table {
    size_t count;
    struct kernel_twin *twins;
    struct kernel_gradient *gradients;
    struct ps_cuda_entry *entries;
    struct ps_cuda_chunk *chunks;
    uint64_t chunk_count;
};

static void table_open(struct kernel_suite *suite, const struct ps_optimizer_step *step,
                       struct table *table)
{
    static const uint64_t sizes[] = {1, 4, 0, 7, 4096, PS_CUDA_CHUNK, 31, PS_CUDA_CHUNK + 5, 250};
    table->count = sizeof sizes / sizeof sizes[0];
    table->twins = calloc(table->count, sizeof *table->twins);
    table->gradients = calloc(table->count, sizeof *table->gradients);
    table->entries = calloc(table->count, sizeof *table->entries);
    table->chunks = calloc(4 * table->count, sizeof *table->chunks);
    table->chunk_count = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        bool encodes = ps_dtype_is_float(step->dtype);
        enum ps_encoding encoding =
            encodes ? (enum ps_encoding)(i % PS_ENCODING_COUNT) : PS_ENCODING_NATIVE;
        struct ps_optimizer_step own = *step;
        own.f32.rate *= (float)(i + 1);
        own.f64.rate *= i + 1;
        own.whole.rate *= i + 1;
        kernel_twin_open(suite, step->dtype, sizes[i], i, &table->twins[i]);
        kernel_gradient_open(suite, step->dtype, encoding, sizes[i], 50 + i, &table->gradients[i]);
        const struct ps_cuda_run run =
            kernel_twin_run(&table->twins[i], &table->gradients[i].device);
        ps_cuda_entry_fill(&own, &run, NULL, &table->entries[i]);
        table->chunk_count += ps_cuda_chunks_fill(i, sizes[i], table->chunks + table->chunk_count);
        apply_on_cpu(&own, &table->twins[i], &table->gradients[i]);
    }
}

static void table_close(struct kernel_suite *suite, struct table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        kernel_gradient_close(suite, &table->gradients[i]);
        kernel_twin_close(suite, &table->twins[i]);
    }
    free(table->chunks);
    free(table->entries);
    free(table->gradients);
    free(table->twins);
}

static void compare_table(struct kernel_suite *suite, const struct ps_optimizer_step *step,
                          uint32_t grid)
{
    struct table table;
    table_open(suite, step, &table);
    void *entries = kernel_put(suite, table.entries, table.count * sizeof *table.entries, 0);
    void *chunks = kernel_put(suite, table.chunks, table.chunk_count * sizeof *table.chunks, 0);
    const struct ps_cuda_table launch = {.rule = step->settings->rule,
                                         .dtype = step->dtype,
                                         .overflow = step->settings->overflow,
                                         .entries = entries,
                                         .chunks = chunks,
                                         .chunk_count = table.chunk_count,
                                         .grid = grid};

    kernel_expect(suite, ps_cuda_launch_table(&launch, NULL) == 0, "the launch fails");

    for (size_t i = 0; i < table.count; i++)
        kernel_expect(suite, kernel_twin_equal(suite, &table.twins[i]),
                      "entry %zu of a table, %s on %s, %u blocks", i,
                      ps_rule_name(step->settings->rule), ps_dtype_name(step->dtype), grid);
    suite->machine->release(chunks);
    suite->machine->release(entries);
    table_close(suite, &table);
}

void kernels_apply_a_table_as_the_cpu_does(struct kernel_suite *suite)
{
    struct ps_optimizer_settings settings;
    struct ps_optimizer_step step;
    for (enum ps_dtype dtype = 0; dtype < PS_DTYPE_COUNT; dtype++) {
        enum ps_rule last = PS_RULE_COUNT;
        for (size_t i = 0; rule_case(i, dtype, &settings); i++) {
            if (suite->quick && settings.rule == last && i % 4 != 0)
                continue; /* Barriers take long to emulate. */
            last = settings.rule;
            rule_case_step(&settings, dtype, &step);
            for (size_t j = 0; suite->grids[j] != UINT32_MAX; j++)
                compare_table(suite, &step, suite->grids[j]);
        }
    }
}

void kernels_fill_as_the_cpu_does(struct kernel_suite *suite)
{
    for (enum ps_dtype dtype = 0; dtype < PS_DTYPE_COUNT; dtype++) {
        const double value = ps_dtype_is_float(dtype) ? 0.1 : 0;
        for (size_t i = 0; suite->counts[i] != UINT64_MAX; i++) {
            struct kernel_twin twin;
            kernel_twin_open(suite, dtype, suite->counts[i], 1, &twin);
            const struct ps_cuda_fill fill = {
                .dtype = dtype, .value = value, .array = twin.device[1], .count = twin.count};

            kernel_expect(suite, ps_cuda_launch_fill(&fill, NULL) == 0, "the launch fails");
            ps_optimizer_fill(dtype, value, twin.host[1], twin.count);

            kernel_expect(suite, kernel_twin_equal(suite, &twin), "%llu elements of %s",
                          (unsigned long long)twin.count, ps_dtype_name(dtype));
            kernel_twin_close(suite, &twin);
        }
    }
}
