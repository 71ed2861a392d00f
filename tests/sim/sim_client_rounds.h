/* SPDX-License-Identifier: Apache-2.0 */
/* A trainer as a worker of parameters that are trained in rounds: which round its gradients are
 * for, and for which version it waits when it pulls.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   none.
 * Memory:   in the client.
 */
#ifndef PS_TESTS_SIM_SIM_CLIENT_ROUNDS_H
#define PS_TESTS_SIM_SIM_CLIENT_ROUNDS_H

#include "tests/sim/sim_client.h"

/* The items of a push, a pull or both that is about to begin: those of parameters with rounds get
 * a worker, a round and a weight, or a version to wait for. */
void sim_client_join_rounds(struct sim_client *client, enum ps_method method);

/* Sometimes: begins a batch that changes how one of the parameters is trained in rounds. False: not
 * this time. */
bool sim_client_configures(struct sim_client *client);

/* The batch is over: remembers what it says of rounds. */
void sim_client_note_rounds(struct sim_client *client);

#endif
