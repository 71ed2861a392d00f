/* SPDX-License-Identifier: Apache-2.0 */
/* Pushes of a gradient that another process has on the device, and pulls to there: what a server
 * and a trainer on one GPU do. The other process is made before this one has spoken to the driver:
 * CUDA does not outlive a fork. */
#include "gpu_bench.h"

#include "base/clock.h"
#include "optimizer/device.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PART_BYTES (16u << 20)

extern ps_device_entry_fn ps_device_entry;

/* What is sent back: the name of its memory, or why there is none. */
struct answer {
    enum ps_status status;
    char text[128];
    struct ps_device_share share;
};

static void must(enum ps_status status, const struct ps_error *error)
{
    if (status != PS_OK)
        gpu_bench_fail(error->text);
}

/* Numbers of ordinary size, a part at a time. */
static enum ps_status fill(const struct ps_device_sharing *sharing, uint8_t *memory, uint64_t size,
                           struct ps_error *error)
{
    float *part = malloc(PART_BYTES);
    if (part == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a gradient");
    for (uint32_t i = 0; i < PART_BYTES / sizeof *part; i++)
        part[i] = (float)(int32_t)(i * 2654435761U | 1) / 1073741824.0F;
    enum ps_status status = PS_OK;
    for (uint64_t done = 0; status == PS_OK && done < size; done += PART_BYTES) {
        uint64_t rest = size - done;
        status = sharing->copy(memory + done, part, rest < PART_BYTES ? rest : PART_BYTES,
                               PS_DEVICE_COPY_FROM_HOST, error);
    }
    free(part);
    return status;
}

/* Asks for memory when it is told how much, and keeps it until this process ends. */
static _Noreturn void lend(int orders, int answers)
{
    const struct ps_device_sharing *sharing = &ps_device_entry(PS_DEVICE_ABI)->sharing;
    struct answer answer = {0};
    struct ps_error error = {0};
    uint64_t size = 0;
    void *memory = NULL;
    uint8_t *base = NULL;
    if (read(orders, &size, sizeof size) != sizeof size)
        _exit(EXIT_SUCCESS);
    answer.status = sharing->acquire(size, &memory, &error);
    if (answer.status == PS_OK)
        answer.status = fill(sharing, memory, size, &error);
    if (answer.status == PS_OK)
        answer.status = sharing->name(memory, &answer.share, &base, &error);
    (void)snprintf(answer.text, sizeof answer.text, "%.127s", error.text);
    if (write(answers, &answer, sizeof answer) != sizeof answer)
        _exit(EXIT_FAILURE);
    /* Until the pipe ends. */
    (void)!read(orders, &size, sizeof size);
    _exit(EXIT_SUCCESS);
}

struct gpu_lender gpu_bench_lender(void)
{
    int orders[2], answers[2];
    if (pipe(orders) != 0 || pipe(answers) != 0)
        gpu_bench_fail("no pipe");
    pid_t child = fork();
    if (child < 0)
        gpu_bench_fail("no process");
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close(orders[1]);
        lend(orders[0], answers[1]);
    }
    (void)close(orders[0]);
    (void)close(answers[1]);
    return (struct gpu_lender){.orders = orders[1], .answers = answers[0]};
}

/* One parameter under AdamW, and the other process's memory. */
struct shared {
    const struct ps_device_plugin *plugin;
    struct ps_device *device;
    struct ps_optimizer_settings settings;
    struct ps_device_parameter *parameter;
    uint8_t *memory;
    uint64_t size;
    uint64_t step;
};

static struct ps_optimizer_step step_of(struct shared *shared, const struct ps_gradient_scan *scan)
{
    struct ps_optimizer_step step;
    struct ps_error error = {0};
    must(ps_optimizer_prepare(&shared->settings, PS_F32, ++shared->step, 0, scan, &step, &error),
         &error);
    return step;
}

/* As a server's acknowledgement waits for it. */
static void push(struct shared *shared)
{
    const struct ps_bytes content = {shared->memory, shared->size};
    const struct ps_gradient_scan scan = {0};
    const struct ps_optimizer_step step = step_of(shared, &scan);
    const struct ps_device_push it = {
        .parameter = shared->parameter, .gradient = ps_view_of(&content), .step = &step};
    struct ps_device_ticket ticket;
    struct ps_error error = {0};
    must(shared->plugin->push(shared->device, &it, 1, &ticket, &error), &error);
    must(shared->plugin->wait(shared->device, ticket, &error), &error);
}

