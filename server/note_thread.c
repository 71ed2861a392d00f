/* SPDX-License-Identifier: Apache-2.0 */
/* The errand of the thread "notes": one turn of the note writer, paced by what that turn says. */
#include "server/note_thread.h"

#include "base/assert.h"
#include "server/errand_thread.h"

#include <stdio.h>

/* The journal that is to be noted from the next turn on. */
struct beginning {
    bool is_there;
    char folder[PS_JOURNAL_PATH_BYTES];
    struct ps_claim claim;
    uint64_t epoch;
};

struct ps_note_thread {
    const struct ps_allocator *memory; /* borrowed */
    struct ps_note_writer writer;      /* of the errand */
    struct ps_errand_thread errand;
    struct ps_mutex mutex; /* PS_RANK_LEAF; guards what follows */
    struct beginning next;
};

static uint64_t turn(void *self);
static void begin_next(struct ps_note_thread *thread);

/* The writer is filled in before the thread runs; its folder comes with a journal (begin). */
enum ps_status ps_note_thread_create(const struct ps_note_thread_options *options,
                                     struct ps_note_thread **out, struct ps_error *error)
{
    struct ps_note_thread *thread = ps_zeroed(options->memory, sizeof *thread);
    if (thread == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the thread that notes the journal");
    thread->memory = options->memory;
    thread->writer = (struct ps_note_writer){.service = options->service,
                                             .files = options->files,
                                             .registry = options->registry,
                                             .clock = options->clock,
                                             .log = options->log};
    ps_mutex_init(&thread->mutex, PS_RANK_LEAF);
    enum ps_status status =
        ps_errand_thread_init(&thread->errand, "notes", options->clock, turn, thread, error);
    if (status != PS_OK) {
        ps_note_thread_destroy(thread);
        return status;
    }
    *out = thread;
    return PS_OK;
}

/* A note at work is waited for, up to its own deadline. */
void ps_note_thread_destroy(struct ps_note_thread *thread)
{
    if (thread == NULL)
        return;
    ps_errand_thread_fini(&thread->errand);
    ps_mutex_fini(&thread->mutex);
    ps_release(thread->memory, thread);
}

/* A new journal does not wait for the pace of the one before: the pace is there for the notes of
 * one epoch, and the first note of this one may come at once. */
void ps_note_thread_begin(struct ps_note_thread *thread, const char *folder,
                          const struct ps_claim *claim, uint64_t epoch)
{
    PS_ASSERT(epoch > 0);
    ps_mutex_lock(&thread->mutex);
    /* A beginning that no turn has taken over is replaced: only the newest claim is noted. */
    thread->next = (struct beginning){.is_there = true, .claim = *claim, .epoch = epoch};
    int length = snprintf(thread->next.folder, sizeof thread->next.folder, "%s", folder);
    PS_ASSERT(length > 0 && (size_t)length < sizeof thread->next.folder);
    ps_mutex_unlock(&thread->mutex);
    ps_errand_thread_interrupt(&thread->errand);
}

/* Called for every write of the journal; most of them find the thread awake or in its pause. */
void ps_note_thread_wake(struct ps_note_thread *thread)
{
    if (thread != NULL)
        ps_errand_thread_wake(&thread->errand);
}

/* A journal that began since the last turn is taken over first. */
static uint64_t turn(void *self)
{
    struct ps_note_thread *thread = self;
    begin_next(thread);
    return ps_note_writer_turn(&thread->writer);
}

/* Copied under the lock: the thread that loads may begin another one at any time. */
static void begin_next(struct ps_note_thread *thread)
{
    ps_mutex_lock(&thread->mutex);
    /* Only a turn touches the writer: the lock is there for the beginning alone. */
    if (thread->next.is_there)
        ps_note_writer_begin(&thread->writer, thread->next.folder, &thread->next.claim,
                             thread->next.epoch);
    thread->next.is_there = false;
    ps_mutex_unlock(&thread->mutex);
}
