/* SPDX-License-Identifier: Apache-2.0 */
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
#include "optimizer/settings.h"

/* What --optimizer accepts, "sgd|momentum|...": the rules whose loops take the step's numbers. The
 * first bar is left out. */
#define PS_CHOICE_NONE(name)
#define PS_CHOICE_OWN(name)
#define PS_CHOICE_PLAIN(name)
#define PS_CHOICE_NUMBERS(name) "|" #name
#define PS_CHOICE(TAG, name, states, floats, wholes, uses, rate, ...) PS_CHOICE_##floats(name)
#define PS_OPTIMIZER_CHOICES (&("" PS_RULE_TABLE(PS_CHOICE, ))[1])

/* `rate` 0 means the optimizer's own default. */
PS_MUST_USE enum ps_status ps_optimizer_choice(const char *name, double rate, double l2,
                                               struct ps_buffer *config, struct ps_error *error);

#endif
