/* Sleeps until something is durable, notes it, and then sleeps for as long as a note holds,
 * whatever becomes durable meanwhile. */
#include "server/note_thread.h"

#include "base/assert.h"
#include "base/thread.h"

#include <stdatomic.h>
#include <stdio.h>

/* The journal that is to be noted from now on. */
struct beginning {
    bool is_there;
    char folder[PS_JOURNAL_PATH_BYTES];
    struct ps_claim claim;
    uint64_t epoch;
};

struct ps_note_thread {
    const struct ps_allocator *memory; /* borrowed */
    const struct ps_clock *clock;      /* borrowed */
    struct ps_note_writer writer;      /* of the thread */
    struct ps_thread thread;
    _Atomic bool woken;
    struct ps_mutex mutex; /* guards what follows */
    struct ps_condition changed;
    struct beginning next;
    bool ending;
};

static void run(void *argument);
static bool wait_until(struct ps_note_thread *thread, uint64_t due_ms);

enum ps_status ps_note_thread_create(const struct ps_note_thread_options *options,
                                     struct ps_note_thread **out, struct ps_error *error)
{
    struct ps_note_thread *thread = ps_zeroed(options->memory, sizeof *thread);
    if (thread == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the thread that notes the journal");
    thread->memory = options->memory;
    thread->clock = options->clock;
    thread->writer = (struct ps_note_writer){.service = options->service,
                                             .files = options->files,
                                             .registry = options->registry,
                                             .clock = options->clock,
                                             .log = options->log};
    ps_mutex_init(&thread->mutex, PS_RANK_LEAF);
    ps_condition_init(&thread->changed);
    enum ps_status status = ps_thread_start(&thread->thread, "notes", run, thread, error);
    if (status != PS_OK) {
        ps_note_thread_destroy(thread);
        return status;
    }
    *out = thread;
    return PS_OK;
}

void ps_note_thread_destroy(struct ps_note_thread *thread)
{
    if (thread == NULL)
        return;
    ps_mutex_lock(&thread->mutex);
    thread->ending = true;
    ps_condition_signal_all(&thread->changed);
    ps_mutex_unlock(&thread->mutex);
    ps_thread_join(&thread->thread);
    ps_condition_fini(&thread->changed);
    ps_mutex_fini(&thread->mutex);
    ps_release(thread->memory, thread);
}

void ps_note_thread_begin(struct ps_note_thread *thread, const char *folder,
                          const struct ps_claim *claim, uint64_t epoch)
{
    ps_mutex_lock(&thread->mutex);
    thread->next = (struct beginning){.is_there = true, .claim = *claim, .epoch = epoch};
    int length = snprintf(thread->next.folder, sizeof thread->next.folder, "%s", folder);
    PS_ASSERT(length > 0 && (size_t)length < sizeof thread->next.folder);
    ps_condition_signal_all(&thread->changed);
    ps_mutex_unlock(&thread->mutex);
}

void ps_note_thread_wake(struct ps_note_thread *thread)
{
    if (thread == NULL || atomic_exchange(&thread->woken, true))
        return;
    ps_mutex_lock(&thread->mutex);
    ps_condition_signal_all(&thread->changed);
    ps_mutex_unlock(&thread->mutex);
}

static void run(void *argument)
{
    struct ps_note_thread *thread = argument;
    uint64_t due_ms = PS_DEADLINE_NEVER;
    while (wait_until(thread, due_ms)) {
        /* Before the look: what comes after that wakes again. */
        atomic_store(&thread->woken, false);
        due_ms = ps_note_writer_turn(&thread->writer);
    }
}

/* False when the thread is to end. With a time to wait for nothing else matters but another
 * journal; without one it waits to be woken. */
static bool wait_until(struct ps_note_thread *thread, uint64_t due_ms)
{
    ps_mutex_lock(&thread->mutex);
    while (!thread->ending && !thread->next.is_there) {
        uint64_t left_ms = PS_DEADLINE_NEVER;
        if (due_ms != PS_DEADLINE_NEVER)
            left_ms = ps_time_left_ms(thread->clock, due_ms);
        if (left_ms == 0 || (due_ms == PS_DEADLINE_NEVER && atomic_load(&thread->woken)))
            break;
        (void)ps_condition_wait(&thread->changed, &thread->mutex, left_ms);
    }
    if (thread->next.is_there)
        ps_note_writer_begin(&thread->writer, thread->next.folder, &thread->next.claim,
                             thread->next.epoch);
    thread->next.is_there = false;
    bool go_on = !thread->ending;
    ps_mutex_unlock(&thread->mutex);
    return go_on;
}
