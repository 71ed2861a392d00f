/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters that are trained in rounds, recomputed beside the servers: which contributions a round
 * has is known from the answers, so every version must have the bits that those make, in the order
 * of their ranks, and a round must end when all are there that it waits for, and not before unless
 * its grace is over.
 *
 * A model of its own: nothing of server/core/rounds is called. It knows whole numbers as gradients
 * of equal elements, and three rules.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   sim_fail, "rounds: ...".
 * Memory:   its own, from the C library.
 */
#ifndef PS_TESTS_SIM_SIM_ROUNDS_H
#define PS_TESTS_SIM_SIM_ROUNDS_H

#include "checkpoint/checkpoint.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_server.h"

enum sim_combine { SIM_COMBINE_AVERAGE, SIM_COMBINE_SUM, SIM_COMBINE_WEIGHTED };
enum sim_rule { SIM_RULE_SGD, SIM_RULE_ADD, SIM_RULE_MOMENTUM };

/* How a parameter is trained; `workers` 0: not in rounds. */
struct sim_round_rules {
    uint32_t workers, quorum; /* quorum 0: all that are not evicted */
    uint64_t grace_ms;        /* 0: never */
    enum sim_combine combine;
    enum sim_rule rule; /* with rate 1, and momentum 0.5 */
    bool late_is_next;  /* late ones count in the next round; false: they are dropped */
};

/* An OptimizerConfig that says so, as bytes in `to`. */
struct ps_bytes sim_rounds_config(const struct sim_round_rules *rules,
                                  char to[SIM_CONFIG_BYTES_MAX]);

struct sim_rounds;

struct sim_rounds *sim_rounds_create(void);
void sim_rounds_destroy(struct sim_rounds *rounds);

/* The parameter of this name, and each of its parts on other shards, is trained so. */
void sim_rounds_know(struct sim_rounds *rounds, const char *name,
                     const struct sim_round_rules *rules);

/* NULL: it is not trained in rounds. */
const struct sim_round_rules *sim_rounds_of(const struct sim_rounds *rounds, struct ps_bytes name);

/* Does the model know what a gradient in this encoding is? */
bool sim_rounds_can_read(enum ps_encoding encoding);

/* False: the push was a contribution to a round that is over, and counts nowhere. */
bool sim_rounds_count(const struct sim_server *server, struct ps_bytes name,
                      const struct ps_push_reply *reply);

/* Do rounds make the versions of the server's parameter? Its workers may have gone, and come again.
 * */
bool sim_rounds_are_on(const struct sim_server *server, struct ps_bytes name);

/* A server has taken a push: before anybody looks at the state that it has made. */
void sim_rounds_pushed(struct sim_world *world, const struct sim_server *server,
                       const struct ps_push_request *request, const struct ps_push_reply *reply);

/* The server has configured a parameter at that position (0: there is no journal), for the first
 * time; or refused to, since a round is open. */
void sim_rounds_changed(struct sim_world *world, const struct sim_server *server,
                        struct ps_bytes name, uint64_t position, struct sim_new_setting setting);
void sim_rounds_unchanged(struct sim_world *world, const struct sim_server *server,
                          struct ps_bytes name, struct sim_new_setting setting);

/* The server answers a pull of a parameter that is no table. */
void sim_rounds_pulled(struct sim_world *world, const struct sim_server *server,
                       const struct ps_pull_request *request, const struct ps_pull_reply *reply);

/* A state that a server of this shard is in. */
void sim_rounds_state(struct sim_world *world, const struct sim_server *server, uint32_t index,
                      uint64_t epoch, uint64_t position,
                      const struct ps_checkpoint_parameter *parameter);

#endif
