/* SPDX-License-Identifier: Apache-2.0 */
/* DefineParam, DropParam and ConfigureParam on a simulated server: decoded here, done by the real
 * service, answered here when that is durable; and what the checkers are to know of each.
 *
 * Threads:  one.
 * Blocking: never: what has to wait is asked again.
 * Errors:   become replies.
 * Memory:   a change belongs to its server until it is answered or forgotten.
 */
#ifndef PS_TESTS_SIM_SIM_SERVER_CHANGE_H
#define PS_TESTS_SIM_SIM_SERVER_CHANGE_H

#include "server/core/requests/topics.h"
#include "tests/sim/sim_server.h"

struct sim_change;

bool sim_is_change(enum ps_method method);

/* With a copy of the request. */
struct sim_change *sim_change_begin(const struct sim_message *message);

/* True when it is answered. */
bool sim_change_step(struct sim_server *server, struct sim_change *change);

/* For which it may wait. */
#define SIM_CHANGE_TOPICS (PS_TOPIC_BIT(PS_TOPIC_LIFE) | PS_TOPIC_BIT(PS_TOPIC_JOURNAL))

void sim_change_refuse(struct sim_server *server, struct sim_change *change, enum ps_status status);

/* The process ends: whoever waits hears of a broken connection. */
void sim_change_break(struct sim_server *server, struct sim_change *change);

/* Until when its caller waits. */
uint64_t sim_change_deadline_ms(const struct sim_change *change);

/* Takes it. NULL is allowed. */
void sim_change_release(struct sim_change *change);

#endif
