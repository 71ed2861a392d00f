/* SPDX-License-Identifier: Apache-2.0 */
/* Views are shared and never changed: a call that encodes one of thousands of rows holds no lock
 * meanwhile, and the thread with the store never waits for a call. */
#include "server/core/ownership/cluster.h"

#include "base/assert.h"
#include "server/core/requests/topics.h"

#include <string.h>

/* The listener may be told as soon as a view or a question comes, which is after this. */
void ps_cluster_init(struct ps_cluster *cluster, const struct ps_allocator *memory,
                     const struct ps_cluster_listener *listener)
{
    PS_ASSERT(memory != NULL);
    *cluster = (struct ps_cluster){.memory = memory, .listener = *listener};
    ps_mutex_init(&cluster->mutex, PS_RANK_QUEUE);
}

/* A zeroed one is what a server that failed to start has. */
void ps_cluster_fini(struct ps_cluster *cluster)
{
    if (cluster->memory == NULL)
        return;
    ps_cluster_close(cluster);
    ps_cluster_view_release(cluster, cluster->view);
    ps_mutex_fini(&cluster->mutex);
    *cluster = (struct ps_cluster){0};
}

/* ---- Views ---- */

/* The reference is taken under the lock that a new view is put under: the old one cannot go in
 * between. */
struct ps_cluster_view *ps_cluster_view(struct ps_cluster *cluster)
{
    ps_mutex_lock(&cluster->mutex);
    struct ps_cluster_view *view = cluster->view;
    if (view != NULL)
        atomic_fetch_add(&view->references, 1);
    ps_mutex_unlock(&cluster->mutex);
    return view;
}

/* Whoever is last frees it, on whichever thread. */
void ps_cluster_view_release(struct ps_cluster *cluster, struct ps_cluster_view *view)
{
    if (view == NULL || atomic_fetch_sub(&view->references, 1) > 1)
        return;
    ps_members_release(&view->members);
    ps_release(cluster->memory, view);
}

/* By what clients are told, and not by the revision, which counts every write of the store. */
static bool is_same(const struct ps_members *left, const struct ps_members *right)
{
    if (left->shard_count != right->shard_count || left->placement != right->placement)
        return false;
    for (uint32_t i = 0; i < left->shard_count; i++)
        if (left->rows[i].epoch != right->rows[i].epoch ||
            strcmp(left->rows[i].address, right->rows[i].address) != 0)
            return false;
    return true;
}

/* Without memory the old view stays, and the next reading publishes anew: a change is late then,
 * and not lost. */
void ps_cluster_publish(struct ps_cluster *cluster, struct ps_members *members)
{
    PS_ASSERT(members->shard_count > 0);
    /* Only the caller's thread publishes, so that what is compared cannot change meanwhile. */
    struct ps_cluster_view *old = ps_cluster_view(cluster);
    struct ps_cluster_view *view = NULL;
    if (old == NULL || !is_same(&old->members, members))
        view = ps_zeroed(cluster->memory, sizeof *view);
    ps_cluster_view_release(cluster, old);
    if (view == NULL) {
        ps_members_release(members);
        return;
    }
    atomic_init(&view->references, 1);
    view->members = *members;
    /* The rows are the view's now. */
    *members = (struct ps_members){0};

    ps_mutex_lock(&cluster->mutex);
    old = cluster->view;
    cluster->view = view;
    ps_mutex_unlock(&cluster->mutex);
    ps_cluster_view_release(cluster, old);
    if (cluster->listener.changed != NULL)
        cluster->listener.changed(cluster->listener.self, PS_TOPIC_BIT(PS_TOPIC_CLUSTER));
}

/* ---- Questions ---- */

static enum ps_status ask(struct ps_cluster *cluster, const struct ps_init_question *question,
                          const struct ps_set_question *set, struct ps_cluster_inquiry **out,
                          struct ps_error *error);

/* About the right to initialise. */
enum ps_status ps_cluster_ask(struct ps_cluster *cluster, const struct ps_init_question *question,
                              struct ps_cluster_inquiry **out, struct ps_error *error)
{
    return ask(cluster, question, NULL, out, error);
}

/* The same queue and the same bound: both kinds wait for one thread. */
enum ps_status ps_cluster_ask_set(struct ps_cluster *cluster,
                                  const struct ps_set_question *question,
                                  struct ps_cluster_inquiry **out, struct ps_error *error)
{
    return ask(cluster, NULL, question, out, error);
}