/* The same with a look at every element before, as a server does by default. */
static void judge(struct shared *shared)
{
    const struct ps_bytes content = {shared->memory, shared->size};
    struct ps_device_judged *judged = NULL;
    struct ps_gradient_scan scan;
    struct ps_device_ticket ticket;
    struct ps_error error = {0};
    must(shared->plugin->judge(shared->parameter, &shared->settings, ps_view_of(&content),
                               PS_ENCODING_NATIVE, &judged, &scan, &error),
         &error);
    const struct ps_optimizer_step step = step_of(shared, &scan);
    must(shared->plugin->push_judged(judged, &step, &ticket, &error), &error);
    shared->plugin->judged_release(judged);
    must(shared->plugin->wait(shared->device, ticket, &error), &error);
}

static void pull(struct shared *shared)
{
    struct ps_device_ticket ticket;
    struct ps_error error = {0};
    must(shared->plugin->copy_out(shared->parameter, PS_DEVICE_VALUES, 0, shared->memory,
                                  shared->size, &ticket, &error),
         &error);
    must(shared->plugin->wait(shared->device, ticket, &error), &error);
}

static void measure(const char *what, void (*run)(struct shared *shared), struct shared *shared,
                    uint32_t samples)
{
    double seconds[GPU_BENCH_SAMPLES_MAX];
    run(shared); /* warms up */
    for (uint32_t i = 0; i < samples; i++) {
        uint64_t begin = ps_clock_precise_ns();
        run(shared);
        seconds[i] = (double)(ps_clock_precise_ns() - begin) / 1e9;
    }
    printf("{\"row\":\"shared\",\"what\":\"%s\",\"size\":%llu,", what,
           (unsigned long long)shared->size);
    gpu_bench_print_seconds(seconds, samples);
}

static void absent(const char *why)
{
    printf("{\"row\":\"absent\",\"what\":\"shared\",\"why\":\"%s\"}\n", why);
}

/* A machine that lets no process open another's memory is said. */
static void measure_all(struct shared *shared, const struct answer *answer, uint32_t samples)
{
    const struct ps_device_parameter_wish wish = {
        .settings = &shared->settings, .dtype = PS_F32, .count = shared->size / sizeof(float)};
    struct ps_error error = {0};
    if (shared->plugin->import(shared->device, &answer->share, &shared->memory, &error) != PS_OK) {
        absent(error.text);
        return;
    }
    must(shared->plugin->parameter_create(shared->device, &wish, &shared->parameter, &error),
         &error);
    measure("push", push, shared, samples);
    measure("push_looked_at", judge, shared, samples);
    measure("pull", pull, shared, samples);
    shared->plugin->unimport(shared->device, shared->memory);
    shared->plugin->parameter_destroy(shared->parameter);
}

void gpu_bench_shared(const struct gpu_lender *lender, uint64_t size_max, uint32_t samples)
{
    const struct ps_device_options options = {.memory = ps_allocator_heap()};
    struct shared shared = {.plugin = ps_device_entry(PS_DEVICE_ABI),
                            .settings = {.rule = PS_RULE_ADAMW,
                                         .learning_rate = {.rate = 0.001},
                                         .decay = 0.01,
                                         .beta_1 = 0.9,
                                         .beta_2 = 0.999,
                                         .epsilon = 1e-8},
                            .size = size_max};
    struct answer answer = {.status = PS_ERR_IO, .text = "the other process has ended"};
    struct ps_error error = {0};
    if (write(lender->orders, &size_max, sizeof size_max) != sizeof size_max ||
        read(lender->answers, &answer, sizeof answer) != sizeof answer || answer.status != PS_OK) {
        absent(answer.text);
        return;
    }
    must(shared.plugin->open(&options, &shared.device, &error), &error);
    measure_all(&shared, &answer, samples > 10 ? 10 : samples);
    shared.plugin->close(shared.device);
    (void)close(lender->orders);
    (void)close(lender->answers);
}
