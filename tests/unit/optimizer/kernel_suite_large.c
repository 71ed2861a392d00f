/* SPDX-License-Identifier: Apache-2.0 */
/* Runs so long that an index, a count or a number of bytes in 32 bits would be wrong somewhere.
 * Such arrays repeat a block of numbers, so that the CPU has to compute one block alone. */
#include "kernel_suite.h"
#include "rule_cases.h"

#include "optimizer/encoded.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Elements of a block: whole groups of int8, and no power of two, so that an index that is off by
 * 2^31 or 2^32 meets other numbers. */
#define BLOCK (UINT64_C(4099) * PS_ENCODING_GROUP)

#define GUARD 0x5a
#define GUARD_BYTES 64

struct large_array {
    char *block;  /* on the host: what it repeats, or has to repeat afterwards */
    char *device; /* with the guard behind it; NULL: no memory */
    uint64_t count;
    uint64_t period; /* elements of a block */
    size_t size;     /* of an element */
};

static uint64_t part_of(const struct large_array *array, uint64_t first)
{
    uint64_t rest = array->count - first;
    return rest < array->period ? rest : array->period;
}

/* Fills the machine's side from the host's. */
static void large_put(struct kernel_suite *suite, const struct large_array *array)
{
    char guard[GUARD_BYTES];
    memset(guard, GUARD, sizeof guard);
    for (uint64_t first = 0; first < array->count; first += array->period)
        suite->machine->write(array->device + first * array->size, array->block,
                              part_of(array, first) * array->size);
    suite->machine->write(array->device + array->count * array->size, guard, sizeof guard);
}

/* False when the machine has no memory for it. */
static bool large_open(struct kernel_suite *suite, uint64_t count, size_t size, uint64_t period,
                       struct large_array *array)
{
    *array = (struct large_array){.count = count, .size = size, .period = period};
    array->block = calloc(period, size);
    array->device = suite->machine->acquire(count * size + GUARD_BYTES);
    return array->block != NULL && array->device != NULL;
}

static void large_close(struct kernel_suite *suite, struct large_array *array)
{
    if (array->device != NULL)
        suite->machine->release(array->device);
    free(array->block);
    *array = (struct large_array){0};
}

/* Is it the block, again and again, and the guard whole? */
static bool large_equal(struct kernel_suite *suite, enum ps_dtype dtype,
                        const struct large_array *array)
{
    char guard[GUARD_BYTES];
    char *seen = calloc(array->period, array->size);
    bool equal = seen != NULL;
    for (uint64_t first = 0; equal && first < array->count; first += array->period) {
        uint64_t part = part_of(array, first);
        suite->machine->read(array->device + first * array->size, seen, part * array->size);
        equal = rule_case_equal(dtype, array->block, seen, part);
    }
    free(seen);
    suite->machine->read(array->device + array->count * array->size, guard, sizeof guard);
    for (size_t i = 0; i < sizeof guard; i++)
        equal = equal && guard[i] == GUARD;
    suite->seen += array->count;
    return equal;
}

/* One push to a large parameter. */
struct large_push {
    enum ps_rule rule;
    enum ps_dtype dtype;
    enum ps_encoding encoding; /* NATIVE or INT8 */
    uint64_t count;
    struct large_array arrays[KERNEL_ARRAYS]; /* values, states */
    struct large_array gradient;
    struct large_array scales;
    void *decoded; /* a block of it, as the CPU sees it */
};

