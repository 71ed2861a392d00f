/* SPDX-License-Identifier: Apache-2.0 */
/* Each rule against two things that it was not made from: its formula, written down again in double
 * as PyTorch's documentation (or the paper) gives it and compared after ten pushes of changing
 * gradients; and the bits that it gave when it was added. */
#include "expect.h"
#include "push.h"
#include "rule_cases.h"

#include <math.h>
#include <string.h>

#define WEIGHTS 257
#define PUSHES 10

/* What one weight of the model under comparison holds. */
struct weight {
    double value;
    double first;
    double second;
};

typedef void model_fn(struct weight *weight, double gradient, int step);

/* Values around 1, so that an error relative to them says something. */
static double start_value(int i)
{
    return 1.5 + sin(i * 1.7);
}

static double gradient_at(int i, int step)
{
    return sin(i * 0.37 + step * 1.1) + 0.2 * cos(i * 5.3);
}

/* Both take the same gradients, rounded to float32 for both. */
static double greatest_error(enum ps_dtype dtype, const struct ps_optimizer_settings *settings,
                             model_fn *model)
{
    float f32[4][WEIGHTS];
    double f64[4][WEIGHTS];
    struct weight weights[WEIGHTS];
    bool narrow = dtype == PS_F32;
    struct pushed_parameter parameter = {.settings = settings,
                                         .dtype = dtype,
                                         .count = WEIGHTS,
                                         .values = narrow ? (void *)f32[0] : (void *)f64[0],
                                         .states = {narrow ? (void *)f32[1] : (void *)f64[1],
                                                    narrow ? (void *)f32[2] : (void *)f64[2]}};
    for (int i = 0; i < WEIGHTS; i++) {
        f32[0][i] = (float)start_value(i);
        f64[0][i] = (double)f32[0][i];
        weights[i] = (struct weight){.value = f64[0][i]};
    }
    push_start(&parameter);

    for (int step = 1; step <= PUSHES; step++) {
        for (int i = 0; i < WEIGHTS; i++) {
            f32[3][i] = (float)gradient_at(i, step);
            f64[3][i] = (double)f32[3][i];
            model(&weights[i], f64[3][i], step);
        }
        if (push(&parameter, narrow ? (void *)f32[3] : (void *)f64[3]) != PS_OK)
            return (double)INFINITY;
    }

    double greatest = 0;
    for (int i = 0; i < WEIGHTS; i++) {
        double value = narrow ? (double)f32[0][i] : f64[0][i];
        greatest = fmax(greatest, fabs(value - weights[i].value) / fabs(weights[i].value));
    }
    return greatest;
}

static void expect_model(struct expect *expect, const struct ps_optimizer_settings *settings,
                         model_fn *model)
{
    double narrow = greatest_error(PS_F32, settings, model);
    double wide = greatest_error(PS_F64, settings, model);
    printf("  relative error %.1e on f32, %.1e on f64\n", narrow, wide);
    EXPECT(expect, narrow <= 1e-6);
    EXPECT(expect, wide <= 1e-12);
}

#define RATE 0.01
#define WEIGHT_DECAY 0.05

static void sgd_model(struct weight *weight, double gradient, int step)
{
    (void)step;
    gradient += WEIGHT_DECAY * weight->value;
    weight->value -= RATE * gradient;
}

static void sgd_is_torch_sgd(struct expect *expect)
{
    const struct ps_optimizer_settings settings = {
        .rule = PS_RULE_SGD, .learning_rate = {.rate = RATE}, .l2 = WEIGHT_DECAY};

    expect_model(expect, &settings, sgd_model);
}

/* The reference's decay is the same thing for plain SGD. */
static void sgd_decay_is_torch_weight_decay(struct expect *expect)
{
    const struct ps_optimizer_settings settings = {
        .rule = PS_RULE_SGD, .learning_rate = {.rate = RATE}, .decay = WEIGHT_DECAY};

    expect_model(expect, &settings, sgd_model);
}

static void momentum_model(struct weight *weight, double gradient, int step)
{
    gradient += WEIGHT_DECAY * weight->value;
    weight->first = step == 1 ? gradient : 0.9 * weight->first + gradient;
    weight->value -= RATE * weight->first;
}

static void momentum_is_torch_momentum(struct expect *expect)
{
    const struct ps_optimizer_settings settings = {.rule = PS_RULE_MOMENTUM,
                                                   .learning_rate = {.rate = RATE},
                                                   .momentum = 0.9,
                                                   .l2 = WEIGHT_DECAY};

    expect_model(expect, &settings, momentum_model);
}

