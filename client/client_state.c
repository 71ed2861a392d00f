/* SPDX-License-Identifier: Apache-2.0 */
/* The loop in which waiting callers drive the engine. The thread that wants an answer polls the
 * channel itself, so that no other thread has to be woken to hand the answer over. Of several that
 * wait one polls at a time, the leader, for all of them; a finished batch wakes the thread that
 * waits for it, and a leader whose own batch is finished hands the lead on.
 *
 * Everything but the polling happens under the mutex: the engine is asked and told by one thread at
 * a time. The engine never calls back; pump asks it for actions until there are none. So no caller
 * can meet the engine in the middle of something, and the simulator, which has a loop of its own,
 * sees the same engine. */
#include "client/client_state.h"

#include "base/assert.h"
#include "client/engine/batch.h"
#include "client/job_placement.h"

#include <stdio.h>
#include <string.h>
#include <utlist.h>

/* How long an interruption goes unheard. */
#define INTERRUPTED_SLICE_MS 50

static bool is_held(struct psclient *client, const struct ps_batch_request *request,
                    const struct ps_client_job *job);
static void hold(struct psclient *client);
static void send_held(void *owner);
static void follow_members(struct psclient *client);
static bool take_outcomes(struct psclient *client);
static bool act(struct psclient *client);
static void claim(struct psclient *client, struct ps_client_job *job);
static void wait_interruptibly(struct psclient *client, struct ps_client_job *job);
static void cancel(struct psclient *client, struct ps_client_job *job);
static void wait_for(struct psclient *client, const struct ps_client_job *job,
                     uint64_t deadline_ms);
static bool has_come(const struct psclient *client, const struct ps_client_job *job);
static void lead(struct psclient *client, uint64_t timeout_ms);
static void join_waiters(struct psclient *client, struct ps_client_waiter *waiter);
static void leave_waiters(struct psclient *client, struct ps_client_waiter *waiter);
static void finish(struct psclient *client, struct ps_client_job *job);
static void take_finished(struct psclient *client, struct ps_client_job *job);

/* Does everything there is to do now. Under the mutex. An action may bring outcomes at once (a send
 * that is refused), and an outcome brings actions: so both are asked until neither has any. */
void ps_client_pump(struct psclient *client)
{
    /* Whatever is held leaves with this: the engine has it already, and its actions are asked for
     * below. */
    if (client->holding.held > 0)
        ps_holding_release(&client->holding, ps_clock_precise_ns());
    follow_members(client);
    ps_engine_tick(client->engine, ps_now_ms(client->clock));
    bool busy = true;
    while (busy) {
        busy = act(client);
        busy = take_outcomes(client) || busy;
    }
}

/* Asked by every public call before it takes a lock. */
enum ps_status ps_client_check_process(const struct psclient *client, struct ps_error *error)
{
    if (!ps_process_mark_is_child(&client->mark))
        return PS_OK;
    return ps_fail(error, PS_ERR_INTERNAL,
                   "this client was opened in another process, before a fork: a child opens one of "
                   "its own");
}

/* A job on the stack: nobody else learns of it, since it is not announced. */
enum ps_status ps_client_run(struct psclient *client, const struct ps_batch_request *request,
                             struct ps_error *error)
{
    struct ps_client_job job = {0};
    PS_TRY(ps_client_begin(client, request, &job, error));
    ps_client_end(client, &job);
    return PS_OK;
}

enum ps_status ps_client_run_one(struct psclient *client, const struct ps_batch_request *request,
                                 struct ps_error *error)
{
    const struct ps_item *item = request->items;
    PS_ASSERT(request->item_count == 1);
    PS_TRY(ps_client_run(client, request, error));
    return item->status == PS_OK ? PS_OK : ps_fail(error, item->status, "%s", item->text);
}

/* The first messages leave before this returns, unless the operation is held: a caller that begins
 * many works while its messages travel. */
enum ps_status ps_client_begin(struct psclient *client, const struct ps_batch_request *request,
                               struct ps_client_job *job, struct ps_error *error)
{
    PS_TRY(ps_client_check_process(client, error));
    struct ps_batch_request owned = *request;
    /* The engine hands the owner back with FINISHED; by it finish finds the waiting thread. */
    owned.owner = job;
    ps_mutex_lock(&client->mutex);
    enum ps_status status =
        ps_engine_start(client->engine, &owned, ps_now_ms(client->clock), &job->batch, error);
    if (status == PS_OK && is_held(client, &owned, job))
        hold(client);
    else if (status == PS_OK)
        ps_client_pump(client);
    if (status == PS_OK && client->event_fd >= 0)
        client->channel.rouse(client->channel.self, ps_engine_wake_ms(client->engine));
    ps_mutex_unlock(&client->mutex);
    return status;
}

