/* The loop of a lane's thread, its bell, and the four lists of those who are called from it: slots,
 * waiters, turns, limits.
 *
 * Everything on a lane happens on its one thread, so that neither a slot nor a list needs a lock.
 * The price is that whoever works on the thread keeps it from all others; hence turns, which cut
 * long work into steps, and helpers (helpers.h), which take whole requests away.
 *
 * gRPC's C API has no way to put an event into a completion queue from outside, and a thread that
 * sleeps in the queue sees nothing else. The bell is such a way: an empty batch on a call that goes
 * nowhere completes at once, and its tag comes out of the queue like any other. */
#include "server/rpc/lane.h"

#include "base/assert.h"
#include "base/clock.h"
#include "server/rpc/rpc_context.h"

#include <grpc/support/time.h>

/* A tag is a void pointer on its way through gRPC: the magic number tells a stale or foreign one
 * before its function is called. */
enum { TAG_MAGIC = 0x70737467 };

/* So many events may come between two turns of those who have more to do. A lane that is never idle
 * would else never come back to a long bundle, whose client waits longer than any other. */
enum { EVENTS_PER_TURN = 16 };

/* And so many between two looks at the clock, which a busy lane need not ask for each event. */
enum { EVENTS_PER_LOOK = 16 };

static void run(void *argument);
static grpc_event next_event(struct ps_lane *lane);
static grpc_event look(struct ps_lane *lane);
static gpr_timespec next_look(const struct ps_lane *lane);
static void give_turn(struct ps_lane *lane, bool idle);
static void look_at_limits(struct ps_lane *lane);
static bool may_end(struct ps_lane *lane);
static void bell_step(void *owner, bool ok);
static void close_bell(struct ps_lane *lane);
static void drain_queue(struct ps_lane *lane);

void ps_tag_init(struct ps_tag *tag, void (*step)(void *owner, bool ok), void *owner)
{
    *tag = (struct ps_tag){.magic = TAG_MAGIC, .step = step, .owner = owner};
}

/* A lane without a thread. The queue must be known to the server before that starts: gRPC delivers
 * calls to registered queues only. The second argument of a lame channel is the status of calls
 * that are really sent over it, which none ever is. */
enum ps_status ps_lane_create(struct ps_rpc_context *context, size_t slots_max,
                              struct ps_lane **out, struct ps_error *error)
{
    struct ps_lane *lane = ps_zeroed(context->memory, sizeof *lane);
    if (lane == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "rpc: no lane");
    lane->context = context;
    ps_mutex_init(&lane->bell_lock, PS_RANK_QUEUE);
    ps_tag_init(&lane->bell_tag, bell_step, lane);
    lane->queue = grpc_completion_queue_create_for_next(NULL);
    grpc_server_register_completion_queue(context->server, lane->queue, NULL);
    lane->bell_channel =
        grpc_lame_client_channel_create("bell", GRPC_STATUS_UNAVAILABLE, "no call goes here");
    lane->bell = grpc_channel_create_call(lane->bell_channel, NULL, 0, lane->queue,
                                          grpc_slice_from_static_string("/bell"), NULL,
                                          gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    lane->slots = ps_zeroed_array(context->memory, slots_max, sizeof *lane->slots);
    lane->slots_max = slots_max;
    /* Destroy takes the lane apart from here on, so that a failure has one way out. */
    if (lane->slots == NULL) {
        ps_lane_destroy(lane);
        return ps_fail(error, PS_ERR_NO_MEMORY, "rpc: no room for %zu slots", slots_max);
    }
    *out = lane;
    return PS_OK;
}

/* Before the lane's thread exists: the array of slots needs no lock, and never moves. */
void ps_lane_adopt(struct ps_lane *lane, void *memory, void (*begin)(void *memory))
{
    PS_ASSERT(lane->slot_count < lane->slots_max);
    lane->slots[lane->slot_count++] = (struct ps_lane_slot){memory, begin};
}

/* A slot ends only with the tag that says that the server is stopping, never in the middle of a
 * call: at 0 no tag of any slot is in the queue any more. */
void ps_lane_slot_ended(struct ps_lane *lane)
{
    PS_ASSERT(lane->live > 0);
    lane->live--;
}

enum ps_status ps_lane_start(struct ps_lane *lane, struct ps_error *error)
{
    return ps_thread_start(&lane->thread, "rpc lane", run, lane, error);
}

/* The slots begin here and not in adopt: from the first invitation on, a tag may come, and only
 * this thread may read it. */
static void run(void *argument)
{
    struct ps_lane *lane = argument;
    /* Sets the floating-point mode in which updates are computed, without which two lanes could
     * give one gradient different bits. */
    ps_service_enter_thread();
    ps_busy_poll_init(&lane->poll, lane->context->busy_poll);
    uint32_t events = 0;
    lane->live = lane->slot_count;
    for (size_t i = 0; i < lane->slot_count; i++)
        lane->slots[i].begin(lane->slots[i].memory);
    while (!may_end(lane)) {
        grpc_event event = next_event(lane);
        if (event.type == GRPC_OP_COMPLETE) {
            struct ps_tag *tag = event.tag;
            PS_ASSERT(tag->magic == TAG_MAGIC);
            tag->step(tag->owner, event.success != 0);
        }
        /* After the event, not instead of it: a step of long work and the calls of others
         * alternate. */
        give_turn(lane, event.type != GRPC_OP_COMPLETE);
        if (event.type != GRPC_OP_COMPLETE || ++events % EVENTS_PER_LOOK == 0)
            look_at_limits(lane);
    }
}

/* An event that is there already; else the lane looks for as long as busy polling allows, and
 * sleeps then. With work of its own to do it does not wait at all: a look between two turns is
 * enough to see who has come. */
static grpc_event next_event(struct ps_lane *lane)
{
    grpc_event event = {.type = GRPC_QUEUE_TIMEOUT};
    if (lane->turns != NULL)
        return look(lane);
    if (lane->poll.wish.spin_ns != 0)
        event = look(lane);
    uint64_t until_ns = event.type == GRPC_QUEUE_TIMEOUT ? ps_busy_poll_begin(&lane->poll) : 0;
    if (until_ns != 0) {
        while (event.type == GRPC_QUEUE_TIMEOUT && ps_busy_poll_again(&lane->poll, until_ns))
            event = look(lane);
        ps_busy_poll_end(&lane->poll, event.type != GRPC_QUEUE_TIMEOUT);
    }
    if (event.type == GRPC_QUEUE_TIMEOUT)
        event = grpc_completion_queue_next(lane->queue, next_look(lane), NULL);
    /* The queue is shut down by destroy only, when this thread has ended. */
    PS_ASSERT(event.type != GRPC_QUEUE_SHUTDOWN);
    return event;
}

/* A deadline in the past: what is in the queue comes out, and an empty queue is no reason to
 * sleep. */
static grpc_event look(struct ps_lane *lane)
{
    return grpc_completion_queue_next(lane->queue, gpr_inf_past(GPR_CLOCK_MONOTONIC), NULL);
}

/* Without limits the lane sleeps until something happens: an idle server makes no wake-ups. */
static gpr_timespec next_look(const struct ps_lane *lane)
{
    return lane->limits != NULL ? lane->look : gpr_inf_future(GPR_CLOCK_MONOTONIC);
}

/* Patience with clients is counted in seconds and more; a finer clock would only wake the lane. */
static gpr_timespec in_a_second(void)
{
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(1, GPR_TIMESPAN));
}

