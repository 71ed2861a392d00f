/* SPDX-License-Identifier: Apache-2.0 */
/* Each question is answered from the store alone: the trainer's place is looked up by its number,
 * and compared with the right that the trainer names. So a server that dies in between costs the
 * trainer one call, and a server that comes late does no harm: its transactions demand the place
 * that they have found. */
#include "server/core/ownership/init_right.h"

#include "base/assert.h"

static enum ps_status begin(struct ps_registry *registry, struct ps_init_question *question,
                            struct ps_init_lock *lock, uint64_t deadline_ms,
                            struct ps_error *error);
static enum ps_status place(struct ps_registry *registry, struct ps_init_question *question,
                            const struct ps_init_lock *lock, uint64_t deadline_ms,
                            struct ps_error *error);
static enum ps_status finish(struct ps_registry *registry, const struct ps_init_question *question,
                             struct ps_init_lock *lock, uint64_t deadline_ms,
                             struct ps_error *error);

/* A trainer whose place has gone, and perhaps been taken anew by an older call of its own that was
 * on the way for long, must not go on as if it had held the right all the time. */
static enum ps_status not_the_owner(struct ps_error *error)
{
    return ps_fail(error, PS_ERR_STALE_EPOCH, "no longer the owner of the lock");
}

/* The place is looked up for each question: what an earlier one found may have ended since. */
enum ps_status ps_init_right_ask(struct ps_registry *registry, struct ps_init_question *question,
                                 uint64_t deadline_ms, struct ps_error *error)
{
    struct ps_init_lock lock;
    PS_ASSERT(question->client != 0);
    PS_TRY(ps_registry_init_find(registry, question->client, deadline_ms, &lock, error));
    /* A revision is given once, so that a place which was taken anew is another one. */
    bool is_ours = question->right != 0 && lock.create_revision == question->right;
    switch (question->wish) {
    case PS_INIT_BEGIN:
        return begin(registry, question, &lock, deadline_ms, error);
    case PS_INIT_FINISH:
        return finish(registry, question, &lock, deadline_ms, error);
    case PS_INIT_ABANDON:
        /* A right that is gone is given up already. */
        if (is_ours)
            ps_registry_init_abandon(registry, &lock, deadline_ms);
        return PS_OK;
    }
    PS_ASSERT(false && "a wish that is none");
    return PS_ERR_INTERNAL;
}

/* Keeps the lease before it looks: a trainer that asks is alive, however long the look takes. The
 * number of what was lost is read behind the look that selects, and so covers everything that the
 * trainer does with this answer. */
static enum ps_status begin(struct ps_registry *registry, struct ps_init_question *question,
                            struct ps_init_lock *lock, uint64_t deadline_ms, struct ps_error *error)
{
    PS_ASSERT(question->ttl_ms >= PS_INIT_TTL_MS_MIN && question->ttl_ms <= PS_INIT_TTL_MS_MAX);
    /* Before the queue is entered: a right that was lost is not silently replaced by a new place.
     * */
    if (question->right != 0 && lock->create_revision != question->right)
        return not_the_owner(error);
    enum ps_status status = PS_OK;
    if (lock->create_revision != 0)
        status = ps_kv_lease_keep(registry->kv, lock->lease, deadline_ms, error);
    if (status == PS_OK)
        status = ps_registry_init_turn(registry, question->ttl_ms, lock, deadline_ms,
                                       &question->turn, error);
    /* Without a right there is nothing to lose: the place ended between two looks, and the next
     * question takes another one. */
    if (status == PS_ERR_LEASE_LOST)
        return question->right != 0 ? not_the_owner(error)
                                    : ps_fail(error, PS_ERR_UNAVAILABLE, "the place was lost");
    if (status != PS_OK)
        return status;
    question->right = lock->create_revision;
    if (question->turn == PS_INIT_SELECTED)
        PS_TRY(ps_registry_init_prepare(registry, lock, deadline_ms, error));
    question->lost = lock->lost_revision;
    return place(registry, question, lock, deadline_ms, error);
}

/* Only the trainer whose turn it is decides, and with it the store, which demands its place in the
 * queue. Everybody else is told what holds. */
static enum ps_status place(struct ps_registry *registry, struct ps_init_question *question,
                            const struct ps_init_lock *lock, uint64_t deadline_ms,
                            struct ps_error *error)
{
    if (question->turn != PS_INIT_SELECTED || question->placement == 0)
        return ps_registry_read_placement(registry, deadline_ms, &question->placement, error);
    enum ps_status status = ps_registry_decide_placement(registry, lock, question->placement,
                                                         deadline_ms, &question->placement, error);
    return status == PS_ERR_STALE_EPOCH ? not_the_owner(error) : status;
}

/* The mark and the end of the place are one transaction. A trainer whose answer was lost asks
 * again, and finds the mark in the place of its right. */
static enum ps_status finish(struct ps_registry *registry, const struct ps_init_question *question,
                             struct ps_init_lock *lock, uint64_t deadline_ms,
                             struct ps_error *error)
{
    bool done = false;
    if (question->right == 0 || lock->create_revision != question->right) {
        PS_TRY(ps_registry_init_is_done(registry, deadline_ms, &done, error));
        return done ? PS_OK : not_the_owner(error);
    }
    /* The trainer carries the number between the servers that it asks. */
    lock->lost_revision = question->lost;
    return ps_registry_init_finish(registry, lock, deadline_ms, error);
}
