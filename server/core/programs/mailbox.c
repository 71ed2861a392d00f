/* SPDX-License-Identifier: Apache-2.0 */
/* The lock, the apps, and what happens to all of them: another life, and time that passes.
 *
 * One lock for all, as the rendezvous has: what is done under it takes well under a microsecond,
 * and contents are neither copied nor made there. Programs themselves run without it.
 *
 * Nothing here is written to the journal: the server does not know what a program does with what it
 * is asked, and could not do it again. */
#include "server/core/programs/mailbox.h"

#include "base/assert.h"
#include "base/refusal.h"
#include "server/core/programs/mailbox_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <utlist.h>

static void drop_app(struct ps_mailbox *mailbox, struct ps_app *app);
static bool end_everything(struct ps_mailbox *mailbox, struct ps_app *app, const char *why,
                           struct ps_mailbox_now now);

/* All that takes memory comes with the first request or taker. */
void ps_mailbox_init(struct ps_mailbox *mailbox, const struct ps_allocator *memory,
                     const struct ps_mailbox_bounds *bounds, uint32_t life)
{
    PS_ASSERT(bounds->apps_max > 0 && bounds->requests_max > 0 && bounds->parties_max > 0);
    PS_ASSERT(bounds->lease_ms > 0);
    *mailbox =
        (struct ps_mailbox){.memory = memory, .bounds = *bounds, .life = life != 0 ? life : 1};
    ps_mutex_init(&mailbox->lock, PS_RANK_QUEUE);
}

/* Whoever held a request has given it back: what is left is in the tables only. */
void ps_mailbox_fini(struct ps_mailbox *mailbox)
{
    struct ps_app *app, *next;
    ps_mutex_lock(&mailbox->lock);
    HASH_ITER(hh, mailbox->apps, app, next)
    {
        (void)end_everything(mailbox, app, "the server has ended", (struct ps_mailbox_now){0});
        app->has_handler = false;
    }
    while (mailbox->kept != NULL)
        ps_mailbox_forget(mailbox, mailbox->kept);
    HASH_ITER(hh, mailbox->apps, app, next)
    drop_app(mailbox, app);
    PS_ASSERT(mailbox->bytes == 0 && mailbox->by_handle == NULL && mailbox->by_token == NULL);
    ps_mutex_unlock(&mailbox->lock);
    ps_mutex_fini(&mailbox->lock);
}

/* For texts only: the mailbox itself is nobody's in particular. */
void ps_mailbox_own(struct ps_mailbox *mailbox, uint32_t shard)
{
    ps_mutex_lock(&mailbox->lock);
    PS_ASSERT(mailbox->life != 0);
    mailbox->shard = shard;
    ps_mutex_unlock(&mailbox->lock);
}

/* One number is enough: the life is random, and no two servers have the same but by a chance of one
 * in four thousand millions. */
uint64_t ps_mailbox_epoch(struct ps_mailbox *mailbox)
{
    ps_mutex_lock(&mailbox->lock);
    uint64_t epoch = mailbox->life;
    PS_ASSERT(epoch != 0);
    ps_mutex_unlock(&mailbox->lock);
    return epoch;
}

/* What was answered before is forgotten, too: another server would not have it either, and answers
 * of two lives must not be mixed. */
void ps_mailbox_lose(struct ps_mailbox *mailbox, uint32_t life, struct ps_mailbox_now now)
{
    struct ps_app *app, *next;
    char why[PS_PROGRAM_WHY_BYTES];
    ps_mutex_lock(&mailbox->lock);
    /* In the words of the rendezvous: to a client both are the same event. */
    (void)snprintf(why, sizeof why, "the server of shard %" PRIu32 " is another one",
                   mailbox->shard);
    HASH_ITER(hh, mailbox->apps, app, next)
    (void)end_everything(mailbox, app, why, now);
    while (mailbox->kept != NULL)
        ps_mailbox_forget(mailbox, mailbox->kept);
    /* Handlers go on, and what they answer from now on is nobody's. */
    PS_ASSERT(mailbox->kept_bytes == 0 && mailbox->kept_count == 0);
    mailbox->life = life != 0 ? life : 1;
    ps_mutex_unlock(&mailbox->lock);
}

