/* How many calls wait for what other clients do: pulls before the initialisation is finished,
 * members of barriers, health watches, reflection streams. Such a call costs memory and nothing
 * else, for as long as its client likes: so a server has a bound for all of them, and a connection
 * has half of the calls that it may have, because the other half must be able to bring what they
 * wait for.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   PS_ERR_BUSY.
 * Memory:   in place, bounded; connections beyond PS_WAITING_CONNECTIONS share what is counted.
 */
#ifndef PS_SERVER_RPC_WAITING_H
#define PS_SERVER_RPC_WAITING_H

#include "base/status.h"

#include <grpc/grpc.h>

#include <stdatomic.h>
#include <stdint.h>

#define PS_WAITING_CALLS_DEFAULT 4096
#define PS_WAITING_CONNECTIONS 1024

struct ps_waiting {
    uint32_t calls_max;            /* of the server */
    uint32_t connection_calls_max; /* of one connection */
    atomic_uint calls;
    atomic_uint of_connection[PS_WAITING_CONNECTIONS]; /* by the hash of the peer's address */
};

/* A connection may have `client_calls` calls at once. */
void ps_waiting_init(struct ps_waiting *waiting, uint32_t calls_max, uint32_t client_calls);

/* Counts a call that is to wait.
 *
 * PS_OK        end with ps_waiting_leave and `*connection`
 * PS_ERR_BUSY  the server or the connection has as many as it may; nothing is counted
 */
PS_MUST_USE enum ps_status ps_waiting_enter(struct ps_waiting *waiting, grpc_call *call,
                                            uint32_t *connection, struct ps_error *error);
void ps_waiting_leave(struct ps_waiting *waiting, uint32_t connection);

#endif
