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

/* The owner of shared work looks so long for the helpers' end before its thread sleeps. */
#define SHARE_SPIN_NS 200000

/* Work that several do at once; lives on the stack of the one whose it is. */
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

/* The threads of one update are its owner and the helpers that join: hence one less than
 * `update_threads` beyond those that have jobs of their own.
 *
 * A failure leaves the threads that were started running; ps_helpers_stop joins these, and skips
 * the others. */
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

/* All are woken, not one: a helper that has just come for a share may take the only wake-up and
 * leave the job lying until another has ended. */
void ps_helpers_submit(struct ps_helpers *helpers, struct ps_helper_job *job)
{
    ps_mutex_lock(&helpers->lock);
    PS_ASSERT(!helpers->stopping);
    DL_APPEND(helpers->submitted, job);
    ps_condition_signal_all(&helpers->changed);
    ps_mutex_unlock(&helpers->lock);
}

/* Threads end when the queue is empty, not before: a call whose job was submitted has a client that
 * waits for its answer. */
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

/* To help with what is under way comes before what has not begun: the owner of a share cannot go on
 * before it is done, and neither can those who wait for the parameter's lock. */
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

/* `busy` rises while the lock is held, and its owner takes the share off the list under the same
 * lock: so either the owner sees that a helper has come, or the helper does not see the share. */
static struct ps_helper_share *join_share(struct ps_helpers *helpers)
{
    struct ps_helper_share *share = helpers->shares;
    if (share == NULL)
        return NULL;
    atomic_fetch_add(&share->busy, 1);
    /* A share that is full leaves the list here, and withdraw then leaves the list alone. Only the
     * first share is ever taken, so that its successor becomes the head. */
    if (--share->wanted == 0)
        helpers->shares = share->next;
    return share;
}

/* Some helpers stay free of jobs, for shares: were all of them at jobs, an update by a lane's own
 * thread would find no helper, and that lane would be kept the longest. */
static struct ps_helper_job *take_job(struct ps_helpers *helpers)
{
    struct ps_helper_job *job = helpers->submitted;
    if (job == NULL || helpers->jobs == helpers->jobs_max)
        return NULL;
    helpers->jobs++;
    DL_DELETE(helpers->submitted, job);
    return job;
}

/* A job is its owner's again since its work has ended, and so is a share once nobody is at it. */
static void end_task(struct ps_helpers *helpers, struct task task)
{
    ps_mutex_lock(&helpers->lock);
    if (task.share == NULL) {
        /* A job that is over may let another begin: jobs_max may have kept it back. */
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

/* The share lives on this stack, and this function does not return before nobody has a pointer to
 * it: withdraw ends the joining, the wait ends the use. The order of the two matters, for a wait
 * that came first could end just before another helper joins. */
static void share_work(void *self, void (*work)(void *argument), void *argument)
{
    struct ps_helpers *helpers = self;
    struct ps_helper_share share = {.work = work, .argument = argument};
    invite(helpers, &share);
    work(argument);
    withdraw(helpers, &share);
    wait_for_helpers(helpers, &share);
}

/* Only helpers that have nothing to do are counted: the work is never kept waiting for a helper
 * that is busy elsewhere. An idle helper that takes a job first does not come; nobody waits for
 * it. */
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

/* The work is divided as it is done, in pieces that each thread takes for itself: when the owner
 * finds none left, a helper that has not come by now would find none either. A share with `wanted`
 * at 0 has left the list already, or was never in it. */
static void withdraw(struct ps_helpers *helpers, struct ps_helper_share *share)
{
    ps_mutex_lock(&helpers->lock);
    if (share->wanted > 0)
        LL_DELETE(helpers->shares, share);
    ps_mutex_unlock(&helpers->lock);
}

/* The helpers are at their last pieces, which take some 20 us: about as long as to sleep and be
 * woken. So the owner looks for a while before it sleeps.
 *
 * The lock is taken even when `busy` was seen to be 0. A helper writes `busy` with the lock held,
 * so that once the owner has had the lock no helper is in the middle of letting go of the share. */
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
