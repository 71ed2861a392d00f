/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of optimizer.h at their edges; what they compute is tested rule by rule elsewhere. */
#include "push.h"
#include "run_suite.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

START_TEST(whole_numbers_are_never_scanned)
{
    struct ps_optimizer_settings settings = {.learning_rate = {.rate = 1}};

    for (enum ps_dtype dtype = PS_I32; dtype <= PS_U64; dtype++)
        ck_assert(!ps_optimizer_scans(&settings, dtype));
    ck_assert(ps_optimizer_scans(&settings, PS_F32));
    settings.nonfinite = PS_NONFINITE_ALLOW;
    ck_assert(!ps_optimizer_scans(&settings, PS_F32));
    settings.clip_norm = 1;
    ck_assert(ps_optimizer_scans(&settings, PS_F32));
}
END_TEST

START_TEST(an_empty_push_changes_nothing)
{
    const struct ps_optimizer_settings settings = {.learning_rate = {.rate = 1}};
    struct pushed_parameter pushed = {.settings = &settings, .dtype = PS_F64, .count = 0};

    ck_assert_int_eq(push(&pushed, NULL), PS_OK);
    ck_assert_uint_eq(pushed.step, 1);
}
END_TEST

START_TEST(fill_writes_the_accumulator_as_a_number_and_not_as_a_byte)
{
    float narrow[3] = {0};
    double wide[3] = {0};
    int64_t whole[3] = {7, 7, 7};

    ps_optimizer_fill(PS_F32, 0.1, narrow, 3);
    ps_optimizer_fill(PS_F64, 0.1, wide, 3);
    ps_optimizer_fill(PS_I64, 0, whole, 2);

    ck_assert_float_eq(narrow[2], 0.1F);
    ck_assert_double_eq(wide[2], 0.1);
    ck_assert(whole[0] == 0 && whole[1] == 0 && whole[2] == 7);
}
END_TEST

START_TEST(b24_a_gradient_may_lie_at_any_address)
{
    const struct ps_optimizer_settings settings = {.learning_rate = {.rate = 1}};
    const double gradient[] = {1, -2, 3};
    char message[sizeof gradient + 8];
    for (size_t offset = 0; offset < 8; offset++) {
        double values[3] = {0};
        struct pushed_parameter pushed = {
            .settings = &settings, .dtype = PS_F64, .count = 3, .values = values};
        memcpy(message + offset, gradient, sizeof gradient);

        ck_assert_int_eq(push(&pushed, message + offset), PS_OK);

        ck_assert_double_eq(values[0], -1);
        ck_assert_double_eq(values[1], 2);
        ck_assert_double_eq(values[2], -3);
    }
}
END_TEST

START_TEST(nothing_outside_the_run_is_touched)
{
    const struct ps_optimizer_settings settings = {.rule = PS_RULE_MOMENTUM,
                                                   .learning_rate = {.rate = 1}};
    float values[40];
    float velocity[40];
    float gradient[40];
    for (size_t count = 0; count <= 38; count++) {
        for (int i = 0; i < 40; i++)
            values[i] = velocity[i] = gradient[i] = 5;
        struct pushed_parameter pushed = {.settings = &settings,
                                          .dtype = PS_F32,
                                          .count = count,
                                          .values = values + 1,
                                          .states = {velocity + 1, NULL}};

        ck_assert_int_eq(push(&pushed, gradient), PS_OK);

        ck_assert(values[0] == 5 && velocity[0] == 5);
        ck_assert(values[count + 1] == 5 && velocity[count + 1] == 5);
        ck_assert(count == 0 || values[count] != 5);
    }
}
END_TEST

START_TEST(applying_a_skipped_step_is_a_bug)
{
    const struct ps_optimizer_settings settings = {.learning_rate = {.rate = 1}};
    const struct ps_optimizer_step step = {.settings = &settings, .dtype = PS_F32, .skip = true};
    float value = 1;

    ps_optimizer_apply(&step, 0, 1, &value, (void *[PS_STATES_MAX]){NULL}, &value);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("optimizer");
    TCase *cases = tcase_create("optimizer");
    tcase_add_test(cases, whole_numbers_are_never_scanned);
    tcase_add_test(cases, an_empty_push_changes_nothing);
    tcase_add_test(cases, fill_writes_the_accumulator_as_a_number_and_not_as_a_byte);
    tcase_add_test(cases, b24_a_gradient_may_lie_at_any_address);
    tcase_add_test(cases, nothing_outside_the_run_is_touched);
    tcase_add_test_raise_signal(cases, applying_a_skipped_step_is_a_bug, SIGABRT);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
