/* SPDX-License-Identifier: Apache-2.0 */
/* From a checkpoint's file back to the parameters of a shard: the first half of recovery.
 *
 * Threads:  the one that recovers the shard, and those of the crew for the arrays.
 * Blocking: for the disk.
 * Errors:   said at the functions; after one the service is as empty as before.
 * Memory:   the service owns what is filled in; all else is given back before return.
 */
#ifndef PS_SERVER_CORE_RECOVERY_FILL_H
#define PS_SERVER_CORE_RECOVERY_FILL_H

#include "checkpoint/checkpoint.h"
#include "server/core/requests/service.h"
#include "server/core/values/crew.h"

/* Fills the service from a checkpoint and becomes RECOVERING: calls are refused, records of the
 * journal may be applied, and ps_recovery_finish ends it. On any failure the service is as empty as
 * before.
 *
 * reader              borrowed; readable by several threads at once where there is a crew
 * crew                borrowed; lends threads for the arrays, and then the service's allocator is
 *                     safe from any thread. NULL: this thread reads them all
 *
 * PS_ERR_CORRUPT      "checkpoint file checksum validation failed: ...", or a parameter that no
 *                     InitParam could have made
 * PS_ERR_UNSUPPORTED  it is of another shard, or of another number of shards
 * PS_ERR_BUSY         bytes_max would be passed; the text has the numbers
 * PS_ERR_NO_MEMORY, PS_ERR_IO
 */
PS_MUST_USE enum ps_status ps_recovery_fill(struct ps_service *service,
                                            struct ps_checkpoint_reader *reader,
                                            const struct ps_crew *crew, struct ps_error *error);

#endif
