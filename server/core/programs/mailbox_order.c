/* SPDX-License-Identifier: Apache-2.0 */
/* In which order requests are taken. Two lists are sorted the same way, that of the app for takers
 * of any worker's requests, and that of each worker for gangs: the larger priority first, then the
 * smaller sequence number. Most requests come to the end, where the search begins.
 *
 * ps-lite sorts by priority with a comparison that is no order, and hands out equal ones in any
 * order; here they keep the order of their sequence numbers, which they get when all before them in
 * their sender's own order have come. */
#include "server/core/programs/mailbox_parts.h"

#include "base/assert.h"
#include "base/refusal.h"

#include <inttypes.h>
#include <utlist.h>

/* A strict order: no two requests of an app have one sequence number. */
static bool goes_before(const struct ps_program_request *a, const struct ps_program_request *b)
{
    PS_ASSERT(a->seq != b->seq);
    /* As they are: a program that gives none gives all the same. */
    if (a->asked.priority != b->asked.priority)
        return a->asked.priority > b->asked.priority;
    return a->seq < b->seq;
}

/* Sorted from the end: the usual request belongs there. */
static void put_into_app(struct ps_app *app, struct ps_program_request *request)
{
    struct ps_program_request *before = app->waiting != NULL ? app->waiting->prev : NULL;
    PS_ASSERT(request->app == app);
    /* From the last one backwards, to the first that stays before it. */
    while (before != NULL && goes_before(request, before))
        before = before == app->waiting ? NULL : before->prev;
    if (before != NULL)
        DL_APPEND_ELEM(app->waiting, before, request);
    else
        DL_PREPEND(app->waiting, request);
    app->waiting_count++;
}

/* The same search in a list of its own links. */
static void put_into_worker(struct ps_program_worker *worker, struct ps_program_request *request)
{
    struct ps_program_request *before =
        worker->waiting != NULL ? worker->waiting->worker_prev : NULL;
    PS_ASSERT(worker->open > 0);
    while (before != NULL && goes_before(request, before))
        before = before == worker->waiting ? NULL : before->worker_prev;
    if (before != NULL)
        DL_APPEND_ELEM2(worker->waiting, before, request, worker_prev, worker_next);
    else
        DL_PREPEND2(worker->waiting, request, worker_prev, worker_next);
}

/* A sequence number that it has stays: what is given again goes where it was. */
void ps_mailbox_put_back(struct ps_program_request *request)
{
    struct ps_app *app = request->app;
    PS_ASSERT(request->state != PS_PROGRAM_ENDED);
    request->state = PS_PROGRAM_WAITING;
    /* One that comes back has its number, and with it its place. */
    if (request->seq == 0)
        request->seq = ++app->seq;
    put_into_app(app, request);
    put_into_worker(request->worker, request);
}

/* Held requests are few, and lie by their order. */
static void hold(struct ps_program_sender *sender, struct ps_program_request *request)
{
    struct ps_program_request *before = sender->held != NULL ? sender->held->prev : NULL;
    PS_ASSERT(request->order != 0);
    request->state = PS_PROGRAM_HELD;
    while (before != NULL && before->order > request->order)
        before = before == sender->held ? NULL : before->prev;
    if (before != NULL)
        DL_APPEND_ELEM(sender->held, before, request);
    else
        DL_PREPEND(sender->held, request);
}

/* All of the sender's that nothing is missing before any more. */
static void let_on(struct ps_program_sender *sender)
{
    while (sender->held != NULL && sender->held->order <= sender->next) {
        struct ps_program_request *request = sender->held;
        PS_ASSERT(request->state == PS_PROGRAM_HELD);
        DL_DELETE(sender->held, request);
        /* The number goes up only: of what is held some may lie before what the sender has said to
         * be over for it, which none may come of again. */
        if (sender->next <= request->order)
            sender->next = request->order + 1;
        ps_mailbox_put_back(request);
    }
}

/* Through the held ones in any case: it may be what they wait for. */
void ps_mailbox_put_in_order(struct ps_program_request *request)
{
    struct ps_program_sender *sender = request->sender;
    PS_ASSERT(request->seq == 0);
    if (sender == NULL) {
        ps_mailbox_put_back(request);
        return;
    }
    /* If nothing is missing it is held for no longer than this call. */
    hold(sender, request);
    /* What waited for such a gap goes on. */
    let_on(sender);
}

/* One that a taker has is in the taker's list, which is the taker's to keep. */
void ps_mailbox_pull_out(struct ps_program_request *request)
{
    struct ps_app *app = request->app;
    PS_ASSERT(request->state == PS_PROGRAM_HELD || request->state == PS_PROGRAM_WAITING);
    /* Those behind it wait for the gap that it leaves, for a while. */
    if (request->state == PS_PROGRAM_HELD) {
        DL_DELETE(request->sender->held, request);
        return;
    }
    DL_DELETE(app->waiting, request);
    app->waiting_count--;
    DL_DELETE2(request->worker->waiting, request, worker_prev, worker_next);
}

/* ---- Workers and senders ---- */

/* One that has nothing open is as good as none: such are dropped when there are many. */
static void drop_idle_workers(struct ps_mailbox *mailbox, struct ps_app *app)
{
    const struct ps_allocator *memory = mailbox->memory;
    struct ps_program_worker *worker, *next;
    PS_ASSERT(app->workers != NULL);
    HASH_ITER(hh, app->workers, worker, next)
    {
        if (worker->open > 0)
            continue;
        HASH_DELETE(hh, app->workers, worker);
        ps_release(memory, worker);
    }
}

