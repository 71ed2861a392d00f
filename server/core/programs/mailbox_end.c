/* SPDX-License-Identifier: Apache-2.0 */
/* How requests end, and what is kept of them. An ended request with a token stays as long as its
 * answer may be asked for again: its sender says how far it has got them, and beyond that bytes,
 * numbers and time bound them. The struct stays a little longer than the answer: by it a repeat is
 * told that nobody can say.
 *
 * The three bounds are of different kinds. Bytes take answers and leave the structs, the oldest
 * first; their number and their time take both. What is not bounded is what a call waits with: that
 * is the request's own until its last call has left, and counts for the connection then. */
#include "server/core/programs/mailbox_parts.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

static void keep(struct ps_mailbox *mailbox, struct ps_program_request *request);
static void drop_answer(struct ps_mailbox *mailbox, struct ps_program_request *request);
static struct ps_program_taker *taker_of(const struct ps_program_request *request);

/* Its content is not needed any more, also where nobody was there to use it. */
static void drop_question(struct ps_mailbox *mailbox, struct ps_program_request *request)
{
    struct ps_app *app = request->app;
    uint64_t bytes = ps_mailbox_counted(request->question);
    /* Counted when it came, by the same number. */
    PS_ASSERT(mailbox->bytes >= bytes && app->bytes >= bytes);
    app->bytes -= bytes;
    mailbox->bytes -= bytes;
    /* A handler that has deferred may still read it: it goes with the request. */
    if (request->taker == 0 && request->state == PS_PROGRAM_TAKEN)
        return;
    /* Small ones are most; a large one was kept by reference and is let go. */
    ps_parcel_release(request->question);
    request->question = NULL;
}

/* Out of whatever list it is in. */
static void leave_list(struct ps_program_request *request)
{
    struct ps_app *app = request->app;
    /* With its sender, or with its app and its worker. */
    if (request->state != PS_PROGRAM_TAKEN) {
        ps_mailbox_pull_out(request);
        return;
    }
    struct ps_program_taker *taker = taker_of(request);
    PS_ASSERT(taker != NULL || request->taker == 0);
    if (taker != NULL) {
        DL_DELETE(taker->taken, request);
        taker->taken_count--;
    } else {
        /* A handler may have it still, and is told by its own late answer that nobody waits. */
        DL_DELETE(app->handled, request);
        app->handled_count--;
    }
}

/* NULL: the handler in this process has it. */
static struct ps_program_taker *taker_of(const struct ps_program_request *request)
{
    struct ps_program_taker *taker = NULL;
    /* A taker that is gone has had its requests taken from it before. */
    if (request->taker != 0) {
        HASH_FIND(hh, request->app->takers, &request->taker, sizeof taker->id, taker);
        PS_ASSERT(taker != NULL);
    }
    return taker;
}

/* Whatever the reason: by an answer, by a taker that is gone, by the end of the shard, or because
 * nobody waits. The request itself may be gone when this returns, unless the caller has a reference
 * to it. */
void ps_mailbox_end(struct ps_mailbox *mailbox, struct ps_program_request *request,
                    enum ps_status status, struct ps_bytes why, struct ps_parcel *answer,
                    struct ps_mailbox_now now)
{
    struct ps_app *app = request->app;
    /* Cut and not refused: the status is what counts. */
    size_t size = why.size < sizeof request->why ? why.size : sizeof request->why - 1;
    PS_ASSERT(request->state != PS_PROGRAM_ENDED);
    /* By its state, so that the state changes behind it. */
    leave_list(request);
    drop_question(mailbox, request);
    request->state = PS_PROGRAM_ENDED;
    request->status = status;
    if (size > 0)
        memcpy(request->why, why.data, size);
    request->why[size] = '\0';
    request->answer = answer;
    request->ended_ms = now.ms;
    request->ended_ns = now.unix_ns;
    PS_ASSERT(app->request_count > 0 && request->worker->open > 0);
    app->request_count--;
    request->worker->open--;
    /* The worker may be dropped when nothing of its is open. */
    request->worker = NULL;
    /* What a program refuses is a failure, too: people look for those. */
    app->answered += status == PS_OK;
    app->failed += status != PS_OK;
    /* Nobody can ask again for one without: its answer goes to the calls that wait now. */
    if (request->token.token != 0)
        keep(mailbox, request);
    else
        ps_mailbox_forget(mailbox, request);
}