/* All limits are looked at, once a second: they are few, and in no order. A limit that is noticed
 * up to a second late harms nobody, and a heap of deadlines would cost every call two changes. */
static void look_at_limits(struct ps_lane *lane)
{
    if (lane->limits == NULL)
        return;
    gpr_timespec now = gpr_now(GPR_CLOCK_MONOTONIC);
    if (gpr_time_cmp(now, lane->look) < 0)
        return;
    lane->look = in_a_second();
    struct ps_limit *after;
    for (struct ps_limit *limit = lane->limits; limit != NULL; limit = after) {
        after = limit->after;
        if (gpr_time_cmp(now, limit->until) < 0)
            continue;
        /* Off the list before the call: whoever is told may set the same limit again, and a limit
         * that stood in the list twice would close it to a ring. */
        ps_lane_unlimit(lane, limit);
        limit->passed(limit->owner);
    }
}

/* Both are needed. A lane without live slots that is not stopping has merely not begun; one that
 * stops with slots alive would leave their tags, and clients, to nobody. */
static bool may_end(struct ps_lane *lane)
{
    return lane->live == 0 && atomic_load(&lane->stopping);
}

/* The lock is held over the empty batch, which only queues an event: it never blocks, calls nobody
 * back, and must not meet a closed bell. */
void ps_lane_ring(struct ps_lane *lane)
{
    ps_mutex_lock(&lane->bell_lock);
    if (lane->bell != NULL && !lane->rung) {
        lane->rung = true;
        grpc_call_error failed = grpc_call_start_batch(lane->bell, NULL, 0, &lane->bell_tag, NULL);
        PS_ASSERT(failed == GRPC_CALL_OK);
    }
    ps_mutex_unlock(&lane->bell_lock);
}

/* The flag falls before the waiters are asked: what changes after that rings again. With the other
 * order a change between the question and the flag would be told to nobody, and a parked call would
 * wait until its deadline.
 *
 * A waiter that is woken may leave the list, but no other does meanwhile: so the next one is
 * remembered before the call. */
static void bell_step(void *owner, bool ok)
{
    struct ps_lane *lane = owner;
    (void)ok;
    ps_mutex_lock(&lane->bell_lock);
    lane->rung = false;
    ps_mutex_unlock(&lane->bell_lock);
    struct ps_waiter *after;
    for (struct ps_waiter *waiter = lane->waiters; waiter != NULL; waiter = after) {
        after = waiter->after;
        waiter->woken(waiter->owner);
    }
}

/* In front of the list, in no order: the bell asks all of them. The links stand in the waiter
 * itself, so that to wait can never fail for want of memory. */
