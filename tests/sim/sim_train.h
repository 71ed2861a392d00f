/* A trainer's large calls, which go in ranges: several messages under one request id, each of which
 * can be late, lost or repeated by itself. What the client library's channel does
 * (client/channel/channel_grpc_train.h), with ranges of a few hundred bytes. Inside of sim_client.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   the first failure is the call's.
 * Memory:   a train lives until the outcome of its call.
 */
#ifndef PS_TESTS_SIM_SIM_TRAIN_H
#define PS_TESTS_SIM_SIM_TRAIN_H

#include "tests/sim/sim_client.h"

struct sim_train;

/* Does this trainer send the call in ranges? */
bool sim_train_carries(const struct sim_client *client, const struct ps_call_request *request);

/* Sends the first of them. Takes the call: its outcome comes some time. */
void sim_train_start(struct sim_client *client, uint32_t shard, uint64_t deadline_ms,
                     const struct ps_call_part *call);

/* A message of the train is over; `attempt` was given back before. `about`: the server's chain, as
 * the checker knows it. */
void sim_train_took(struct sim_client *client, const struct sim_attempt *attempt,
                    const struct ps_call_outcome *outcome, const struct ps_chain *about);

/* Nobody waits for the rest of its messages any more: the call ends so. */
void sim_train_break(struct sim_client *client, struct sim_train *train, enum ps_status status,
                     const char *text);

#endif
