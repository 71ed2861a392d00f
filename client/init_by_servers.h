/* SPDX-License-Identifier: Apache-2.0 */
/* The right to initialise, asked for through the servers of the job (BeginInit): for clients that
 * do not know the store.
 *
 * Threads:  as init_way.h; others may use the client meanwhile.
 * Blocking: until the deadline: calls go through the client's engine.
 * Errors:   PS_ERR_UNSUPPORTED: the servers are older than that.
 * Memory:   the client's; it outlives the way.
 */
#ifndef PS_CLIENT_INIT_BY_SERVERS_H
#define PS_CLIENT_INIT_BY_SERVERS_H

#include "client/client_state.h"

PS_MUST_USE enum ps_status ps_init_by_servers(struct psclient *client, uint64_t ttl_ms,
                                              struct ps_init_way *way, struct ps_error *error);

#endif
