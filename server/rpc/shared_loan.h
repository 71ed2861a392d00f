/* SPDX-License-Identifier: Apache-2.0 */
/* A client's shared memory that is used beyond one look at it: a request of a program whose content
 * lies there, room for an answer. It is counted, and lasts until the last holder has dropped it,
 * whatever becomes of the client's connection.
 *
 * The client may change the bytes meanwhile. What is read here is its own request, and what it
 * changes is what its own program is asked: nobody else's values, and no promise, depend on it.
 *
 * Threads:  any.
 * Blocking: copying, until the helpers that copy with the caller are done.
 * Errors:   those of shared_memory.h, and PS_ERR_NO_MEMORY.
 * Memory:   one block for each loan.
 */
#ifndef PS_SERVER_RPC_SHARED_LOAN_H
#define PS_SERVER_RPC_SHARED_LOAN_H

#include "base/bytes.h"
#include "server/rpc/rpc_context.h"

struct ps_shared_loan;

/* PS_ERR_UNAVAILABLE: no such memory (any more). PS_ERR_OUT_OF_RANGE: longer than the largest
 * message. PS_ERR_BAD_INPUT, PS_ERR_NO_MEMORY. Dropped by ps_shared_loan_drop. */
PS_MUST_USE enum ps_status ps_shared_loan_take(struct ps_rpc_context *context,
                                               const struct ps_shared_range *range,
                                               struct ps_shared_loan **loan,
                                               struct ps_error *error);

struct ps_bytes ps_shared_loan_bytes(const struct ps_shared_loan *loan);

/* By which others keep it; borrows the loan. */
struct ps_hold ps_shared_loan_hold(struct ps_shared_loan *loan);

void ps_shared_loan_drop(void *loan);

/* Copies content to `room`, which has room for it; much of it by several threads. */
void ps_shared_copy(struct ps_rpc_context *context, struct ps_view content, uint8_t *room);

#endif