static void nesterov_model(struct weight *weight, double gradient, int step)
{
    gradient += WEIGHT_DECAY * weight->value;
    weight->first = step == 1 ? gradient : 0.9 * weight->first + gradient;
    weight->value -= RATE * (gradient + 0.9 * weight->first);
}

static void nesterov_is_torch_nesterov(struct expect *expect)
{
    const struct ps_optimizer_settings settings = {.rule = PS_RULE_NESTEROV,
                                                   .learning_rate = {.rate = RATE},
                                                   .momentum = 0.9,
                                                   .l2 = WEIGHT_DECAY};

    expect_model(expect, &settings, nesterov_model);
}

/* As PyTorch has it under a scheduler: the rate of the step applies to all that has gathered. */
static void outer_model(struct weight *weight, double gradient, int step)
{
    gradient += WEIGHT_DECAY * weight->value;
    weight->first = step == 1 ? gradient : 0.9 * weight->first + gradient;
    weight->value -= RATE * pow(0.5, step / 2.0) * (gradient + 0.9 * weight->first);
}

static void outer_is_torch_nesterov_while_the_rate_changes(struct expect *expect)
{
    struct ps_optimizer_settings settings = {
        .rule = PS_RULE_OUTER,
        .learning_rate = {.schedule = PS_SCHEDULE_EXP, .rate = RATE, .a = 0.5, .b = 2},
        .momentum = 0.9,
        .l2 = WEIGHT_DECAY};

    expect_model(expect, &settings, outer_model);

    /* The rule that keeps the rate in its velocity goes elsewhere then. */
    settings.rule = PS_RULE_NESTEROV;
    EXPECT(expect, greatest_error(PS_F64, &settings, outer_model) > 1e-3);
}

static void adagrad_model(struct weight *weight, double gradient, int step)
{
    gradient += WEIGHT_DECAY * weight->value;
    weight->first = (step == 1 ? 0.1 : weight->first) + gradient * gradient;
    weight->value -= RATE * gradient / (sqrt(weight->first) + 1e-10);
}

static void adagrad_with_epsilon_outside_is_torch_adagrad(struct expect *expect)
{
    const struct ps_optimizer_settings settings = {.rule = PS_RULE_ADAGRAD,
                                                   .learning_rate = {.rate = RATE},
                                                   .epsilon = 1e-10,
                                                   .epsilon_outside_root = true,
                                                   .initial_accumulator = 0.1,
                                                   .l2 = WEIGHT_DECAY};

    expect_model(expect, &settings, adagrad_model);
}

static void rmsprop_model(struct weight *weight, double gradient, int step)
{
    (void)step;
    gradient += WEIGHT_DECAY * weight->value;
    weight->first = 0.99 * weight->first + 0.01 * gradient * gradient;
    weight->value -= RATE * gradient / (sqrt(weight->first) + 1e-8);
}

static void rmsprop_is_torch_rmsprop(struct expect *expect)
{
    const struct ps_optimizer_settings settings = {.rule = PS_RULE_RMSPROP,
                                                   .learning_rate = {.rate = RATE},
                                                   .rho = 0.99,
                                                   .epsilon = 1e-8,
                                                   .l2 = WEIGHT_DECAY};

    expect_model(expect, &settings, rmsprop_model);
}

static void adadelta_model(struct weight *weight, double gradient, int step)
{
    (void)step;
    gradient += WEIGHT_DECAY * weight->value;
    weight->first = 0.9 * weight->first + 0.1 * gradient * gradient;
    double update = sqrt(weight->second + 1e-6) / sqrt(weight->first + 1e-6) * gradient;
    weight->second = 0.9 * weight->second + 0.1 * update * update;
    weight->value -= update;
}

static void adadelta_is_torch_adadelta(struct expect *expect)
{
    const struct ps_optimizer_settings settings = {.rule = PS_RULE_ADADELTA,
                                                   .learning_rate = {.rate = 1},
                                                   .rho = 0.9,
                                                   .epsilon = 1e-6,
                                                   .l2 = WEIGHT_DECAY};

    expect_model(expect, &settings, adadelta_model);
}

/* The part that Adam and AdamW share, as torch.optim writes it. */
static void adam_part(struct weight *weight, double gradient, int step)
{
    weight->first = 0.9 * weight->first + (1 - 0.9) * gradient;
    weight->second = 0.999 * weight->second + (1 - 0.999) * gradient * gradient;
    double first_correction = 1 - pow(0.9, step);
    double second_correction = 1 - pow(0.999, step);
    double root = sqrt(weight->second) / sqrt(second_correction) + 1e-8;
    weight->value -= RATE / first_correction * weight->first / root;
}

