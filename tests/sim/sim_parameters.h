/* SPDX-License-Identifier: Apache-2.0 */
/* What the trainers of a random world train.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   none.
 * Memory:   configurations lie in the caller's `configs`.
 */
#ifndef PS_TESTS_SIM_SIM_PARAMETERS_H
#define PS_TESTS_SIM_SIM_PARAMETERS_H

#include "tests/sim/sim_client.h"

/* Returns how many there are. The world's checker knows which of them are trained in rounds. */
size_t sim_choose_parameters(struct sim_world *world,
                             struct sim_parameter parameters[SIM_PARAMETERS_MAX],
                             char configs[SIM_PARAMETERS_MAX][SIM_CONFIG_BYTES_MAX]);

#endif
