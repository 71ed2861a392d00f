/* SPDX-License-Identifier: Apache-2.0 */
/* SetClocks and Clock, and the question of a pull that is timed by clocks.
 *
 * What is set and what is said are numbered requests with one record in the journal each; none of
 * them waits for another client. Only pulls and Progress (clock_view.h) do. Who is evicted is
 * decided while a pull waits, by this server's clock, and is a record, too: replay does not judge
 * anew. What workers announce under SparseSSP is no record: after a crash their pulls come again.
 *
 * Threads:  every function is safe from any thread.
 * Blocking: for locks.
 * Errors:   said at each function. All but the pull's: PS_ERR_NOT_READY "pserver not fully
 *           initialized"; PS_ERR_UNAVAILABLE and PS_ERR_NOT_OWNER as a push.
 * Memory:   requests are borrowed for the call.
 */
#ifndef PS_SERVER_CORE_CLOCK_CALLS_H
#define PS_SERVER_CORE_CLOCK_CALLS_H

#include "proto/clock_messages.h"
#include "server/core/requests/service.h"

/* Clocks of that name, from here on by these settings. Equal ones change nothing and are not
 * noted. With `request->removes` they go, and reads that wait by them are asked again: they get
 * PS_ERR_NOT_FOUND. Set again they begin anew. To remove what is not there changes nothing. On
 * PS_OK the reply may go when ps_service_acknowledge says so for `*wait`.
 *
 * PS_ERR_BAD_INPUT  name or settings, or settings of what is to go; the text says what is wrong
 * PS_ERR_MISMATCH   the clocks are in a later task
 * PS_ERR_BUSY       as many clocks as there may be, or the journal's queue is full
 * and for a request id what a push says.
 */
PS_MUST_USE enum ps_status ps_service_set_clocks(struct ps_service *service,
                                                 const struct ps_set_clocks_request *request,
                                                 struct ps_clocks_reply *reply,
                                                 struct ps_push_wait *wait, struct ps_error *error);

/* The worker has ended so many iterations, and lives. A clock that it has reached changes nothing
 * and is not noted: its answer waits for the record that said so first.
 *
 * PS_ERR_BAD_INPUT  no name or no worker
 * PS_ERR_NOT_FOUND  no such clocks, or no such worker
 * PS_ERR_MISMATCH   the clocks are in another task than the one that is named
 * and for the journal and a request id what a push says.
 */
PS_MUST_USE enum ps_status ps_service_clock(struct ps_service *service,
                                            const struct ps_clock_request *request,
                                            struct ps_clocks_reply *reply,
                                            struct ps_push_wait *wait, struct ps_error *error);

/* May the pull be answered by its clocks? With the cut held. A pull that names no worker may. When
 * somebody was evicted meanwhile, or has announced what it reads, `*wait` says so:
 * ps_clock_pull_tell follows in any case.
 *
 * PS_ERR_NOT_READY  not yet; `*wait` says when to ask again, the text who holds the minimum
 * PS_ERR_NOT_FOUND, PS_ERR_BAD_INPUT   as ps_clock_group_read
 */
PS_MUST_USE enum ps_status ps_clock_pull_check(struct ps_service *service,
                                               const struct ps_pull_request *request,
                                               struct ps_pull_wait *wait, struct ps_error *error);

/* Tells others what came of the check; without the cut. */
void ps_clock_pull_tell(struct ps_service *service, const struct ps_pull_request *request,
                        const struct ps_pull_wait *wait);

#endif