void ps_lane_wait(struct ps_lane *lane, struct ps_waiter *waiter)
{
    PS_ASSERT(!waiter->waiting);
    waiter->waiting = true;
    waiter->before = NULL;
    waiter->after = lane->waiters;
    if (lane->waiters != NULL)
        lane->waiters->before = waiter;
    lane->waiters = waiter;
}

/* Twice is allowed, because a call that ends does not know whether its wait had ended before. */
void ps_lane_leave(struct ps_lane *lane, struct ps_waiter *waiter)
{
    if (!waiter->waiting)
        return;
    if (waiter->before != NULL)
        waiter->before->after = waiter->after;
    else
        lane->waiters = waiter->after;
    if (waiter->after != NULL)
        waiter->after->before = waiter->before;
    waiter->waiting = false;
}

/* `idle`: no event was waiting. A lane that is idle gives a turn at once; a busy one after
 * EVENTS_PER_TURN events, so that long work gets on, but slowly while there are many short calls.
 * The turn is dropped first: who is still not done takes another, at the end of the line. */
static void give_turn(struct ps_lane *lane, bool idle)
{
    struct ps_waiter *turn = lane->turns;
    if (turn == NULL || (!idle && ++lane->events_since_turn < EVENTS_PER_TURN))
        return;
    lane->events_since_turn = 0;
    ps_lane_drop_turn(lane, turn);
    turn->woken(turn->owner);
}

/* At the end: the turns go round, and two long bundles advance side by side. */
void ps_lane_take_turn(struct ps_lane *lane, struct ps_waiter *turn)
{
    PS_ASSERT(!turn->waiting);
    turn->waiting = true;
    turn->after = NULL;
    turn->before = lane->turns_last;
    if (lane->turns_last != NULL)
        lane->turns_last->after = turn;
    else
        lane->turns = turn;
    lane->turns_last = turn;
}

void ps_lane_drop_turn(struct ps_lane *lane, struct ps_waiter *turn)
{
    if (!turn->waiting)
        return;
    if (turn->before != NULL)
        turn->before->after = turn->after;
    else
        lane->turns = turn->after;
    if (turn->after != NULL)
        turn->after->before = turn->before;
    else
        lane->turns_last = turn->before;
    turn->waiting = false;
}

/* The look at the clock is planned with the first limit only; the look itself plans the next
 * one. */
void ps_lane_limit(struct ps_lane *lane, struct ps_limit *limit, gpr_timespec until)
{
    PS_ASSERT(!limit->waiting);
    if (lane->limits == NULL)
        lane->look = in_a_second();
    limit->until = until;
    limit->waiting = true;
    limit->before = NULL;
    limit->after = lane->limits;
    if (lane->limits != NULL)
        lane->limits->before = limit;
    lane->limits = limit;
}

void ps_lane_unlimit(struct ps_lane *lane, struct ps_limit *limit)
{
    if (!limit->waiting)
        return;
    if (limit->before != NULL)
        limit->before->after = limit->after;
    else
        lane->limits = limit->after;
    if (limit->after != NULL)
        limit->after->before = limit->before;
    limit->waiting = false;
}

/* The flag comes before the bell: a lane that wakes must find it, for nothing rings again. The
 * slots end by themselves, since the server's shutdown gives all their tags back. */
void ps_lane_stop(struct ps_lane *lane)
{
    atomic_store(&lane->stopping, true);
    ps_lane_ring(lane);
    ps_thread_join(&lane->thread);
    PS_ASSERT(lane->live == 0 && lane->waiters == NULL && lane->limits == NULL &&
              lane->turns == NULL);
}

/* gRPC wants a queue shut down and emptied before it is destroyed; and the bell's call must be gone
 * before that, because its batch would come into a queue that is closed. */
void ps_lane_destroy(struct ps_lane *lane)
{
    if (lane == NULL)
        return;
    PS_ASSERT(lane->live == 0);
    close_bell(lane);
    grpc_completion_queue_shutdown(lane->queue);
    drain_queue(lane);
    grpc_completion_queue_destroy(lane->queue);
    for (size_t i = 0; i < lane->slot_count; i++)
        ps_release(lane->context->memory, lane->slots[i].memory);
    ps_release(lane->context->memory, lane->slots);
    ps_mutex_fini(&lane->bell_lock);
    ps_release(lane->context->memory, lane);
}

/* Another thread may be ringing at this moment: it either has the lock and its batch is in the
 * queue, or finds no bell. The call is given up without the lock, since gRPC may do work then. */
static void close_bell(struct ps_lane *lane)
{
    ps_mutex_lock(&lane->bell_lock);
    grpc_call *bell = lane->bell;
    lane->bell = NULL;
    ps_mutex_unlock(&lane->bell_lock);
    grpc_call_unref(bell);
    grpc_channel_destroy(lane->bell_channel);
}

/* Only a last ring of the bell can still be there. */
static void drain_queue(struct ps_lane *lane)
{
    for (;;) {
        grpc_event event =
            grpc_completion_queue_next(lane->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            return;
        PS_ASSERT(event.tag == &lane->bell_tag);
    }
}
