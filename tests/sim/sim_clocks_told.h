/* SPDX-License-Identifier: Apache-2.0 */
/* The clocks that every shard was told, with their places in the shard's history: so it is known
 * after a recovery how far each worker must be, and no read may be answered before the slowest of
 * those that are waited for is as far as the consistency asks.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   sim_fail, "clocks: ...", and "P1: ..." for a clock, or a removal, that was acknowledged
 *           and is lost.
 * Memory:   its own, from the C library.
 */
#ifndef PS_TESTS_SIM_SIM_CLOCKS_TOLD_H
#define PS_TESTS_SIM_SIM_CLOCKS_TOLD_H

#include "tests/sim/sim_server.h"

struct sim_told; /* of all shards */

struct sim_told *sim_told_create(void);
void sim_told_destroy(struct sim_told *told);

/* The server has taken a clock of this worker (from 0), ... */
void sim_clocks_told(struct sim_server *server, uint32_t worker,
                     const struct ps_clocks_reply *reply);
/* ... and says so. */
void sim_clocks_acknowledged(struct sim_server *server, uint32_t worker,
                             const struct ps_clocks_reply *reply);

/* The server has set the clocks, or removed them: ... */
void sim_clocks_begun(struct sim_server *server, bool removed, const struct ps_clocks_reply *reply);
/* ... and says that they are gone. */
void sim_clocks_removed(struct sim_server *server, const struct ps_clocks_reply *reply);

/* The position of the removal since which the server's clocks are; 0: from the beginning. */
uint64_t sim_clocks_since(const struct sim_server *server);

/* The worker has asked to read, whatever becomes of it. */
void sim_clocks_heard(struct sim_server *server, uint32_t worker);

/* A pull was answered: was it allowed to be? `request` as the trainer sent it. */
void sim_clocks_judge(struct sim_server *server, const struct ps_pull_request *request);

#endif
