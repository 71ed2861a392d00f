/* SPDX-License-Identifier: Apache-2.0 */
/* Records of the journal that are no push: parameters that came, went and were configured while the
 * job trained. Private to recovery_apply.c.
 *
 * Threads:  one at a time, while no other record is being applied: the table is everybody's. Clocks
 *           (recovery_clock.h) may come beside others, those of one name one at a time.
 * Blocking: for locks, and for a device.
 * Errors:   said at each function.
 * Memory:   records are borrowed for the call.
 */
#ifndef PS_SERVER_CORE_RECOVERY_CHANGE_H
#define PS_SERVER_CORE_RECOVERY_CHANGE_H

#include "checkpoint/journal.h"
#include "server/core/requests/service.h"

/* PS_ERR_UNSUPPORTED for a type that is not known; PS_ERR_CORRUPT, PS_ERR_BUSY where the memory
 * limit would be passed, PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_recovery_change(struct ps_service *service,
                                              const struct ps_record *record,
                                              struct ps_error *reason);

/* Leaves the session that the request of the record left. With the cut held. */
PS_MUST_USE enum ps_status ps_recovery_remember(struct ps_service *service,
                                                const struct ps_record *record,
                                                struct ps_error *reason);

/* Does a state that was put together of parts lack what the record says? With the cut held. */
bool ps_recovery_is_missing(struct ps_service *service, const struct ps_record *record);

#endif
