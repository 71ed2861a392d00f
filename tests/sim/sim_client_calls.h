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

/* Begins a batch of the client's items; its end is heard in the phase. */
void sim_client_start_batch(struct sim_client *client, enum ps_method method, enum sim_phase phase,
                            uint64_t timeout_ms);
/* A line for each item of the batch that is over. */
void sim_client_trace_items(const struct sim_client *client);

/* The batch is over: what the trainer and the checkers make of its answers. */
void sim_client_judge_batch(struct sim_client *client);

/* Makes item `i` about parameter `parameter`, every element `value`. */
void sim_client_fill(struct sim_client *client, size_t i, size_t parameter, double value);
/* The same about a parameter that need not be one of the client's; borrowed by the batch. */
void sim_client_fill_with(struct sim_client *client, size_t i, const struct sim_parameter *about,
                          double value);
/* Item `i` is a gradient: it is sent in the client's encoding, if that is one of its type. */
void sim_client_encode(struct sim_client *client, size_t i);
/* Batches that begin from now on are placed by this number; 0 changes nothing. */
void sim_client_place(struct sim_client *client, uint64_t placement);
/* Whose turn it is to initialise. When it is not to wait, the client knows the job's placement, on
 * which it has decided if nobody had. */
enum ps_status sim_client_turn(struct sim_client *client, uint64_t deadline_ms,
                               enum ps_init_turn *turn);
double sim_client_first_value(const struct sim_client *client, size_t i);

/* The server that the members name for the shard, if its process is there; NULL otherwise. */
struct sim_server *sim_client_server(const struct sim_client *client, uint32_t shard);

#endif
