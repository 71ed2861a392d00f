/* SPDX-License-Identifier: Apache-2.0 */
/* What comes by the way, as another thread of a server would serve it: a pull between a change and
 * the moment at which the change is durable, and contributions between the look of a pull and its
 * taking of the values. Trainers are seldom there just then, or never.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   sim_fail, by what the models say of the answer.
 * Memory:   none that stays.
 */
#ifndef PS_TESTS_SIM_SIM_SERVER_ASIDE_H
#define PS_TESTS_SIM_SIM_SERVER_ASIDE_H

#include "tests/sim/sim_server.h"

/* Who waits for the version that the parameter or table is at asks for it now, and hears of it or
 * gives up. Nothing in worlds without rounds, nor of a name that is not there. */
void sim_server_pull_aside(struct sim_server *server, struct ps_bytes name);

/* A world begins: from here on contributions may come while a pull is answered. */
void sim_asides_begin(struct sim_world *world);

#endif
