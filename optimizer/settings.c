/* Everything that an optimizer's settings can get wrong, found before a byte is allocated. */
#include "optimizer/settings.h"

#include "base/assert.h"
#include "base/attributes.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

struct rule_row {
    const char *name;
    uint32_t states;
    bool integers;
};

static const struct rule_row rules[PS_RULE_COUNT] = {
#define ROW(TAG, name, states, integers) [TAG] = {#name, states, integers},
    PS_RULE_TABLE(ROW)
#undef ROW
};

/* What a number may be. Finite it must always be. */
enum range {
    RANGE_NONE,     /* this rule has no use for it: ignored */
    RANGE_ZERO,     /* this rule has no use for it, and would train otherwise than asked: 0 */
    RANGE_POSITIVE, /* above 0, also after rounding to the element type */
    RANGE_FRACTION, /* in [0, 1), also after rounding */
    RANGE_AT_LEAST_0
};

static const char *const range_texts[] = {
    [RANGE_NONE] = "any",
    [RANGE_ZERO] = "0: the rule has no use for it",
    [RANGE_POSITIVE] = "above 0 and within the type",
    [RANGE_FRACTION] = "at least 0 and below 1 as that type",
    [RANGE_AT_LEAST_0] = "at least 0 and within the type",
};

/* X(field): every number of the settings but the learning rate's. */
#define NUMBER_TABLE(X)    \
    X(momentum)            \
    X(decay)               \
    X(l2)                  \
    X(l1)                  \
    X(rho)                 \
    X(beta_1)              \
    X(beta_2)              \
    X(epsilon)             \
    X(initial_accumulator) \
    X(ftrl_beta)           \
    X(ftrl_l2)             \
    X(clip_value)          \
    X(clip_norm)

#define NUMBER_FIELD(field) enum range field;
struct ranges {
    NUMBER_TABLE(NUMBER_FIELD)
};
#undef NUMBER_FIELD

/* A rule's row of ranges: all but what it names has to be 0 or is ignored. */
#define NO_USE                                                                       \
    .momentum = RANGE_ZERO, .decay = RANGE_ZERO, .l2 = RANGE_ZERO, .l1 = RANGE_ZERO, \
    .clip_value = RANGE_ZERO, .clip_norm = RANGE_ZERO
#define GRADIENT                                                                           \
    .l2 = RANGE_AT_LEAST_0, .clip_value = RANGE_AT_LEAST_0, .clip_norm = RANGE_AT_LEAST_0, \
    .l1 = RANGE_ZERO

static const struct ranges float_ranges[PS_RULE_COUNT] = {
    [PS_RULE_SGD] = {GRADIENT, .decay = RANGE_AT_LEAST_0, .momentum = RANGE_ZERO},
    [PS_RULE_MOMENTUM] = {GRADIENT, .decay = RANGE_AT_LEAST_0, .momentum = RANGE_FRACTION},
    [PS_RULE_NESTEROV] = {GRADIENT, .decay = RANGE_AT_LEAST_0, .momentum = RANGE_FRACTION},
    [PS_RULE_ADAGRAD] = {GRADIENT, .decay = RANGE_AT_LEAST_0, .momentum = RANGE_ZERO,
                         .epsilon = RANGE_POSITIVE, .initial_accumulator = RANGE_AT_LEAST_0},
    [PS_RULE_RMSPROP] = {GRADIENT, .decay = RANGE_ZERO, .momentum = RANGE_ZERO,
                         .epsilon = RANGE_POSITIVE, .rho = RANGE_FRACTION},
    [PS_RULE_ADADELTA] = {GRADIENT, .decay = RANGE_AT_LEAST_0, .momentum = RANGE_ZERO,
                          .epsilon = RANGE_POSITIVE, .rho = RANGE_FRACTION},
    [PS_RULE_ADAM] = {GRADIENT, .decay = RANGE_AT_LEAST_0, .momentum = RANGE_ZERO,
                      .epsilon = RANGE_POSITIVE, .beta_1 = RANGE_FRACTION,
                      .beta_2 = RANGE_FRACTION},
    [PS_RULE_ADAMW] = {GRADIENT, .decay = RANGE_AT_LEAST_0, .momentum = RANGE_ZERO,
                       .epsilon = RANGE_POSITIVE, .beta_1 = RANGE_FRACTION,
                       .beta_2 = RANGE_FRACTION},
    [PS_RULE_FTRL] = {.l2 = RANGE_AT_LEAST_0,
                      .clip_value = RANGE_AT_LEAST_0,
                      .clip_norm = RANGE_AT_LEAST_0,
                      .decay = RANGE_ZERO,
                      .momentum = RANGE_ZERO,
                      .l1 = RANGE_AT_LEAST_0,
                      .ftrl_beta = RANGE_AT_LEAST_0,
                      .ftrl_l2 = RANGE_AT_LEAST_0,
                      .initial_accumulator = RANGE_AT_LEAST_0},
    [PS_RULE_ASSIGN] = {NO_USE},
    [PS_RULE_ADD] = {NO_USE},
    [PS_RULE_MAX] = {NO_USE},
    [PS_RULE_MIN] = {NO_USE},
};
static const struct ranges integer_ranges = {NO_USE};
#undef NO_USE
#undef GRADIENT

