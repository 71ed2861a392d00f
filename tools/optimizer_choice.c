/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers by name. A rule of optimizer/rules.h has the name of its optimizer in the .proto; the
 * two that do not are SGD with a momentum, as the old system has them. */
#include "tools/optimizer_choice.h"

#include "proto/optimizer_config.h"

#include <string.h>

/* The momentum of every text book; whoever needs another one sends a configuration through the
 * library. */
#define MOMENTUM 0.9

/* False when neither the .proto nor the two rules that it calls SGD have this name. */
static bool choose(struct ps_optimizer_config *config, const char *name)
{
    bool nesterov = strcmp(name, "nesterov") == 0;
    if (!nesterov && strcmp(name, "momentum") != 0)
        return ps_optimizer_config_choose(config, name);
    if (!ps_optimizer_config_choose(config, "sgd"))
        return false;
    ps_optimizer_config_set(config, "momentum", MOMENTUM);
    ps_optimizer_config_set(config, "nesterov", nesterov ? 1 : 0);
    return true;
}

/* Everything but the chosen fields has the defaults of the protocol, so that servers of another
 * version fill in the same. A rate of 0 stands for the rule's own: it could not train anything. */
enum ps_status ps_optimizer_choice(const char *name, double rate, double l2,
                                   struct ps_buffer *bytes, struct ps_error *error)
{
    struct ps_optimizer_config config;
    enum ps_rule rule;
    ps_optimizer_config_defaults(&config);
    /* A rule without a rate of its own is no descent (add, max): nobody trains with it. */
    if (!ps_rule_from_name(name, &rule) || !(ps_rule_default_rate(rule) > 0) ||
        !choose(&config, name))
        return ps_fail(error, PS_ERR_BAD_INPUT, "--optimizer %s: choose one of %s", name,
                       PS_OPTIMIZER_CHOICES);
    config.learning_rate = rate > 0 ? rate : ps_rule_default_rate(rule);
    config.l2 = l2;
    ps_optimizer_config_encode(&config, bytes);
    return ps_buffer_status(bytes, error);
}
