/* SPDX-License-Identifier: Apache-2.0 */
/* Large parameters: copies first, which are the limit, then every rule and type, then the scan. */
#include "gpu_bench.h"

#include <stdio.h>

/* Sizes are this part of the largest: 64 MiB, 256 MiB and 1 GiB. */
static const uint32_t parts[] = {16, 4, 1};
#define PARTS (sizeof parts / sizeof parts[0])

struct copying {
    enum ps_driver_copy kind;
    uint64_t size;
};

/* Small pieces go through the whole array in turn, so that nothing is found in a cache. */
static void run_copy(struct gpu_bench *bench, void *self, uint64_t call)
{
    const struct copying *copying = self;
    const struct ps_driver *driver = &bench->driver;
    uint64_t offset = call % (bench->size_max / copying->size) * copying->size;
    void *from = bench->arrays[0] + offset;
    void *to = bench->arrays[GPU_BENCH_GRADIENT] + offset;
    if (copying->kind == PS_DRIVER_TO_DEVICE)
        from = bench->pinned;
    if (copying->kind == PS_DRIVER_TO_HOST)
        to = bench->pinned;
    gpu_bench_must(
        driver->copy(driver->self, to, from, copying->size, copying->kind, bench->stream),
        "copying");
}

static void measure_copy(struct gpu_bench *bench, const char *what, enum ps_driver_copy kind,
                         uint64_t size)
{
    double seconds[GPU_BENCH_SAMPLES_MAX];
    struct copying copying = {.kind = kind, .size = size};
    uint32_t calls = (uint32_t)(bench->size_max / size);
    gpu_bench_sample(bench, run_copy, &copying, calls, seconds);
    printf("{\"row\":\"copy\",\"what\":\"%s\",\"size\":%llu,", what, (unsigned long long)size);
    gpu_bench_print_seconds(seconds, bench->samples);
}

void gpu_bench_copies(struct gpu_bench *bench)
{
    gpu_bench_fill(bench, PS_F32);
    for (size_t i = 0; i < PARTS; i++)
        measure_copy(bench, "on_device", PS_DRIVER_ON_DEVICE, bench->size_max / parts[i]);
    measure_copy(bench, "to_device", PS_DRIVER_TO_DEVICE, bench->pinned_bytes);
    measure_copy(bench, "to_host", PS_DRIVER_TO_HOST, bench->pinned_bytes);
}

struct updating {
    struct ps_optimizer_settings settings;
    struct ps_optimizer_step step;
    enum ps_encoding encoding;
    uint64_t count;
    uint64_t size;       /* of the parameter, rounded down to what divides the largest */
    const float *scales; /* INT8: of the gradient's bytes */
    uint64_t kept;       /* TOP_K: entries of the list, whose indices lie behind its values */
    uint32_t grid;       /* 0: as the kernel chooses */
};

static struct ps_optimizer_settings settings_of(enum ps_rule rule)
{
    struct ps_optimizer_settings settings = {.rule = rule,
                                             .learning_rate = {.rate = 0.001},
                                             .rho = 0.95,
                                             .beta_1 = 0.9,
                                             .beta_2 = 0.999,
                                             .epsilon = 1e-8,
                                             .nonfinite = PS_NONFINITE_ALLOW};
    if (ps_rule_uses(rule, PS_USES_MOMENTUM))
        settings.momentum = 0.9;
    if (rule == PS_RULE_ADAMW)
        settings.decay = 0.01;
    if (rule == PS_RULE_FTRL) {
        settings.l1 = 0.001;
        settings.ftrl_beta = 1;
        settings.epsilon = 0;
    }
    return settings;
}

/* Half of the gradient's array is room for the values of any list. */
static uint32_t *indices_of(const struct gpu_bench *bench)
{
    return (uint32_t *)(void *)(bench->arrays[GPU_BENCH_GRADIENT] + bench->size_max / 2);
}

static void run_update(struct gpu_bench *bench, void *self, uint64_t call)
{
    const struct updating *updating = self;
    const struct ps_driver *driver = &bench->driver;
    uint64_t offset = call % (bench->size_max / updating->size) * updating->size;
    const struct ps_cuda_apply apply = {
        .step = &updating->step,
        .run = {.count = updating->count,
                .values = bench->arrays[0] + offset,
                .states = {bench->arrays[1] + offset, bench->arrays[2] + offset},
                .gradient = {.encoding = updating->encoding,
                             .elements = bench->arrays[GPU_BENCH_GRADIENT] + offset,
                             .scales = updating->scales,
                             .indices = indices_of(bench),
                             .kept = updating->kept}},
        .grid = updating->grid};
    gpu_bench_must(driver->apply(driver->self, &apply, bench->stream), "launching an update");
}

