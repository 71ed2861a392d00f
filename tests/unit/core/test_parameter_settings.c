/* SPDX-License-Identifier: Apache-2.0 */
/* core/update/parameter_settings.c: every optimizer and schedule of the message reaches the rule
 * it means, and nonsense is refused. */
#include "server/core/update/parameter_settings.h"
#include "tests/unit/core/core_world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct ps_optimizer_config config;
static struct ps_optimizer_settings settings;
static struct ps_error error;

static void setup(void)
{
    ps_optimizer_config_defaults(&config);
    settings = (struct ps_optimizer_settings){0};
    error = (struct ps_error){0};
}

static enum ps_status read_as(enum ps_dtype dtype)
{
    return ps_parameter_settings_read(config_bytes(&config), dtype, ps_allocator_heap(), &settings,
                                      &error);
}

START_TEST(an_empty_config_is_sgd_with_rate_one)
{
    enum ps_status status = ps_parameter_settings_read((struct ps_bytes){NULL, 0}, PS_F32,
                                                       ps_allocator_heap(), &settings, NULL);

    ck_assert_int_eq(status, PS_OK);
    ck_assert_int_eq(settings.rule, PS_RULE_SGD);
    ck_assert_int_eq(settings.learning_rate.schedule, PS_SCHEDULE_CONSTANT);
    ck_assert_double_eq(settings.learning_rate.rate, 1);
    ck_assert_int_eq(settings.nonfinite, PS_NONFINITE_REJECT);
}
END_TEST

START_TEST(b24_bytes_that_are_no_config_are_refused)
{
    const uint8_t garbage[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

    enum ps_status status = ps_parameter_settings_read(
        (struct ps_bytes){garbage, sizeof garbage}, PS_F32, ps_allocator_heap(), &settings, &error);

    ck_assert_int_eq(status, PS_ERR_BAD_INPUT);
    ck_assert_str_ne(error.text, "");
}
END_TEST

START_TEST(a_config_beyond_the_bound_is_refused)
{
    static uint8_t long_config[PS_CONFIG_BYTES_MAX + 1];

    enum ps_status status =
        ps_parameter_settings_read((struct ps_bytes){long_config, sizeof long_config}, PS_F32,
                                   ps_allocator_heap(), &settings, &error);

    ck_assert_int_eq(status, PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "65537"));
}
END_TEST

/* A rule that has no optimizer in the .proto cannot be asked for. */
START_TEST(b2_every_rule_is_the_optimizer_of_its_name)
{
    const char *name = ps_rule_name((enum ps_rule)_i);
    if (_i == PS_RULE_MOMENTUM || _i == PS_RULE_NESTEROV)
        return; /* SGD with a momentum: the next two tests. */
    ck_assert_msg(ps_optimizer_config_choose(&config, name), "no %s in the .proto", name);

    ck_assert_msg(read_as(PS_F32) == PS_OK, "%s", error.text);

    ck_assert_int_eq((int)settings.rule, _i);
}
END_TEST

START_TEST(b2_the_momentum_value_reaches_the_rule)
{
    ps_optimizer_config_set(&config, "momentum", 0.9);
    ps_optimizer_config_set(&config, "decay", 0.01);

    ck_assert_int_eq(read_as(PS_F32), PS_OK);

    ck_assert_int_eq(settings.rule, PS_RULE_MOMENTUM);
    ck_assert_double_eq(settings.momentum, 0.9);
    ck_assert_double_eq(settings.decay, 0.01);
}
END_TEST

START_TEST(nesterov_is_a_rule_of_its_own)
{
    ps_optimizer_config_set(&config, "momentum", 0.9);
    ps_optimizer_config_set(&config, "nesterov", 1);

    ck_assert_int_eq(read_as(PS_F32), PS_OK);

    ck_assert_int_eq(settings.rule, PS_RULE_NESTEROV);
}
END_TEST

