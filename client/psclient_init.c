/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient: initialisation. Exactly one trainer of a job gives the servers their parameters:
 * the trainer that holds the lock, in etcd or at the servers. */
#include "client/psclient.h"

#include "client/answers.h"
#include "client/client_state.h"
#include "client/engine/init_epoch.h"
#include "client/init_by_servers.h"
#include "client/status_map.h"

#include <string.h>

/* A server that is still loading is asked again after this long. */
#define LOADING_PAUSE_MS 100

static enum ps_status begin_with_lock(struct psclient *client, uint64_t deadline_ms, bool *selected,
                                      struct ps_error *error);
static enum ps_status begin_in_list(struct psclient *client, uint64_t deadline_ms, bool *selected,
                                    struct ps_error *error);
static enum ps_status look_at_states(struct psclient *client, uint64_t deadline_ms, bool *selected,
                                     struct ps_error *error);
static enum ps_status finish_with_lock(struct psclient *client, uint64_t deadline_ms,
                                       struct ps_error *error);
static enum ps_status finish_shards(struct psclient *client, uint64_t deadline_ms,
                                    struct ps_error *error);

/* One thread at a time. */
static enum ps_status enter_initialising(struct psclient *client, struct ps_error *error)
{
    PS_TRY(ps_client_check_process(client, error));
    ps_mutex_lock(&client->mutex);
    bool busy = client->initialising;
    client->initialising = true;
    if (!busy)
        atomic_store(&client->init_cancelled, false);
    ps_mutex_unlock(&client->mutex);
    if (busy)
        return ps_fail(error, PS_ERR_INTERNAL, "another thread of this client is initialising");
    return PS_OK;
}

/* Whatever came of it: the next attempt may be another thread's. */
static void leave_initialising(struct psclient *client)
{
    ps_mutex_lock(&client->mutex);
    client->initialising = false;
    ps_mutex_unlock(&client->mutex);
}

static void forget_epochs(struct psclient *client)
{
    ps_mutex_lock(&client->mutex);
    ps_init_epochs_begin(client->init_epochs, client->shard_count);
    ps_mutex_unlock(&client->mutex);
}

/* After a cancellation its consequences are no reasons. */
static int fail_init(struct psclient *client, enum ps_status status, const struct ps_error *why,
                     struct psclient_error *error)
{
    if (atomic_load(&client->init_cancelled))
        return ps_client_fail(error, PS_ERR_UNAVAILABLE, "the initialisation was cancelled");
    return ps_client_fail(error, status, why->text);
}

/* Epochs of an earlier attempt are forgotten by whoever is selected: each server tells its own
 * again with its answer to psclient_init. */
PS_EXPORT int psclient_begin_init(struct psclient *client, uint64_t timeout_ms, int *selected,
                                  struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    uint64_t deadline_ms = ps_deadline_after(client->clock, timeout_ms);
    enum ps_status status = enter_initialising(client, &why);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    bool ours = false;
    if (client->is_list)
        status = begin_in_list(client, deadline_ms, &ours, &why);
    else
        status = begin_with_lock(client, deadline_ms, &ours, &why);
    if (status == PS_OK && ours)
        forget_epochs(client);
    leave_initialising(client);
    if (status != PS_OK)
        return fail_init(client, status, &why, error);
    *selected = ours ? 1 : 0;
    return ps_client_succeed(error);
}

/* The way is opened once, and kept for finish: the lock belongs to it. */
static enum ps_status open_way(struct psclient *client, struct ps_error *error)
{
    /* A lock that was taken through one way is unknown to another. */
    struct ps_init_way way;
    if (client->initialiser.way.self != NULL)
        return PS_OK;
    if (client->etcd == NULL) {
        PS_TRY(ps_init_by_servers(client, client->lock_ttl_ms, &way, error));
    } else {
        struct ps_kv *kv;
        PS_TRY(ps_client_open_store(client, &kv, error));
        enum ps_status status = ps_init_by_store(kv, client->job, client->lock_ttl_ms,
                                                 client->clock, client->memory, &way, error);
        if (status != PS_OK) {
            ps_kv_destroy(kv);
            return status;
        }
    }
    ps_initialiser_init(&client->initialiser, &way, client->lock_ttl_ms, client->clock);
    client->initialiser.is_cancelled = &client->init_cancelled;
    ps_mutex_lock(&client->mutex);
    client->has_init_way = true;
    ps_mutex_unlock(&client->mutex);
    return PS_OK;
}

/* The initialiser keeps the lock from here on, by a thread of its own, until finish or close. */
static enum ps_status begin_with_lock(struct psclient *client, uint64_t deadline_ms, bool *selected,
                                      struct ps_error *error)
{
    PS_TRY(open_way(client, error));
    return ps_initialiser_begin(&client->initialiser, deadline_ms, selected, error);
}

/* Servers of a list may each be a job of their own: their states say whether somebody has
 * initialised them all, and the first of them has the lock. An older one has none, and then every
 * caller is selected; so it is when the first is initialised and another is not, since its lock is
 * no use then. */
