/* What further threads do for one large update: pushes of one float32 parameter by one thread, and
 * by as many as are asked for, in turn.
 *
 *     bench_update_threads [THREADS]        medians of interleaved repeats
 */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "optimizer/loops.h"
#include "server/core/parameter.h"
#include "server/core/service.h"
#include "server/rpc/helpers.h"

#include <stdio.h>
#include <stdlib.h>

enum { REPEATS = 41, SLICE_BYTES = 65536, LARGEST = 64 };

static struct ps_helpers helpers;
static struct ps_bytes pieces[LARGEST * 16];

static struct ps_parameter *create(enum ps_rule rule, size_t count, const float *start)
{
    const struct ps_optimizer_settings settings = {
        .rule = rule, .learning_rate.rate = 1e-3, .beta_1 = 0.9, .beta_2 = 0.999, .epsilon = 1e-8};
    struct ps_bytes piece = {(const uint8_t *)start, count * sizeof(float)};
    struct ps_parameter_spec *spec =
        ps_parameter_spec_create(ps_allocator_heap(), ps_bytes_of_text("w"), PS_F32, count,
                                 (struct ps_bytes){NULL, 0}, &settings);
    struct ps_parameter *parameter = ps_parameter_create(spec);
    PS_ASSERT(parameter != NULL);
    (void)!ps_parameter_set(parameter, ps_view_of(&piece), NULL); /* on the host it cannot fail */
    ps_parameter_spec_release(spec);
    return parameter;
}

static double push_us(struct ps_parameter *parameter, const struct ps_crew *crew,
                      const float *gradient)
{
    size_t size = (size_t)parameter->spec->count * sizeof(float);
    size_t count = 0;
    for (size_t at = 0; at < size; at += SLICE_BYTES)
        pieces[count++] = (struct ps_bytes){(const uint8_t *)gradient + at,
                                            size - at < SLICE_BYTES ? size - at : SLICE_BYTES};
    const struct ps_gradient pushed = {.content = {pieces, count, size}};
    uint64_t version;
    parameter->spec->crew = crew;
    uint64_t started_ns = ps_clock_precise_ns();
    enum ps_status status = ps_parameter_push(parameter, pushed, NULL, &version, NULL);
    PS_ASSERT(status == PS_OK);
    return (double)(ps_clock_precise_ns() - started_ns) / 1e3;
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static double median(double values[REPEATS])
{
    qsort(values, REPEATS, sizeof values[0], by_value);
    return values[REPEATS / 2];
}

static void measure(enum ps_rule rule, size_t mebibytes, const struct ps_crew *crew,
                    const float *gradient)
{
    double alone[REPEATS], together[REPEATS];
    struct ps_parameter *parameter = create(rule, (mebibytes << 20) / sizeof(float), gradient);
    for (int i = 0; i < REPEATS; i++) {
        alone[i] = push_us(parameter, NULL, gradient);
        together[i] = push_us(parameter, crew, gradient);
    }
    double one = median(alone);
    double many = median(together);
    printf("%-8s %3zu MiB  one thread %8.0f us  together %8.0f us  %5.2f times as fast\n",
           ps_rule_name(rule), mebibytes, one, many, one / many);
    ps_parameter_destroy(parameter);
}

int main(int argc, char **argv)
{
    uint32_t threads = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 2;
    size_t count = ((size_t)LARGEST << 20) / sizeof(float);
    float *gradient = ps_plain(ps_allocator_heap(), count * sizeof(float));
    PS_ASSERT(gradient != NULL && threads >= 1 && threads <= PS_UPDATE_THREADS_MAX);
    for (size_t i = 0; i < count; i++)
        gradient[i] = 1.0F + (float)(i % 1000) * 1e-3F;
    ps_service_enter_thread();
    ps_helpers_init(&helpers);
    if (ps_helpers_start(&helpers, 1, threads, NULL) != PS_OK)
        return EXIT_FAILURE;
    const struct ps_crew crew = ps_helpers_crew(&helpers);
    printf("pserver %s, %s, %u threads, medians of %d\n", PS_VERSION, ps_loops_best()->name,
           threads, REPEATS);
    for (size_t mebibytes = 1; mebibytes <= LARGEST; mebibytes *= 2)
        measure(PS_RULE_SGD, mebibytes, &crew, gradient);
    for (size_t mebibytes = 1; mebibytes <= LARGEST; mebibytes *= 4)
        measure(PS_RULE_ADAM, mebibytes, &crew, gradient);
    ps_helpers_stop(&helpers);
    ps_helpers_fini(&helpers);
    ps_release(ps_allocator_heap(), gradient);
    return EXIT_SUCCESS;
}
