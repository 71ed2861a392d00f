/* SPDX-License-Identifier: Apache-2.0 */
/* Takers: one request of each worker of a gang, or those that are next of any. A taker is known by
 * a number of its own and not by its connection: a call that is lost is asked again under the same
 * turn, and gets what the lost one had got. */
#include "server/core/programs/mailbox.h"

#include "base/assert.h"
#include "base/refusal.h"
#include "server/core/programs/mailbox_parts.h"

#include <inttypes.h>
#include <string.h>
#include <utlist.h>

enum { LEASE_MS_MAX = 60 * 60 * 1000 }; /* as that of a worker's place */

static enum ps_status find_or_add_taker(struct ps_mailbox *mailbox, struct ps_app *app,
                                        const struct ps_take_request *take,
                                        struct ps_program_taker **taker, struct ps_error *error);
static enum ps_status begin_turn(struct ps_program_taker *taker, const struct ps_take_request *take,
                                 struct ps_taking *taking, struct ps_error *error);
static size_t count_ready(struct ps_app *app, const struct ps_program_taker *taker,
                          const struct ps_taking *taking, bool *is_repeat);
static size_t take_rows(struct ps_app *app, struct ps_program_taker *taker,
                        struct ps_taking *taking, uint64_t bytes_max, bool is_repeat,
                        struct ps_mailbox_now now);

/* What is wrong whatever there is to take. A gang is small enough to compare each with each. */
static enum ps_status check_take(const struct ps_take_request *take, struct ps_error *error)
{
    PS_ASSERT(take->worker_count <= PS_PROGRAM_WORKERS_MAX);
    if (take->taker == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "app %" PRIu32 ": a taker has a number", take->app);
    /* A call that takes nothing has no turn. */
    if (take->turn == 0 && !take->touch && !take->leave)
        return ps_fail(error, PS_ERR_BAD_INPUT, "app %" PRIu32 ": turns begin with 1", take->app);
    for (size_t i = 0; i < take->worker_count; i++) {
        /* One of each: of a worker that is named twice two would be meant. */
        for (size_t j = 0; j < i; j++) {
            if (take->workers[i] == take->workers[j])
                return ps_fail(error, PS_ERR_BAD_INPUT,
                               "app %" PRIu32 ": worker %" PRIu32 " is twice in the gang",
                               take->app, take->workers[i]);
        }
    }
    return PS_OK;
}

/* What a taker says of itself counts from now on: the last word on its lease, its name, and on what
 * becomes of what it leaves. */
static enum ps_status take_locked(struct ps_mailbox *mailbox, const struct ps_take_request *take,
                                  struct ps_mailbox_now now, struct ps_taking *taking, bool *wakes,
                                  struct ps_error *error)
{
    struct ps_program_taker *taker;
    struct ps_app *app;
    PS_TRY(ps_mailbox_find_or_add_app(mailbox, take->app, &app, error));
    if (app->has_handler)
        return ps_fail(error, PS_ERR_EXISTS, "app %" PRIu32 " has a handler in the server",
                       take->app);
    PS_TRY(find_or_add_taker(mailbox, app, take, &taker, error));
    PS_ASSERT(taker->id == take->taker);
    taker->heard_ms = now.ms;
    taker->lease_ms = take->lease_ms != 0 ? take->lease_ms : mailbox->bounds.lease_ms;
    /* What a taker that has died had taken stays open for so long, and counts. */
    if (taker->lease_ms > LEASE_MS_MAX)
        taker->lease_ms = LEASE_MS_MAX;
    taker->again = take->again;
    /* Names may change; the number does not. */
    taker->name_size = (uint32_t)take->name.size;
    if (take->name.size > 0)
        memcpy(taker->name, take->name.data, take->name.size);
    /* A program that ends cleanly does not leave its workers to wait for its lease. */
    if (take->leave) {
        *wakes = ps_mailbox_end_taker(mailbox, app, taker, "has left", now);
        return PS_OK;
    }
    /* It is busy, and was heard. */
    if (take->touch)
        return PS_OK;
    /* An older call of this taker, if one waits, finds that it is not the last. */
    *wakes = taker->calls > 0;
    return begin_turn(taker, take, taking, error);
}

/* The gang is copied before the lock is taken: a call waits longer than its message lives. */
enum ps_status ps_mailbox_take(struct ps_mailbox *mailbox, const struct ps_take_request *take,
                               struct ps_mailbox_now now, struct ps_taking *taking, bool *wakes,
                               struct ps_error *error)
{
    *taking = (struct ps_taking){.app = take->app};
    *wakes = false;
    PS_TRY(check_take(take, error));
    size_t size = take->worker_count * sizeof *taking->workers;
    PS_ASSERT(take->name.size <= PS_PROGRAM_NAME_BYTES_MAX);
    if (size > 0) {
        taking->workers = ps_plain(mailbox->memory, size);
        if (taking->workers == NULL)
            return ps_fail(error, PS_ERR_NO_MEMORY, "app %" PRIu32 ": no memory for a gang",
                           take->app);
        memcpy(taking->workers, take->workers, size);
        taking->worker_count = take->worker_count;
    }
    /* All that needs memory of any size is there. */
    ps_mutex_lock(&mailbox->lock);
    enum ps_status status = take_locked(mailbox, take, now, taking, wakes, error);
    ps_mutex_unlock(&mailbox->lock);
    if (status != PS_OK) {
        ps_release(mailbox->memory, taking->workers);
        *taking = (struct ps_taking){.app = 0};
    }
    return status;
}

