/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that the reference implementation gives for five weights after three equal pushes. They
 * were computed with float32 storage and double expressions. */
#include "expect.h"
#include "push.h"

#include <math.h>

#define WEIGHTS 5

static const float start[WEIGHTS] = {0, 1, 2, 3, 4};
static const float gradient[WEIGHTS] = {0.5F, -1, 2, 0.25F, -0.125F};

static void expect_after_three_pushes(struct expect *expect,
                                      const struct ps_optimizer_settings *settings,
                                      const double golden[WEIGHTS])
{
    float values[WEIGHTS];
    float states[PS_STATES_MAX][WEIGHTS];
    struct pushed_parameter parameter = {.settings = settings,
                                         .dtype = PS_F32,
                                         .count = WEIGHTS,
                                         .values = values,
                                         .states = {states[0], states[1]}};
    for (int i = 0; i < WEIGHTS; i++)
        values[i] = start[i];
    push_start(&parameter);

    EXPECT(expect, ps_optimizer_settings_check(settings, PS_F32, NULL) == PS_OK);
    for (int i = 0; i < 3; i++)
        EXPECT(expect, push(&parameter, gradient) == PS_OK);

    for (int i = 0; i < WEIGHTS; i++)
        EXPECT(expect, fabs((double)values[i] - golden[i]) <= 1e-6 * fabs(golden[i]));
}

static void sgd_gives_the_reference_numbers(struct expect *expect)
{
    const struct ps_optimizer_settings settings = {.rule = PS_RULE_SGD,
                                                   .learning_rate = {.rate = 0.1}};
    static const double golden[] = {-0.150000006, 1.30000007, 1.39999986, 2.92499971, 4.03749943};

    expect_after_three_pushes(expect, &settings, golden);
}

static void momentum_with_decay_gives_the_reference_numbers(struct expect *expect)
{
    const struct ps_optimizer_settings settings = {
        .rule = PS_RULE_MOMENTUM, .learning_rate = {.rate = 0.1}, .momentum = 0.9, .decay = 0.01};
    static const double golden[] = {-0.280260056, 1.55491495, 0.867749393, 2.84305406, 4.04764414};

    expect_after_three_pushes(expect, &settings, golden);
}

static void nesterov_with_decay_gives_the_reference_numbers(struct expect *expect)
{
    const struct ps_optimizer_settings settings = {
        .rule = PS_RULE_NESTEROV, .learning_rate = {.rate = 0.1}, .momentum = 0.9, .decay = 0.01};
    static const double golden[] = {-0.402080208, 1.79911530, 0.381589025, 2.78382468, 4.08033943};

    expect_after_three_pushes(expect, &settings, golden);
}

static struct ps_optimizer_settings adagrad(bool reference_sign)
{
    return (struct ps_optimizer_settings){.rule = PS_RULE_ADAGRAD,
                                          .learning_rate = {.rate = 0.1},
                                          .epsilon = 1e-5,
                                          .decay = 0.01,
                                          .adagrad_reference_sign = reference_sign};
}

static void b1_adagrad_descends(struct expect *expect)
{
    const struct ps_optimizer_settings settings = adagrad(false);
    static const double golden[] = {-0.228172004, 1.22517741, 1.76583111, 2.76284623, 4.21613789};

    expect_after_three_pushes(expect, &settings, golden);
}

static void b1_adagrad_has_the_old_sign_when_asked(struct expect *expect)
{
    const struct ps_optimizer_settings settings = adagrad(true);
    static const double golden[] = {0.228713423, 0.774287283, 2.23472214, 3.23771310, 3.78334498};

    expect_after_three_pushes(expect, &settings, golden);
}

static void b2_adadelta_is_adadelta(struct expect *expect)
{
    const struct ps_optimizer_settings settings = {
        .rule = PS_RULE_ADADELTA, .learning_rate = {.rate = 1}, .rho = 0.9, .epsilon = 1e-5};
    static const double golden[] = {-0.0306915715, 1.03069627, 1.96930254, 2.96932721, 4.03059816};

    expect_after_three_pushes(expect, &settings, golden);
}

static void adam_gives_the_reference_numbers(struct expect *expect)
{
    const struct ps_optimizer_settings settings = {.rule = PS_RULE_ADAM,
                                                   .learning_rate = {.rate = 0.001},
                                                   .beta_1 = 0.9,
                                                   .beta_2 = 0.999,
                                                   .epsilon = 1e-8};
    static const double golden[] = {-0.00299996324, 1.00300014, 1.99699986, 2.99700022, 4.00299931};

    expect_after_three_pushes(expect, &settings, golden);
}

int main(void)
{
    struct expect expect = {0};
    EXPECT_RUN(&expect, sgd_gives_the_reference_numbers);
    EXPECT_RUN(&expect, momentum_with_decay_gives_the_reference_numbers);
    EXPECT_RUN(&expect, nesterov_with_decay_gives_the_reference_numbers);
    EXPECT_RUN(&expect, b1_adagrad_descends);
    EXPECT_RUN(&expect, b1_adagrad_has_the_old_sign_when_asked);
    EXPECT_RUN(&expect, b2_adadelta_is_adadelta);
    EXPECT_RUN(&expect, adam_gives_the_reference_numbers);
    return expect_end(&expect);
}