/* Requests that a handler has stay its own until it answers them, and are told then that nobody
 * waits. */
static bool end_everything(struct ps_mailbox *mailbox, struct ps_app *app, const char *why,
                           struct ps_mailbox_now now)
{
    const struct ps_bytes text = ps_bytes_of_text(why);
    struct ps_program_taker *taker, *next_taker;
    struct ps_program_sender *sender, *next_sender;
    bool wakes = app->request_count > 0;
    /* Each of the four lists that a request can be in, and then nobody has any. */
    while (app->waiting != NULL)
        ps_mailbox_end(mailbox, app->waiting, PS_ERR_ABORTED, text, NULL, now);
    while (app->handled != NULL)
        ps_mailbox_end(mailbox, app->handled, PS_ERR_ABORTED, text, NULL, now);
    HASH_ITER(hh, app->senders, sender, next_sender)
    {
        while (sender->held != NULL)
            ps_mailbox_end(mailbox, sender->held, PS_ERR_ABORTED, text, NULL, now);
    }
    HASH_ITER(hh, app->takers, taker, next_taker)
    {
        /* There is no next taker to give it to. */
        taker->again = false;
        wakes |= ps_mailbox_end_taker(mailbox, app, taker, why, now);
    }
    PS_ASSERT(app->request_count == 0);
    return wakes;
}

/* ---- Apps ---- */

/* Few apps are there, and each call looks for its own once. */
struct ps_app *ps_mailbox_find_app(const struct ps_mailbox *mailbox, uint32_t id)
{
    struct ps_app *app;
    HASH_FIND(hh, mailbox->apps, &id, sizeof id, app);
    PS_ASSERT(app == NULL || app->id == id);
    return app;
}

/* An app is made by whoever names it first: a worker may be sooner than its program. */
enum ps_status ps_mailbox_find_or_add_app(struct ps_mailbox *mailbox, uint32_t id,
                                          struct ps_app **out, struct ps_error *error)
{
    const struct ps_allocator *memory = mailbox->memory;
    bool refused = false;
    struct ps_app *app = ps_mailbox_find_app(mailbox, id);
    *out = app;
    if (app != NULL)
        return PS_OK;
    /* By worker's words alone, without any program: so their number has a bound. */
    if (HASH_COUNT(mailbox->apps) >= mailbox->bounds.apps_max)
        return ps_refuse(error, PS_ERR_BUSY, PS_REFUSED_PROGRAMS, 0,
                         "app %" PRIu32 ": there are %" PRIu32 " apps, and no more may there be",
                         id, mailbox->bounds.apps_max);
    app = ps_zeroed(memory, sizeof *app);
    if (app != NULL) {
        app->id = id;
        HASH_ADD(hh, mailbox->apps, id, sizeof app->id, app);
    }
    if (app == NULL || refused) {
        ps_release(memory, app);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for app %" PRIu32, id);
    }
    PS_ASSERT(HASH_COUNT(mailbox->apps) <= mailbox->bounds.apps_max);
    *out = app;
    return PS_OK;
}

/* Of an app that nobody uses: its workers and senders have nothing open, and are numbers only. */
static void drop_app(struct ps_mailbox *mailbox, struct ps_app *app)
{
    const struct ps_allocator *memory = mailbox->memory;
    struct ps_program_worker *worker, *next_worker;
    struct ps_program_sender *sender, *next_sender;
    PS_ASSERT(app->known_count == 0 && app->takers == NULL && !app->has_handler);
    HASH_ITER(hh, app->workers, worker, next_worker)
    {
        HASH_DELETE(hh, app->workers, worker);
        ps_release(memory, worker);
    }
    HASH_ITER(hh, app->senders, sender, next_sender)
    {
        HASH_DELETE(hh, app->senders, sender);
        ps_release(memory, sender);
    }
    HASH_DELETE(hh, mailbox->apps, app);
    ps_release(memory, app);
}

/* ---- Time ---- */

/* A taker with a call that waits is there: when its connection goes the call goes, and then the
 * lease counts. */