/* A rank is a number that a worker says of itself: nobody is asked whether there is such. */
enum ps_status ps_mailbox_find_or_add_worker(struct ps_mailbox *mailbox, struct ps_app *app,
                                             uint32_t rank, struct ps_program_worker **out,
                                             struct ps_error *error)
{
    const struct ps_allocator *memory = mailbox->memory;
    bool refused = false;
    struct ps_program_worker *worker;
    HASH_FIND(hh, app->workers, &rank, sizeof rank, worker);
    *out = worker;
    if (worker != NULL)
        return PS_OK;
    worker = ps_zeroed(memory, sizeof *worker);
    if (worker != NULL) {
        /* The key of its entry: it does not change. */
        worker->rank = rank;
        HASH_ADD(hh, app->workers, rank, sizeof worker->rank, worker);
    }
    if (worker == NULL || refused) {
        ps_release(memory, worker);
        return ps_fail(error, PS_ERR_NO_MEMORY, "app %" PRIu32 ": no memory for a worker", app->id);
    }
    PS_ASSERT(worker->rank == rank && worker->open == 0);
    *out = worker;
    return PS_OK;
}

/* The sender that was silent for longest, of those of which nothing is known. */
static bool drop_a_sender(struct ps_mailbox *mailbox, struct ps_app *app)
{
    const struct ps_allocator *memory = mailbox->memory;
    struct ps_program_sender *sender, *next, *oldest = NULL;
    HASH_ITER(hh, app->senders, sender, next)
    {
        /* Of others a late repeat could not be told from a new request. */
        if (sender->open == 0 && (oldest == NULL || sender->heard_ms < oldest->heard_ms))
            oldest = sender;
    }
    if (oldest == NULL)
        return false;
    PS_ASSERT(oldest->held == NULL && oldest->ended == NULL);
    HASH_DELETE(hh, app->senders, oldest);
    ps_release(memory, oldest);
    return true;
}

/* Senders outlive their requests, since by them a late repeat is known; so there is a bound on
 * them, and the one that is idle for longest makes room. */
enum ps_status ps_mailbox_find_or_add_sender(struct ps_mailbox *mailbox, struct ps_app *app,
                                             uint64_t id, uint64_t first,
                                             struct ps_program_sender **out, struct ps_error *error)
{
    const struct ps_allocator *memory = mailbox->memory;
    bool refused = false;
    struct ps_program_sender *sender;
    HASH_FIND(hh, app->senders, &id, sizeof id, sender);
    *out = sender;
    if (sender != NULL)
        return PS_OK;
    if (HASH_COUNT(app->senders) >= mailbox->bounds.parties_max && !drop_a_sender(mailbox, app))
        return ps_refuse(error, PS_ERR_BUSY, PS_REFUSED_PROGRAMS, 0,
                         "app %" PRIu32 " has requests of %" PRIu32
                         " senders, and of no more may it have some",
                         app->id, mailbox->bounds.parties_max);
    sender = ps_zeroed(memory, sizeof *sender);
    if (sender != NULL) {
        sender->id = id;
        /* What was before it is none of this server's. */
        sender->next = first;
        sender->from = first;
        HASH_ADD(hh, app->senders, id, sizeof sender->id, sender);
    }
    if (sender == NULL || refused) {
        ps_release(memory, sender);
        return ps_fail(error, PS_ERR_NO_MEMORY, "app %" PRIu32 ": no memory for a sender", app->id);
    }
    PS_ASSERT(HASH_COUNT(app->senders) <= mailbox->bounds.parties_max);
    *out = sender;
    return PS_OK;
}

/* Whoever says from where on it has requests open has got the answers of all before: those need not
 * be kept. What is missing before that never comes. */
void ps_mailbox_sender_done(struct ps_mailbox *mailbox, struct ps_program_sender *sender,
                            uint64_t from)
{
    struct ps_program_request *request = sender->ended;
    PS_ASSERT(sender->from <= sender->next);
    if (from <= sender->from)
        return;
    /* A repeat of one before it comes too late, and is told so. */
    sender->from = from;
    /* Gaps before it close: nobody will fill them. */
    if (sender->next < from)
        sender->next = from;
    while (request != NULL) {
        struct ps_program_request *next = request->ended_next;
        if (request->order < from)
            ps_mailbox_forget(mailbox, request);
        request = next;
    }
    let_on(sender);
}

/* A request that never came may have been given up by its sender, who says so with the next one
 * only. */
bool ps_mailbox_close_gaps(struct ps_mailbox *mailbox, struct ps_app *app, uint64_t now_ms)
{
    struct ps_program_sender *sender, *next;
    bool wakes = false;
    HASH_ITER(hh, app->senders, sender, next)
    {
        if (sender->held == NULL || now_ms < sender->held->came_ms + mailbox->bounds.hold_ms)
            continue;
        /* As if all before it had come. */
        sender->next = sender->held->order;
        let_on(sender);
        wakes = true;
    }
    /* Ranks are numbers that workers say: without this a client could make the server remember
     * any number of them. */
    if (HASH_COUNT(app->workers) > mailbox->bounds.parties_max)
        drop_idle_workers(mailbox, app);
    return wakes;
}
