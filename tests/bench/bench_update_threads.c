/* SPDX-License-Identifier: Apache-2.0 */
/* What further threads do for one large update: pushes of one float32 parameter by one thread, and
 * by as many as are asked for, in turn.
 *
 *     bench_update_threads [THREADS]        medians of interleaved repeats
 */
#include "bench_common.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "optimizer/loops.h"
#include "server/core/requests/service.h"
#include "server/rpc/helpers.h"

#include <stdio.h>
#include <stdlib.h>

enum { REPEATS = 41, LARGEST = 64 };

static struct ps_helpers helpers;
static struct ps_bytes pieces[LARGEST * 16];

static double push_us(struct ps_parameter *parameter, const struct ps_crew *crew,
                      const float *gradient)
{
    size_t size = (size_t)parameter->spec->count * sizeof(float);
    const struct ps_gradient pushed = bench_cut(gradient, size, PS_ENCODING_NATIVE, pieces);
    uint64_t version;
    parameter->spec->crew = crew;
    uint64_t started_ns = ps_clock_precise_ns();
    enum ps_status status = ps_parameter_push(parameter, pushed, NULL, &version, NULL);
    PS_ASSERT(status == PS_OK);
    return (double)(ps_clock_precise_ns() - started_ns) / 1e3;
}

static void measure(enum ps_rule rule, size_t mebibytes, const struct ps_crew *crew,
                    const float *gradient)
{
    double alone[REPEATS], together[REPEATS];
    struct ps_parameter *parameter =
        bench_parameter(rule, (mebibytes << 20) / sizeof(float), gradient);
    for (int i = 0; i < REPEATS; i++) {
        alone[i] = push_us(parameter, NULL, gradient);
        together[i] = push_us(parameter, crew, gradient);
    }
    double one = bench_median(alone, REPEATS);
    double many = bench_median(together, REPEATS);
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
