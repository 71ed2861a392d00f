/* SPDX-License-Identifier: Apache-2.0 */
/* A queue of jobs, a list of work that is shared, and threads that empty both.
 *
 * A lane must come back to its queue within about a millisecond, or everybody whose connection it
 * has waits. So a request that moves much goes to a helper (a job), and a helper that has none
 * joins an update that is large enough for several threads (a share). One pool serves both, because
 * the two take turns: a server is either busy with many requests or with a few large ones.
 *
 * Nobody ever waits for a helper to come. Work that is shared is begun by its owner at once and
 * would be finished by the owner alone; so a pool of no threads, or one in which all are busy, is
 * slow but never stuck. */
#include "server/rpc/helpers.h"

#include "base/assert.h"
#include "base/busy_poll.h"
#include "base/clock.h"
#include "server/core/requests/service.h"

#include <stdatomic.h>
#include <utlist.h>

/* A thread that shares its work looks so long for the end of the others before it sleeps. */
#define SHARE_SPIN_NS 200000

/* Work that several threads do at once; lives on the stack of the thread that shares it. */
struct ps_helper_share {
    void (*work)(void *argument);
    void *argument;
    uint32_t wanted;       /* helpers that may still join */
    _Atomic uint32_t busy; /* helpers at it; written with the lock */
    struct ps_helper_share *next;
};

/* The next work of a helper: a job or a share; neither, when the helper is to end. */
struct task {
    struct ps_helper_job *job;
    struct ps_helper_share *share;
};

/* Every function below that takes a share out of the list or puts it there holds the lock. */
static void run(void *argument);
static struct task next_task(struct ps_helpers *helpers);
static struct ps_helper_share *join_share(struct ps_helpers *helpers);
static struct ps_helper_job *take_job(struct ps_helpers *helpers);
static void end_task(struct ps_helpers *helpers, struct task task);
static void share_work(void *self, void (*work)(void *argument), void *argument);
static void invite(struct ps_helpers *helpers, struct ps_helper_share *share);
static void withdraw(struct ps_helpers *helpers, struct ps_helper_share *share);
static void wait_for_helpers(struct ps_helpers *helpers, struct ps_helper_share *share);

/* A helper takes this lock for the queue only and lets go of it before any work begins: the work
 * takes locks that rank before this one. */
void ps_helpers_init(struct ps_helpers *helpers)
{
    *helpers = (struct ps_helpers){0};
    ps_mutex_init(&helpers->lock, PS_RANK_QUEUE);
    ps_condition_init(&helpers->changed);
    ps_condition_init(&helpers->shared);
}

/* A job that is still queued belongs to a call that nobody would answer any more. */
void ps_helpers_fini(struct ps_helpers *helpers)
{
    PS_ASSERT(helpers->submitted == NULL && helpers->shares == NULL);
    ps_condition_fini(&helpers->shared);
    ps_condition_fini(&helpers->changed);
    ps_mutex_fini(&helpers->lock);
}

/* A thread for each job, and as many more as one update may have besides the thread that runs it:
 * then neither kind of work can take all threads from the other. */
enum ps_status ps_helpers_start(struct ps_helpers *helpers, uint32_t jobs, uint32_t update_threads,
                                struct ps_error *error)
{
    PS_ASSERT(jobs >= 1 && jobs <= PS_HELPER_JOBS_MAX);
    PS_ASSERT(update_threads >= 1 && update_threads <= PS_UPDATE_THREADS_MAX);
    /* Both are written before the first thread exists, so that no helper needs the lock to read
     * them. */
    helpers->jobs_max = jobs;
    helpers->update_threads_max = update_threads;
    for (uint32_t i = 0; i < jobs + update_threads - 1; i++)
        PS_TRY(ps_thread_start(&helpers->threads[i], "rpc helper", run, helpers, error));
    return PS_OK;
}

/* Every waiting thread is woken, since one that may not take a job (enough are under way) could be
 * the one that a single signal reaches. */
void ps_helpers_submit(struct ps_helpers *helpers, struct ps_helper_job *job)
{
    ps_mutex_lock(&helpers->lock);
    PS_ASSERT(!helpers->stopping);
    DL_APPEND(helpers->submitted, job);
    ps_condition_signal_all(&helpers->changed);
    ps_mutex_unlock(&helpers->lock);
}

/* Jobs that were submitted are still done: each is a call that waits for its answer. */
void ps_helpers_stop(struct ps_helpers *helpers)
{
    ps_mutex_lock(&helpers->lock);
    helpers->stopping = true;
    ps_condition_signal_all(&helpers->changed);
    ps_mutex_unlock(&helpers->lock);
    for (size_t i = 0; i < PS_HELPERS_MAX; i++)
        ps_thread_join(&helpers->threads[i]);
}

/* ---- A helper's thread ---- */

/* Threads of the crew run updates, so that they enter the floating-point mode of updates, as lanes
 * do. */
