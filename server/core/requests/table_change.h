/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a shard that is READY changes: a parameter comes, goes or is configured, whether a
 * request asks for it (define.c, change_param.c) or the journal has it (recovery_change.c). Each is
 * one record with one position and no version of any parameter.
 *
 * Threads:  with the cut held alone.
 * Blocking: never.
 * Errors:   said at each function.
 * Memory:   what leaves the table is the caller's, to be destroyed without the cut: many blocks
 *           take long to free, and a device may have to be waited for.
 */
#ifndef PS_SERVER_CORE_TABLE_CHANGE_H
#define PS_SERVER_CORE_TABLE_CHANGE_H

#include "server/core/requests/service_state.h"

/* Takes `parameter`, whose name is not in the table; its bytes are reserved already.
 * PS_ERR_NO_MEMORY: nothing has changed. */
PS_MUST_USE enum ps_status ps_table_define(struct ps_service *service,
                                           struct ps_parameter *parameter, struct ps_error *error);

/* It came at that position, which tells it from any that had its name before. */
void ps_table_defined(struct ps_service *service, struct ps_parameter *parameter,
                      uint64_t position);

/* Takes out what ps_table_define has just put in: its record found no place. */
void ps_table_undefine(struct ps_service *service, struct ps_parameter *parameter);

/* The parameter goes, and with it the pushes to it that are not whole yet and what clients have
 * pushed to it. Returns it. */
struct ps_parameter *ps_table_drop(struct ps_service *service, struct ps_parameter *parameter);

/* Takes `spec` for the parameter, and what ps_parameter_rounds_under gave for it, and returns the
 * former spec, to be released. */
struct ps_parameter_spec *ps_table_configure(struct ps_service *service,
                                             struct ps_parameter *parameter,
                                             struct ps_parameter_spec *spec,
                                             struct ps_contributions *rounds);

/* Within which one version of this parameter is one content: another for each that had its name.
 * With the cut held, or of a life that does not change. */
struct ps_chain ps_service_chain_of(const struct ps_service *service,
                                    const struct ps_parameter_spec *spec);

#endif
