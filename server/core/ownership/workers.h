/* SPDX-License-Identifier: Apache-2.0 */
/* Workers of the job, as a server lets them in and tells of them: questions that wait for the
 * thread with the store, and the list that this thread read last. Calls meet the thread here, as in
 * cluster.h: neither waits for the other.
 *
 * Threads:  every function is safe from any thread; publish, take and answer belong to the one with
 *           the store.
 * Blocking: never.
 * Errors:   ask: PS_ERR_BUSY, PS_ERR_NO_MEMORY, PS_ERR_UNAVAILABLE.
 * Memory:   a view and a question live as long as somebody has a reference.
 */
#ifndef PS_SERVER_CORE_WORKERS_H
#define PS_SERVER_CORE_WORKERS_H

#include "base/clock.h"
#include "base/thread.h"
#include "server/core/ownership/worker_question.h"

#include <stdatomic.h>

/* Questions that wait for the store; each is a call that its connection may have. */
#define PS_WORKER_QUESTIONS_MAX 8192

/* Without anybody who waits for changes for so long, the list is not kept fresh. */
#define PS_WORKERS_WATCHED_MS 60000

/* Who is there, at one moment. Never written once it is published. */
struct ps_worker_view {
    atomic_uint references;
    int64_t revision; /* of the last change that was seen */
    struct ps_worker_rows rows;
};

/* A question on its way, and then its answer. */
struct ps_worker_inquiry {
    const struct ps_allocator *memory; /* borrowed */
    atomic_uint references;            /* of the call, of the queue */
    struct ps_worker_question question;
    atomic_bool answered; /* what follows, and the question's answer, is there */
    enum ps_status status;
    struct ps_error error;
    struct ps_worker_inquiry *next;
};

/* Told when views and answers are new: a mask of topics (topics.h). */
struct ps_workers_listener {
    void (*changed)(void *self, uint64_t topics);
    void (*asked)(void *self); /* a question waits for the thread with the store */
    void *self;
};

/* When a worker was last heard by this server. */
struct ps_worker_heard;

struct ps_workers {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    const struct ps_clock *clock;      /* borrowed; outlives this */
    struct ps_workers_listener listener;
    struct ps_mutex mutex; /* PS_RANK_QUEUE; guards what follows */
    struct ps_worker_view *view;
    struct ps_worker_inquiry *first, *last;
    uint32_t inquiry_count;        /* in the queue */
    uint64_t watched_ms;           /* somebody waited for a change then, and ... */
    bool is_watched;               /* ... ever */
    struct ps_worker_heard *heard; /* owned; by incarnation */
    bool is_closed;
};

/* `memory` and `clock` are borrowed; the listener is copied, and may be all NULL. */
void ps_workers_init(struct ps_workers *workers, const struct ps_allocator *memory,
                     const struct ps_clock *clock, const struct ps_workers_listener *listener);

/* Nobody asks any more. Also of a zeroed one. */
void ps_workers_fini(struct ps_workers *workers);

/* ---- Calls ---- */

/* The newest view, to be released; NULL while there is none. Whoever asks waits for changes: for a
 * while from now on the thread keeps the view fresh. */
struct ps_worker_view *ps_workers_view(struct ps_workers *workers);
void ps_workers_view_release(struct ps_workers *workers, struct ps_worker_view *view);

/* Puts a question. `*inquiry` is to be released, answered or not. */
PS_MUST_USE enum ps_status ps_workers_ask(struct ps_workers *workers,
                                          const struct ps_worker_question *question,
                                          struct ps_worker_inquiry **inquiry,
                                          struct ps_error *error);

/* NULL is allowed. */
void ps_workers_inquiry_release(struct ps_worker_inquiry *inquiry);

/* For how long this server has not heard the worker of that place; false: it never did. */
bool ps_workers_silence(struct ps_workers *workers, int64_t incarnation, uint64_t *silent_ms);

/* ---- The thread with the store ---- */

/* Is the view to be kept fresh? */
bool ps_workers_is_watched(struct ps_workers *workers);

/* Takes `rows` (which is zeroed). A view of the same content is not a change. */
void ps_workers_publish(struct ps_workers *workers, struct ps_worker_rows *rows);

/* All questions that wait, in their order; NULL: none. Each is answered, and so released. */
struct ps_worker_inquiry *ps_workers_take(struct ps_workers *workers);
void ps_workers_answer(struct ps_workers *workers, struct ps_worker_inquiry *inquiry,
                       enum ps_status status, const struct ps_error *why);

/* Answers were given. */
void ps_workers_tell_answered(struct ps_workers *workers);

/* From now on nobody answers: what waits, and what is asked, is PS_ERR_UNAVAILABLE. */
void ps_workers_close(struct ps_workers *workers);

#endif