static void adam_model(struct weight *weight, double gradient, int step)
{
    adam_part(weight, gradient + WEIGHT_DECAY * weight->value, step);
}

static void adamw_model(struct weight *weight, double gradient, int step)
{
    weight->value *= 1 - RATE * WEIGHT_DECAY;
    adam_part(weight, gradient, step);
}

static struct ps_optimizer_settings adam(enum ps_rule rule)
{
    return (struct ps_optimizer_settings){.rule = rule,
                                          .learning_rate = {.rate = RATE},
                                          .beta_1 = 0.9,
                                          .beta_2 = 0.999,
                                          .epsilon = 1e-8};
}

static void adam_with_epsilon_outside_is_torch_adam(struct expect *expect)
{
    struct ps_optimizer_settings settings = adam(PS_RULE_ADAM);
    settings.epsilon_outside_root = true;
    settings.l2 = WEIGHT_DECAY;

    expect_model(expect, &settings, adam_model);
}

static void adamw_is_torch_adamw(struct expect *expect)
{
    struct ps_optimizer_settings settings = adam(PS_RULE_ADAMW);
    settings.decay = WEIGHT_DECAY;

    expect_model(expect, &settings, adamw_model);
}

/* McMahan et al., KDD 2013, algorithm 1; the first accumulator starts at 0.1. */
static void ftrl_model(struct weight *weight, double gradient, int step)
{
    double before = step == 1 ? 0.1 : weight->first;
    double after = before + gradient * gradient;
    double sigma = (sqrt(after) - sqrt(before)) / RATE;
    weight->second += gradient - sigma * weight->value;
    weight->first = after;
    double sign = weight->second > 0 ? 1 : -1;
    weight->value = -(weight->second - sign * 0.01) / ((1 + sqrt(after)) / RATE + 0.2);
    if (fabs(weight->second) <= 0.01)
        weight->value = 0;
}

static void ftrl_is_the_published_algorithm(struct expect *expect)
{
    const struct ps_optimizer_settings settings = {.rule = PS_RULE_FTRL,
                                                   .learning_rate = {.rate = RATE},
                                                   .l1 = 0.01,
                                                   .ftrl_l2 = 0.2,
                                                   .ftrl_beta = 1,
                                                   .initial_accumulator = 0.1};

    double wide = greatest_error(PS_F64, &settings, ftrl_model);
    double narrow = greatest_error(PS_F32, &settings, ftrl_model);
    printf("  relative error %.1e on f32, %.1e on f64\n", narrow, wide);
    EXPECT(expect, wide <= 1e-12);
    /* z is a sum of large terms that nearly cancel. */
    EXPECT(expect, narrow <= 1e-4);
}

static void ftrl_sets_small_weights_to_exactly_0(struct expect *expect)
{
    const struct ps_optimizer_settings settings = {
        .rule = PS_RULE_FTRL, .learning_rate = {.rate = RATE}, .l1 = 1};
    float values[] = {0, 0, 0};
    float states[2][3];
    const float gradient[] = {0.5F, -0.999F, 2};
    struct pushed_parameter parameter = {.settings = &settings,
                                         .dtype = PS_F32,
                                         .count = 3,
                                         .values = values,
                                         .states = {states[0], states[1]}};
    push_start(&parameter);

    EXPECT(expect, push(&parameter, gradient) == PS_OK);

    EXPECT(expect, values[0] == 0 && values[1] == 0 && values[2] < 0);
}

/* The square of a tiny gradient is 0, and with neither beta nor l2 nothing else holds the weight:
 * it waits for a gradient that can be squared. */
static void ftrl_has_a_number_where_nothing_holds_a_weight(struct expect *expect)
{
    const struct ps_optimizer_settings settings = {.rule = PS_RULE_FTRL,
                                                   .learning_rate = {.rate = RATE}};
    float values[] = {1, 1, 1, 1};
    float states[2][4];
    const float gradient[] = {1e-30F, -1e-30F, 0, 0.5F};
    struct pushed_parameter parameter = {.settings = &settings,
                                         .dtype = PS_F32,
                                         .count = 4,
                                         .values = values,
                                         .states = {states[0], states[1]}};
    push_start(&parameter);

    EXPECT(expect, push(&parameter, gradient) == PS_OK);

    EXPECT(expect, values[0] == 0 && values[1] == 0 && values[2] == 0);
    EXPECT(expect, isfinite(values[3]) && values[3] != 0);
}

