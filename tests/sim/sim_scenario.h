/* SPDX-License-Identifier: Apache-2.0 */
/* Scenarios: commands as text, played in a world; what happened is the world's trace. README.md
 * says what the commands are.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   a line that cannot be understood is named.
 * Memory:   the player owns its world.
 */
#ifndef PS_TESTS_SIM_SIM_SCENARIO_H
#define PS_TESTS_SIM_SIM_SCENARIO_H

#include "tests/sim/sim_client.h"
#include "tests/sim/sim_server.h"

#define SIM_WORDS_MAX 16

struct sim_player {
    struct sim_world *world; /* owned; made by the command "world" */
    struct sim_parameter parameters[SIM_CLIENTS_MAX][SIM_PARAMETERS_MAX];
    char *words[SIM_WORDS_MAX]; /* of the line at hand */
    size_t word_count;
};

/* Plays one line, which it cuts into words. False when it cannot be understood. */
bool sim_player_play(struct sim_player *player, char *line);

void sim_player_fini(struct sim_player *player);

#endif
