/* SPDX-License-Identifier: Apache-2.0 */
/* How calls reach the servers: an interface. channel_grpc.c is the real one; a simulator has its
 * own. Decides nothing: it carries out the engine's actions and hands back outcomes.
 *
 * Threads:  route, submit, cancel, take and release may be called from any thread, one at a time
 *           (the client's lock sees to it); poll beside them, by one thread at a time; interrupt
 *           from any. Destroy when no call is in flight.
 * Blocking: poll, as it says; destroy, which ends the implementation's threads.
 * Errors:   submit can fail; a call that was submitted always gets exactly one outcome.
 * Memory:   a request is borrowed until its outcome was taken. A taken delivery is held until it
 *           is released.
 */
#ifndef PS_CLIENT_CHANNEL_H
#define PS_CLIENT_CHANNEL_H

#include "base/alloc.h"
#include "base/busy_poll.h"
#include "base/clock.h"
#include "client/calls/call.h"
#include "client/channel/channel_files.h"

#include <stdbool.h>

/* An outcome on its way to the engine. */
struct ps_delivery {
    uint64_t call;
    struct ps_call_outcome outcome;
    void *held; /* private: what the outcome's reply borrows from */
};

struct ps_channel {
    /* From now on the shard is served at `address`, by another server process than before, even
     * when the address is the same: a new connection is made. Calls that still waited for the old
     * one go to the new one; those that run there fail soon if they may be repeated, as reading
     * calls and those with a request id may. The others are left to end by themselves. NULL:
     * nobody serves it; calls in flight go on, new ones are refused.
     * False: no memory; the shard is as before. */
    bool (*route)(void *self, uint32_t shard, const char *address);

    /* Starts 1 to PS_MESSAGE_CALLS_MAX calls in one message (call.h). `parts` is borrowed for the
     * call, what it points to until the outcomes: there is one for each. The message waits for a
     * connection until a call of it is cancelled, and leaves only over one that is up, so that a
     * call that could not connect is known to be refused.
     * PS_ERR_NO_MEMORY: no outcome will come. */
    enum ps_status (*submit)(void *self, uint32_t shard, const struct ps_call_part *parts,
                             size_t part_count, uint64_t deadline_ms);

    /* Makes the outcome of a call in flight come soon, and of those that went with it. A call
     * that is not in flight is ignored. */
    void (*cancel)(void *self, uint64_t call);

    /* The next outcome, if there is one. */
    bool (*take)(void *self, struct ps_delivery *delivery);
    void (*release)(void *self, struct ps_delivery *delivery);

    /* Whoever waits for outcomes waits here, and does the channel's work meanwhile: no other thread
     * has to be woken for the answer. Returns when there is something to take, when it was
     * interrupted, after `timeout_ms`, or for no reason. While nobody polls, the channel works on
     * by itself. */
    void (*poll)(void *self, uint64_t timeout_ms);

    /* `idle` is called once, on the channel's own thread, when nobody has polled for a moment (20
     * ms mostly, a quarter of a second at most): for whoever leaves something undone and may not
     * come back. Takes the place of what was asked for before. */
    void (*tell_idle)(void *self, void (*idle)(void *owner), void *owner);

    /* From now on the channel's own thread also does its owner's work while nobody polls: it calls
     * `work` after each event, at the times that `work` returns (on the channel's clock;
     * PS_DEADLINE_NEVER: none), and when it is roused. */
    void (*employ)(void *self, uint64_t (*work)(void *owner), void *owner);

    /* There is work to be done at `wake_ms`: nobody sleeps beyond that. For whoever has employed
     * the channel's thread. */
    void (*rouse)(void *self, uint64_t wake_ms);

    /* The poll under way, or else the next one, returns soon. */
    void (*interrupt)(void *self);

    void (*destroy)(void *self);
    void *self;
};

/* gRPC over TCP, or over a unix socket where an address is unix:PATH: one connection per shard; one
 * thread, which works while nobody polls. The content of a push is sent from where it lies; when a
 * server stops reading in the middle of one, a cancelled call needs up to two seconds to let go of
 * it over TCP. A unix socket is shut down for it.
 *
 * busy_poll  how long the thread that polls looks for an answer before it sleeps
 * clock    borrowed; deadlines count on it
 * memory   borrowed; used from the implementation's thread as well
 */
PS_MUST_USE enum ps_status
ps_channel_grpc_create(uint32_t shard_count, struct ps_busy_poll_wish busy_poll,
                       const struct ps_clock *clock, const struct ps_allocator *memory,
                       struct ps_channel *channel, struct ps_error *error);

/* Whether content may go through memory that is shared with servers on this host; it does unless
 * this says no. Of a channel by ps_channel_grpc_create, before its first route. */
void ps_channel_grpc_share(struct ps_channel *channel, bool shares);

/* TLS and tokens from these files (borrowed; outlive the channel) for TCP connections; a unix
 * socket is left to the kernel's rights. They are read for each connection, and when they change,
 * a second later, connections are made anew: calls that may be repeated are, the others end where
 * they are. Before the first route. The files' content is checked once, here.
 *
 * PS_ERR_BAD_INPUT  a file cannot be read or is of another kind */
PS_MUST_USE enum ps_status ps_channel_grpc_secure(struct ps_channel *channel,
                                                  const struct ps_channel_files *files,
                                                  struct ps_error *error);

/* What went that way so far. */
struct ps_channel_shared {
    uint64_t calls;
    uint64_t bytes;
    uint64_t device_bytes;   /* of them, those in a device's memory */
    uint32_t tcp_servers;    /* that are connected now */
    uint32_t unix_servers;   /* that are, at a unix:PATH */
    uint32_t shared_servers; /* of either, those that take shared memory */
};
struct ps_channel_shared ps_channel_grpc_shared(const struct ps_channel *channel);

/* Have servers let go of the memory of devices that calls without an answer left to them? With
 * `share` they are asked to let go of that piece as well. Waits for nothing. */
bool ps_channel_grpc_let_go(const struct ps_channel *channel, const struct ps_device_share *share);

#endif
