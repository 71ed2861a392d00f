/* SPDX-License-Identifier: Apache-2.0 */
/* A request comes: as a new one, or as a repeat of one that is known. Whatever it needs is
 * allocated before anything changes, so that a refusal of memory refuses the whole request.
 *
 * A repeat is known in two ways. Its token finds it as long as it is open, or its answer is kept.
 * Of a sender that numbers its requests it is known for longer than that, by the number alone: one
 * that has come and is not in the tables any more must not be carried out again, and is told that
 * nobody can say how it ended. What has neither token nor number is a new request each time.
 *
 * A call and its request are two things. A request may have several calls, of a client that lost
 * its connection and asks again, or none, while that client is on its way. What ends with the last
 * call is only what nobody could ask for again. */
#include "server/core/programs/mailbox.h"

#include "base/assert.h"
#include "base/refusal.h"
#include "server/core/programs/mailbox_parts.h"

#include <inttypes.h>
#include <utlist.h>

/* Test builds without a safeguard: the worlds of programs must notice (see PS_MUTATE). */
#ifdef PS_MUTATE_SKIP_PROGRAM_EPOCH
static const bool program_epoch_is_off = true;
#else
static const bool program_epoch_is_off = false;
#endif
#ifdef PS_MUTATE_SKIP_UNTAKEN_END
static const bool untaken_end_is_off = true;
#else
static const bool untaken_end_is_off = false;
#endif

static enum ps_status find_known(struct ps_mailbox *mailbox, const struct ps_ask_request *ask,
                                 struct ps_program_request **request, struct ps_error *error);
static enum ps_status check_room(const struct ps_mailbox *mailbox, const struct ps_app *app,
                                 uint64_t bytes, struct ps_error *error);
static enum ps_status make_request(struct ps_mailbox *mailbox, struct ps_app *app,
                                   const struct ps_ask_request *ask, struct ps_mailbox_now now,
                                   struct ps_program_request **request, struct ps_error *error);
static enum ps_status enter_tables(struct ps_mailbox *mailbox, struct ps_program_request *request,
                                   struct ps_error *error);
static void count_in(struct ps_mailbox *mailbox, struct ps_program_request *request);

/* Of a request that did not get it. */
static void drop_room(const struct ps_program_room *room)
{
    PS_ASSERT(room->drop != NULL || room->size == 0);
    if (room->drop != NULL)
        room->drop(room->kept);
}

/* Of a request for another life. The refusal is proof that it was not carried out here, and has the
 * present epoch, so that a client that knows of no other attempt may go on under that. */
static enum ps_status refuse_life(const struct ps_mailbox *mailbox,
                                  const struct ps_ask_request *ask, struct ps_error *error)
{
    PS_ASSERT(ask->epoch != mailbox->life);
    enum ps_status status = ps_fail(error, PS_ERR_ABORTED,
                                    "app %" PRIu32 ": the server of shard %" PRIu32
                                    " is another one: nobody can say whether it was carried out",
                                    ask->asked.app, mailbox->shard);
    if (error != NULL)
        error->session = mailbox->life;
    return status;
}

/* The epoch first: what another life has carried out must not be carried out here, even if its
 * token is known to nobody. */
static enum ps_status ask_locked(struct ps_mailbox *mailbox, const struct ps_ask_request *ask,
                                 uint64_t bytes, struct ps_mailbox_now now,
                                 struct ps_program_request **out, bool *is_new,
                                 struct ps_error *error)
{
    struct ps_app *app;
    struct ps_program_request *request = NULL;
    *is_new = false;
    PS_ASSERT(ask->payload.keys.size % 8 == 0);
    if (ask->epoch != 0 && ask->epoch != mailbox->life && ask->epoch != PS_EPOCH_BY_TOKEN &&
        !program_epoch_is_off)
        return refuse_life(mailbox, ask, error);
    /* A repeat is not held to the bounds: the first has been let in. */
    PS_TRY(find_known(mailbox, ask, out, error));
    if (*out != NULL)
        return PS_OK;
    /* A repeat of what another life may have carried out, which its client could not name. */
    if (ask->epoch == PS_EPOCH_BY_TOKEN && !program_epoch_is_off)
        return refuse_life(mailbox, ask, error);
    /* The app may stay behind when the request is refused: the next sweep takes it. */
    PS_TRY(ps_mailbox_find_or_add_app(mailbox, ask->asked.app, &app, error));
    /* Before any memory is taken for the request itself. */
    PS_TRY(check_room(mailbox, app, bytes, error));
    PS_TRY(make_request(mailbox, app, ask, now, &request, error));
    *out = request;
    *is_new = true;
    return PS_OK;
}

