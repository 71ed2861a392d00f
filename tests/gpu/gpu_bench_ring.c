/* SPDX-License-Identifier: Apache-2.0 */
/* Pushes through the runtime that a server uses: gradients in ordinary memory of the host, copied
 * by the threads that push into the ring's pinned slots, over the bus, into AdamW. */
#include "gpu_bench.h"

#include "base/clock.h"
#include "optimizer/device.h"
#include "optimizer/encoded.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 16

/* Pushes of each thread in one sample. */
#define ROUNDS 8

extern ps_device_entry_fn ps_device_entry;

struct pushing {
    const struct ps_device_plugin *plugin;
    struct ps_device *device;
    struct ps_optimizer_settings settings;
    enum ps_encoding encoding;
    uint64_t count; /* elements of each parameter */
    bool judged;    /* the device looks at the gradients */
    pthread_barrier_t begin;
    pthread_barrier_t end;
};

struct pusher {
    struct pushing *pushing;
    struct ps_device_parameter *parameter;
    uint8_t *content;
    uint64_t step;
    uint32_t samples;
    pthread_t thread;
};

static void must(enum ps_status status, const struct ps_error *error)
{
    if (status != PS_OK)
        gpu_bench_fail(error->text);
}

static void push_once(struct pusher *pusher, struct ps_device_ticket *ticket)
{
    struct pushing *pushing = pusher->pushing;
    const struct ps_bytes content = {
        pusher->content, (size_t)ps_encoding_bytes(pushing->encoding, PS_F32, pushing->count)};
    struct ps_device_judged *judged = NULL;
    struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    struct ps_error error = {0};
    if (pushing->judged)
        must(pushing->plugin->judge(pusher->parameter, &pushing->settings, ps_view_of(&content),
                                    pushing->encoding, &judged, &scan, &error),
             &error);
    must(ps_optimizer_prepare(&pushing->settings, PS_F32, ++pusher->step, 0, &scan, &step, &error),
         &error);
    const struct ps_device_push push = {.parameter = pusher->parameter,
                                        .gradient = ps_view_of(&content),
                                        .encoding = pushing->encoding,
                                        .step = &step};
    if (judged != NULL)
        must(pushing->plugin->push_judged(judged, &step, ticket, &error), &error);
    else
        must(pushing->plugin->push(pushing->device, &push, 1, ticket, &error), &error);
    pushing->plugin->judged_release(judged);
}

static void push_and_wait(struct pusher *pusher, uint32_t rounds)
{
    struct ps_device_ticket ticket = {0};
    struct ps_error error = {0};
    for (uint32_t i = 0; i < rounds; i++)
        push_once(pusher, &ticket);
    must(pusher->pushing->plugin->wait(pusher->pushing->device, ticket, &error), &error);
}

static void *run_pusher(void *self)
{
    struct pusher *pusher = self;
    for (uint32_t i = 0; i <= pusher->samples; i++) { /* the first one warms up */
        (void)pthread_barrier_wait(&pusher->pushing->begin);
        push_and_wait(pusher, ROUNDS);
        (void)pthread_barrier_wait(&pusher->pushing->end);
    }
    return NULL;
}

static void open_pusher(struct pushing *pushing, uint32_t number, struct pusher *pusher)
{
    const struct ps_device_parameter_wish wish = {
        .settings = &pushing->settings, .dtype = PS_F32, .count = pushing->count};
    struct ps_error error = {0};
    float *elements = calloc(pushing->count, sizeof *elements);
    pusher->pushing = pushing;
    pusher->content = malloc((size_t)ps_encoding_bytes(pushing->encoding, PS_F32, pushing->count));
    if (elements == NULL || pusher->content == NULL)
        gpu_bench_fail("no memory for a gradient");
    for (uint64_t i = 0; i < pushing->count; i++)
        elements[i] = (float)(int32_t)((i + number) * 2654435761U | 1) / 1073741824.0F;
    must(
        ps_encode_all(pushing->encoding, PS_F32, elements, pushing->count, pusher->content, &error),
        &error);
    free(elements);
    must(pushing->plugin->parameter_create(pushing->device, &wish, &pusher->parameter, &error),
         &error);
}

static void close_pusher(struct pusher *pusher)
{
    pusher->pushing->plugin->parameter_destroy(pusher->parameter);
    free(pusher->content);
}

