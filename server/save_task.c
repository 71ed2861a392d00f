/* SPDX-License-Identifier: Apache-2.0 */
/* Saving: one checkpoint, with rests, behind the journal. */
#include "server/task.h"

#include "base/assert.h"
#include "base/file.h"
#include "server/core/recovery/saver.h"

/* Most that a save waits for the journal; the coordinator tries again. */
#define JOURNAL_TIMEOUT_MS 5000

/* A rest between pieces of a checkpoint: shorter ones are not worth a wake-up, and after a longer
 * piece the disk was what took the time. */
#define REST_MS_MIN 4
#define REST_MS_MAX 50

/* How many times as long as the work before it a rest is. */
#define REST_SHARE 2

/* Of one checkpoint that is being written. */
struct pace {
    struct ps_tasks *tasks;
    uint64_t since_ns; /* at work without a rest */
    uint64_t position; /* of the shard at the last piece */
};

static void rest(void *self);
static enum ps_status write_file(struct ps_tasks *tasks, const struct ps_saver *saver,
                                 struct ps_saving *saving, struct ps_error *error);
static void set_awaits_journal(struct ps_tasks *tasks, bool awaits);
static enum ps_status wait_for_journal(struct ps_tasks *tasks, const struct ps_saver *saver,
                                       const struct ps_saving *saving, struct ps_error *error);

/* Nothing is written when the last checkpoint is as good. The pointer follows the file only where
 * the lease can be proved (publish). */
enum ps_status ps_task_save(struct ps_tasks *tasks, const struct ps_task *task,
                            struct ps_error *error)
{
    PS_ASSERT(task->kind == PS_TASK_SAVE && tasks->options.data_dir != NULL);
    const struct ps_tasks_options *options = &tasks->options;
    char folder[PS_SHARD_FOLDER_BYTES];
    ps_tasks_shard_folder(tasks, task->claim.index, folder);
    struct pace pace = {.tasks = tasks, .since_ns = ps_clock_precise_ns()};
    struct ps_saver saver = {
        .service = options->service,
        .files = options->files,
        .folder = folder,
        .registry = options->registry,
        .claim = &task->claim,
        .epoch = tasks->epoch,
        .keeps_journal = options->journal_keep,
        .memory = options->memory,
        .clock = options->clock,
        .log = options->log,
        .wish = options->wish,
        /* Outlives this saver: the base is one of an earlier save. */
        .increments = &tasks->increments,
        .rest = rest,
        .rest_self = &pace,
    };
    struct ps_saving saving;
    enum ps_status status = ps_saver_reuse(
        &saver, task->publish, ps_deadline_after(options->clock, PS_TASK_STORE_TIMEOUT_MS), error);
    /* NOT_FOUND: no checkpoint is as good as the state, so one is written. */
    if (status != PS_ERR_NOT_FOUND)
        return status;
    PS_TRY(
        ps_write_behind_create(saver.files, "save-write", options->memory, &saver.behind, error));
    status = write_file(tasks, &saver, &saving, error);
    ps_write_behind_destroy(saver.behind);
    if (status == PS_OK && task->publish)
        status = ps_saver_publish(
            &saver, &saving, ps_deadline_after(options->clock, PS_TASK_STORE_TIMEOUT_MS), error);
    return status;
}

/* Work and rest take turns, a rest twice as long as the work before it, while there are pushes: a
 * checkpoint takes three times its time and a third of what it costs them. Nobody rests while the
 * server waits for this checkpoint to end, or while the journal grows beyond its bound. */
static void rest(void *self)
{
    struct pace *pace = self;
    struct ps_tasks *tasks = pace->tasks;
    uint64_t worked_ms = (ps_clock_precise_ns() - pace->since_ns) / 1000000;
    uint64_t position = 0;
    uint64_t durable = 0;
    ps_service_positions(tasks->options.service, &position, &durable);
    bool somebody_pushes = position != pace->position;
    pace->position = position;
    /* What was done while nobody pushed is not made up for when somebody does. */
    if (!somebody_pushes)
        pace->since_ns = ps_clock_precise_ns();
    /* Shorter pieces add up until a rest is worth its wake-up. */
    if (!somebody_pushes || worked_ms < REST_MS_MIN ||
        ps_service_journal_presses(tasks->options.service))
        return;
    uint64_t rest_ms = REST_SHARE * worked_ms;
    uint64_t until_ms =
        ps_deadline_after(tasks->options.clock, rest_ms < REST_MS_MAX ? rest_ms : REST_MS_MAX);
    ps_mutex_lock(&tasks->mutex);
    while (!tasks->ending && !tasks->hurries) {
        uint64_t left_ms = ps_time_left_ms(tasks->options.clock, until_ms);
        if (left_ms == 0)
            break;
        (void)ps_condition_wait(&tasks->changed, &tasks->mutex, left_ms);
    }
    ps_mutex_unlock(&tasks->mutex);
    pace->since_ns = ps_clock_precise_ns();
}

/* The snapshot is taken before the journal is waited for: the instant is now, and the wait is for
 * what it holds. */
static enum ps_status write_file(struct ps_tasks *tasks, const struct ps_saver *saver,
                                 struct ps_saving *saving, struct ps_error *error)
{
    PS_ASSERT(saver->folder != NULL);
    PS_TRY(ps_saver_begin(saver, saving, error));
    set_awaits_journal(tasks, true);
    enum ps_status status = wait_for_journal(tasks, saver, saving, error);
    set_awaits_journal(tasks, false);
    if (status == PS_OK)
        return ps_saver_write(saver, saving, error);
    ps_saver_give_up(saving);
    return status;
}

static void set_awaits_journal(struct ps_tasks *tasks, bool awaits)
{
    ps_mutex_lock(&tasks->mutex);
    PS_ASSERT(tasks->awaits_journal != awaits);
    tasks->awaits_journal = awaits;
    ps_mutex_unlock(&tasks->mutex);
}

/* It is a few milliseconds behind, or as far as the queue of the journal is long. Woken by every
 * write of the journal, so that this costs no polling. */
static enum ps_status wait_for_journal(struct ps_tasks *tasks, const struct ps_saver *saver,
                                       const struct ps_saving *saving, struct ps_error *error)
{
    uint64_t deadline_ms = ps_deadline_after(tasks->options.clock, JOURNAL_TIMEOUT_MS);
    for (;;) {
        ps_mutex_lock(&tasks->mutex);
        /* Before the question, so that a write in between is not missed. */
        tasks->woken = false;
        bool ending = tasks->ending;
        ps_mutex_unlock(&tasks->mutex);
        enum ps_status status = ps_saver_may_write(saver, saving, error);
        uint64_t left_ms = ps_time_left_ms(tasks->options.clock, deadline_ms);
        /* The journal is stuck or the server ends: the snapshot is let go, and the next attempt
         * takes a newer one. */
        if (status == PS_ERR_NOT_READY && (left_ms == 0 || ending))
            return ps_fail(error, PS_ERR_TIMEOUT, "the journal does not get as far as the state");
        if (status != PS_ERR_NOT_READY)
            return status;
        ps_mutex_lock(&tasks->mutex);
        if (!tasks->woken && !tasks->ending)
            (void)ps_condition_wait(&tasks->changed, &tasks->mutex, left_ms);
        ps_mutex_unlock(&tasks->mutex);
    }
}