static enum ps_status begin_in_list(struct psclient *client, uint64_t deadline_ms, bool *selected,
                                    struct ps_error *error)
{
    /* The states come first: they cost one round, and most callers find everything initialised. */
    bool has_lock = false;
    PS_TRY(look_at_states(client, deadline_ms, selected, error));
    if (!*selected)
        return PS_OK;
    enum ps_status status = begin_with_lock(client, deadline_ms, &has_lock, error);
    if (status == PS_ERR_UNSUPPORTED || (status == PS_OK && has_lock))
        return PS_OK;
    return status == PS_OK ? look_at_states(client, deadline_ms, selected, error) : status;
}

/* Asks every server for its state. */
static enum ps_status ask_states(struct psclient *client, struct psclient_server_status *states,
                                 uint64_t deadline_ms, struct ps_error *error)
{
    struct ps_item *items =
        ps_zeroed_array(client->memory, client->shard_count, sizeof(struct ps_item));
    if (items == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to ask the servers");
    for (uint32_t i = 0; i < client->shard_count; i++) {
        items[i].shard = i;
        items[i].answer = ps_answer_server(&states[i]);
    }
    const struct ps_batch_request request = {.method = PS_METHOD_STATUS,
                                             .items = items,
                                             .item_count = client->shard_count,
                                             .deadline_ms = deadline_ms};
    enum ps_status status = ps_client_run(client, &request, error);
    for (uint32_t i = 0; status == PS_OK && i < client->shard_count; i++) {
        status = items[i].status;
        if (status != PS_OK)
            ps_fail(error, status, "shard %u: %s", i, items[i].text);
    }
    ps_release(client->memory, items);
    return status;
}

/* The servers' own states say whether somebody has initialised them (B30). */
static enum ps_status look_at_states(struct psclient *client, uint64_t deadline_ms, bool *selected,
                                     struct ps_error *error)
{
    struct psclient_server_status *states =
        ps_zeroed_array(client->memory, client->shard_count, sizeof *states);
    if (states == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to ask the servers");
    enum ps_status status;
    for (;;) {
        bool starting = false;
        *selected = false;
        status = ask_states(client, states, deadline_ms, error);
        for (uint32_t i = 0; status == PS_OK && i < client->shard_count; i++) {
            starting = starting || strcmp(states[i].state, "starting") == 0;
            *selected = *selected || strcmp(states[i].state, "uninitialized") == 0;
        }
        if (status != PS_OK || !starting)
            break;
        if (ps_time_left_ms(client->clock, deadline_ms) == 0 ||
            atomic_load(&client->init_cancelled)) {
            status = ps_fail(error, PS_ERR_UNAVAILABLE, "a server is still loading");
            break;
        }
        ps_wake_wait(&client->wake, ps_wake_count(&client->wake), LOADING_PAUSE_MS);
    }
    ps_release(client->memory, states);
    return status;
}

PS_EXPORT int psclient_finish_init(struct psclient *client, uint64_t timeout_ms,
                                   struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    uint64_t deadline_ms = ps_deadline_after(client->clock, timeout_ms);
    enum ps_status status = enter_initialising(client, &why);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    if (client->is_list && !client->initialiser.holding)
        status = finish_shards(client, deadline_ms, &why);
    else
        status = finish_with_lock(client, deadline_ms, &why);
    leave_initialising(client);
    if (status != PS_OK)
        return fail_init(client, status, &why, error);
    return ps_client_succeed(error);
}

/* A trainer that has lost the lock may not finish: another may be giving parameters. When a server
 * has begun without any state meanwhile, its answer to another finish says whether it had been
 * given any. */
static enum ps_status finish_with_lock(struct psclient *client, uint64_t deadline_ms,
                                       struct ps_error *error)
{
    enum ps_status status;
    do {
        PS_TRY(ps_initialiser_prepare(&client->initialiser, deadline_ms, error));
        PS_TRY(finish_shards(client, deadline_ms, error));
        status = ps_initialiser_finish(&client->initialiser, deadline_ms, error);
    } while (status == PS_ERR_CONFLICT && ps_time_left_ms(client->clock, deadline_ms) > 0 &&
             !atomic_load(&client->init_cancelled));
    return status;
}

/* The epochs say under which each server took the parameters: one that was replaced since then
 * refuses. */
static enum ps_status finish_shards(struct psclient *client, uint64_t deadline_ms,
                                    struct ps_error *error)
{
    struct ps_item *items =
        ps_zeroed_array(client->memory, client->shard_count, sizeof(struct ps_item));
    if (items == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to finish the servers");
    for (uint32_t i = 0; i < client->shard_count; i++)
        items[i].shard = i;
    const struct ps_batch_request request = {.method = PS_METHOD_FINISH,
                                             .items = items,
                                             .item_count = client->shard_count,
                                             .deadline_ms = deadline_ms,
                                             .init_epochs = client->init_epochs};
    enum ps_status status = ps_client_run(client, &request, error);
    for (uint32_t i = 0; status == PS_OK && i < client->shard_count; i++) {
        status = items[i].status;
        if (status == PS_ERR_STALE_EPOCH)
            ps_fail(error, status,
                    "shard %u has lost what it was given: call psclient_init for every parameter "
                    "again, then psclient_finish_init",
                    i);
        else if (status != PS_OK)
            ps_fail(error, status, "shard %u: %s", i, items[i].text);
    }
    ps_release(client->memory, items);
    return status;
}
