/* SPDX-License-Identifier: Apache-2.0 */
/* Can a checkpoint file hold these parameters? Asked by the writer before there is a file. Private
 * to checkpoint/.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT, as ps_checkpoint_write says; what only a bug can do aborts.
 * Memory:   borrows for the call.
 */
#ifndef PS_CHECKPOINT_PARAMETER_CHECK_H
#define PS_CHECKPOINT_PARAMETER_CHECK_H

#include "checkpoint/checkpoint.h"

/* PS_OK: every name and configuration, and the job, can be written. Aborts when a view has another
 * size than its array, when a parameter relies on a base that the facts do not name, or when keys
 * went of one that does not carry rows. */
PS_MUST_USE enum ps_status
ps_checkpoint_check_parameters(const struct ps_checkpoint_facts *facts,
                               const struct ps_checkpoint_parameter *parameters, size_t count,
                               struct ps_error *error);

#endif
