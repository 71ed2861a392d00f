/* SPDX-License-Identifier: Apache-2.0 */
/* What a client knows of its job's placement (docs/placement.md): how the number is decided by the
 * client that initialises the job, and how the others get to know it.
 *
 * Nothing is placed before the job is initialised, so that a client may be opened before the number
 * is decided. The client hears of the number with the other news of the servers, at the latest from
 * a server that does not have a parameter which the client has looked for by the classic rule.
 *
 * Threads:  any.
 * Blocking: decide and learn ask servers, until the deadline.
 * Errors:   those of the initialiser.
 * Memory:   none is kept.
 */
#ifndef PS_CLIENT_JOB_PLACEMENT_H
#define PS_CLIENT_JOB_PLACEMENT_H

#include "client/client_state.h"

/* What the next batch is placed by. */
struct ps_layout ps_client_layout(const struct psclient *client);

/* The number that somebody has told; 0 is nothing new. Under the mutex. */
void ps_client_place(struct psclient *client, uint64_t placement);

/* Before the parameters of `items` are given to the servers: decides by them, if nothing is decided
 * and this client has the right to initialise. */
PS_MUST_USE enum ps_status ps_client_decide_placement(struct psclient *client,
                                                      const struct ps_item *items, size_t count,
                                                      uint64_t deadline_ms, struct ps_error *error);

/* Before a parameter is given to a job that trains: waits until the job is initialised, and the
 * number known. PS_ERR_UNAVAILABLE: not by the deadline. */
PS_MUST_USE enum ps_status ps_client_await_placement(struct psclient *client, uint64_t deadline_ms,
                                                     struct ps_error *error);

/* A batch was placed by `placed_by`, and is over. Items that were not found are asked for again
 * when the job turns out to have another placement. */
void ps_client_look_elsewhere(struct psclient *client, const struct ps_batch_request *request,
                              uint64_t placed_by);

#endif
