/* SPDX-License-Identifier: Apache-2.0 */
/* What the check of an optimizer's settings lets through, and what it refuses with which words. */
#include "optimizer/settings.h"

#include "base/bounds.h"
#include "run_suite.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A sound configuration of each rule for its kind of type. */
static struct ps_optimizer_settings sound(enum ps_rule rule)
{
    struct ps_optimizer_settings settings = {.rule = rule,
                                             .learning_rate = {.rate = 0.1},
                                             .rho = 0.9,
                                             .beta_1 = 0.9,
                                             .beta_2 = 0.999,
                                             .epsilon = 1e-8};
    if (ps_rule_uses(rule, PS_USES_MOMENTUM))
        settings.momentum = 0.9;
    return settings;
}

static enum ps_status check(const struct ps_optimizer_settings *settings, enum ps_dtype dtype)
{
    return ps_optimizer_settings_check(settings, dtype, NULL);
}

/* Refused, and the text holds `word`. */
static void expect_refused(const struct ps_optimizer_settings *settings, enum ps_dtype dtype,
                           const char *word)
{
    struct ps_error error = {.text = ""};
    ck_assert_int_eq(ps_optimizer_settings_check(settings, dtype, &error), PS_ERR_BAD_INPUT);
    ck_assert_msg(strstr(error.text, word) != NULL, "no '%s' in: %s", word, error.text);
}

START_TEST(every_rule_works_on_floats)
{
    for (enum ps_rule rule = 0; rule < PS_RULE_COUNT; rule++) {
        struct ps_optimizer_settings settings = sound(rule);
        ck_assert_int_eq(check(&settings, PS_F32), PS_OK);
        ck_assert_int_eq(check(&settings, PS_F64), PS_OK);
    }
}
END_TEST

START_TEST(five_rules_work_on_whole_numbers)
{
    static const enum ps_rule allowed[] = {PS_RULE_SGD, PS_RULE_ASSIGN, PS_RULE_ADD, PS_RULE_MAX,
                                           PS_RULE_MIN};
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++) {
        struct ps_optimizer_settings settings = sound(allowed[i]);
        for (enum ps_dtype dtype = PS_I32; dtype <= PS_U64; dtype++)
            ck_assert_int_eq(check(&settings, dtype), PS_OK);
    }
}
END_TEST

START_TEST(other_rules_on_whole_numbers_are_refused_with_the_allowed_list)
{
    static const enum ps_rule refused[] = {PS_RULE_MOMENTUM, PS_RULE_NESTEROV, PS_RULE_ADAGRAD,
                                           PS_RULE_RMSPROP,  PS_RULE_ADADELTA, PS_RULE_ADAM,
                                           PS_RULE_ADAMW,    PS_RULE_FTRL,     PS_RULE_OUTER};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct ps_optimizer_settings settings = sound(refused[i]);
        for (enum ps_dtype dtype = PS_I32; dtype <= PS_U64; dtype++) {
            expect_refused(&settings, dtype, ps_rule_name(refused[i]));
            expect_refused(&settings, dtype, ps_dtype_name(dtype));
            expect_refused(&settings, dtype, "sgd, assign, add, max, min");
        }
    }
}
END_TEST

START_TEST(sgd_on_whole_numbers_takes_a_rate_and_nothing_else)
{
    struct ps_optimizer_settings settings = sound(PS_RULE_SGD);
    double *const numbers[] = {&settings.momentum, &settings.decay,      &settings.l2,
                               &settings.l1,       &settings.clip_value, &settings.clip_norm};
    static const char *const names[] = {"momentum", "decay", "l2", "l1", "clip_value", "clip_norm"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        *numbers[i] = 0.5;
        expect_refused(&settings, PS_I64, names[i]);
        *numbers[i] = 0;
    }
    ck_assert_int_eq(check(&settings, PS_I64), PS_OK);
}
END_TEST

START_TEST(a_number_that_a_rule_would_ignore_is_refused)
{
    struct ps_optimizer_settings settings = sound(PS_RULE_SGD);
    settings.momentum = 0.9;
    expect_refused(&settings, PS_F32, "momentum");

    settings = sound(PS_RULE_RMSPROP);
    settings.decay = 0.1;
    expect_refused(&settings, PS_F32, "decay");

    settings = sound(PS_RULE_ADD);
    settings.clip_norm = 1;
    expect_refused(&settings, PS_F32, "clip_norm");

    settings = sound(PS_RULE_ADAM);
    settings.l1 = 1;
    expect_refused(&settings, PS_F32, "l1");
}
END_TEST