/* The bits of a rule on a type: a hash over what it makes of numbers of all kinds. A change here
 * changes what the server computes: never between releases without a word in the changelog, and
 * never between two compilers or machines. What is added takes the rows that this test prints, once
 * its formula is right. */
static const struct {
    const char *rule;
    enum ps_dtype dtype;
    uint64_t hash;
} frozen[] = {
    {"sgd", PS_I32, UINT64_C(0x5f12737b67cfa2a0)},
    {"sgd", PS_U32, UINT64_C(0x5b87880ba07c2863)},
    {"sgd", PS_I64, UINT64_C(0xe45d27894187a026)},
    {"sgd", PS_U64, UINT64_C(0x83ed924ec3fdfc6b)},
    {"sgd", PS_F32, UINT64_C(0x106490f00ca06bbc)},
    {"sgd", PS_F64, UINT64_C(0xbf3c05b23917a683)},
    {"momentum", PS_F32, UINT64_C(0x9e7d14120b2ca35e)},
    {"momentum", PS_F64, UINT64_C(0xcd0b185a91a821c7)},
    {"nesterov", PS_F32, UINT64_C(0x99b564fb811a9f52)},
    {"nesterov", PS_F64, UINT64_C(0x6cc24859c00c1ea7)},
    {"adagrad", PS_F32, UINT64_C(0x4217c44e4ce51330)},
    {"adagrad", PS_F64, UINT64_C(0x746f4403068e5cc6)},
    {"rmsprop", PS_F32, UINT64_C(0x06f0168010b9d470)},
    {"rmsprop", PS_F64, UINT64_C(0x1a5118eed6495d94)},
    {"adadelta", PS_F32, UINT64_C(0x62b5cce6527033cf)},
    {"adadelta", PS_F64, UINT64_C(0x4985b8c1cb4314b9)},
    {"adam", PS_F32, UINT64_C(0x328ebb50f56e252a)},
    {"adam", PS_F64, UINT64_C(0x2a1dadcc0c6ac508)},
    {"adamw", PS_F32, UINT64_C(0xf39d98c682ce4238)},
    {"adamw", PS_F64, UINT64_C(0xb3f51675eedd9267)},
    {"ftrl", PS_F32, UINT64_C(0x6bdb5bccfe3e0815)},
    {"ftrl", PS_F64, UINT64_C(0xabe6bcafb9558adb)},
    {"assign", PS_I32, UINT64_C(0xe69064233a925f29)},
    {"assign", PS_U32, UINT64_C(0xf5ecda49fa925f29)},
    {"assign", PS_I64, UINT64_C(0x5383bd357a925f29)},
    {"assign", PS_U64, UINT64_C(0x1383bd357a925f29)},
    {"assign", PS_F32, UINT64_C(0xe9c8937659ce5e47)},
    {"assign", PS_F64, UINT64_C(0x88f5fa1871974633)},
    {"add", PS_I32, UINT64_C(0xb8f6a6f4383bc3f4)},
    {"add", PS_U32, UINT64_C(0x3d97f0f9d6371192)},
    {"add", PS_I64, UINT64_C(0x5b5af7c156e3a948)},
    {"add", PS_U64, UINT64_C(0xd81f5bdeaa406edc)},
    {"add", PS_F32, UINT64_C(0x6aa74266b59aa850)},
    {"add", PS_F64, UINT64_C(0xecc83d986c40fe53)},
    {"max", PS_I32, UINT64_C(0xc152dea02b8cdd03)},
    {"max", PS_U32, UINT64_C(0x0117e9db37cb32fb)},
    {"max", PS_I64, UINT64_C(0x9b5aaed092708788)},
    {"max", PS_U64, UINT64_C(0x06a64fdf2b902002)},
    {"max", PS_F32, UINT64_C(0x4369181580b9abdd)},
    {"max", PS_F64, UINT64_C(0x9c9b1453798918bd)},
    {"min", PS_I32, UINT64_C(0x2d2bf953efe4b27e)},
    {"min", PS_U32, UINT64_C(0xb2458bbc63a44356)},
    {"min", PS_I64, UINT64_C(0xcfc31888c39c2f89)},
    {"min", PS_U64, UINT64_C(0x165cbca83714e46b)},
    {"min", PS_F32, UINT64_C(0x2c116c2ed144cc13)},
    {"min", PS_F64, UINT64_C(0x904789ab19b1089a)},
    {"outer", PS_F32, UINT64_C(0x2f073a836c19c932)},
    {"outer", PS_F64, UINT64_C(0xb591a5c8b7442503)},
};

#define HASHED 4099

