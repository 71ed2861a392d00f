/* SPDX-License-Identifier: Apache-2.0 */
/* As server/rpc/change_methods.c does: ask until the shard is READY, then wait until what was done
 * is durable. */
#include "tests/sim/sim_server_change.h"

#include "base/assert.h"
#include "proto/change_codec.h"
#include "server/core/requests/change.h"
#include "server/core/requests/service_state.h"
#include "server/core/rounds/contributions.h"
#include "server/core/update/parameter.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_rounds.h"
#include "tests/sim/sim_server_aside.h"
#include "tests/sim/sim_server_serve.h"
#include "tests/sim/sim_table_rows.h"

#include <stdlib.h>
#include <string.h>

struct sim_change {
    struct sim_message *message; /* owned, alone */
    bool done;                   /* ... and not answered yet */
    size_t entry;                /* in the checker's history */
    struct ps_init_reply defined;
    struct ps_changed changed;
    struct ps_push_wait wait;
};

bool sim_is_change(enum ps_method method)
{
    return method == PS_METHOD_DEFINE || method == PS_METHOD_DROP || method == PS_METHOD_CONFIGURE;
}

struct sim_change *sim_change_begin(const struct sim_message *message)
{
    struct sim_change *change = calloc(1, sizeof *change);
    PS_ASSERT(change != NULL && sim_is_change(message->method));
    change->message = sim_message_copy(message);
    return change;
}

/* The position that the answer waits for is that of the change. */
static void note(struct sim_server *server, struct sim_change *change, struct ps_bytes name,
                 const struct ps_request_id *id)
{
    change->done = true;
    /* Several trainers define a table: what one of them finds is not at a position of its own. */
    if (sim_is_table(name) && change->defined.existed) {
        change->entry = SIM_NO_ENTRY;
        return;
    }
    change->entry = sim_checker_changed(server->world, server, change->message->method, name, id,
                                        change->wait.position, change->changed.reply.duplicate);
    sim_checker_state(server->world, server);
}

static enum ps_status define(struct sim_server *server, struct sim_change *change,
                             struct ps_error *error)
{
    const struct ps_bytes piece = {change->message->bytes, change->message->size};
    struct ps_init_request request;
    struct ps_decoded decoded = {0};
    PS_TRY(ps_decode_init(ps_view_of(&piece), &server->world->memory, &request, &decoded, error));
    sim_server_hide_shard(server, &request.shard);
    enum ps_status status =
        ps_service_define(server->service, &request, &change->defined, &change->wait, error);
    if (status == PS_OK && sim_is_table(request.name))
        sim_rows_defined(server, request.name, request.config, change->wait.position);
    if (status == PS_OK)
        note(server, change, request.name, &request.request);
    ps_decoded_release(&decoded);
    return status;
}

/* Of a table, or of a parameter that is trained in rounds; what a trainer has for itself it knows
 * about itself. A repeat changes nothing. */
static void note_setting(struct sim_server *server, const struct sim_change *change,
                         const struct ps_change_request *request)
{
    const struct sim_rounds *rounds = sim_checker_rounds(server->world);
    uint64_t position = change->wait.position;
    if (change->changed.reply.duplicate)
        return;
    if (sim_is_table(request->name) && change->message->method == PS_METHOD_DROP)
        sim_rows_dropped(server, request->name, position);
    else if (sim_is_table(request->name))
        sim_rows_changed(server, request->name, position, sim_settings_read(request->change));
    else if (sim_rounds_of(rounds, request->name) != NULL)
        sim_rounds_changed(server->world, server, request->name, position,
                           sim_settings_read(request->change));
}

static void note_refusal(struct sim_server *server, const struct ps_change_request *request)
{
    if (sim_is_table(request->name))
        sim_rows_unchanged(server, request->name, sim_settings_read(request->change));
    else if (sim_rounds_of(sim_checker_rounds(server->world), request->name) != NULL)
        sim_rounds_unchanged(server->world, server, request->name,
                             sim_settings_read(request->change));
}

/* The range is told to have the workers that it has, which changes nothing and goes well: also
 * while a round is open, which is why this leaves those alone that would be refused. */