/* Every number of the settings, for the sweeps below. */
static double *number_at(struct ps_optimizer_settings *settings, int i)
{
    double *const numbers[] = {&settings->momentum,
                               &settings->decay,
                               &settings->l2,
                               &settings->l1,
                               &settings->rho,
                               &settings->beta_1,
                               &settings->beta_2,
                               &settings->epsilon,
                               &settings->initial_accumulator,
                               &settings->ftrl_beta,
                               &settings->ftrl_l2,
                               &settings->clip_value,
                               &settings->clip_norm,
                               &settings->learning_rate.rate,
                               &settings->learning_rate.a,
                               &settings->learning_rate.b};
    return numbers[i];
}
#define NUMBERS 16

START_TEST(b24_a_number_that_is_not_finite_is_refused_everywhere)
{
    static const double strange[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    for (enum ps_rule rule = 0; rule < PS_RULE_COUNT; rule++) {
        for (int i = 0; i < 3; i++) {
            struct ps_optimizer_settings settings = sound(rule);
            *number_at(&settings, _i) = strange[i];
            expect_refused(&settings, PS_F32, "finite");
            expect_refused(&settings, PS_F64, "finite");
        }
    }
}
END_TEST

START_TEST(fractions_lie_in_0_to_1_as_the_type_sees_them)
{
    struct ps_optimizer_settings settings = sound(PS_RULE_ADAM);
    settings.beta_2 = 1 - 1e-12;
    ck_assert_int_eq(check(&settings, PS_F64), PS_OK);
    expect_refused(&settings, PS_F32, "beta_2"); /* would be 1 */

    settings.beta_2 = 1;
    expect_refused(&settings, PS_F64, "beta_2");
    settings.beta_2 = -0.1;
    expect_refused(&settings, PS_F64, "beta_2");

    settings = sound(PS_RULE_MOMENTUM);
    settings.momentum = 1.5;
    expect_refused(&settings, PS_F32, "momentum");

    settings = sound(PS_RULE_ADADELTA);
    settings.rho = 1;
    expect_refused(&settings, PS_F32, "rho");
}
END_TEST

START_TEST(an_epsilon_that_vanishes_is_refused)
{
    static const enum ps_rule divide[] = {PS_RULE_ADAGRAD, PS_RULE_RMSPROP, PS_RULE_ADADELTA,
                                          PS_RULE_ADAM, PS_RULE_ADAMW};
    for (size_t i = 0; i < sizeof divide / sizeof divide[0]; i++) {
        struct ps_optimizer_settings settings = sound(divide[i]);
        settings.epsilon = 0;
        expect_refused(&settings, PS_F64, "epsilon");
        settings.epsilon = 1e-60; /* 0 as a float32 */
        ck_assert_int_eq(check(&settings, PS_F64), PS_OK);
        expect_refused(&settings, PS_F32, "epsilon");
    }
}
END_TEST

START_TEST(negative_numbers_are_refused)
{
    struct ps_optimizer_settings settings = sound(PS_RULE_FTRL);
    double *const numbers[] = {
        &settings.l2,        &settings.l1,         &settings.ftrl_beta,          &settings.ftrl_l2,
        &settings.clip_norm, &settings.clip_value, &settings.initial_accumulator};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        *numbers[i] = -1e-9;
        expect_refused(&settings, PS_F32, "at least 0");
        *numbers[i] = 0;
    }
}
END_TEST

START_TEST(numbers_beyond_the_type_are_refused)
{
    struct ps_optimizer_settings settings = sound(PS_RULE_SGD);
    settings.l2 = 1e39;
    expect_refused(&settings, PS_F32, "l2");
    ck_assert_int_eq(check(&settings, PS_F64), PS_OK);

    settings = sound(PS_RULE_SGD);
    settings.learning_rate.rate = 1e39;
    expect_refused(&settings, PS_F32, "learning rate");
    ck_assert_int_eq(check(&settings, PS_F64), PS_OK);
    ck_assert_int_eq(check(&settings, PS_I32), PS_OK);
}
END_TEST

