/* SPDX-License-Identifier: Apache-2.0 */
/* Translates the message's numbers into the optimizer's. Optimizer and rule have the same name, but
 * for SGD: the message keeps the old system's one optimizer with a momentum, and the rules are one
 * per arithmetic. */
#include "server/core/update/parameter_settings.h"

#include "base/assert.h"
#include "base/bounds.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum ps_status take_rule(const struct ps_optimizer_config *config,
                                struct ps_optimizer_settings *settings, struct ps_error *error);
static enum ps_status take_number(const struct ps_config_number *number, const char *optimizer,
                                  struct ps_optimizer_settings *settings, struct ps_error *error);
static enum ps_status take_rounds(const struct ps_config_rounds *config,
                                  struct ps_round_settings *rounds, struct ps_error *error);
static enum ps_status take_choices(const struct ps_optimizer_config *config,
                                   struct ps_optimizer_settings *settings, struct ps_error *error);
static enum ps_status take_learning_rate(const struct ps_optimizer_config *config,
                                         struct ps_learning_rate *learning_rate,
                                         struct ps_error *error);
static enum ps_status parse_segment(const char **text, struct ps_schedule_segment *segment,
                                    struct ps_error *error);

/* The length first: what is longer than a configuration can be is not decoded at all. The result is
 * written at the end, so that a refused one leaves what was there. */
enum ps_status ps_parameter_settings_read(struct ps_bytes config, enum ps_dtype dtype,
                                          const struct ps_allocator *memory,
                                          struct ps_optimizer_settings *settings,
                                          struct ps_error *error)
{
    if (config.size > PS_CONFIG_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "config has %zu bytes; at most %d are allowed",
                       config.size, PS_CONFIG_BYTES_MAX);
    struct ps_optimizer_config message;
    PS_TRY(ps_optimizer_config_decode(config, memory, &message, error));
    struct ps_optimizer_settings taken;
    PS_TRY(ps_parameter_settings_from(&message, &taken, error));
    PS_TRY(ps_optimizer_settings_check(&taken, dtype, error));
    *settings = taken;
    return PS_OK;
}

/* From all zeros: a field that a rule does not know stays 0, which the bit contract reads as
 * off. */
enum ps_status ps_parameter_settings_from(const struct ps_optimizer_config *config,
                                          struct ps_optimizer_settings *settings,
                                          struct ps_error *error)
{
    *settings = (struct ps_optimizer_settings){0};
    PS_TRY(take_rule(config, settings, error));
    PS_TRY(take_choices(config, settings, error));
    settings->clip_norm = config->clip_norm;
    settings->clip_value = config->clip_value;
    PS_ASSERT(settings->rule < PS_RULE_COUNT);
    return take_learning_rate(config, &settings->learning_rate, error);
}

/* The old system had one SGD with a momentum that might be 0; here these are rules of their own,
 * since a rule without momentum needs no state. */
static enum ps_status take_rule(const struct ps_optimizer_config *config,
                                struct ps_optimizer_settings *settings, struct ps_error *error)
{
    /* For every rule the same: it is added to the gradient before the rule sees it. */
    settings->l2 = config->l2;
    if (!ps_rule_from_name(config->optimizer, &settings->rule))
        return ps_fail(error, PS_ERR_BAD_INPUT, "config: there is no optimizer %s",
                       config->optimizer);
    bool nesterov = false;
    for (uint32_t i = 0; i < config->number_count; i++) {
        const struct ps_config_number *number = &config->numbers[i];
        if (strcmp(number->name, "nesterov") == 0)
            nesterov = number->value != 0;
        else
            PS_TRY(take_number(number, config->optimizer, settings, error));
    }
    if (settings->rule == PS_RULE_SGD && settings->momentum != 0)
        settings->rule = PS_RULE_MOMENTUM;
    if (nesterov)
        settings->rule = PS_RULE_NESTEROV;
    return PS_OK;
}

/* Two optimizers give one name to different things, as FTRL's own l2 and everybody's: the settings'
 * `ftrl_l2` goes before their `l2`. AdamW calls its decay as PyTorch does. */
