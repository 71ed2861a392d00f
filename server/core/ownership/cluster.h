/* SPDX-License-Identifier: Apache-2.0 */
/* What a server tells of its job's servers, and the questions about the right to initialise that
 * wait for the thread with the store. Calls meet that thread here: neither waits for the other.
 *
 * Threads:  every function is safe from any thread; publish, take and answer belong to the one with
 *           the store.
 * Blocking: never.
 * Errors:   ask: PS_ERR_BUSY, PS_ERR_NO_MEMORY, PS_ERR_UNAVAILABLE.
 * Memory:   a view and a question live as long as somebody has a reference.
 */
#ifndef PS_SERVER_CORE_CLUSTER_H
#define PS_SERVER_CORE_CLUSTER_H

#include "base/thread.h"
#include "server/core/ownership/init_right.h"
#include "server/core/ownership/set_question.h"

#include <stdatomic.h>

/* Questions that wait for the store; each is a call that its connection may have. */
#define PS_CLUSTER_QUESTIONS_MAX 1024

/* Who is where, at one moment. Never written once it is published. */
struct ps_cluster_view {
    atomic_uint references;
    struct ps_members members; /* its revision is the view's: that of the last change */
};

/* A question on its way, and then its answer. */
struct ps_cluster_inquiry {
    const struct ps_allocator *memory; /* borrowed */
    atomic_uint references;            /* of the call, of the queue */
    struct ps_init_question question;
    bool is_about_set;          /* the next is the question, and not the one before */
    struct ps_set_question set; /* owned */
    atomic_bool answered;       /* what follows, and the question's answer, is there */
    enum ps_status status;
    struct ps_error error;
    struct ps_cluster_inquiry *next;
};

/* Told when views and answers are new: a mask of topics (topics.h). */
struct ps_cluster_listener {
    void (*changed)(void *self, uint64_t topics);
    void (*asked)(void *self); /* a question waits for the thread with the store */
    void *self;
};

struct ps_cluster {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct ps_cluster_listener listener;
    struct ps_mutex mutex; /* PS_RANK_QUEUE; guards what follows */
    struct ps_cluster_view *view;
    struct ps_cluster_inquiry *first, *last;
    uint32_t inquiry_count; /* in the queue */
    bool is_closed;
};

/* `memory` is borrowed; the listener is copied, and may be all NULL. */
void ps_cluster_init(struct ps_cluster *cluster, const struct ps_allocator *memory,
                     const struct ps_cluster_listener *listener);

/* Nobody asks any more. Also of a zeroed one. */
void ps_cluster_fini(struct ps_cluster *cluster);

/* ---- Calls ---- */

/* The newest view, to be released; NULL while there is none. */
struct ps_cluster_view *ps_cluster_view(struct ps_cluster *cluster);
void ps_cluster_view_release(struct ps_cluster *cluster, struct ps_cluster_view *view);

/* Puts a question. `*inquiry` is to be released, answered or not. */
PS_MUST_USE enum ps_status ps_cluster_ask(struct ps_cluster *cluster,
                                          const struct ps_init_question *question,
                                          struct ps_cluster_inquiry **inquiry,
                                          struct ps_error *error);

/* The same for a set of checkpoints; of `question` its name and what it begins count. */
PS_MUST_USE enum ps_status ps_cluster_ask_set(struct ps_cluster *cluster,
                                              const struct ps_set_question *question,
                                              struct ps_cluster_inquiry **inquiry,
                                              struct ps_error *error);

/* NULL is allowed. */
void ps_cluster_inquiry_release(struct ps_cluster_inquiry *inquiry);

/* ---- The thread with the store ---- */

/* Takes `members` (which is zeroed). A view of the same content is not a change. */
void ps_cluster_publish(struct ps_cluster *cluster, struct ps_members *members);

/* All questions that wait, in their order; NULL: none. Each is answered, and so released. */
struct ps_cluster_inquiry *ps_cluster_take(struct ps_cluster *cluster);
void ps_cluster_answer(struct ps_cluster_inquiry *inquiry, enum ps_status status,
                       const struct ps_error *why);

/* Answers were given. */
void ps_cluster_tell_answered(struct ps_cluster *cluster);

/* From now on nobody answers: what waits, and what is asked, is PS_ERR_UNAVAILABLE. */
void ps_cluster_close(struct ps_cluster *cluster);

#endif
