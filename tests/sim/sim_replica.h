/* SPDX-License-Identifier: Apache-2.0 */
/* A trainer's copies of all parameters, kept up to date by delta pulls (client/replica/replica.h is
 * the real one), and the truth about them: whenever a server brings a part to a version, what it
 * then has itself is noted, all of it, and what the trainer has when the answer came must be that.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   sim_fail, "delta: ...".
 * Memory:   a replica belongs to its trainer, the truths to the world.
 */
#ifndef PS_TESTS_SIM_SIM_REPLICA_H
#define PS_TESTS_SIM_SIM_REPLICA_H

#include "client/replica/replica.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_server.h"

/* Parts that one message asks for. */
#define SIM_PULLS_MAX (SIM_PARAMETERS_MAX * SIM_SHARDS_MAX)

struct sim_replica;
struct sim_truths;

struct sim_replica *sim_replica_create(struct sim_client *client);
void sim_replica_destroy(struct sim_replica *replica);

/* Fills in one item for each shard that is asked; how many. What has begun to come goes on, as a
 * rule; else everything is asked for anew. */
size_t sim_replica_begin(struct sim_replica *replica, struct ps_item *items);

/* The batch of these items is over: looks at what came of it. */
void sim_replica_finished(struct sim_replica *replica, const struct ps_item *items);

/* The server answers so: says in which chain its version is. */
void sim_truths_pulled(struct sim_server *server, const struct ps_pull_request *request,
                       const struct ps_pull_reply *reply, struct ps_chain *chain);

/* Was that content this version of the chain, as far as is known? */
bool sim_truths_has(const struct sim_world *world, struct ps_bytes name,
                    const struct ps_chain *chain, uint64_t version, struct ps_bytes content);

/* A trainer has pulled that: is it what the server had in that version, and all of one version?
 * (All elements of a parameter begin equal, and all gradients are of equal elements.) */
void sim_truths_judge(struct sim_client *client, struct ps_bytes name, const struct ps_chain *chain,
                      const struct ps_pull_reply *reply);

/* Are all elements of the content the same? */
bool sim_is_uniform(struct ps_view content, size_t element_size);

/* Under its mutation: the request says the life of the server that has it. */
void sim_replica_forget_chain(struct sim_server *server, struct ps_pull_request *request);

struct sim_truths *sim_truths_create(void);
void sim_truths_destroy(struct sim_truths *truths);

#endif
