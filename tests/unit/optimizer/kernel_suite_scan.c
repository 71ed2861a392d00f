/* SPDX-License-Identifier: Apache-2.0 */
/* What is found out before anything changes: scans, verdicts, overflows, and that kernels obey. */
#include "kernel_suite.h"
#include "rule_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One push that is scanned, judged and applied; on the machine all without a look in between. */
struct push {
    struct ps_optimizer_settings settings;
    enum ps_dtype dtype;
    enum ps_encoding encoding;
    uint64_t count;
    uint64_t piece;   /* elements scanned at a time */
    uint64_t strange; /* this element is not finite; beyond the end: none */
    uint32_t grid;
};

/* The two sides of a push. */
struct sides {
    struct kernel_twin twin;
    struct kernel_gradient gradient;
    struct ps_cuda_verdict *verdict;
    double *sums;
};

/* A gradient of ordinary numbers, so that sums are not all NaN. */
static void tame(struct kernel_suite *suite, const struct push *push, struct sides *sides)
{
    size_t size = ps_dtype_size(push->dtype);
    if (push->encoding != PS_ENCODING_NATIVE)
        return;
    for (uint64_t i = 0; i < push->count; i++) {
        double wide = i == push->strange ? -(double)INFINITY : sin((double)i) * 3;
        float narrow = (float)wide;
        memcpy((char *)sides->gradient.elements + i * size,
               push->dtype == PS_F32 ? (void *)&narrow : (void *)&wide, size);
    }
    suite->machine->write((void *)(uintptr_t)sides->gradient.device.elements,
                          sides->gradient.elements, push->count * size);
}

static void open_sides(struct kernel_suite *suite, const struct push *push, struct sides *sides)
{
    kernel_twin_open(suite, push->dtype, push->count, 3, &sides->twin);
    kernel_gradient_open(suite, push->dtype, push->encoding, push->count, 9, &sides->gradient);
    tame(suite, push, sides);
    sides->verdict = kernel_verdict_open(suite);
    sides->sums = suite->machine->acquire((ps_cuda_sums(push->count) + 1) * sizeof *sides->sums);
}

static void close_sides(struct kernel_suite *suite, struct sides *sides)
{
    suite->machine->release(sides->sums);
    suite->machine->release(sides->verdict);
    kernel_gradient_close(suite, &sides->gradient);
    kernel_twin_close(suite, &sides->twin);
}

/* The part of a gradient that begins at `first`. */
static struct ps_cuda_gradient gradient_from(const struct push *push,
                                             const struct ps_cuda_gradient *whole, uint64_t first)
{
    static const size_t widths[PS_ENCODING_COUNT] = {[PS_ENCODING_FLOAT32] = 4,
                                                     [PS_ENCODING_FLOAT64] = 8,
                                                     [PS_ENCODING_BFLOAT16] = 2,
                                                     [PS_ENCODING_FLOAT16] = 2,
                                                     [PS_ENCODING_INT8] = 1};
    struct ps_cuda_gradient part = *whole;
    size_t width =
        push->encoding == PS_ENCODING_NATIVE ? ps_dtype_size(push->dtype) : widths[push->encoding];
    part.elements = (const char *)whole->elements + first * width;
    if (push->encoding == PS_ENCODING_INT8)
        part.scales = whole->scales + first / PS_ENCODING_GROUP;
    return part;
}

static int scan_on_machine(const struct push *push, const struct sides *sides)
{
    int error = 0;
    for (uint64_t first = 0; first < push->count && error == 0; first += push->piece) {
        uint64_t left = push->count - first;
        const struct ps_cuda_scan scan = {
            .settings = &push->settings,
            .dtype = push->dtype,
            .run = {.first = first,
                    .count = left < push->piece ? left : push->piece,
                    .gradient = gradient_from(push, &sides->gradient.device, first)},
            .sums = sides->sums,
            .verdict = sides->verdict,
            .grid = push->grid};
        error = ps_cuda_launch_scan(&scan, NULL);
    }
    const struct ps_cuda_judge judge = {.settings = &push->settings,
                                        .count = push->count,
                                        .sums = sides->sums,
                                        .verdict = sides->verdict};
    return error != 0 ? error : ps_cuda_launch_judge(&judge, NULL);
}

/* Applies by a step that knows nothing of the scan; the verdict has to supply it. */
static int apply_on_machine(const struct push *push, const struct sides *sides)
{
    const struct ps_gradient_scan nothing = {0};
    struct ps_optimizer_step step;
    if (ps_optimizer_prepare(&push->settings, push->dtype, 5, 1, &nothing, &step, NULL) != PS_OK)
        return -1;
    const struct ps_cuda_apply apply = {.step = &step,
                                        .run =
                                            kernel_twin_run(&sides->twin, &sides->gradient.device),
                                        .verdict = sides->verdict,
                                        .grid = push->grid};
    return ps_cuda_launch_apply(&apply, NULL);
}