/* The parcel and the room of a repeat are not needed: the first has brought them. */
enum ps_status ps_mailbox_ask(struct ps_mailbox *mailbox, const struct ps_ask_request *ask,
                              struct ps_parcel *question, const struct ps_program_room *room,
                              struct ps_mailbox_now now, struct ps_asking *asking, bool *wakes,
                              struct ps_error *error)
{
    struct ps_program_request *request = NULL;
    bool is_new;
    *asking = (struct ps_asking){.request = NULL};
    *wakes = false;
    ps_mutex_lock(&mailbox->lock);
    enum ps_status status =
        ask_locked(mailbox, ask, question->bytes, now, &request, &is_new, error);
    PS_ASSERT((status == PS_OK) == (request != NULL));
    if (status == PS_OK) {
        request->references++;
        request->calls++;
        asking->request = request;
    }
    if (is_new) {
        /* From here on nothing can fail. */
        request->question = question;
        request->room = *room;
        count_in(mailbox, request);
        /* It may wait for one before it, or be what others wait for. */
        ps_mailbox_put_in_order(request);
        *wakes = request->app->takers != NULL;
    }
    ps_mutex_unlock(&mailbox->lock);
    /* Without the lock: a parcel may be the last to hold a message of megabytes. */
    if (!is_new) {
        ps_parcel_release(question);
        drop_room(room);
    }
    return status;
}

/* By its token; and where a sender numbers its requests, by its number: one that has come and is
 * not known any more must not be carried out again. */
static enum ps_status find_known(struct ps_mailbox *mailbox, const struct ps_ask_request *ask,
                                 struct ps_program_request **out, struct ps_error *error)
{
    /* Tokens are random, but of different clients: the app keeps those of two programs apart.
     */
    const struct ps_program_token token = {ask->token, ask->asked.app};
    const struct ps_app *app = ps_mailbox_find_app(mailbox, ask->asked.app);
    struct ps_program_sender *sender = NULL;
    *out = NULL;
    if (app == NULL)
        return PS_OK;
    PS_ASSERT(app->id == ask->asked.app);
    if (token.token != 0)
        HASH_FIND(hh_token, mailbox->by_token, &token, sizeof token, *out);
    /* Open, or ended with its answer still there: the call joins it. */
    if (*out != NULL && ((*out)->state != PS_PROGRAM_ENDED || (*out)->has_answer))
        return PS_OK;
    if (*out == NULL && ask->sender != 0)
        HASH_FIND(hh, app->senders, &ask->sender, sizeof ask->sender, sender);
    /* A number that has not come yet is a new request, whoever asks. */
    if (*out == NULL && (sender == NULL || ask->order >= sender->next))
        return PS_OK;
    *out = NULL;
    return ps_fail(error, PS_ERR_ABORTED,
                   "app %" PRIu32
                   ": this request has come before, and nobody can say any more how it ended",
                   ask->asked.app);
}

/* Whoever asks faster than the program answers hears it here. */
static enum ps_status check_room(const struct ps_mailbox *mailbox, const struct ps_app *app,
                                 uint64_t bytes, struct ps_error *error)
{
    const struct ps_mailbox_bounds *bounds = &mailbox->bounds;
    PS_ASSERT(mailbox->kept_bytes <= mailbox->bytes);
    /* Answers that are kept count apart: they go when they have to, and refuse nobody. */
    /* Of the app: a program that stands still must not fill the mailbox for others. */
    if (app->request_count >= bounds->requests_max)
        return ps_refuse(error, PS_ERR_BUSY, PS_REFUSED_PROGRAMS, 0,
                         "app %" PRIu32 ": %" PRIu32
                         " requests are not answered, and no more may be (--program-requests)",
                         app->id, app->request_count);
    /* Of all apps: memory is the machine's. */
    if (mailbox->bytes - mailbox->kept_bytes + bytes > bounds->bytes_max)
        return ps_refuse(error, PS_ERR_BUSY, PS_REFUSED_PROGRAMS, 0,
                         "app %" PRIu32 ": %" PRIu64
                         " bytes of all apps are in memory, and %" PRIu64
                         " more would be beyond %" PRIu64 " (--program-bytes)",
                         app->id, mailbox->bytes, bytes, bounds->bytes_max);
    return PS_OK;
}

