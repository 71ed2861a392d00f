/* Group commit, and what happens when the disk fails. */
#include "server/journal_thread.h"

#include "base/assert.h"
#include "base/thread.h"

#include <stdio.h>

/* Records of one write: enough that a sync is shared by whoever came during the last one. */
#define RECORDS_AT_ONCE 512

/* Pause before another try after a failure. */
#define RETRY_MS 1000

/* Folders are at most this long. */
#define FOLDER_BYTES 4096

struct ps_journal_thread {
    struct ps_journal_thread_options options; /* what it names is borrowed */
    struct ps_thread thread;
    struct ps_mutex mutex; /* guards `woken` and `ending` */
    struct ps_condition changed;
    bool woken;
    bool ending;
    struct ps_mutex writing; /* guards what follows; held over writes, so never with another lock */
    struct ps_journal_writer *writer; /* NULL: none, or it failed */
    struct ps_journal_facts facts;    /* of the claim */
    char folder[FOLDER_BYTES];
    bool failed;
    struct ps_ticket ticket; /* of the checkpoint that heals a failure; 0: not asked for yet */
    struct ps_record records[RECORDS_AT_ONCE];
    struct ps_counter *written_records, *failures;
    struct ps_counter *syncs;
    struct ps_histogram *sync_seconds;
};

static void run(void *argument);
static bool wait_for_work(struct ps_journal_thread *thread, bool healing);
static bool write_batch(struct ps_journal_thread *thread);
static void note_failure(struct ps_journal_thread *thread, const struct ps_error *why);
static void heal(struct ps_journal_thread *thread);
static bool begin_segment(struct ps_journal_thread *thread, uint64_t position);

