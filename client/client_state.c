/* The loop in which waiting callers drive the engine. */
#include "client/client_state.h"

#include "base/assert.h"

#include <stdio.h>
#include <string.h>

static void follow_members(struct psclient *client);
static bool take_outcomes(struct psclient *client);
static bool act(struct psclient *client, const struct ps_batch *mine);
static void wait_for(struct psclient *client, const struct ps_batch *batch);
static void lead(struct psclient *client, uint64_t timeout_ms);
static void join_waiters(struct psclient *client, struct ps_client_waiter *waiter);
static void leave_waiters(struct psclient *client, struct ps_client_waiter *waiter);
static void wake_waiter_of(struct psclient *client, const struct ps_batch *batch);

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
    if (status == PS_OK) {
        wait_for(client, batch);
        ps_engine_end(client->engine, batch);
    }
    ps_mutex_unlock(&client->mutex);
    return status;
}

/* Returns when the batch is finished. Under the mutex, but for the waiting. */
static void wait_for(struct psclient *client, const struct ps_batch *batch)
{
    struct ps_client_waiter waiter = {.batch = batch};
    ps_condition_init(&waiter.woken);
    join_waiters(client, &waiter);
    for (;;) {
        pump(client, batch);
        if (ps_batch_is_finished(batch))
            break;
        uint64_t wake_ms = ps_engine_wake_ms(client->engine);
        uint64_t wait_ms = PS_DEADLINE_NEVER;
        if (wake_ms != PS_DEADLINE_NEVER)
            wait_ms = ps_time_left_ms(client->clock, wake_ms);
        if (!client->led)
            lead(client, wait_ms);
        else
            (void)ps_condition_wait(&waiter.woken, &client->mutex, wait_ms);
    }
    leave_waiters(client, &waiter);
    ps_condition_fini(&waiter.woken);
}

static void lead(struct psclient *client, uint64_t timeout_ms)
{
    client->led = true;
    ps_mutex_unlock(&client->mutex);
    client->channel.poll(client->channel.self, timeout_ms);
    ps_mutex_lock(&client->mutex);
    client->led = false;
}

static void join_waiters(struct psclient *client, struct ps_client_waiter *waiter)
{
    waiter->after = client->waiters;
    if (waiter->after != NULL)
        waiter->after->before = waiter;
    client->waiters = waiter;
}

/* Whoever leaves while nobody leads hands the lead on. */
static void leave_waiters(struct psclient *client, struct ps_client_waiter *waiter)
{
    if (waiter->before != NULL)
        waiter->before->after = waiter->after;
    else
        client->waiters = waiter->after;
    if (waiter->after != NULL)
        waiter->after->before = waiter->before;
    if (!client->led && client->waiters != NULL)
        ps_condition_signal_all(&client->waiters->woken);
}

static void wake_waiter_of(struct psclient *client, const struct ps_batch *batch)
{
    for (struct ps_client_waiter *it = client->waiters; it != NULL; it = it->after) {
        if (it->batch == batch)
            ps_condition_signal_all(&it->woken);
    }
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
                wake_waiter_of(client, action.batch);
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