/* Worker and sender may stay behind when the request's own memory is refused: they are as many as
 * there may be, and idle. */
static enum ps_status make_request(struct ps_mailbox *mailbox, struct ps_app *app,
                                   const struct ps_ask_request *ask, struct ps_mailbox_now now,
                                   struct ps_program_request **out, struct ps_error *error)
{
    struct ps_program_worker *worker;
    struct ps_program_sender *sender = NULL;
    /* A sender that says nothing of others begins with this one. */
    uint64_t first = ask->order_from != 0 ? ask->order_from : ask->order;
    PS_TRY(ps_mailbox_find_or_add_worker(mailbox, app, ask->asked.worker, &worker, error));
    /* A sender that is new here begins where it says, and not with 1: it may have numbered for an
     * hour, and have been forgotten. */
    if (ask->sender != 0 && ask->order != 0)
        PS_TRY(ps_mailbox_find_or_add_sender(mailbox, app, ask->sender, first, &sender, error));
    struct ps_program_request *request = ps_plain(mailbox->memory, sizeof *request);
    if (request == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "app %" PRIu32 ": no memory for a request",
                       app->id);
    *request =
        (struct ps_program_request){.references = 1,
                                    .handle = ((uint64_t)mailbox->life << 32) | (mailbox->made + 1),
                                    .token = {ask->token, ask->asked.app},
                                    .asked = ask->asked,
                                    .app = app,
                                    .worker = worker,
                                    .sender = sender,
                                    .order = ask->order,
                                    .came_ms = now.ms,
                                    .came_ns = now.unix_ns};
    PS_ASSERT(request->handle >> 32 == mailbox->life);
    enum ps_status status = enter_tables(mailbox, request, error);
    if (status != PS_OK) {
        ps_release(mailbox->memory, request);
        return status;
    }
    /* A number that was not used is used by the next. */
    mailbox->made++;
    /* Answers that the sender has got go now that nothing can fail. */
    if (sender != NULL) {
        sender->heard_ms = now.ms;
        sender->open++;
        ps_mailbox_sender_done(mailbox, sender, ask->order_from);
    }
    *out = request;
    return PS_OK;
}

/* In both tables or in none. */
static enum ps_status enter_tables(struct ps_mailbox *mailbox, struct ps_program_request *request,
                                   struct ps_error *error)
{
    const struct ps_allocator *memory = mailbox->memory;
    bool refused = false;
    PS_ASSERT(!request->is_in_tables);
    HASH_ADD(hh, mailbox->by_handle, handle, sizeof request->handle, request);
    if (!refused && request->token.token != 0) {
        /* Only what has a token can be asked again. */
        HASH_ADD(hh_token, mailbox->by_token, token, sizeof request->token, request);
        if (refused)
            HASH_DELETE(hh, mailbox->by_handle, request);
    }
    if (refused)
        return ps_fail(error, PS_ERR_NO_MEMORY, "app %" PRIu32 ": no memory for a request",
                       request->app->id);
    request->is_in_tables = true;
    return PS_OK;
}

/* Of the app and of all: both until the request ends. */
static void count_in(struct ps_mailbox *mailbox, struct ps_program_request *request)
{
    struct ps_app *app = request->app;
    PS_ASSERT(request->question != NULL && app->request_count < mailbox->bounds.requests_max);
    app->request_count++;
    /* Known as long as it is in a table, also when it has ended. */
    app->known_count++;
    request->worker->open++;
    app->bytes += request->question->bytes;
    mailbox->bytes += request->question->bytes;
}

/* ---- Waiting ---- */

/* What a call that gives up says: where its request stands. */
static enum ps_status fail_late(const struct ps_program_request *request, struct ps_mailbox_now now,
                                struct ps_error *error)
{
    const struct ps_app *app = request->app;
    uint64_t waited_ms = now.ms - request->came_ms;
    PS_ASSERT(request->state != PS_PROGRAM_ENDED);
    /* What it does with it nobody can say: it may be carried out after all. */
    if (request->state == PS_PROGRAM_TAKEN)
        return ps_fail(error, PS_ERR_TIMEOUT,
                       "app %" PRIu32 ": the program has the request, and has not answered it in "
                       "%" PRIu64 " ms",
                       app->id, waited_ms);
    /* Given back by a taker that has gone: "not taken" would say that nobody has begun it. */
    if (request->is_again)
        return ps_fail(error, PS_ERR_TIMEOUT,
                       "app %" PRIu32 ": a taker that had the request is gone, and no other has "
                       "answered it in %" PRIu64 " ms: it may have been begun",
                       app->id, waited_ms);
    /* The most frequent mistake of a new user. */
    if (app->takers == NULL && !app->has_handler)
        return ps_fail(error, PS_ERR_TIMEOUT,
                       "app %" PRIu32 ": no program takes its requests: not in %" PRIu64 " ms",
                       app->id, waited_ms);
    return ps_fail(error, PS_ERR_TIMEOUT,
                   "app %" PRIu32 ": nobody has taken the request in %" PRIu64 " ms, and %" PRIu32
                   " wait",
                   app->id, waited_ms, app->waiting_count);
}

