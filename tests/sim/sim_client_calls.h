/* SPDX-License-Identifier: Apache-2.0 */
/* The trainer's channel: calls of its engine to and from messages. Inside of sim_client.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   none: they become outcomes.
 * Memory:   none of its own.
 */
#ifndef PS_TESTS_SIM_SIM_CLIENT_CALLS_H
#define PS_TESTS_SIM_SIM_CLIENT_CALLS_H

#include "tests/sim/sim_client.h"

/* Steps again in `after_ms`, and not before. */
void sim_client_wake(struct sim_client *client, uint64_t after_ms);

/* Sends and cancels what the engine wants, until it wants nothing; notes a finished batch. */
void sim_client_do_actions(struct sim_client *client);

/* The outcome of an attempt whose answer nobody waits for. */
void sim_client_break_attempt(struct sim_client *client, struct sim_attempt *attempt);

/* The shard has another server: what is out at the former one is given up, as by a real channel. */
void sim_client_leave(struct sim_client *client, uint32_t shard);

/* Makes item `i` about parameter `parameter`, every element `value`. */
void sim_client_fill(struct sim_client *client, size_t i, size_t parameter, double value);
/* Item `i` is a gradient: it is sent in the client's encoding, if that is one of its type. */
void sim_client_encode(struct sim_client *client, size_t i);
double sim_client_first_value(const struct sim_client *client, size_t i);

#endif