/* A question is counted while it is in the queue only: what the thread has taken is answered soon,
 * and the bound is for what piles up while the store is away. The thread is woken behind the lock,
 * which it takes next. */
static enum ps_status ask(struct ps_cluster *cluster, const struct ps_init_question *question,
                          const struct ps_set_question *set, struct ps_cluster_inquiry **out,
                          struct ps_error *error)
{
    PS_ASSERT((question == NULL) != (set == NULL));
    struct ps_cluster_inquiry *inquiry = ps_zeroed(cluster->memory, sizeof *inquiry);
    if (inquiry == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a question to the store");
    inquiry->memory = cluster->memory;
    if (question != NULL)
        inquiry->question = *question;
    inquiry->is_about_set = set != NULL;
    if (set != NULL)
        inquiry->set = *set;
    atomic_init(&inquiry->references, 2);
    atomic_init(&inquiry->answered, false);

    ps_mutex_lock(&cluster->mutex);
    bool is_full = cluster->inquiry_count >= PS_CLUSTER_QUESTIONS_MAX;
    bool is_closed = cluster->is_closed;
    if (!is_full && !is_closed) {
        if (cluster->last != NULL)
            cluster->last->next = inquiry;
        else
            cluster->first = inquiry;
        cluster->last = inquiry;
        cluster->inquiry_count++;
    }
    ps_mutex_unlock(&cluster->mutex);
    /* Nobody has seen it. */
    if (is_full || is_closed) {
        ps_release(cluster->memory, inquiry);
        return is_full ? ps_fail(error, PS_ERR_BUSY, "%d questions wait for the store already",
                                 PS_CLUSTER_QUESTIONS_MAX)
                       : ps_fail(error, PS_ERR_UNAVAILABLE, "shutting down");
    }
    *out = inquiry;
    if (cluster->listener.asked != NULL)
        cluster->listener.asked(cluster->listener.self);
    return PS_OK;
}

/* Call and queue may let go in either order: a client that gives up does not stop the question. */
void ps_cluster_inquiry_release(struct ps_cluster_inquiry *inquiry)
{
    if (inquiry == NULL || atomic_fetch_sub(&inquiry->references, 1) > 1)
        return;
    /* Rows that no call has taken. */
    ps_set_question_fini(&inquiry->set);
    ps_release(inquiry->memory, inquiry);
}

/* The whole list at once, so that the lock is not held while the store is asked. */
struct ps_cluster_inquiry *ps_cluster_take(struct ps_cluster *cluster)
{
    ps_mutex_lock(&cluster->mutex);
    struct ps_cluster_inquiry *first = cluster->first;
    cluster->first = NULL;
    cluster->last = NULL;
    cluster->inquiry_count = 0;
    ps_mutex_unlock(&cluster->mutex);
    return first;
}

/* The flag goes last: a call that sees it reads what stands before it. */
void ps_cluster_answer(struct ps_cluster_inquiry *inquiry, enum ps_status status,
                       const struct ps_error *why)
{
    /* Once: the call may have read the first answer. */
    PS_ASSERT(!atomic_load(&inquiry->answered));
    inquiry->status = status;
    inquiry->error = *why;
    inquiry->error.status = status;
    atomic_store(&inquiry->answered, true);
    ps_cluster_inquiry_release(inquiry);
}

/* Apart from the answers: many of them are one wake-up of each lane. */
void ps_cluster_tell_answered(struct ps_cluster *cluster)
{
    if (cluster->listener.changed != NULL)
        cluster->listener.changed(cluster->listener.self, PS_TOPIC_BIT(PS_TOPIC_INIT));
}

/* Nobody may be left waiting: a parked call would keep a server from ending until its deadline. */
void ps_cluster_close(struct ps_cluster *cluster)
{
    const struct ps_error why = {.status = PS_ERR_UNAVAILABLE, .text = "shutting down"};
    ps_mutex_lock(&cluster->mutex);
    cluster->is_closed = true;
    ps_mutex_unlock(&cluster->mutex);
    struct ps_cluster_inquiry *inquiry = ps_cluster_take(cluster);
    /* What was taken before the close is answered by whoever took it. */
    bool any = inquiry != NULL;
    while (inquiry != NULL) {
        struct ps_cluster_inquiry *next = inquiry->next;
        ps_cluster_answer(inquiry, PS_ERR_UNAVAILABLE, &why);
        inquiry = next;
    }
    if (any)
        ps_cluster_tell_answered(cluster);
}
