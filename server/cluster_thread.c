/* SPDX-License-Identifier: Apache-2.0 */
/* Two duties of one thread, since both are of the store and neither is urgent: it reads who is
 * where, watches, and reads again; and between two waits it answers trainers' questions. A question
 * interrupts the watch, and is answered before anything is read. */
#include "server/cluster_thread.h"

#include "base/assert.h"

#include <string.h>

/* Most for one look or one question. */
#define STORE_MS 2000
/* Without any change, everything is read again after this long. */
#define REFRESH_MS 30000
/* After a failure of the store. */
#define PAUSE_MS 500

struct ps_cluster_thread {
    struct ps_cluster_thread_options options;
    struct ps_cluster cluster;
    struct ps_thread thread;
    uint64_t look_ms;      /* the thread's: when to read again */
    bool watching;         /* the thread's */
    struct ps_mutex mutex; /* PS_RANK_LEAF; guards what follows */
    struct ps_condition told;
    bool asked;
    bool is_stale; /* what was read is to be read again */
    bool stopping;
};

static void asked(void *self);
static void changed(void *self, uint64_t topics);
static void run(void *argument);
static bool wait_for_news(struct ps_cluster_thread *thread);
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
    thread->look_ms = options->is_in_memory ? PS_DEADLINE_NEVER : 0;
    ps_mutex_init(&thread->mutex, PS_RANK_LEAF);
    ps_condition_init(&thread->told);
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
    return ps_thread_start(&thread->thread, "cluster", run, thread, error);
}

/* Calls that wait are told by the close; a question at work is answered first. */
void ps_cluster_thread_stop(struct ps_cluster_thread *thread)
{
    if (thread == NULL)
        return;
    ps_mutex_lock(&thread->mutex);
    thread->stopping = true;
    ps_mutex_unlock(&thread->mutex);
    asked(thread);
    /* Destroy calls this again. */
    ps_thread_join(&thread->thread);
    thread->thread.started = false;
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
    ps_condition_fini(&thread->told);
    ps_mutex_fini(&thread->mutex);
    ps_release(thread->options.memory, thread);
}

/* The thread waits in one of two places, and whoever asks does not know in which. */
static void asked(void *self)
{
    struct ps_cluster_thread *thread = self;
    PS_ASSERT(thread != NULL);
    ps_mutex_lock(&thread->mutex);
    thread->asked = true;
    ps_condition_signal_all(&thread->told);
    ps_mutex_unlock(&thread->mutex);
    if (!thread->options.is_in_memory)
        ps_kv_interrupt(thread->options.registry->kv);
}

/* A server in memory has nothing to read. */
void ps_cluster_thread_look_again(struct ps_cluster_thread *thread)
{
    PS_ASSERT(thread != NULL);
    if (thread->options.is_in_memory || thread->options.wish == NULL)
        return;
    /* Noted first: the thread may be in the middle of a look that began before. */
    ps_mutex_lock(&thread->mutex);
    thread->is_stale = true;
    ps_mutex_unlock(&thread->mutex);
    asked(thread);
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
        if (ps_time_left_ms(clock, thread->look_ms) > 0)
            continue;
        bool is_read = look(thread) == PS_OK;
        thread->watching = thread->watching && is_read;
        thread->look_ms = ps_deadline_after(clock, is_read ? REFRESH_MS : PAUSE_MS);
        /* Snapshots of the model by time are asked for by a look. */
        uint64_t due_ms = thread->options.wish != NULL ? ps_set_wish_due_ms(thread->options.wish)
                                                       : PS_DEADLINE_NEVER;
        if (is_read && due_ms < thread->look_ms)
            thread->look_ms = due_ms;
    } while (wait_for_news(thread));
}

/* False at the end. A watch that broke is opened anew behind the next reading. */
static bool wait_for_news(struct ps_cluster_thread *thread)
{
    const struct ps_clock *clock = thread->options.clock;
    ps_mutex_lock(&thread->mutex);
    /* What was asked since the last look is answered before anything is waited for. */
    bool pending = thread->asked || thread->stopping;
    uint64_t left_ms = thread->look_ms == PS_DEADLINE_NEVER
                           ? PS_DEADLINE_NEVER
                           : ps_time_left_ms(clock, thread->look_ms);
    if (!pending && !thread->watching && left_ms > 0)
        (void)ps_condition_wait(&thread->told, &thread->mutex, left_ms);
    ps_mutex_unlock(&thread->mutex);

    /* Without the lock: whoever asks takes it, and then interrupts this wait. */
    bool changed = false;
    if (!pending && thread->watching) {
        enum ps_status status =
            ps_kv_watch_wait(thread->options.registry->kv, thread->look_ms, &changed, NULL);
        thread->watching = status == PS_OK;
        if (status != PS_OK)
            thread->look_ms = ps_deadline_after(clock, PAUSE_MS);
        else if (changed)
            thread->look_ms = 0;
    }
    ps_mutex_lock(&thread->mutex);
    thread->asked = false;
    /* Behind the wait, so that a look which is asked for during it comes at once. */
    if (thread->is_stale)
        thread->look_ms = 0;
    thread->is_stale = false;
    bool go_on = !thread->stopping;
    ps_mutex_unlock(&thread->mutex);
    return go_on;
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
    if (thread->watching)
        return PS_OK;
    PS_TRY(ps_registry_watch_members(registry, revision + 1, deadline_ms, NULL));
    thread->watching = true;
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
        thread->look_ms = 0;
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
