/* Counters without a lock: a call is counted first and taken back when that was one too many, so
 * that two calls that come at once never both get the last place. */
#include "server/rpc/waiting.h"

#include "base/assert.h"
#include "base/hash.h"

#include <grpc/support/alloc.h>

void ps_waiting_init(struct ps_waiting *waiting, uint32_t calls_max, uint32_t client_calls)
{
    PS_ASSERT(calls_max > 0 && client_calls > 0);
    *waiting = (struct ps_waiting){.calls_max = calls_max,
                                   /* A connection of one call may wait with it. */
                                   .connection_calls_max = client_calls > 1 ? client_calls / 2 : 1};
}

/* The address with its port: every connection has its own half of calls, also those of one host. */
static uint32_t connection_of(grpc_call *call)
{
    char *address = grpc_call_get_peer(call);
    uint32_t hash = ps_hash_fnv1a32(ps_bytes_of_text(address));
    gpr_free(address);
    return hash % PS_WAITING_CONNECTIONS;
}

/* Adding before comparing may refuse two calls where one would have fitted, and never lets one in
 * too many. */
static bool count(atomic_uint *counter, uint32_t max)
{
    if (atomic_fetch_add(counter, 1) < max)
        return true;
    atomic_fetch_sub(counter, 1);
    return false;
}

/* The server's bound comes first, since it is the one that an operator has to know of. */
enum ps_status ps_waiting_enter(struct ps_waiting *waiting, grpc_call *call, uint32_t *connection,
                                struct ps_error *error)
{
    uint32_t found = connection_of(call);
    /* Counted before it is known whether the connection may: taken back below, if not. */
    if (!count(&waiting->calls, waiting->calls_max))
        return ps_fail(error, PS_ERR_BUSY,
                       "%u calls wait for other clients, and no more may (--waiting-calls): come "
                       "again later",
                       waiting->calls_max);
    if (!count(&waiting->of_connection[found], waiting->connection_calls_max)) {
        atomic_fetch_sub(&waiting->calls, 1);
        return ps_fail(error, PS_ERR_BUSY,
                       "%u calls of this connection wait for other clients, which is half of what "
                       "it may have (--client-calls): come again later",
                       waiting->connection_calls_max);
    }
    *connection = found;
    return PS_OK;
}

/* In either order: a call that comes between the two is refused for a moment at most. */
void ps_waiting_leave(struct ps_waiting *waiting, uint32_t connection)
{
    PS_ASSERT(connection < PS_WAITING_CONNECTIONS);
    unsigned of_connection = atomic_fetch_sub(&waiting->of_connection[connection], 1);
    unsigned of_all = atomic_fetch_sub(&waiting->calls, 1);
    PS_ASSERT(of_connection > 0 && of_all > 0);
}
