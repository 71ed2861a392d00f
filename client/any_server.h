/* SPDX-License-Identifier: Apache-2.0 */
/* A question that any server of the job can answer, since everything lies in the store: a server
 * that does not answer is left for the next, which goes on with what the first may have begun.
 *
 * Threads:  each struct with one thread at a time; others may use the client meanwhile.
 * Blocking: until the deadline: calls go through the client's engine.
 * Errors:   a refusal is final, whoever says so: all servers would find the same in the store.
 * Memory:   the client's, which outlives the struct.
 */
#ifndef PS_CLIENT_ANY_SERVER_H
#define PS_CLIENT_ANY_SERVER_H

#include "base/buffer.h"
#include "client/client_state.h"

struct ps_any_server {
    struct psclient *client;
    uint32_t shard;                  /* that is asked next */
    const atomic_bool *is_cancelled; /* borrowed; no other server is asked when it is set. NULL:
                                        never */
};

/* The server is asked to wait for `wait_ms` and waited for a little longer; the message says so,
 * too. */
PS_MUST_USE enum ps_status ps_any_server_ask(struct ps_any_server *any, enum ps_method method,
                                             const struct ps_buffer *message, uint64_t wait_ms,
                                             uint64_t deadline_ms, struct ps_answer_taker answer,
                                             struct ps_error *error);

#endif
