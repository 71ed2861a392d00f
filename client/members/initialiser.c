/* SPDX-License-Identifier: Apache-2.0 */
/* The queue for the initialisation lock, seen from one trainer. The lock is a key under a lease:
 * the trainer whose key was created first is selected, and a trainer that dies leaves the queue
 * when its lease ends. Nothing here decides by time who may go on; that is the store's transaction
 * in finish, which demands that our key is still there.
 *
 * A way to ask belongs to one thread at a time. While the lock is held that is the keeper, which
 * keeps the lease; every function that asks by itself stops the keeper first and starts it again
 * when the lock is still ours. */
#include "client/members/initialiser.h"

#include "base/assert.h"

#include <string.h>

/* After a failure, ask again after this long. */
#define PAUSE_MS 200
/* Most for giving the lock up at the end. */
#define ABANDON_MS 2000

static void keep(void *argument);

/* A struct without a way is one that was never begun, for fini and for the public calls. */
void ps_initialiser_init(struct ps_initialiser *initialiser, const struct ps_init_way *way,
                         uint64_t ttl_ms, const struct ps_clock *clock)
{
    PS_ASSERT(way->self != NULL);
    memset(initialiser, 0, sizeof *initialiser);
    initialiser->clock = clock;
    initialiser->ttl_ms = ttl_ms;
    initialiser->way = *way;
    ps_wake_init(&initialiser->stop);
}

/* Also without a keeper. The interrupt stays with the way when nobody waits there: the next wait
 * for a change then returns at once, and looks once more than needed. */
static void stop_keeping(struct ps_initialiser *initialiser)
{
    ps_wake_all(&initialiser->stop);
    initialiser->way.interrupt(initialiser->way.self);
    ps_thread_join(&initialiser->keeper);
    initialiser->keeper.started = false;
}

/* The count is read before the thread exists: a stop that comes between the two is seen by the
 * thread's first look. */
static enum ps_status start_keeping(struct ps_initialiser *initialiser, struct ps_error *error)
{
    PS_ASSERT(!initialiser->keeper.started);
    initialiser->heard = ps_wake_count(&initialiser->stop);
    atomic_store(&initialiser->lost, false);
    return ps_thread_start(&initialiser->keeper, "ps_init_lock", keep, initialiser, error);
}

/* Best effort, for a bounded time: when nobody answers, the lease ends by itself and the next
 * trainer is selected then, ttl_ms later. */
static void give_up(struct ps_initialiser *initialiser)
{
    PS_ASSERT(!initialiser->keeper.started);
    initialiser->way.abandon(initialiser->way.self,
                             ps_deadline_after(initialiser->clock, ABANDON_MS));
    initialiser->holding = false;
}

void ps_initialiser_fini(struct ps_initialiser *initialiser)
{
    if (initialiser->way.self == NULL)
        return;
    stop_keeping(initialiser);
    give_up(initialiser);
    initialiser->way.destroy(initialiser->way.self);
    ps_wake_fini(&initialiser->stop);
    initialiser->way = (struct ps_init_way){0};
}

/* Whoever cancels interrupts the way afterwards, so that no wait is begun that nobody ends. */
static bool is_cancelled(const struct ps_initialiser *initialiser)
{
    return initialiser->is_cancelled != NULL && atomic_load(initialiser->is_cancelled);
}

/* A lost lease costs the place in the queue and nothing else, so that it is repeated as well. A
 * failure that repeating cannot mend, a denied login for example, is not. */
static bool worth_repeating(enum ps_status status)
{
    enum ps_remedy remedy = ps_status_remedy(status);
    return remedy == PS_REMEDY_RETRY || remedy == PS_REMEDY_REROUTE ||
           remedy == PS_REMEDY_UNKNOWN || status == PS_ERR_LEASE_LOST;
}

/* Ends in one of three ways: selected, with a keeper; initialised by somebody, with our place given
 * up; or given up, so that a trainer that has gone away is not the one that others wait for. */
enum ps_status ps_initialiser_begin(struct ps_initialiser *initialiser, uint64_t deadline_ms,
                                    bool *selected, struct ps_error *error)
{
    struct ps_error why = {.status = PS_ERR_UNAVAILABLE,
                           .text = "another trainer initialises the job"};
    /* Called again by a trainer that was selected, after servers have lost what they were given:
     * its key is still the first, and the first look selects it again. */
    if (initialiser->holding)
        stop_keeping(initialiser);
    initialiser->holding = false;
    for (;;) {
        enum ps_init_turn turn = PS_INIT_WAIT;
        struct ps_error failure = {.status = PS_OK};
        enum ps_status status =
            initialiser->way.turn(initialiser->way.self, deadline_ms, &turn, &failure);
        /* Before anybody places anything: who initialises goes on with what an earlier one has
         * decided, and who finds the job initialised looks where the parameters are. */
        if (status == PS_OK && turn != PS_INIT_WAIT)
            status = initialiser->way.decide(initialiser->way.self, 0, deadline_ms,
                                             &initialiser->placement, &failure);
        if (status == PS_OK && turn == PS_INIT_DONE) {
            *selected = false;
            return PS_OK;
        }
        if (status == PS_OK && turn == PS_INIT_SELECTED) {
            PS_TRY(start_keeping(initialiser, error));
            initialiser->holding = true;
            *selected = true;
            return PS_OK;
        }
        if (status != PS_OK && !worth_repeating(status)) {
            give_up(initialiser);
            return ps_fail(error, status, "%s", failure.text);
        }
        if (status != PS_OK)
            why = failure;
        /* Behind the look, not before it: a deadline of 0 asks once. */
        if (ps_time_left_ms(initialiser->clock, deadline_ms) == 0 || is_cancelled(initialiser))
            break;
        if (status != PS_OK)
            ps_wake_wait(&initialiser->stop, ps_wake_count(&initialiser->stop), PAUSE_MS);
    }
    give_up(initialiser);
    return ps_fail(error, PS_ERR_UNAVAILABLE, "not selected in time: %.200s", why.text);
}

