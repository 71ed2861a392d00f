/* SPDX-License-Identifier: Apache-2.0 */
/* A lane: one completion queue, the one thread that reads it, and the calls that live on it.
 *
 * A call belongs to its lane's thread from start to end, so that no lock guards it. Another thread
 * that wants something from a lane wakes it and says which topics have changed: the lane then asks
 * those of its waiters (parked calls, health watches, open reflection streams) again that wait for
 * one of them, a few between two events, in the order in which they began to wait.
 *
 * Threads:  create, start, stop and destroy belong to the server's owner; wake is safe from any
 *           thread; everything else belongs to the lane's thread.
 * Blocking: stop waits until the lane's slots have ended and its thread has.
 * Errors:   PS_ERR_NO_MEMORY.
 * Memory:   a lane owns the slots of its methods.
 */
#ifndef PS_SERVER_RPC_LANE_H
#define PS_SERVER_RPC_LANE_H

#include "base/alloc.h"
#include "base/busy_poll.h"
#include "base/status.h"
#include "base/thread.h"
#include "server/core/requests/topics.h"

#include <grpc/grpc.h>

#include <stdatomic.h>

struct ps_lane;
struct ps_slots;
struct ps_rpc_context;

/* What a completion queue gives back. The step runs on the lane's thread; `ok` is gRPC's. */
struct ps_tag {
    uint32_t magic;
    void (*step)(void *owner, bool ok);
    void *owner;
};

void ps_tag_init(struct ps_tag *tag, void (*step)(void *owner, bool ok), void *owner);

/* A call that is asked again when the topic has changed that it waits for. `woken` finds it off
 * every list: who still waits says so anew. */
struct ps_waiter {
    void (*woken)(void *owner);
    void *owner;
    struct ps_waiter *next, *prev; /* in the list, for utlist */
    struct ps_waiter **list;       /* of the lane; NULL: in none */
};

/* A moment at which patience with a client ends, looked at about once a second; or one at which a
 * call wants to be asked again, which is kept. */
struct ps_limit {
    void (*passed)(void *owner);
    void *owner;
    gpr_timespec until;
    struct ps_limit *next, *prev; /* in the lane's list, for utlist */
    bool waiting;                 /* is in it */
    bool is_sharp;                /* the lane wakes for it */
};

struct ps_lane {
    struct ps_rpc_context *context; /* borrowed; outlives the lane */
    grpc_completion_queue *queue;   /* owned */
    struct ps_thread thread;
    struct ps_busy_poll poll; /* the thread's */
    struct ps_slots **slots;  /* owned, of each method; given to ps_lane_adopt */
    size_t slot_count;
    size_t slots_max;
    size_t live; /* calls that are invited or open; the lane's thread only */
    /* A list for each topic, so that a change costs those who wait for it and nobody else. */
    struct ps_waiter *waiters[PS_TOPIC_COUNT]; /* the first to come is the first, as in the next */
    struct ps_waiter *asking;                  /* whose topic has changed: to be asked soon */
    struct ps_waiter *turns;                   /* calls that have more to do */
    uint32_t events_since_turn;
    struct ps_limit *limits;
    gpr_timespec look; /* when the limits are looked at next, if there are any */
    atomic_bool stopping;
    struct ps_mutex wake_lock; /* guards the five below */
    grpc_channel *wake_channel;
    grpc_call *wake_call;     /* goes nowhere: an empty batch on it is an event at once */
    bool is_woken;            /* the event is on its way */
    uint64_t topics;          /* that have changed */
    struct ps_waiter *handed; /* calls that other threads have handed back */
    struct ps_tag wake_tag;
};

/* A lane with a queue that is registered with the server, without slots. */
PS_MUST_USE enum ps_status ps_lane_create(struct ps_rpc_context *context, size_t slots_max,
                                          struct ps_lane **lane, struct ps_error *error);

/* Takes the slots of a method, which invite when the lane begins and go when it is destroyed. */
void ps_lane_adopt(struct ps_lane *lane, struct ps_slots *slots);

/* A call of the lane's is neither invited nor open any more. */
void ps_lane_call_ended(struct ps_lane *lane);

PS_MUST_USE enum ps_status ps_lane_start(struct ps_lane *lane, struct ps_error *error);

/* The topics (a mask, topics.h) have changed. Safe from any thread until destroy; does nothing once
 * the lane has stopped. */
void ps_lane_wake(struct ps_lane *lane, uint64_t topics);

/* From any thread that has had a call of the lane's: `waiter`, which is in no list, is woken. */
void ps_lane_hand_back(struct ps_lane *lane, struct ps_waiter *waiter);

/* Ends the thread. The server's shutdown must have completed, so that every slot ends. */
void ps_lane_stop(struct ps_lane *lane);

/* Takes the lane, which has stopped or was never started. NULL is allowed. */
void ps_lane_destroy(struct ps_lane *lane);

/* On the lane's thread: joins and leaves those that are asked again when `topic` has changed, or
 * PS_TOPIC_LIFE, which concerns everybody. Leaving twice is allowed. */
void ps_lane_wait(struct ps_lane *lane, struct ps_waiter *waiter, uint32_t topic);
void ps_lane_leave(struct ps_lane *lane, struct ps_waiter *waiter);

/* On the lane's thread: a call that has more to do than one step is woken once, after others had
 * their turn: when no event is waiting, at the latest after a few events. Dropping twice is
 * allowed. */
void ps_lane_take_turn(struct ps_lane *lane, struct ps_waiter *turn);
void ps_lane_drop_turn(struct ps_lane *lane, struct ps_waiter *turn);

/* On the lane's thread: unless the limit is taken back before, its `passed` is called once, soon
 * after `until` (monotonic). Taking back twice is allowed. */
void ps_lane_limit(struct ps_lane *lane, struct ps_limit *limit, gpr_timespec until);

/* The same, and not late by more than the lane is: for who wants to be asked again at a time. */
void ps_lane_limit_sharp(struct ps_lane *lane, struct ps_limit *limit, gpr_timespec until);
void ps_lane_unlimit(struct ps_lane *lane, struct ps_limit *limit);

#endif
