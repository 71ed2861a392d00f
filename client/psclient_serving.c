/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient: batched serving. Its beginning and end, for both sides; what workers do is in
 * serving_worker.c, what server programs do in serving_taker.c and serving_answer.c.
 *
 * A server program is a process of its own that takes from the mailbox of its app at one server. It
 * may die at any time: its place is kept by a thread that says so often that it lives, whatever the
 * program's own threads compute meanwhile, and whoever waits for what it had taken is told when
 * that word stays away. Its workers need not know where it runs; they ask the server.
 *
 * StepMesh has one process for both, and one thread that spins: a worker that is dead stops the
 * server's get_batch for ever there, at the full load of a processor. Here a take is a call that
 * waits at the server, costs nothing meanwhile, and ends at its time. */
#include "client/psclient_serving.h"

#include "base/assert.h"
#include "base/random.h"
#include "client/program_place.h"
#include "client/programs/program_nodes.h"
#include "client/psclient.h"
#include "client/serving_state.h"
#include "client/status_map.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    LEASE_MS_DEFAULT = 10000,
    LEAVE_MS = 2000 /* most for saying that the program goes */
};

static enum ps_status make(struct psclient *client, const struct ps_serving_options *options,
                           struct ps_serving **out, struct ps_error *error);
static void destroy(struct ps_serving *serving);
static enum ps_status make_worker(struct ps_serving *serving,
                                  const struct ps_serving_options *options, struct ps_error *error);
static enum ps_status make_program(struct ps_serving *serving,
                                   const struct ps_serving_options *options,
                                   struct ps_error *error);
static void keep_place(void *argument);
static void stop_program(struct ps_serving *serving);

/* Nothing is asked of a server before this returns: a program may be started before its server,
 * and a worker before both. */
PS_EXPORT int ps_serving_init(struct psclient *client, const struct ps_serving_options *options,
                              struct ps_serving **out, struct psclient_error *error)
{
    const struct ps_serving_options none = {0};
    struct ps_error why = {.status = PS_OK};
    struct ps_serving *serving = NULL;
    enum ps_status status = ps_client_check_process(client, &why);
    if (status == PS_OK)
        status = make(client, options != NULL ? options : &none, &serving, &why);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    *out = serving;
    return ps_client_succeed(error);
}

