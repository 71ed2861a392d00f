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

/* The bits of a rule: a hash over what it makes of numbers of all kinds, on every type. A change
 * here changes what the server computes: never between releases without a word in the changelog,
 * and never between two compilers or machines. A rule that is added takes the hash that this test
 * prints, once its formula is right. */
static const struct {
    const char *rule;
    uint64_t hash;
} frozen[] = {
    {.rule = "sgd", .hash = UINT64_C(0xf7bb236254506cbc)},
    {.rule = "momentum", .hash = UINT64_C(0xaa20f1baa09123c8)},
    {.rule = "nesterov", .hash = UINT64_C(0xbe444f70b990f610)},
    {.rule = "adagrad", .hash = UINT64_C(0x2d4b861da7a369c3)},
    {.rule = "rmsprop", .hash = UINT64_C(0xeca4f71984db4db9)},
    {.rule = "adadelta", .hash = UINT64_C(0xe6d813901e31ae8f)},
    {.rule = "adam", .hash = UINT64_C(0xfa6e684d04421f13)},
    {.rule = "adamw", .hash = UINT64_C(0x7d9676a8520ca11e)},
    {.rule = "ftrl", .hash = UINT64_C(0x475fd25f3e232da7)},
    {.rule = "assign", .hash = UINT64_C(0x36c265e8e81a457d)},
    {.rule = "add", .hash = UINT64_C(0xf6cf5a57c939d396)},
    {.rule = "max", .hash = UINT64_C(0x8d9bb12ebf9f4ef5)},
    {.rule = "min", .hash = UINT64_C(0xf137d154cab9f990)},
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
    *hash = rule_case_hash(*hash, dtype, arrays.values, HASHED);
    *hash = rule_case_hash(*hash, dtype, arrays.states[0], HASHED);
    *hash = rule_case_hash(*hash, dtype, arrays.states[1], HASHED);
}

static bool is_frozen(const char *rule, uint64_t hash)
{
    for (size_t i = 0; i < sizeof frozen / sizeof frozen[0]; i++) {
        if (strcmp(frozen[i].rule, rule) == 0)
            return frozen[i].hash == hash;
    }
    return false;
}

static void every_rule_gives_these_bits_on_every_machine(struct expect *expect)
{
    uint64_t hashes[PS_RULE_COUNT];
    struct ps_optimizer_settings settings;
    for (size_t rule = 0; rule < PS_RULE_COUNT; rule++)
        hashes[rule] = UINT64_C(0xcbf29ce484222325);
    for (enum ps_dtype dtype = 0; dtype < PS_DTYPE_COUNT; dtype++) {
        for (size_t i = 0; rule_case(i, dtype, &settings); i++)
            hash_case(&settings, dtype, &hashes[settings.rule]);
    }
    for (enum ps_rule rule = 0; rule < PS_RULE_COUNT; rule++) {
        bool same = is_frozen(ps_rule_name(rule), hashes[rule]);
        EXPECT(expect, same);
        if (!same)
            printf("    {.rule = \"%s\", .hash = UINT64_C(0x%016llx)},\n", ps_rule_name(rule),
                   (unsigned long long)hashes[rule]);
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
    EXPECT_RUN(&expect, adagrad_with_epsilon_outside_is_torch_adagrad);
    EXPECT_RUN(&expect, rmsprop_is_torch_rmsprop);
    EXPECT_RUN(&expect, adadelta_is_torch_adadelta);
    EXPECT_RUN(&expect, adam_with_epsilon_outside_is_torch_adam);
    EXPECT_RUN(&expect, adamw_is_torch_adamw);
    EXPECT_RUN(&expect, ftrl_is_the_published_algorithm);
    EXPECT_RUN(&expect, ftrl_sets_small_weights_to_exactly_0);
    EXPECT_RUN(&expect, every_rule_gives_these_bits_on_every_machine);
    return expect_end(&expect);
}
