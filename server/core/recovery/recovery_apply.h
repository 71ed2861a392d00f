/* SPDX-License-Identifier: Apache-2.0 */
/* One record of the journal onto the shard that recovery_fill.h has filled: the second half of
 * recovery, and its end.
 *
 * Threads:  records of different parameters may come from several threads at once.
 * Blocking: for locks held as long as one update takes.
 * Errors:   PS_ERR_CORRUPT: state and journal do not belong together.
 * Memory:   records are borrowed for the call.
 */
#ifndef PS_SERVER_CORE_RECOVERY_APPLY_H
#define PS_SERVER_CORE_RECOVERY_APPLY_H

#include "checkpoint/journal.h"
#include "server/core/requests/service.h"

/* Applies one record of the journal, as the push was applied then: no session, lease or
 * acknowledgement is asked. RECOVERING only. Records of one parameter must come in order, one at a
 * time; those of different parameters may come from several threads at once. The caller has seen to
 * it that no position is missing.
 *
 * PS_ERR_CORRUPT      the record does not fit the state: no such parameter, another type or length,
 *                     or another version than the record says
 */
PS_MUST_USE enum ps_status ps_recovery_apply(struct ps_service *service,
                                             const struct ps_record *record,
                                             struct ps_error *error);

/* The same for a state that was put together of what was whole: a record that is in it already, or
 * whose parameter is not in it, counts as a position, its request is known afterwards, and no
 * parameter changes. */
PS_MUST_USE enum ps_status ps_recovery_apply_missing(struct ps_service *service,
                                                     const struct ps_record *record,
                                                     struct ps_error *error);

/* Replay is over; `position` is that of the last record (or of the checkpoint): READY. */
void ps_recovery_finish(struct ps_service *service, uint64_t position);

#endif