static enum ps_status take_number(const struct ps_config_number *number, const char *optimizer,
                                  struct ps_optimizer_settings *settings, struct ps_error *error)
{
    char own[2 * PS_CONFIG_NAME_BYTES_MAX];
    const char *name = strcmp(number->name, "weight_decay") == 0 ? "decay" : number->name;
    (void)snprintf(own, sizeof own, "%s_%s", optimizer, name);
    if (ps_optimizer_settings_set(settings, own, number->value) ||
        ps_optimizer_settings_set(settings, name, number->value))
        return PS_OK;
    return ps_fail(error, PS_ERR_BAD_INPUT, "config: %s has a number %s, which no rule knows",
                   optimizer, number->name);
}

/* As take_choices, for the enums of rounds; their numbers are judged with the type. */
static enum ps_status take_rounds(const struct ps_config_rounds *config,
                                  struct ps_round_settings *rounds, struct ps_error *error)
{
    if (config->combine < PS_COMBINE_AVERAGE || config->combine > PS_COMBINE_WEIGHTED)
        return ps_fail(error, PS_ERR_BAD_INPUT, "config: rounds.combine has no value %d",
                       (int)config->combine);
    if (config->late < PS_LATE_DROP || config->late > PS_LATE_NEXT)
        return ps_fail(error, PS_ERR_BAD_INPUT, "config: rounds.late has no value %d",
                       (int)config->late);
    *rounds = (struct ps_round_settings){.workers = config->workers,
                                         .quorum = config->quorum,
                                         .grace_ms = config->grace_ms,
                                         .combine = (enum ps_combine)config->combine,
                                         .late = (enum ps_late)config->late};
    return PS_OK;
}

/* Enums come over the wire as numbers. Each is checked before the cast, with a text of its own that
 * names the field: an enum with a value that it does not have would select no branch at all,
 * silently. */
static enum ps_status take_choices(const struct ps_optimizer_config *config,
                                   struct ps_optimizer_settings *settings, struct ps_error *error)
{
    if (config->add_overflow < PS_OVERFLOW_SATURATE || config->add_overflow > PS_OVERFLOW_FAIL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "config: add.overflow has no value %d",
                       (int)config->add_overflow);
    if (config->integer_rounding < PS_ROUNDING_NEAREST ||
        config->integer_rounding > PS_ROUNDING_STOCHASTIC)
        return ps_fail(error, PS_ERR_BAD_INPUT, "config: integer_sgd.rounding has no value %d",
                       (int)config->integer_rounding);
    if (config->nonfinite < PS_NONFINITE_REJECT || config->nonfinite > PS_NONFINITE_ALLOW)
        return ps_fail(error, PS_ERR_BAD_INPUT, "config: nonfinite has no value %d",
                       (int)config->nonfinite);
    settings->overflow = (enum ps_overflow)config->add_overflow;
    settings->rounding = (enum ps_rounding)config->integer_rounding;
    settings->nonfinite = (enum ps_nonfinite)config->nonfinite;
    settings->seed = config->integer_seed;
    settings->gradient_unsigned = config->integer_gradient_unsigned;
    settings->table = config->table;
    return take_rounds(&config->rounds, &settings->rounds, error);
}

/* One case for each policy of the message, without a default, as in take_rule: the numbers of the
 * two enums differ, since those of the message are the old system's, so a cast would not do. False:
 * there is no such policy. */
static bool schedule_of(enum ps_config_policy policy, enum ps_schedule *schedule)
{
    switch (policy) {
    case PS_POLICY_CONST:
        *schedule = PS_SCHEDULE_CONSTANT;
        return true;
    case PS_POLICY_LINEAR:
        *schedule = PS_SCHEDULE_LINEAR;
        return true;
    case PS_POLICY_POLY:
        *schedule = PS_SCHEDULE_POLY;
        return true;
    case PS_POLICY_CAFFE_POLY:
        *schedule = PS_SCHEDULE_CAFFE_POLY;
        return true;
    case PS_POLICY_EXP:
        *schedule = PS_SCHEDULE_EXP;
        return true;
    case PS_POLICY_DISCEXP:
        *schedule = PS_SCHEDULE_DISCEXP;
        return true;
    case PS_POLICY_MANUAL:
        *schedule = PS_SCHEDULE_MANUAL;
        return true;
    case PS_POLICY_PASS_MANUAL:
        *schedule = PS_SCHEDULE_PASS_MANUAL;
        return true;
    }
    return false;
}

