/* SPDX-License-Identifier: Apache-2.0 */
/* Questions come first, then the list, and that only while somebody waits for changes of it: most
 * servers of a job are never asked. A question interrupts the watch. */
#include "server/workers_thread.h"

#include "base/assert.h"
#include "server/watching_thread.h"

/* Most for one look or one question. */
#define STORE_MS 2000
/* A store in memory has no watch: while somebody waits for changes, the ends of leases show so. */
#define REFRESH_IN_MEMORY_MS 500
/* Calls are told of their answers at least so often. */
#define TELL_MS 100

struct ps_workers_thread {
    struct ps_workers_thread_options options;
    struct ps_workers workers;
    struct ps_watching_thread watching; /* the store, or nothing in memory */
};

static void asked(void *self);
static void changed(void *self, uint64_t topics);
static void run(void *argument);
static void answer_all(struct ps_workers_thread *thread);
static enum ps_status answer(struct ps_workers_thread *thread, struct ps_worker_reading *reading,
                             struct ps_worker_question *question, struct ps_error *error);
static enum ps_status look(struct ps_workers_thread *thread, struct ps_error *error);

/* As the thread that knows the servers (cluster_thread.c), with other duties. */
enum ps_status ps_workers_thread_create(const struct ps_workers_thread_options *options,
                                        struct ps_workers_thread **out, struct ps_error *error)
{
    PS_ASSERT(options->registry != NULL && options->changed != NULL);
    struct ps_workers_thread *thread = ps_zeroed(options->memory, sizeof *thread);
    if (thread == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the thread that knows the workers");
    thread->options = *options;
    /* Nothing is read before somebody asks. */
    ps_watching_thread_init(&thread->watching, options->is_in_memory ? NULL : options->registry->kv,
                            options->clock, PS_DEADLINE_NEVER);
    /* From here on calls may ask; their questions wait for the start. */
    ps_workers_init(
        &thread->workers, options->memory, options->clock,
        &(struct ps_workers_listener){.changed = changed, .asked = asked, .self = thread});
    *out = thread;
    return PS_OK;
}

/* Lives as long as the thread; calls use it before the thread has started, and wait. */
struct ps_workers *ps_workers_thread_workers(struct ps_workers_thread *thread)
{
    PS_ASSERT(thread != NULL);
    return &thread->workers;
}

/* Apart from create, because lanes are woken by news and are made in between. */
enum ps_status ps_workers_thread_start(struct ps_workers_thread *thread, struct ps_error *error)
{
    return ps_watching_thread_start(&thread->watching, "workers", run, thread, error);
}

/* Calls that wait are told by the close; a question at work is answered first. */
void ps_workers_thread_stop(struct ps_workers_thread *thread)
{
    if (thread == NULL)
        return;
    ps_watching_thread_stop(&thread->watching);
    ps_workers_close(&thread->workers);
}

/* Behind the lanes, whose calls may still hold views. */
void ps_workers_thread_destroy(struct ps_workers_thread *thread)
{
    if (thread == NULL)
        return;
    ps_workers_thread_stop(thread);
    ps_workers_fini(&thread->workers);
    ps_watching_thread_fini(&thread->watching);
    ps_release(thread->options.memory, thread);
}

/* Of the workers, by a call that has a question: any thread's. */
static void asked(void *self)
{
    struct ps_workers_thread *thread = self;
    PS_ASSERT(thread != NULL);
    ps_watching_thread_ask(&thread->watching);
}

/* The listener of the workers is this thread; the instance hears of news through it. */
static void changed(void *self, uint64_t topics)
{
    struct ps_workers_thread *thread = self;
    PS_ASSERT(thread != NULL && topics != 0);
    PS_ASSERT(thread->options.changed != NULL);
    thread->options.changed(thread->options.self, topics);
}

/* After a failed look the watch is opened anew, since it may have missed something. When nobody
 * waits any more the watch stays open, so that etcd is not left with changes that nobody takes, and
 * the list is not read: the first who waits again has it read. */
static void run(void *argument)
{
    struct ps_workers_thread *thread = argument;
    PS_ASSERT(thread != NULL);
    const struct ps_clock *clock = thread->options.clock;
    /* A store that does not tell of changes is looked at more often. */
    uint64_t refresh_ms =
        thread->options.is_in_memory ? REFRESH_IN_MEMORY_MS : PS_WATCHING_REFRESH_MS;
    do {
        answer_all(thread);
        if (!ps_workers_is_watched(&thread->workers)) {
            thread->watching.look_ms = PS_DEADLINE_NEVER;
            continue;
        }
        /* Somebody waits whose first call found the list old. */
        if (thread->watching.look_ms == PS_DEADLINE_NEVER)
            thread->watching.look_ms = 0;
        if (ps_time_left_ms(clock, thread->watching.look_ms) > 0)
            continue;
        bool is_read = look(thread, NULL) == PS_OK;
        ps_watching_thread_looked(&thread->watching, is_read, refresh_ms);
    } while (ps_watching_thread_wait(&thread->watching));
}

/* Reads everything, and watches from right behind that, so that no change falls between the two. A
 * watch that works goes on from where it was: what it tells twice is read twice. */
static enum ps_status look(struct ps_workers_thread *thread, struct ps_error *error)
{
    struct ps_registry *registry = thread->options.registry;
    struct ps_worker_rows rows;
    uint64_t deadline_ms = ps_deadline_after(thread->options.clock, STORE_MS);
    PS_TRY(ps_registry_read_workers(registry, NULL, thread->options.memory, deadline_ms, &rows,
                                    error));
    /* Publishing takes the rows. */
    int64_t revision = rows.revision;
    ps_workers_publish(&thread->workers, &rows);
    if (thread->watching.has_watch || thread->options.is_in_memory)
        return PS_OK;
    PS_TRY(ps_registry_watch_workers(registry, revision + 1, deadline_ms, error));
    thread->watching.has_watch = true;
    return PS_OK;
}

/* One reading for all who want the list, and one of a group for all who join it. When the store
 * does not answer one question it is not asked the others: each would wait as long. Calls are told
 * of their answers in the end, and before that from time to time, since a thousand who join take
 * seconds. */
static void answer_all(struct ps_workers_thread *thread)
{
    const struct ps_clock *clock = thread->options.clock;
    /* Read while there is one: an answer releases it. */
    struct ps_worker_inquiry *inquiry = ps_workers_take(&thread->workers);
    struct ps_worker_reading reading = {0};
    struct ps_error error = {.status = PS_OK};
    uint64_t tell_ms = ps_deadline_after(clock, TELL_MS);
    bool any = inquiry != NULL;
    /* Of the store, not of a worker. */
    bool is_away = false;
    /* The list was read for the question before, and nothing was changed since. */
    bool is_read = false;
    while (inquiry != NULL) {
        struct ps_worker_inquiry *next = inquiry->next;
        struct ps_worker_question *question = &inquiry->question;
        /* The list has no answer of its own: the view is there for whoever asks. */
        bool lists = question->task == PS_WORKER_LIST;
        /* The error of the one before stands for it, too. */
        if (!is_away && !(lists && is_read))
            error.status =
                lists ? look(thread, &error) : answer(thread, &reading, question, &error);
        is_away = error.status == PS_ERR_UNAVAILABLE || error.status == PS_ERR_TIMEOUT;
        is_read = lists && error.status == PS_OK;
        ps_workers_answer(&thread->workers, inquiry, error.status, &error);
        inquiry = next;
        if (inquiry == NULL || ps_time_left_ms(clock, tell_ms) > 0)
            continue;
        ps_workers_tell_answered(&thread->workers);
        tell_ms = ps_deadline_after(clock, TELL_MS);
    }
    ps_worker_reading_end(&reading);
    if (any)
        ps_workers_tell_answered(&thread->workers);
}

/* Whoever waits for changes hears of one that was made here at once, and without a watch. */
static enum ps_status answer(struct ps_workers_thread *thread, struct ps_worker_reading *reading,
                             struct ps_worker_question *question, struct ps_error *error)
{
    PS_ASSERT(question->task != PS_WORKER_LIST);
    if (question->incarnation == 0)
        thread->watching.look_ms =
            thread->watching.look_ms == PS_DEADLINE_NEVER ? PS_DEADLINE_NEVER : 0;
    question->worker.joined_unix_ms = ps_unix_ns(thread->options.clock) / 1000000;
    return ps_worker_question_ask(thread->options.registry, thread->options.memory, reading,
                                  question, ps_deadline_after(thread->options.clock, STORE_MS),
                                  error);
}
