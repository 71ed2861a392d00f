/* SPDX-License-Identifier: Apache-2.0 */
/* Open rounds and clocks out of a checkpoint's sections: records as a journal's, of the instant of
 * the checkpoint.
 *
 * Threads:  the one that recovers the shard.
 * Blocking: for the disk.
 * Errors:   said at the function.
 * Memory:   what was built belongs to the parameters of the table.
 */
#ifndef PS_SERVER_CORE_RECOVERY_SECTIONS_H
#define PS_SERVER_CORE_RECOVERY_SECTIONS_H

#include "checkpoint/checkpoint.h"
#include "server/core/requests/service.h"
#include "server/core/update/parameter_table.h"

/* Applies the records to the parameters of `table`, which is not the service's yet.
 *
 * PS_ERR_CORRUPT      damage, or a record that does not fit the parameters
 * PS_ERR_UNSUPPORTED  a record that this version cannot apply
 * PS_ERR_NO_MEMORY, PS_ERR_IO
 */
PS_MUST_USE enum ps_status ps_recovery_fill_sections(struct ps_service *service,
                                                     struct ps_parameter_table *table,
                                                     struct ps_checkpoint_reader *reader,
                                                     struct ps_error *error);

#endif