START_TEST(options_are_refused_where_they_mean_nothing)
{
    struct ps_optimizer_settings settings = sound(PS_RULE_ADD);
    settings.overflow = PS_OVERFLOW_WRAP;
    ck_assert_int_eq(check(&settings, PS_U32), PS_OK);
    expect_refused(&settings, PS_F32, "overflow");

    settings = sound(PS_RULE_SGD);
    settings.overflow = PS_OVERFLOW_FAIL;
    expect_refused(&settings, PS_I32, "overflow");

    settings = sound(PS_RULE_SGD);
    settings.rounding = PS_ROUNDING_STOCHASTIC;
    ck_assert_int_eq(check(&settings, PS_I32), PS_OK);
    expect_refused(&settings, PS_F64, "stochastic");

    settings = sound(PS_RULE_SGD);
    settings.gradient_unsigned = true;
    ck_assert_int_eq(check(&settings, PS_U64), PS_OK);
    expect_refused(&settings, PS_I64, "unsigned");
    expect_refused(&settings, PS_F32, "unsigned");
}
END_TEST

START_TEST(b24_enum_values_out_of_the_blue_are_refused)
{
    struct ps_optimizer_settings settings = sound(PS_RULE_SGD);
    settings.rule = (enum ps_rule)99;
    expect_refused(&settings, PS_F32, "99");
    settings.rule = (enum ps_rule) - 1;
    expect_refused(&settings, PS_I32, "-1");

    settings = sound(PS_RULE_SGD);
    settings.overflow = (enum ps_overflow)3;
    expect_refused(&settings, PS_I32, "overflow 3");

    settings = sound(PS_RULE_SGD);
    settings.rounding = (enum ps_rounding)2;
    expect_refused(&settings, PS_I32, "rounding 2");

    settings = sound(PS_RULE_SGD);
    settings.nonfinite = (enum ps_nonfinite) - 7;
    expect_refused(&settings, PS_F32, "nonfinite -7");

    settings = sound(PS_RULE_SGD);
    settings.learning_rate.schedule = (enum ps_schedule)8;
    expect_refused(&settings, PS_F32, "schedule 8");
}
END_TEST

START_TEST(ftrl_needs_a_constant_rate_above_0)
{
    struct ps_optimizer_settings settings = sound(PS_RULE_FTRL);
    settings.learning_rate.rate = 0;
    expect_refused(&settings, PS_F32, "ftrl");

    settings = sound(PS_RULE_FTRL);
    settings.learning_rate.schedule = PS_SCHEDULE_LINEAR;
    expect_refused(&settings, PS_F32, "constant");
}
END_TEST

static struct ps_optimizer_settings scheduled(enum ps_schedule schedule, double a, double b)
{
    struct ps_optimizer_settings settings = sound(PS_RULE_SGD);
    settings.learning_rate.schedule = schedule;
    settings.learning_rate.a = a;
    settings.learning_rate.b = b;
    return settings;
}

START_TEST(schedules_that_would_leave_the_numbers_are_refused)
{
    static const struct {
        enum ps_schedule schedule;
        double a;
        double b;
    } bad[] = {{PS_SCHEDULE_LINEAR, -1, 0},     {PS_SCHEDULE_LINEAR, 0, -1},
               {PS_SCHEDULE_POLY, -1, 1},       {PS_SCHEDULE_POLY, 1, -1},
               {PS_SCHEDULE_EXP, 0, 1},         {PS_SCHEDULE_EXP, 1.1, 1},
               {PS_SCHEDULE_EXP, 0.5, 0},       {PS_SCHEDULE_DISCEXP, 2, 1},
               {PS_SCHEDULE_DISCEXP, 0.5, 0},   {PS_SCHEDULE_CAFFE_POLY, 0, 1},
               {PS_SCHEDULE_CAFFE_POLY, 10, -1}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct ps_optimizer_settings settings = scheduled(bad[i].schedule, bad[i].a, bad[i].b);
        expect_refused(&settings, PS_F32, "schedule");
    }
}
END_TEST

