/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/row_wise.c: one accumulator for a row. */
#include "optimizer/row_wise.h"

#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <string.h>

static struct ps_optimizer_settings settings;
static struct ps_optimizer_step step;

static void prepare(enum ps_dtype dtype)
{
    struct ps_gradient_scan scan = {0};
    settings.rule = PS_RULE_ADAGRAD;
    settings.learning_rate.rate = 0.5;
    ck_assert_int_eq(ps_optimizer_prepare(&settings, dtype, 1, 0, &scan, &step, NULL), PS_OK);
}

START_TEST(a_row_of_one_element_is_adagrad)
{
    settings = (struct ps_optimizer_settings){.epsilon = 1e-6, .decay = 0.01, .clip_value = 2};
    prepare(PS_F64);
    double row[2] = {1.5, 0.25};
    double dense[2] = {1.5, 0.25};
    for (int i = 0; i < 50; i++) {
        double gradient = 3 * sin(i);
        void *states[PS_STATES_MAX] = {&dense[1]};
        ps_optimizer_row_wise(&step, 1, &row[0], &row[1], &gradient);
        ps_optimizer_apply(&step, 0, 1, &dense[0], states, &gradient);
        ck_assert_mem_eq(row, dense, sizeof row);
    }
}
END_TEST

START_TEST(the_accumulator_has_the_mean_of_the_squares)
{
    settings = (struct ps_optimizer_settings){.epsilon_outside_root = true, .epsilon = 1e-12};
    prepare(PS_F32);
    float values[4] = {1, 1, 1, 1};
    float accumulator = 0;
    /* Not aligned, as in a message. */
    static const float gradient[4] = {1, 3, 1, 5};
    char message[sizeof gradient + 1];
    memcpy(message + 1, gradient, sizeof gradient);
    ps_optimizer_row_wise(&step, 4, values, &accumulator, message + 1);
    ck_assert_float_eq(accumulator, 9);
    for (int i = 0; i < 4; i++)
        ck_assert_float_eq_tol(values[i], 1 - 0.5F * gradient[i] / 3, 1e-6F);
}
END_TEST

/* Frozen: the shape of the sum is part of what replay and other machines must repeat. */
START_TEST(the_bits_are_those_of_always)
{
    settings = (struct ps_optimizer_settings){.epsilon = 1e-6, .l2 = 0.125};
    prepare(PS_F32);
    float values[37];
    float gradient[37];
    float accumulator = 0.1F;
    uint64_t hash = 0;
    for (int i = 0; i < 37; i++) {
        values[i] = (float)(i * 7 % 11) / 3;
        gradient[i] = (float)(i * 5 % 13) / 7;
    }
    for (int turn = 0; turn < 5; turn++)
        ps_optimizer_row_wise(&step, 37, values, &accumulator, gradient);
    for (int i = 0; i < 38; i++) {
        uint32_t bits;
        memcpy(&bits, i < 37 ? &values[i] : &accumulator, sizeof bits);
        hash = (hash ^ bits) * 0x9E3779B97F4A7C15u;
    }
    ck_assert_uint_eq(hash, 8141003807267959058u);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("row_wise");
    TCase *tests = tcase_create("row_wise");
    tcase_add_test(tests, a_row_of_one_element_is_adagrad);
    tcase_add_test(tests, the_accumulator_has_the_mean_of_the_squares);
    tcase_add_test(tests, the_bits_are_those_of_always);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