/* At the end of the list: the oldest go first. */
static void keep(struct ps_mailbox *mailbox, struct ps_program_request *request)
{
    uint64_t bytes = request->answer != NULL ? request->answer->bytes : 0;
    PS_ASSERT(!request->is_kept && request->is_in_tables);
    request->is_kept = true;
    request->has_answer = true;
    /* In the order of ending, which is that of age. */
    DL_APPEND(mailbox->kept, request);
    if (mailbox->oldest_answer == NULL)
        mailbox->oldest_answer = request;
    mailbox->kept_count++;
    mailbox->kept_bytes += bytes;
    mailbox->bytes += bytes;
    request->app->bytes += bytes;
    /* By this list its sender lets go of it. */
    if (request->sender != NULL)
        DL_APPEND2(request->sender->ended, request, ended_prev, ended_next);
    ps_mailbox_trim(mailbox, request->ended_ms);
}

/* Those before it have lost theirs, and are passed over for good. */
static struct ps_program_request *next_with_answer(struct ps_program_request *request)
{
    PS_ASSERT(request->is_kept);
    do
        request = request->next;
    while (request != NULL && !request->has_answer);
    return request;
}

/* A call that waits has the answer all the same: it is the request's own until its last reference
 * goes. */
static void drop_answer(struct ps_mailbox *mailbox, struct ps_program_request *request)
{
    uint64_t bytes = request->answer != NULL ? request->answer->bytes : 0;
    if (!request->has_answer)
        return;
    /* From now on a repeat is told that nobody can say. */
    request->has_answer = false;
    /* Answers go in any order, since senders say which they have got. */
    if (mailbox->oldest_answer == request)
        mailbox->oldest_answer = next_with_answer(request);
    PS_ASSERT(mailbox->kept_bytes >= bytes && mailbox->bytes >= bytes);
    mailbox->kept_bytes -= bytes;
    mailbox->bytes -= bytes;
    request->app->bytes -= bytes;
    /* One of them may be about to read it. */
    if (request->calls > 0)
        return;
    ps_parcel_release(request->answer);
    request->answer = NULL;
}

/* Out of every table and list; whoever has a reference still may read it, and that is all. */
void ps_mailbox_forget(struct ps_mailbox *mailbox, struct ps_program_request *request)
{
    const struct ps_allocator *memory = mailbox->memory;
    /* Twice would take the reference of somebody else. */
    PS_ASSERT(request->state == PS_PROGRAM_ENDED && request->is_in_tables);
    drop_answer(mailbox, request);
    if (request->is_kept) {
        DL_DELETE(mailbox->kept, request);
        mailbox->kept_count--;
        if (request->sender != NULL)
            DL_DELETE2(request->sender->ended, request, ended_prev, ended_next);
        request->is_kept = false;
    }
    /* A late answer finds nothing. */
    HASH_DELETE(hh, mailbox->by_handle, request);
    if (request->token.token != 0)
        HASH_DELETE(hh_token, mailbox->by_token, request);
    request->is_in_tables = false;
    PS_ASSERT(request->app->known_count > 0);
    request->app->known_count--;
    /* Its last request may be what kept the sender. */
    if (request->sender != NULL) {
        PS_ASSERT(request->sender->open > 0);
        request->sender->open--;
        request->sender = NULL;
    }
    ps_mailbox_unref(mailbox, request);
}