static void hide_change(const struct sim_server *server, struct ps_change_request *request,
                        uint8_t bytes[SIM_SETTING_BYTES])
{
    const struct ps_bytes name = request->name;
    const uint8_t *mark = name.size > 0 ? memchr(name.data, '#', name.size) : NULL;
    const struct ps_parameter *parameter = ps_parameter_table_find(&server->service->table, name);
    if (server->world->options.mutation != SIM_MUTATION_RANGE_UNCHANGED || mark == NULL ||
        mark[1] == '0' || parameter == NULL ||
        (parameter->rounds != NULL && parameter->rounds->round.counted_count > 0))
        return;
    const struct sim_new_setting same = {SIM_CHANGES_WORKERS,
                                         parameter->spec->settings.rounds.workers};
    struct ps_item item = {0};
    sim_settings_ask(&item, same, bytes);
    request->change = item.config;
}

static enum ps_status drop_or_configure(struct sim_server *server, struct sim_change *change,
                                        struct ps_error *error)
{
    const struct ps_bytes piece = {change->message->bytes, change->message->size};
    struct ps_change_request request;
    struct ps_decoded decoded = {0};
    PS_TRY(ps_decode_change(ps_view_of(&piece), &server->world->memory, &request, &decoded, error));
    sim_server_hide_shard(server, &request.shard);
    struct ps_change_request served = request;
    uint8_t hidden[SIM_SETTING_BYTES];
    hide_change(server, &served, hidden);
    enum ps_status status =
        change->message->method == PS_METHOD_DROP
            ? ps_service_drop(server->service, &served, &change->changed, &change->wait, error)
            : ps_service_configure(server->service, &served, &change->changed, &change->wait,
                                   error);
    if (status == PS_OK)
        note_setting(server, change, &request);
    if (status == PS_OK && change->message->method == PS_METHOD_CONFIGURE)
        sim_server_pull_aside(server, request.name);
    if (status == PS_ERR_MISMATCH)
        note_refusal(server, &request);
    if (status == PS_OK)
        note(server, change, request.name, &request.request);
    ps_decoded_release(&decoded);
    return status;
}

static void answer(struct sim_server *server, const struct sim_change *change,
                   enum ps_status status, const struct ps_error *error)
{
    struct ps_call_reply answer = {.method = change->message->method};
    const struct ps_chain nowhere = {0};
    if (change->message->method == PS_METHOD_DEFINE)
        answer.init = change->defined;
    else
        answer.change = change->changed.reply;
    sim_server_reply(server, change->message, status, error, status == PS_OK ? &answer : NULL,
                     &nowhere);
}

static bool is_early(const struct sim_server *server, const struct sim_change *change)
{
    return server->world->options.mutation == SIM_MUTATION_DEFINE_EARLY &&
           change->message->method == PS_METHOD_DEFINE;
}

/* Once the change is made the answer is never a refusal: PS_ERR_NOT_READY means to wait. */
bool sim_change_step(struct sim_server *server, struct sim_change *change)
{
    struct ps_error error = {0};
    struct ps_push_reply durable = {0};
    enum ps_status status = PS_OK;
    if (!change->done)
        status = change->message->method == PS_METHOD_DEFINE
                     ? define(server, change, &error)
                     : drop_or_configure(server, change, &error);
    if (status == PS_OK && !is_early(server, change))
        status = ps_service_acknowledge(server->service, &change->wait, &durable, &error);
    if (status == PS_ERR_NOT_READY)
        return false;
    if (status == PS_OK)
        sim_checker_acknowledged(server->world, server, change->entry);
    answer(server, change, status, &error);
    return true;
}

void sim_change_refuse(struct sim_server *server, struct sim_change *change, enum ps_status status)
{
    const struct ps_error nothing = {0};
    answer(server, change, status, &nothing);
}

void sim_change_break(struct sim_server *server, struct sim_change *change)
{
    sim_break(server->world, change->message);
}

uint64_t sim_change_deadline_ms(const struct sim_change *change)
{
    return change->message->deadline_ms;
}

void sim_change_release(struct sim_change *change)
{
    if (change == NULL)
        return;
    ps_changed_release(&change->changed);
    free(change->message);
    free(change);
}