/* In the program's own words, behind the number of its app. By the epoch a client tells a "busy" of
 * the program, which is its answer, from one of this server's. "Aborted" stays without one, which
 * would say that another life was meant. */
static enum ps_status fail_ended(const struct ps_program_request *request, struct ps_error *error)
{
    enum ps_status status =
        ps_fail(error, request->status, "app %" PRIu32 ": %s", request->asked.app, request->why);
    PS_ASSERT(status != PS_OK);
    if (error != NULL && status != PS_ERR_ABORTED)
        error->session = request->handle >> 32;
    return status;
}

/* An answer that has come counts, however late its call looks. */
enum ps_status ps_mailbox_await(struct ps_mailbox *mailbox, struct ps_asking *asking,
                                struct ps_mailbox_now now, bool is_last, struct ps_error *error)
{
    struct ps_program_request *request = asking->request;
    enum ps_status status = PS_OK;
    PS_ASSERT(request != NULL);
    ps_mutex_lock(&mailbox->lock);
    if (request->state == PS_PROGRAM_ENDED) {
        if (request->status != PS_OK)
            status = fail_ended(request, error);
    } else if (!is_last) {
        /* Set for good: a call that looks again looks once too often, and that is cheap. */
        request->is_parked = true;
        status = ps_fail(error, PS_ERR_NOT_READY, "it is not answered");
    } else {
        status = fail_late(request, now, error);
        /* It was not begun, and whoever has asked is told that it failed: it must not be begun. */
        if (request->state != PS_PROGRAM_TAKEN && !untaken_end_is_off)
            ps_mailbox_end(mailbox, request, PS_ERR_TIMEOUT,
                           ps_bytes_of_text(request->is_again ? "its taker went, and no other came"
                                                              : "nobody took it in time"),
                           NULL, now);
    }
    ps_mutex_unlock(&mailbox->lock);
    return status;
}

/* Without the lock: of an ended request nothing of this changes. */
void ps_asking_answer(const struct ps_asking *asking, struct ps_ask_reply *reply,
                      struct ps_parcel **parcel)
{
    const struct ps_program_request *request = asking->request;
    PS_ASSERT(request->state == PS_PROGRAM_ENDED);
    *parcel = request->answer;
    *reply = (struct ps_ask_reply){
        .handle = request->handle,
        .epoch = request->handle >> 32,
        .shared_size = request->room_size,
        .stamps = {.ns = {request->came_ns, request->taken_ns, request->ended_ns}}};
    if (request->answer != NULL)
        reply->payload = request->answer->payload;
}

/* Of the first call that has come with this request: a repeat names the same room. */
struct ps_program_room ps_asking_room(const struct ps_asking *asking)
{
    PS_ASSERT(asking->request != NULL);
    return asking->request->room;
}

/* A client that has gone without a token has given up for good; one with a token may be on its way
 * over another connection. */
bool ps_mailbox_stop_asking(struct ps_mailbox *mailbox, struct ps_asking *asking,
                            struct ps_mailbox_now now)
{
    struct ps_program_request *request = asking->request;
    bool is_gone = false;
    if (request == NULL)
        return true;
    asking->request = NULL;
    ps_mutex_lock(&mailbox->lock);
    PS_ASSERT(request->calls > 0);
    /* The count and the reference are two things: a handler has the latter only. */
    request->calls--;
    if (request->calls == 0 && request->token.token == 0 &&
        (request->state == PS_PROGRAM_WAITING || request->state == PS_PROGRAM_HELD)) {
        is_gone = true;
        ps_mailbox_end(mailbox, request, PS_ERR_CANCELLED,
                       ps_bytes_of_text("whoever asked has gone"), NULL, now);
    }
    ps_mailbox_unref(mailbox, request);
    ps_mutex_unlock(&mailbox->lock);
    return is_gone;
}
