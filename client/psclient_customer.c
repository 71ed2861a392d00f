/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient: customers, their groups and barriers. What is asked is in psclient_kv_worker.c and
 * psclient_simple_app.c, how a request goes in program_customer.c.
 *
 * A customer is cheap: a table of what is open, a line for each server, and no thread before the
 * first callback. ps-lite has a thread for each, and a process with many customers spends its
 * time in handing messages from one thread to the next; here whoever waits does the work of all,
 * as for every other call of the client.
 */
#include "client/psclient_program.h"

#include "base/assert.h"
#include "base/hash.h"
#include "base/random.h"
#include "client/program_customer.h"
#include "client/program_place.h"
#include "client/psclient.h"
#include "client/status_map.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TIMEOUT_MS_DEFAULT 60000

_Static_assert(PS_GROUP_SERVERS == PS_NODE_SERVERS_BIT, "the public header has the same numbers");
_Static_assert(PS_GROUP_WORKERS == PS_NODE_WORKERS_BIT, "the public header has the same numbers");

static enum ps_status make(struct psclient *client, const struct ps_customer_options *options,
                           struct ps_customer **out, struct ps_error *error);
static void destroy(struct ps_customer *customer);
static void give_up(struct ps_customer *customer);

/* No server is asked: a job whose servers are still starting has customers already, whose first
 * requests wait. */
PS_EXPORT int ps_customer_open(struct psclient *client, const struct ps_customer_options *options,
                               struct ps_customer **out, struct psclient_error *error)
{
    const struct ps_customer_options none = {0};
    struct ps_error why = {.status = PS_OK};
    struct ps_customer *customer = NULL;
    enum ps_status status = ps_client_check_process(client, &why);
    if (status == PS_OK)
        status = make(client, options != NULL ? options : &none, &customer, &why);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    *out = customer;
    return ps_client_succeed(error);
}

/* The rank and the number of workers are those of the group, unless the program says others: ranks
 * that a scheduler of its own has given, say. */