/* False when the type does not have the rule. Otherwise everything is filled. */
static bool open_update(struct gpu_bench *bench, enum ps_rule rule, enum ps_dtype dtype,
                        enum ps_encoding encoding, struct updating *updating)
{
    const struct ps_gradient_scan nothing = {0};
    enum ps_rounding rounding = updating->settings.rounding;
    updating->settings = settings_of(rule);
    updating->settings.rounding = rounding;
    updating->encoding = encoding;
    updating->scales =
        (const float *)(const void *)(bench->arrays[GPU_BENCH_GRADIENT] + bench->size_max / 2);
    if (ps_optimizer_settings_check(&updating->settings, dtype, NULL) != PS_OK)
        return false;
    if (ps_optimizer_prepare(&updating->settings, dtype, 10, 0, &nothing, &updating->step, NULL) !=
        PS_OK)
        gpu_bench_fail("a step cannot be prepared");
    gpu_bench_fill(bench, dtype);
    if (encoding != PS_ENCODING_NATIVE)
        gpu_bench_fill_encoded(bench, encoding);
    return true;
}

static void print_rule(const struct gpu_bench *bench, const struct updating *updating,
                       enum ps_dtype dtype, const double *seconds)
{
    enum ps_rule rule = updating->settings.rule;
    printf("{\"row\":\"rule\",\"rule\":\"%s\",\"type\":\"%s\",\"encoding\":\"%s\","
           "\"states\":%u,\"elements\":%llu,\"element_bytes\":%zu,",
           ps_rule_name(rule), ps_dtype_name(dtype), ps_encoding_name(updating->encoding),
           ps_rule_states(rule), (unsigned long long)updating->count, ps_dtype_size(dtype));
    if (updating->settings.rounding == PS_ROUNDING_STOCHASTIC)
        printf("\"rounding\":\"stochastic\",");
    if (updating->encoding == PS_ENCODING_TOP_K)
        printf("\"kept\":%llu,", (unsigned long long)updating->kept);
    gpu_bench_print_seconds(seconds, bench->samples);
}

/* `more` elements than fill the size. */
static void measure_rule(struct gpu_bench *bench, enum ps_rule rule, enum ps_dtype dtype,
                         enum ps_encoding encoding, uint64_t size, uint64_t more)
{
    double seconds[GPU_BENCH_SAMPLES_MAX];
    struct updating updating = {.size = size, .count = size / ps_dtype_size(dtype) + more};
    if (!open_update(bench, rule, dtype, encoding, &updating))
        return;
    uint32_t calls = (uint32_t)(bench->size_max / size);
    gpu_bench_sample(bench, run_update, &updating, calls, seconds);
    print_rule(bench, &updating, dtype, seconds);
}

/* Whole numbers with a draw for each element. */
static void measure_chance(struct gpu_bench *bench, enum ps_dtype dtype)
{
    double seconds[GPU_BENCH_SAMPLES_MAX];
    struct updating updating = {.settings = {.rounding = PS_ROUNDING_STOCHASTIC},
                                .size = bench->size_max,
                                .count = bench->size_max / ps_dtype_size(dtype)};
    if (!open_update(bench, PS_RULE_SGD, dtype, PS_ENCODING_NATIVE, &updating))
        gpu_bench_fail("a type cannot be rounded by chance");
    gpu_bench_sample(bench, run_update, &updating, 1, seconds);
    print_rule(bench, &updating, dtype, seconds);
}

/* One element in `each` is named. */
static void measure_list(struct gpu_bench *bench, enum ps_rule rule, uint64_t each)
{
    double seconds[GPU_BENCH_SAMPLES_MAX];
    struct updating updating = {.size = bench->size_max, .count = bench->size_max / sizeof(float)};
    const struct ps_driver *driver = &bench->driver;
    if (!open_update(bench, rule, PS_F32, PS_ENCODING_NATIVE, &updating))
        gpu_bench_fail("float32 does not have a rule");
    updating.encoding = PS_ENCODING_TOP_K;
    updating.kept = updating.count / each;
    for (uint64_t done = 0; done < updating.kept;) {
        uint64_t room = bench->pinned_bytes / sizeof(uint32_t);
        uint64_t part = updating.kept - done < room ? updating.kept - done : room;
        for (uint64_t i = 0; i < part; i++)
            ((uint32_t *)(void *)bench->pinned)[i] =
                (uint32_t)((done + i) * each + (done + i) % each);
        gpu_bench_must(driver->copy(driver->self, indices_of(bench) + done, bench->pinned,
                                    part * sizeof(uint32_t), PS_DRIVER_TO_DEVICE, bench->stream),
                       "copying a list");
        gpu_bench_finish(bench);
        done += part;
    }
    gpu_bench_sample(bench, run_update, &updating, 1, seconds);
    print_rule(bench, &updating, PS_F32, seconds);
}