static enum ps_status check_pair(const struct ps_optimizer_settings *settings, enum ps_dtype dtype,
                                 struct ps_error *error);
static enum ps_status check_choices(const struct ps_optimizer_settings *settings,
                                    enum ps_dtype dtype, struct ps_error *error);
static enum ps_status check_numbers(const struct ps_optimizer_settings *settings,
                                    enum ps_dtype dtype, struct ps_error *error);
static enum ps_status check_rate(const struct ps_optimizer_settings *settings, enum ps_dtype dtype,
                                 struct ps_error *error);

enum ps_status ps_optimizer_settings_check(const struct ps_optimizer_settings *settings,
                                           enum ps_dtype dtype, struct ps_error *error)
{
    PS_ASSERT(settings != NULL);
    PS_ASSERT(dtype < PS_DTYPE_COUNT);
    PS_TRY(check_pair(settings, dtype, error));
    PS_TRY(check_choices(settings, dtype, error));
    PS_TRY(check_numbers(settings, dtype, error));
    return check_rate(settings, dtype, error);
}

/* Writes "sgd, assign, add, max, min" (or all rules for floats) into `text`. */
static void list_rules(enum ps_dtype dtype, char *text, size_t size)
{
    text[0] = '\0';
    for (size_t i = 0; i < PS_RULE_COUNT; i++) {
        if (!ps_dtype_is_float(dtype) && !rules[i].integers)
            continue;
        if (text[0] != '\0')
            strncat(text, ", ", size - strlen(text) - 1);
        strncat(text, rules[i].name, size - strlen(text) - 1);
    }
}

static enum ps_status check_pair(const struct ps_optimizer_settings *settings, enum ps_dtype dtype,
                                 struct ps_error *error)
{
    char list[128];
    list_rules(dtype, list, sizeof list);
    if ((unsigned)settings->rule >= PS_RULE_COUNT)
        return ps_fail(error, PS_ERR_BAD_INPUT, "optimizer %d is unknown; %s allows %s",
                       (int)settings->rule, ps_dtype_name(dtype), list);
    if (!ps_dtype_is_float(dtype) && !rules[settings->rule].integers)
        return ps_fail(error, PS_ERR_BAD_INPUT, "optimizer %s is not for %s, which allows %s",
                       rules[settings->rule].name, ps_dtype_name(dtype), list);
    return PS_OK;
}

static enum ps_status refuse_choice(const struct ps_optimizer_settings *settings,
                                    enum ps_dtype dtype, const char *choice, const char *allowed,
                                    struct ps_error *error)
{
    return ps_fail(error, PS_ERR_BAD_INPUT, "optimizer %s on %s: %s is only for %s",
                   rules[settings->rule].name, ps_dtype_name(dtype), choice, allowed);
}