/* One parameter: values, states, and a gradient at an odd address. */
struct arrays {
    _Alignas(64) char values[HASHED * 8];
    _Alignas(64) char states[PS_STATES_MAX][HASHED * 8];
    _Alignas(64) char gradient[HASHED * 8 + 1];
};

static void hash_case(const struct ps_optimizer_settings *settings, enum ps_dtype dtype,
                      uint64_t *hash)
{
    static struct arrays arrays;
    struct ps_optimizer_step step;
    rule_case_step(settings, dtype, &step);
    memset(&arrays, 0, sizeof arrays);
    rule_case_fill(1, dtype, arrays.values, HASHED);
    rule_case_fill(2, dtype, arrays.states[0], HASHED);
    rule_case_fill(3, dtype, arrays.states[1], HASHED);
    rule_case_fill(4, dtype, arrays.gradient, HASHED);
    memmove(arrays.gradient + 1, arrays.gradient, sizeof arrays.gradient - 1);
    ps_optimizer_apply(&step, 0, HASHED, arrays.values,
                       (void *[PS_STATES_MAX]){arrays.states[0], arrays.states[1]},
                       arrays.gradient + 1);
    if (*hash == 0)
        *hash = UINT64_C(0xcbf29ce484222325);
    *hash = rule_case_hash(*hash, dtype, arrays.values, HASHED);
    *hash = rule_case_hash(*hash, dtype, arrays.states[0], HASHED);
    *hash = rule_case_hash(*hash, dtype, arrays.states[1], HASHED);
}

static bool is_frozen(const char *rule, enum ps_dtype dtype, uint64_t hash)
{
    for (size_t i = 0; i < sizeof frozen / sizeof frozen[0]; i++) {
        if (strcmp(frozen[i].rule, rule) == 0 && frozen[i].dtype == dtype)
            return frozen[i].hash == hash;
    }
    return false;
}

/* The tags of the types as they stand in the rows, for whoever takes what is printed. */
static const char *const tags[] = {
#define TAG_TEXT(TAG, suffix, T, SUM, label) #TAG,
    PS_DTYPE_TABLE(TAG_TEXT)
#undef TAG_TEXT
};

static void every_rule_gives_these_bits_on_every_machine(struct expect *expect)
{
    uint64_t hashes[PS_RULE_COUNT][PS_DTYPE_COUNT] = {0};
    struct ps_optimizer_settings settings;
    for (enum ps_dtype dtype = 0; dtype < PS_DTYPE_COUNT; dtype++) {
        for (size_t i = 0; rule_case(i, dtype, &settings); i++)
            hash_case(&settings, dtype, &hashes[settings.rule][dtype]);
    }
    for (enum ps_rule rule = 0; rule < PS_RULE_COUNT; rule++) {
        for (enum ps_dtype dtype = 0; dtype < PS_DTYPE_COUNT; dtype++) {
            uint64_t hash = hashes[rule][dtype];
            bool same = hash == 0 || is_frozen(ps_rule_name(rule), dtype, hash);
            EXPECT(expect, same);
            if (!same)
                printf("    {\"%s\", %s, UINT64_C(0x%016llx)},\n", ps_rule_name(rule), tags[dtype],
                       (unsigned long long)hash);
        }
    }
}

int main(void)
{
    ps_optimizer_enter_thread();
    struct expect expect = {0};
    EXPECT_RUN(&expect, sgd_is_torch_sgd);
    EXPECT_RUN(&expect, sgd_decay_is_torch_weight_decay);
    EXPECT_RUN(&expect, momentum_is_torch_momentum);
    EXPECT_RUN(&expect, nesterov_is_torch_nesterov);
    EXPECT_RUN(&expect, outer_is_torch_nesterov_while_the_rate_changes);
    EXPECT_RUN(&expect, adagrad_with_epsilon_outside_is_torch_adagrad);
    EXPECT_RUN(&expect, rmsprop_is_torch_rmsprop);
    EXPECT_RUN(&expect, adadelta_is_torch_adadelta);
    EXPECT_RUN(&expect, adam_with_epsilon_outside_is_torch_adam);
    EXPECT_RUN(&expect, adamw_is_torch_adamw);
    EXPECT_RUN(&expect, ftrl_is_the_published_algorithm);
    EXPECT_RUN(&expect, ftrl_sets_small_weights_to_exactly_0);
    EXPECT_RUN(&expect, ftrl_has_a_number_where_nothing_holds_a_weight);
    EXPECT_RUN(&expect, every_rule_gives_these_bits_on_every_machine);
    return expect_end(&expect);
}
