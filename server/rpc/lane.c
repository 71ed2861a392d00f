/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of a lane's thread: events of gRPC, turns of calls that have more to do, limits, and the
 * wake-ups of other threads. All lists belong to this thread, so that only a wake-up takes a
 * lock. */
#include "server/rpc/lane.h"

#include "base/assert.h"
#include "base/clock.h"
#include "server/rpc/rpc_context.h"
#include "server/rpc/slots.h"

#include <grpc/support/time.h>
#include <utlist.h>

/* A tag is a void pointer on its way through gRPC: the magic number tells a stale or foreign one
 * before its function is called. */
enum { TAG_MAGIC = 0x70737467 };

/* So many events may come between two turns of calls that have more to do: a turn may take most of
 * a millisecond, and an event is some microseconds of work. */
enum { EVENTS_PER_TURN = 16 };

/* So many waiters are asked between two events: the wake-up that concerns thousands of them does
 * not keep the calls of others. */
enum { ASKS_PER_EVENT = 16 };

/* So many events may come between two looks at the clock: limits are seconds long. */
enum { EVENTS_PER_LOOK = 16 };

static void run(void *argument);
static grpc_event next_event(struct ps_lane *lane);
static grpc_event look(struct ps_lane *lane);
static gpr_timespec next_look(const struct ps_lane *lane);
static void give_turn(struct ps_lane *lane, bool idle);
static void ask_some(struct ps_lane *lane);
static void join(struct ps_waiter **list, struct ps_waiter *waiter);
static void look_at_limits(struct ps_lane *lane);
static bool may_end(struct ps_lane *lane);
static void wake_step(void *owner, bool ok);
static void close_wake_call(struct ps_lane *lane);
static void drain_queue(struct ps_lane *lane);

void ps_tag_init(struct ps_tag *tag, void (*step)(void *owner, bool ok), void *owner)
{
    *tag = (struct ps_tag){.magic = TAG_MAGIC, .step = step, .owner = owner};
}

/* The wake-up is an event on the lane's own queue, since a thread that sleeps there hears of
 * nothing else. gRPC has no alarm in its C core's public interface, so an empty batch on a call
 * over a channel that leads nowhere makes the event. */