static void run(void *argument)
{
    struct ps_helpers *helpers = argument;
    /* Sets the floating-point mode in which updates are computed. A helper in another mode would
     * give its pieces other bits than the owner of the update gives to the rest. */
    ps_service_enter_thread();
    for (;;) {
        /* No lock is held while the work runs. */
        struct task task = next_task(helpers);
        if (task.share != NULL)
            task.share->work(task.share->argument);
        else if (task.job != NULL)
            task.job->work(task.job->owner);
        else
            return;
        end_task(helpers, task);
    }
}

/* Sharing an update that is under way comes before a job that has not begun: the first frees two
 * threads sooner. A thread ends when nothing is left to do and nothing more will come. */
static struct task next_task(struct ps_helpers *helpers)
{
    struct task task = {NULL, NULL};
    ps_mutex_lock(&helpers->lock);
    for (;;) {
        task.share = join_share(helpers);
        if (task.share == NULL)
            task.job = take_job(helpers);
        if (task.share != NULL || task.job != NULL)
            break;
        if (helpers->stopping && helpers->submitted == NULL)
            break;
        helpers->idle++;
        (void)ps_condition_wait(&helpers->changed, &helpers->lock, PS_DEADLINE_NEVER);
        helpers->idle--;
    }
    ps_mutex_unlock(&helpers->lock);
    return task;
}

/* The last that was wanted takes the share off the list: a thread that comes later looks at the
 * next. */
static struct ps_helper_share *join_share(struct ps_helpers *helpers)
{
    struct ps_helper_share *share = helpers->shares;
    if (share == NULL)
        return NULL;
    PS_ASSERT(share->wanted > 0);
    atomic_fetch_add(&share->busy, 1);
    /* A share that is full leaves the list here, and withdraw then leaves the list alone. Only the
     * first share is ever taken, so that its successor becomes the head. */
    if (--share->wanted == 0)
        helpers->shares = share->next;
    return share;
}

/* Bounded, so that large calls leave the lanes their processors. */
static struct ps_helper_job *take_job(struct ps_helpers *helpers)
{
    struct ps_helper_job *job = helpers->submitted;
    if (job == NULL || helpers->jobs == helpers->jobs_max)
        return NULL;
    helpers->jobs++;
    DL_DELETE(helpers->submitted, job);
    return job;
}

/* A job is its owner's again from the moment its work has ended, and may be gone: it is not touched
 * here. A share is its owner's again when no helper is at it. */
static void end_task(struct ps_helpers *helpers, struct task task)
{
    ps_mutex_lock(&helpers->lock);
    if (task.share == NULL) {
        /* A job that is over may let another begin: jobs_max may have kept it back. */
        PS_ASSERT(helpers->jobs > 0);
        helpers->jobs--;
        ps_condition_signal_all(&helpers->changed);
    } else if (atomic_fetch_sub(&task.share->busy, 1) == 1) {
        ps_condition_signal_all(&helpers->shared);
    }
    ps_mutex_unlock(&helpers->lock);
}

/* ---- The crew ---- */

struct ps_crew ps_helpers_crew(struct ps_helpers *helpers)
{
    return (struct ps_crew){share_work, helpers};
}

/* The thread that has the work begins at once and does not wait for anybody to join. */
static void share_work(void *self, void (*work)(void *argument), void *argument)
{
    struct ps_helpers *helpers = self;
    struct ps_helper_share share = {.work = work, .argument = argument};
    invite(helpers, &share);
    work(argument);
    withdraw(helpers, &share);
    wait_for_helpers(helpers, &share);
}

/* Only threads that have nothing to do: work is never kept waiting for a helper that is busy. */
static void invite(struct ps_helpers *helpers, struct ps_helper_share *share)
{
    ps_mutex_lock(&helpers->lock);
    uint32_t others = helpers->update_threads_max > 1 ? helpers->update_threads_max - 1 : 0;
    share->wanted = helpers->idle < others ? helpers->idle : others;
    if (share->wanted > 0) {
        LL_PREPEND(helpers->shares, share);
        ps_condition_signal_all(&helpers->changed);
    }
    ps_mutex_unlock(&helpers->lock);
}

/* A helper that has not come by now would find nothing to do. */
static void withdraw(struct ps_helpers *helpers, struct ps_helper_share *share)
{
    ps_mutex_lock(&helpers->lock);
    if (share->wanted > 0)
        LL_DELETE(helpers->shares, share);
    ps_mutex_unlock(&helpers->lock);
}

/* The helpers are at their last parts, which take some 20 us: about as long as to sleep and be
 * woken, so that looking comes first. The lock at the end makes sure that the last helper has let
 * go of the share, which is on this thread's stack. */
static void wait_for_helpers(struct ps_helpers *helpers, struct ps_helper_share *share)
{
    struct ps_busy_poll poll;
    ps_busy_poll_init(&poll, (struct ps_busy_poll_wish){SHARE_SPIN_NS, .adaptive = true});
    uint64_t until_ns = ps_busy_poll_begin(&poll);
    while (until_ns != 0 && atomic_load(&share->busy) > 0 && ps_busy_poll_again(&poll, until_ns))
        continue;
    ps_mutex_lock(&helpers->lock);
    while (atomic_load(&share->busy) > 0)
        (void)ps_condition_wait(&helpers->shared, &helpers->lock, PS_DEADLINE_NEVER);
    ps_mutex_unlock(&helpers->lock);
}
