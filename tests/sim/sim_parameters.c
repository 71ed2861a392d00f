/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of a random world: names, types, lengths, optimizers. */
#include "tests/sim/sim_parameters.h"

#include "proto/optimizer_config.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_client_change.h"
#include "tests/sim/sim_rounds.h"

#include <stdio.h>

/* A rule with state, one without, in several types. */
static void choose_config(struct sim_world *world, struct sim_parameter *parameter,
                          char config_bytes[SIM_CONFIG_BYTES_MAX])
{
    struct ps_optimizer_config config;
    ps_optimizer_config_defaults(&config);
    parameter->dtype = sim_chance(world, 500) ? PS_F32 : PS_F64;
    switch (sim_between(world, 0, 3)) {
    case 0:
        ps_optimizer_config_set(&config, "momentum", 0.5);
        break;
    case 1:
        (void)ps_optimizer_config_choose(&config, "adam");
        config.learning_rate = 0.125;
        break;
    case 2:
        (void)ps_optimizer_config_choose(&config, "add");
        parameter->dtype = PS_I64;
        break;
    default:
        return; /* no configuration at all */
    }
    parameter->config = sim_config_encode(&config, config_bytes);
}

/* All trainers but the one with a parameter of its own contribute. */
static void choose_rounds(struct sim_world *world, struct sim_parameter *parameter,
                          char config_bytes[SIM_CONFIG_BYTES_MAX])
{
    uint32_t workers = sim_trainers(world);
    const struct sim_round_rules rules = {
        .workers = workers,
        .quorum = (uint32_t)sim_between(world, 0, workers),
        .grace_ms = sim_chance(world, 300) ? 0 : sim_between(world, 300, 5000),
        .combine = (enum sim_combine)sim_between(world, SIM_COMBINE_AVERAGE, SIM_COMBINE_WEIGHTED),
        .rule = (enum sim_rule)sim_between(world, SIM_RULE_SGD, SIM_RULE_MOMENTUM),
        .late_is_next = sim_chance(world, 500)};
    parameter->dtype = sim_chance(world, 500) ? PS_F32 : PS_F64;
    parameter->config = sim_rounds_config(&rules, config_bytes);
    sim_rounds_know(sim_checker_rounds(world), parameter->name, &rules);
}

size_t sim_choose_parameters(struct sim_world *world,
                             struct sim_parameter parameters[SIM_PARAMETERS_MAX],
                             char configs[SIM_PARAMETERS_MAX][SIM_CONFIG_BYTES_MAX])
{
    size_t count = (size_t)sim_between(world, 1, SIM_PARAMETERS_MAX);
    for (size_t i = 0; i < count; i++) {
        struct sim_parameter *parameter = &parameters[i];
        snprintf(parameter->name, sizeof parameter->name, "p%zu", i);
        parameter->count = (size_t)sim_between(
            world, 1, world->options.large ? SIM_ELEMENTS_MAX : SIM_ELEMENTS_SMALL);
        if (world->options.rounds && (i == 0 || sim_chance(world, 500)))
            choose_rounds(world, parameter, configs[i]);
        else
            choose_config(world, parameter, configs[i]);
    }
    return count;
}