START_TEST(the_numbers_of_each_rule_are_taken_over)
{
    (void)ps_optimizer_config_choose(&config, "adagrad");
    ps_optimizer_config_set(&config, "reference_sign", 1);
    ps_optimizer_config_set(&config, "initial_accumulator", 0.25);
    ck_assert_int_eq(read_as(PS_F32), PS_OK);
    ck_assert(settings.adagrad_reference_sign);
    ck_assert_double_eq(settings.initial_accumulator, 0.25);

    (void)ps_optimizer_config_choose(&config, "adamw");
    ps_optimizer_config_set(&config, "weight_decay", 0.125);
    ck_assert_int_eq(read_as(PS_F64), PS_OK);
    ck_assert_double_eq(settings.decay, 0.125);

    (void)ps_optimizer_config_choose(&config, "ftrl");
    ps_optimizer_config_set(&config, "l1", 0.5);
    ps_optimizer_config_set(&config, "l2", 2);
    ps_optimizer_config_set(&config, "beta", 3);
    ck_assert_int_eq(read_as(PS_F32), PS_OK);
    ck_assert_double_eq(settings.l1, 0.5);
    ck_assert_double_eq(settings.ftrl_l2, 2);
    ck_assert_double_eq(settings.ftrl_beta, 3);
    ck_assert_double_eq(settings.l2, 0);

    (void)ps_optimizer_config_choose(&config, "outer");
    ps_optimizer_config_set(&config, "momentum", 0.75);
    ck_assert_int_eq(read_as(PS_F32), PS_OK);
    ck_assert_double_eq(settings.momentum, 0.75);
}
END_TEST

START_TEST(b20_clipping_reaches_the_rule)
{
    config.clip_norm = 0.5;
    config.clip_value = 2;
    config.l2 = 0.25;

    ck_assert_int_eq(read_as(PS_F32), PS_OK);

    ck_assert_double_eq(settings.clip_norm, 0.5);
    ck_assert_double_eq(settings.clip_value, 2);
    ck_assert_double_eq(settings.l2, 0.25);
}
END_TEST

START_TEST(a_rule_that_makes_no_sense_on_a_type_is_refused)
{
    (void)ps_optimizer_config_choose(&config, "adam");

    ck_assert_int_eq(read_as(PS_I32), PS_ERR_BAD_INPUT);

    ck_assert_ptr_nonnull(strstr(error.text, "adam"));
}
END_TEST

START_TEST(numbers_without_a_meaning_are_refused)
{
    struct ps_optimizer_config *c = &config;
    struct ps_optimizer_config good = config;
    strcpy(c->optimizer, "nonesuch");
    ck_assert_int_eq(ps_parameter_settings_from(c, &settings, &error), PS_ERR_BAD_INPUT);
    *c = good;
    c->policy = (enum ps_config_policy)9;
    ck_assert_int_eq(ps_parameter_settings_from(c, &settings, &error), PS_ERR_BAD_INPUT);
    *c = good;
    c->add_overflow = 3;
    ck_assert_int_eq(ps_parameter_settings_from(c, &settings, &error), PS_ERR_BAD_INPUT);
    *c = good;
    c->integer_rounding = -1;
    ck_assert_int_eq(ps_parameter_settings_from(c, &settings, &error), PS_ERR_BAD_INPUT);
    *c = good;
    c->nonfinite = 3;
    ck_assert_int_eq(ps_parameter_settings_from(c, &settings, &error), PS_ERR_BAD_INPUT);
    *c = good;
    c->learning_rate = NAN;
    ck_assert_int_eq(read_as(PS_F32), PS_ERR_BAD_INPUT);
}
END_TEST

static const struct {
    enum ps_config_policy policy;
    enum ps_schedule schedule;
} schedules[] = {
    {PS_POLICY_CONST, PS_SCHEDULE_CONSTANT},
    {PS_POLICY_LINEAR, PS_SCHEDULE_LINEAR},
    {PS_POLICY_POLY, PS_SCHEDULE_POLY},
    {PS_POLICY_EXP, PS_SCHEDULE_EXP},
    {PS_POLICY_CAFFE_POLY, PS_SCHEDULE_CAFFE_POLY},
    {PS_POLICY_DISCEXP, PS_SCHEDULE_DISCEXP},
    {PS_POLICY_MANUAL, PS_SCHEDULE_MANUAL},
    {PS_POLICY_PASS_MANUAL, PS_SCHEDULE_PASS_MANUAL},
};

START_TEST(b33_every_policy_is_the_schedule_of_its_name)
{
    config.policy = schedules[_i].policy;
    config.learning_rate = 0.5;
    config.decay_a = 0.75;
    config.decay_b = 0.125;
    memcpy(config.segments, "10:1,20:0.5", 12);

    ck_assert_msg(read_as(PS_F32) == PS_OK, "%s", error.text);

    ck_assert_int_eq(settings.learning_rate.schedule, schedules[_i].schedule);
    ck_assert_double_eq(settings.learning_rate.rate, 0.5);
}
END_TEST