/* Bytes first: their answers go, and the structs stay for as long as their number allows. */
void ps_mailbox_trim(struct ps_mailbox *mailbox, uint64_t now_ms)
{
    const struct ps_mailbox_bounds *bounds = &mailbox->bounds;
    /* Also the one that has just ended, if it is larger than all that may be kept. */
    while (mailbox->oldest_answer != NULL && mailbox->kept_bytes > bounds->kept_bytes_max)
        drop_answer(mailbox, mailbox->oldest_answer);
    PS_ASSERT(mailbox->kept_bytes <= bounds->kept_bytes_max);
    while (mailbox->kept != NULL && (mailbox->kept_count > bounds->kept_max ||
                                     now_ms >= mailbox->kept->ended_ms + bounds->kept_ms))
        ps_mailbox_forget(mailbox, mailbox->kept);
}

/* ---- Answers ---- */

/* Whose it was to answer. A repeat by the same token is as good as the first. */
static enum ps_status check_answer(const struct ps_program_request *request,
                                   const struct ps_mailbox_answer *answer)
{
    PS_ASSERT(answer->handle != 0 || request == NULL);
    if (request == NULL)
        return PS_ERR_NOT_FOUND;
    /* Known still, so that a second answer is told from one to nobody. */
    if (request->state == PS_PROGRAM_ENDED)
        return answer->token != 0 && request->answer_token == answer->token &&
                       request->taker == answer->taker
                   ? PS_OK
                   : PS_ERR_EXISTS;
    /* One that was given to another taker since is that one's. */
    if (request->state != PS_PROGRAM_TAKEN || request->taker != answer->taker)
        return PS_ERR_NOT_FOUND;
    return PS_OK;
}

/* A parcel that is not used is released without the lock: it may be the last holder of megabytes.
 */
enum ps_status ps_mailbox_answer(struct ps_mailbox *mailbox, const struct ps_mailbox_answer *answer,
                                 struct ps_mailbox_now now, bool *wakes)
{
    struct ps_program_request *request;
    /* Ours in any case: the request takes it, or it is released below. */
    struct ps_parcel *parcel = answer->parcel;
    *wakes = false;
    ps_mutex_lock(&mailbox->lock);
    HASH_FIND(hh, mailbox->by_handle, &answer->handle, sizeof answer->handle, request);
    enum ps_status status = check_answer(request, answer);
    if (status == PS_OK && request->state == PS_PROGRAM_TAKEN) {
        *wakes = request->is_parked;
        PS_ASSERT(answer->room_size <= request->room.size);
        /* Before it ends: what has ended does not change. */
        request->answer_token = answer->token;
        request->room_size = answer->room_size;
        ps_mailbox_end(mailbox, request, answer->status, answer->text, parcel, now);
        parcel = NULL;
    }
    ps_mutex_unlock(&mailbox->lock);
    ps_parcel_release(parcel);
    return status;
}

/* ---- Takers that go ---- */

/* What it had goes back to where it was, in its order, or fails by the taker's name. */
bool ps_mailbox_end_taker(struct ps_mailbox *mailbox, struct ps_app *app,
                          struct ps_program_taker *taker, const char *how,
                          struct ps_mailbox_now now)
{
    const struct ps_allocator *memory = mailbox->memory;
    char why[PS_PROGRAM_WHY_BYTES];
    /* Askers of what it had, and calls of its own that wait. */
    bool wakes = taker->taken != NULL || taker->calls > 0;
    PS_ASSERT((taker->taken == NULL) == (taker->taken_count == 0));
    /* By name and by number: names are what people give, numbers what tells two of one name
     * apart. */
    (void)snprintf(why, sizeof why, "the taker \"%.*s\" (%016" PRIx64 ") %s", (int)taker->name_size,
                   taker->name, taker->id, how);
    while (taker->taken != NULL) {
        struct ps_program_request *request = taker->taken;
        if (!taker->again) {
            ps_mailbox_end(mailbox, request, PS_ERR_ABORTED, ps_bytes_of_text(why), NULL, now);
            continue;
        }
        DL_DELETE(taker->taken, request);
        /* The next taker is told that another may have begun. */
        request->is_again = true;
        request->taker = 0;
        ps_mailbox_put_back(request);
    }
    HASH_DELETE(hh, app->takers, taker);
    ps_release(memory, taker);
    return wakes;
}