enum ps_status ps_lane_create(struct ps_rpc_context *context, size_t slots_max,
                              struct ps_lane **out, struct ps_error *error)
{
    struct ps_lane *lane = ps_zeroed(context->memory, sizeof *lane);
    if (lane == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "rpc: no lane");
    lane->context = context;
    ps_mutex_init(&lane->wake_lock, PS_RANK_QUEUE);
    ps_tag_init(&lane->wake_tag, wake_step, lane);
    lane->queue = grpc_completion_queue_create_for_next(NULL);
    grpc_server_register_completion_queue(context->server, lane->queue, NULL);
    lane->wake_channel =
        grpc_lame_client_channel_create("wake", GRPC_STATUS_UNAVAILABLE, "no call goes here");
    lane->wake_call = grpc_channel_create_call(lane->wake_channel, NULL, 0, lane->queue,
                                               grpc_slice_from_static_string("/wake"), NULL,
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
void ps_lane_adopt(struct ps_lane *lane, struct ps_slots *slots)
{
    PS_ASSERT(lane->slot_count < lane->slots_max);
    lane->slots[lane->slot_count++] = slots;
}

/* Said when nothing is in flight for the call: at 0 no tag of any call is in the queue any more. */
void ps_lane_call_ended(struct ps_lane *lane)
{
    PS_ASSERT(lane->live > 0);
    lane->live--;
}

enum ps_status ps_lane_start(struct ps_lane *lane, struct ps_error *error)
{
    return ps_thread_start(&lane->thread, "rpc lane", run, lane, error);
}

/* One event, then perhaps a turn, then perhaps a look at the limits: no kind of work can keep the
 * others from their part, however busy the lane is. */
static void run(void *argument)
{
    struct ps_lane *lane = argument;
    /* Sets the floating-point mode in which updates are computed, without which two lanes could
     * give one gradient different bits. */
    ps_service_enter_thread();
    ps_busy_poll_init(&lane->poll, lane->context->busy_poll);
    uint32_t events = 0;
    for (size_t i = 0; i < lane->slot_count; i++)
        ps_slots_invite(lane->slots[i]);
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
        ask_some(lane);
        if (event.type != GRPC_OP_COMPLETE || ++events % EVENTS_PER_LOOK == 0)
            look_at_limits(lane);
    }
}

/* An event that is there already; else the lane looks for as long as busy polling allows, and then
 * sleeps. It neither polls nor sleeps while a call has more to do or is to be asked. */
static grpc_event next_event(struct ps_lane *lane)
{
    grpc_event event = {.type = GRPC_QUEUE_TIMEOUT};
    if (lane->turns != NULL || lane->asking != NULL)
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

/* All limits, once a second: they are few, so that keeping them in order would cost more. A limit
 * that has passed leaves the list first: its owner may set another at once. */
static void look_at_limits(struct ps_lane *lane)
{
    if (lane->limits == NULL)
        return;
    gpr_timespec now = gpr_now(GPR_CLOCK_MONOTONIC);
    if (gpr_time_cmp(now, lane->look) < 0)
        return;
    lane->look = in_a_second();
    struct ps_limit *limit;
    struct ps_limit *next;
    DL_FOREACH_SAFE(lane->limits, limit, next) {
        if (gpr_time_cmp(now, limit->until) < 0) {
            if (limit->is_sharp)
                lane->look = gpr_time_min(lane->look, limit->until);
            continue;
        }
        /* Off the list before the call: whoever is told may set the same limit again, and a limit
         * that stood in the list twice would close it to a ring. */
        ps_lane_unlimit(lane, limit);
        limit->passed(limit->owner);
    }
}

/* Both are needed. A lane without live calls that is not stopping has merely not begun; one that
 * stops with calls alive would leave their tags, and clients, to nobody. */
static bool may_end(struct ps_lane *lane)
{
    return lane->live == 0 && atomic_load(&lane->stopping);
}

/* With the lock. One event is enough for any number of wake-ups: the flag says that one is on its
 * way. The lock is held over the empty batch, which only queues an event: it never blocks, calls
 * nothing back, and must not meet a call that is closed. */
static void make_event(struct ps_lane *lane)
{
    if (lane->wake_call == NULL || lane->is_woken)
        return;
    lane->is_woken = true;
    grpc_call_error failed = grpc_call_start_batch(lane->wake_call, NULL, 0, &lane->wake_tag, NULL);
    PS_ASSERT(failed == GRPC_CALL_OK);
}

/* Topics that change before the lane comes to the event are put together: a waiter is asked once
 * for all of them. */
void ps_lane_wake(struct ps_lane *lane, uint64_t topics)
{
    ps_mutex_lock(&lane->wake_lock);
    lane->topics |= topics;
    make_event(lane);
    ps_mutex_unlock(&lane->wake_lock);
}

/* A list of its own, and not a topic: the end of one helper's work concerns one call, however many
 * others are away. */
void ps_lane_hand_back(struct ps_lane *lane, struct ps_waiter *waiter)
{
    ps_mutex_lock(&lane->wake_lock);
    PS_ASSERT(lane->wake_call != NULL);
    join(&lane->handed, waiter);
    make_event(lane);
    ps_mutex_unlock(&lane->wake_lock);
}

/* At the end: whoever began to wait first is asked first. */
static void join(struct ps_waiter **list, struct ps_waiter *waiter)
{
    PS_ASSERT(waiter->list == NULL);
    DL_APPEND(*list, waiter);
    waiter->list = list;
}

/* One by one and not as a whole, since each waiter knows the list that it stands in. Each of them
 * is to be asked, so that this adds little to the work. */
static void move_all(struct ps_waiter **from, struct ps_waiter **to)
{
    while (*from != NULL) {
        struct ps_waiter *waiter = *from;
        DL_DELETE(*from, waiter);
        waiter->list = NULL;
        join(to, waiter);
    }
}

/* The flag falls before the waiters are asked: a change that comes after that makes another event.
 * They only change lists here: asking is work, and others have their turn in between. */
static void wake_step(void *owner, bool ok)
{
    struct ps_lane *lane = owner;
    (void)ok;
    ps_mutex_lock(&lane->wake_lock);
    lane->is_woken = false;
    uint64_t topics = lane->topics;
    lane->topics = 0;
    /* Calls that were handed back have waited longest for this thread. */
    move_all(&lane->handed, &lane->asking);
    ps_mutex_unlock(&lane->wake_lock);
    if ((topics & PS_TOPIC_BIT(PS_TOPIC_LIFE)) != 0)
        topics = UINT64_MAX;
    /* By their bits: no more lists are looked at than there are topics. */
    for (uint32_t topic = 0; topic < PS_TOPIC_COUNT && topics >> topic != 0; topic++)
        if ((topics & PS_TOPIC_BIT(topic)) != 0)
            move_all(&lane->waiters[topic], &lane->asking);
}

/* A waiter whose topic changes again while it stands here is asked after both changes. */
static void ask_some(struct ps_lane *lane)
{
    for (int i = 0; i < ASKS_PER_EVENT && lane->asking != NULL; i++) {
        struct ps_waiter *waiter = lane->asking;
        ps_lane_leave(lane, waiter);
        ps_rpc_metrics_asked(&lane->context->metrics);
        waiter->woken(waiter->owner);
    }
}

/* The links stand in the waiter itself, so that to wait can never fail for want of memory. */
void ps_lane_wait(struct ps_lane *lane, struct ps_waiter *waiter, uint32_t topic)
{
    PS_ASSERT(topic < PS_TOPIC_COUNT);
    join(&lane->waiters[topic], waiter);
}

/* Twice is allowed, because a call that ends does not know whether its wait had ended before. */
void ps_lane_leave(struct ps_lane *lane, struct ps_waiter *waiter)
{
    if (waiter->list == NULL)
        return;
    PS_ASSERT(waiter->list != &lane->handed);
    DL_DELETE(*waiter->list, waiter);
    waiter->list = NULL;
}

/* To the call that has waited longest, when no event is waiting (`idle`) or enough of them came. */
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
    join(&lane->turns, turn);
}

void ps_lane_drop_turn(struct ps_lane *lane, struct ps_waiter *turn)
{
    ps_lane_leave(lane, turn);
}

/* The first limit sets the clock going: a lane without limits never wakes for one. */
void ps_lane_limit(struct ps_lane *lane, struct ps_limit *limit, gpr_timespec until)
{
    PS_ASSERT(!limit->waiting);
    if (lane->limits == NULL)
        lane->look = in_a_second();
    limit->until = until;
    limit->is_sharp = false;
    limit->waiting = true;
    DL_PREPEND(lane->limits, limit);
}

/* The next look comes earlier; it sees whose moment was sharp, and sets the one after that. */
void ps_lane_limit_sharp(struct ps_lane *lane, struct ps_limit *limit, gpr_timespec until)
{
    ps_lane_limit(lane, limit, until);
    limit->is_sharp = true;
    lane->look = gpr_time_min(lane->look, until);
}

void ps_lane_unlimit(struct ps_lane *lane, struct ps_limit *limit)
{
    if (!limit->waiting)
        return;
    DL_DELETE(lane->limits, limit);
    limit->waiting = false;
}

/* Woken so that the thread sees the flag: every call has ended already, or ends by the events that
 * the server's shutdown has made. */
void ps_lane_stop(struct ps_lane *lane)
{
    atomic_store(&lane->stopping, true);
    ps_lane_wake(lane, 0);
    ps_thread_join(&lane->thread);
    PS_ASSERT(lane->live == 0 && lane->limits == NULL && lane->turns == NULL);
    PS_ASSERT(lane->asking == NULL && lane->handed == NULL);
    for (size_t i = 0; i < PS_TOPIC_COUNT; i++)
        PS_ASSERT(lane->waiters[i] == NULL);
}

/* The wake call goes before the queue is shut down: no event may be begun on a queue that is. */
void ps_lane_destroy(struct ps_lane *lane)
{
    if (lane == NULL)
        return;
    PS_ASSERT(lane->live == 0);
    close_wake_call(lane);
    grpc_completion_queue_shutdown(lane->queue);
    drain_queue(lane);
    grpc_completion_queue_destroy(lane->queue);
    for (size_t i = 0; i < lane->slot_count; i++)
        ps_slots_destroy(lane->slots[i]);
    ps_release(lane->context->memory, lane->slots);
    ps_mutex_fini(&lane->wake_lock);
    ps_release(lane->context->memory, lane);
}

/* Other threads may still want to wake the lane: they find no call any more. */
static void close_wake_call(struct ps_lane *lane)
{
    ps_mutex_lock(&lane->wake_lock);
    grpc_call *call = lane->wake_call;
    lane->wake_call = NULL;
    ps_mutex_unlock(&lane->wake_lock);
    grpc_call_unref(call);
    grpc_channel_destroy(lane->wake_channel);
}

/* Only a last wake-up can still be there. */
static void drain_queue(struct ps_lane *lane)
{
    for (;;) {
        grpc_event event =
            grpc_completion_queue_next(lane->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            return;
        PS_ASSERT(event.tag == &lane->wake_tag);
    }
}
