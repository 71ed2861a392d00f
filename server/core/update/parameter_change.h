/* SPDX-License-Identifier: Apache-2.0 */
/* Another configuration for a parameter that is there: the present one with a change behind it.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT with the reason; PS_ERR_NO_MEMORY.
 * Memory:   arguments are borrowed.
 */
#ifndef PS_SERVER_CORE_PARAMETER_CHANGE_H
#define PS_SERVER_CORE_PARAMETER_CHANGE_H

#include "server/core/values/parameter_spec.h"

/* Returns in `*changed` the spec that the parameter has once `change`, a serialized OptimizerConfig
 * of the fields to change, stands behind its configuration as protobuf merges them; its
 * configuration is written anew. PS_ERR_BAD_INPUT also where it would change what shapes the
 * states: the text says which. */
PS_MUST_USE enum ps_status ps_parameter_change(struct ps_parameter_spec *spec,
                                               struct ps_bytes change,
                                               struct ps_parameter_spec **changed,
                                               struct ps_error *error);

/* The same with the whole configuration, as the journal has it. */
PS_MUST_USE enum ps_status ps_parameter_change_to(struct ps_parameter_spec *spec,
                                                  struct ps_bytes config,
                                                  struct ps_parameter_spec **changed,
                                                  struct ps_error *error);

/* Do both configurations say the same, in whatever bytes? False also for one that cannot be
 * read. */
bool ps_parameter_config_is_same(struct ps_bytes one, struct ps_bytes other,
                                 const struct ps_allocator *memory);

#define PS_CONFIG_DIFFERENCE_BYTES 160

/* Returns `text`, which says the first thing in which the configurations differ, in the words of
 * psctl show and set: "lr=0.5 and not 0.25". Of two that are the same, or cannot be read: "another
 * configuration". */
const char *ps_parameter_config_difference(struct ps_bytes there, struct ps_bytes asked,
                                           const struct ps_allocator *memory,
                                           char text[PS_CONFIG_DIFFERENCE_BYTES]);

#endif
