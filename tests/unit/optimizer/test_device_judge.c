/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/device/device_judge.c: gradients that nobody has looked at. The device finds what the
 * CPU's scan finds, in every type and encoding, at odd lengths and wherever the strange element is;
 * and after whatever it decides values and states have the CPU's bits. */
#include "optimizer/device.h"
#include "optimizer/encoded.h"
#include "rule_cases.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Eight slots of 64 KiB: a gradient to be looked at may take four. */
#define RING_BYTES (512u << 10)
#define SLOT_BYTES (64u << 10)
#define COUNT_MAX 30011

extern ps_device_entry_fn ps_device_entry;

static const struct ps_device_plugin *plugin;
static struct ps_device *device;

/* What one push is like. */
struct trial {
    enum ps_dtype dtype;
    enum ps_encoding encoding;
    size_t count;
    size_t strange; /* this element, or one near it, is not finite; count: none is */
    double value;   /* that it has */
    struct ps_optimizer_settings settings;
};

/* The CPU's side. */
static uint8_t content[COUNT_MAX * 8];
static size_t content_size;
static double decoded[COUNT_MAX]; /* these three are of the parameter's type */
static double values[COUNT_MAX];
static double states[PS_STATES_MAX][COUNT_MAX];
static uint64_t step_number;

static void begin(void)
{
    struct ps_error error = {0};
    const struct ps_device_options options = {.pinned_bytes = RING_BYTES,
                                              .memory = ps_allocator_heap()};
    plugin = ps_device_entry(PS_DEVICE_ABI);
    enum ps_status status = plugin->open(&options, &device, &error);
    ck_assert_msg(status == PS_OK, "%s", error.text);
}

/* ---- Gradients ---- */

static void put(enum ps_dtype dtype, void *array, size_t index, double value)
{
    float narrow = (float)value;
    size_t size = ps_dtype_size(dtype);
    memcpy((uint8_t *)array + index * size, dtype == PS_F32 ? (void *)&narrow : (void *)&value,
           size);
}

static void put_half(enum ps_encoding encoding, size_t index, double value)
{
    uint16_t bits = encoding == PS_ENCODING_BFLOAT16 ? 0x7f80 : 0x7c00;
    if (isnan(value))
        bits |= 0x40;
    else if (value < 0)
        bits |= 0x8000;
    memcpy(content + index * sizeof bits, &bits, sizeof bits);
}

/* Puts the strange element into bytes that were encoded without it. */
static void spoil(const struct trial *trial)
{
    const size_t i = trial->strange;
    const size_t listed = content_size / 8;
    switch (trial->encoding) {
    case PS_ENCODING_NATIVE:
        put(trial->dtype, content, i, trial->value);
        return;
    case PS_ENCODING_FLOAT32:
        put(PS_F32, content, i, trial->value);
        return;
    case PS_ENCODING_FLOAT64:
        put(PS_F64, content, i, trial->value);
        return;
    case PS_ENCODING_INT8: /* finite in itself, and a float has no room for 127 times as much */
        put(PS_F32, content, i / PS_ENCODING_GROUP, 3e38);
        content[ps_encoding_groups(trial->count) * 4 + i] = 127;
        return;
    case PS_ENCODING_TOP_K:
        put(PS_F32, content, listed + i * listed / trial->count, trial->value);
        return;
    default:
        put_half(trial->encoding, i, trial->value);
        return;
    }
}

static void decode_listed(const struct trial *trial)
{
    const size_t listed = content_size / 8;
    memset(decoded, 0, sizeof decoded);
    for (size_t j = 0; j < listed; j++) {
        uint32_t index;
        float value;
        memcpy(&index, content + j * 4, sizeof index);
        memcpy(&value, content + (listed + j) * 4, sizeof value);
        put(trial->dtype, decoded, index, (double)value);
    }
}

static void make_gradient(const struct trial *trial)
{
    static double elements[COUNT_MAX];
    struct ps_error error = {0};
    const size_t kept = trial->count / 5 + 1;
    for (size_t i = 0; i < trial->count; i++)
        put(trial->dtype, elements, i, sin((double)i + 1) * 3);
    if (trial->encoding == PS_ENCODING_TOP_K) {
        content_size = kept * 8;
        ps_encode_top_k(trial->dtype, elements, trial->count, kept, content);
    } else {
        content_size = (size_t)ps_encoding_bytes(trial->encoding, trial->dtype, trial->count);
        ck_assert_int_eq(
            ps_encode_all(trial->encoding, trial->dtype, elements, trial->count, content, &error),
            PS_OK);
    }
    if (trial->strange < trial->count)
        spoil(trial);
    if (trial->encoding == PS_ENCODING_TOP_K)
        decode_listed(trial);
    else
        ps_decode_all(trial->encoding, trial->dtype, content, trial->count, decoded);
}

