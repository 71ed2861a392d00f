/* SPDX-License-Identifier: Apache-2.0 */
/* One write at a time, and its result is kept until the caller asks: a failure between two waits
 * cannot be overwritten by the success of a later write. */
#include "base/write_behind.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/thread.h"

#include <string.h>

/*  IDLE ──begin──► AT_WORK ──written──► DONE ──wait──► IDLE  */
enum phase { IDLE, AT_WORK, DONE };

struct ps_write_behind {
    const struct ps_files *files;      /* borrowed; outlives this */
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct ps_thread thread;           /* not started: begin writes itself */
    struct ps_mutex mutex;             /* PS_RANK_LEAF; guards the phase and `ending` */
    struct ps_condition changed;
    enum phase phase;
    bool ending;
    /* The thread's while AT_WORK, the caller's otherwise. */
    struct ps_file file;
    struct ps_write_piece pieces[PS_WRITE_PIECES_MAX];
    size_t piece_count;
    bool sync;
    enum ps_status status;
    struct ps_error error;
};

static void run(void *argument);
static bool wait_for_work(struct ps_write_behind *behind);
static void write_now(struct ps_write_behind *behind);

/* The thread starts last: it may look at everything else at once. */
enum ps_status ps_write_behind_create(const struct ps_files *files, const char *thread_name,
                                      const struct ps_allocator *memory,
                                      struct ps_write_behind **out, struct ps_error *error)
{
    PS_ASSERT(files != NULL && memory != NULL && out != NULL);
    struct ps_write_behind *behind = ps_zeroed(memory, sizeof *behind);
    if (behind == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for writes behind the caller");
    behind->files = files;
    behind->memory = memory;
    ps_mutex_init(&behind->mutex, PS_RANK_LEAF);
    ps_condition_init(&behind->changed);
    if (thread_name != NULL) {
        enum ps_status status = ps_thread_start(&behind->thread, thread_name, run, behind, error);
        if (status != PS_OK) {
            ps_write_behind_destroy(behind);
            return status;
        }
    }
    *out = behind;
    return PS_OK;
}

/* The thread looks at `ending` only between two writes, so the join is also the wait. */
void ps_write_behind_destroy(struct ps_write_behind *behind)
{
    if (behind == NULL)
        return;
    ps_mutex_lock(&behind->mutex);
    behind->ending = true;
    ps_condition_signal_all(&behind->changed);
    ps_mutex_unlock(&behind->mutex);
    ps_thread_join(&behind->thread);
    PS_ASSERT(behind->phase != AT_WORK);
    ps_condition_fini(&behind->changed);
    ps_mutex_fini(&behind->mutex);
    ps_release(behind->memory, behind);
}

void ps_write_behind_begin(struct ps_write_behind *behind, struct ps_file file,
                           const struct ps_write_piece *pieces, size_t count, bool sync)
{
    PS_ASSERT(count <= PS_WRITE_PIECES_MAX);
    ps_mutex_lock(&behind->mutex);
    PS_ASSERT(behind->phase == IDLE);
    behind->file = file;
    memcpy(behind->pieces, pieces, count * sizeof *pieces);
    behind->piece_count = count;
    behind->sync = sync;
    behind->phase = AT_WORK;
    ps_condition_signal_all(&behind->changed);
    ps_mutex_unlock(&behind->mutex);
    if (!behind->thread.started)
        write_now(behind);
}

bool ps_write_behind_busy(struct ps_write_behind *behind)
{
    ps_mutex_lock(&behind->mutex);
    bool busy = behind->phase == AT_WORK;
    ps_mutex_unlock(&behind->mutex);
    return busy;
}

/* Back to IDLE with the result told, so that a failure is told to one wait and not to two. */
enum ps_status ps_write_behind_wait(struct ps_write_behind *behind, struct ps_error *error)
{
    ps_mutex_lock(&behind->mutex);
    while (behind->phase == AT_WORK)
        (void)ps_condition_wait(&behind->changed, &behind->mutex, PS_DEADLINE_NEVER);
    enum ps_status status = behind->phase == DONE ? behind->status : PS_OK;
    behind->phase = IDLE;
    ps_mutex_unlock(&behind->mutex);
    return status == PS_OK ? PS_OK : ps_fail(error, status, "%s", behind->error.text);
}

/* ---- The thread ---- */

static void run(void *argument)
{
    struct ps_write_behind *behind = argument;
    while (wait_for_work(behind))
        write_now(behind);
}

/* False at the end. A write that was begun is made first: its caller may have heard nothing of a
 * failure, and bytes that were handed over must not stay behind in memory. */
static bool wait_for_work(struct ps_write_behind *behind)
{
    ps_mutex_lock(&behind->mutex);
    while (behind->phase != AT_WORK && !behind->ending)
        (void)ps_condition_wait(&behind->changed, &behind->mutex, PS_DEADLINE_NEVER);
    bool work = behind->phase == AT_WORK;
    ps_mutex_unlock(&behind->mutex);
    return work;
}

/* Without the lock while the disk works: asking whether a write is at work never waits for it. */
static void write_now(struct ps_write_behind *behind)
{
    const struct ps_files *files = behind->files;
    behind->status = PS_OK;
    for (size_t i = 0; i < behind->piece_count && behind->status == PS_OK; i++)
        behind->status = files->write_over(files->self, behind->file, behind->pieces[i].offset,
                                           behind->pieces[i].bytes, &behind->error);
    if (behind->status == PS_OK && behind->sync)
        behind->status = files->sync(files->self, behind->file, &behind->error);
    ps_mutex_lock(&behind->mutex);
    behind->phase = DONE;
    ps_condition_signal_all(&behind->changed);
    ps_mutex_unlock(&behind->mutex);
}
