/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that an optimizer's settings can get wrong, found before a byte is allocated. */
#include "optimizer/settings.h"

#include "base/assert.h"
#include "base/attributes.h"
#include "base/bounds.h"
#include "optimizer/table_check.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

/* What the rest of the code asks about a rule; loops and kernels read the table of rules.h
 * themselves. */
struct rule_row {
    const char *name;
    uint32_t states;
    uint32_t uses; /* PS_USES_... */
    bool integers;
    double rate;
};

/* Of the columns that say how loops are made, only NONE on whole numbers matters here. */
#define WHOLE_NONE false
#define WHOLE_PLAIN true
#define WHOLE_NUMBERS true
#define WHOLE_OWN true
static const struct rule_row rules[PS_RULE_COUNT] = {
#define ROW(TAG, name, states, floats, wholes, uses, rate, ...) \
    [TAG] = {#name, states, uses, WHOLE_##wholes, rate},
    PS_RULE_TABLE(ROW, )
#undef ROW
};
#undef WHOLE_NONE
#undef WHOLE_PLAIN
#undef WHOLE_NUMBERS
#undef WHOLE_OWN

/* What a number may be. Finite it must always be. */
enum range {
    RANGE_ANY,      /* this rule has no use for it: ignored */
    RANGE_ZERO,     /* this rule has no use for it, and would train otherwise than asked: 0 */
    RANGE_POSITIVE, /* above 0, also after rounding to the element type */
    RANGE_FRACTION, /* in [0, 1), also after rounding */
    RANGE_AT_LEAST_0
};

static const char *const range_texts[] = {
    [RANGE_ANY] = "any",
    [RANGE_ZERO] = "0: the rule has no use for it",
    [RANGE_POSITIVE] = "above 0 and within the type",
    [RANGE_FRACTION] = "at least 0 and below 1 as that type",
    [RANGE_AT_LEAST_0] = "at least 0 and within the type",
};

/* The numbers of the settings but those of the learning rate.
 * A table and not a switch: the check, the names in its texts and ps_optimizer_settings_set all
 * walk over it, so that a number which is added to rules.h is checked and can be set. */
struct number_row {
    const char *name;
    size_t offset; /* in the settings */
    uint32_t use;
    enum range range;     /* for a rule that uses it */
    enum range otherwise; /* for all others */
};

static const struct number_row numbers[] = {
#define ROW(number, use, range, otherwise)                                        \
    {#number, offsetof(struct ps_optimizer_settings, number), use, RANGE_##range, \
     RANGE_##otherwise},
    PS_NUMBER_TABLE(ROW) PS_SHAPED_NUMBER_TABLE(ROW)
#undef ROW
};

static enum ps_status check_pair(const struct ps_optimizer_settings *settings, enum ps_dtype dtype,
                                 struct ps_error *error);
static enum ps_status check_choices(const struct ps_optimizer_settings *settings,
                                    enum ps_dtype dtype, struct ps_error *error);
static enum ps_status check_numbers(const struct ps_optimizer_settings *settings,
                                    enum ps_dtype dtype, struct ps_error *error);
static enum ps_status check_rounds(const struct ps_optimizer_settings *settings,
                                   enum ps_dtype dtype, struct ps_error *error);
static enum ps_status check_rate(const struct ps_optimizer_settings *settings, enum ps_dtype dtype,
                                 struct ps_error *error);

/* Everything that can be wrong is found here, once, before a byte is allocated and before the
 * configuration is written to a checkpoint; a push cannot fail because of its settings. The
 * order is from coarse to fine, so that the text names the first thing that a person would
 * change. */
enum ps_status ps_optimizer_settings_check(const struct ps_optimizer_settings *settings,
                                           enum ps_dtype dtype, struct ps_error *error)
{
    PS_ASSERT(settings != NULL);
    PS_ASSERT(dtype < PS_DTYPE_COUNT);
    PS_TRY(check_pair(settings, dtype, error));
    PS_TRY(check_choices(settings, dtype, error));
    PS_TRY(check_numbers(settings, dtype, error));
    PS_TRY(check_rounds(settings, dtype, error));
    PS_TRY(ps_table_check(settings, dtype, error));
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
    /* Room for a hundred characters more than the names take today. */
    char list[256];
    list_rules(dtype, list, sizeof list);
    /* As a number: the enum came from outside, and nothing may be indexed with it before. */
    if ((unsigned)settings->rule >= PS_RULE_COUNT)
        return ps_fail(error, PS_ERR_BAD_INPUT, "optimizer %d is unknown; %s allows %s",
                       (int)settings->rule, ps_dtype_name(dtype), list);
    if (!ps_dtype_is_float(dtype) && !rules[settings->rule].integers)
        return ps_fail(error, PS_ERR_BAD_INPUT, "optimizer %s is not for %s, which allows %s",
                       rules[settings->rule].name, ps_dtype_name(dtype), list);
    return PS_OK;
}

/* One form for all of them: what was asked, of which rule and type, and where it would be right. */
static enum ps_status refuse_choice(const struct ps_optimizer_settings *settings,
                                    enum ps_dtype dtype, const char *choice, const char *allowed,
                                    struct ps_error *error)
{
    return ps_fail(error, PS_ERR_BAD_INPUT, "optimizer %s on %s: %s is only for %s",
                   rules[settings->rule].name, ps_dtype_name(dtype), choice, allowed);
}

/* A choice that a rule does not have is refused rather than ignored: whoever asks for overflow
 * "fail" and trains with something else must not believe that overflow is looked for. */
static enum ps_status check_choices(const struct ps_optimizer_settings *settings,
                                    enum ps_dtype dtype, struct ps_error *error)
{
    /* The enums may hold any number here: they come from a message. */
    bool whole = !ps_dtype_is_float(dtype);
    bool unsigned_type = ps_dtype_is_unsigned(dtype);
    /* Each enum by itself, so that the text says which of them is unknown. */
    if ((unsigned)settings->overflow > PS_OVERFLOW_FAIL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "overflow %d is unknown", (int)settings->overflow);
    if ((unsigned)settings->rounding > PS_ROUNDING_STOCHASTIC)
        return ps_fail(error, PS_ERR_BAD_INPUT, "rounding %d is unknown", (int)settings->rounding);
    if ((unsigned)settings->nonfinite > PS_NONFINITE_ALLOW)
        return ps_fail(error, PS_ERR_BAD_INPUT, "nonfinite %d is unknown",
                       (int)settings->nonfinite);
    /* Saturating is the default and what floats do in any case: only other wishes need a rule
     * that hears them. */
    if (settings->overflow != PS_OVERFLOW_SATURATE && !(whole && settings->rule == PS_RULE_ADD))
        return refuse_choice(settings, dtype, "overflow wrap or fail", "add on whole numbers",
                             error);
    /* Floats are rounded by the processor, as IEEE 754 says. */
    if (settings->rounding != PS_ROUNDING_NEAREST && !(whole && settings->rule == PS_RULE_SGD))
        return refuse_choice(settings, dtype, "stochastic rounding", "sgd on whole numbers", error);
    if (settings->gradient_unsigned && !(unsigned_type && settings->rule == PS_RULE_SGD))
        return refuse_choice(settings, dtype, "an unsigned gradient", "sgd on unsigned types",
                             error);
    return PS_OK;
}

/* A sum of whole numbers wraps where a push of each would saturate, and has no average. A quorum
 * that can never be reached would hold all workers for ever. */
static enum ps_status check_rounds(const struct ps_optimizer_settings *settings,
                                   enum ps_dtype dtype, struct ps_error *error)
{
    const struct ps_round_settings *rounds = &settings->rounds;
    if ((unsigned)rounds->combine > PS_COMBINE_WEIGHTED)
        return ps_fail(error, PS_ERR_BAD_INPUT, "rounds.combine %d is unknown",
                       (int)rounds->combine);
    if ((unsigned)rounds->late > PS_LATE_NEXT)
        return ps_fail(error, PS_ERR_BAD_INPUT, "rounds.late %d is unknown", (int)rounds->late);
    if (rounds->workers > PS_ROUND_WORKERS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "rounds.workers is %u, %d are allowed",
                       (unsigned)rounds->workers, PS_ROUND_WORKERS_MAX);
    if (rounds->workers > 0 && rounds->quorum > rounds->workers)
        return ps_fail(error, PS_ERR_BAD_INPUT, "rounds.quorum is %u, of %u workers",
                       (unsigned)rounds->quorum, (unsigned)rounds->workers);
    if (rounds->grace_ms > PS_ROUND_GRACE_MS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "rounds.grace_ms is more than a day");
    if (rounds->workers > 0 && !ps_dtype_is_float(dtype))
        return refuse_choice(settings, dtype, "training in rounds", "float32 and float64", error);
    return PS_OK;
}

/* The number as it will be used.
 * Only float32 loses digits of a double. */
static double rounded(double number, enum ps_dtype dtype)
{
    return dtype == PS_F32 ? (double)(float)number : number;
}

/* Judged as the number will be used: 1 - 1e-9 is below 1, and as a float32 is 1. */
static bool in_range(double number, enum range range, enum ps_dtype dtype)
{
    if (!isfinite(number))
        return false;
    if (range == RANGE_ANY)
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
    /* Whole numbers know the learning rate alone, whatever their rule uses on floats. */
    uint32_t uses = ps_dtype_is_float(dtype) ? rules[settings->rule].uses : 0;
    for (size_t i = 0; i < PS_ARRAY_COUNT(numbers); i++) {
        /* The first number that is wrong is named; a person corrects one at a time. */
        const struct number_row *row = &numbers[i];
        double number = *(const double *)((const char *)settings + row->offset);
        enum range range = (uses & row->use) != 0 ? row->range : row->otherwise;
        if (in_range(number, range, dtype))
            continue;
        return ps_fail(error, PS_ERR_BAD_INPUT, "optimizer %s on %s: %s is %g but must be %s",
                       rules[settings->rule].name, ps_dtype_name(dtype), row->name, number,
                       isfinite(number) ? range_texts[range] : "finite");
    }
    return PS_OK;
}

/* The ends rise, so that every n has one segment; the last one goes on for ever. */
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

/* What a and b must be for a schedule; NULL when they are.
 * The ranges are those in which the formula stays finite and above 0 for every n; b of the
 * exponential ones is bounded below, because n / b would overflow. */
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

/* No schedule ever gives more than this.
 * Every policy falls or stays, but for a list of factors, which may rise, and for a floor above
 * the first rate. */
static double greatest_rate(const struct ps_learning_rate *rate)
{
    double factor = 1;
    /* The line ends at b, which may be the greater. */
    if (rate->schedule == PS_SCHEDULE_LINEAR)
        return fmax(rate->rate, rate->b);
    if (rate->schedule != PS_SCHEDULE_MANUAL && rate->schedule != PS_SCHEDULE_PASS_MANUAL)
        return rate->rate;
    for (uint32_t i = 0; i < rate->segment_count; i++)
        factor = fmax(factor, rate->segments[i].rate);
    return rate->rate * factor;
}

/* Unknown policies, then numbers that no policy may have, then what this policy asks of a and b. */
static enum ps_status check_schedule(const struct ps_learning_rate *rate, struct ps_error *error)
{
    if ((unsigned)rate->schedule > PS_SCHEDULE_PASS_MANUAL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "schedule %d is unknown", (int)rate->schedule);
    if (!isfinite(rate->rate) || rate->rate < 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "learning rate %g: must be at least 0 and finite",
                       rate->rate);
    /* Also of a policy that uses neither: a number that is not finite is a mistake of whoever
     * wrote it. */
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
    /* A rate that is finite as a double may be infinite as the float that the loops take. */
    if (!isfinite(rounded(greatest_rate(rate), dtype)))
        return ps_fail(error, PS_ERR_BAD_INPUT, "learning rate: up to %g does not fit in %s",
                       greatest_rate(rate), ps_dtype_name(dtype));
    /* FTRL's weights are a function of the rate itself: one that moves would move them all, and one
     * that reaches 0 would make them NaN. */
    if (ps_rule_uses(settings->rule, PS_USES_FTRL) &&
        (rate->schedule != PS_SCHEDULE_CONSTANT || !isfinite(rounded(1 / rate->rate, dtype))))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "optimizer %s: the learning rate must be constant and above 0",
                       rules[settings->rule].name);
    return PS_OK;
}

/* An index that is not a rule is a bug of ours by now: the settings were checked. */
const char *ps_rule_name(enum ps_rule rule)
{
    PS_ASSERT(rule < PS_RULE_COUNT);
    return rules[rule].name;
}

/* A walk: it is asked once for a parameter, at initialisation. */
bool ps_rule_from_name(const char *name, enum ps_rule *rule)
{
    PS_ASSERT(name != NULL && rule != NULL);
    for (size_t i = 0; i < PS_RULE_COUNT; i++) {
        if (strcmp(rules[i].name, name) != 0)
            continue;
        *rule = (enum ps_rule)i;
        return true;
    }
    return false;
}

/* All of the bits that are asked for, so that one call asks for a pair. */
bool ps_rule_uses(enum ps_rule rule, uint32_t uses)
{
    PS_ASSERT(rule < PS_RULE_COUNT);
    return (rules[rule].uses & uses) == uses;
}

/* For tools; a server takes what it is told, and 1 where it is told nothing. */
double ps_rule_default_rate(enum ps_rule rule)
{
    PS_ASSERT(rule < PS_RULE_COUNT);
    return rules[rule].rate;
}

uint32_t ps_rule_states(enum ps_rule rule)
{
    PS_ASSERT(rule < PS_RULE_COUNT);
    return rules[rule].states;
}

double ps_optimizer_state_start(const struct ps_optimizer_settings *settings, uint32_t state)
{
    PS_ASSERT(state < ps_rule_states(settings->rule));
    /* The second state of a rule with an accumulator is of another kind (FTRL's z), and starts
     * at 0. */
    bool starts_high = ps_rule_uses(settings->rule, PS_USES_ACCUMULATOR);
    return starts_high && state == 0 ? settings->initial_accumulator : 0;
}

bool ps_optimizer_settings_set(struct ps_optimizer_settings *settings, const char *name,
                               double value)
{
    PS_ASSERT(settings != NULL && name != NULL);
    for (size_t i = 0; i < PS_ARRAY_COUNT(numbers); i++) {
        if (strcmp(numbers[i].name, name) != 0)
            continue;
        *(double *)((char *)settings + numbers[i].offset) = value;
        return true;
    }
    /* The flags have no row: none has a range, and two belong to a single rule. */
    bool outside = strcmp(name, "epsilon_outside_root") == 0;
    bool sign = strcmp(name, "adagrad_reference_sign") == 0;
    bool row_wise = strcmp(name, "adagrad_row_wise") == 0;
    if (outside)
        settings->epsilon_outside_root = value != 0;
    if (sign)
        settings->adagrad_reference_sign = value != 0;
    if (row_wise)
        settings->adagrad_row_wise = value != 0;
    return outside || sign || row_wise;
}
