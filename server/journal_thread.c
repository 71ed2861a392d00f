/* SPDX-License-Identifier: Apache-2.0 */
/* Group commit, and what happens when the disk fails. While one batch is being synced, pushes queue
 * up for the next, so that the number of syncs follows the disk and not the number of pushes (the
 * idea is as old as DeWitt et al., Implementation Techniques for Main Memory Database Systems,
 * 1984). */
#include "server/journal_thread.h"

#include "base/assert.h"
#include "server/errand_thread.h"

/* Records of one write: enough that a sync is shared by whoever came during the last one. */
#define RECORDS_AT_ONCE 512

/* Pauses before another try after a failure: the first, and the longest. */
#define RETRY_MS_MIN 20
#define RETRY_MS_MAX 1000

/* Between two looks for the file. */
#define LOOK_MS 1000

struct ps_journal_thread {
    struct ps_journal_thread_options options; /* what it names is borrowed */
    struct ps_errand_thread errand;
    struct ps_mutex writing; /* guards what follows; held over writes, so never with another lock */
    struct ps_journal_writer *writer; /* NULL: none */
    uint64_t taken;                   /* position of the last record taken */
    uint64_t told;                    /* the last one that the service was told of */
    uint64_t begun_ns; /* when the oldest batch of which nothing was told was taken */
    bool failed;       /* the writer is dead */
    uint64_t retry_ms; /* the next pause */
    uint64_t look_ms;  /* when the file is looked for again */
    struct ps_record records[RECORDS_AT_ONCE];
    struct ps_counter *written_records, *failures;
    struct ps_counter *syncs;
    struct ps_histogram *sync_seconds;
};

static uint64_t turn(void *self);
static enum ps_status open_writer(struct ps_journal_thread *thread, const char *folder,
                                  const struct ps_journal_facts *facts, struct ps_error *error);
static bool go_on(struct ps_journal_thread *thread);
static size_t take(struct ps_journal_thread *thread);
static enum ps_status write_taken(struct ps_journal_thread *thread, size_t count,
                                  struct ps_error *error);
static void tell(struct ps_journal_thread *thread, enum ps_status status,
                 const struct ps_error *why);
static void look_for_file(struct ps_journal_thread *thread);
static void note_failure(struct ps_journal_thread *thread, const struct ps_error *why);
static void heal(struct ps_journal_thread *thread);

/* Without a file yet: that comes with a claim (open). Until then nothing is queued, since nothing
 * is pushed. */
