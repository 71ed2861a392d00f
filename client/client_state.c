/* The loop in which waiting callers drive the engine. */
#include "client/client_state.h"

#include "base/assert.h"

#include <stdio.h>
#include <string.h>

static void follow_members(struct psclient *client);
static bool take_outcomes(struct psclient *client);
static bool act(struct psclient *client, const struct ps_batch *mine);

/* Does everything there is to do now. Under the mutex. */
static void pump(struct psclient *client, const struct ps_batch *mine)
{
    follow_members(client);
    ps_engine_tick(client->engine, ps_now_ms(client->clock));
    bool busy = true;
    while (busy) {
        busy = act(client, mine);
        busy = take_outcomes(client) || busy;
    }
}

enum ps_status ps_client_run(struct psclient *client, const struct ps_batch_request *request,
                             struct ps_error *error)
{
    struct ps_batch *batch;
    ps_mutex_lock(&client->mutex);
    enum ps_status status =
        ps_engine_start(client->engine, request, ps_now_ms(client->clock), &batch, error);
    while (status == PS_OK) {
        uint64_t heard = ps_bell_count(&client->bell);
        pump(client, batch);
        if (ps_batch_is_finished(batch)) {
            ps_engine_end(client->engine, batch);
            break;
        }
        uint64_t wake_ms = ps_engine_wake_ms(client->engine);
        ps_mutex_unlock(&client->mutex);
        uint64_t wait_ms = PS_DEADLINE_NEVER;
        if (wake_ms != PS_DEADLINE_NEVER)
            wait_ms = ps_time_left_ms(client->clock, wake_ms);
        ps_bell_wait(&client->bell, heard, wait_ms);
        ps_mutex_lock(&client->mutex);
    }
    ps_mutex_unlock(&client->mutex);
    return status;
}

static bool take_outcomes(struct psclient *client)
{
    struct ps_delivery delivery;
    bool any = false;
    while (client->channel.take(client->channel.self, &delivery)) {
        any = true;
        if (client->follower != NULL && delivery.outcome.status == PS_ERR_NOT_OWNER)
            ps_follower_look_again(client->follower);
        ps_engine_outcome(client->engine, delivery.call, &delivery.outcome,
                          ps_now_ms(client->clock));
        client->channel.release(client->channel.self, &delivery);
    }
    return any;
}

static void send_call(struct psclient *client, const struct ps_engine_action *action)
{
    enum ps_status status = client->channel.submit(
        client->channel.self, action->call, action->shard, action->request, action->deadline_ms);
    if (status == PS_OK)
        return;
    struct ps_call_outcome outcome = {.status = status, .refused = true, .text = "no memory"};
    ps_engine_outcome(client->engine, action->call, &outcome, ps_now_ms(client->clock));
}

static bool act(struct psclient *client, const struct ps_batch *mine)
{
    struct ps_engine_action action;
    bool any = false;
    while (ps_engine_next_action(client->engine, &action)) {
        any = true;
        switch (action.type) {
        case PS_ENGINE_SEND:
            send_call(client, &action);
            break;
        case PS_ENGINE_CANCEL:
            client->channel.cancel(client->channel.self, action.call);
            break;
        case PS_ENGINE_FINISHED:
            if (action.batch != mine)
                ps_bell_ring(&client->bell);
            break;
        }
    }
    return any;
}

/* ---- Where the servers are ---- */

bool ps_client_route(struct psclient *client, uint32_t shard, const char *address, uint64_t epoch)
{
    struct ps_route *route = &client->routes[shard];
    if (address[0] == '\0')
        epoch = 0;
    if (route->epoch == epoch && strcmp(route->address, address) == 0)
        return true;
    if (!client->channel.route(client->channel.self, shard, epoch == 0 ? NULL : address))
        return false;
    route->epoch = epoch;
    snprintf(route->address, sizeof route->address, "%s", address);
    route->number = epoch == 0 ? 0 : ++client->route_number;
    ps_engine_member(client->engine, shard, route->number);
    return true;
}

static void follow_members(struct psclient *client)
{
    if (client->follower == NULL)
        return;
    bool fresh = ps_follower_take(client->follower, &client->members);
    if (!fresh && !client->members_pending)
        return;
    client->members_pending = false;
    uint32_t count = client->members.shard_count;
    for (uint32_t i = 0; i < client->shard_count && i < count; i++) {
        const struct ps_member *row = &client->members.rows[i];
        if (!ps_client_route(client, i, row->address, row->epoch))
            client->members_pending = true;
    }
}
