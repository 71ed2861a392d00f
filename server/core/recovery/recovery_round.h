/* SPDX-License-Identifier: Apache-2.0 */
/* Records of rounds are applied to a state that is being recovered: contributions are held again,
 * and rounds end with whom they ended with, whatever the time is.
 *
 * Threads:  records of one parameter one at a time; those of different ones at once.
 * Blocking: as a push.
 * Errors:   said at each function.
 * Memory:   contributions.h.
 */
#ifndef PS_SERVER_CORE_RECOVERY_ROUND_H
#define PS_SERVER_CORE_RECOVERY_ROUND_H

#include "server/core/requests/service.h"
#include "server/core/update/parameter_table.h"

/* Applies a PS_RECORD_HELD or PS_RECORD_ROUND of the journal, while RECOVERING, with the cut held
 * shared. The grace time of the open round begins anew.
 *
 * PS_ERR_CORRUPT      it does not fit the state; the text says why
 * PS_ERR_NOT_FOUND, PS_ERR_BAD_INPUT   so
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_recovery_round(struct ps_service *service,
                                             const struct ps_record *record,
                                             struct ps_error *reason);

/* The same of a checkpoint's record, which has no position of its own: a contribution that is held,
 * or, of a PS_RECORD_ROUND, who is evicted at the parameter's version. The parameters are in
 * `table`, which is nobody else's yet. */
PS_MUST_USE enum ps_status ps_recovery_round_saved(struct ps_service *service,
                                                   const struct ps_parameter_table *table,
                                                   const struct ps_record *record,
                                                   struct ps_error *reason);

/* Is the record a contribution to an open round that holds it already? So of a state that was put
 * together of parts, some of which were saved behind the record. With the cut held. */
bool ps_recovery_round_is_held(const struct ps_service *service, const struct ps_record *record);

#endif
