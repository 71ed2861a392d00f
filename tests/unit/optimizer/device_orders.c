/* SPDX-License-Identifier: Apache-2.0 */
/* Three parameters, pushed to in turn and together, read and copied while pushes go on. The larger
 * one takes two slots of the ring for each gradient, so that slots are used again. To the third
 * go gradients that nobody has looked at, one of which is refused. */
#include "device_orders.h"

#include "base/assert.h"
#include "base/random.h"
#include "optimizer/device.h"
#include "optimizer/encoded.h"
#include "optimizer/sum.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE 20003
#define SMALL 301
#define ROOM 32768 /* for the largest */
#define PUSHES 4

/* As small as a ring can be, two slots of 64 KiB, and one of four. A gradient that is to be looked
 * at fills half of it. */
#define RING_BYTES (128u << 10)
#define JUDGED(slots) ((slots) / 2 * 16384 - 97)

extern ps_device_entry_fn ps_device_entry;

/* What the CPU does with the same gradients. */
struct reference {
    struct ps_optimizer_settings settings;
    size_t count;
    struct ps_device_parameter *parameter;
    uint64_t step;
    float values[ROOM];
    float states[PS_STATES_MAX][ROOM];
};

struct training {
    const struct ps_device_plugin *plugin;
    struct ps_device *device;
    struct ps_random random;
    struct reference large;
    struct reference small;
    struct reference judged;
    float gradient[2][ROOM];
    uint8_t encoded[2][ROOM * sizeof(float)];
    size_t slots;
    float seen[ROOM];
    float kept[LARGE];    /* what a read that was begun should see */
    struct ps_bytes read; /* pinned */
    bool right;
};

static void must(enum ps_status status, const struct ps_error *error)
{
    if (status == PS_OK)
        return;
    (void)fprintf(stderr, "device_orders: %s\n", error->text);
    abort();
}

/* False when the probe, which is the first to compute, has got other bits already. */
static bool open_device(struct training *training, uint64_t seed)
{
    char text[32];
    struct ps_error error = {0};
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    (void)setenv("PS_EMULATOR_SEED", text, 1);
    training->slots = seed % 2 == 0 ? 2 : 4;
    const struct ps_device_options options = {.pinned_bytes = RING_BYTES / 2 * training->slots,
                                              .memory = ps_allocator_heap()};
    training->plugin = ps_device_entry(PS_DEVICE_ABI);
    enum ps_status status = training->plugin->open(&options, &training->device, &error);
    if (status == PS_ERR_INTERNAL)
        return false;
    must(status, &error);
    training->read.size = LARGE * sizeof(float);
    training->read.data = training->plugin->host_acquire(training->device, training->read.size);
    return true;
}

static void create(struct training *training, struct reference *reference, enum ps_rule rule,
                   size_t count)
{
    struct ps_error error = {0};
    *reference = (struct reference){.count = count};
    reference->settings = (struct ps_optimizer_settings){.rule = rule,
                                                         .learning_rate = {.rate = 0.01},
                                                         .beta_1 = 0.9,
                                                         .beta_2 = 0.999,
                                                         .epsilon = 1e-8};
    const struct ps_device_parameter_wish wish = {
        .settings = &reference->settings, .dtype = PS_F32, .count = count};
    must(training->plugin->parameter_create(training->device, &wish, &reference->parameter, &error),
         &error);
    for (size_t i = 0; i < count; i++)
        reference->values[i] = (float)((int64_t)(ps_random_next(&training->random) % 2001) - 1000);
    const struct ps_bytes values = {(const uint8_t *)reference->values, count * sizeof(float)};
    must(training->plugin->write(reference->parameter, 0, 0, ps_view_of(&values), &error), &error);
}

/* A gradient for the device in `encoding`, applied by the CPU from what it decodes to. */
static struct ps_device_push next_push(struct training *training, struct reference *reference,
                                       int which, enum ps_encoding encoding,
                                       struct ps_bytes *content, struct ps_optimizer_step *step)
{
    struct ps_error error = {0};
    float *gradient = training->gradient[which];
    uint8_t *encoded = training->encoded[which];
    for (size_t i = 0; i < reference->count; i++)
        gradient[i] = (float)((int64_t)(ps_random_next(&training->random) % 4001) - 2000) / 64.0F;
    must(ps_encode_all(encoding, PS_F32, gradient, reference->count, encoded, &error), &error);
    ps_decode_all(encoding, PS_F32, encoded, reference->count, gradient);

    const struct ps_gradient_scan scan = {0};
    must(ps_optimizer_prepare(&reference->settings, PS_F32, ++reference->step, 0, &scan, step,
                              &error),
         &error);
    void *const states[PS_STATES_MAX] = {reference->states[0], reference->states[1]};
    ps_optimizer_apply(step, 0, reference->count, reference->values, states, gradient);
    *content =
        (struct ps_bytes){encoded, (size_t)ps_encoding_bytes(encoding, PS_F32, reference->count)};
    return (struct ps_device_push){.parameter = reference->parameter,
                                   .gradient = ps_view_of(content),
                                   .encoding = encoding,
                                   .step = step};
}

