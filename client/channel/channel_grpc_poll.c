/* SPDX-License-Identifier: Apache-2.0 */
/* Which thread sits in the completion queue. A caller that waits for an answer sits there itself,
 * so that its answer wakes no other thread. While no caller does, the keeper does: without any
 * thread there, gRPC neither reads nor answers pings. The keeper leaves the queue to callers for as
 * long as they come back soon; when none has polled for a moment, the keeper takes the queue again.
 *
 * A caller that finds the keeper in the queue waits for what the keeper finds there: the keeper
 * looks up after each event. `role->mutex` guards who has the queue; the thread that has it handles
 * its events without that lock, since handling takes others. */
#include "client/channel/channel_grpc.h"

#include "base/assert.h"

#include <grpc/support/time.h>

/* So long nobody may be in the queue between two calls of somebody who calls often. */
#define KEEPER_PAUSE_MS 20
/* A caller is in the queue for long: the keeper looks less often whether that still holds. */
#define KEEPER_LONG_PAUSE_MS 200

/* Who polls takes what is there already, but not more at once. */
enum { EVENTS_PER_POLL = 16 };

static void keep(void *argument);
static bool is_needed(struct ps_grpc_side *side);
static void take_turn(struct ps_grpc_side *side);
static void do_work(struct ps_grpc_side *side);
static grpc_event next_event(struct ps_grpc_side *side);
static void handle_together(struct ps_grpc_side *side, grpc_event event);
static bool handle_next(struct ps_grpc_side *side, gpr_timespec deadline);
static bool handle(struct ps_grpc_side *side, grpc_event event);
static bool has_company(struct ps_grpc_side *side);
static grpc_event look(struct ps_grpc_side *side);
static bool become_caller(struct ps_grpc_side *side, uint64_t timeout_ms);
static void kick(struct ps_grpc_role *role);

/* The kick is an empty batch on a call that never leaves: such a batch is an event at once,
 * which is how a thread in the queue is woken. When the keeper cannot be started, stop undoes
 * the rest. */
