/* SPDX-License-Identifier: Apache-2.0 */
/* The gate that every call passes before anything of it is looked at: who makes the call, by a
 * certificate, a token or the kernel's word, and whether the rules allow what the method does. Of
 * a server without such files the gate stands open, and asks nothing.
 *
 * Threads:  the gate is constant once the server has started; a pass belongs to its call.
 * Blocking: never, but for locks held for moments.
 * Errors:   PS_ERR_UNAUTHENTICATED: nobody who is known. PS_ERR_DENIED: somebody who may not.
 *           Neither says what exists.
 * Memory:   in place; a pass holds a reference to the rules until it is released.
 */
#ifndef PS_SERVER_RPC_GATE_H
#define PS_SERVER_RPC_GATE_H

#include "proto/messages.h"
#include "security/access.h"
#include "security/identity.h"
#include "server/rpc/caller.h"
#include "server/rpc/tls_port.h"

#include <grpc/grpc.h>

struct ps_gate {
    struct ps_access *access; /* borrowed; NULL: nobody is asked for anything */
    const char *job;          /* borrowed; as rules name it */
    const char *local_name;   /* borrowed; who comes through the unix socket */
    bool asks;                /* false: everybody may do everything */
};

/* Who makes a call, and what that one may do. */
struct ps_pass {
    bool was_asked;  /* false: the gate stood open, and the rest is empty */
    bool every_name; /* the rules allow each parameter: none needs to be asked about */
    struct ps_identity identity;
    struct ps_roles *roles; /* a reference; NULL: there are no rules */
};

/* `access` and `job` are borrowed; `access` may be NULL. */
void ps_gate_init(struct ps_gate *gate, struct ps_access *access, enum ps_client_auth client_auth,
                  const char *job, const char *local_name);

/* Asks who makes the call, and whether the method may be called at all. `*pass` is zeroed
 * before, and released in any case. */
PS_MUST_USE enum ps_status ps_gate_enter(const struct ps_gate *gate, grpc_call *call,
                                         const grpc_metadata_array *metadata,
                                         const struct ps_caller *caller, enum ps_method method,
                                         struct ps_pass *pass, struct ps_error *error);

/* May the caller push to (`changes`) or pull this parameter? Of a call that has passed. */
PS_MUST_USE enum ps_status ps_gate_check_name(const struct ps_gate *gate,
                                              const struct ps_pass *pass, struct ps_bytes name,
                                              bool changes, struct ps_error *error);

/* Is the caller one whom rules make an admin of the whole job? Without rules nobody is. */
bool ps_gate_is_operator(const struct ps_gate *gate, const struct ps_pass *pass);

/* Who it is, for the log: "anybody" where nobody was asked. */
const char *ps_pass_name(const struct ps_pass *pass);

void ps_pass_release(struct ps_pass *pass);

#endif