enum ps_status ps_journal_thread_create(const struct ps_journal_thread_options *options,
                                        struct ps_journal_thread **out, struct ps_error *error)
{
    struct ps_journal_thread *thread = ps_zeroed(options->memory, sizeof *thread);
    if (thread == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the journal's thread");
    thread->options = *options;
    ps_mutex_init(&thread->writing, PS_RANK_COORDINATOR);
    struct ps_metrics *metrics = options->metrics;
    thread->written_records =
        ps_metrics_counter(metrics, "ps_journal_records_total", "Records that are durable.", NULL);
    thread->syncs = ps_metrics_counter(metrics, "ps_journal_syncs_total",
                                       "Group commits of the journal.", NULL);
    thread->failures = ps_metrics_counter(metrics, "ps_journal_failures_total",
                                          "Writes or syncs of the journal that failed.", NULL);
    thread->sync_seconds =
        ps_metrics_histogram(metrics, "ps_journal_write_seconds",
                             "Time from taking a batch of records until it is durable.", NULL);
    enum ps_status status =
        ps_errand_thread_init(&thread->errand, "journal", options->clock, turn, thread, error);
    if (status != PS_OK) {
        ps_journal_thread_destroy(thread);
        return status;
    }
    *out = thread;
    return PS_OK;
}

/* What waits is dropped with the service; none of it was acknowledged as durable. */
void ps_journal_thread_destroy(struct ps_journal_thread *thread)
{
    if (thread == NULL)
        return;
    ps_errand_thread_fini(&thread->errand);
    ps_journal_writer_close(thread->writer);
    ps_mutex_fini(&thread->writing);
    ps_release(thread->options.memory, thread);
}

/* Under the lock of the writing, so that no batch goes half to one file and half to the next. */
enum ps_status ps_journal_thread_open(struct ps_journal_thread *thread, const char *folder,
                                      const struct ps_journal_facts *facts, struct ps_error *error)
{
    PS_ASSERT(folder != NULL && facts->epoch > 0);
    ps_mutex_lock(&thread->writing);
    ps_journal_writer_close(thread->writer);
    thread->writer = NULL;
    thread->failed = false;
    enum ps_status status = open_writer(thread, folder, facts, error);
    if (status == PS_OK)
        thread->taken = thread->told = ps_journal_writer_position(thread->writer);
    ps_mutex_unlock(&thread->writing);
    /* The thread may be in a pause after a failure of the journal before, which is none of this
     * one's. */
    ps_errand_thread_interrupt(&thread->errand);
    return status;
}

/* Whether the file system can is known only where the folder is. */
static enum ps_status open_writer(struct ps_journal_thread *thread, const char *folder,
                                  const struct ps_journal_facts *facts, struct ps_error *error)
{
    const struct ps_files *files = thread->options.files;
    PS_TRY(files->make_folder(files->self, folder, error));
    bool can = files->can_go_direct(files->self, folder);
    if (!can && thread->options.way == PS_JOURNAL_DIRECT)
        return ps_fail(error, PS_ERR_UNSUPPORTED,
                       "the file system of %s cannot be written past the system's cache: leave "
                       "--journal-sync at auto, or put --data-dir on a disk",
                       folder);
    const struct ps_journal_setup setup = {.segment_bytes = thread->options.segment_bytes,
                                           .direct =
                                               can && thread->options.way != PS_JOURNAL_BUFFERED,
                                           .behind = true,
                                           .ahead = true};
    PS_LOG(thread->options.log, PS_LOG_INFO, "journal", "journal begins",
           PS_FIELD_TEXT("way", setup.direct ? "direct" : "buffered"),
           PS_FIELD_UINT("position", facts->position));
    return ps_journal_writer_open(files, folder, facts, &setup, thread->options.memory,
                                  &thread->writer, error);
}

void ps_journal_thread_wake(struct ps_journal_thread *thread)
{
    ps_errand_thread_wake(&thread->errand);
}

/* Writes until nothing is queued and nothing under way. While the writer is dead only time helps:
 * pushes are refused, and the next try comes after a pause that no wake shortens. */
static uint64_t turn(void *self)
{
    struct ps_journal_thread *thread = self;
    uint64_t due_ms = PS_DEADLINE_NEVER;
    ps_mutex_lock(&thread->writing);
    if (thread->failed)
        heal(thread);
    while (!thread->failed && go_on(thread))
        continue;
    if (thread->failed)
        due_ms = ps_deadline_after(thread->options.clock, thread->retry_ms);
    ps_mutex_unlock(&thread->writing);
    return due_ms;
}

/* One step: the next batch is copied while the one before is being written, then its own write
 * begins; without a next batch the write under way is waited for. False when neither is there. */
static bool go_on(struct ps_journal_thread *thread)
{
    PS_ASSERT(!thread->failed && thread->told <= thread->taken);
    if (thread->writer == NULL)
        return false;
    struct ps_error why = {0};
    uint64_t now_ns = ps_clock_precise_ns();
    bool under_way = thread->told < thread->taken;
    size_t count = take(thread);
    if (count == 0 && !under_way)
        return false;
    if (!under_way)
        thread->begun_ns = now_ns;
    enum ps_status status =
        count > 0 ? write_taken(thread, count, &why) : ps_journal_wait(thread->writer, &why);
    tell(thread, status, &why);
    if (count > 0 && under_way)
        thread->begun_ns = now_ns;
    if (status == PS_OK)
        look_for_file(thread);
    else
        note_failure(thread, &why);
    return status == PS_OK;
}

/* Records are taken and not copied: their content lies where it was received, and the service keeps
 * it until it is told what became of them. What has come since the last write goes together. */
static size_t take(struct ps_journal_thread *thread)
{
    size_t count =
        ps_service_journal_take(thread->options.service, thread->records, RECORDS_AT_ONCE);
    if (count > 0)
        thread->taken = thread->records[count - 1].position;
    return count;
}

/* Copying them takes about as long as half of a write of the disk, and happens meanwhile. */
static enum ps_status write_taken(struct ps_journal_thread *thread, size_t count,
                                  struct ps_error *error)
{
    PS_ASSERT(count > 0 && thread->writer != NULL);
    PS_TRY(ps_journal_append(thread->writer, thread->records, count, error));
    return ps_journal_flush(thread->writer, error);
}

/* Told before anything is counted: replies wait for this. A failure is that of the records that are
 * not durable by now; the write before theirs may have ended well. */
static void tell(struct ps_journal_thread *thread, enum ps_status status,
                 const struct ps_error *why)
{
    struct ps_service *service = thread->options.service;
    uint64_t position = ps_journal_writer_position(thread->writer);
    PS_ASSERT(position >= thread->told && position <= thread->taken);
    if (position > thread->told) {
        ps_service_journal_written(service, position, PS_OK, NULL);
        uint64_t now_ns = ps_clock_precise_ns();
        if (now_ns > thread->begun_ns)
            ps_histogram_observe(thread->sync_seconds, (double)(now_ns - thread->begun_ns) / 1e9);
        ps_counter_add(thread->written_records, position - thread->told);
        ps_counter_add(thread->syncs, 1);
    }
    if (status != PS_OK)
        ps_service_journal_written(service, position, status, why);
    thread->taken = status == PS_OK ? thread->taken : position;
    thread->told = position;
}

/* Once a second, which costs nothing. What was acknowledged into a file that is gone is in memory:
 * a checkpoint has it, so one is wanted at once. Where the whole folder went, the checkpoints did,
 * too. */
static void look_for_file(struct ps_journal_thread *thread)
{
    uint64_t now_ms = ps_now_ms(thread->options.clock);
    struct ps_ticket ticket;
    struct ps_error why = {0};
    /* Whoever owns the shard by now sweeps the files of former owners. */
    if (now_ms < thread->look_ms || !ps_service_is_proved(thread->options.service))
        return;
    thread->look_ms = now_ms + LOOK_MS;
    if (ps_journal_writer_look(thread->writer))
        return;
    ps_counter_add(thread->failures, 1);
    PS_LOG(thread->options.log, PS_LOG_ERROR, "journal",
           "the journal's file is gone: somebody has removed or moved it; what it had is in memory "
           "alone until the next checkpoint, which is begun now",
           PS_FIELD_UINT("position", thread->told));
    if (ps_service_want_checkpoint(thread->options.service, &ticket, &why) != PS_OK)
        PS_LOG(thread->options.log, PS_LOG_WARN, "journal", "no checkpoint can be begun",
               PS_FIELD_ERROR(&why));
}

/* After a failed sync nobody knows what the disk has: the kernel may have dropped the pages and say
 * success the next time. So a file that failed once is never written again. */
static void note_failure(struct ps_journal_thread *thread, const struct ps_error *why)
{
    PS_ASSERT(why->status != PS_OK);
    ps_counter_add(thread->failures, 1);
    PS_LOG(thread->options.log, PS_LOG_ERROR, "journal",
           "journal failed: nothing is acknowledged until what failed is written to another file",
           PS_FIELD_ERROR(why));
    thread->failed = true;
    thread->retry_ms = thread->retry_ms > 0 ? thread->retry_ms : RETRY_MS_MIN;
}

/* Another file, then everything again that is not known to be on the disk. The pause doubles up to
 * a second: a full disk is looked at often enough, and the log is not filled. */
static void heal(struct ps_journal_thread *thread)
{
    PS_ASSERT(thread->failed && thread->writer != NULL);
    struct ps_error why = {0};
    thread->retry_ms = 2 * thread->retry_ms < RETRY_MS_MAX ? 2 * thread->retry_ms : RETRY_MS_MAX;
    if (!ps_service_journal_failed(thread->options.service)) {
        /* The shard was lost: the next claim opens a journal of its own. */
        ps_journal_writer_close(thread->writer);
        thread->writer = NULL;
        thread->failed = false;
        return;
    }
    /* A new segment in the same folder: the old one keeps what it has, and recovery reads on from
     * one to the other. */
    if (ps_journal_writer_revive(thread->writer, &why) != PS_OK) {
        PS_LOG(thread->options.log, PS_LOG_WARN, "journal", "no new segment yet",
               PS_FIELD_ERROR(&why));
        return;
    }
    thread->failed = false;
    uint64_t healed_from = thread->told;
    /* The first batch of the new file is what failed in the old one: only when that is on the disk
     * is the journal healed. */
    while (!thread->failed && thread->told == healed_from && go_on(thread))
        continue;
    if (thread->told == healed_from)
        return;
    thread->retry_ms = 0;
    PS_LOG(thread->options.log, PS_LOG_INFO, "journal", "journal goes on in another file",
           PS_FIELD_UINT("position", ps_journal_writer_position(thread->writer)));
}
