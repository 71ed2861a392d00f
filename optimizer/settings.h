/* SPDX-License-Identifier: Apache-2.0 */
/* What one parameter's optimizer is told to do: a rule with its numbers, checked once at InitParam.
 *
 * A settings struct comes from a serialized OptimizerConfig (proto/optimizer_config.h fills a plain
 * message; server/core turns that into this). All zero means: rule SGD with learning rate 0.
 *
 * Threads:  plain data.
 * Blocking: never.
 * Errors:   ps_optimizer_settings_check says which rule, which type and what would be allowed.
 * Memory:   nothing is allocated; the manual schedule's segments are held in place.
 */
#ifndef PS_OPTIMIZER_SETTINGS_H
#define PS_OPTIMIZER_SETTINGS_H

#include "base/dtype.h"
#include "base/status.h"
#include "base/table_settings.h"
#include "optimizer/rules.h"

#include <stdbool.h>
#include <stdint.h>

#define PS_RULE_ENUM(TAG, name, states, floats, wholes, uses, rate, ...) TAG,
enum ps_rule { PS_RULE_TABLE(PS_RULE_ENUM, ) PS_RULE_COUNT };
#undef PS_RULE_ENUM

enum ps_schedule {
    PS_SCHEDULE_CONSTANT,   /* lr */
    PS_SCHEDULE_LINEAR,     /* max(lr - a n, b); a, b >= 0 */
    PS_SCHEDULE_POLY,       /* lr (1 + a n)^-b; a, b >= 0 */
    PS_SCHEDULE_CAFFE_POLY, /* n > a: 0; else lr (1 - n/a)^b; a > 0, b >= 0 */
    PS_SCHEDULE_EXP,        /* lr a^(n/b); 0 < a <= 1, b > 0 */
    PS_SCHEDULE_DISCEXP,    /* lr a^floor(n/b); 0 < a <= 1, b > 0 */
    PS_SCHEDULE_MANUAL,     /* lr times the rate of the first segment with n <= its end */
    PS_SCHEDULE_PASS_MANUAL /* the same with n = pass number */
};

#define PS_SCHEDULE_SEGMENTS_MAX 64

struct ps_schedule_segment {
    uint64_t end; /* last n of the segment */
    double rate;  /* factor on lr */
};

struct ps_learning_rate {
    enum ps_schedule schedule;
    double rate; /* lr */
    double a;
    double b;
    uint64_t steps_per_pass;   /* PASS_MANUAL: n = (t - 1) / steps_per_pass; 0 counts as 1 */
    uint64_t samples_per_step; /* n = t * samples_per_step; 0 counts as 1 */
    struct ps_schedule_segment segments[PS_SCHEDULE_SEGMENTS_MAX];
    uint32_t segment_count;
};

enum ps_overflow { PS_OVERFLOW_SATURATE, PS_OVERFLOW_WRAP, PS_OVERFLOW_FAIL };
enum ps_rounding { PS_ROUNDING_NEAREST, PS_ROUNDING_STOCHASTIC };
enum ps_nonfinite { PS_NONFINITE_REJECT, PS_NONFINITE_SKIP, PS_NONFINITE_ALLOW };

/* How the gradients of many workers become one step (docs/rounds.md); all zero: they do not, each
 * gradient is a step of its own. */
enum ps_combine { PS_COMBINE_AVERAGE, PS_COMBINE_SUM, PS_COMBINE_WEIGHTED };
enum ps_late { PS_LATE_DROP, PS_LATE_NEXT };
struct ps_round_settings {
    uint32_t workers;  /* their ranks are below; 0: no rounds. At most PS_ROUND_WORKERS_MAX */
    uint32_t quorum;   /* a round ends with so many; 0: with all that are not evicted */
    uint64_t grace_ms; /* or so long after its first contribution; 0: never. At most
                          PS_ROUND_GRACE_MS_MAX */
    enum ps_combine combine;
    enum ps_late late;
};

/* What a push goes through before the rule sees it: each element held in [-clip_value, clip_value],
 * the whole scaled by clip_norm, then l2 * p added. Numbers that a rule has no use for must be 0
 * where they would change training (ZERO in PS_NUMBER_TABLE); others are ignored. */
#define PS_SETTING(number, use, range, otherwise) double number;
struct ps_optimizer_settings {
    enum ps_rule rule;
    struct ps_learning_rate learning_rate;
    PS_NUMBER_TABLE(PS_SETTING)
    PS_SHAPED_NUMBER_TABLE(PS_SETTING)
    bool epsilon_outside_root; /* sqrt(A) + eps instead of sqrt(A + eps), which is the reference's,
                                  * where the rule leaves the choice (rules.h) */
    bool adagrad_row_wise;     /* ADAGRAD of a table: one accumulator for each row */
    bool adagrad_reference_sign; /* ADAGRAD: the old system's wrong sign, for comparison only */
    enum ps_overflow overflow;   /* ADD on integers */
    enum ps_rounding rounding;   /* SGD on integers */
    enum ps_nonfinite nonfinite; /* floats */
    uint64_t seed;               /* stochastic rounding */
    struct ps_round_settings rounds;
    struct ps_table_settings table; /* all zero: the parameter is no table */
    bool gradient_unsigned; /* integer SGD on unsigned: gradient of type T, not its signed twin */
};
#undef PS_SETTING

/* Is this rule with these numbers possible on this type?
 *
 * PS_OK               yes
 * PS_ERR_BAD_INPUT    no; the text names rule, type and what is allowed, or the number that is out
 *                     of its range (every number must be finite)
 */
PS_MUST_USE enum ps_status ps_optimizer_settings_check(const struct ps_optimizer_settings *settings,
                                                       enum ps_dtype dtype, struct ps_error *error);

/* Sets one number or flag of the settings by its name ("beta_1", "epsilon_outside_root"); a flag is
 * true for everything but 0. False when the settings have no such field; nothing has changed. */
bool ps_optimizer_settings_set(struct ps_optimizer_settings *settings, const char *name,
                               double value);

/* "sgd", "adamw" ... Static. */
const char *ps_rule_name(enum ps_rule rule);

/* Finds a rule by that name. False when there is none; `*rule` is then unchanged. */
bool ps_rule_from_name(const char *name, enum ps_rule *rule);

/* Does the rule use all of `uses` (PS_USES_... of rules.h)? */
bool ps_rule_uses(enum ps_rule rule, uint32_t uses);

/* The learning rate to train with where nobody names one; 0 for a rule that is no descent. */
double ps_rule_default_rate(enum ps_rule rule);

/* How many state arrays, each of the parameter's type and length, the rule keeps: 0, 1 or 2. */
uint32_t ps_rule_states(enum ps_rule rule);

/* What a state array starts with, e.g. the initial accumulator of ADAGRAD. Usually 0. */
double ps_optimizer_state_start(const struct ps_optimizer_settings *settings, uint32_t state);

/* The learning rate at step t (1 for the first push of a parameter). Pure, and the same bits on
 * every machine: powers are computed by optimizer/power.h. */
double ps_learning_rate_at(const struct ps_learning_rate *learning_rate, uint64_t step);

#endif
