/* SPDX-License-Identifier: Apache-2.0 */
/* A lease is the service's until the moment for which it is proved, and so also that of a process
 * which sleeps: it may wake up and be pushed to. */
#include "tests/sim/sim_table_leases.h"

#include "base/assert.h"
#include "server/core/requests/service_state.h"
#include "tests/sim/sim_server.h"

#include <stdatomic.h>
#include <string.h>

uint64_t sim_leases_served_ms(const struct sim_leases *leases, uint32_t index, uint64_t now_ms)
{
    PS_ASSERT(index < SIM_SHARDS_MAX && leases->looked_ms <= now_ms);
    uint64_t until_ms = leases->until_ms[index];
    uint64_t end_ms = until_ms < now_ms ? until_ms : now_ms;
    return leases->served_ms[index] + (end_ms > leases->looked_ms ? end_ms - leases->looked_ms : 0);
}

uint64_t sim_leases_starts(const struct sim_leases *leases, uint32_t index)
{
    PS_ASSERT(index < SIM_SHARDS_MAX);
    return leases->starts[index];
}

/* What is counted so far, and who goes on. A lease that was given back or lost with its process is
 * not found again, and one that was renewed reaches further. */
void sim_leases_look(struct sim_leases *leases, const struct sim_world *world)
{
    uint64_t now_ms = sim_now(world);
    for (uint32_t i = 0; i < world->options.shard_count; i++)
        leases->served_ms[i] = sim_leases_served_ms(leases, i, now_ms);
    leases->looked_ms = now_ms;
    memset(leases->until_ms, 0, sizeof leases->until_ms);
    for (uint32_t i = 0; i < world->options.server_count; i++) {
        const struct sim_server *server = &world->servers[i];
        struct ps_status_reply now;
        char uuid[37];
        if (!server->running)
            continue;
        uint64_t until_ms = atomic_load(&server->service->proved_until_ms);
        if (until_ms <= now_ms)
            continue;
        ps_service_status(server->service, &now, uuid);
        PS_ASSERT(now.index < SIM_SHARDS_MAX);
        if (until_ms > leases->until_ms[now.index])
            leases->until_ms[now.index] = until_ms;
        leases->starts[now.index] += now.epoch != leases->epochs[now.index] ? 1 : 0;
        leases->epochs[now.index] = now.epoch;
    }
}
