/* The optimizers that pstrain knows by name, as serialized OptimizerConfigs.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT for an unknown name.
 * Memory:   the configuration is appended to the caller's buffer.
 */
#ifndef PS_TOOLS_OPTIMIZER_CHOICE_H
#define PS_TOOLS_OPTIMIZER_CHOICE_H

#include "base/buffer.h"
#include "base/status.h"

/* What --optimizer accepts. */
#define PS_OPTIMIZER_CHOICES "sgd|momentum|nesterov|adagrad|adadelta|adam|adamw|rmsprop|ftrl"

/* `rate` 0 means the optimizer's own default. */
PS_MUST_USE enum ps_status ps_optimizer_choice(const char *name, double rate, double l2,
                                               struct ps_buffer *config, struct ps_error *error);

#endif
