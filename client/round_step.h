/* SPDX-License-Identifier: Apache-2.0 */
/* A step of synchronous training: contributions to rounds, and the values that the rounds make.
 *
 * A contribution is answered at once, and only the pull behind it waits for the other workers. As
 * one message they are one round trip, but the contribution keeps its number until the round is
 * over, and a client has 192 numbers on a shard. Workers of one client that waited for each other's
 * numbers would wait for ever. So only some contributions of a client go that way at a time; the
 * others are pushed, and their values pulled afterwards.
 *
 * Threads:  any.
 * Blocking: ps_client_step up to timeout_ms.
 * Errors:   those of psclient.h.
 * Memory:   everything is borrowed for the call.
 */
#ifndef PS_CLIENT_ROUND_STEP_H
#define PS_CLIENT_ROUND_STEP_H

#include "client/client_state.h"

/* Of a client, at a time, whose numbers wait for rounds. */
#define PS_STEP_WAITING_MAX 96
/* Of one step. */
#define PS_STEP_TOGETHER_MAX 64

/* Is one of them a contribution? */
bool ps_client_contributes(const struct psclient *client, const struct psclient_gradient *gradients,
                           size_t count);

/* Takes room for the contributions among the items of an operation that pushes and pulls in one.
 * PS_ERR_BAD_INPUT: one does not say its round. PS_ERR_NO_MEMORY: too many wait already. */
PS_MUST_USE enum ps_status ps_client_enter_step(struct psclient *client,
                                                const struct ps_item *items, size_t count,
                                                struct ps_error *error);
/* Gives back what the same items took. */
void ps_client_leave_step(struct psclient *client, const struct ps_item *items, size_t count);

/* psclient_push_pull where some of the items are contributions. Takes the items. */
int ps_client_step(struct psclient *client, struct ps_item *items,
                   struct psclient_parameter *parameters, size_t count, uint64_t timeout_ms,
                   struct psclient_result *results, struct psclient_error *error);

/* The same for items of tables, which have no encoder and stay the caller's: what became of each
 * stands in it. A failure is that of the call, and no item was answered. */
PS_MUST_USE enum ps_status ps_client_step_rows(struct psclient *client, struct ps_item *items,
                                               size_t count, uint64_t deadline_ms,
                                               struct ps_error *error);

#endif