enum ps_status ps_journal_thread_create(const struct ps_journal_thread_options *options,
                                        struct ps_journal_thread **out, struct ps_error *error)
{
    struct ps_journal_thread *thread = ps_zeroed(options->memory, sizeof *thread);
    if (thread == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the journal's thread");
    thread->options = *options;
    ps_mutex_init(&thread->mutex, PS_RANK_LEAF);
    ps_mutex_init(&thread->writing, PS_RANK_COORDINATOR);
    ps_condition_init(&thread->changed);
    struct ps_metrics *metrics = options->metrics;
    thread->written_records =
        ps_metrics_counter(metrics, "ps_journal_records_total", "Records that are durable.", NULL);
    thread->syncs = ps_metrics_counter(metrics, "ps_journal_syncs_total",
                                       "Group commits of the journal.", NULL);
    thread->failures = ps_metrics_counter(metrics, "ps_journal_failures_total",
                                          "Writes or syncs of the journal that failed.", NULL);
    thread->sync_seconds = ps_metrics_histogram(metrics, "ps_journal_write_seconds",
                                                "Time of one write and sync of the journal.", NULL);
    enum ps_status status = ps_thread_start(&thread->thread, "journal", run, thread, error);
    if (status != PS_OK) {
        ps_journal_thread_destroy(thread);
        return status;
    }
    *out = thread;
    return PS_OK;
}

void ps_journal_thread_destroy(struct ps_journal_thread *thread)
{
    if (thread == NULL)
        return;
    ps_mutex_lock(&thread->mutex);
    thread->ending = true;
    ps_condition_signal_all(&thread->changed);
    ps_mutex_unlock(&thread->mutex);
    ps_thread_join(&thread->thread);
    ps_journal_writer_close(thread->writer);
    ps_condition_fini(&thread->changed);
    ps_mutex_fini(&thread->writing);
    ps_mutex_fini(&thread->mutex);
    ps_release(thread->options.memory, thread);
}

enum ps_status ps_journal_thread_open(struct ps_journal_thread *thread, const char *folder,
                                      const struct ps_journal_facts *facts, struct ps_error *error)
{
    ps_mutex_lock(&thread->writing);
    ps_journal_writer_close(thread->writer);
    thread->writer = NULL;
    thread->failed = false;
    thread->facts = *facts;
    int length = snprintf(thread->folder, sizeof thread->folder, "%s", folder);
    PS_ASSERT(length > 0 && (size_t)length < sizeof thread->folder);
    enum ps_status status =
        ps_journal_writer_open(thread->options.files, folder, facts, thread->options.segment_bytes,
                               thread->options.memory, &thread->writer, error);
    ps_mutex_unlock(&thread->writing);
    return status;
}

void ps_journal_thread_wake(struct ps_journal_thread *thread)
{
    ps_mutex_lock(&thread->mutex);
    thread->woken = true;
    ps_condition_signal_all(&thread->changed);
    ps_mutex_unlock(&thread->mutex);
}

static void run(void *argument)
{
    struct ps_journal_thread *thread = argument;
    bool healing = false;
    while (wait_for_work(thread, healing)) {
        ps_mutex_lock(&thread->writing);
        while (write_batch(thread))
            continue;
        if (thread->failed)
            heal(thread);
        healing = thread->failed;
        ps_mutex_unlock(&thread->writing);
    }
}

/* False when the thread is to end. */
static bool wait_for_work(struct ps_journal_thread *thread, bool healing)
{
    ps_mutex_lock(&thread->mutex);
    if (!thread->woken && !thread->ending)
        (void)ps_condition_wait(&thread->changed, &thread->mutex,
                                healing ? RETRY_MS : PS_DEADLINE_NEVER);
    thread->woken = false;
    bool go_on = !thread->ending;
    ps_mutex_unlock(&thread->mutex);
    return go_on;
}

/* True when there may be more. */
static bool write_batch(struct ps_journal_thread *thread)
{
    if (thread->writer == NULL)
        return false;
    struct ps_service *service = thread->options.service;
    size_t count = ps_service_journal_take(service, thread->records, RECORDS_AT_ONCE);
    if (count == 0)
        return false;
    struct ps_error why = {0};
    uint64_t start_ns = ps_unix_ns(thread->options.clock);
    enum ps_status status = ps_journal_write(thread->writer, thread->records, count, &why);
    uint64_t end_ns = ps_unix_ns(thread->options.clock);
    if (end_ns > start_ns)
        ps_histogram_observe(thread->sync_seconds, (double)(end_ns - start_ns) / 1e9);
    ps_service_journal_written(service, status, &why);
    if (status != PS_OK) {
        note_failure(thread, &why);
        return false;
    }
    ps_counter_add(thread->written_records, count);
    ps_counter_add(thread->syncs, 1);
    return true;
}

static void note_failure(struct ps_journal_thread *thread, const struct ps_error *why)
{
    ps_counter_add(thread->failures, 1);
    PS_LOG(thread->options.log, PS_LOG_ERROR, "journal",
           "journal failed: nothing is acknowledged until a checkpoint has saved everything",
           PS_FIELD_ERROR(why));
    ps_journal_writer_close(thread->writer);
    thread->writer = NULL;
    thread->failed = true;
    thread->ticket = (struct ps_ticket){0};
}

/* A checkpoint that covers everything applied makes the failed segment unnecessary. */
static void heal(struct ps_journal_thread *thread)
{
    struct ps_service *service = thread->options.service;
    struct ps_checkpoint_place place;
    if (thread->ticket.number == 0) {
        if (ps_service_want_checkpoint(service, &thread->ticket, NULL) != PS_OK)
            thread->ticket = (struct ps_ticket){0};
        return;
    }
    if (ps_service_abandoned(service, thread->ticket)) {
        thread->failed = false; /* the shard was lost: the next claim opens a journal of its own */
        return;
    }
    if (!ps_service_satisfied(service, thread->ticket) || !ps_service_last_saved(service, &place))
        return;
    thread->ticket = (struct ps_ticket){0};
    if (!begin_segment(thread, place.position))
        return;
    if (!ps_service_journal_resume(service, place.position)) {
        ps_journal_writer_close(thread->writer);
        thread->writer = NULL;
        return; /* pushes were applied meanwhile: once more */
    }
    thread->failed = false;
    PS_LOG(thread->options.log, PS_LOG_INFO, "journal", "journal goes on behind a checkpoint",
           PS_FIELD_UINT("position", place.position));
}

static bool begin_segment(struct ps_journal_thread *thread, uint64_t position)
{
    struct ps_journal_facts facts = thread->facts;
    facts.position = position;
    facts.previous_epoch = facts.epoch;
    struct ps_error why = {0};
    enum ps_status status = ps_journal_writer_open(thread->options.files, thread->folder, &facts,
                                                   thread->options.segment_bytes,
                                                   thread->options.memory, &thread->writer, &why);
    if (status == PS_OK)
        return true;
    PS_LOG(thread->options.log, PS_LOG_WARN, "journal", "no new segment yet", PS_FIELD_ERROR(&why));
    return false;
}