/* Does the operation wait for others? While finished ones are to be fetched: holding.h. Not while
 * another thread leads: the leader would come back from polling and send the operation alone.
 * Beside a descriptor (client_events.c) the channel's thread sends what is held with its next turn,
 * if the caller has not come back before. */
static bool is_held(struct psclient *client, const struct ps_batch_request *request,
                    const struct ps_client_job *job)
{
    return job->announced && client->finished != NULL && !client->led &&
           ps_holding_takes(&client->holding, request);
}

/* Should the caller not come back, the channel's thread sends it. The channel is asked once for all
 * operations that are held together. */
static void hold(struct psclient *client)
{
    bool is_first = client->holding.held == 0;
    ps_holding_add(&client->holding, is_first ? ps_clock_precise_ns() : 0);
    if (is_first)
        client->channel.tell_idle(client->channel.self, send_held, client);
}

/* On the channel's thread, which holds no lock of its own here. Between its look and this lock
 * somebody may have sent everything: then there is nothing to do. */
static void send_held(void *owner)
{
    struct psclient *client = owner;
    ps_mutex_lock(&client->mutex);
    if (client->holding.held > 0)
        ps_client_pump(client);
    ps_mutex_unlock(&client->mutex);
}

/* Waits without a deadline, because the batch has one: at its end the engine cancels what is out,
 * and the channel gives an outcome for each call. Only then is the caller's memory not in use any
 * more, which is what this function promises. */
void ps_client_end(struct psclient *client, struct ps_client_job *job)
{
    ps_mutex_lock(&client->mutex);
    claim(client, job);
    if (client->interrupted != NULL)
        wait_interruptibly(client, job);
    wait_for(client, job, PS_DEADLINE_NEVER);
    PS_ASSERT(job->finished);
    const struct ps_batch_request request = job->batch->request;
    uint64_t placed_by = ps_batch_placed_by(job->batch);
    ps_engine_end(client->engine, job->batch);
    ps_mutex_unlock(&client->mutex);
    /* Without the lock, since it may ask a server; the items are the caller's and still there. */
    ps_client_look_elsewhere(client, &request, placed_by);
}

/* In slices, between which the program is asked whether its user wants to wait on. Without the lock
 * then: the program may wait for a lock of its own that another thread holds in a call of this
 * client. Returns when the job is finished, or was cancelled and soon is. */
static void wait_interruptibly(struct psclient *client, struct ps_client_job *job)
{
    for (;;) {
        wait_for(client, job, ps_deadline_after(client->clock, INTERRUPTED_SLICE_MS));
        int (*interrupted)(void *user) = client->interrupted;
        void *user = client->interrupted_user;
        if (job->finished || interrupted == NULL)
            return;
        ps_mutex_unlock(&client->mutex);
        bool is_over = interrupted(user) != 0;
        ps_mutex_lock(&client->mutex);
        if (!is_over)
            continue;
        cancel(client, job);
        return;
    }
}

/* Also with a deadline that is over: then one look is taken, which does what there is to do for all
 * jobs of the client. */
bool ps_client_await(struct psclient *client, struct ps_client_job *job, bool claims,
                     uint64_t deadline_ms)
{
    ps_mutex_lock(&client->mutex);
    if (claims)
        claim(client, job);
    wait_for(client, job, deadline_ms);
    bool is_finished = job->finished;
    ps_mutex_unlock(&client->mutex);
    return is_finished;
}

/* Whoever waits for the job by itself has it for good, and not only while it waits: a thread that
 * was told of the job between two waits would hold one that may be ended at any moment. */
static void claim(struct psclient *client, struct ps_client_job *job)
{
    job->announced = false;
    PS_ASSERT(job->prev == NULL || job->finished);
    if (job->prev != NULL)
        take_finished(client, job);
}

void ps_client_cancel(struct psclient *client, struct ps_client_job *job)
{
    ps_mutex_lock(&client->mutex);
    cancel(client, job);
    ps_mutex_unlock(&client->mutex);
}

/* Calls that are not out end here, without an outcome that would wake the thread that polls: hence
 * the interrupt. */