static enum ps_status check_choices(const struct ps_optimizer_settings *settings,
                                    enum ps_dtype dtype, struct ps_error *error)
{
    bool whole = !ps_dtype_is_float(dtype);
    bool unsigned_type = dtype == PS_U32 || dtype == PS_U64;
    if ((unsigned)settings->overflow > PS_OVERFLOW_FAIL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "overflow %d is unknown", (int)settings->overflow);
    if ((unsigned)settings->rounding > PS_ROUNDING_STOCHASTIC)
        return ps_fail(error, PS_ERR_BAD_INPUT, "rounding %d is unknown", (int)settings->rounding);
    if ((unsigned)settings->nonfinite > PS_NONFINITE_ALLOW)
        return ps_fail(error, PS_ERR_BAD_INPUT, "nonfinite %d is unknown",
                       (int)settings->nonfinite);
    if (settings->overflow != PS_OVERFLOW_SATURATE && !(whole && settings->rule == PS_RULE_ADD))
        return refuse_choice(settings, dtype, "overflow wrap or fail", "add on i32, u32, i64, u64",
                             error);
    if (settings->rounding != PS_ROUNDING_NEAREST && !(whole && settings->rule == PS_RULE_SGD))
        return refuse_choice(settings, dtype, "stochastic rounding", "sgd on i32, u32, i64, u64",
                             error);
    if (settings->gradient_unsigned && !(unsigned_type && settings->rule == PS_RULE_SGD))
        return refuse_choice(settings, dtype, "an unsigned gradient", "sgd on u32, u64", error);
    return PS_OK;
}

/* The number as it will be used. */
static double rounded(double number, enum ps_dtype dtype)
{
    return dtype == PS_F32 ? (double)(float)number : number;
}

static bool in_range(double number, enum range range, enum ps_dtype dtype)
{
    if (!isfinite(number))
        return false;
    if (range == RANGE_NONE)
        return true;
    double used = rounded(number, dtype);
    if (range == RANGE_ZERO)
        return number == 0;
    if (range == RANGE_POSITIVE)
        return used > 0 && isfinite(used);
    if (range == RANGE_FRACTION)
        return used >= 0 && used < 1;
    return number >= 0 && isfinite(used);
}

static enum ps_status check_numbers(const struct ps_optimizer_settings *settings,
                                    enum ps_dtype dtype, struct ps_error *error)
{
    const struct ranges *ranges =
        ps_dtype_is_float(dtype) ? &float_ranges[settings->rule] : &integer_ranges;
    const struct {
        const char *name;
        double number;
        enum range range;
    } numbers[] = {
#define NUMBER_ROW(field) {#field, settings->field, ranges->field},
        NUMBER_TABLE(NUMBER_ROW)
#undef NUMBER_ROW
    };

    for (size_t i = 0; i < PS_ARRAY_COUNT(numbers); i++) {
        if (in_range(numbers[i].number, numbers[i].range, dtype))
            continue;
        return ps_fail(error, PS_ERR_BAD_INPUT, "optimizer %s on %s: %s is %g but must be %s",
                       rules[settings->rule].name, ps_dtype_name(dtype), numbers[i].name,
                       numbers[i].number,
                       isfinite(numbers[i].number) ? range_texts[numbers[i].range] : "finite");
    }
    return PS_OK;
}

static enum ps_status check_segments(const struct ps_learning_rate *rate, struct ps_error *error)
{
    if (rate->segment_count == 0 || rate->segment_count > PS_SCHEDULE_SEGMENTS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "schedule: %u segments, allowed are 1 to %d",
                       rate->segment_count, PS_SCHEDULE_SEGMENTS_MAX);
    for (uint32_t i = 0; i < rate->segment_count; i++) {
        const struct ps_schedule_segment *segment = &rate->segments[i];
        if (!isfinite(segment->rate) || segment->rate < 0)
            return ps_fail(error, PS_ERR_BAD_INPUT, "schedule: segment %u has rate %g", i,
                           segment->rate);
        if (i > 0 && segment->end <= rate->segments[i - 1].end)
            return ps_fail(error, PS_ERR_BAD_INPUT, "schedule: segment %u does not end after %u", i,
                           i - 1);
    }
    return PS_OK;
}