static enum ps_status make(struct psclient *client, const struct ps_customer_options *options,
                           struct ps_customer **out, struct ps_error *error)
{
    struct ps_program_place place;
    if (options->app > PS_PROGRAM_APP_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "app %" PRIu32 ": at most %u", options->app,
                       PS_PROGRAM_APP_MAX);
    PS_TRY(ps_program_place_find(client, options->worker, options->workers, &place, error));
    struct ps_customer *made = ps_zeroed(client->memory, sizeof *made);
    if (made == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a customer");
    made->client = client;
    made->app = options->app;
    made->number = options->customer;
    made->rank = place.rank;
    made->worker_count = place.worker_count;
    made->host = place.host;
    made->server_count = client->shard_count;
    /* Every request has an end, also where nobody has said when. */
    made->timeout_ms = options->timeout_ms != 0 ? options->timeout_ms : TIMEOUT_MS_DEFAULT;
    while (made->sender == 0)
        ps_random_system(&made->sender, sizeof made->sender);
    /* A sender of 64 random bits is a new one for each customer: after a restart of this process
     * the order begins anew at every server. */
    ps_mutex_init(&made->lock, PS_RANK_QUEUE);
    ps_condition_init(&made->changed);
    ps_request_tracker_init(&made->tracker, client->memory);
    made->lines = ps_zeroed_array(client->memory, made->server_count, sizeof *made->lines);
    if (made->lines == NULL) {
        destroy(made);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a customer");
    }
    *out = made;
    return PS_OK;
}

/* Nothing is on its way any more. */
static void destroy(struct ps_customer *customer)
{
    ps_request_tracker_fini(&customer->tracker);
    ps_condition_fini(&customer->changed);
    ps_mutex_fini(&customer->lock);
    ps_release(customer->client->memory, customer->lines);
    ps_release(customer->client->memory, customer);
}

/* In a forked child nothing can be ended: the thread of the callbacks and the locks are the
 * parent's, and memory that is left there is the child's smallest problem. */
PS_EXPORT int ps_customer_close(struct ps_customer *customer, struct psclient_error *error)
{
    struct ps_error why;
    if (customer == NULL)
        return ps_client_succeed(error);
    if (ps_client_check_process(customer->client, &why) != PS_OK)
        return ps_client_fail(error, why.status, why.text);
    ps_mutex_lock(&customer->lock);
    bool is_caller = ps_asking_is_caller(customer);
    ps_mutex_unlock(&customer->lock);
    if (is_caller)
        return ps_client_fail(error, PS_ERR_INTERNAL, "a callback cannot close its customer");
    /* From here on nothing is begun by other threads; callbacks may still begin requests, which
     * are given up as well. */
    give_up(customer);
    ps_asking_stop_callbacks(customer);
    ps_asking_collect(customer);
    PS_ASSERT(customer->open == NULL);
    PS_ASSERT(customer->over == NULL);
    destroy(customer);
    return ps_client_succeed(error);
}

/* One after another, from the front: a callback that runs meanwhile may begin another request,
 * which is given up like the rest. Waiting needs no deadline, since a batch that is cancelled ends
 * as soon as the channel has let go of it. */
static void give_up(struct ps_customer *customer)
{
    for (;;) {
        ps_mutex_lock(&customer->lock);
        customer->is_closing = true;
        struct ps_asked *asked = customer->open;
        /* So that nobody collects it before this thread has looked. */
        if (asked != NULL)
            asked->waiters++;
        ps_mutex_unlock(&customer->lock);
        /* Nothing is open any more, and what is over is collected by the caller. */
        if (asked == NULL)
            return;
        /* As if its time were over now: its callback hears that nobody can say what became of
         * it. */
        ps_client_cancel(customer->client, &asked->job);
        (void)ps_client_await(customer->client, &asked->job, true, PS_DEADLINE_NEVER);
        ps_mutex_lock(&customer->lock);
        asked->waiters--;
        ps_mutex_unlock(&customer->lock);
    }
}

/* What does not change as long as the customer lives is read without a lock, here and below. */
PS_EXPORT uint32_t ps_customer_rank(const struct ps_customer *customer)
{
    return customer->rank;
}

/* As it was said when the customer was opened: a worker that joins later is none of a group whose
 * barriers have begun. */
PS_EXPORT uint32_t ps_customer_worker_count(const struct ps_customer *customer)
{
    return customer->worker_count;
}

/* Shards never change in number, whichever servers have them. */
PS_EXPORT uint32_t ps_customer_server_count(const struct ps_customer *customer)
{
    return customer->server_count;
}

/* The deadline is made here, once: everything below counts down to the same moment, whatever it
 * waits for first. */
PS_EXPORT int ps_customer_wait(struct ps_customer *customer, int64_t timestamp, uint64_t timeout_ms,
                               struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    enum ps_status status = ps_asking_await(
        customer, timestamp, ps_deadline_after(customer->client->clock, timeout_ms), &why);
    return status == PS_OK ? ps_client_succeed(error) : ps_client_fail(error, status, why.text);
}

/* Answers that have come are counted when somebody drives the client, here for a moment. */
PS_EXPORT size_t ps_customer_responses(struct ps_customer *customer, int64_t timestamp)
{
    struct psclient *client = customer->client;
    if (ps_process_mark_is_child(&client->mark))
        return 0;
    ps_mutex_lock(&client->mutex);
    if (!client->led)
        ps_client_pump(client);
    ps_mutex_unlock(&client->mutex);
    ps_mutex_lock(&customer->lock);
    size_t count = ps_request_tracker_responses(&customer->tracker, timestamp);
    ps_mutex_unlock(&customer->lock);
    return count;
}

/* Asked by whoever owns memory that a request has borrowed, and by nobody who only waits. */
PS_EXPORT int ps_customer_is_open(struct ps_customer *customer, int64_t timestamp)
{
    if (ps_process_mark_is_child(&customer->client->mark))
        return 0;
    ps_mutex_lock(&customer->lock);
    const struct ps_asked *asked = ps_request_tracker_owner(&customer->tracker, timestamp);
    /* What the callback gets is borrowed, too, until the callback has it. */
    bool is_called =
        asked != NULL && (asked->is_called || (asked->is_calling && ps_asking_is_caller(customer)));
    bool is_open = asked != NULL && !(asked->is_over && is_called);
    ps_mutex_unlock(&customer->lock);
    return is_open ? 1 : 0;
}

/* What is over is collected first, so that the number falls without a wait. */
PS_EXPORT size_t ps_customer_open_count(struct ps_customer *customer)
{
    if (ps_process_mark_is_child(&customer->client->mark))
        return 0;
    ps_asking_collect(customer);
    ps_mutex_lock(&customer->lock);
    size_t count = ps_request_tracker_open_count(&customer->tracker);
    ps_mutex_unlock(&customer->lock);
    return count;
}

/* Rounds are counted here, for each group: the next barrier is another one, also when this one has
 * failed and some of the others have not noticed. */
PS_EXPORT int ps_customer_barrier(struct ps_customer *customer, uint32_t group, uint64_t timeout_ms,
                                  struct psclient_error *error)
{
    if ((group & PS_GROUP_WORKERS) == 0 || group > PS_GROUP_ALL)
        return ps_client_fail(error, PS_ERR_BAD_INPUT, "a worker is not in that group");
    ps_mutex_lock(&customer->lock);
    /* Of each group by itself, since others of the job may not be in both. */
    uint64_t round = ++customer->barriers[group];
    ps_mutex_unlock(&customer->lock);
    const struct ps_program_barrier barrier = {.app = customer->app,
                                               .group = group,
                                               .round = round,
                                               .worker_count = customer->worker_count,
                                               .member = customer->rank};
    return ps_program_place_meet(customer->client, &barrier, timeout_ms, error);
}

/* The customer ends in any case. A worker whose barrier failed has nothing better to do than to
 * go, and the error that the caller sees is the first one. */
PS_EXPORT int ps_customer_finalize(struct ps_customer *customer, uint64_t timeout_ms,
                                   struct psclient_error *error)
{
    int met = ps_customer_barrier(customer, PS_GROUP_WORKERS, timeout_ms, error);
    int closed = ps_customer_close(customer, met == PSCLIENT_OK ? error : NULL);
    return met == PSCLIENT_OK ? closed : met;
}