/* Means "begin again": another trainer may have been selected meanwhile. */
static enum ps_status not_the_owner(struct ps_error *error)
{
    return ps_fail(error, PS_ERR_STALE_EPOCH, "no longer the owner of the lock");
}

/* The lock is still ours, as far as we know. */
static enum ps_status go_on_keeping(struct ps_initialiser *initialiser, struct ps_error *error)
{
    enum ps_status started = start_keeping(initialiser, error);
    initialiser->holding = started == PS_OK;
    return started;
}

/* The question is limited to the lease's own time, because nobody keeps the lease while the keeper
 * is stopped: an answer that comes later would be about a lock that is gone. */
static enum ps_status stop_for_question(struct ps_initialiser *initialiser, uint64_t deadline_ms,
                                        uint64_t *look_ms, struct ps_error *error)
{
    if (!initialiser->holding || atomic_load(&initialiser->lost))
        return not_the_owner(error);
    *look_ms = ps_deadline_after(initialiser->clock, initialiser->ttl_ms);
    if (*look_ms > deadline_ms)
        *look_ms = deadline_ms;
    stop_keeping(initialiser);
    return PS_OK;
}

/* The first failure is the one to tell; a keeper that cannot start counts when there was none. */
static enum ps_status go_on_after(struct ps_initialiser *initialiser, enum ps_status status,
                                  struct ps_error *error)
{
    enum ps_status started = go_on_keeping(initialiser, status == PS_OK ? error : NULL);
    return status == PS_OK ? started : status;
}

enum ps_status ps_initialiser_prepare(struct ps_initialiser *initialiser, uint64_t deadline_ms,
                                      struct ps_error *error)
{
    uint64_t look_ms = 0;
    PS_TRY(stop_for_question(initialiser, deadline_ms, &look_ms, error));
    enum ps_status status = initialiser->way.prepare(initialiser->way.self, look_ms, error);
    return go_on_after(initialiser, status, error);
}

/* As prepare: the keeper is away for one question, whose answer counts while the lease lasts. A
 * number that was decided outlives the lease, so that nothing has to be taken back. */
enum ps_status ps_initialiser_decide(struct ps_initialiser *initialiser, uint64_t proposal,
                                     uint64_t deadline_ms, uint64_t *decided,
                                     struct ps_error *error)
{
    uint64_t look_ms = 0;
    PS_ASSERT(proposal != 0);
    PS_TRY(stop_for_question(initialiser, deadline_ms, &look_ms, error));
    enum ps_status status =
        initialiser->way.decide(initialiser->way.self, proposal, look_ms, decided, error);
    return go_on_after(initialiser, status, error);
}

/* OK and STALE_EPOCH both mean that there is no lock any more. After everything else, a timeout
 * included, the lock counts as held: should the transaction have gone through, the next attempt
 * says STALE_EPOCH, and begin then finds the job initialised. */
enum ps_status ps_initialiser_finish(struct ps_initialiser *initialiser, uint64_t deadline_ms,
                                     struct ps_error *error)
{
    if (!initialiser->holding)
        return not_the_owner(error);
    stop_keeping(initialiser);
    enum ps_status status = initialiser->way.finish(initialiser->way.self, deadline_ms, error);
    if (status == PS_OK || status == PS_ERR_STALE_EPOCH) {
        initialiser->holding = false;
        return status;
    }
    enum ps_status ignored = go_on_keeping(initialiser, NULL); /* to be tried again */
    (void)ignored;
    return status;
}

/* Keeps the lease until told to stop. A failure is tried again soon, since a third of the time has
 * passed already. A lease that is lost shows when the lock is used: the thread only notes it, so
 * that prepare need not ask. */
static void keep(void *argument)
{
    struct ps_initialiser *initialiser = argument;
    uint64_t third_ms = initialiser->ttl_ms / 3;
    while (ps_wake_count(&initialiser->stop) == initialiser->heard) {
        enum ps_status status = initialiser->way.keep(
            initialiser->way.self, ps_deadline_after(initialiser->clock, third_ms), NULL);
        if (status == PS_ERR_LEASE_LOST) {
            atomic_store(&initialiser->lost, true);
            return;
        }
        ps_wake_wait(&initialiser->stop, initialiser->heard, status == PS_OK ? third_ms : PAUSE_MS);
    }
}
