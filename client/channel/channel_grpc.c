/* SPDX-License-Identifier: Apache-2.0 */
/* Calls over gRPC's C core. channel_grpc*.c are the only files of the client
 * that know gRPC.
 *
 * Some thread sits in the completion queue all the time (channel_grpc_poll.c): without one, gRPC
 * neither reads nor answers pings. That thread handles two kinds of tag: a call's one batch has
 * ended, or a connection's state has changed. A call (here: a flight) goes through
 *
 *   WAITING ──connection is up──► RUNNING ──batch ended, content released──► in `done` ──► taken
 *      └──────cancelled, or no server──────────────────────────────────────────┘
 *
 * The engine routes, submits, cancels and takes under the client's lock; events come beside it, on
 * the thread that polls. `mutex` guards what both touch: connections, their flights, a flight's
 * state and its call. The list `done` has a lock of its own, since gRPC may let go of content, and
 * so finish a flight, within a call to gRPC that is made under `mutex`.
 */
#include "client/channel/channel_grpc.h"

#include "base/assert.h"
#include "client/channel/grpc_process.h"

#include <grpc/support/time.h>

#include <stdio.h>
#include <string.h>

static bool route(void *self, uint32_t shard, const char *address);
static enum ps_status submit(void *self, uint32_t shard, const struct ps_call_part *parts,
                             size_t part_count, uint64_t deadline_ms);
static void cancel(void *self, uint64_t call);
static bool take(void *self, struct ps_delivery *delivery);
static void release(void *self, struct ps_delivery *delivery);
static void poll(void *self, uint64_t timeout_ms);
static void tell_idle(void *self, void (*idle)(void *owner), void *owner);
static void employ(void *self, uint64_t (*work)(void *owner), void *owner);
static void rouse(void *self, uint64_t wake_ms);
static void interrupt(void *self);
static void destroy(void *self);

/* From the first allocation that worked to the start of the keeper nothing else can fail, so that
 * one destroy is enough for what follows. */
