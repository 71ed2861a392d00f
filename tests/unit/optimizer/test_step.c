/* SPDX-License-Identifier: Apache-2.0 */
/* What a push goes through before the arithmetic: non-finite elements, clips, the rates. */
#include "push.h"
#include "run_suite.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 6

/* One push of SGD with rate 1 from zero: the values end up as minus what the rule saw. */
static struct pushed_parameter parameter(const struct ps_optimizer_settings *settings,
                                         float values[COUNT])
{
    memset(values, 0, COUNT * sizeof values[0]);
    return (struct pushed_parameter){
        .settings = settings, .dtype = PS_F32, .count = COUNT, .values = values};
}

static struct ps_optimizer_settings sgd(void)
{
    return (struct ps_optimizer_settings){.rule = PS_RULE_SGD, .learning_rate = {.rate = 1}};
}

START_TEST(b20_clip_value_holds_each_element)
{
    struct ps_optimizer_settings settings = sgd();
    settings.clip_value = 0.5;
    const float gradient[COUNT] = {0.25F, -0.25F, 3, -3, 0.5F, 0};
    const float held[COUNT] = {-0.25F, 0.25F, -0.5F, 0.5F, -0.5F, 0};
    float values[COUNT];
    struct pushed_parameter pushed = parameter(&settings, values);

    ck_assert_int_eq(push(&pushed, gradient), PS_OK);

    for (int i = 0; i < COUNT; i++)
        ck_assert_float_eq(values[i], held[i]);
}
END_TEST

START_TEST(b20_clip_norm_scales_the_push)
{
    struct ps_optimizer_settings settings = sgd();
    settings.clip_norm = 2.5;
    const float gradient[COUNT] = {3, 0, 0, -4, 0, 0};
    float values[COUNT];
    struct pushed_parameter pushed = parameter(&settings, values);

    ck_assert_int_eq(push(&pushed, gradient), PS_OK);

    ck_assert_float_eq(values[0], -1.5F);
    ck_assert_float_eq(values[3], 2);
}
END_TEST

START_TEST(b20_clip_norm_leaves_a_small_push_alone)
{
    struct ps_optimizer_settings settings = sgd();
    settings.clip_norm = 5;
    const float gradient[COUNT] = {3, 0, 0, -4, 0, 0};
    float values[COUNT];
    struct pushed_parameter pushed = parameter(&settings, values);

    ck_assert_int_eq(push(&pushed, gradient), PS_OK);

    ck_assert_float_eq(values[0], -3);
    ck_assert_float_eq(values[3], 4);
}
END_TEST

START_TEST(b20_the_norm_is_that_of_the_elements_held_by_clip_value)
{
    struct ps_optimizer_settings settings = sgd();
    settings.clip_value = 4;
    settings.clip_norm = 2.5;
    const float gradient[COUNT] = {3, 0, 0, -400, 0, 0};
    float values[COUNT];
    struct pushed_parameter pushed = parameter(&settings, values);

    ck_assert_int_eq(push(&pushed, gradient), PS_OK);

    ck_assert_float_eq(values[0], -1.5F);
    ck_assert_float_eq(values[3], 2);
}
END_TEST

START_TEST(l2_is_added_after_the_clips)
{
    struct ps_optimizer_settings settings = sgd();
    settings.clip_value = 1;
    settings.l2 = 0.5;
    const float gradient[COUNT] = {7};
    float values[COUNT];
    struct pushed_parameter pushed = parameter(&settings, values);
    values[0] = 100;

    ck_assert_int_eq(push(&pushed, gradient), PS_OK);

    ck_assert_float_eq(values[0], 100 - (1 + 50));
}
END_TEST