/* The decay's two numbers mean something else in each schedule; optimizer/settings.h says what. */
static enum ps_status take_learning_rate(const struct ps_optimizer_config *config,
                                         struct ps_learning_rate *learning_rate,
                                         struct ps_error *error)
{
    if (!schedule_of(config->policy, &learning_rate->schedule))
        return ps_fail(error, PS_ERR_BAD_INPUT, "config: there is no lr_policy %d",
                       (int)config->policy);
    PS_ASSERT(learning_rate->segment_count == 0);
    /* Taken for every schedule, whether it uses them or not: a checkpoint writes them back as they
     * came. */
    learning_rate->rate = config->learning_rate;
    learning_rate->a = config->decay_a;
    learning_rate->b = config->decay_b;
    learning_rate->steps_per_pass = config->steps_per_pass;
    learning_rate->samples_per_step = config->samples_per_step;
    /* Only these two have segments; the text of any other policy is not even read. */
    bool manual = learning_rate->schedule == PS_SCHEDULE_MANUAL ||
                  learning_rate->schedule == PS_SCHEDULE_PASS_MANUAL;
    return manual ? ps_parameter_settings_segments(config->segments, learning_rate, error) : PS_OK;
}

/* The ends have to rise, since a schedule looks for the first segment whose end is not passed: one
 * that does not rise would never be found, which nobody means. Empty text is refused by the first
 * segment. Texts quote a few characters of what was not understood, since these lines are written
 * by hand. */
enum ps_status ps_parameter_settings_segments(const char *text,
                                              struct ps_learning_rate *learning_rate,
                                              struct ps_error *error)
{
    uint32_t count = 0;
    for (;;) {
        if (count == PS_SCHEDULE_SEGMENTS_MAX)
            return ps_fail(error, PS_ERR_BAD_INPUT, "config: more than %d segments",
                           PS_SCHEDULE_SEGMENTS_MAX);
        struct ps_schedule_segment *segment = &learning_rate->segments[count];
        PS_TRY(parse_segment(&text, segment, error));
        /* An end that does not rise ends nothing. */
        if (count > 0 && segment->end <= segment[-1].end)
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "config: the ends of the segments must rise (segment %u)", count + 1);
        /* Counted when it is whole: what is refused half way leaves no segment. */
        count++;
        if (*text == '\0')
            break;
        if (*text != ',')
            return ps_fail(error, PS_ERR_BAD_INPUT, "config: segment %u is followed by \"%.16s\"",
                           count, text);
        text++;
    }
    PS_ASSERT(count >= 1 && count <= PS_SCHEDULE_SEGMENTS_MAX);
    learning_rate->segment_count = count;
    return PS_OK;
}

/* Not isdigit, which asks the locale. */
static bool is_digit(char character)
{
    return character >= '0' && character <= '9';
}

/* Reads "end:rate" and moves on to what follows it. A rate begins with a digit or a point, so it is
 * not negative, and no "nan", "inf" or hexadecimal number of strtod's gets in by its first
 * character. */
static enum ps_status parse_segment(const char **text, struct ps_schedule_segment *segment,
                                    struct ps_error *error)
{
    /* strtoull and strtod would pass over spaces and signs. */
    if (!is_digit(**text))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "config: segments are \"end:rate,...\", not \"%.16s\"", *text);
    /* An end that is out of range is told by errno alone: strtoull gives the largest number
     * then. */
    char *rest = NULL;
    errno = 0;
    segment->end = strtoull(*text, &rest, 10);
    if (errno != 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "config: the end \"%.24s\" is too large", *text);
    if (rest[0] != ':' || (!is_digit(rest[1]) && rest[1] != '.'))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "config: segments are \"end:rate,...\", not \"%.16s\"", *text);
    *text = rest + 1;
    segment->rate = strtod(*text, &rest);
    if (rest == *text || !isfinite(segment->rate))
        return ps_fail(error, PS_ERR_BAD_INPUT, "config: \"%.24s\" is not a rate", *text);
    PS_ASSERT(rest > *text && segment->rate >= 0);
    *text = rest;
    return PS_OK;
}
