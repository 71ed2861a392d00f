/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient: initialisation. Exactly one trainer of a job gives the servers their parameters:
 * the trainer that holds the lock, in etcd or at the servers. */
#include "client/psclient.h"

#include "client/answers.h"
#include "client/client_state.h"
#include "client/engine/init_epoch.h"
#include "client/init_by_servers.h"
#include "client/job_placement.h"
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
static enum ps_status say_how_to_go_on(const struct psclient *client, enum ps_status status,
                                       struct ps_error *error);
static enum ps_status finish_shards(struct psclient *client, uint64_t deadline_ms,
                                    struct ps_error *error);

/* A cancellation is of whoever is inside at that time: the next begins without one. */
static bool try_to_enter(struct psclient *client)
{
    ps_mutex_lock(&client->mutex);
    bool busy = client->initialising;
    client->initialising = true;
    if (!busy)
        atomic_store(&client->init_cancelled, false);
    ps_mutex_unlock(&client->mutex);
    return !busy;
}

/* The count is read before the look: a thread that leaves in between is not missed. */
enum ps_status ps_client_enter_initialising(struct psclient *client, uint64_t deadline_ms,
                                            struct ps_error *error)
{
    PS_TRY(ps_client_check_process(client, error));
    for (;;) {
        uint64_t seen = ps_wake_count(&client->wake);
        if (try_to_enter(client))
            return PS_OK;
        uint64_t left_ms = ps_time_left_ms(client->clock, deadline_ms);
        if (left_ms == 0)
            return ps_fail(error, PS_ERR_INTERNAL, "another thread of this client is initialising");
        ps_wake_wait(&client->wake, seen, left_ms);
    }
}

/* Whatever came of it: the next attempt may be another thread's. */
void ps_client_leave_initialising(struct psclient *client)
{
    ps_mutex_lock(&client->mutex);
    client->initialising = false;
    ps_mutex_unlock(&client->mutex);
    ps_wake_all(&client->wake);
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
    enum ps_status status = ps_client_enter_initialising(client, 0, &why);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    bool ours = false;
    if (client->is_list)
        status = begin_in_list(client, deadline_ms, &ours, &why);
    else
        status = begin_with_lock(client, deadline_ms, &ours, &why);
    if (status == PS_OK && ours)
        forget_epochs(client);
    ps_client_leave_initialising(client);
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
    PS_TRY(ps_initialiser_begin(&client->initialiser, deadline_ms, selected, error));
    /* Selected or not: the first batch of either is placed by it. */
    ps_mutex_lock(&client->mutex);
    ps_client_place(client, client->initialiser.placement);
    ps_mutex_unlock(&client->mutex);
    return PS_OK;
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

/* Until no server is loading: what it will be is not known before. */
static enum ps_status await_states(struct psclient *client, struct psclient_server_status *states,
                                   uint64_t deadline_ms, struct ps_error *error)
{
    for (;;) {
        bool starting = false;
        PS_TRY(ask_states(client, states, deadline_ms, error));
        for (uint32_t i = 0; i < client->shard_count; i++)
            starting = starting || strcmp(states[i].state, "starting") == 0;
        if (!starting)
            return PS_OK;
        if (ps_time_left_ms(client->clock, deadline_ms) == 0 ||
            atomic_load(&client->init_cancelled))
            return ps_fail(error, PS_ERR_UNAVAILABLE, "a server is still loading");
        ps_wake_wait(&client->wake, ps_wake_count(&client->wake), LOADING_PAUSE_MS);
    }
}

/* The first shard whose state is one that `is_it` looks for; the number of shards: none. */
static enum ps_status find_state(struct psclient *client, uint64_t deadline_ms,
                                 bool (*is_it)(const struct psclient_server_status *state),
                                 uint32_t *shard, struct ps_error *error)
{
    struct psclient_server_status *states =
        ps_zeroed_array(client->memory, client->shard_count, sizeof *states);
    if (states == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to ask the servers");
    enum ps_status status = await_states(client, states, deadline_ms, error);
    uint32_t i = 0;
    while (status == PS_OK && i < client->shard_count && !is_it(&states[i]))
        i++;
    *shard = i;
    ps_release(client->memory, states);
    return status;
}

/* The word that servers say of themselves in their status. */
static bool is_uninitialized(const struct psclient_server_status *state)
{
    return strcmp(state->state, "uninitialized") == 0;
}

/* An older client that has died in the middle may have left parameters that nobody has finished. */
static bool is_begun(const struct psclient_server_status *state)
{
    return !is_uninitialized(state) || state->parameter_count > 0;
}

/* Asked before anything is decided for the whole job: what one shard has counts for all. */
enum ps_status ps_client_find_begun(struct psclient *client, uint64_t deadline_ms, uint32_t *shard,
                                    struct ps_error *error)
{
    return find_state(client, deadline_ms, is_begun, shard, error);
}

/* One question, which an operator's call asks as well. */
enum ps_status ps_client_ask_ready(struct psclient *client, uint32_t shard, uint64_t deadline_ms,
                                   bool *is_ready, struct ps_error *error)
{
    struct psclient_server_status state;
    struct ps_item item = {.shard = shard, .answer = ps_answer_server(&state)};
    const struct ps_batch_request request = {
        .method = PS_METHOD_STATUS, .items = &item, .item_count = 1, .deadline_ms = deadline_ms};
    PS_TRY(ps_client_run(client, &request, error));
    if (item.status != PS_OK)
        return ps_fail(error, item.status, "shard %u: %s", shard, item.text);
    *is_ready = strcmp(state.state, "ready") == 0;
    return PS_OK;
}

/* The servers' own states say whether somebody has initialised them (B30). */
static enum ps_status look_at_states(struct psclient *client, uint64_t deadline_ms, bool *selected,
                                     struct ps_error *error)
{
    uint32_t shard = 0;
    PS_TRY(find_state(client, deadline_ms, is_uninitialized, &shard, error));
    *selected = shard < client->shard_count;
    return PS_OK;
}

PS_EXPORT int psclient_finish_init(struct psclient *client, uint64_t timeout_ms,
                                   struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    uint64_t deadline_ms = ps_deadline_after(client->clock, timeout_ms);
    enum ps_status status = ps_client_enter_initialising(client, 0, &why);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    if (client->is_list && !client->initialiser.holding)
        status = finish_shards(client, deadline_ms, &why);
    else
        status = finish_with_lock(client, deadline_ms, &why);
    ps_client_leave_initialising(client);
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
        status = ps_initialiser_prepare(&client->initialiser, deadline_ms, error);
        PS_TRY(say_how_to_go_on(client, status, error));
        PS_TRY(finish_shards(client, deadline_ms, error));
        status = ps_initialiser_finish(&client->initialiser, deadline_ms, error);
    } while (status == PS_ERR_CONFLICT && ps_time_left_ms(client->clock, deadline_ms) > 0 &&
             !atomic_load(&client->init_cancelled));
    return say_how_to_go_on(client, status, error);
}

/* A right is lost by silence alone, so that the time is what somebody who reads this wants to
 * know: a process that is stopped for longer is followed by another trainer. */
static enum ps_status say_how_to_go_on(const struct psclient *client, enum ps_status status,
                                       struct ps_error *error)
{
    if (status != PS_ERR_STALE_EPOCH)
        return status;
    return ps_fail(error, status,
                   "no longer the owner of the lock, which passes on when nobody keeps it for %llu "
                   "ms: go on from psclient_begin_init",
                   (unsigned long long)client->lock_ttl_ms);
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