START_TEST(b20_every_gradient_rule_clips)
{
    const float gradient[COUNT] = {300, 0, 0, -400, 0, 0};
    const float clipped[COUNT] = {1.5F, 0, 0, -2, 0, 0};
    for (enum ps_rule rule = PS_RULE_SGD; rule <= PS_RULE_FTRL; rule++) {
        struct ps_optimizer_settings with = sgd();
        with.rule = rule;
        with.epsilon = 1e-3;
        with.clip_norm = 2.5;
        struct ps_optimizer_settings without = with;
        without.clip_norm = 0;
        float values[2][COUNT];
        float states[4][COUNT];
        struct pushed_parameter one = parameter(&with, values[0]);
        struct pushed_parameter two = parameter(&without, values[1]);
        for (int i = 0; i < 2; i++) {
            one.states[i] = states[i];
            two.states[i] = states[2 + i];
        }
        push_start(&one);
        push_start(&two);

        ck_assert_int_eq(push(&one, gradient), PS_OK);
        ck_assert_int_eq(push(&two, clipped), PS_OK);

        for (int i = 0; i < COUNT; i++)
            ck_assert_float_eq_tol(values[0][i], values[1][i],
                                   1e-6F * fabsf(values[1][i]) + 1e-30F);
    }
}
END_TEST

START_TEST(a_norm_that_overflows_is_refused)
{
    struct ps_optimizer_settings settings = sgd();
    settings.clip_norm = 1;
    const double gradient[] = {1e200, 1};
    struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    struct ps_error error;

    ps_optimizer_scan(&settings, PS_F64, gradient, 2, &scan);

    ck_assert_int_eq(ps_optimizer_prepare(&settings, PS_F64, 1, 0, &scan, &step, &error),
                     PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "norm"));
}
END_TEST

static const float strange[] = {NAN, INFINITY, -INFINITY};

START_TEST(a_non_finite_push_is_refused_with_its_index)
{
    const struct ps_optimizer_settings settings = sgd();
    const float gradient[COUNT] = {1, 2, FLT_MAX, strange[_i], 4, strange[_i]};
    struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    struct ps_error error;

    ps_optimizer_scan(&settings, PS_F32, gradient, 2, &scan);
    ps_optimizer_scan(&settings, PS_F32, gradient + 2, 4, &scan);

    ck_assert_int_eq(ps_optimizer_prepare(&settings, PS_F32, 1, 0, &scan, &step, &error),
                     PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "element 3 "));
}
END_TEST

START_TEST(a_non_finite_push_is_skipped_when_asked)
{
    struct ps_optimizer_settings settings = sgd();
    settings.nonfinite = PS_NONFINITE_SKIP;
    const float gradient[COUNT] = {1, strange[_i]};
    struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;

    ps_optimizer_scan(&settings, PS_F32, gradient, COUNT, &scan);

    ck_assert_int_eq(ps_optimizer_prepare(&settings, PS_F32, 1, 0, &scan, &step, NULL), PS_OK);
    ck_assert(step.skip);
}
END_TEST

START_TEST(a_non_finite_push_is_applied_when_allowed)
{
    struct ps_optimizer_settings settings = sgd();
    settings.nonfinite = PS_NONFINITE_ALLOW;
    const float gradient[COUNT] = {1, strange[_i]};
    float values[COUNT];
    struct pushed_parameter pushed = parameter(&settings, values);

    ck_assert_int_eq(push(&pushed, gradient), PS_OK);

    ck_assert_float_eq(values[0], -1);
    ck_assert(!isfinite(values[1]));
}
END_TEST

START_TEST(a_finite_push_is_not_skipped)
{
    struct ps_optimizer_settings settings = sgd();
    settings.nonfinite = PS_NONFINITE_SKIP;
    const float gradient[COUNT] = {FLT_MAX, -FLT_MAX, FLT_TRUE_MIN};
    struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;

    ps_optimizer_scan(&settings, PS_F32, gradient, COUNT, &scan);

    ck_assert_int_eq(ps_optimizer_prepare(&settings, PS_F32, 1, 0, &scan, &step, NULL), PS_OK);
    ck_assert(!step.skip);
}
END_TEST

