/* SPDX-License-Identifier: Apache-2.0 */
/* What a trainer is told to do, by a scenario or by itself: one batch each. */
#include "base/assert.h"
#include "tests/sim/sim_client_calls.h"
#include "tests/sim/sim_client_rounds.h"
#include "tests/sim/sim_clocks.h"

void sim_client_initialise(struct sim_client *client)
{
    PS_ASSERT(client->phase == SIM_PHASE_IDLE);
    client->phase = SIM_PHASE_QUEUEING;
    sim_client_wake(client, 0);
}

static void fill_items(struct sim_client *client, size_t parameter, double value)
{
    bool all = parameter == SIM_PARAMETERS_MAX;
    PS_ASSERT(client->phase == SIM_PHASE_IDLE);
    client->item_count = all ? client->parameter_count : 1;
    for (size_t i = 0; i < client->item_count; i++)
        sim_client_fill(client, i, all ? i : parameter, value);
}

static void fill_gradients(struct sim_client *client, size_t parameter, double value)
{
    fill_items(client, parameter, value);
    for (size_t i = 0; i < client->item_count; i++)
        sim_client_encode(client, i);
}

void sim_client_push(struct sim_client *client, size_t parameter, double value, uint64_t timeout_ms)
{
    fill_gradients(client, parameter, value);
    sim_client_join_rounds(client, PS_METHOD_PUSH);
    sim_client_start_batch(client, PS_METHOD_PUSH, SIM_PHASE_PUSHING, timeout_ms);
}

void sim_client_pull(struct sim_client *client, size_t parameter, uint64_t timeout_ms)
{
    fill_items(client, parameter, 0.0);
    sim_client_join_rounds(client, PS_METHOD_PULL);
    sim_clocks_read(client);
    sim_client_start_batch(client, PS_METHOD_PULL, SIM_PHASE_PULLING, timeout_ms);
}

void sim_client_push_pull(struct sim_client *client, size_t parameter, double value,
                          uint64_t timeout_ms)
{
    fill_gradients(client, parameter, value);
    sim_client_join_rounds(client, PS_METHOD_PUSH_PULL);
    sim_client_start_batch(client, PS_METHOD_PUSH_PULL, SIM_PHASE_PUSHING, timeout_ms);
}
