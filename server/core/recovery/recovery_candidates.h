/* SPDX-License-Identifier: Apache-2.0 */
/* Keys that are counted until they get a row, out of a checkpoint.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   as said at the function.
 * Memory:   everything is borrowed for the call.
 */
#ifndef PS_SERVER_CORE_RECOVERY_CANDIDATES_H
#define PS_SERVER_CORE_RECOVERY_CANDIDATES_H

#include "checkpoint/journal.h"
#include "server/core/update/parameter_table.h"

/* Adds what a PS_RECORD_CANDIDATES has to its table, which is in `table`, nobody else's yet, and
 * has its rows.
 *
 * PS_ERR_CORRUPT      the record does not belong to these parameters
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_recovery_candidates(const struct ps_parameter_table *table,
                                                  const struct ps_record *record,
                                                  struct ps_error *error);

#endif
