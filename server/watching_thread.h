/* SPDX-License-Identifier: Apache-2.0 */
/* A thread of the server that watches a part of the store, and does what others ask of it between
 * two waits. What it reads and what it answers is its owner's; this is how it waits, and how it is
 * woken and ended.
 *
 * Threads:  ask, look_again and stop from any; the rest, `look_ms` and `has_watch` are the
 *           thread's own.
 * Blocking: wait, until there is something to do; stop, until the thread has ended.
 * Errors:   none but those of the start of a thread.
 * Memory:   in place.
 */
#ifndef PS_SERVER_WATCHING_THREAD_H
#define PS_SERVER_WATCHING_THREAD_H

#include "base/clock.h"
#include "base/thread.h"
#include "etcd/kv.h"

/* Without any change everything is read again after this long; */
#define PS_WATCHING_REFRESH_MS 30000
/* and after a failure of the store, after this. */
#define PS_WATCHING_PAUSE_MS 500

struct ps_watching_thread {
    struct ps_kv *kv;             /* borrowed; NULL: what is kept in memory tells of no changes */
    const struct ps_clock *clock; /* borrowed */
    struct ps_thread thread;
    uint64_t look_ms;      /* when to read again; 0: now */
    bool has_watch;        /* one is open in the store */
    struct ps_mutex mutex; /* PS_RANK_LEAF; guards what follows */
    struct ps_condition told;
    bool asked;
    bool is_stale; /* what was read is to be read again */
    bool stopping;
};

void ps_watching_thread_init(struct ps_watching_thread *thread, struct ps_kv *kv,
                             const struct ps_clock *clock, uint64_t look_ms);
void ps_watching_thread_fini(struct ps_watching_thread *thread);

/* As ps_thread_start. `run` works until ps_watching_thread_wait says that it is the end. */
PS_MUST_USE enum ps_status ps_watching_thread_start(struct ps_watching_thread *thread,
                                                    const char *name, ps_thread_fn run,
                                                    void *argument, struct ps_error *error);

/* Lets the thread finish what it is at, and joins it. Also of one that was never started, and a
 * second time. */
void ps_watching_thread_stop(struct ps_watching_thread *thread);

/* There is a question: wakes the thread, wherever it waits. */
void ps_watching_thread_ask(struct ps_watching_thread *thread);

/* The same, and everything is to be read again, also where the thread is just reading it. */
void ps_watching_thread_look_again(struct ps_watching_thread *thread);

/* Everything was read, or could not be: says when to read again, after `refresh_ms` or a pause.
 * After a failure the watch is to be opened anew, since it may have missed something. */
void ps_watching_thread_looked(struct ps_watching_thread *thread, bool is_read,
                               uint64_t refresh_ms);

/* Returns when somebody has asked since it last returned, when the watch has told of a change or
 * broken, or when it is time to look; false when it is the end. `look_ms` is 0 then where something
 * has changed; of a broken watch `has_watch` is false, and the next look comes after a pause. */
PS_MUST_USE bool ps_watching_thread_wait(struct ps_watching_thread *thread);

#endif
