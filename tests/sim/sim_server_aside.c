/* SPDX-License-Identifier: Apache-2.0 */
/* With the code that serves messages (server/core/requests/serve.c), without a message: nobody has
 * sent one, and nobody is answered. */
#include "tests/sim/sim_server_aside.h"

#include "base/assert.h"
#include "server/core/requests/serve.h"
#include "server/core/requests/service_state.h"
#include "server/core/update/parameter.h"
#include "tests/sim/sim_rounds.h"
#include "tests/sim/sim_table_rows.h"

/* Any key that the shard may be asked for. */
static uint64_t key_of(const struct sim_server *server, struct ps_bytes name)
{
    const struct sim_table *table = sim_rows_table(server->world, (uint32_t)(name.data[1] - '0'));
    struct ps_status_reply now;
    char uuid[37];
    uint32_t i = 0;
    ps_service_status(server->service, &now, uuid);
    while (i + 1 < SIM_TABLE_KEYS && !sim_ranges_allow(&table->ranges, now.index, sim_table_key(i)))
        i++;
    return sim_table_key(i);
}

/* One answer, or none: what would have to be waited for is not. */
static void serve(struct sim_server *server, const struct ps_pull_request *asked)
{
    struct ps_pull_request request = *asked;
    struct ps_served_pull pulled = {0};
    struct ps_error error = {0};
    struct ps_serve serve = {.service = server->service,
                             .request = {.pulls = &request, .pull_count = 1},
                             .pulls = &pulled,
                             .error = &error};
    const struct ps_serve_turn turn = {.may_wait = true};
    enum ps_serve_progress progress = PS_SERVE_GOES_ON;
    ps_serve_begin(&serve);
    while (progress == PS_SERVE_GOES_ON)
        progress = ps_serve_step(&serve, turn);
    bool answered = progress == PS_SERVE_DONE && pulled.status.status == PS_OK;
    if (answered && sim_is_table(asked->name))
        sim_rows_pulled(server, asked, &pulled.pull.reply);
    else if (answered)
        sim_rounds_pulled(server->world, server, asked, &pulled.pull.reply);
    ps_serve_release_pulls(&serve);
}

void sim_server_pull_aside(struct sim_server *server, struct ps_bytes name)
{
    const struct ps_parameter *parameter = ps_parameter_table_find(&server->service->table, name);
    /* Version 0 is what an initialisation makes: nobody waits for that. */
    if (!server->world->options.rounds || parameter == NULL || parameter->version == 0)
        return;
    bool is_table = sim_is_table(name);
    uint64_t key = is_table ? key_of(server, name) : 0;
    const struct ps_bytes keys = {(const uint8_t *)&key, is_table ? sizeof key : 0};
    const struct ps_pull_request asked = {
        .name = name, .at_least_version = parameter->version, .keys = ps_view_of(&keys)};
    PS_ASSERT(asked.version == 0);
    serve(server, &asked);
}