static bool open_gradient(struct kernel_suite *suite, struct large_push *push)
{
    size_t size = ps_dtype_size(push->dtype);
    bool packed = push->encoding == PS_ENCODING_INT8;
    push->decoded = calloc(BLOCK, size);
    if (push->decoded == NULL ||
        !large_open(suite, push->count, packed ? 1 : size, BLOCK, &push->gradient))
        return false;
    if (!packed) {
        rule_case_fill(99, push->dtype, push->gradient.block, BLOCK);
        memcpy(push->decoded, push->gradient.block, BLOCK * size);
        return true;
    }
    if (!large_open(suite, ps_encoding_groups(push->count), sizeof(float),
                    BLOCK / PS_ENCODING_GROUP, &push->scales))
        return false;
    for (uint64_t i = 0; i < BLOCK; i++)
        push->gradient.block[i] = (char)(i * 2654435761U >> 11);
    for (uint64_t i = 0; i < push->scales.period; i++)
        ((float *)push->scales.block)[i] = 0.25F + (float)(i % 37) / 64.0F;
    for (uint64_t i = 0; i < push->scales.period; i++)
        ps_decode_group(push->dtype, ((float *)push->scales.block)[i],
                        push->gradient.block + i * PS_ENCODING_GROUP, PS_ENCODING_GROUP,
                        (char *)push->decoded + i * PS_ENCODING_GROUP * size);
    large_put(suite, &push->scales);
    return true;
}

static bool open_push(struct kernel_suite *suite, struct large_push *push)
{
    for (uint32_t i = 0; i <= ps_rule_states(push->rule); i++) {
        struct large_array *array = &push->arrays[i];
        if (!large_open(suite, push->count, ps_dtype_size(push->dtype), BLOCK, array))
            return false;
        rule_case_fill(7 + i, push->dtype, array->block, BLOCK);
        large_put(suite, array);
    }
    if (!open_gradient(suite, push))
        return false;
    large_put(suite, &push->gradient);
    return true;
}

static void close_push(struct kernel_suite *suite, struct large_push *push)
{
    for (size_t i = 0; i < KERNEL_ARRAYS; i++)
        large_close(suite, &push->arrays[i]);
    large_close(suite, &push->gradient);
    large_close(suite, &push->scales);
    free(push->decoded);
}

static int apply_large(const struct large_push *push, const struct ps_optimizer_step *step)
{
    const struct ps_cuda_apply apply = {
        .step = step,
        .run = {.count = push->count,
                .values = push->arrays[0].device,
                .states = {push->arrays[1].device, push->arrays[2].device},
                .gradient = {.encoding = push->encoding,
                             .elements = push->gradient.device,
                             .scales = (const float *)(const void *)push->scales.device}}};
    void *const states[PS_STATES_MAX] = {push->arrays[1].block, push->arrays[2].block};
    ps_optimizer_apply(step, 0, BLOCK, push->arrays[0].block, states, push->decoded);
    return ps_cuda_launch_apply(&apply, NULL);
}

static void compare_large(struct kernel_suite *suite, enum ps_rule rule, enum ps_dtype dtype,
                          enum ps_encoding encoding, uint64_t count)
{
    struct large_push push = {.rule = rule, .dtype = dtype, .encoding = encoding, .count = count};
    struct ps_optimizer_settings settings;
    struct ps_optimizer_step step;
    for (size_t i = 0; rule_case(i, dtype, &settings) && settings.rule != rule; i++) {
    }
    rule_case_step(&settings, dtype, &step);
    bool opened = open_push(suite, &push);
    kernel_expect(suite, opened, "no memory for %llu elements of %s with %s: not compared",
                  (unsigned long long)count, ps_dtype_name(dtype), ps_rule_name(rule));
    if (opened) {
        int error = apply_large(&push, &step);
        bool equal = error == 0;
        for (uint32_t i = 0; equal && i <= ps_rule_states(rule); i++)
            equal = large_equal(suite, dtype, &push.arrays[i]);
        kernel_expect(suite, equal, "%llu elements, %s on %s, %s, error %d",
                      (unsigned long long)count, ps_rule_name(rule), ps_dtype_name(dtype),
                      ps_encoding_name(encoding), error);
    }
    close_push(suite, &push);
}