START_TEST(a_schedule_is_followed_push_by_push)
{
    struct ps_optimizer_settings settings = sgd();
    settings.learning_rate.schedule = PS_SCHEDULE_LINEAR;
    settings.learning_rate.a = 0.25;
    const float gradient[COUNT] = {1};
    float values[COUNT];
    struct pushed_parameter pushed = parameter(&settings, values);

    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(push(&pushed, gradient), PS_OK);

    ck_assert_float_eq(values[0], -(0.75F + 0.5F + 0.25F));
}
END_TEST

START_TEST(a_mask_of_infinity_survives_decay_of_0)
{
    const struct ps_optimizer_settings settings = sgd();
    const float gradient[COUNT] = {0, 1};
    float values[COUNT];
    struct pushed_parameter pushed = parameter(&settings, values);
    values[0] = values[1] = -INFINITY;

    ck_assert_int_eq(push(&pushed, gradient), PS_OK);

    ck_assert(isinf(values[0]) && isinf(values[1]));
}
END_TEST

/* The state and values are their bytes: saved and put back, they go on as if nothing had been. */
START_TEST(b14_state_is_binary_exact)
{
    struct ps_optimizer_settings settings = sgd();
    settings.rule = (enum ps_rule)_i;
    settings.momentum = settings.rule == PS_RULE_MOMENTUM ? 0.9 : 0;
    settings.rho = 0.9;
    settings.beta_1 = 0.9;
    settings.beta_2 = 0.999;
    settings.epsilon = 1e-8;
    float through[3][COUNT] = {{0}};
    float saved[3][COUNT];
    struct pushed_parameter one = parameter(&settings, through[0]);
    one.states[0] = through[1];
    one.states[1] = through[2];
    push_start(&one);

    for (int step = 0; step < 10; step++) {
        if (step == 5) {
            memcpy(saved, through, sizeof saved);
            memset(through, 0x5a, sizeof through);
            memcpy(through, saved, sizeof saved);
        }
        float gradient[COUNT];
        for (int i = 0; i < COUNT; i++)
            gradient[i] = sinf((float)(i + 10 * step)) * 1e-3F;
        ck_assert_int_eq(push(&one, gradient), PS_OK);
    }
    float again[3][COUNT] = {{0}};
    struct pushed_parameter two = parameter(&settings, again[0]);
    two.states[0] = again[1];
    two.states[1] = again[2];
    push_start(&two);
    for (int step = 0; step < 10; step++) {
        float gradient[COUNT];
        for (int i = 0; i < COUNT; i++)
            gradient[i] = sinf((float)(i + 10 * step)) * 1e-3F;
        ck_assert_int_eq(push(&two, gradient), PS_OK);
    }

    ck_assert_mem_eq(through, again, sizeof through);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("step");
    TCase *cases = tcase_create("step");
    tcase_add_test(cases, b20_clip_value_holds_each_element);
    tcase_add_test(cases, b20_clip_norm_scales_the_push);
    tcase_add_test(cases, b20_clip_norm_leaves_a_small_push_alone);
    tcase_add_test(cases, b20_the_norm_is_that_of_the_elements_held_by_clip_value);
    tcase_add_test(cases, l2_is_added_after_the_clips);
    tcase_add_test(cases, b20_every_gradient_rule_clips);
    tcase_add_test(cases, a_norm_that_overflows_is_refused);
    tcase_add_loop_test(cases, a_non_finite_push_is_refused_with_its_index, 0, 3);
    tcase_add_loop_test(cases, a_non_finite_push_is_skipped_when_asked, 0, 3);
    tcase_add_loop_test(cases, a_non_finite_push_is_applied_when_allowed, 0, 3);
    tcase_add_test(cases, a_finite_push_is_not_skipped);
    tcase_add_test(cases, a_schedule_is_followed_push_by_push);
    tcase_add_test(cases, a_mask_of_infinity_survives_decay_of_0);
    tcase_add_loop_test(cases, b14_state_is_binary_exact, PS_RULE_SGD, PS_RULE_FTRL + 1);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