enum ps_status ps_channel_grpc_create(uint32_t shard_count, struct ps_busy_poll_wish busy_poll,
                                      const struct ps_clock *clock,
                                      const struct ps_allocator *memory, struct ps_channel *channel,
                                      struct ps_error *error)
{
    struct ps_grpc_side *side = ps_zeroed(memory, sizeof *side);
    if (side == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a channel");
    side->memory = memory;
    side->clock = clock;
    side->shard_count = shard_count;
    ps_busy_poll_init(&side->role.busy_poll, busy_poll);
    side->shares = true;
    atomic_init(&side->shared_calls, 0);
    atomic_init(&side->shared_bytes, 0);
    atomic_init(&side->device_bytes, 0);
    atomic_init(&side->running, 0);
    side->routes = ps_zeroed_array(memory, shard_count, sizeof *side->routes);
    if (side->routes == NULL) {
        ps_release(memory, side);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %u shards", shard_count);
    }
    if (!ps_grpc_process_enter()) {
        ps_release(memory, side->routes);
        ps_release(memory, side);
        return ps_fail(error, PS_ERR_INTERNAL,
                       "a process that this one was forked from has a client open, and gRPC does "
                       "not survive that: open one before the parent does, or begin the process "
                       "with another program (exec, spawn)");
    }
    /* gRPC starts behind the last allocation that is undone by hand: destroy ends it. */
    grpc_init();
    side->queue = grpc_completion_queue_create_for_next(NULL);
    ps_mutex_init(&side->mutex, PS_RANK_QUEUE);
    /* A leaf: this lock is taken from within gRPC, under whatever lock gRPC was called. */
    ps_mutex_init(&side->done_mutex, PS_RANK_LEAF);
    *channel = (struct ps_channel){route,     submit, cancel, take,      release, poll,
                                   tell_idle, employ, rouse,  interrupt, destroy, side};

    enum ps_status status = ps_grpc_poll_start(side, error);
    if (status != PS_OK)
        destroy(side);
    return status;
}

/* Before the first route: a connection decides when it is made whether it has a link. */
void ps_channel_grpc_share(struct ps_channel *channel, bool shares)
{
    struct ps_grpc_side *side = channel->self;
    side->shares = shares;
}

/* Read and thrown away: a mistake is told now, and not when somebody waits for an answer. */
enum ps_status ps_channel_grpc_secure(struct ps_channel *channel,
                                      const struct ps_channel_files *files, struct ps_error *error)
{
    struct ps_grpc_side *side = channel->self;
    struct ps_channel_secrets secrets;
    PS_TRY(ps_channel_files_check(files, error));
    enum ps_status status = ps_channel_files_read(files, side->memory, &secrets, error);
    ps_channel_secrets_release(&secrets, side->memory);
    if (status == PS_OK)
        side->files = *files;
    return status;
}

/* Only connections that are up count: a link of one that was lost knows nothing of its next
 * server. */
struct ps_channel_shared ps_channel_grpc_shared(const struct ps_channel *channel)
{
    struct ps_grpc_side *side = channel->self;
    struct ps_channel_shared told = {.calls = atomic_load(&side->shared_calls),
                                     .bytes = atomic_load(&side->shared_bytes),
                                     .device_bytes = atomic_load(&side->device_bytes)};
    ps_mutex_lock(&side->mutex);
    for (uint32_t i = 0; i < side->shard_count; i++) {
        const struct ps_connection *connection = side->routes[i];
        /* The 0 keeps gRPC from connecting only because somebody looked. */
        if (connection == NULL ||
            grpc_channel_check_connectivity_state(connection->channel, 0) != GRPC_CHANNEL_READY)
            continue;
        told.unix_servers += connection->is_unix;
        told.tcp_servers += !connection->is_unix;
        told.shared_servers += ps_shared_link_works(connection->shared);
    }
    ps_mutex_unlock(&side->mutex);
    return told;
}

/* Connections are retired first, so that no event can make a call any more; then the queue is
 * drained by whoever polls, and only then is there nothing that a tag could point to. */
static void destroy(void *self)
{
    struct ps_grpc_side *side = self;
    ps_mutex_lock(&side->mutex);
    /* From here on no watch is renewed. */
    side->stopping = true;
    for (uint32_t i = 0; i < side->shard_count; i++)
        ps_connection_replace(side, i, NULL);
    for (struct ps_connection *it = side->connections; it != NULL; it = it->next) {
        /* All outcomes were taken, so no flight is left: one that was would keep its connection
         * from being reaped. */
        PS_ASSERT(it->flights == NULL);
        ps_connection_retire(it);
    }
    ps_mutex_unlock(&side->mutex);

    /* The last watches come back here, and each tag is a connection: its memory is given back only
     * behind them. */
    ps_grpc_poll_stop(side);
    ps_connection_reap(side);
    PS_ASSERT(side->connections == NULL);
    PS_ASSERT(side->done_first == NULL);
    grpc_completion_queue_destroy(side->queue);
    /* gRPC counts its users: other channels of the process go on. */
    grpc_shutdown();
    ps_grpc_process_leave();
    ps_mutex_fini(&side->done_mutex);
    ps_mutex_fini(&side->mutex);
    ps_release(side->memory, side->routes);
    ps_release(side->memory, side);
}

/* The connection is made outside of the lock: gRPC may take its time. */
static bool route(void *self, uint32_t shard, const char *address)
{
    struct ps_grpc_side *side = self;
    PS_ASSERT(shard < side->shard_count);
    struct ps_connection *connection = NULL;
    if (address != NULL) {
        connection = ps_connection_create(side, shard, address);
        if (connection == NULL)
            return false;
    }
    ps_mutex_lock(&side->mutex);
    /* A connection that was replaced and has no flight and no watch has no event to come that would
     * reap it. */
    ps_connection_replace(side, shard, connection);
    ps_connection_reap(side);
    ps_mutex_unlock(&side->mutex);
    return true;
}

/* The flight ends without having left, so no server has seen it: its calls may be sent again, also
 * pushes, and nothing is applied twice. A drop_pin follows, outside of the mutex. */
static void refuse(struct ps_flight *flight, const char *address)
{
    flight->state = PS_FLIGHT_REFUSED;
    flight->status = PS_ERR_UNAVAILABLE;
    flight->refused = true;
    snprintf(flight->text, sizeof flight->text, "shard %u: no connection to %.100s", flight->shard,
             address);
    const struct ps_connection *connection = flight->connection;
    if (connection == NULL || connection->reason.text[0] == '\0')
        return;
    snprintf(flight->text, sizeof flight->text, "shard %u: no connection to %.60s: %s",
             flight->shard, address, connection->reason.text);
    if (connection->reason.definite)
        flight->status = PS_ERR_UNAUTHENTICATED;
}

/* Everything that can fail is done before the flight is known to anybody: a call that was submitted
 * gets exactly one outcome, a call that was not gets none. */
static enum ps_status submit(void *self, uint32_t shard, const struct ps_call_part *parts,
                             size_t part_count, uint64_t deadline_ms)
{
    struct ps_grpc_side *side = self;
    struct ps_flight *flight = ps_flight_create(side, parts, part_count);
    if (flight == NULL)
        return PS_ERR_NO_MEMORY;
    ps_flight_begin(side, flight, shard, deadline_ms);
    return PS_OK;
}

/* The lock covers the decision, not the start of the batch: gRPC may call back from there. */
void ps_flight_begin(struct ps_grpc_side *side, struct ps_flight *flight, uint32_t shard,
                     uint64_t deadline_ms)
{
    PS_ASSERT(shard < side->shard_count);
    flight->shard = shard;
    flight->deadline_ms = deadline_ms;
    ps_mutex_lock(&side->mutex);
    struct ps_connection *connection = side->routes[shard];
    bool ready = false;
    if (connection == NULL) {
        refuse(flight, "nobody");
    } else {
        ps_connection_add(connection, flight);
        /* The flight is in the list before the state is read: a connection that comes up later
         * tells the change, and that event finds the flight. The 1 makes an idle connection
         * connect; the flight would wait for ever otherwise. */
        grpc_connectivity_state state =
            grpc_channel_check_connectivity_state(connection->channel, 1);
        ready = state == GRPC_CHANNEL_READY;
        /* The call exists before the mutex is given back: a cancellation that comes before the
         * launch ends the call, and is not lost. */
        if (ready)
            ps_flight_make_call(flight);
        else
            ps_connection_watch(side, connection, state);
    }
    ps_mutex_unlock(&side->mutex);

    /* A flight that waits is not touched from here on: an event on another thread may have launched
     * it already, and a second launch would push twice. */
    if (connection == NULL)
        ps_flight_drop_pin(flight);
    if (ready)
        ps_flight_launch(flight);
}

/* A flight of many calls is found by each of them, and all of its calls come back together. */
static bool carries(const struct ps_flight *flight, uint64_t call)
{
    for (size_t i = 0; i < flight->part_count; i++)
        if (flight->parts[i].part.call == call)
            return true;
    return false;
}

/* Outside of the lock: each wakes the poller. */
static void drop_pins(struct ps_flight *refused)
{
    while (refused != NULL) {
        struct ps_flight *flight = refused;
        refused = flight->next_done;
        ps_flight_drop_pin(flight);
    }
}

/* A flight that has not left ends here, as refused; one that runs is ended by gRPC. Those that
 * were refused let go of their pins outside of the lock, since that wakes the poller. */
static void cancel(void *self, uint64_t call)
{
    struct ps_grpc_side *side = self;
    struct ps_flight *refused = NULL;
    ps_mutex_lock(&side->mutex);
    for (struct ps_connection *it = side->connections; it != NULL; it = it->next) {
        for (struct ps_flight *flight = it->flights; flight != NULL; flight = flight->next) {
            /* A call may have several flights: of former connections, too. */
            if (!carries(flight, call))
                continue;
            ps_flight_end_call(flight, GRPC_STATUS_CANCELLED, "given up");
            /* The new state keeps an event from launching the flight. Its `next_done` is free for a
             * list of ours until the last pin is dropped. */
            if (flight->state == PS_FLIGHT_WAITING) {
                refuse(flight, it->address);
                flight->next_done = refused;
                refused = flight;
            }
        }
    }
    ps_mutex_unlock(&side->mutex);
    drop_pins(refused);
}

/* The next outcome of the flight that came back first: a flight leaves the list with its last
 * part. */
static bool take(void *self, struct ps_delivery *delivery)
{
    struct ps_grpc_side *side = self;
    ps_mutex_lock(&side->done_mutex);
    struct ps_flight *flight = side->done_first;
    bool is_last = flight != NULL && flight->parts_taken + 1 == flight->part_count;
    if (is_last)
        side->done_first = flight->next_done;
    if (side->done_first == NULL)
        side->done_last = NULL;
    ps_mutex_unlock(&side->done_mutex);
    if (flight == NULL)
        return false;

    /* A flight that came back leaves its connection with its first part: no cancellation finds it
     * any more, and a connection that only this flight held is reaped. */
    if (flight->parts_taken == 0) {
        ps_mutex_lock(&side->mutex);
        ps_connection_remove(flight);
        ps_connection_reap(side);
        ps_mutex_unlock(&side->mutex);
    }
    /* Only `take` touches the count, and there is one at a time. Decoding holds none of the locks:
     * a large reply would hold up the thread that handles events. */
    size_t i = flight->parts_taken++;
    delivery->call = flight->parts[i].part.call;
    delivery->held = is_last ? flight : NULL;
    ps_flight_outcome(flight, i, &delivery->outcome);
    return true;
}

/* The reply of each part borrows from the flight, so only the last delivery of a flight holds
 * it. */
static void release(void *self, struct ps_delivery *delivery)
{
    (void)self;
    if (delivery->held != NULL)
        ps_flight_destroy(delivery->held);
    delivery->held = NULL;
}

/* What is there already is not waited for: the caller would sleep beside its answer. */
static void poll(void *self, uint64_t timeout_ms)
{
    struct ps_grpc_side *side = self;
    ps_mutex_lock(&side->done_mutex);
    bool ready = side->done_first != NULL;
    ps_mutex_unlock(&side->done_mutex);
    if (!ready)
        ps_grpc_poll(side, timeout_ms);
}

static void tell_idle(void *self, void (*idle)(void *owner), void *owner)
{
    ps_grpc_poll_tell_idle(self, idle, owner);
}

static void employ(void *self, uint64_t (*work)(void *owner), void *owner)
{
    ps_grpc_poll_employ(self, work, owner);
}

static void rouse(void *self, uint64_t wake_ms)
{
    ps_grpc_poll_rouse(self, wake_ms);
}

static void interrupt(void *self)
{
    ps_grpc_poll_wake(self);
}

/* ---- Events ---- */

/* A connection that came up sends everything that waited for it. One that went down has lost its
 * server, and with it what was known about shared memory. The watch is renewed, since gRPC tells
 * each change once. */
static void state_changed(struct ps_grpc_side *side, struct ps_connection *connection, bool changed)
{
    struct ps_flight *launched = NULL;
    struct ps_connection *renewed = ps_connection_renewed(side, connection);
    ps_mutex_lock(&side->mutex);
    /* The watch that has told this is over. */
    connection->watching = false;
    if (renewed != NULL && !side->stopping && side->routes[connection->shard] == connection) {
        ps_connection_replace(side, connection->shard, renewed);
        renewed = NULL;
    }
    /* A watch that only ran out of time has not changed anything. */
    if (changed && connection->watched == GRPC_CHANNEL_READY)
        ps_shared_link_lost(connection->shared);
    if (!connection->detached && !side->stopping) {
        grpc_connectivity_state state =
            grpc_channel_check_connectivity_state(connection->channel, 1);
        for (struct ps_flight *it = connection->flights; it != NULL; it = it->next) {
            if (state != GRPC_CHANNEL_READY || it->state != PS_FLIGHT_WAITING)
                continue;
            ps_flight_make_call(it);
            /* The launch waits until the mutex is given back: gRPC may call back from there. */
            it->next_done = launched;
            launched = it;
        }
        if (state == GRPC_CHANNEL_READY)
            connection->reason.text[0] = '\0';
        if (state == GRPC_CHANNEL_TRANSIENT_FAILURE && connection->flights != NULL)
            ps_reason_ask(side, connection);
        if (!connection->detached)
            ps_connection_watch(side, connection, state);
    }
    /* The watch may have been the last to hold the connection, whose memory is then gone. */
    ps_connection_reap(side);
    ps_mutex_unlock(&side->mutex);
    ps_connection_discard(side, renewed);
    while (launched != NULL) {
        struct ps_flight *flight = launched;
        launched = flight->next_done;
        ps_flight_launch(flight);
    }
}

/* Whoever waits for a connection that is refused for its certificates waits no longer: nothing has
 * left, so nothing was applied. */
static void reason_known(struct ps_grpc_side *side, struct ps_reason *reason)
{
    struct ps_connection *connection = reason->connection;
    struct ps_flight *refused = NULL;
    /* Files that have changed since then may be the answer: a certificate and its key are two. */
    struct ps_channel_stamps now;
    ps_channel_files_look(&side->files, &now);
    ps_mutex_lock(&side->mutex);
    ps_reason_ended(reason);
    reason->definite = reason->definite && ps_channel_stamps_equal(&now, &connection->stamps);
    for (struct ps_flight *it = connection->flights; it != NULL; it = it->next) {
        if (!reason->definite || it->state != PS_FLIGHT_WAITING)
            continue;
        refuse(it, connection->address);
        it->next_done = refused;
        refused = it;
    }
    ps_connection_reap(side);
    ps_mutex_unlock(&side->mutex);
    drop_pins(refused);
}

/* Every tag begins with its kind. A kick does not come here: its event only wakes the thread in the
 * queue (channel_grpc_poll.c). */
void ps_grpc_handle(struct ps_grpc_side *side, void *tag, bool ok)
{
    PS_TAG_TAKE(tag);
    if (*(const enum ps_tag_kind *)tag == PS_TAG_FLIGHT)
        ps_flight_ended(tag);
    else if (*(const enum ps_tag_kind *)tag == PS_TAG_REASON)
        reason_known(side, tag);
    else
        state_changed(side, tag, ok);
}
