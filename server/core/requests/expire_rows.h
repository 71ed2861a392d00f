/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables that nobody pushed to for too long. Private to the service, which looks once in a
 * while, and to replay.
 *
 * Threads:  one at a time.
 * Blocking: for locks, and until pushes that wait for a table are done. A push waits for as long as
 *           PS_ROW_FOUND_MAX rows go, and a snapshot for a little more.
 * Errors:   none; what finds no room in the journal is tried with the next look.
 * Memory:   none.
 */
#ifndef PS_SERVER_CORE_EXPIRE_ROWS_H
#define PS_SERVER_CORE_EXPIRE_ROWS_H

#include "server/core/requests/service_state.h"
#include "server/core/tables/row_sweep.h"

/* Lets some of the rows go that are due. True: there are more, and they may go at once. Without the
 * cut. */
bool ps_service_expire_rows(struct ps_service *service);

/* A record has let so many rows go: it counts as a position without a version. With the cut held,
 * and no push of that table under way. */
void ps_service_expired(struct ps_service *service, uint64_t gone);

#endif