static bool sweep_takers(struct ps_mailbox *mailbox, struct ps_app *app, struct ps_mailbox_now now)
{
    struct ps_program_taker *taker, *next;
    bool wakes = false;
    HASH_ITER(hh, app->takers, taker, next)
    {
        char how[64];
        PS_ASSERT(taker->lease_ms > 0);
        uint64_t silent_ms = now.ms - taker->heard_ms;
        if (taker->calls > 0 || now.ms < taker->heard_ms || silent_ms < taker->lease_ms)
            continue;
        (void)snprintf(how, sizeof how, "has said nothing for %" PRIu64 " ms", silent_ms);
        wakes |= ps_mailbox_end_taker(mailbox, app, taker, how, now);
    }
    return wakes;
}

/* A request whose calls are all gone waits for a repeat as long as an answer is kept. */
static void sweep_orphans(struct ps_mailbox *mailbox, struct ps_app *app, struct ps_mailbox_now now)
{
    const struct ps_bytes why = ps_bytes_of_text("nobody waited for it any more");
    struct ps_program_request *request, *next;
    DL_FOREACH_SAFE(app->waiting, request, next) {
        if (request->calls == 0 && now.ms >= request->came_ms + mailbox->bounds.kept_ms)
            ps_mailbox_end(mailbox, request, PS_ERR_ABORTED, why, NULL, now);
    }
}

/* Senders are forgotten when nothing of theirs is known, after as long as their answers would have
 * been kept: a repeat that comes later is told apart by nothing. */
static void sweep_senders(struct ps_mailbox *mailbox, struct ps_app *app, uint64_t now_ms)
{
    const struct ps_allocator *memory = mailbox->memory;
    struct ps_program_sender *sender, *next;
    HASH_ITER(hh, app->senders, sender, next)
    {
        if (sender->open > 0 || now_ms < sender->heard_ms + 16 * mailbox->bounds.kept_ms)
            continue;
        PS_ASSERT(sender->held == NULL && sender->ended == NULL);
        HASH_DELETE(hh, app->senders, sender);
        ps_release(memory, sender);
    }
}

/* With each turn of the coordinator, some ten times a second at most: everything is looked at,
 * since there is little of it. */
bool ps_mailbox_sweep(struct ps_mailbox *mailbox, struct ps_mailbox_now now)
{
    struct ps_app *app, *next;
    bool wakes = false;
    ps_mutex_lock(&mailbox->lock);
    ps_mailbox_trim(mailbox, now.ms);
    PS_ASSERT(mailbox->kept_bytes <= mailbox->bounds.kept_bytes_max);
    HASH_ITER(hh, mailbox->apps, app, next)
    {
        wakes |= ps_mailbox_close_gaps(mailbox, app, now.ms);
        wakes |= sweep_takers(mailbox, app, now);
        sweep_orphans(mailbox, app, now);
        sweep_senders(mailbox, app, now.ms);
        /* One that a worker has named by mistake goes with the worker's request. */
        if (app->known_count == 0 && app->takers == NULL && app->senders == NULL &&
            !app->has_handler)
            drop_app(mailbox, app);
    }
    ps_mutex_unlock(&mailbox->lock);
    return wakes;
}

/* ---- References ---- */

/* With the last reference it is in no table and no list. */
void ps_mailbox_unref(struct ps_mailbox *mailbox, struct ps_program_request *request)
{
    PS_ASSERT(request->references > 0);
    if (--request->references > 0)
        return;
    PS_ASSERT(!request->is_in_tables && request->calls == 0);
    ps_parcel_release(request->question);
    ps_parcel_release(request->answer);
    if (request->room.drop != NULL)
        request->room.drop(request->room.kept);
    ps_release(mailbox->memory, request);
}

/* For a handler that answers later, on whatever thread. */
struct ps_program_request *ps_program_request_acquire(struct ps_mailbox *mailbox,
                                                      struct ps_program_request *request)
{
    ps_mutex_lock(&mailbox->lock);
    PS_ASSERT(request->references > 0);
    request->references++;
    ps_mutex_unlock(&mailbox->lock);
    return request;
}

/* Its content may be the network's: that goes with the last reference, and not with the answer. */
void ps_program_request_release(struct ps_mailbox *mailbox, struct ps_program_request *request)
{
    PS_ASSERT(request != NULL);
    ps_mutex_lock(&mailbox->lock);
    ps_mailbox_unref(mailbox, request);
    ps_mutex_unlock(&mailbox->lock);
}
