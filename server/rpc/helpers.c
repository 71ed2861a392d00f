/* A queue, and threads that empty it. */
#include "server/rpc/helpers.h"

#include "base/assert.h"
#include "base/clock.h"
#include "server/core/service.h"

void ps_helpers_init(struct ps_helpers *helpers)
{
    *helpers = (struct ps_helpers){0};
    ps_mutex_init(&helpers->lock, PS_RANK_QUEUE);
    ps_condition_init(&helpers->changed);
}

void ps_helpers_fini(struct ps_helpers *helpers)
{
    PS_ASSERT(helpers->first == NULL);
    ps_condition_fini(&helpers->changed);
    ps_mutex_fini(&helpers->lock);
}

/* The next job; NULL when there will be none. */
static struct ps_helper_job *next_job(struct ps_helpers *helpers)
{
    ps_mutex_lock(&helpers->lock);
    while (helpers->first == NULL && !helpers->stopping)
        (void)ps_condition_wait(&helpers->changed, &helpers->lock, PS_DEADLINE_NEVER);
    struct ps_helper_job *job = helpers->first;
    if (job != NULL)
        helpers->first = job->next;
    ps_mutex_unlock(&helpers->lock);
    return job;
}

static void run(void *argument)
{
    struct ps_helpers *helpers = argument;
    ps_service_enter_thread();
    for (struct ps_helper_job *job = next_job(helpers); job != NULL; job = next_job(helpers))
        job->work(job->owner);
}

enum ps_status ps_helpers_start(struct ps_helpers *helpers, uint32_t count, struct ps_error *error)
{
    PS_ASSERT(count >= 1 && count <= PS_HELPERS_MAX);
    for (uint32_t i = 0; i < count; i++)
        PS_TRY(ps_thread_start(&helpers->threads[i], "rpc helper", run, helpers, error));
    return PS_OK;
}

void ps_helpers_submit(struct ps_helpers *helpers, struct ps_helper_job *job)
{
    job->next = NULL;
    ps_mutex_lock(&helpers->lock);
    PS_ASSERT(!helpers->stopping);
    if (helpers->first == NULL)
        helpers->first = job;
    else
        helpers->last->next = job;
    helpers->last = job;
    ps_condition_signal_all(&helpers->changed);
    ps_mutex_unlock(&helpers->lock);
}

void ps_helpers_stop(struct ps_helpers *helpers)
{
    ps_mutex_lock(&helpers->lock);
    helpers->stopping = true;
    ps_condition_signal_all(&helpers->changed);
    ps_mutex_unlock(&helpers->lock);
    for (size_t i = 0; i < PS_HELPERS_MAX; i++)
        ps_thread_join(&helpers->threads[i]);
}