/* ---- Both sides ---- */

static struct ps_device_parameter *make_parameter(const struct trial *trial)
{
    struct ps_device_parameter *parameter = NULL;
    const struct ps_device_parameter_wish wish = {
        .settings = &trial->settings, .dtype = trial->dtype, .count = trial->count};
    const struct ps_bytes bytes = {(const uint8_t *)values,
                                   trial->count * ps_dtype_size(trial->dtype)};
    ck_assert_int_eq(plugin->parameter_create(device, &wish, &parameter, NULL), PS_OK);
    for (size_t i = 0; i < trial->count; i++)
        put(trial->dtype, values, i, cos((double)i));
    for (uint32_t i = 0; i < ps_rule_states(trial->settings.rule); i++)
        ps_optimizer_fill(trial->dtype, ps_optimizer_state_start(&trial->settings, i), states[i],
                          trial->count);
    ck_assert_int_eq(plugin->write(parameter, 0, 0, ps_view_of(&bytes), NULL), PS_OK);
    step_number = 0;
    return parameter;
}

static enum ps_status prepare(const struct trial *trial, const struct ps_gradient_scan *scan,
                              struct ps_optimizer_step *step, struct ps_error *error)
{
    return ps_optimizer_prepare(&trial->settings, trial->dtype, step_number + 1, 7, scan, step,
                                error);
}

/* It is looked at, and pushed if it counts. */
static void push_on_device(const struct trial *trial, struct ps_device_parameter *parameter,
                           struct ps_gradient_scan *scan)
{
    struct ps_device_judged *judged = NULL;
    struct ps_optimizer_step step;
    struct ps_device_ticket ticket = {0};
    /* Cut somewhere, as messages are. */
    const size_t cut = content_size / 3;
    const struct ps_bytes pieces[] = {{content, cut}, {content + cut, content_size - cut}};
    const struct ps_view view = {pieces, 2, content_size};
    ck_assert(plugin->judges(parameter, view, trial->encoding));
    ck_assert_int_eq(
        plugin->judge(parameter, &trial->settings, view, trial->encoding, &judged, scan, NULL),
        PS_OK);
    if (prepare(trial, scan, &step, NULL) == PS_OK && !step.skip) {
        ck_assert_int_eq(plugin->push_judged(judged, &step, &ticket, NULL), PS_OK);
        ck_assert_uint_gt(ticket.compute, 0);
    }
    plugin->judged_release(judged);
}

/* What the device found is what the CPU finds, and says the same. True: the push counts. */
static bool expect_same_finding(const struct trial *trial, const struct ps_gradient_scan *there)
{
    struct ps_gradient_scan here = {0};
    struct ps_optimizer_step step;
    struct ps_optimizer_step step_there;
    struct ps_error error = {0};
    struct ps_error error_there = {0};
    ps_optimizer_scan(&trial->settings, trial->dtype, decoded, trial->count, &here);
    enum ps_status status = prepare(trial, &here, &step, &error);

    ck_assert_int_eq(here.nonfinite, there->nonfinite);
    ck_assert_uint_eq(here.nonfinite_index, there->nonfinite_index);
    ck_assert_int_eq(prepare(trial, there, &step_there, &error_there), status);
    ck_assert_str_eq(error_there.text, error.text);
    if (status != PS_OK)
        return false;
    ck_assert_int_eq(step.skip, step_there.skip);
    bool is_nan = isnan(step.f64.scale) && isnan(step_there.f64.scale);
    ck_assert(is_nan || memcmp(&step.f64.scale, &step_there.f64.scale, sizeof(double)) == 0);
    if (step.skip)
        return false;
    void *const arrays[PS_STATES_MAX] = {states[0], states[1]};
    ps_optimizer_apply(&step, 0, trial->count, values, arrays, decoded);
    step_number++;
    return true;
}

static void expect_same_bits(const struct trial *trial, struct ps_device_parameter *parameter)
{
    static double seen[COUNT_MAX];
    size_t size = trial->count * ps_dtype_size(trial->dtype);
    for (uint32_t i = 0; i < 1 + ps_rule_states(trial->settings.rule); i++) {
        const void *expected = i == 0 ? values : states[i - 1];
        ck_assert_int_eq(plugin->read(parameter, i, 0, seen, size, NULL), PS_OK);
        ck_assert(rule_case_equal(trial->dtype, seen, expected, trial->count));
    }
}

