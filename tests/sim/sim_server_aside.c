/* SPDX-License-Identifier: Apache-2.0 */
/* With the code that serves messages (server/core/requests/serve.c), without a message: nobody has
 * sent one, and nobody is answered. */
#include "tests/sim/sim_server_aside.h"

#include "base/assert.h"
#include "server/core/requests/pull_wait.h"
#include "server/core/requests/serve.h"
#include "server/core/requests/service_state.h"
#include "server/core/rounds/contributions.h"
#include "server/core/update/parameter.h"
#include "tests/sim/sim_rounds.h"
#include "tests/sim/sim_table_rows.h"

#include <stdlib.h>

#define CONTRIBUTE_PERMILLE 100 /* of pulls that wait for a version which is there */

/* ---- What the linker puts in the place of the server's function (CMakeLists.txt) ---- */

/* One world at a time. */
static struct sim_world *present;

enum ps_status __real_ps_pull_wait_check(struct ps_service *service, struct ps_parameter *parameter,
                                         const struct ps_pull_request *request,
                                         struct ps_pull_wait *wait,
                                         struct ps_round_effects *effects, struct ps_error *error);
enum ps_status __wrap_ps_pull_wait_check(struct ps_service *service, struct ps_parameter *parameter,
                                         const struct ps_pull_request *request,
                                         struct ps_pull_wait *wait,
                                         struct ps_round_effects *effects, struct ps_error *error);

void sim_asides_begin(struct sim_world *world)
{
    present = world;
}

static struct sim_server *server_of(const struct ps_service *service)
{
    for (uint32_t i = 0; present != NULL && i < present->options.server_count; i++)
        if (present->servers[i].running && present->servers[i].service == service)
            return &present->servers[i];
    return NULL;
}

/* As that worker, of whom nobody waits for an answer: the trainer that has its rank hears that it
 * has contributed already. Each is the first of another session. */
static void contribute(struct sim_server *server, const struct ps_parameter *parameter,
                       uint32_t worker)
{
    static const uint8_t nobody[] = {'a', 's', 'i', 'd', 'e'};
    const struct ps_parameter_spec *spec = parameter->spec;
    struct sim_world *world = server->world;
    size_t count = (size_t)spec->count;
    double *zeros = calloc(count, sizeof *zeros);
    PS_ASSERT(zeros != NULL);
    const struct ps_bytes piece = {(const uint8_t *)zeros, count * ps_dtype_size(spec->dtype)};
    const struct ps_push_request request = {
        .name = spec->name,
        .dtype = spec->dtype,
        .content = ps_view_of(&piece),
        .worker = worker + 1,
        .request = {.present = true,
                    .client_id = {nobody, sizeof nobody},
                    .session = ps_unix_ns(&world->clock) / 1000 + worker,
                    .sequence = 1}};
    struct ps_push_reply reply;
    struct ps_push_wait wait;
    if (ps_service_push(server->service, &request, &reply, &wait, NULL) == PS_OK)
        sim_rounds_pushed(world, server, &request, &reply);
    free(zeros);
}

/* Other threads have the cut as well: what they do with it they do between two instructions of this
 * one, which gives it up meanwhile. */
static void end_round(struct sim_server *server, struct ps_parameter *parameter)
{
    const uint64_t version = parameter->version;
    ps_rwlock_unlock(&server->service->cut);
    for (uint32_t i = 0; parameter->version == version && i < parameter->rounds->round.workers; i++)
        contribute(server, parameter, i);
    ps_rwlock_read(&server->service->cut);
}

enum ps_status __wrap_ps_pull_wait_check(struct ps_service *service, struct ps_parameter *parameter,
                                         const struct ps_pull_request *request,
                                         struct ps_pull_wait *wait,
                                         struct ps_round_effects *effects, struct ps_error *error)
{
    enum ps_status status =
        __real_ps_pull_wait_check(service, parameter, request, wait, effects, error);
    struct sim_server *server = server_of(service);
    bool waits = request->at_least_version > 0 && request->version == 0;
    if (status == PS_OK && waits && server != NULL && parameter->rounds != NULL &&
        parameter->rows == NULL && sim_chance(present, CONTRIBUTE_PERMILLE))
        end_round(server, parameter);
    return status;
}

/* ---- Pulls ---- */

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
