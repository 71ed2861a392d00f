/* SPDX-License-Identifier: Apache-2.0 */
/* A serialized OptimizerConfig as a plain struct, and back.
 *
 * The .proto is the only list of optimizers and of their numbers: an optimizer is its name there in
 * lower case ("adamw"), and its numbers are the fields of the message of that name. A field that is
 * added to the .proto is read and written with no line of C. What the numbers mean is decided
 * elsewhere (server/core/update/parameter_settings.h makes the optimizer's settings of them).
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT for bytes that are not an OptimizerConfig.
 * Memory:   the struct owns nothing; `segments` points into itself.
 */
#ifndef PS_PROTO_OPTIMIZER_CONFIG_H
#define PS_PROTO_OPTIMIZER_CONFIG_H

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"
#include "base/table_settings.h"

#include <stdbool.h>
#include <stdint.h>

/* The numbers of OptimizerConfig.LrPolicy. */
enum ps_config_policy {
    PS_POLICY_CONST = 0,
    PS_POLICY_LINEAR = 1,
    PS_POLICY_POLY = 201,
    PS_POLICY_CAFFE_POLY = 202,
    PS_POLICY_EXP = 203,
    PS_POLICY_DISCEXP = 204,
    PS_POLICY_MANUAL = 205,
    PS_POLICY_PASS_MANUAL = 206
};

#define PS_CONFIG_SEGMENTS_BYTES_MAX 2048
#define PS_CONFIG_NAME_BYTES_MAX 32
#define PS_CONFIG_NUMBERS_MAX 16

/* One field of the chosen optimizer's message; true and false are 1 and 0. */
struct ps_config_number {
    const char *name; /* as in the .proto; static */
    double value;
};

/* RoundConfig; all zero: the parameter is not trained in rounds. */
struct ps_config_rounds {
    uint32_t workers;
    uint32_t quorum;
    uint64_t grace_ms;
    int32_t combine; /* RoundConfig.Combine */
    int32_t late;    /* RoundConfig.Late */
};

/* Every field carries the message's default when it was absent. */
struct ps_optimizer_config {
    char optimizer[PS_CONFIG_NAME_BYTES_MAX]; /* "adamw" */
    struct ps_config_number numbers[PS_CONFIG_NUMBERS_MAX];
    uint32_t number_count;
    int32_t add_overflow;     /* AddConfig.Overflow */
    int32_t integer_rounding; /* IntegerSGDConfig.Rounding */
    uint64_t integer_seed;
    bool integer_gradient_unsigned;
    enum ps_config_policy policy;
    double learning_rate; /* of whichever policy message applies */
    double decay_a, decay_b;
    uint64_t steps_per_pass;
    char segments[PS_CONFIG_SEGMENTS_BYTES_MAX]; /* NUL-terminated; empty: none */
    double clip_norm, clip_value;                /* 0: off */
    int32_t nonfinite;                           /* OptimizerConfig.Nonfinite */
    double l2;
    uint64_t samples_per_step;
    struct ps_config_rounds rounds;
    struct ps_table_settings table; /* all zero: the parameter is no table */
};

/* SGD, constant learning rate 1: what an empty configuration says. */
void ps_optimizer_config_defaults(struct ps_optimizer_config *config);

/* Makes `name` the optimizer, its numbers those of its message, at their defaults. False when the
 * .proto has no optimizer of that name; nothing has changed. */
bool ps_optimizer_config_choose(struct ps_optimizer_config *config, const char *name);

/* A number of the chosen optimizer by its name in the .proto; the optimizer must have such. */
void ps_optimizer_config_set(struct ps_optimizer_config *config, const char *name, double value);
double ps_optimizer_config_get(const struct ps_optimizer_config *config, const char *name);

PS_MUST_USE enum ps_status ps_optimizer_config_decode(struct ps_bytes bytes,
                                                      const struct ps_allocator *memory,
                                                      struct ps_optimizer_config *config,
                                                      struct ps_error *error);

/* Appends the serialized message, with the chosen optimizer's own message alone; a failure marks
 * the buffer. */
void ps_optimizer_config_encode(const struct ps_optimizer_config *config, struct ps_buffer *bytes);

#endif
