/* SPDX-License-Identifier: Apache-2.0 */
/* Views are shared and never changed, as those of cluster.c; so are the questions. */
#include "server/core/ownership/workers.h"

#include "base/assert.h"
#include "server/core/requests/topics.h"

#include <string.h>

/* A few times as many as workers of one group. */
enum { HEARD_SLOTS = 4 * PS_WORKERS_MAX };

struct ps_worker_heard {
    int64_t incarnation;
    uint64_t heard_ms;
};

static void note_heard(struct ps_workers *workers, int64_t incarnation);

/* The listener may be told as soon as a question comes, which is after this. */
void ps_workers_init(struct ps_workers *workers, const struct ps_allocator *memory,
                     const struct ps_clock *clock, const struct ps_workers_listener *listener)
{
    PS_ASSERT(memory != NULL && clock != NULL);
    *workers = (struct ps_workers){.memory = memory, .clock = clock, .listener = *listener};
    ps_mutex_init(&workers->mutex, PS_RANK_QUEUE);
}

/* A zeroed one is what a server that failed to start has. */
void ps_workers_fini(struct ps_workers *workers)
{
    if (workers->memory == NULL)
        return;
    ps_workers_close(workers);
    ps_workers_view_release(workers, workers->view);
    ps_release(workers->memory, workers->heard);
    ps_mutex_fini(&workers->mutex);
    *workers = (struct ps_workers){0};
}

/* ---- Views ---- */

/* Under the lock that a new view is put under: the old one cannot go in between. */
static struct ps_worker_view *reference(struct ps_worker_view *view)
{
    PS_ASSERT(view == NULL || atomic_load(&view->references) > 0);
    if (view != NULL)
        atomic_fetch_add(&view->references, 1);
    return view;
}

/* The thread is woken by the first that waits after a while without any: the view that is there is
 * old. */
struct ps_worker_view *ps_workers_view(struct ps_workers *workers)
{
    ps_mutex_lock(&workers->mutex);
    uint64_t now_ms = ps_now_ms(workers->clock);
    /* The mark is set under the same lock: of many that come at once, one wakes the thread. */
    bool is_old = !workers->is_watched || now_ms - workers->watched_ms >= PS_WORKERS_WATCHED_MS;
    workers->is_watched = true;
    workers->watched_ms = now_ms;
    struct ps_worker_view *view = reference(workers->view);
    ps_mutex_unlock(&workers->mutex);
    if (is_old && workers->listener.asked != NULL)
        workers->listener.asked(workers->listener.self);
    return view;
}

/* Whoever is last frees it, on whichever thread. */
void ps_workers_view_release(struct ps_workers *workers, struct ps_worker_view *view)
{
    if (view == NULL || atomic_fetch_sub(&view->references, 1) > 1)
        return;
    ps_worker_rows_release(&view->rows);
    ps_release(workers->memory, view);
}

/* Asked by the thread before each of its turns. */
bool ps_workers_is_watched(struct ps_workers *workers)
{
    ps_mutex_lock(&workers->mutex);
    /* By the clock alone: whoever waits asks again, and says so each time. */
    bool watched = workers->is_watched &&
                   ps_now_ms(workers->clock) - workers->watched_ms < PS_WORKERS_WATCHED_MS;
    ps_mutex_unlock(&workers->mutex);
    return watched;
}

/* An incarnation is given once: equal ones are equal rows. */
static bool is_same(const struct ps_worker_rows *left, const struct ps_worker_rows *right)
{
    PS_ASSERT(left->memory != NULL && right->memory != NULL);
    if (left->row_count != right->row_count || left->group_count != right->group_count)
        return false;
    for (size_t i = 0; i < left->row_count; i++)
        if (left->rows[i].incarnation != right->rows[i].incarnation)
            return false;
    /* A size may change without any row: when everybody has left, and somebody has joined and
     * left. */
    for (size_t i = 0; i < left->group_count; i++)
        if (left->groups[i].size != right->groups[i].size ||
            strcmp(left->groups[i].name, right->groups[i].name) != 0)
            return false;
    return true;
}