/* Known by its number, which it has chosen at random: two processes are two takers, and so are two
 * threads of one. */
static enum ps_status find_or_add_taker(struct ps_mailbox *mailbox, struct ps_app *app,
                                        const struct ps_take_request *take,
                                        struct ps_program_taker **out, struct ps_error *error)
{
    const struct ps_allocator *memory = mailbox->memory;
    bool refused = false;
    struct ps_program_taker *taker;
    HASH_FIND(hh, app->takers, &take->taker, sizeof take->taker, taker);
    *out = taker;
    if (taker != NULL)
        return PS_OK;
    /* A taker is forgotten when it is silent, so that the bound is on those that live. */
    if (HASH_COUNT(app->takers) >= mailbox->bounds.parties_max)
        return ps_refuse(error, PS_ERR_BUSY, PS_REFUSED_PROGRAMS, 0,
                         "app %" PRIu32 " has %" PRIu32 " takers, and no more may it have", app->id,
                         mailbox->bounds.parties_max);
    taker = ps_zeroed(memory, sizeof *taker);
    if (taker != NULL) {
        taker->id = take->taker;
        HASH_ADD(hh, app->takers, id, sizeof taker->id, taker);
    }
    if (taker == NULL || refused) {
        ps_release(memory, taker);
        return ps_fail(error, PS_ERR_NO_MEMORY, "app %" PRIu32 ": no memory for a taker", app->id);
    }
    PS_ASSERT(HASH_COUNT(app->takers) <= mailbox->bounds.parties_max);
    *out = taker;
    return PS_OK;
}

/* A later turn says that the reply to the one before has arrived. What was taken then is the
 * taker's all the same, until it is answered. */
static enum ps_status begin_turn(struct ps_program_taker *taker, const struct ps_take_request *take,
                                 struct ps_taking *taking, struct ps_error *error)
{
    if (take->turn < taker->turn)
        return ps_fail(error, PS_ERR_ABORTED,
                       "app %" PRIu32 ": turn %" PRIu64 " is over: the taker has begun %" PRIu64,
                       take->app, take->turn, taker->turn);
    PS_ASSERT(take->turn != 0);
    taker->turn = take->turn;
    taking->taker = take->taker;
    /* By this an older call finds that it is not the last. */
    taking->serial = ++taker->serial;
    taking->max = take->max != 0 ? take->max : 1;
    taking->partial = take->partial;
    taking->is_in = true;
    taker->calls++;
    return PS_OK;
}

/* ---- Collecting ---- */

/* All of a gang or, when the time is over and the taker has said so, what there is of it. Memory
 * for the rows comes before anything is taken. */
static enum ps_status collect_locked(struct ps_mailbox *mailbox, struct ps_taking *taking,
                                     uint64_t bytes_max, bool is_last, struct ps_mailbox_now now,
                                     struct ps_error *error)
{
    struct ps_app *app = ps_mailbox_find_app(mailbox, taking->app);
    struct ps_program_taker *taker = NULL;
    bool is_repeat;
    if (app != NULL)
        HASH_FIND(hh, app->takers, &taking->taker, sizeof taking->taker, taker);
    /* Its lease has ended while the call was on its way; what it says next makes it known
     * again. */
    if (taker == NULL)
        return ps_fail(error, PS_ERR_ABORTED, "app %" PRIu32 ": this taker is forgotten",
                       taking->app);
    taker->heard_ms = now.ms;
    /* Its client has given it up, or the network has: the newer one takes. */
    if (taker->serial != taking->serial)
        return ps_fail(error, PS_ERR_CANCELLED, "app %" PRIu32 ": another call of this taker came",
                       taking->app);
    size_t ready = count_ready(app, taker, taking, &is_repeat);
    /* Of any worker one is enough: whoever wants many does not wait for all of them. */
    size_t wanted = taking->worker_count > 0 ? taking->worker_count : 1;
    if (ready < wanted && !is_repeat && !is_last)
        return ps_fail(error, PS_ERR_NOT_READY, "nothing to take");
    /* The time is over. An empty answer is no failure: the taker comes again. */
    if (ready == 0 || (ready < wanted && !is_repeat && !taking->partial))
        return PS_OK;
    taking->rows = ps_zeroed_array(mailbox->memory, ready, sizeof *taking->rows);
    if (taking->rows == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "app %" PRIu32 ": no memory to take %zu requests",
                       taking->app, ready);
    taking->row_count = take_rows(app, taker, taking, bytes_max, is_repeat, now);
    PS_ASSERT(taking->row_count > 0 && taking->row_count <= ready);
    return PS_OK;
}