static void cancel(struct psclient *client, struct ps_client_job *job)
{
    if (job->finished)
        return;
    ps_engine_cancel(client->engine, job->batch);
    ps_client_pump(client);
    if (client->led)
        client->channel.interrupt(client->channel.self);
}

/* Also when nothing has come in time, what was held leaves: the caller goes to other work now, and
 * nobody else would send it. */
struct ps_client_job *ps_client_next(struct psclient *client, uint64_t deadline_ms)
{
    ps_mutex_lock(&client->mutex);
    wait_for(client, NULL, deadline_ms);
    struct ps_client_job *job = client->finished;
    if (job != NULL)
        take_finished(client, job);
    else if (client->holding.held > 0)
        ps_client_pump(client);
    ps_mutex_unlock(&client->mutex);
    return job;
}

/* Returns when the job is finished (NULL: when one that is announced is), or at the deadline. Under
 * the mutex, but for the waiting.
 *
 * Each turn waits until the engine wants to be asked again at the latest: a repetition whose pause
 * is over, or a deadline, is nobody's wake-up. Whoever finds no leader leads; the others sleep,
 * each on a condition of its own, so that a finished batch wakes one thread and not all. */
static void wait_for(struct psclient *client, const struct ps_client_job *job, uint64_t deadline_ms)
{
    if (has_come(client, job))
        return;
    /* The engine has been given what is held, but has not been asked for it yet: it would not go
     * while this thread waits. */
    if (client->holding.held > 0)
        ps_client_pump(client);
    if (has_come(client, job) || ps_client_leaves_it(client, deadline_ms))
        return;
    struct ps_client_waiter waiter = {.job = job};
    ps_condition_init(&waiter.woken);
    join_waiters(client, &waiter);
    for (;;) {
        uint64_t wake_ms = ps_engine_wake_ms(client->engine);
        if (deadline_ms < wake_ms)
            wake_ms = deadline_ms;
        uint64_t wait_ms = PS_DEADLINE_NEVER;
        if (wake_ms != PS_DEADLINE_NEVER)
            wait_ms = ps_time_left_ms(client->clock, wake_ms);
        if (!client->led)
            lead(client, wait_ms);
        else
            (void)ps_condition_wait(&waiter.woken, &client->mutex, wait_ms);
        ps_client_pump(client);
        if (has_come(client, job) || ps_time_left_ms(client->clock, deadline_ms) == 0)
            break;
    }
    /* Off the list before the condition ends: finish signals whoever is on it. */
    leave_waiters(client, &waiter);
    ps_condition_fini(&waiter.woken);
}

/* Asked under the mutex, after everything that may have finished a job. */
static bool has_come(const struct psclient *client, const struct ps_client_job *job)
{
    return job != NULL ? job->finished : client->finished != NULL;
}

/* The mutex is let go while the channel is polled: others begin and end operations meanwhile, and a
 * change of servers interrupts the poll. `led` stays up until the mutex is held again, so that two
 * never poll at once. */
static void lead(struct psclient *client, uint64_t timeout_ms)
{
    PS_ASSERT(!client->led);
    client->led = true;
    ps_mutex_unlock(&client->mutex);
    client->channel.poll(client->channel.self, timeout_ms);
    ps_mutex_lock(&client->mutex);
    client->led = false;
}

/* The list is in no order that matters: whoever leads works for all. */
static void join_waiters(struct psclient *client, struct ps_client_waiter *waiter)
{
    DL_PREPEND2(client->waiters, waiter, before, after);
}

/* Whoever leaves while nobody leads hands the lead on. Without this all others would sleep until
 * their next deadline, with their answers lying in the channel. */
static void leave_waiters(struct psclient *client, struct ps_client_waiter *waiter)
{
    DL_DELETE2(client->waiters, waiter, before, after);
    if (!client->led && client->waiters != NULL)
        ps_condition_signal_all(&client->waiters->woken);
}

/* The batch of the job is finished. Called from pump, on whichever thread that runs: the job's own
 * thread may be this one, or asleep. */
static void finish(struct psclient *client, struct ps_client_job *job)
{
    PS_ASSERT(!job->finished);
    job->finished = true;
    if (job->told != NULL)
        job->told(job);
    if (job->announced) {
        DL_APPEND(client->finished, job);
        ps_client_tell_event(client);
    }
    for (struct ps_client_waiter *it = client->waiters; it != NULL; it = it->after) {
        if (it->job == job || (it->job == NULL && job->announced))
            ps_condition_signal_all(&it->woken);
    }
    /* The channel's thread may have finished the job of a leader that is about to poll. */
    if (client->led && client->event_fd >= 0)
        client->channel.interrupt(client->channel.self);
}