/* The gradient with the strange element, and then one without it: a push that was refused is none
 * that the next one counts. */
static bool run(const struct trial *trial)
{
    struct ps_gradient_scan scan;
    struct trial plain = *trial;
    struct ps_device_parameter *parameter = make_parameter(trial);
    plain.strange = plain.count;
    make_gradient(trial);
    push_on_device(trial, parameter, &scan);
    bool counts = expect_same_finding(trial, &scan);
    make_gradient(&plain);
    push_on_device(&plain, parameter, &scan);
    (void)expect_same_finding(&plain, &scan);
    expect_same_bits(trial, parameter);
    plugin->parameter_destroy(parameter);
    return counts;
}

static struct ps_optimizer_settings settings_of(enum ps_rule rule, double clip_norm,
                                                enum ps_nonfinite nonfinite)
{
    return (struct ps_optimizer_settings){.rule = rule,
                                          .learning_rate = {.rate = 0.1},
                                          .momentum = rule == PS_RULE_MOMENTUM ? 0.9 : 0,
                                          .beta_1 = 0.9,
                                          .beta_2 = 0.999,
                                          .epsilon = 1e-8,
                                          .clip_norm = clip_norm,
                                          .nonfinite = nonfinite};
}

/* First, last, in a pack, around the end of a sum's group and that of a slot, in the tail, none. */
static size_t strange_place(const struct trial *trial, size_t which)
{
    const size_t in_slot = SLOT_BYTES / ps_dtype_size(trial->dtype);
    const size_t places[] = {0, 1, trial->count / 2, 4095, 4096, 4097, in_slot - 1, in_slot, 0, 0};
    if (which == 8)
        return trial->count - 1;
    if (which == 9)
        return trial->count;
    return places[which] < trial->count ? places[which] : trial->count - 2;
}

#define PLACES 10

/* The long one goes through several slots: the beginning of the second and the end are what is
 * special in it. */
static const size_t counts[] = {3, 4097, COUNT_MAX};
#define FIRST_PLACE(count) ((count) < COUNT_MAX ? 0 : 7)
#define PLACES_OF(count) ((count) < COUNT_MAX ? PLACES : 9)

/* _i: type, encoding and whether there is a clip_norm. */
START_TEST(the_device_finds_what_the_cpu_finds_and_does_what_it_does)
{
    static const double strange[] = {NAN, INFINITY, -INFINITY};
    static const enum ps_nonfinite policies[] = {PS_NONFINITE_REJECT, PS_NONFINITE_SKIP,
                                                 PS_NONFINITE_ALLOW};
    struct trial trial = {.dtype = _i % 2 == 0 ? PS_F32 : PS_F64,
                          .encoding = (enum ps_encoding)(_i / 2 % PS_ENCODING_COUNT)};
    double clip_norm = _i / 2 / PS_ENCODING_COUNT == 0 ? 0 : 1.5;
    size_t number = (size_t)_i;
    size_t refused = 0;
    begin();
    for (size_t length = 0; length < sizeof counts / sizeof counts[0]; length++) {
        for (size_t place = FIRST_PLACE(counts[length]); place < PLACES_OF(counts[length]);
             place++, number++) {
            trial.count = counts[length];
            /* Half of the ring holds so many doubles. */
            if (trial.encoding == PS_ENCODING_FLOAT64 || trial.encoding == PS_ENCODING_NATIVE)
                trial.count = trial.count < 4 * SLOT_BYTES / 8 ? trial.count : 4 * SLOT_BYTES / 8;
            trial.strange = strange_place(&trial, place);
            trial.value = strange[number % 3];
            enum ps_rule rule = number % 2 == 0 ? PS_RULE_ADAM : PS_RULE_MOMENTUM;
            trial.settings = settings_of(rule, clip_norm, policies[number / 3 % 3]);
            refused += run(&trial) ? 0 : 1;
        }
    }
    /* 127 * 3e38 is a double like any other. */
    ck_assert(refused > 0 || (trial.dtype == PS_F64 && trial.encoding == PS_ENCODING_INT8));
    plugin->close(device);
}
END_TEST

/* Finite elements, and the sum of their squares is not. */
START_TEST(a_norm_without_end_is_refused_or_skipped)
{
    struct trial trial = {.dtype = PS_F64, .count = 9001, .strange = 77, .value = 1e200};
    trial.settings = settings_of(PS_RULE_SGD, 1, _i == 0 ? PS_NONFINITE_REJECT : PS_NONFINITE_SKIP);
    begin();

    ck_assert(!run(&trial));

    plugin->close(device);
}
END_TEST