/* Without memory the old view stays, and the next reading publishes anew. */
void ps_workers_publish(struct ps_workers *workers, struct ps_worker_rows *rows)
{
    /* Only the caller's thread publishes, so that what is compared cannot change meanwhile. */
    PS_ASSERT(rows->memory == workers->memory);
    struct ps_worker_view *old = workers->view;
    /* A view that is as the one before stays, with its revision: nobody is woken for nothing. */
    struct ps_worker_view *view = NULL;
    if (old == NULL || !is_same(&old->rows, rows))
        view = ps_zeroed(workers->memory, sizeof *view);
    if (view == NULL) {
        ps_worker_rows_release(rows);
        return;
    }
    atomic_init(&view->references, 1);
    /* That of the reading: every change before it is in, and whoever knows this number waits for
     * one behind it. */
    view->revision = rows->revision;
    view->rows = *rows;
    *rows = (struct ps_worker_rows){0};

    ps_mutex_lock(&workers->mutex);
    workers->view = view;
    ps_mutex_unlock(&workers->mutex);
    ps_workers_view_release(workers, old);
    if (workers->listener.changed != NULL)
        workers->listener.changed(workers->listener.self, PS_TOPIC_BIT(PS_TOPIC_WORKERS));
}

/* ---- Questions ---- */