START_TEST(b33_sound_schedules_are_accepted)
{
    static const enum ps_schedule all[] = {PS_SCHEDULE_CONSTANT, PS_SCHEDULE_LINEAR,
                                           PS_SCHEDULE_POLY,     PS_SCHEDULE_CAFFE_POLY,
                                           PS_SCHEDULE_EXP,      PS_SCHEDULE_DISCEXP};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct ps_optimizer_settings settings = scheduled(all[i], 0.5, 1);
        ck_assert_int_eq(check(&settings, PS_F32), PS_OK);
    }
}
END_TEST

START_TEST(manual_segments_are_1_to_64_rising_and_finite)
{
    struct ps_optimizer_settings settings = scheduled(PS_SCHEDULE_MANUAL, 0, 0);
    expect_refused(&settings, PS_F32, "segments");
    settings.learning_rate.segment_count = PS_SCHEDULE_SEGMENTS_MAX + 1;
    expect_refused(&settings, PS_F32, "segments");

    settings.learning_rate.segment_count = 2;
    settings.learning_rate.segments[0] = (struct ps_schedule_segment){10, 1};
    settings.learning_rate.segments[1] = (struct ps_schedule_segment){20, 0.5};
    ck_assert_int_eq(check(&settings, PS_F32), PS_OK);

    settings.learning_rate.segments[1].end = 10;
    expect_refused(&settings, PS_F32, "segment 1");
    settings.learning_rate.segments[1].end = 20;
    settings.learning_rate.segments[1].rate = (double)NAN;
    expect_refused(&settings, PS_F32, "segment 1");
    settings.learning_rate.segments[1].rate = -1;
    expect_refused(&settings, PS_F32, "segment 1");
    settings.learning_rate.segments[1].rate = 1e300;
    expect_refused(&settings, PS_F32, "learning rate");
}
END_TEST

START_TEST(a_negative_rate_is_refused)
{
    struct ps_optimizer_settings settings = sound(PS_RULE_SGD);
    settings.learning_rate.rate = -0.1;
    expect_refused(&settings, PS_F32, "learning rate");
    expect_refused(&settings, PS_I32, "learning rate");
}
END_TEST

START_TEST(rules_have_names_and_states)
{
    ck_assert_str_eq(ps_rule_name(PS_RULE_SGD), "sgd");
    ck_assert_str_eq(ps_rule_name(PS_RULE_ADAMW), "adamw");
    ck_assert_uint_eq(ps_rule_states(PS_RULE_SGD), 0);
    ck_assert_uint_eq(ps_rule_states(PS_RULE_ADAGRAD), 1);
    ck_assert_uint_eq(ps_rule_states(PS_RULE_FTRL), 2);
}
END_TEST

START_TEST(only_the_first_accumulator_of_rules_that_have_one_starts_high)
{
    ck_assert(ps_rule_uses(PS_RULE_ADAGRAD, PS_USES_ACCUMULATOR));
    ck_assert(ps_rule_uses(PS_RULE_FTRL, PS_USES_ACCUMULATOR));
    for (enum ps_rule rule = 0; rule < PS_RULE_COUNT; rule++) {
        struct ps_optimizer_settings settings = sound(rule);
        settings.initial_accumulator = 0.1;
        for (uint32_t i = 0; i < ps_rule_states(rule); i++) {
            bool high = i == 0 && ps_rule_uses(rule, PS_USES_ACCUMULATOR);
            ck_assert_double_eq(ps_optimizer_state_start(&settings, i), high ? 0.1 : 0);
        }
    }
}
END_TEST

