/* SPDX-License-Identifier: Apache-2.0 */
/* Two duties of one thread, since both are of the store and neither is urgent: it reads who is
 * where, watches, and reads again; and between two waits it answers trainers' questions. A question
 * interrupts the watch, and is answered before anything is read. */
#include "server/cluster_thread.h"

#include "base/assert.h"
#include "server/watching_thread.h"

#include <string.h>

/* Most for one look or one question. */
#define STORE_MS 2000

struct ps_cluster_thread {
    struct ps_cluster_thread_options options;
    struct ps_cluster cluster;
    struct ps_watching_thread watching; /* the store, or nothing in memory */
};

static void asked(void *self);
static void changed(void *self, uint64_t topics);
static void run(void *argument);
static void answer_all(struct ps_cluster_thread *thread);
static enum ps_status answer(struct ps_cluster_thread *thread, struct ps_init_question *question,
                             struct ps_error *error);
static enum ps_status answer_set(struct ps_cluster_thread *thread, struct ps_set_question *question,
                                 struct ps_error *error);
static enum ps_status look(struct ps_cluster_thread *thread);

/* A server in memory has nobody to look for: it waits for questions only. */
enum ps_status ps_cluster_thread_create(const struct ps_cluster_thread_options *options,
                                        struct ps_cluster_thread **out, struct ps_error *error)
{
    PS_ASSERT(options->registry != NULL && options->service != NULL);
    PS_ASSERT(options->changed != NULL);
    /* Alone in memory is alone. */
    PS_ASSERT(!options->is_in_memory || options->is_alone);
    struct ps_cluster_thread *thread = ps_zeroed(options->memory, sizeof *thread);
    if (thread == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the thread that knows the servers");
    /* Copied; what it points to outlives the thread. */
    thread->options = *options;
    ps_watching_thread_init(&thread->watching, options->is_in_memory ? NULL : options->registry->kv,
                            options->clock, options->is_in_memory ? PS_DEADLINE_NEVER : 0);
    /* From here on calls may ask; their questions wait for the start. */
    ps_cluster_init(
        &thread->cluster, options->memory,
        &(struct ps_cluster_listener){.changed = changed, .asked = asked, .self = thread});
    *out = thread;
    return PS_OK;
}

/* Lives as long as the thread; calls use it before the thread has started, and wait. */
struct ps_cluster *ps_cluster_thread_cluster(struct ps_cluster_thread *thread)
{
    return &thread->cluster;
}

/* Apart from create, because lanes are woken by news and are made in between. */
enum ps_status ps_cluster_thread_start(struct ps_cluster_thread *thread, struct ps_error *error)
{
    return ps_watching_thread_start(&thread->watching, "cluster", run, thread, error);
}

/* Calls that wait are told by the close; a question at work is answered first. */
void ps_cluster_thread_stop(struct ps_cluster_thread *thread)
{
    if (thread == NULL)
        return;
    ps_watching_thread_stop(&thread->watching);
    ps_cluster_close(&thread->cluster);
}

/* Behind the lanes, whose calls may still hold views. */
void ps_cluster_thread_destroy(struct ps_cluster_thread *thread)
{
    if (thread == NULL)
        return;
    /* Also after a failed start, which came before anybody stopped it. */
    ps_cluster_thread_stop(thread);
    ps_cluster_fini(&thread->cluster);
    ps_watching_thread_fini(&thread->watching);
    ps_release(thread->options.memory, thread);
}

/* Of the cluster, by a call that has a question: any thread's. */
static void asked(void *self)
{
    struct ps_cluster_thread *thread = self;
    PS_ASSERT(thread != NULL);
    ps_watching_thread_ask(&thread->watching);
}

/* A server in memory has nothing to read. */
void ps_cluster_thread_look_again(struct ps_cluster_thread *thread)
{
    PS_ASSERT(thread != NULL);
    if (thread->options.is_in_memory || thread->options.wish == NULL)
        return;
    ps_watching_thread_look_again(&thread->watching);
}

/* The listener of the cluster is this thread; the instance hears of news through it. */
static void changed(void *self, uint64_t topics)
{
    PS_ASSERT(self != NULL && topics != 0);
    struct ps_cluster_thread *thread = self;
    thread->options.changed(thread->options.self, topics);
}

/* Questions come before the look: a trainer waits for its answer, and nobody for the look. After a
 * failed look the watch is opened anew, since it may have missed something. */
static void run(void *argument)
{
    PS_ASSERT(argument != NULL);
    struct ps_cluster_thread *thread = argument;
    /* The first look comes at once: a server that begins to listen is asked for the others. */
    const struct ps_clock *clock = thread->options.clock;
    do {
        answer_all(thread);
        if (ps_time_left_ms(clock, thread->watching.look_ms) > 0)
            continue;
        bool is_read = look(thread) == PS_OK;
        ps_watching_thread_looked(&thread->watching, is_read, PS_WATCHING_REFRESH_MS);
        /* Snapshots of the model by time are asked for by a look. */
        uint64_t due_ms = thread->options.wish != NULL ? ps_set_wish_due_ms(thread->options.wish)
                                                       : PS_DEADLINE_NEVER;
        if (is_read && due_ms < thread->watching.look_ms)
            thread->watching.look_ms = due_ms;
    } while (ps_watching_thread_wait(&thread->watching));
}

/* Reads everything, and watches from right behind that, so that no change falls between the two. */
static enum ps_status look(struct ps_cluster_thread *thread)
{
    PS_ASSERT(!thread->options.is_in_memory);
    struct ps_registry *registry = thread->options.registry;
    struct ps_members members = {.memory = thread->options.memory};
    /* Short beside the refresh: a trainer's question may come while the store does not answer. */
    uint64_t deadline_ms = ps_deadline_after(thread->options.clock, STORE_MS);
    PS_TRY(ps_registry_read_members(registry, thread->options.memory, deadline_ms, &members, NULL));
    /* Publishing takes the members. */
    int64_t revision = members.revision;
    ps_cluster_publish(&thread->cluster, &members);
    /* A failure is one of the store, and everything is read again soon. */
    if (thread->options.wish != NULL)
        PS_TRY(ps_set_wish_look(thread->options.wish, registry, deadline_ms, NULL));
    /* A watch that works goes on from where it was: what it tells twice is read twice. */
    if (thread->watching.has_watch)
        return PS_OK;
    PS_TRY(ps_registry_watch_members(registry, revision + 1, deadline_ms, NULL));
    thread->watching.has_watch = true;
    return PS_OK;
}

/* One wake-up for all answers. When the store does not answer one question it is not asked the
 * others: each would wait as long, and all the calls behind it. */
static void answer_all(struct ps_cluster_thread *thread)
{
    struct ps_cluster_inquiry *inquiry = ps_cluster_take(&thread->cluster);
    struct ps_error error = {.status = PS_OK};
    bool any = inquiry != NULL;
    bool is_away = false;
    while (inquiry != NULL) {
        struct ps_cluster_inquiry *next = inquiry->next;
        /* The error of the one before stands for it, too. */
        if (!is_away)
            error.status = inquiry->is_about_set ? answer_set(thread, &inquiry->set, &error)
                                                 : answer(thread, &inquiry->question, &error);
        is_away = error.status == PS_ERR_UNAVAILABLE || error.status == PS_ERR_TIMEOUT;
        ps_cluster_answer(inquiry, error.status, &error);
        inquiry = next;
    }
    /* Behind all of them: a lane that is woken once asks each of its calls once. */
    if (any)
        ps_cluster_tell_answered(&thread->cluster);
}

/* What was asked for here is looked at at once: this server's shard is to be saved, too. */
static enum ps_status answer_set(struct ps_cluster_thread *thread, struct ps_set_question *question,
                                 struct ps_error *error)
{
    PS_ASSERT(question->name[0] != '\0');
    /* Looking costs three small reads, and what it finds may be the last row. */
    if (question->begins && !thread->options.is_in_memory)
        thread->watching.look_ms = 0;
    return ps_set_question_ask(thread->options.registry, question,
                               ps_unix_ns(thread->options.clock),
                               ps_deadline_after(thread->options.clock, STORE_MS), error);
}

/* Servers that are alone may have been initialised by a client of a fixed list, which leaves no
 * mark in the store: then what the only shard has become says the same. */
static enum ps_status answer(struct ps_cluster_thread *thread, struct ps_init_question *question,
                             struct ps_error *error)
{
    struct ps_status_reply self = {0};
    char uuid[37];
    ps_service_status(thread->options.service, &self, uuid);
    if (question->wish == PS_INIT_BEGIN && question->right == 0 && thread->options.is_alone &&
        self.shard_count == 1 && strcmp(self.state, "ready") == 0) {
        question->turn = PS_INIT_DONE;
        return PS_OK;
    }
    return ps_init_right_ask(thread->options.registry, question,
                             ps_deadline_after(thread->options.clock, STORE_MS), error);
}