/* The CPU's scan and step; false when the push is refused or skipped. */
static bool do_on_cpu(const struct push *push, const struct sides *sides,
                      struct ps_gradient_scan *scan, struct ps_optimizer_step *step)
{
    void *const states[PS_STATES_MAX] = {sides->twin.host[1], sides->twin.host[2]};
    memset(scan, 0, sizeof *scan);
    ps_optimizer_scan(&push->settings, push->dtype, sides->gradient.elements, push->count, scan);
    if (ps_optimizer_prepare(&push->settings, push->dtype, 5, 1, scan, step, NULL) != PS_OK ||
        step->skip)
        return false;
    ps_optimizer_apply(step, 0, push->count, sides->twin.host[0], states, sides->gradient.elements);
    return true;
}

static void compare(struct kernel_suite *suite, const struct push *push)
{
    struct sides sides;
    struct ps_gradient_scan scan;
    struct ps_optimizer_step step;
    struct ps_cuda_verdict verdict;
    open_sides(suite, push, &sides);

    int error = scan_on_machine(push, &sides);
    if (error == 0)
        error = apply_on_machine(push, &sides);
    suite->machine->read(sides.verdict, &verdict, sizeof verdict);
    bool applied = do_on_cpu(push, &sides, &scan, &step);

    bool judged = (verdict.skip == 0) == applied &&
                  (scan.nonfinite ? verdict.nonfinite_index == scan.nonfinite_index
                                  : verdict.nonfinite_index == UINT64_MAX);
    bool scaled = !applied || rule_case_equal(PS_F64, &verdict.scale, &step.f64.scale, 1);
    kernel_expect(suite, error == 0 && judged && scaled && kernel_twin_equal(suite, &sides.twin),
                  "%s, %s, %llu elements in pieces of %llu, strange %llu, %u blocks: error %d, "
                  "verdict %d, scale %d",
                  ps_dtype_name(push->dtype), ps_encoding_name(push->encoding),
                  (unsigned long long)push->count, (unsigned long long)push->piece,
                  (unsigned long long)push->strange, push->grid, error, judged, scaled);
    close_sides(suite, &sides);
}

/* The settings under which a push is looked at. */
static struct ps_optimizer_settings looking(size_t index)
{
    static const struct ps_optimizer_settings kinds[] = {
        {.clip_norm = 2},
        {.clip_norm = 0.5, .clip_value = 1.25, .nonfinite = PS_NONFINITE_SKIP},
        {.clip_norm = 3, .nonfinite = PS_NONFINITE_ALLOW},
        {.nonfinite = PS_NONFINITE_SKIP}};
    struct ps_optimizer_settings settings = kinds[index];
    settings.rule = PS_RULE_ADAM;
    settings.learning_rate.rate = 0.1;
    settings.beta_1 = 0.9;
    settings.beta_2 = 0.999;
    settings.epsilon = 1e-8;
    return settings;
}

void kernels_scan_and_judge_as_the_cpu_does(struct kernel_suite *suite)
{
    struct push push = {0};
    for (size_t i = 0; suite->counts[i] != UINT64_MAX; i++) {
        push.count = suite->counts[i];
        for (size_t j = 0; j < 48; j++) {
            push.settings = looking(j % 4);
            push.dtype = j / 4 % 2 == 0 ? PS_F32 : PS_F64;
            push.encoding = j < 32 ? PS_ENCODING_NATIVE : (enum ps_encoding)(j % 6 + 1);
            push.strange = j / 8 % 3 == 0 ? UINT64_MAX : push.count * (j % 3) / 3;
            push.piece = j % 2 == 0 ? PS_SUM_ELEMENTS : 3 * PS_SUM_ELEMENTS;
            push.grid = suite->grids[0];
            compare(suite, &push);
        }
    }
}

void kernels_sum_more_groups_than_one_fold_takes(struct kernel_suite *suite)
{
    const uint64_t fold = (uint64_t)PS_SUM_ELEMENTS * PS_SUM_ELEMENTS;
    const struct push push = {.settings = looking(0),
                              .dtype = PS_F32,
                              .count = fold + 3 * PS_SUM_ELEMENTS + 5,
                              .piece = fold,
                              .strange = UINT64_MAX};
    if (!suite->quick)
        compare(suite, &push);
}

