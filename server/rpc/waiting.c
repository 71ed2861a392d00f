/* SPDX-License-Identifier: Apache-2.0 */
/* The server's count needs no lock: a call is counted first and taken back when that was one too
 * many, so that two calls that come at once never both get the last place. */
#include "server/rpc/waiting.h"

#include "base/assert.h"
#include "server/rpc/rpc_call.h"
#include "server/rpc/rpc_context.h"

#include <string.h>

/* About as long as a barrier takes whose members are on their way. */
enum { RETRY_MS = 200 };

/* Half, whatever the number: the calls that would release those who wait come the same way. */
void ps_waiting_init(struct ps_waiting *waiting, uint32_t calls_max, uint32_t client_calls)
{
    PS_ASSERT(calls_max > 0 && client_calls > 0);
    *waiting = (struct ps_waiting){.calls_max = calls_max,
                                   /* A connection of one call may wait with it. */
                                   .connection_calls_max = client_calls > 1 ? client_calls / 2 : 1};
}

/* All clients of a unix socket look like one connection: together they have half of what the server
 * has. */
static uint32_t share_of(const struct ps_waiting *waiting, struct ps_bytes connection)
{
    static const char local[] = "unix:";
    size_t size = sizeof local - 1;
    bool is_local = connection.size >= size && memcmp(connection.data, local, size) == 0;
    return is_local ? waiting->calls_max / 2 + 1 : waiting->connection_calls_max;
}

bool ps_waiting_counts(enum ps_method method)
{
    static const bool waits[PS_METHOD_COUNT + 1] = {
        [PS_METHOD_PULL] = true,         [PS_METHOD_PULLS] = true,
        [PS_METHOD_SINCE] = true,        [PS_METHOD_BARRIER] = true,
        [PS_METHOD_CLUSTER] = true,      [PS_METHOD_BEGIN_INIT] = true,
        [PS_METHOD_SAVE_MODEL] = true,   [PS_METHOD_DEFINE] = true,
        [PS_METHOD_DROP] = true,         [PS_METHOD_CONFIGURE] = true,
        [PS_METHOD_PUSH_PULL] = true,    [PS_METHOD_JOIN] = true,
        [PS_METHOD_WORKERS] = true,      [PS_METHOD_SET_CLOCKS] = true,
        [PS_METHOD_CLOCK] = true,        [PS_METHOD_PROGRESS] = true,
        [PS_METHOD_RECV_TENSORS] = true, [PS_METHOD_ASK] = true,
        [PS_METHOD_TAKE] = true};
    return waits[method];
}

/* The server's bound comes first, since it is the one that an operator has to know of. */
enum ps_status ps_waiting_enter(struct ps_rpc_call *call, struct ps_error *error)
{
    struct ps_rpc_context *context = call->lane->context;
    struct ps_waiting *waiting = &context->waiting;
    PS_ASSERT(!call->is_waiting);
    if (atomic_fetch_add(&waiting->calls, 1) >= waiting->calls_max) {
        atomic_fetch_sub(&waiting->calls, 1);
        return ps_refuse(error, PS_ERR_BUSY, PS_REFUSED_WAITING_CALLS, RETRY_MS,
                         "%u calls wait for other clients, and no more may (--waiting-calls)",
                         waiting->calls_max);
    }
    /* The connection and not the host: many workers of one machine wait for each other. */
    struct ps_bytes connection = ps_caller_connection(ps_rpc_call_caller(call));
    uint32_t max = share_of(waiting, connection);
    call->is_waiting = ps_budgets_enter(&context->budgets, connection, PS_SUM_WAITING, 1, max,
                                        ps_now_ms(context->clock), &call->waiting_budget, NULL);
    if (call->is_waiting)
        return PS_OK;
    atomic_fetch_sub(&waiting->calls, 1);
    return ps_refuse(error, PS_ERR_BUSY, PS_REFUSED_WAITING_SHARE, RETRY_MS,
                     "%u calls of this connection wait for other clients, and no more may (half "
                     "of --client-calls)",
                     max);
}

/* Twice is allowed: a call that is answered leaves, and is cleared later. */
void ps_waiting_leave(struct ps_rpc_call *call)
{
    struct ps_rpc_context *context = call->lane->context;
    if (!call->is_waiting)
        return;
    ps_budgets_leave(&context->budgets, call->waiting_budget, PS_SUM_WAITING, 1);
    unsigned before = atomic_fetch_sub(&context->waiting.calls, 1);
    PS_ASSERT(before > 0);
    call->is_waiting = false;
}
