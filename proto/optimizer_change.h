/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations in the words of people: a change of one number as bytes, and what a configuration
 * says, number by number. Names are those of the .proto's fields, but for these:
 *
 *   lr            the learning rate, whatever the schedule
 *   schedule      const, linear, poly, caffe_poly, exp, discexp, manual, pass_manual; the rate that
 *                 it begins with stays
 *   weight_decay  of a rule that has none of its own: l2
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT for a name or a value that cannot be.
 * Memory:   in place.
 */
#ifndef PS_PROTO_OPTIMIZER_CHANGE_H
#define PS_PROTO_OPTIMIZER_CHANGE_H

#include "proto/optimizer_config.h"

/* Appends to `change` the bytes that give `field` this value in a configuration with the rule of
 * `present`: protobuf's merge of both is the changed one. Of two changes of one field the later one
 * holds. The buffer may be full, and says so itself. */
PS_MUST_USE enum ps_status ps_optimizer_change_put(const struct ps_optimizer_config *present,
                                                   struct ps_bytes field, const char *value,
                                                   struct ps_buffer *change,
                                                   struct ps_error *error);

/* One thing that a configuration says. */
struct ps_config_entry {
    const char *name;
    const char *text; /* NULL: it is a number */
    double number;
    bool is_default; /* as in a configuration that only names the rule */
};

#define PS_CONFIG_ENTRIES_MAX (PS_CONFIG_NUMBERS_MAX + 40)

/* All that `config` says of its rule, its schedule, its gradients and, if it has any, its rounds
 * ("rounds.workers" ...): the rule ("rule") first, then the rate ("lr"). The entries borrow from
 * it. Returns how many there are. */
size_t ps_optimizer_config_entries(const struct ps_optimizer_config *config,
                                   struct ps_config_entry entries[PS_CONFIG_ENTRIES_MAX]);

#endif
