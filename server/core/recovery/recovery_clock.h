/* SPDX-License-Identifier: Apache-2.0 */
/* Records of clocks, from the journal and from a checkpoint: settings, and how far a worker is.
 *
 * Threads:  those of one name one at a time.
 * Blocking: for locks.
 * Errors:   said at each function.
 * Memory:   records are borrowed for the call.
 */
#ifndef PS_SERVER_CORE_RECOVERY_CLOCK_H
#define PS_SERVER_CORE_RECOVERY_CLOCK_H

#include "checkpoint/journal.h"
#include "server/core/requests/service.h"

/* One of the journal: with its session and its position. PS_ERR_CORRUPT, PS_ERR_NOT_FOUND for a
 * worker or clocks that are not there, PS_ERR_BUSY, PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_recovery_clock(struct ps_service *service,
                                             const struct ps_record *record,
                                             struct ps_error *reason);

/* The same of a checkpoint, whose records have no position of their own. */
PS_MUST_USE enum ps_status ps_recovery_clock_state(struct ps_service *service,
                                                   const struct ps_record *record,
                                                   struct ps_error *reason);

/* Has the record anything to be applied to in a state that was put together of parts? A clock says
 * all of what its worker is, so that one which is applied twice changes nothing in the end. */
bool ps_recovery_clock_fits(struct ps_service *service, const struct ps_record *record);

#endif
