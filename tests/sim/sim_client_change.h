/* SPDX-License-Identifier: Apache-2.0 */
/* A trainer with a parameter of its own, which it defines, pushes to, configures, pulls and drops,
 * again and again. Nobody else knows the name, so the trainer knows what must be true after every
 * answer: each learning rate is another one, and a value says which of them every push met.
 *
 * A batch is waited for until it is answered, by whichever server. What is answered with a failure
 * may have been done or not: the trainer goes on with another name.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   sim_fail, "P1: ..." of what is missing, "P2: ..." of what was done otherwise or twice.
 * Memory:   in the client.
 */
#ifndef PS_TESTS_SIM_SIM_CLIENT_CHANGE_H
#define PS_TESTS_SIM_SIM_CLIENT_CHANGE_H

#include "proto/optimizer_config.h"
#include "tests/sim/sim_client.h"

/* Begins the next batch. */
void sim_client_change(struct sim_client *client);

/* The batch is over: looks at what it came to. */
void sim_client_changed(struct sim_client *client);

/* Into `to`, where the bytes are then. */
struct ps_bytes sim_config_encode(const struct ps_optimizer_config *config,
                                  char to[SIM_CONFIG_BYTES_MAX]);

#endif
