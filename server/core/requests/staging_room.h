/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests in ranges there is room for, and which give way to others. Private to staging.c;
 * the rules are told in staging.h.
 *
 * Threads:  with the lock of the staging held.
 * Blocking: never.
 * Errors:   PS_ERR_BUSY.
 * Memory:   none.
 */
#ifndef PS_SERVER_CORE_STAGING_ROOM_H
#define PS_SERVER_CORE_STAGING_ROOM_H

#include "server/core/requests/staged.h"
#include "server/core/requests/staging.h"

/* Has it got no part for so long? */
bool ps_staging_room_is_idle(const struct ps_staged *staged, uint64_t idle_ms, uint64_t now_ms);

/* How much of the room a request of so many bytes takes. */
uint64_t ps_staging_room_reserved(const struct ps_staging *staging, uint64_t bytes);

/* Is there room for a request of so many bytes? PS_ERR_BUSY: not now. */
PS_MUST_USE enum ps_status ps_staging_room_check(const struct ps_staging *staging,
                                                 const struct ps_request_id *id, uint64_t bytes,
                                                 struct ps_error *error);

/* Where there is none: who gives way next; of what its client has given up the oldest, then of what
 * is stalled. Only the older of a client to its newer, so that two that are both wanted do not
 * drive each other out. NULL: nobody does. */
struct ps_staged *ps_staging_room_find_yielding(const struct ps_staging *staging,
                                                const struct ps_request_id *id, uint64_t bytes,
                                                uint64_t now_ms);

/* Does this one give way to a request of that id, for whatever reason? */
bool ps_staging_room_yields(const struct ps_staged *staged, const struct ps_request_id *id,
                            uint64_t now_ms);

#endif