/* Any number of times, until it is not PS_ERR_NOT_READY. */
enum ps_status ps_mailbox_collect(struct ps_mailbox *mailbox, struct ps_taking *taking,
                                  uint64_t bytes_max, bool is_last, struct ps_mailbox_now now,
                                  struct ps_error *error)
{
    PS_ASSERT(taking->is_in && taking->rows == NULL);
    ps_mutex_lock(&mailbox->lock);
    enum ps_status status = collect_locked(mailbox, taking, bytes_max, is_last, now, error);
    ps_mutex_unlock(&mailbox->lock);
    return status;
}

/* What the turn has got already, if anything: then it gets no more. */
static size_t count_ready(struct ps_app *app, const struct ps_program_taker *taker,
                          const struct ps_taking *taking, bool *is_repeat)
{
    const struct ps_program_request *request;
    size_t count = 0;
    DL_FOREACH(taker->taken, request)
    count += request->turn == taker->turn;
    *is_repeat = count > 0;
    if (*is_repeat)
        return count;
    if (taking->worker_count == 0)
        return app->waiting_count < taking->max ? app->waiting_count : taking->max;
    for (size_t i = 0; i < taking->worker_count; i++) {
        const struct ps_program_worker *worker;
        /* A worker that nobody has heard of has nothing. */
        HASH_FIND(hh, app->workers, &taking->workers[i], sizeof taking->workers[i], worker);
        count += worker != NULL && worker->waiting != NULL;
    }
    return count;
}

/* The taker's stamps follow the worker's two. */
static void fill_row(struct ps_taken_row *row, const struct ps_program_request *request)
{
    PS_ASSERT(request->state == PS_PROGRAM_TAKEN);
    *row = (struct ps_taken_row){.handle = request->handle,
                                 .again = request->is_again,
                                 .asked = request->asked,
                                 .question = ps_parcel_acquire(request->question)};
    /* When it came, and when it was given out: of this host's clock. */
    row->asked.stamps.ns[2] = request->came_ns;
    row->asked.stamps.ns[3] = request->taken_ns;
}

/* Out of both lists in which it waited. */
static void take_one(struct ps_program_taker *taker, struct ps_program_request *request,
                     struct ps_mailbox_now now)
{
    PS_ASSERT(request->state == PS_PROGRAM_WAITING);
    ps_mailbox_pull_out(request);
    request->state = PS_PROGRAM_TAKEN;
    request->taker = taker->id;
    /* By which a repeat of the call finds it. */
    request->turn = taker->turn;
    request->taken_ns = now.unix_ns;
    DL_APPEND(taker->taken, request);
    taker->taken_count++;
}

/* A gang is taken whole, in the order in which its workers were named; of any worker's requests as
 * many as a reply has room for. */
static size_t take_rows(struct ps_app *app, struct ps_program_taker *taker,
                        struct ps_taking *taking, uint64_t bytes_max, bool is_repeat,
                        struct ps_mailbox_now now)
{
    struct ps_program_request *request;
    struct ps_program_worker *worker;
    uint64_t bytes = 0;
    size_t count = 0;
    PS_ASSERT(taking->rows != NULL);
    if (is_repeat) {
        DL_FOREACH(taker->taken, request)
        {
            if (request->turn == taker->turn)
                fill_row(&taking->rows[count++], request);
        }
        return count;
    }
    for (size_t i = 0; i < taking->worker_count; i++) {
        HASH_FIND(hh, app->workers, &taking->workers[i], sizeof taking->workers[i], worker);
        if (worker == NULL || worker->waiting == NULL)
            continue;
        request = worker->waiting;
        take_one(taker, request, now);
        fill_row(&taking->rows[count++], request);
    }
    while (taking->worker_count == 0 && app->waiting != NULL && count < taking->max) {
        request = app->waiting;
        /* The first goes out however large it is: it must go at some time. */
        bytes += request->question->payload.content.size;
        if (count > 0 && bytes > bytes_max)
            break;
        take_one(taker, request, now);
        fill_row(&taking->rows[count++], request);
    }
    return count;
}

/* The lease counts from the end of the call. */
void ps_mailbox_stop_taking(struct ps_mailbox *mailbox, struct ps_taking *taking,
                            struct ps_mailbox_now now)
{
    struct ps_program_taker *taker = NULL;
    PS_ASSERT(taking->row_count == 0 || taking->rows != NULL);
    /* References only: what was taken stays the taker's. */
    for (size_t i = 0; i < taking->row_count; i++)
        ps_parcel_release(taking->rows[i].question);
    if (taking->is_in) {
        ps_mutex_lock(&mailbox->lock);
        struct ps_app *app = ps_mailbox_find_app(mailbox, taking->app);
        if (app != NULL)
            HASH_FIND(hh, app->takers, &taking->taker, sizeof taking->taker, taker);
        /* One that was forgotten meanwhile may have come again under its number. */
        if (taker != NULL && taker->calls > 0) {
            taker->calls--;
            taker->heard_ms = now.ms;
        }
        ps_mutex_unlock(&mailbox->lock);
    }
    ps_release(mailbox->memory, taking->rows);
    ps_release(mailbox->memory, taking->workers);
    *taking = (struct ps_taking){.app = 0};
}
