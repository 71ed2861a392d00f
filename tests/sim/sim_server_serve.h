/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients and pulls on a simulated server: decoded here, served by the real
 * server/core/requests/serve.c, answered here; and what the checkers are to know of each.
 *
 * Threads:  one.
 * Blocking: never: what has to wait is given back, to be asked again.
 * Errors:   become replies.
 * Memory:   a served message belongs to its server until it is answered or forgotten.
 */
#ifndef PS_TESTS_SIM_SIM_SERVER_SERVE_H
#define PS_TESTS_SIM_SIM_SERVER_SERVE_H

#include "server/core/requests/serve.h"
#include "tests/sim/sim_server.h"

/* Calls of one message, being served. */
struct sim_served;

/* Is this a call that can be served beside others in one message? */
bool sim_is_bundled(enum ps_method method);

/* Begins with a copy of the first `count` calls of the list. */
struct sim_served *sim_serve_begin(struct sim_server *server, const struct sim_message *messages,
                                   size_t count);

/* PS_SERVE_DONE: all of its calls are answered. */
enum ps_serve_progress sim_serve_step(struct sim_server *server, struct sim_served *served);

/* Answers all of its calls alike. */
void sim_serve_refuse(struct sim_server *server, struct sim_served *served, enum ps_status status);

/* The process ends: whoever waits hears of a broken connection. */
void sim_serve_break(struct sim_server *server, struct sim_served *served);

/* For what it waits, as a mask of topics (topics.h). SIM_TURN_BIT: for its next turn. */
#define SIM_TURN_BIT PS_TOPIC_BIT(PS_TOPIC_COUNT)
uint64_t sim_served_topics(const struct sim_served *served);

/* When it wants to be asked again, whatever happens until then; 0: it does not. To be asked behind
 * every step. */
uint64_t sim_served_ask_ms(const struct sim_server *server, struct sim_served *served);

/* Until when its callers wait. */
uint64_t sim_served_deadline_ms(const struct sim_served *served);

/* Takes it. NULL is allowed. */
void sim_served_release(struct sim_served *served);

#endif
