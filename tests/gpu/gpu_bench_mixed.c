/* SPDX-License-Identifier: Apache-2.0 */
/* What a server does with a device beside pushing large gradients: pulls, a message of many small
 * gradients, gradients that lie in registered memory, and everything at the same time. One thread
 * asks for the work and another has the load: what is measured is the first one's time. */
#include "gpu_bench.h"

#include "base/clock.h"
#include "optimizer/device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define TENSOR_BYTES (16u << 10)
#define PAGE_BYTES 4096

extern ps_device_entry_fn ps_device_entry;

/* One parameter under AdamW, a gradient in ordinary memory, and pinned room for its values. */
struct party {
    const struct ps_device_plugin *plugin;
    struct ps_device *device;
    struct ps_optimizer_settings settings;
    struct ps_device_parameter *parameter;
    float *gradient;
    uint8_t *room;
    uint64_t count;
    uint64_t step;
};

/* Pushes until it is told to end. */
struct load {
    struct party *party; /* of its own; NULL: there is none */
    atomic_bool ends;
    uint64_t pushes;
    pthread_t thread;
};

static void must(enum ps_status status, const struct ps_error *error)
{
    if (status != PS_OK)
        gpu_bench_fail(error->text);
}

static double seconds_since(uint64_t begin)
{
    return (double)(ps_clock_precise_ns() - begin) / 1e9;
}

static uint64_t bytes_of(const struct party *party)
{
    return party->count * sizeof(float);
}

static struct ps_optimizer_step step_of(struct party *party)
{
    const struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    struct ps_error error = {0};
    must(ps_optimizer_prepare(&party->settings, PS_F32, ++party->step, 0, &scan, &step, &error),
         &error);
    return step;
}

static struct ps_device_parameter *parameter_of(struct party *party, uint64_t count)
{
    const struct ps_device_parameter_wish wish = {
        .settings = &party->settings, .dtype = PS_F32, .count = count};
    struct ps_device_parameter *parameter = NULL;
    struct ps_error error = {0};
    must(party->plugin->parameter_create(party->device, &wish, &parameter, &error), &error);
    return parameter;
}

static struct party party_open(const struct ps_device_plugin *plugin, struct ps_device *device,
                               uint64_t bytes)
{
    struct party party = {.plugin = plugin,
                          .device = device,
                          .settings = {.rule = PS_RULE_ADAMW,
                                       .learning_rate = {.rate = 0.001},
                                       .decay = 0.01,
                                       .beta_1 = 0.9,
                                       .beta_2 = 0.999,
                                       .epsilon = 1e-8},
                          .count = bytes / sizeof(float)};
    party.gradient = aligned_alloc(PAGE_BYTES, bytes);
    party.room = plugin->host_acquire(device, bytes);
    if (party.gradient == NULL || party.room == NULL)
        gpu_bench_fail("no memory for a gradient");
    for (uint64_t i = 0; i < party.count; i++)
        party.gradient[i] = (float)(int32_t)(i * 2654435761U | 1) / 1073741824.0F;
    return party;
}

/* The settings have their place now. */
static void party_begin(struct party *party)
{
    party->parameter = parameter_of(party, party->count);
}

static void party_close(struct party *party)
{
    party->plugin->parameter_destroy(party->parameter);
    party->plugin->host_release(party->device, party->room, bytes_of(party));
    free(party->gradient);
}

static void push(struct party *party)
{
    const struct ps_bytes content = {(const uint8_t *)party->gradient, bytes_of(party)};
    const struct ps_optimizer_step step = step_of(party);
    const struct ps_device_push it = {
        .parameter = party->parameter, .gradient = ps_view_of(&content), .step = &step};
    struct ps_device_ticket ticket;
    struct ps_error error = {0};
    must(party->plugin->push(party->device, &it, 1, &ticket, &error), &error);
    must(party->plugin->wait(party->device, ticket, &error), &error);
}

static void pull(struct party *party)
{
    const struct ps_bytes piece = {party->room, bytes_of(party)};
    struct ps_device_ticket ticket;
    struct ps_error error = {0};
    must(party->plugin->read_begin(party->parameter, PS_DEVICE_VALUES, 0, &piece, 1, &ticket,
                                   &error),
         &error);
    must(party->plugin->wait(party->device, ticket, &error), &error);
}

static void push_and_pull(struct party *party)
{
    push(party);
    pull(party);
}

/* Reserved before, so that what is measured is the instant and the reading. */
static void snapshot(struct party *party)
{
    struct ps_device_snapshot *copy = NULL;
    struct ps_error error = {0};
    must(party->plugin->snapshot_reserve(party->parameter, &copy, &error), &error);
    must(party->plugin->snapshot_take(party->parameter, copy, &error), &error);
    must(party->plugin->snapshot_read(copy, PS_DEVICE_VALUES, 0, party->room, bytes_of(party),
                                      &error),
         &error);
    party->plugin->snapshot_release(copy);
}

static void *run_load(void *self)
{
    struct load *load = self;
    while (!atomic_load(&load->ends)) {
        push(load->party);
        load->pushes++;
    }
    return NULL;
}

