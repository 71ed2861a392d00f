/* SPDX-License-Identifier: Apache-2.0 */
/* A trainer's copies of the tables, kept up to date by delta pulls (client/replica is the real
 * one), and what must be in them. Whenever a server answers a delta pull of a table the rows that
 * the model has at that moment are noted. A copy that has come to a version has, of each key, what
 * its server had at one of the moments of the answers that led there, of which the first was that
 * of the version: so it has every push up to it, and of later ones perhaps some rows, each of them
 * whole.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   sim_fail, "rows: ...".
 * Memory:   a follower belongs to its trainer, the moments to the model.
 * */
#ifndef PS_TESTS_SIM_SIM_TABLE_FOLLOW_H
#define PS_TESTS_SIM_SIM_TABLE_FOLLOW_H

#include "proto/messages.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_server.h"

struct sim_follower;
struct sim_moments;

struct sim_follower *sim_follower_create(struct sim_client *client);
/* NULL is allowed. */
void sim_follower_destroy(struct sim_follower *follower);

/* Fills in an item for each shard that is asked for its rows of that table; how many. Answers are
 * small, so that several lead to a version; one that has begun to come goes on, as a rule. */
size_t sim_follower_begin(struct sim_follower *follower, uint32_t table, struct ps_item *items);

/* The batch of these items is over: looks at what came of it. */
void sim_follower_finished(struct sim_follower *follower, const struct ps_item *items);

/* The server answers a delta pull of a table so. */
void sim_moments_note(struct sim_server *server, const struct ps_pull_reply *reply);

struct sim_moments *sim_moments_create(void);
void sim_moments_destroy(struct sim_moments *moments);

#endif