START_TEST(every_number_and_flag_can_be_set_by_its_name)
{
    struct ps_optimizer_settings settings = sound(PS_RULE_SGD);
#define SET_BY_NAME(number, use, range, otherwise)                   \
    ck_assert(ps_optimizer_settings_set(&settings, #number, 0.625)); \
    ck_assert_double_eq(settings.number, 0.625);
    PS_NUMBER_TABLE(SET_BY_NAME)
    PS_SHAPED_NUMBER_TABLE(SET_BY_NAME)
#undef SET_BY_NAME
    ck_assert(ps_optimizer_settings_set(&settings, "epsilon_outside_root", 1));
    ck_assert(ps_optimizer_settings_set(&settings, "adagrad_reference_sign", 1));
    ck_assert(settings.epsilon_outside_root && settings.adagrad_reference_sign);
    ck_assert(!ps_optimizer_settings_set(&settings, "nonesuch", 1));
}
END_TEST

START_TEST(a_rule_is_found_by_its_name)
{
    for (enum ps_rule rule = 0; rule < PS_RULE_COUNT; rule++) {
        enum ps_rule found = PS_RULE_COUNT;
        ck_assert(ps_rule_from_name(ps_rule_name(rule), &found));
        ck_assert_int_eq(found, rule);
    }
    enum ps_rule kept = PS_RULE_FTRL;
    ck_assert(!ps_rule_from_name("nonesuch", &kept));
    ck_assert_int_eq(kept, PS_RULE_FTRL);
    ck_assert_double_eq(ps_rule_default_rate(PS_RULE_SGD), 0.1);
    ck_assert_double_eq(ps_rule_default_rate(PS_RULE_MAX), 0);
}
END_TEST

START_TEST(rounds_are_for_floats_and_within_their_bounds)
{
    struct ps_optimizer_settings settings = sound(PS_RULE_SGD);
    settings.rounds = (struct ps_round_settings){.workers = PS_ROUND_WORKERS_MAX,
                                                 .quorum = PS_ROUND_WORKERS_MAX,
                                                 .grace_ms = PS_ROUND_GRACE_MS_MAX,
                                                 .combine = PS_COMBINE_WEIGHTED,
                                                 .late = PS_LATE_NEXT};
    ck_assert_int_eq(check(&settings, PS_F32), PS_OK);
    ck_assert_int_eq(check(&settings, PS_F64), PS_OK);
    expect_refused(&settings, PS_I32, "training in rounds is only for float32 and float64");
    settings.rounds.quorum++;
    expect_refused(&settings, PS_F32, "rounds.quorum");
    settings.rounds.workers++;
    expect_refused(&settings, PS_F32, "rounds.workers");
    settings.rounds = (struct ps_round_settings){.grace_ms = PS_ROUND_GRACE_MS_MAX + 1};
    expect_refused(&settings, PS_F32, "rounds.grace_ms");
    settings.rounds = (struct ps_round_settings){.combine = (enum ps_combine)3};
    expect_refused(&settings, PS_F32, "rounds.combine");
    settings.rounds = (struct ps_round_settings){.late = (enum ps_late)2};
    expect_refused(&settings, PS_F32, "rounds.late");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("settings");
    TCase *cases = tcase_create("settings");
    tcase_add_test(cases, rounds_are_for_floats_and_within_their_bounds);
    tcase_add_test(cases, every_rule_works_on_floats);
    tcase_add_test(cases, every_number_and_flag_can_be_set_by_its_name);
    tcase_add_test(cases, a_rule_is_found_by_its_name);
    tcase_add_test(cases, five_rules_work_on_whole_numbers);
    tcase_add_test(cases, other_rules_on_whole_numbers_are_refused_with_the_allowed_list);
    tcase_add_test(cases, sgd_on_whole_numbers_takes_a_rate_and_nothing_else);
    tcase_add_test(cases, a_number_that_a_rule_would_ignore_is_refused);
    tcase_add_loop_test(cases, b24_a_number_that_is_not_finite_is_refused_everywhere, 0, NUMBERS);
    tcase_add_test(cases, fractions_lie_in_0_to_1_as_the_type_sees_them);
    tcase_add_test(cases, an_epsilon_that_vanishes_is_refused);
    tcase_add_test(cases, negative_numbers_are_refused);
    tcase_add_test(cases, numbers_beyond_the_type_are_refused);
    tcase_add_test(cases, options_are_refused_where_they_mean_nothing);
    tcase_add_test(cases, b24_enum_values_out_of_the_blue_are_refused);
    tcase_add_test(cases, ftrl_needs_a_constant_rate_above_0);
    tcase_add_test(cases, schedules_that_would_leave_the_numbers_are_refused);
    tcase_add_test(cases, b33_sound_schedules_are_accepted);
    tcase_add_test(cases, manual_segments_are_1_to_64_rising_and_finite);
    tcase_add_test(cases, a_negative_rate_is_refused);
    tcase_add_test(cases, rules_have_names_and_states);
    tcase_add_test(cases, only_the_first_accumulator_of_rules_that_have_one_starts_high);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