START_TEST(segments_are_parsed_in_order)
{
    struct ps_learning_rate rate = {0};

    ck_assert_int_eq(
        ps_parameter_settings_segments("0:1,100:0.5,18446744073709551615:1e-3", &rate, &error),
        PS_OK);

    ck_assert_uint_eq(rate.segment_count, 3);
    ck_assert_uint_eq(rate.segments[0].end, 0);
    ck_assert_uint_eq(rate.segments[1].end, 100);
    ck_assert_double_eq(rate.segments[1].rate, 0.5);
    ck_assert_uint_eq(rate.segments[2].end, UINT64_MAX);
    ck_assert_double_eq(rate.segments[2].rate, 1e-3);
}
END_TEST

static const char *const bad_segments[] = {
    "",
    ",",
    "10",
    "10:",
    ":1",
    "10:1,",
    "a:1",
    "10:x",
    "10:-1",
    "-1:1",
    " 10:1",
    "10: 1",
    "10:1;20:2",
    "10:1,10:1",
    "20:1,10:1",
    "10:inf",
    "10:nan",
    "10:1e999",
    "18446744073709551616:1",
    "10:1 ",
    "10:+1",
    "10:1,,20:1",
    "10:.",
};

START_TEST(segments_that_are_none_are_refused)
{
    struct ps_learning_rate rate = {0};

    ck_assert_msg(ps_parameter_settings_segments(bad_segments[_i], &rate, &error) ==
                      PS_ERR_BAD_INPUT,
                  "\"%s\"", bad_segments[_i]);

    ck_assert_uint_eq(rate.segment_count, 0);
    ck_assert_str_ne(error.text, "");
}
END_TEST

START_TEST(too_many_segments_are_refused)
{
    struct ps_learning_rate rate = {0};
    char list[1024] = "";
    size_t used = 0;
    for (int i = 0; i < PS_SCHEDULE_SEGMENTS_MAX; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%d:1", i > 0 ? "," : "", i);
    ck_assert_int_eq(ps_parameter_settings_segments(list, &rate, &error), PS_OK);

    snprintf(list + used, sizeof list - used, ",%d:1", PS_SCHEDULE_SEGMENTS_MAX);

    ck_assert_int_eq(ps_parameter_settings_segments(list, &rate, &error), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(reading_survives_any_refused_allocation)
{
    struct fault_heap heap = {.refuse_at = _i};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    (void)ps_optimizer_config_choose(&config, "adam");
    struct ps_bytes bytes = config_bytes(&config);

    enum ps_status status = ps_parameter_settings_read(bytes, PS_F32, &memory, &settings, &error);

    ck_assert_int_eq(status, heap.seen > _i ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("parameter_settings");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, an_empty_config_is_sgd_with_rate_one);
    tcase_add_test(tests, b24_bytes_that_are_no_config_are_refused);
    tcase_add_test(tests, a_config_beyond_the_bound_is_refused);
    tcase_add_loop_test(tests, b2_every_rule_is_the_optimizer_of_its_name, 0, PS_RULE_COUNT);
    tcase_add_test(tests, b2_the_momentum_value_reaches_the_rule);
    tcase_add_test(tests, nesterov_is_a_rule_of_its_own);
    tcase_add_test(tests, the_numbers_of_each_rule_are_taken_over);
    tcase_add_test(tests, b20_clipping_reaches_the_rule);
    tcase_add_test(tests, a_rule_that_makes_no_sense_on_a_type_is_refused);
    tcase_add_test(tests, numbers_without_a_meaning_are_refused);
    tcase_add_loop_test(tests, b33_every_policy_is_the_schedule_of_its_name, 0,
                        (int)PS_ARRAY_COUNT(schedules));
    tcase_add_test(tests, segments_are_parsed_in_order);
    tcase_add_loop_test(tests, segments_that_are_none_are_refused, 0,
                        (int)PS_ARRAY_COUNT(bad_segments));
    tcase_add_test(tests, too_many_segments_are_refused);
    tcase_add_loop_test(tests, reading_survives_any_refused_allocation, 0, 12);
    return run_tests("parameter_settings", tests);
}
