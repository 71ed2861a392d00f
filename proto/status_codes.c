/* SPDX-License-Identifier: Apache-2.0 */
/* One switch from our statuses to gRPC's codes; the way back goes by the word.
 *
 * gRPC has sixteen codes, several of our statuses share one, and gRPC itself makes some of them on
 * the way (a broken connection, an expired deadline). The server therefore adds its own word to
 * each failure, and a client trusts the word; only a failure without one is read by its code. The
 * words are those of the status table, so a new status needs one case here and nothing in the
 * clients. */
#include "proto/status_codes.h"

#include "base/assert.h"

/* The codes are chosen by what clients without knowledge of our words would do: RESOURCE_EXHAUSTED
 * and UNAVAILABLE are tried again by generic retry policies, FAILED_PRECONDITION is not, and fits
 * all that needs a look at the routing or the session first. Every status has a case and there is
 * no default, so a new one does not compile until it is placed. */
enum ps_rpc_code ps_rpc_code_of_status(enum ps_status status)
{
    switch (status) {
    case PS_OK:
        return PS_RPC_OK;
    case PS_ERR_NO_MEMORY:
    case PS_ERR_BUSY:
    case PS_ERR_TABLE_FULL:
        return PS_RPC_RESOURCE_EXHAUSTED;
    case PS_ERR_UNAVAILABLE:
        return PS_RPC_UNAVAILABLE;
    /* All of these need something other than the same request again: routing, a session, or
     * patience until the parameters are there. */
    case PS_ERR_NOT_READY:
    case PS_ERR_NOT_OWNER:
    case PS_ERR_STALE_EPOCH:
    case PS_ERR_STALE_SESSION:
    case PS_ERR_ID_REUSED:
    case PS_ERR_MISMATCH:
    case PS_ERR_LEASE_LOST:
        return PS_RPC_FAILED_PRECONDITION;
    /* Both leave open what happened, on either side of the wire. */
    case PS_ERR_TIMEOUT:
        return PS_RPC_DEADLINE_EXCEEDED;
    case PS_ERR_CANCELLED:
        return PS_RPC_CANCELLED;
    case PS_ERR_CONFLICT:
    case PS_ERR_ABORTED:
        return PS_RPC_ABORTED;
    case PS_ERR_BAD_INPUT:
        return PS_RPC_INVALID_ARGUMENT;
    case PS_ERR_NOT_FOUND:
        return PS_RPC_NOT_FOUND;
    case PS_ERR_EXISTS:
        return PS_RPC_ALREADY_EXISTS;
    case PS_ERR_OUT_OF_RANGE:
        return PS_RPC_OUT_OF_RANGE;
    case PS_ERR_UNSUPPORTED:
        return PS_RPC_UNIMPLEMENTED;
    case PS_ERR_UNAUTHENTICATED:
        return PS_RPC_UNAUTHENTICATED;
    case PS_ERR_DENIED:
        return PS_RPC_PERMISSION_DENIED;
    case PS_ERR_CORRUPT:
        return PS_RPC_DATA_LOSS;
    case PS_ERR_IO:
    case PS_ERR_INTERNAL:
        return PS_RPC_INTERNAL;
    case PS_STATUS_COUNT:
        break;
    }
    PS_ASSERT(false && "no such status");
}

/* A code beyond the table is a newer gRPC's and counts as unknown. */
const char *ps_rpc_code_name(uint32_t code)
{
    static const char *const names[PS_RPC_CODE_COUNT] = {
#define PS_RPC_CODE_ROW(TAG, name) [TAG] = name,
        PS_RPC_CODE_TABLE(PS_RPC_CODE_ROW)
#undef PS_RPC_CODE_ROW
    };
    return code < PS_RPC_CODE_COUNT ? names[code] : names[PS_RPC_UNKNOWN];
}

/* What a code means when gRPC itself made it. UNAVAILABLE means that nothing was connected;
 * DEADLINE_EXCEEDED and CANCELLED leave it open whether the request was carried out. */
static enum ps_status status_of_code(uint32_t code)
{
    switch (code) {
    case PS_RPC_CANCELLED:
        return PS_ERR_CANCELLED;
    case PS_RPC_DEADLINE_EXCEEDED:
        return PS_ERR_TIMEOUT;
    case PS_RPC_UNAVAILABLE:
        return PS_ERR_UNAVAILABLE;
    /* gRPC's own use of this code is a message above the limit: trying again would not help. */
    case PS_RPC_RESOURCE_EXHAUSTED:
        return PS_ERR_OUT_OF_RANGE;
    case PS_RPC_UNIMPLEMENTED:
        return PS_ERR_UNSUPPORTED;
    case PS_RPC_UNAUTHENTICATED:
        return PS_ERR_UNAUTHENTICATED;
    case PS_RPC_PERMISSION_DENIED:
        return PS_ERR_DENIED;
    default:
        return PS_ERR_INTERNAL;
    }
}

enum ps_status ps_status_of_reply(uint32_t code, struct ps_bytes word, bool *from_server)
{
    /* A call that went well was answered by the server, whatever words came with it. */
    *from_server = true;
    if (code == PS_RPC_OK)
        return PS_OK;
    /* A walk over twenty words, which only failures take. */
    for (int i = PS_OK + 1; i < PS_STATUS_COUNT; i++) {
        if (ps_bytes_equal(word, ps_bytes_of_text(ps_status_word((enum ps_status)i))))
            return (enum ps_status)i;
    }
    *from_server = false;
    return status_of_code(code);
}
