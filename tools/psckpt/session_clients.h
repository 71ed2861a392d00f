/* SPDX-License-Identifier: Apache-2.0 */
/* The clients that a checkpoint remembers, by their ids: what it says of sessions is opened here
 * and nowhere else.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   PS_ERR_CORRUPT, PS_ERR_UNSUPPORTED for bytes that no server wrote; PS_ERR_NO_MEMORY.
 * Memory:   owned until fini; rows point into the table.
 */
#ifndef PS_TOOLS_SESSION_CLIENTS_H
#define PS_TOOLS_SESSION_CLIENTS_H

#include "checkpoint/checkpoint.h"
#include "server/core/sessions/sessions.h"

struct session_clients {
    struct ps_sessions table;
    const struct ps_session_client **rows; /* owned; sorted by id */
    size_t count;
};

/* `facts` is borrowed for the call. After a failure there is nothing to end. */
PS_MUST_USE enum ps_status session_clients_init(struct session_clients *clients,
                                                const struct ps_checkpoint_facts *facts,
                                                const struct ps_allocator *memory,
                                                struct ps_error *error);
void session_clients_fini(struct session_clients *clients);

#endif