/* ADD that must not overflow, with overflows at the places given. */
static void look_for_overflow(struct kernel_suite *suite, uint64_t count, uint64_t first,
                              uint64_t second)
{
    const struct ps_optimizer_settings settings = {.rule = PS_RULE_ADD,
                                                   .overflow = PS_OVERFLOW_FAIL};
    const struct ps_gradient_scan nothing = {0};
    struct ps_optimizer_step step;
    struct kernel_twin twin;
    struct ps_cuda_verdict verdict;
    if (ps_optimizer_prepare(&settings, PS_I32, 1, 1, &nothing, &step, NULL) != PS_OK)
        abort();
    kernel_twin_open(suite, PS_I32, count, 5, &twin);
    int32_t *gradient = calloc(count + 1, sizeof *gradient);
    for (uint64_t i = 0; i < count; i++)
        ((int32_t *)twin.host[0])[i] = INT32_MAX;
    for (uint64_t i = 0; i < count; i++)
        gradient[i] = i == first || i == second;
    suite->machine->write(twin.device[0], twin.host[0], count * sizeof *gradient);
    struct ps_cuda_gradient device = {.elements =
                                          kernel_put(suite, gradient, count * sizeof *gradient, 0)};
    struct ps_cuda_verdict *judged = kernel_verdict_open(suite);
    const struct ps_cuda_apply apply = {.step = &step,
                                        .run = kernel_twin_run(&twin, &device),
                                        .verdict = judged,
                                        .grid = suite->grids[0]};

    int error = ps_cuda_launch_overflows(&apply, judged, NULL);
    error = error != 0 ? error : ps_cuda_launch_apply(&apply, NULL);
    suite->machine->read(judged, &verdict, sizeof verdict);

    uint64_t lowest = first < second ? first : second;
    kernel_expect(suite, error == 0 && verdict.overflow_index == lowest, "%llu, not %llu of %llu",
                  (unsigned long long)verdict.overflow_index, (unsigned long long)lowest,
                  (unsigned long long)count);
    /* Adding 0 changes nothing either, so that this holds in every case. */
    kernel_expect(suite, kernel_twin_equal(suite, &twin), "something was added");
    suite->machine->release(judged);
    suite->machine->release((void *)(uintptr_t)device.elements);
    free(gradient);
    kernel_twin_close(suite, &twin);
}

void kernels_find_the_first_overflow(struct kernel_suite *suite)
{
    for (size_t i = 0; suite->counts[i] != UINT64_MAX; i++) {
        uint64_t count = suite->counts[i];
        look_for_overflow(suite, count, UINT64_MAX, UINT64_MAX);
        if (count == 0)
            continue;
        look_for_overflow(suite, count, count - 1, UINT64_MAX);
        look_for_overflow(suite, count, count / 2, count - 1);
        look_for_overflow(suite, count, count - 1, 0);
    }
}

/* With a verdict that forbids it, no rule changes a byte. */
void kernels_change_nothing_against_the_verdict(struct kernel_suite *suite)
{
    const struct ps_cuda_verdict verdicts[] = {
        {.nonfinite_index = 0, .overflow_index = UINT64_MAX, .scale = 1, .skip = 1},
        {.nonfinite_index = UINT64_MAX, .overflow_index = 3, .scale = 1}};
    struct ps_optimizer_settings settings;
    struct ps_optimizer_step step;
    for (enum ps_dtype dtype = 0; dtype < PS_DTYPE_COUNT; dtype++) {
        for (size_t i = 0; rule_case(i, dtype, &settings); i++) {
            struct kernel_twin twin;
            struct kernel_gradient gradient;
            rule_case_step(&settings, dtype, &step);
            kernel_twin_open(suite, dtype, 1023, 1, &twin);
            kernel_gradient_open(suite, dtype, PS_ENCODING_NATIVE, 1023, 2, &gradient);
            struct ps_cuda_verdict *verdict =
                kernel_put(suite, &verdicts[i % 2], sizeof *verdict, 0);
            const struct ps_cuda_apply apply = {
                .step = &step, .run = kernel_twin_run(&twin, &gradient.device), .verdict = verdict};

            kernel_expect(suite, ps_cuda_launch_apply(&apply, NULL) == 0, "the launch fails");

            kernel_expect(suite, kernel_twin_equal(suite, &twin), "%s on %s applied",
                          ps_rule_name(settings.rule), ps_dtype_name(dtype));
            suite->machine->release(verdict);
            kernel_gradient_close(suite, &gradient);
            kernel_twin_close(suite, &twin);
        }
    }
}