/* `prev` says whether a job is in the list: utlist never leaves it NULL there, the first one points
 * to the last. With the last job of the list, what was held leaves before the caller goes to work
 * on the job: otherwise it would wait for as long as that takes. */
static void take_finished(struct psclient *client, struct ps_client_job *job)
{
    PS_ASSERT(job->finished && job->prev != NULL);
    DL_DELETE(client->finished, job);
    job->prev = NULL;
    ps_client_tell_event(client);
    if (client->finished == NULL && client->holding.held > 0)
        ps_client_pump(client);
}

/* A server that says "not the owner" knows more than the store's watch has told us: the follower
 * reads again, and the engine repeats the call meanwhile.
 *
 * Released only after the engine has seen it: replies borrow their bytes from the delivery. */
static bool take_outcomes(struct psclient *client)
{
    struct ps_delivery delivery;
    bool any = false;
    while (client->channel.take(client->channel.self, &delivery)) {
        any = true;
        if (client->follower != NULL && delivery.outcome.status == PS_ERR_NOT_OWNER)
            ps_follower_look_again(client->follower);
        uint64_t now_ms = ps_now_ms(client->clock);
        /* The next ranges leave before the content of this one is moved: the server works on them
         * while this thread copies. */
        if (ps_engine_outcome(client->engine, delivery.call, &delivery.outcome, now_ms)) {
            (void)act(client);
            ps_engine_keep(client->engine, delivery.call, &delivery.outcome, now_ms);
        }
        if (ps_engine_is_range(delivery.call))
            (void)act(client);
        client->channel.release(client->channel.self, &delivery);
    }
    return any;
}

/* No memory for a message counts as an answer of "refused" to each of its calls: nothing has left
 * this machine, and the engine pauses and repeats. */
static void send_calls(struct psclient *client, const struct ps_engine_action *action)
{
    struct ps_call_part parts[PS_MESSAGE_CALLS_MAX];
    const struct ps_channel *channel = &client->channel;
    enum ps_status status = channel->submit(channel->self, action->shard, action->parts,
                                            action->part_count, action->deadline_ms);
    if (status == PS_OK)
        return;
    PS_ASSERT(action->part_count <= PS_ARRAY_COUNT(parts));
    /* An outcome may change the engine's list. */
    memcpy(parts, action->parts, action->part_count * sizeof *parts);
    const struct ps_call_outcome outcome = {.status = status, .refused = true, .text = "no memory"};
    for (size_t i = 0; i < action->part_count; i++)
        (void)ps_engine_outcome(client->engine, parts[i].call, &outcome, ps_now_ms(client->clock));
}

/* Until there is no action: each may change which is the next. */
static bool act(struct psclient *client)
{
    struct ps_engine_action action;
    bool any = false;
    while (ps_engine_next_action(client->engine, &action)) {
        any = true;
        switch (action.type) {
        case PS_ENGINE_SEND:
            send_calls(client, &action);
            break;
        case PS_ENGINE_CANCEL:
            client->channel.cancel(client->channel.self, action.call);
            break;
        case PS_ENGINE_FINISHED:
            finish(client, action.owner);
            break;
        }
    }
    return any;
}

/* ---- Where the servers are ---- */

/* The channel comes first: an engine that was told of a server which the channel cannot reach would
 * send calls nowhere. The number rises with each change, also when an address comes back under an
 * epoch seen before, so that the engine takes it for a new server process. */
bool ps_client_route(struct psclient *client, uint32_t shard, const char *address, uint64_t epoch)
{
    PS_ASSERT(shard < client->shard_count);
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

/* Rows that could not be told for want of memory are told again with the next pump, from what was
 * taken: the follower itself has nothing new then. */
static void follow_members(struct psclient *client)
{
    if (client->follower == NULL)
        return;
    bool fresh = ps_follower_take(client->follower, &client->members);
    if (!fresh && !client->members_pending)
        return;
    client->members_pending = false;
    ps_client_place(client, client->members.placement);
    uint32_t count = client->members.shard_count;
    for (uint32_t i = 0; i < client->shard_count && i < count; i++) {
        const struct ps_member *row = &client->members.rows[i];
        if (!ps_client_route(client, i, row->address, row->epoch))
            client->members_pending = true;
    }
}