/* AdamW at the largest size comes once more at the end: what lies between the two is noise. */
void gpu_bench_rules(struct gpu_bench *bench)
{
    for (enum ps_dtype dtype = 0; dtype < PS_DTYPE_COUNT; dtype++)
        for (enum ps_rule rule = 0; rule < PS_RULE_COUNT; rule++)
            for (size_t i = 0; i < PARTS; i++)
                measure_rule(bench, rule, dtype, PS_ENCODING_NATIVE, bench->size_max / parts[i], 0);
    for (enum ps_encoding encoding = PS_ENCODING_BFLOAT16; encoding <= PS_ENCODING_INT8; encoding++)
        measure_rule(bench, PS_RULE_ADAMW, PS_F32, encoding, bench->size_max, 0);
    for (enum ps_dtype dtype = 0; dtype < PS_DTYPE_COUNT; dtype++)
        if (!ps_dtype_is_float(dtype))
            measure_chance(bench, dtype);
    measure_list(bench, PS_RULE_ADAMW, 100);
    measure_list(bench, PS_RULE_ADAMW, 10);
    measure_list(bench, PS_RULE_SGD, 100);
    measure_rule(bench, PS_RULE_ADAMW, PS_F32, PS_ENCODING_NATIVE, bench->size_max, 1);
    measure_rule(bench, PS_RULE_ADAMW, PS_F32, PS_ENCODING_NATIVE, bench->size_max, 0);
}

static void measure_grids(struct gpu_bench *bench, enum ps_rule rule, enum ps_dtype dtype,
                          enum ps_encoding encoding)
{
    static const uint32_t each[] = {0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64};
    double seconds[GPU_BENCH_SAMPLES_MAX];
    struct updating updating = {.size = bench->size_max,
                                .count = bench->size_max / ps_dtype_size(dtype)};
    if (!open_update(bench, rule, dtype, encoding, &updating))
        return;
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++) {
        updating.grid = each[i] * gpu_multiprocessors();
        gpu_bench_sample(bench, run_update, &updating, 1, seconds);
        printf("{\"row\":\"grid\",\"rule\":\"%s\",\"type\":\"%s\",\"encoding\":\"%s\","
               "\"blocks_each\":%u,",
               ps_rule_name(rule), ps_dtype_name(dtype), ps_encoding_name(encoding), each[i]);
        gpu_bench_print_seconds(seconds, bench->samples);
    }
}

void gpu_bench_grids(struct gpu_bench *bench)
{
    static const enum ps_rule rules[] = {PS_RULE_ASSIGN, PS_RULE_SGD, PS_RULE_MOMENTUM,
                                         PS_RULE_ADAMW};
    for (enum ps_dtype dtype = PS_F32; dtype <= PS_F64; dtype++) {
        for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
            measure_grids(bench, rules[i], dtype, PS_ENCODING_NATIVE);
        measure_grids(bench, PS_RULE_ADAMW, dtype, PS_ENCODING_BFLOAT16);
        measure_grids(bench, PS_RULE_ADAMW, dtype, PS_ENCODING_INT8);
    }
}

struct scanning {
    struct ps_optimizer_settings settings;
    enum ps_dtype dtype;
    double *sums;
    struct ps_cuda_verdict *verdict;
};

static void run_scan(struct gpu_bench *bench, void *self, uint64_t call)
{
    (void)call;
    const struct scanning *scanning = self;
    const struct ps_cuda_scan scan = {
        .settings = &scanning->settings,
        .dtype = scanning->dtype,
        .run = {.count = bench->size_max / ps_dtype_size(scanning->dtype),
                .gradient = {.elements = bench->arrays[GPU_BENCH_GRADIENT]}},
        .sums = scanning->sums,
        .verdict = scanning->verdict};
    gpu_bench_must(ps_cuda_launch_scan(&scan, bench->stream), "launching a scan");
}

/* The values' array has room for the sums. */
void gpu_bench_scan(struct gpu_bench *bench)
{
    double seconds[GPU_BENCH_SAMPLES_MAX];
    struct scanning scanning = {.settings = {.rule = PS_RULE_SGD, .clip_norm = 1},
                                .sums = (double *)(void *)bench->arrays[0],
                                .verdict = (struct ps_cuda_verdict *)(void *)bench->arrays[1]};
    for (enum ps_dtype dtype = PS_F32; dtype <= PS_F64; dtype++) {
        scanning.dtype = dtype;
        gpu_bench_fill(bench, dtype);
        gpu_bench_must(ps_cuda_launch_open(scanning.verdict, bench->stream), "opening a verdict");
        gpu_bench_sample(bench, run_scan, &scanning, 1, seconds);
        printf("{\"row\":\"scan\",\"type\":\"%s\",\"size\":%llu,", ps_dtype_name(dtype),
               (unsigned long long)bench->size_max);
        gpu_bench_print_seconds(seconds, bench->samples);
    }
}
