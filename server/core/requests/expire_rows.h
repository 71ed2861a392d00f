/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables that nobody pushed to for too long. Private to the service, which looks once in a
 * while, and to replay.
 *
 * Threads:  one at a time.
 * Blocking: for locks; a table's pushes wait while its rows are walked through.
 * Errors:   none; what finds no room in the journal is tried with the next look.
 * Memory:   none.
 */
#ifndef PS_SERVER_CORE_EXPIRE_ROWS_H
#define PS_SERVER_CORE_EXPIRE_ROWS_H

#include "server/core/requests/service_state.h"

/* Without the cut. */
void ps_service_expire_rows(struct ps_service *service);

/* What a record says has gone goes, and the record counts as a position without a version. With
 * the cut held, and no push of that table under way. */
void ps_service_swept(struct ps_service *service, struct ps_parameter *parameter,
                      uint64_t before_version);

#endif