START_TEST(a_gradient_that_fills_more_than_half_of_the_ring_is_not_for_the_device)
{
    static uint8_t bytes[4 * SLOT_BYTES + 4];
    const struct ps_optimizer_settings sgd = settings_of(PS_RULE_SGD, 0, PS_NONFINITE_REJECT);
    begin();
    for (size_t more = 0; more < 2; more++) {
        struct ps_device_parameter *parameter = NULL;
        const struct ps_bytes piece = {bytes, 4 * SLOT_BYTES + 4 * more};
        const struct ps_device_parameter_wish wish = {
            .settings = &sgd, .dtype = PS_F32, .count = piece.size / 4};
        ck_assert_int_eq(plugin->parameter_create(device, &wish, &parameter, NULL), PS_OK);

        ck_assert_int_eq(plugin->judges(parameter, ps_view_of(&piece), PS_ENCODING_NATIVE),
                         more == 0);

        plugin->parameter_destroy(parameter);
    }
    plugin->close(device);
}
END_TEST

/* Eight bytes that stand for two million elements: their sums would have no room. */
START_TEST(a_list_for_more_elements_than_there_is_room_for_sums_is_not_for_the_device)
{
    const uint8_t bytes[8] = {0};
    const struct ps_bytes piece = {bytes, sizeof bytes};
    const struct ps_optimizer_settings sgd = settings_of(PS_RULE_SGD, 1, PS_NONFINITE_REJECT);
    const struct ps_device_parameter_wish wish = {
        .settings = &sgd, .dtype = PS_F32, .count = 4u << 20};
    struct ps_device_parameter *parameter = NULL;
    begin();
    ck_assert_int_eq(plugin->parameter_create(device, &wish, &parameter, NULL), PS_OK);

    ck_assert(!plugin->judges(parameter, ps_view_of(&piece), PS_ENCODING_TOP_K));

    plugin->parameter_destroy(parameter);
    plugin->close(device);
}
END_TEST

/* Each kernel of the push in turn ends the device: two scans, the verdict's two, the updates. */
START_TEST(when_a_kernel_breaks_the_push_fails_or_its_ticket_does)
{
    char fail[32];
    struct trial trial = {.dtype = PS_F32, .count = 20011, .strange = 20011};
    struct ps_device_judged *judged = NULL;
    struct ps_device_ticket ticket = {0};
    struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    struct ps_error error = {0};
    trial.settings = settings_of(PS_RULE_SGD, 1, PS_NONFINITE_REJECT);
    (void)snprintf(fail, sizeof fail, "launch:%d:700", 2 + _i);
    (void)setenv("PS_EMULATOR_FAIL", fail, 1);
    begin();
    struct ps_device_parameter *parameter = make_parameter(&trial);
    make_gradient(&trial);
    const struct ps_bytes piece = {content, content_size};
    const struct ps_view view = ps_view_of(&piece);
    ck_assert_int_eq(prepare(&trial, &scan, &step, NULL), PS_OK);

    enum ps_status status =
        plugin->judge(parameter, &trial.settings, view, PS_ENCODING_NATIVE, &judged, &scan, &error);
    if (status == PS_OK)
        status = plugin->push_judged(judged, &step, &ticket, &error);
    if (status == PS_OK)
        status = plugin->wait(device, ticket, &error);

    ck_assert_int_eq(status, PS_ERR_UNAVAILABLE);
    ck_assert(plugin->dead(device, NULL));
    plugin->judged_release(judged);
    judged = NULL;
    ck_assert_int_eq(
        plugin->judge(parameter, &trial.settings, view, PS_ENCODING_NATIVE, &judged, &scan, &error),
        PS_ERR_UNAVAILABLE);
    ck_assert_ptr_null(judged);
    plugin->parameter_destroy(parameter);
    plugin->close(device);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_judge");
    TCase *tests = tcase_create("device_judge");
    tcase_set_timeout(tests, 120);
    ps_optimizer_enter_thread();
    tcase_add_loop_test(tests, the_device_finds_what_the_cpu_finds_and_does_what_it_does, 0,
                        2 * 2 * PS_ENCODING_COUNT);
    tcase_add_loop_test(tests, a_norm_without_end_is_refused_or_skipped, 0, 2);
    tcase_add_test(tests, a_gradient_that_fills_more_than_half_of_the_ring_is_not_for_the_device);
    tcase_add_test(tests,
                   a_list_for_more_elements_than_there_is_room_for_sums_is_not_for_the_device);
    tcase_add_loop_test(tests, when_a_kernel_breaks_the_push_fails_or_its_ticket_does, 0, 6);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