enum ps_status ps_grpc_poll_start(struct ps_grpc_side *side, struct ps_error *error)
{
    struct ps_grpc_role *role = &side->role;
    ps_mutex_init(&role->mutex, PS_RANK_LEAF);
    ps_condition_init(&role->changed);
    ps_condition_init(&role->keeper_wanted);
    role->kick_tag = PS_TAG_KICK;
    role->kick_channel =
        grpc_lame_client_channel_create("kick", GRPC_STATUS_UNAVAILABLE, "no call goes here");
    role->kick = grpc_channel_create_call(role->kick_channel, NULL, 0, side->queue,
                                          grpc_slice_from_static_string("/kick"), NULL,
                                          gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    return ps_thread_start(&role->keeper, "ps_channel", keep, side, error);
}

/* Ends the keeper, then takes what the queue still holds: a watch under way has a connection as its
 * tag, whose memory is given back only behind the watch. */
void ps_grpc_poll_stop(struct ps_grpc_side *side)
{
    struct ps_grpc_role *role = &side->role;
    ps_mutex_lock(&role->mutex);
    PS_ASSERT(role->poller != PS_POLLER_CALLER);
    role->ending = true;
    grpc_call *kick = role->kick;
    /* Under the lock: a kick that comes later finds no call instead of one given back. */
    role->kick = NULL;
    ps_condition_signal_all(&role->keeper_wanted);
    ps_mutex_unlock(&role->mutex);

    grpc_call_unref(kick);
    grpc_channel_destroy(role->kick_channel);
    /* The keeper may sleep in the queue without a deadline: only the end of the queue wakes it. */
    grpc_completion_queue_shutdown(side->queue);
    if (role->keeper.started)
        ps_thread_join(&role->keeper);
    while (handle_next(side, gpr_inf_future(GPR_CLOCK_MONOTONIC)))
        continue;
    ps_condition_fini(&role->keeper_wanted);
    ps_condition_fini(&role->changed);
    ps_mutex_fini(&role->mutex);
}

/* Handles the next event, if one comes in time. False when the queue is shut and empty. */
static bool handle_next(struct ps_grpc_side *side, gpr_timespec deadline)
{
    return handle(side, grpc_completion_queue_next(side->queue, deadline, NULL));
}

static bool handle(struct ps_grpc_side *side, grpc_event event)
{
    struct ps_grpc_role *role = &side->role;
    if (event.type != GRPC_OP_COMPLETE)
        return event.type != GRPC_QUEUE_SHUTDOWN;
    if (event.tag != &role->kick_tag) {
        /* Only the poller reads this: a wake-up by the poller's own event is not worth a kick. */
        role->handling = true;
        ps_grpc_handle(side, event.tag, event.success != 0);
        role->handling = false;
        return true;
    }
    ps_mutex_lock(&role->mutex);
    /* Only now may another kick start: its one call and tag are free again. */
    role->kicked = false;
    ps_mutex_unlock(&role->mutex);
    return true;
}

/* ---- The keeper ---- */

/* Lets callers have the queue while any comes: the keeper polls only after a pause in which none
 * has. A wait that ends early does no harm: all is looked at again. */
static void keep(void *argument)
{
    struct ps_grpc_side *side = argument;
    struct ps_grpc_role *role = &side->role;
    uint64_t polls = 0;
    ps_mutex_lock(&role->mutex);
    while (!role->ending) {
        /* Every poll since the last look gives callers another pause, so that a caller that comes
         * back often finds the queue free. */
        bool fresh = polls != role->polls;
        if (role->poller == PS_POLLER_CALLER || (fresh && !is_needed(side))) {
            polls = role->polls;
            /* A repetition of an operation that nobody waits for may be due. */
            bool is_short = fresh || role->work != NULL;
            (void)ps_condition_wait(&role->keeper_wanted, &role->mutex,
                                    is_short ? KEEPER_PAUSE_MS : KEEPER_LONG_PAUSE_MS);
            continue;
        }
        take_turn(side);
        /* A caller that came during the turn takes its answer, or the queue. */
        if (role->caller_waits)
            ps_condition_signal_all(&role->changed);
    }
    ps_mutex_unlock(&role->mutex);
}

/* Somebody counts on the keeper, and no caller is there: operations are under way whose owner only
 * waits to be told. Which of the calls under way these are, nobody here can say: one that a caller
 * waits for brings that caller to the queue. */
static bool is_needed(struct ps_grpc_side *side)
{
    const struct ps_grpc_role *role = &side->role;
    return role->work != NULL && (role->roused || atomic_load(&side->running) > 0);
}

/* One turn in the queue; under the lock, but for the turn itself, since work and events come back
 * into the channel. The role is taken before: a caller that comes meanwhile waits instead of
 * entering the queue beside the keeper. What a caller left undone (`idle`) is done once, at the
 * beginning. */
static void take_turn(struct ps_grpc_side *side)
{
    struct ps_grpc_role *role = &side->role;
    PS_ASSERT(role->poller == PS_POLLER_NOBODY);
    role->poller = PS_POLLER_KEEPER;
    role->thread = pthread_self();
    role->roused = false;
    void (*idle)(void *owner) = role->idle;
    void *owner = role->idle_owner;
    role->idle = NULL;
    bool works = role->work != NULL;
    ps_mutex_unlock(&role->mutex);
    if (idle != NULL)
        idle(owner);
    if (!works) {
        (void)handle_next(side, gpr_inf_future(GPR_CLOCK_MONOTONIC));
    } else {
        /* Before the event for what was left behind by callers, and behind it for its outcomes:
         * the next turn may come after a pause only. */
        do_work(side);
        handle_together(side, next_event(side));
        do_work(side);
    }
    ps_mutex_lock(&role->mutex);
    role->poller = PS_POLLER_NOBODY;
}

/* The time until which the keeper sleeps stays while it is not over, also when the owner knows no
 * such time any more: a thread that then begins something with a later deadline need not wake the
 * keeper, for the price of one wake-up for nothing at that time. */
static void do_work(struct ps_grpc_side *side)
{
    struct ps_grpc_role *role = &side->role;
    ps_mutex_lock(&role->mutex);
    if (role->work_ms <= ps_now_ms(side->clock))
        role->work_ms = PS_DEADLINE_NEVER;
    uint64_t (*work)(void *owner) = role->work;
    void *owner = role->work_owner;
    ps_mutex_unlock(&role->mutex);
    PS_ASSERT(work != NULL);
    role->handling = true; /* what it wakes is this thread, which looks again anyway */
    uint64_t wake_ms = work(owner);
    role->handling = false;
    ps_mutex_lock(&role->mutex);
    if (wake_ms < role->work_ms)
        role->work_ms = wake_ms;
    ps_mutex_unlock(&role->mutex);
}

/* Sleeps until there is one, or until there is work. A time that is moved forward while the keeper
 * sleeps comes with a kick, which is an event, too; so nothing has to be looked at again here
 * between reading that time and going to sleep. */
static grpc_event next_event(struct ps_grpc_side *side)
{
    struct ps_grpc_role *role = &side->role;
    ps_mutex_lock(&role->mutex);
    uint64_t work_ms = role->work_ms;
    ps_mutex_unlock(&role->mutex);
    gpr_timespec deadline = gpr_inf_future(GPR_CLOCK_MONOTONIC);
    if (work_ms != PS_DEADLINE_NEVER)
        deadline = ps_grpc_after_ms(ps_time_left_ms(side->clock, work_ms));
    return grpc_completion_queue_next(side->queue, deadline, NULL);
}

/* Never taken back: the work itself finds out when there is nothing left to do. */
void ps_grpc_poll_employ(struct ps_grpc_side *side, uint64_t (*work)(void *owner), void *owner)
{
    struct ps_grpc_role *role = &side->role;
    ps_mutex_lock(&role->mutex);
    role->work = work;
    role->work_owner = owner;
    role->work_ms = PS_DEADLINE_NEVER;
    ps_mutex_unlock(&role->mutex);
    ps_grpc_poll_rouse(side, 0);
}

/* A keeper in the queue has to be woken only for something earlier than what it sleeps until. A
 * keeper that leaves the queue to callers comes without a pause, as soon as no caller is there. */
void ps_grpc_poll_rouse(struct ps_grpc_side *side, uint64_t wake_ms)
{
    struct ps_grpc_role *role = &side->role;
    ps_mutex_lock(&role->mutex);
    bool is_earlier = wake_ms < role->work_ms;
    if (role->poller != PS_POLLER_KEEPER) {
        role->roused = true;
        ps_condition_signal_all(&role->keeper_wanted);
    } else if (is_earlier) {
        role->work_ms = wake_ms;
        kick(role);
    }
    ps_mutex_unlock(&role->mutex);
}

/* ---- Callers ---- */

/* Looks first, for as long as the busy poll allows, and sleeps in the queue only then. After a
 * small flight a few more events are taken at once, since answers of calls that left together come
 * together. */
void ps_grpc_poll(struct ps_grpc_side *side, uint64_t timeout_ms)
{
    struct ps_grpc_role *role = &side->role;
    if (!become_caller(side, timeout_ms))
        return;
    struct ps_busy_poll *poll = &role->busy_poll;
    grpc_event event = {.type = GRPC_QUEUE_TIMEOUT};
    /* A look is also all there is to a poll without time: the queue rounds a deadline up, and would
     * sleep for a millisecond. */
    if (poll->wish.spin_ns != 0 || timeout_ms == 0)
        event = look(side);
    bool may_wait = event.type == GRPC_QUEUE_TIMEOUT && timeout_ms > 0;
    uint64_t until_ns = may_wait ? ps_busy_poll_begin(poll) : 0;
    if (until_ns != 0) {
        while (event.type == GRPC_QUEUE_TIMEOUT && ps_busy_poll_again(poll, until_ns))
            event = look(side);
        ps_busy_poll_end(poll, event.type != GRPC_QUEUE_TIMEOUT);
    }
    if (event.type == GRPC_QUEUE_TIMEOUT && timeout_ms > 0) {
        gpr_timespec deadline = gpr_inf_future(GPR_CLOCK_MONOTONIC);
        if (timeout_ms != PS_DEADLINE_NEVER)
            deadline = ps_grpc_after_ms(timeout_ms);
        event = grpc_completion_queue_next(side->queue, deadline, NULL);
    }
    handle_together(side, event);
    /* The keeper is not told, unless somebody counts on it: its pause ends by itself, and a caller
     * that comes back before then has not paid for waking a thread. */
    ps_mutex_lock(&role->mutex);
    role->poller = PS_POLLER_NOBODY;
    if (is_needed(side))
        ps_condition_signal_all(&role->keeper_wanted);
    ps_mutex_unlock(&role->mutex);
}

/* The event, and those of small messages that are there already. */
static void handle_together(struct ps_grpc_side *side, grpc_event event)
{
    (void)handle(side, event);
    for (int i = 1; event.type == GRPC_OP_COMPLETE && has_company(side) && i < EVENTS_PER_POLL;
         i++) {
        event = look(side);
        (void)handle(side, event);
    }
}

/* What has just been handled was small, and there may be more like it: what is there together is
 * told together, so that what follows it can leave together (holding.h). */
static bool has_company(struct ps_grpc_side *side)
{
    return side->role.small && atomic_load(&side->running) > 0;
}

/* What is there already. */
static grpc_event look(struct ps_grpc_side *side)
{
    return grpc_completion_queue_next(side->queue, gpr_inf_past(GPR_CLOCK_MONOTONIC), NULL);
}

/* False when there is a reason to return instead: the keeper has handled something, somebody
 * called, or the time is over. */
static bool become_caller(struct ps_grpc_side *side, uint64_t timeout_ms)
{
    struct ps_grpc_role *role = &side->role;
    ps_mutex_lock(&role->mutex);
    PS_ASSERT(!role->caller_waits && role->poller != PS_POLLER_CALLER);
    role->polls++;
    bool free = role->poller == PS_POLLER_NOBODY && !role->called;
    if (free) {
        role->poller = PS_POLLER_CALLER;
        role->thread = pthread_self();
    } else if (!role->called) {
        role->caller_waits = true;
        (void)ps_condition_wait(&role->changed, &role->mutex, timeout_ms);
        role->caller_waits = false;
    }
    /* A wake-up ends one poll: this poll, even when the wake-up came before the poll began. */
    role->called = false;
    ps_mutex_unlock(&role->mutex);
    return free;
}

/* The keeper counts it as a poll, and so sees that a moment without any has passed. */
void ps_grpc_poll_tell_idle(struct ps_grpc_side *side, void (*idle)(void *owner), void *owner)
{
    struct ps_grpc_role *role = &side->role;
    ps_mutex_lock(&role->mutex);
    role->idle = idle;
    role->idle_owner = owner;
    role->polls++;
    if (role->poller == PS_POLLER_KEEPER)
        kick(role);
    ps_mutex_unlock(&role->mutex);
}

/* Makes an event for whoever is in the queue. The lock is held over the empty batch, which only
 * queues that event: it never blocks, calls nobody back, and must not meet a closed call. */
static void kick(struct ps_grpc_role *role)
{
    if (role->kicked || role->kick == NULL)
        return;
    role->kicked = true;
    grpc_call_error failed = grpc_call_start_batch(role->kick, NULL, 0, &role->kick_tag, NULL);
    PS_ASSERT(failed == GRPC_CALL_OK);
}

/* A thread that handles an event looks up afterwards anyway. But gRPC may call back while the
 * thread is still looking for an event: then only a kick makes that look return. */
void ps_grpc_poll_wake(struct ps_grpc_side *side)
{
    struct ps_grpc_role *role = &side->role;
    ps_mutex_lock(&role->mutex);
    /* A keeper without work has no use for being woken. */
    bool in_queue = role->poller == PS_POLLER_CALLER ||
                    (role->poller == PS_POLLER_KEEPER && role->work != NULL);
    bool is_own = in_queue && pthread_equal(role->thread, pthread_self()) && role->handling;
    if (is_own && role->poller == PS_POLLER_CALLER) {
        ps_mutex_unlock(&role->mutex);
        return;
    }
    /* Kept while nobody polls: a wake-up between a caller's look for outcomes and its poll would be
     * lost otherwise, and the caller would sleep beside its answer. */
    role->called = true;
    if (role->caller_waits)
        ps_condition_signal_all(&role->changed);
    if (in_queue && !is_own)
        kick(role);
    ps_mutex_unlock(&role->mutex);
}
