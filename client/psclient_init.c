/* libpsclient: initialisation. Exactly one trainer of a job gives the servers their parameters:
 * with etcd the trainer that holds the lock, without etcd whoever finds a server uninitialised. */
#include "client/psclient.h"

#include "client/answers.h"
#include "client/client_state.h"
#include "client/engine/init_epoch.h"
#include "client/status_map.h"

#include <string.h>

/* A server that is still loading is asked again after this long. */
#define LOADING_PAUSE_MS 100

static enum ps_status begin_with_lock(struct psclient *client, uint64_t deadline_ms, bool *selected,
                                      struct ps_error *error);
static enum ps_status begin_without_lock(struct psclient *client, uint64_t deadline_ms,
                                         bool *selected, struct ps_error *error);
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
    if (client->etcd != NULL)
        status = begin_with_lock(client, deadline_ms, &ours, &why);
    else
        status = begin_without_lock(client, deadline_ms, &ours, &why);
    if (status == PS_OK && ours)
        forget_epochs(client);
    leave_initialising(client);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    *selected = ours ? 1 : 0;
    return ps_client_succeed(error);
}

/* The store is opened once, and kept for finish: the lock belongs to its lease. */
static enum ps_status begin_with_lock(struct psclient *client, uint64_t deadline_ms, bool *selected,
                                      struct ps_error *error)
{
    if (client->initialiser.kv == NULL) {
        struct ps_kv *kv;
        PS_TRY(ps_client_open_store(client, &kv, error));
        enum ps_status status = ps_initialiser_init(&client->initialiser, kv, client->job,
                                                    client->lock_ttl_ms, client->clock, error);
        if (status != PS_OK) {
            ps_kv_destroy(kv);
            return status;
        }
    }
    return ps_initialiser_begin(&client->initialiser, deadline_ms, selected, error);
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

/* Without a lock the servers' own states say whether somebody has initialised them (B30). */
static enum ps_status begin_without_lock(struct psclient *client, uint64_t deadline_ms,
                                         bool *selected, struct ps_error *error)
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
        if (ps_time_left_ms(client->clock, deadline_ms) == 0) {
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
    if (client->etcd != NULL)
        status = finish_with_lock(client, deadline_ms, &why);
    else
        status = finish_shards(client, deadline_ms, &why);
    leave_initialising(client);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
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
    } while (status == PS_ERR_CONFLICT && ps_time_left_ms(client->clock, deadline_ms) > 0);
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