/* The sum of squares and the first element that is not finite, over a whole gradient. */
static void scan_large(struct kernel_suite *suite, struct large_array *gradient, double *sums,
                       bool strange)
{
    const struct ps_optimizer_settings settings = {
        .rule = PS_RULE_SGD, .learning_rate = {.rate = 1}, .clip_norm = 0.5};
    struct ps_gradient_scan scan = {0};
    struct ps_cuda_verdict found;
    const float last = strange ? (float)INFINITY : 0.5F;
    suite->machine->write(gradient->device + (gradient->count - 1) * sizeof last, &last,
                          sizeof last);
    struct ps_cuda_verdict *verdict = kernel_verdict_open(suite);
    const struct ps_cuda_scan launch = {
        .settings = &settings,
        .dtype = PS_F32,
        .run = {.count = gradient->count, .gradient = {.elements = gradient->device}},
        .sums = sums,
        .verdict = verdict};
    const struct ps_cuda_judge judge = {
        .settings = &settings, .count = gradient->count, .sums = sums, .verdict = verdict};

    int error = ps_cuda_launch_scan(&launch, NULL);
    error = error != 0 ? error : ps_cuda_launch_judge(&judge, NULL);
    suite->machine->read(verdict, &found, sizeof found);
    for (uint64_t first = 0; first < gradient->count - 1; first += gradient->period) {
        uint64_t rest = gradient->count - 1 - first;
        ps_optimizer_scan(&settings, PS_F32, gradient->block,
                          rest < gradient->period ? rest : gradient->period, &scan);
    }
    ps_optimizer_scan(&settings, PS_F32, &last, 1, &scan);

    kernel_expect(suite, error == 0 && found.skip == strange, "a scan, error %d", error);
    kernel_expect(suite, found.nonfinite_index == (strange ? gradient->count - 1 : UINT64_MAX),
                  "element %llu is said to be the first that is not finite",
                  (unsigned long long)found.nonfinite_index);
    struct ps_optimizer_step step;
    if (!strange && ps_optimizer_prepare(&settings, PS_F32, 1, 0, &scan, &step, NULL) == PS_OK)
        kernel_expect(suite, found.scale == step.f64.scale, "the scale is %a, not %a", found.scale,
                      step.f64.scale);
    suite->seen += gradient->count;
    suite->machine->release(verdict);
}

static void compare_large_scan(struct kernel_suite *suite, uint64_t count)
{
    struct large_array gradient;
    double *sums = suite->machine->acquire(ps_cuda_sums(count) * sizeof *sums);
    bool opened = large_open(suite, count, sizeof(float), BLOCK, &gradient) && sums != NULL;
    kernel_expect(suite, opened, "no memory for a scan of %llu elements: not compared",
                  (unsigned long long)count);
    if (opened) {
        for (uint64_t i = 0; i < BLOCK; i++)
            ((float *)gradient.block)[i] = (float)(int32_t)(i * 2654435761U) / 2147483648.0F;
        large_put(suite, &gradient);
        scan_large(suite, &gradient, sums, false);
        scan_large(suite, &gradient, sums, true);
    }
    large_close(suite, &gradient);
    if (sums != NULL)
        suite->machine->release(sums);
}

void kernel_suite_run_large(struct kernel_suite *suite, uint64_t count)
{
    int before = suite->expect->failures;
    suite->expect->test = "kernels_reach_every_element_of_a_large_run";
    compare_large(suite, PS_RULE_SGD, PS_F32, PS_ENCODING_NATIVE, count);
    compare_large(suite, PS_RULE_ADAMW, PS_F32, PS_ENCODING_NATIVE, count);
    compare_large(suite, PS_RULE_ADD, PS_I32, PS_ENCODING_NATIVE, count);
    compare_large(suite, PS_RULE_ADD, PS_I64, PS_ENCODING_NATIVE, count);
    compare_large(suite, PS_RULE_ADAMW, PS_F32, PS_ENCODING_INT8, count);
    compare_large_scan(suite, count);
    if (!suite->quiet)
        printf("%s %s (%llu) on %s\n", suite->expect->failures == before ? "ok  " : "FAIL",
               suite->expect->test, (unsigned long long)count, suite->machine->name);
}