/* What a and b must be for a schedule; NULL when they are. */
static const char *schedule_fault(const struct ps_learning_rate *rate)
{
    double a = rate->a;
    double b = rate->b;
    switch (rate->schedule) {
    case PS_SCHEDULE_LINEAR:
    case PS_SCHEDULE_POLY:
        return a >= 0 && b >= 0 ? NULL : "a >= 0 and b >= 0";
    case PS_SCHEDULE_CAFFE_POLY:
        return a > 0 && b >= 0 ? NULL : "a > 0 and b >= 0";
    case PS_SCHEDULE_EXP:
    case PS_SCHEDULE_DISCEXP:
        return a > 0 && a <= 1 && b >= 1e-6 ? NULL : "0 < a <= 1 and b >= 1e-6";
    case PS_SCHEDULE_CONSTANT:
    case PS_SCHEDULE_MANUAL:
    case PS_SCHEDULE_PASS_MANUAL:
        break;
    }
    return NULL;
}

/* No schedule ever gives more than this. */
static double greatest_rate(const struct ps_learning_rate *rate)
{
    double factor = 1;
    if (rate->schedule == PS_SCHEDULE_LINEAR)
        return fmax(rate->rate, rate->b);
    if (rate->schedule != PS_SCHEDULE_MANUAL && rate->schedule != PS_SCHEDULE_PASS_MANUAL)
        return rate->rate;
    for (uint32_t i = 0; i < rate->segment_count; i++)
        factor = fmax(factor, rate->segments[i].rate);
    return rate->rate * factor;
}

static enum ps_status check_schedule(const struct ps_learning_rate *rate, struct ps_error *error)
{
    if ((unsigned)rate->schedule > PS_SCHEDULE_PASS_MANUAL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "schedule %d is unknown", (int)rate->schedule);
    if (!isfinite(rate->rate) || rate->rate < 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "learning rate %g: must be at least 0 and finite",
                       rate->rate);
    if (!isfinite(rate->a) || !isfinite(rate->b))
        return ps_fail(error, PS_ERR_BAD_INPUT, "schedule: a is %g, b is %g: must be finite",
                       rate->a, rate->b);
    if (schedule_fault(rate) != NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "schedule: a is %g, b is %g: must be %s", rate->a,
                       rate->b, schedule_fault(rate));
    if (rate->schedule == PS_SCHEDULE_MANUAL || rate->schedule == PS_SCHEDULE_PASS_MANUAL)
        return check_segments(rate, error);
    return PS_OK;
}

static enum ps_status check_rate(const struct ps_optimizer_settings *settings, enum ps_dtype dtype,
                                 struct ps_error *error)
{
    const struct ps_learning_rate *rate = &settings->learning_rate;
    PS_TRY(check_schedule(rate, error));
    if (!isfinite(rounded(greatest_rate(rate), dtype)))
        return ps_fail(error, PS_ERR_BAD_INPUT, "learning rate: up to %g does not fit in %s",
                       greatest_rate(rate), ps_dtype_name(dtype));
    /* FTRL's weights are a function of the rate itself: one that moves would move them all, and one
     * that reaches 0 would make them NaN. */
    if (settings->rule == PS_RULE_FTRL &&
        (rate->schedule != PS_SCHEDULE_CONSTANT || !isfinite(rounded(1 / rate->rate, dtype))))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "optimizer ftrl: the learning rate must be constant and above 0");
    return PS_OK;
}

const char *ps_rule_name(enum ps_rule rule)
{
    PS_ASSERT(rule < PS_RULE_COUNT);
    return rules[rule].name;
}

uint32_t ps_rule_states(enum ps_rule rule)
{
    PS_ASSERT(rule < PS_RULE_COUNT);
    return rules[rule].states;
}

double ps_optimizer_state_start(const struct ps_optimizer_settings *settings, uint32_t state)
{
    PS_ASSERT(state < ps_rule_states(settings->rule));
    bool starts_high = settings->rule == PS_RULE_ADAGRAD || settings->rule == PS_RULE_FTRL;
    return starts_high && state == 0 ? settings->initial_accumulator : 0;
}
