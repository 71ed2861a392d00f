/* A serialized OptimizerConfig as a plain struct, and back.
 *
 * The struct mirrors the message field by field; what its numbers mean is decided elsewhere
 * (server/core/update/parameter_settings.h turns it into the optimizer's settings).
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

#include <stdbool.h>
#include <stdint.h>

/* The numbers of OptimizerConfig.Optimizer and .LrPolicy. */
enum ps_config_optimizer {
    PS_CONFIG_SGD = 1,
    PS_CONFIG_ADADELTA = 2,
    PS_CONFIG_ADAGRAD = 3,
    PS_CONFIG_ADAM = 4,
    PS_CONFIG_ADAMW = 201,
    PS_CONFIG_RMSPROP = 202,
    PS_CONFIG_FTRL = 203,
    PS_CONFIG_ASSIGN = 204,
    PS_CONFIG_ADD = 205,
    PS_CONFIG_MAX = 206,
    PS_CONFIG_MIN = 207
};

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

/* Every field carries the message's default when it was absent. */
struct ps_optimizer_config {
    enum ps_config_optimizer optimizer;
    struct {
        double momentum, decay;
        bool nesterov;
    } sgd;
    struct {
        double epsilon, decay, rho;
    } adadelta;
    struct {
        double epsilon, decay, initial_accumulator;
        bool reference_sign, epsilon_outside_root;
    } adagrad;
    struct {
        double beta_1, beta_2, epsilon, decay;
        bool epsilon_outside_root;
    } adam;
    struct {
        double beta_1, beta_2, epsilon, weight_decay;
    } adamw;
    struct {
        double rho, epsilon;
    } rmsprop;
    struct {
        double l1, l2, beta, initial_accumulator;
    } ftrl;
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
};

/* SGD, constant learning rate 1: what an empty configuration says. */
void ps_optimizer_config_defaults(struct ps_optimizer_config *config);

PS_MUST_USE enum ps_status ps_optimizer_config_decode(struct ps_bytes bytes,
                                                      const struct ps_allocator *memory,
                                                      struct ps_optimizer_config *config,
                                                      struct ps_error *error);

/* Appends the serialized message; a failure marks the buffer. */
void ps_optimizer_config_encode(const struct ps_optimizer_config *config, struct ps_buffer *bytes);

#endif
