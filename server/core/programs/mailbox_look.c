/* SPDX-License-Identifier: Apache-2.0 */
/* What there is, for people and for tests. */
#include "server/core/programs/mailbox.h"

#include "base/assert.h"
#include "server/core/programs/mailbox_parts.h"

#include <utlist.h>

/* So many takers of an app are told; of more only the number could be read. */
enum { TOLD_TAKERS_MAX = 64 };

/* A handler is told as a taker without a number. A server that has more takers than are told is one
 * whose status is not read by people. */
static void tell_app(const struct ps_app *app, uint64_t now_ms,
                     void (*tell)(void *self, const struct ps_app_state *state), void *self)
{
    /* On the stack: what is told is borrowed for the call only. */
    struct ps_app_taker takers[TOLD_TAKERS_MAX];
    const struct ps_program_taker *taker;
    struct ps_app_state state = {.app = app->id,
                                 .waiting = app->waiting_count,
                                 .taken = app->handled_count,
                                 .bytes = app->bytes,
                                 .answered = app->answered,
                                 .failed = app->failed,
                                 .takers = takers};
    PS_ASSERT(app->waiting_count <= app->request_count);
    if (app->has_handler)
        takers[state.taker_count++] = (struct ps_app_taker){
            .taker = 0, .name = ps_bytes_of_text("handler"), .taken = app->handled_count};
    for (taker = app->takers; taker != NULL; taker = taker->hh.next) {
        /* Of all, also of those that are not told by name. */
        state.taken += taker->taken_count;
        /* Counted above all the same. */
        if (state.taker_count == TOLD_TAKERS_MAX)
            continue;
        takers[state.taker_count++] = (struct ps_app_taker){
            .taker = taker->id,
            .name = {(const uint8_t *)taker->name, taker->name_size},
            .heard_ms = now_ms > taker->heard_ms ? now_ms - taker->heard_ms : 0,
            .taken = taker->taken_count,
            .again = taker->again};
    }
    tell(self, &state);
}

/* With the lock held, since names and numbers are the mailbox's: whoever is told writes them down
 * and does nothing else. */
void ps_mailbox_tell(struct ps_mailbox *mailbox, uint64_t now_ms,
                     void (*tell)(void *self, const struct ps_app_state *state), void *self)
{
    const struct ps_app *app;
    PS_ASSERT(tell != NULL);
    ps_mutex_lock(&mailbox->lock);
    for (app = mailbox->apps; app != NULL; app = app->hh.next)
        tell_app(app, now_ms, tell, self);
    ps_mutex_unlock(&mailbox->lock);
}

/* Two numbers of one look. */
void ps_mailbox_count(struct ps_mailbox *mailbox, uint64_t *apps, uint64_t *bytes)
{
    ps_mutex_lock(&mailbox->lock);
    *apps = HASH_COUNT(mailbox->apps);
    *bytes = mailbox->bytes;
    PS_ASSERT(mailbox->kept_bytes <= *bytes);
    ps_mutex_unlock(&mailbox->lock);
}

/* ---- Invariants ---- */

/* Each request that is not answered is in one list, in order, and counted once. */
static uint64_t check_waiting(const struct ps_app *app)
{
    const struct ps_program_request *request, *last = NULL;
    /* Both lists are walked, and have the same requests. */
    uint32_t count = 0, of_workers = 0;
    uint64_t bytes = 0;
    DL_FOREACH(app->waiting, request)
    {
        PS_ASSERT(request->state == PS_PROGRAM_WAITING && request->app == app);
        PS_ASSERT(last == NULL || last->asked.priority > request->asked.priority ||
                  (last->asked.priority == request->asked.priority && last->seq < request->seq));
        bytes += ps_mailbox_counted(request->question);
        last = request;
        count++;
    }
    PS_ASSERT(count == app->waiting_count);
    for (const struct ps_program_worker *worker = app->workers; worker != NULL;
         worker = worker->hh.next) {
        uint32_t own = 0;
        for (request = worker->waiting; request != NULL; request = request->worker_next)
            own++;
        PS_ASSERT(own <= worker->open);
        of_workers += own;
    }
    PS_ASSERT(of_workers == count);
    return bytes;
}

/* A request is held by its sender, waits, is a taker's or is the handler's: the four add up. */
static void check_app(const struct ps_app *app, uint64_t *bytes)
{
    const struct ps_program_request *request;
    /* The other two kinds are added while their lists are walked. */
    uint32_t count = app->waiting_count + app->handled_count;
    *bytes += check_waiting(app);
    DL_FOREACH(app->handled, request)
    *bytes += ps_mailbox_counted(request->question);
    for (const struct ps_program_taker *taker = app->takers; taker != NULL;
         taker = taker->hh.next) {
        uint32_t taken = 0;
        DL_FOREACH(taker->taken, request)
        {
            PS_ASSERT(request->state == PS_PROGRAM_TAKEN && request->taker == taker->id);
            *bytes += ps_mailbox_counted(request->question);
            taken++;
        }
        PS_ASSERT(taken == taker->taken_count);
        count += taken;
    }
    for (const struct ps_program_sender *sender = app->senders; sender != NULL;
         sender = sender->hh.next) {
        DL_FOREACH(sender->held, request)
        {
            PS_ASSERT(request->state == PS_PROGRAM_HELD && request->order > sender->next);
            *bytes += ps_mailbox_counted(request->question);
            count++;
        }
    }
    PS_ASSERT(count == app->request_count);
}

/* Bytes are counted twice, for apps and for all, and must agree with what there is. */
void ps_mailbox_check(struct ps_mailbox *mailbox)
{
    const struct ps_program_request *request;
    /* Summed up anew, and compared with what was counted on the way. */
    uint64_t bytes = 0, kept_bytes = 0;
    uint32_t kept = 0;
    ps_mutex_lock(&mailbox->lock);
    for (const struct ps_app *app = mailbox->apps; app != NULL; app = app->hh.next)
        check_app(app, &bytes);
    DL_FOREACH(mailbox->kept, request)
    {
        PS_ASSERT(request->state == PS_PROGRAM_ENDED && request->is_kept && request->is_in_tables);
        kept_bytes += request->has_answer && request->answer != NULL ? request->answer->bytes : 0;
        kept++;
    }
    PS_ASSERT(kept == mailbox->kept_count && kept_bytes == mailbox->kept_bytes);
    PS_ASSERT(bytes + kept_bytes == mailbox->bytes);
    ps_mutex_unlock(&mailbox->lock);
}