/* On failure there is none. */
static enum ps_status make(struct psclient *client, const struct ps_serving_options *options,
                           struct ps_serving **out, struct ps_error *error)
{
    struct ps_program_place place;
    bool is_worker = options->role == PS_SERVING_WORKER;
    if (options->app > PS_PROGRAM_APP_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "app %" PRIu32 ": at most %u", options->app,
                       PS_PROGRAM_APP_MAX);
    PS_TRY(ps_program_place_find(client, is_worker ? options->rank : 0, options->workers, &place,
                                 error));
    struct ps_serving *made = ps_zeroed(client->memory, sizeof *made);
    if (made == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for serving");
    made->client = client;
    made->role = options->role;
    made->worker_count = place.worker_count;
    made->server_count = client->shard_count;
    /* Stamps of two processes are compared only when this number is the same in both. */
    made->host = place.host;
    ps_mutex_init(&made->lock, PS_RANK_QUEUE);
    ps_condition_init(&made->changed);
    enum ps_status status =
        is_worker ? make_worker(made, options, error) : make_program(made, options, error);
    if (status != PS_OK) {
        destroy(made);
        return status;
    }
    *out = made;
    return PS_OK;
}

/* A worker of batched serving is a customer whose requests are batches of tensors. */
static enum ps_status make_worker(struct ps_serving *serving,
                                  const struct ps_serving_options *options, struct ps_error *error)
{
    struct psclient_error why;
    const struct ps_customer_options customer = {.app = options->app,
                                                 .worker = options->rank,
                                                 .workers = options->workers,
                                                 .timeout_ms = options->timeout_ms};
    if (ps_customer_open(serving->client, &customer, &serving->customer, &why) != PSCLIENT_OK)
        return ps_fail(error, PS_ERR_NO_MEMORY, "%s", why.text);
    return PS_OK;
}

/* The thread tells the server from the first moment on that there is a program: requests that wait
 * for one have somebody to wait for. */
static enum ps_status make_program(struct ps_serving *serving,
                                   const struct ps_serving_options *options, struct ps_error *error)
{
    /* A server's own mailbox, unless a worker's is named. */
    struct ps_program_node node = {.rank = options->rank};
    if (options->worker_node != 0)
        node = (struct ps_program_node){.is_worker = true, .rank = options->worker_node - 1};
    if (options->role != PS_SERVING_SERVER)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%d is not a role", (int)options->role);
    if (node.rank > PS_PROGRAM_RANK_MAX || (!node.is_worker && node.rank >= serving->server_count))
        return ps_fail(error, PS_ERR_BAD_INPUT, "there is no node of rank %" PRIu32, node.rank);
    serving->rank = node.rank;
    serving->mailbox = ps_program_mailbox(options->app, node);
    serving->shard = ps_program_mailbox_shard(node, serving->server_count);
    serving->lease_ms = options->lease_ms != 0 ? options->lease_ms : LEASE_MS_DEFAULT;
    serving->again = options->again != 0;
    /* Turns are counted from 1: 0 is no turn on the wire. */
    serving->turn = 1;
    if (options->name != NULL)
        (void)snprintf(serving->name, sizeof serving->name, "%s", options->name);
    while (serving->taker == 0)
        ps_random_system(&serving->taker, sizeof serving->taker);
    return ps_thread_start(&serving->thread, "ps-serving", keep_place, serving, error);
}

/* Every third of the lease. A word that does not come through is not repeated for longer than that:
 * the next one says the same. */
static void keep_place(void *argument)
{
    struct ps_serving *serving = argument;
    /* Two words may be lost before the lease is. */
    uint64_t pause_ms = serving->lease_ms / 3 + 1;
    ps_mutex_lock(&serving->lock);
    while (!serving->is_closing) {
        ps_mutex_unlock(&serving->lock);
        /* Asked with no lock held: the server may be away for a while. */
        enum ps_status ignored = ps_serving_touch(serving, false, pause_ms, NULL);
        (void)ignored;
        ps_mutex_lock(&serving->lock);
        /* A take that ends wakes this thread, too: it waits for the rest then. */
        uint64_t wake_ms = ps_deadline_after(serving->client->clock, pause_ms);
        uint64_t left_ms = pause_ms;
        while (!serving->is_closing && left_ms > 0) {
            (void)ps_condition_wait(&serving->changed, &serving->lock, left_ms);
            left_ms = ps_time_left_ms(serving->client->clock, wake_ms);
        }
    }
    ps_mutex_unlock(&serving->lock);
}

/* What was not answered fails at once, or is the next program's, without waiting for the lease. */
static void stop_program(struct ps_serving *serving)
{
    ps_mutex_lock(&serving->lock);
    serving->is_closing = true;
    ps_condition_signal_all(&serving->changed);
    ps_mutex_unlock(&serving->lock);
    /* After its last word, so that none comes behind the farewell. */
    ps_thread_join(&serving->thread);
    enum ps_status ignored = ps_serving_touch(serving, true, LEAVE_MS, NULL);
    (void)ignored;
}

/* Requests have been collected, or were never begun. Batches that the program still has are its
 * own to release, before this. */
static void destroy(struct ps_serving *serving)
{
    const struct ps_allocator *memory = serving->client->memory;
    ps_serving_forget_records(serving);
    ps_serving_drop_all_taken(serving);
    ps_release(ps_allocator_heap(), serving->spare);
    ps_release(memory, serving->rooms);
    ps_condition_fini(&serving->changed);
    ps_mutex_fini(&serving->lock);
    ps_release(memory, serving);
}

/* The barrier comes first: a worker that is still waiting has its answer by then. */
PS_EXPORT int ps_serving_stop(struct ps_serving *serving, uint64_t timeout_ms,
                              struct psclient_error *error)
{
    if (serving == NULL)
        return ps_client_succeed(error);
    int result = ps_client_succeed(error);
    if (timeout_ms > 0)
        result = ps_serving_barrier(serving, 1, 1, timeout_ms, error);
    if (serving->customer != NULL) {
        /* Every wait of this worker has returned, so that what is given up here is wanted by
         * nobody. */
        int closed = ps_customer_close(serving->customer, result == PSCLIENT_OK ? error : NULL);
        result = result == PSCLIENT_OK ? closed : result;
    }
    if (serving->role == PS_SERVING_SERVER)
        stop_program(serving);
    destroy(serving);
    return result;
}

/* Workers are the members of the lower numbers, programs those behind them. */
PS_EXPORT int ps_serving_barrier(struct ps_serving *serving, int include_server, int include_worker,
                                 uint64_t timeout_ms, struct psclient_error *error)
{
    bool is_worker = serving->role == PS_SERVING_WORKER;
    uint32_t group =
        (include_server != 0 ? PS_GROUP_SERVERS : 0) | (include_worker != 0 ? PS_GROUP_WORKERS : 0);
    if (is_worker ? include_worker == 0 : include_server == 0)
        return ps_client_fail(error, PS_ERR_BAD_INPUT,
                              "this one's own role is not in that barrier");
    if (is_worker)
        return ps_customer_barrier(serving->customer, group, timeout_ms, error);
    ps_mutex_lock(&serving->lock);
    /* Counted as a worker counts its own. */
    uint64_t round = ++serving->barriers[group];
    ps_mutex_unlock(&serving->lock);
    const struct ps_program_barrier barrier = {
        .app = serving->mailbox,
        .group = group,
        .round = round,
        .worker_count = serving->worker_count,
        .member = (include_worker != 0 ? serving->worker_count : 0) + serving->rank};
    return ps_program_place_meet(serving->client, &barrier, timeout_ms, error);
}