/* `what` alone, or beside pushes of another parameter. */
static void measure(const char *what, void (*run)(struct party *party), struct party *party,
                    struct party *other, uint32_t samples)
{
    double seconds[GPU_BENCH_SAMPLES_MAX];
    struct load load = {.party = other};
    if (other != NULL && pthread_create(&load.thread, NULL, run_load, &load) != 0)
        gpu_bench_fail("a thread cannot be started");
    run(party);
    uint64_t all = ps_clock_precise_ns();
    for (uint32_t i = 0; i < samples; i++) {
        uint64_t begin = ps_clock_precise_ns();
        run(party);
        seconds[i] = seconds_since(begin);
    }
    double wall = seconds_since(all);
    atomic_store(&load.ends, true);
    if (other != NULL)
        (void)pthread_join(load.thread, NULL);
    printf("{\"row\":\"mixed\",\"what\":\"%s\",\"beside\":\"%s\",\"size\":%llu,"
           "\"load_bytes_per_second\":%.6g,",
           what, other == NULL ? "nothing" : "pushes", (unsigned long long)bytes_of(party),
           other == NULL ? 0.0 : (double)load.pushes * (double)bytes_of(other) / wall);
    gpu_bench_print_seconds(seconds, samples);
}

/* A message of many small gradients, with its acknowledgement: as a server that keeps small
 * parameters on the device (--device-min-bytes 0) gives it to the runtime. */
static void measure_many(struct party *party, uint32_t samples)
{
    double seconds[GPU_BENCH_SAMPLES_MAX];
    struct ps_device_parameter *parameters[GPU_BENCH_TENSORS];
    struct ps_device_push pushes[GPU_BENCH_TENSORS];
    const struct ps_bytes content = {(const uint8_t *)party->gradient, TENSOR_BYTES};
    struct ps_device_stats before;
    struct ps_device_stats after;
    struct ps_error error = {0};
    struct ps_device_ticket ticket;
    for (size_t i = 0; i < GPU_BENCH_TENSORS; i++)
        parameters[i] = parameter_of(party, TENSOR_BYTES / sizeof(float));
    party->plugin->stats(party->device, &before);
    for (uint32_t k = 0; k <= samples; k++) { /* the first one warms up */
        uint64_t begin = ps_clock_precise_ns();
        const struct ps_optimizer_step step = step_of(party);
        for (size_t i = 0; i < GPU_BENCH_TENSORS; i++)
            pushes[i] = (struct ps_device_push){
                .parameter = parameters[i], .gradient = ps_view_of(&content), .step = &step};
        must(party->plugin->push(party->device, pushes, GPU_BENCH_TENSORS, &ticket, &error),
             &error);
        must(party->plugin->wait(party->device, ticket, &error), &error);
        if (k > 0)
            seconds[k - 1] = seconds_since(begin);
    }
    party->plugin->stats(party->device, &after);
    printf("{\"row\":\"many\",\"tensors\":%u,\"size\":%u,\"kernels\":%llu,\"copies\":%llu,",
           GPU_BENCH_TENSORS, TENSOR_BYTES,
           (unsigned long long)((after.kernel_count - before.kernel_count) / (samples + 1)),
           (unsigned long long)((after.copy_count - before.copy_count) / (samples + 1)));
    gpu_bench_print_seconds(seconds, samples);
    for (size_t i = 0; i < GPU_BENCH_TENSORS; i++)
        party->plugin->parameter_destroy(parameters[i]);
}

/* A card or a system that refuses to pin ordinary memory is said. */
static void measure_registered(struct party *party, uint32_t samples)
{
    struct ps_error error = {0};
    if (party->plugin->host_register(party->device, party->gradient, bytes_of(party), &error) !=
        PS_OK) {
        printf("{\"row\":\"absent\",\"what\":\"registered\",\"why\":\"%s\"}\n", error.text);
        return;
    }
    measure("push_registered", push, party, NULL, samples);
    party->plugin->host_unregister(party->device, party->gradient);
}

void gpu_bench_mixed(uint64_t size_max, uint32_t samples)
{
    const struct ps_device_options options = {.memory = ps_allocator_heap()};
    const struct ps_device_plugin *plugin = ps_device_entry(PS_DEVICE_ABI);
    struct ps_device *device = NULL;
    struct ps_error error = {0};
    uint32_t few = samples > 10 ? 10 : samples;
    must(plugin->open(&options, &device, &error), &error);
    struct party party = party_open(plugin, device, size_max / 4);
    struct party other = party_open(plugin, device, size_max / 16);
    party_begin(&party);
    party_begin(&other);
    measure("pull", pull, &party, NULL, few);
    measure("pull", pull, &party, &other, few);
    measure("push", push, &party, NULL, few);
    measure_registered(&party, few);
    measure("push_and_pull", push_and_pull, &party, NULL, few);
    measure("push_and_pull", push_and_pull, &party, &other, few);
    measure("snapshot", snapshot, &party, NULL, few);
    measure("snapshot", snapshot, &party, &other, few);
    measure_many(&party, few);
    party_close(&other);
    party_close(&party);
    plugin->close(device);
}