static void measure_threads(struct pushing *pushing, uint32_t threads, uint32_t samples)
{
    double seconds[GPU_BENCH_SAMPLES_MAX];
    struct pusher pushers[THREADS_MAX] = {0};
    (void)pthread_barrier_init(&pushing->begin, NULL, threads + 1);
    (void)pthread_barrier_init(&pushing->end, NULL, threads + 1);
    for (uint32_t i = 0; i < threads; i++) {
        open_pusher(pushing, i, &pushers[i]);
        pushers[i].samples = samples;
        if (pthread_create(&pushers[i].thread, NULL, run_pusher, &pushers[i]) != 0)
            gpu_bench_fail("a thread cannot be started");
    }
    for (uint32_t i = 0; i <= samples; i++) {
        uint64_t begin = ps_clock_precise_ns();
        (void)pthread_barrier_wait(&pushing->begin);
        (void)pthread_barrier_wait(&pushing->end);
        if (i > 0)
            seconds[i - 1] = (double)(ps_clock_precise_ns() - begin) / 1e9;
    }
    for (uint32_t i = 0; i < threads; i++) {
        (void)pthread_join(pushers[i].thread, NULL);
        close_pusher(&pushers[i]);
    }
    (void)pthread_barrier_destroy(&pushing->begin);
    (void)pthread_barrier_destroy(&pushing->end);
    uint64_t bytes = ps_encoding_bytes(pushing->encoding, PS_F32, pushing->count);
    printf("{\"row\":\"ring\",\"encoding\":\"%s\",\"judged\":%s,\"threads\":%u,"
           "\"elements\":%llu,\"bytes\":%llu,\"pushes\":%u,",
           ps_encoding_name(pushing->encoding), pushing->judged ? "true" : "false", threads,
           (unsigned long long)pushing->count, (unsigned long long)(bytes * threads * ROUNDS),
           threads * ROUNDS);
    gpu_bench_print_seconds(seconds, samples);
}

/* One small push, from the call to its end on the device. */
static void measure_latency(struct pushing *pushing, uint32_t samples)
{
    double seconds[GPU_BENCH_SAMPLES_MAX];
    struct pusher pusher = {0};
    pushing->count = 1024;
    pushing->encoding = PS_ENCODING_NATIVE;
    open_pusher(pushing, 0, &pusher);
    push_and_wait(&pusher, ROUNDS);
    for (uint32_t i = 0; i < samples; i++) {
        uint64_t begin = ps_clock_precise_ns();
        push_and_wait(&pusher, 1);
        seconds[i] = (double)(ps_clock_precise_ns() - begin) / 1e9;
    }
    close_pusher(&pusher);
    printf("{\"row\":\"push\",\"size\":4096,");
    gpu_bench_print_seconds(seconds, samples);
}

void gpu_bench_ring(uint64_t size_max, uint32_t samples)
{
    static const uint32_t threads[] = {1, 2, 4, 8, 12, 16};
    const struct ps_device_options options = {.memory = ps_allocator_heap()};
    struct ps_error error = {0};
    struct pushing pushing = {.plugin = ps_device_entry(PS_DEVICE_ABI),
                              .settings = {.rule = PS_RULE_ADAMW,
                                           .learning_rate = {.rate = 0.001},
                                           .decay = 0.01,
                                           .beta_1 = 0.9,
                                           .beta_2 = 0.999,
                                           .epsilon = 1e-8},
                              .count = size_max / 16 / sizeof(float)};
    uint32_t few = samples > 10 ? 10 : samples;
    must(pushing.plugin->open(&options, &pushing.device, &error), &error);
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++)
        measure_threads(&pushing, threads[i], few);
    pushing.encoding = PS_ENCODING_BFLOAT16;
    measure_threads(&pushing, 8, few);
    pushing.encoding = PS_ENCODING_INT8;
    measure_threads(&pushing, 8, few);
    /* A quarter of the size: the ring has to hold all of a gradient that is looked at. */
    pushing.encoding = PS_ENCODING_NATIVE;
    pushing.count /= 4;
    for (int judged = 0; judged < 2; judged++) {
        pushing.judged = judged != 0;
        measure_threads(&pushing, 1, few);
        measure_threads(&pushing, 8, few);
    }
    pushing.judged = false;
    measure_latency(&pushing, samples);
    pushing.plugin->close(pushing.device);
}