/* Counted while it is in the queue only, as in cluster.c. */
enum ps_status ps_workers_ask(struct ps_workers *workers, const struct ps_worker_question *question,
                              struct ps_worker_inquiry **out, struct ps_error *error)
{
    PS_ASSERT(question->task == PS_WORKER_LIST || question->worker.client != 0);
    struct ps_worker_inquiry *inquiry = ps_zeroed(workers->memory, sizeof *inquiry);
    if (inquiry == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a question to the store");
    inquiry->memory = workers->memory;
    inquiry->question = *question;
    atomic_init(&inquiry->references, 2);
    atomic_init(&inquiry->answered, false);

    ps_mutex_lock(&workers->mutex);
    /* Both are looked at under the lock, and told without it. */
    bool is_full = workers->inquiry_count >= PS_WORKER_QUESTIONS_MAX;
    bool is_closed = workers->is_closed;
    if (!is_full && !is_closed) {
        if (workers->last != NULL)
            workers->last->next = inquiry;
        else
            workers->first = inquiry;
        workers->last = inquiry;
        /* Taken back as a whole when the thread takes the queue. */
        workers->inquiry_count++;
    }
    ps_mutex_unlock(&workers->mutex);
    /* Nobody has seen it. */
    if (is_full || is_closed) {
        ps_release(workers->memory, inquiry);
        return is_full ? ps_fail(error, PS_ERR_BUSY, "%d questions wait for the store already",
                                 PS_WORKER_QUESTIONS_MAX)
                       : ps_fail(error, PS_ERR_UNAVAILABLE, "shutting down");
    }
    *out = inquiry;
    if (workers->listener.asked != NULL)
        workers->listener.asked(workers->listener.self);
    return PS_OK;
}

/* Call and queue may let go in either order: a client that gives up does not stop the question. */
void ps_workers_inquiry_release(struct ps_worker_inquiry *inquiry)
{
    if (inquiry == NULL || atomic_fetch_sub(&inquiry->references, 1) > 1)
        return;
    ps_release(inquiry->memory, inquiry);
}

/* The whole list at once, so that the lock is not held while the store is asked. */
struct ps_worker_inquiry *ps_workers_take(struct ps_workers *workers)
{
    ps_mutex_lock(&workers->mutex);
    struct ps_worker_inquiry *first = workers->first;
    PS_ASSERT((first == NULL) == (workers->inquiry_count == 0));
    workers->first = NULL;
    workers->last = NULL;
    workers->inquiry_count = 0;
    ps_mutex_unlock(&workers->mutex);
    return first;
}

/* Heard is who was let in or kept its place: a question that was refused is nobody's. */
void ps_workers_answer(struct ps_workers *workers, struct ps_worker_inquiry *inquiry,
                       enum ps_status status, const struct ps_error *why)
{
    PS_ASSERT(!atomic_load(&inquiry->answered));
    /* Before the flag: afterwards the question is the call's. */
    const struct ps_worker_question *question = &inquiry->question;
    if (status == PS_OK && question->task == PS_WORKER_JOIN && question->has_joined)
        note_heard(workers, question->incarnation);
    inquiry->status = status;
    inquiry->error = *why;
    inquiry->error.status = status;
    /* The flag goes last: a call that sees it reads what stands before it. */
    atomic_store(&inquiry->answered, true);
    ps_workers_inquiry_release(inquiry);
}

/* Apart from the answers: many of them are one wake-up of each lane. */
void ps_workers_tell_answered(struct ps_workers *workers)
{
    if (workers->listener.changed != NULL)
        workers->listener.changed(workers->listener.self, PS_TOPIC_BIT(PS_TOPIC_WORKERS));
}

/* Nobody may be left waiting: a parked call would keep a server from ending until its deadline. */
void ps_workers_close(struct ps_workers *workers)
{
    /* As a server says that goes: the client asks another, which finds the place in the store. */
    const struct ps_error why = {.status = PS_ERR_UNAVAILABLE, .text = "shutting down"};
    ps_mutex_lock(&workers->mutex);
    PS_ASSERT(workers->memory != NULL);
    workers->is_closed = true;
    ps_mutex_unlock(&workers->mutex);
    struct ps_worker_inquiry *inquiry = ps_workers_take(workers);
    bool any = inquiry != NULL;
    /* What was taken before the close is answered by whoever took it. */
    while (inquiry != NULL) {
        struct ps_worker_inquiry *next = inquiry->next;
        ps_workers_answer(workers, inquiry, PS_ERR_UNAVAILABLE, &why);
        inquiry = next;
    }
    if (any)
        ps_workers_tell_answered(workers);
}

/* ---- Who was heard ---- */

/* For people, so that a place which is lost to another is no harm: an incarnation has one slot, and
 * whoever was heard last has it. Incarnations are revisions of the store, which lie close together
 * and rarely share one. */
static struct ps_worker_heard *slot_of(struct ps_workers *workers, int64_t incarnation)
{
    PS_ASSERT(workers->heard != NULL && incarnation > 0);
    return &workers->heard[(uint64_t)incarnation % HEARD_SLOTS];
}

/* The slots are made for the first worker: most servers of a job may never be called by one. */
static void note_heard(struct ps_workers *workers, int64_t incarnation)
{
    PS_ASSERT(incarnation != 0);
    ps_mutex_lock(&workers->mutex);
    if (workers->heard == NULL)
        workers->heard = ps_zeroed_array(workers->memory, HEARD_SLOTS, sizeof *workers->heard);
    if (workers->heard != NULL)
        /* The newest counts: an older one there is of a place that is gone, or is heard again
         * soon. */
        *slot_of(workers, incarnation) =
            (struct ps_worker_heard){incarnation, ps_now_ms(workers->clock)};
    ps_mutex_unlock(&workers->mutex);
}

bool ps_workers_silence(struct ps_workers *workers, int64_t incarnation, uint64_t *silent_ms)
{
    PS_ASSERT(incarnation != 0);
    ps_mutex_lock(&workers->mutex);
    const struct ps_worker_heard *heard =
        workers->heard != NULL ? slot_of(workers, incarnation) : NULL;
    /* The slot may be another place's by now. */
    bool found = heard != NULL && heard->incarnation == incarnation;
    if (found)
        *silent_ms = ps_now_ms(workers->clock) - heard->heard_ms;
    ps_mutex_unlock(&workers->mutex);
    return found;
}
