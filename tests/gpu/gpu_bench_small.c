/* SPDX-License-Identifier: Apache-2.0 */
/* Many small parameters in one launch: on the device alone, and with all that the host does for a
 * step: entries, their copy to the device, the launch, the wait. */
#include "gpu_bench.h"

#include "base/clock.h"

#include <stdio.h>

#define TENSOR_BYTES (16u << 10)

struct stepping {
    struct ps_optimizer_settings settings;
    uint64_t step;
    uint64_t count; /* elements of a tensor */
    uint32_t tensors;
    size_t entry_bytes; /* of the table; its chunks follow */
    uint8_t *table;     /* on the device */
};

/* Entries and chunks, with the step's own numbers, as a push makes them. */
static uint64_t fill_table(const struct gpu_bench *bench, struct stepping *stepping)
{
    const struct ps_gradient_scan nothing = {0};
    struct ps_optimizer_step step;
    struct ps_cuda_entry *entries = (void *)bench->pinned;
    struct ps_cuda_chunk *chunks = (void *)(bench->pinned + stepping->entry_bytes);
    uint64_t chunk_count = 0;
    stepping->step++;
    for (uint32_t i = 0; i < stepping->tensors; i++) {
        if (ps_optimizer_prepare(&stepping->settings, PS_F32, stepping->step, i, &nothing, &step,
                                 NULL) != PS_OK)
            gpu_bench_fail("a step cannot be prepared");
        uint64_t offset = (uint64_t)i * TENSOR_BYTES;
        const struct ps_cuda_run run = {
            .count = stepping->count,
            .values = bench->arrays[0] + offset,
            .states = {bench->arrays[1] + offset, bench->arrays[2] + offset},
            .gradient = {.elements = bench->arrays[GPU_BENCH_GRADIENT] + offset}};
        ps_cuda_entry_fill(&step, &run, NULL, &entries[i]);
        chunk_count += ps_cuda_chunks_fill(i, run.count, &chunks[chunk_count]);
    }
    return chunk_count;
}

static void copy_table(const struct gpu_bench *bench, const struct stepping *stepping,
                       uint64_t chunk_count)
{
    const struct ps_driver *driver = &bench->driver;
    size_t bytes = stepping->entry_bytes + chunk_count * sizeof(struct ps_cuda_chunk);
    gpu_bench_must(driver->copy(driver->self, stepping->table, bench->pinned, bytes,
                                PS_DRIVER_TO_DEVICE, bench->stream),
                   "copying a table");
}

static void launch_table(const struct gpu_bench *bench, const struct stepping *stepping,
                         uint64_t chunk_count)
{
    const struct ps_driver *driver = &bench->driver;
    const struct ps_cuda_table table = {.rule = stepping->settings.rule,
                                        .dtype = PS_F32,
                                        .entries = (const void *)stepping->table,
                                        .chunks =
                                            (const void *)(stepping->table + stepping->entry_bytes),
                                        .chunk_count = chunk_count};
    gpu_bench_must(driver->table(driver->self, &table, bench->stream), "launching a table");
}

/* The clock of the device around the launch; the host's around the whole step. */
static void measure_steps(struct gpu_bench *bench, struct stepping *stepping, double *device,
                          double *wall)
{
    uint64_t chunk_count = fill_table(bench, stepping);
    copy_table(bench, stepping, chunk_count);
    for (uint32_t i = 0; i < bench->warm_ups; i++)
        launch_table(bench, stepping, chunk_count);
    gpu_bench_finish(bench);
    for (uint32_t i = 0; i < bench->samples; i++) {
        gpu_clock_start(bench->clock);
        launch_table(bench, stepping, chunk_count);
        device[i] = gpu_clock_stop(bench->clock);
    }
    for (uint32_t i = 0; i < bench->samples; i++) {
        uint64_t begin = ps_clock_precise_ns();
        chunk_count = fill_table(bench, stepping);
        copy_table(bench, stepping, chunk_count);
        launch_table(bench, stepping, chunk_count);
        gpu_bench_finish(bench);
        wall[i] = (double)(ps_clock_precise_ns() - begin) / 1e9;
    }
}

/* The last array's end is not used by any tensor: the table lies there. */
void gpu_bench_small(struct gpu_bench *bench)
{
    double device[GPU_BENCH_SAMPLES_MAX];
    double wall[GPU_BENCH_SAMPLES_MAX];
    uint64_t fit = bench->size_max / 2 / TENSOR_BYTES;
    struct stepping stepping = {.settings = {.rule = PS_RULE_ADAMW,
                                             .learning_rate = {.rate = 0.001},
                                             .decay = 0.01,
                                             .beta_1 = 0.9,
                                             .beta_2 = 0.999,
                                             .epsilon = 1e-8},
                                .count = TENSOR_BYTES / sizeof(float),
                                .tensors =
                                    (uint32_t)(fit < GPU_BENCH_TENSORS ? fit : GPU_BENCH_TENSORS)};
    stepping.entry_bytes = stepping.tensors * sizeof(struct ps_cuda_entry);
    stepping.table = bench->arrays[GPU_BENCH_GRADIENT] + bench->size_max / 2;
    gpu_bench_fill(bench, PS_F32);
    measure_steps(bench, &stepping, device, wall);
    const double *const both[] = {device, wall};
    static const char *const names[] = {"device", "wall"};
    for (size_t i = 0; i < 2; i++) {
        printf("{\"row\":\"small\",\"clock\":\"%s\",\"tensors\":%u,\"size\":%u,\"launches\":1,",
               names[i], stepping.tensors, TENSOR_BYTES);
        gpu_bench_print_seconds(both[i], bench->samples);
    }
}
