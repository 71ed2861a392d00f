/* SPDX-License-Identifier: Apache-2.0 */
/* What the rule outer is for: the steps of DiLoCo, and the mean of copies. That its formula is
 * PyTorch's is in test_rules.c. */
#include "expect.h"
#include "push.h"

#include <math.h>

/* Douillard et al. 2023: one number, by hand. Two copies went from 1 to 0.5 and to 0.3, so that
 * g = 0.6; then both ended 0.1 higher than they began. */
static void outer_takes_the_steps_of_diloco(struct expect *expect)
{
    const struct ps_optimizer_settings settings = {
        .rule = PS_RULE_OUTER, .learning_rate = {.rate = 0.7}, .momentum = 0.9};
    double value = 1;
    double moved = 0;
    struct pushed_parameter parameter = {
        .settings = &settings, .dtype = PS_F64, .count = 1, .values = &value, .states = {&moved}};
    push_start(&parameter);

    EXPECT(expect, push(&parameter, &(double){0.6}) == PS_OK);
    EXPECT(expect, fabs(value - (1 - 0.7 * (0.6 + 0.9 * 0.6))) < 1e-15);
    EXPECT(expect, push(&parameter, &(double){-0.1}) == PS_OK);
    EXPECT(expect, fabs(value - (0.202 - 0.7 * (-0.1 + 0.9 * (0.9 * 0.6 - 0.1)))) < 1e-15);
    EXPECT(expect, fabs(moved - 0.44) < 1e-15);
}

/* eta 1 and mu 0: the value becomes the mean of the copies. */
static void outer_without_momentum_is_the_mean_of_the_copies(struct expect *expect)
{
    const struct ps_optimizer_settings settings = {.rule = PS_RULE_OUTER,
                                                   .learning_rate = {.rate = 1}};
    float values[] = {1, -2, 0.5F};
    float moved[3];
    const float gradient[] = {1 - 0.75F, -2 - 4, 0};
    struct pushed_parameter parameter = {
        .settings = &settings, .dtype = PS_F32, .count = 3, .values = values, .states = {moved}};
    push_start(&parameter);

    EXPECT(expect, push(&parameter, gradient) == PS_OK);

    EXPECT(expect, values[0] == 0.75F && values[1] == 4 && values[2] == 0.5F);
}

int main(void)
{
    ps_optimizer_enter_thread();
    struct expect expect = {0};
    EXPECT_RUN(&expect, outer_takes_the_steps_of_diloco);
    EXPECT_RUN(&expect, outer_without_momentum_is_the_mean_of_the_copies);
    return expect_end(&expect);
}
