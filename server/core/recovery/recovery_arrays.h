/* SPDX-License-Identifier: Apache-2.0 */
/* From the arrays of a checkpoint into the blocks of parameters, by as many threads as there are.
 *
 * Threads:  the crew's; each takes the next part of an array.
 * Blocking: for the disk.
 * Errors:   the first one, and then no further part is begun.
 * Memory:   given back before return.
 */
#ifndef PS_SERVER_CORE_RECOVERY_ARRAYS_H
#define PS_SERVER_CORE_RECOVERY_ARRAYS_H

#include "checkpoint/checkpoint.h"
#include "server/core/update/parameter.h"
#include "server/core/values/crew.h"

/* Reads every array of the reader's parameter i into parameters[i], which nobody else sees yet, and
 * verifies the checksums. `crew` may be NULL: this thread does it alone.
 *
 * PS_ERR_CORRUPT      one does not match, the blocks hold garbage
 * PS_ERR_NO_MEMORY, PS_ERR_IO
 */
PS_MUST_USE enum ps_status ps_recovery_fill_arrays(struct ps_checkpoint_reader *reader,
                                                   struct ps_parameter *const *parameters,
                                                   const struct ps_crew *crew,
                                                   const struct ps_allocator *memory,
                                                   struct ps_error *error);

#endif