static void push_both(struct training *training, enum ps_encoding encoding)
{
    struct ps_error error = {0};
    struct ps_optimizer_step steps[2];
    struct ps_bytes contents[2];
    const struct ps_device_push pushes[2] = {
        next_push(training, &training->large, 0, encoding, &contents[0], &steps[0]),
        next_push(training, &training->small, 1, encoding, &contents[1], &steps[1])};
    struct ps_device_ticket ticket;
    must(training->plugin->push(training->device, pushes, 2, &ticket, &error), &error);
}

/* As it comes, with everything that there is to be found. */
static void push_judged(struct training *training, bool refused)
{
    struct ps_error error = {0};
    struct reference *reference = &training->judged;
    struct ps_device_judged *judged = NULL;
    struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    struct ps_device_ticket ticket;
    float *gradient = training->gradient[0];
    for (size_t i = 0; i < reference->count; i++)
        gradient[i] = (float)((int64_t)(ps_random_next(&training->random) % 4001) - 2000) / 64.0F;
    if (refused)
        gradient[ps_random_next(&training->random) % reference->count] = NAN;
    const struct ps_bytes content = {(const uint8_t *)gradient, reference->count * sizeof(float)};
    const struct ps_view view = ps_view_of(&content);
    PS_ASSERT(training->plugin->judges(reference->parameter, view, PS_ENCODING_NATIVE));
    must(training->plugin->judge(reference->parameter, &reference->settings, view,
                                 PS_ENCODING_NATIVE, &judged, &scan, &error),
         &error);

    struct ps_gradient_scan expected = {0};
    ps_optimizer_scan(&reference->settings, PS_F32, gradient, reference->count, &expected);
    double sum = ps_sum_total(&expected);
    training->right = training->right && scan.nonfinite == refused &&
                      scan.nonfinite_index == expected.nonfinite_index &&
                      (refused || memcmp(&scan.square_sum, &sum, sizeof sum) == 0);
    if (refused || !training->right) {
        training->plugin->judged_release(judged);
        return;
    }
    must(ps_optimizer_prepare(&reference->settings, PS_F32, ++reference->step, 0, &expected, &step,
                              &error),
         &error);
    must(training->plugin->push_judged(judged, &step, &ticket, &error), &error);
    training->plugin->judged_release(judged);
    void *const states[PS_STATES_MAX] = {reference->states[0], reference->states[1]};
    ps_optimizer_apply(&step, 0, reference->count, reference->values, states, gradient);
}

static void compare(struct training *training, struct reference *reference, uint32_t array)
{
    struct ps_error error = {0};
    size_t size = reference->count * sizeof(float);
    const float *expected = array == 0 ? reference->values : reference->states[array - 1];
    must(training->plugin->read(reference->parameter, array, 0, training->seen, size, &error),
         &error);
    training->right = training->right && memcmp(training->seen, expected, size) == 0;
}

/* The read shows what was pushed before it and nothing of what comes after. */
static void train(struct training *training)
{
    static const enum ps_encoding encodings[PUSHES] = {PS_ENCODING_NATIVE, PS_ENCODING_BFLOAT16,
                                                       PS_ENCODING_INT8, PS_ENCODING_FLOAT16};
    struct ps_error error = {0};
    struct ps_device_ticket ticket = {0};
    push_judged(training, false);
    push_judged(training, true);
    push_both(training, encodings[0]);
    push_both(training, encodings[1]);
    memcpy(training->kept, training->large.values, sizeof training->kept);
    must(training->plugin->read_begin(training->large.parameter, 0, 0, &training->read, 1, &ticket,
                                      &error),
         &error);
    push_both(training, encodings[2]);
    push_both(training, encodings[3]);
    push_judged(training, false);
    must(training->plugin->wait(training->device, ticket, &error), &error);
    training->right =
        training->right && memcmp(training->read.data, training->kept, sizeof training->kept) == 0;
}

static void close_device(struct training *training)
{
    training->plugin->parameter_destroy(training->large.parameter);
    training->plugin->parameter_destroy(training->small.parameter);
    training->plugin->parameter_destroy(training->judged.parameter);
    training->plugin->host_release(training->device, (void *)training->read.data,
                                   training->read.size);
    training->plugin->close(training->device);
}

static bool run(struct training *training, uint64_t seed)
{
    if (!open_device(training, seed))
        return false;
    training->right = true;
    create(training, &training->large, PS_RULE_ADAM, LARGE);
    create(training, &training->small, PS_RULE_ADAM, SMALL);
    create(training, &training->judged, PS_RULE_ADAM, JUDGED(training->slots));
    training->judged.settings.clip_norm = 10;
    train(training);
    for (uint32_t array = 0; array < 3; array++) {
        compare(training, &training->large, array);
        compare(training, &training->small, array);
        compare(training, &training->judged, array);
    }
    close_device(training);
    return training->right;
}

bool ps_device_order_is_right(uint64_t seed)
{
    struct training *training = calloc(1, sizeof *training);
    PS_ASSERT(training != NULL);
    ps_random_init(&training->random, seed);
    bool right = run(training, seed);
    free(training);
    return right;
}
