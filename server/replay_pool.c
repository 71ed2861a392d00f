/* SPDX-License-Identifier: Apache-2.0 */
/* One lock for all queues: a record is at least a scan and an update of its parameter, beside which
 * the lock is nothing. */
#include "server/replay_pool.h"

#include "base/assert.h"
#include "base/hash.h"
#include "base/thread.h"

struct worker {
    struct ps_replay_pool *pool;
    struct ps_thread thread;
    struct ps_condition work;                         /* there is a row, or it is time to end */
    struct ps_journal_row rows[PS_REPLAY_QUEUE_ROWS]; /* a ring */
    size_t first, count;
};

struct ps_replay_pool {
    struct ps_replay_pool_options options;
    uint32_t worker_count; /* that run; 0: none yet, or there are to be none */
    bool started;
    struct ps_mutex lock; /* guards what follows and the rings */
    struct ps_condition room;
    uint64_t bytes; /* of rows that wait or are being applied */
    size_t rows;    /* that wait or are being applied */
    bool ending;
    struct ps_error failure; /* the first; PS_OK: none */
    struct worker workers[PS_REPLAY_THREADS_MAX];
};

static enum ps_status put(void *self, struct ps_journal_row *row, struct ps_error *error);
static void start_workers(struct ps_replay_pool *pool);
static enum ps_status await_workers(struct ps_replay_pool *pool, struct ps_error *error);
static enum ps_status put_here(struct ps_replay_pool *pool, struct ps_journal_row *row,
                               struct ps_error *error);
static enum ps_status put_for(struct worker *worker, struct ps_journal_row *row,
                              struct ps_error *error);
static bool has_room(const struct worker *worker, uint64_t bytes);
static void worker_main(void *argument);
static bool take_row(struct worker *worker, struct ps_journal_row *row, bool *wanted);
static void settle(struct ps_replay_pool *pool, uint64_t bytes, const struct ps_error *failure);
static enum ps_status finish(void *self, struct ps_error *error);

/* Threads are started with the first record: most recoveries have none. */
enum ps_status ps_replay_pool_create(const struct ps_replay_pool_options *options,
                                     struct ps_replay_pool **out, struct ps_error *error)
{
    PS_ASSERT(options->apply != NULL);
    PS_ASSERT(options->thread_count >= 1 && options->thread_count <= PS_REPLAY_THREADS_MAX);
    struct ps_replay_pool *pool = ps_zeroed(options->memory, sizeof *pool);
    if (pool == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the threads of a replay");
    pool->options = *options;
    ps_mutex_init(&pool->lock, PS_RANK_QUEUE);
    ps_condition_init(&pool->room);
    for (size_t i = 0; i < PS_REPLAY_THREADS_MAX; i++) {
        pool->workers[i].pool = pool;
        ps_condition_init(&pool->workers[i].work);
    }
    *out = pool;
    return PS_OK;
}

/* After a finish: no thread is left. */
void ps_replay_pool_destroy(struct ps_replay_pool *pool)
{
    if (pool == NULL)
        return;
    PS_ASSERT(!pool->started);
    for (size_t i = 0; i < PS_REPLAY_THREADS_MAX; i++)
        ps_condition_fini(&pool->workers[i].work);
    ps_condition_fini(&pool->room);
    ps_mutex_fini(&pool->lock);
    ps_release(pool->options.memory, pool);
}

/* The pool's two functions, for recovery. */
struct ps_replay_sink ps_replay_pool_sink(struct ps_replay_pool *pool)
{
    return (struct ps_replay_sink){put, finish, pool};
}

/* Clocks touch no parameter, and there is one for each iteration of each worker: they go beside the
 * pushes, those of one name in their order. Not so what sets or removes them, which is rare: there
 * may be only so many, and clocks that come must find the place that others of another name have
 * left. */
static bool changes_table(enum ps_record_type type)
{
    return !ps_record_makes_version(type) && type != PS_RECORD_HELD && type != PS_RECORD_CLOCK;
}

/* Records of one parameter go to one worker, by the hash of the name: in their order, one at a
 * time, as recovery_apply.h demands. */
static enum ps_status put(void *self, struct ps_journal_row *row, struct ps_error *error)
{
    PS_ASSERT(!((struct ps_replay_pool *)self)->ending);
    struct ps_replay_pool *pool = self;
    if (!pool->started)
        start_workers(pool);
    /* With one processor, or when no thread could be had. */
    if (pool->worker_count == 0)
        return put_here(pool, row, error);
    /* What is of more than one parameter changes the table, which all workers read: it waits until
     * they are done, and is done before they go on. */
    if (changes_table(row->record.type)) {
        PS_TRY(await_workers(pool, error));
        return put_here(pool, row, error);
    }
    /* The same name gives the same worker for as long as the pool runs: their number does not
     * change meanwhile. */
    uint32_t chosen = ps_hash_fnv1a32(row->record.name) % pool->worker_count;
    return put_for(&pool->workers[chosen], row, error);
}

/* A thread that is refused makes fewer of them; with none the caller's thread does the work. */
static void start_workers(struct ps_replay_pool *pool)
{
    PS_ASSERT(pool->bytes == 0);
    uint32_t wanted = pool->options.thread_count > 1 ? pool->options.thread_count : 0;
    /* Also when no thread comes: the system is not asked again for each record. */
    pool->started = true;
    pool->worker_count = 0;
    while (pool->worker_count < wanted) {
        struct worker *worker = &pool->workers[pool->worker_count];
        if (ps_thread_start(&worker->thread, "replay", worker_main, worker, NULL) != PS_OK)
            return;
        pool->worker_count++;
    }
}

/* PS_OK: every record that was put is applied. */
static enum ps_status await_workers(struct ps_replay_pool *pool, struct ps_error *error)
{
    ps_mutex_lock(&pool->lock);
    while (pool->rows > 0)
        (void)ps_condition_wait(&pool->room, &pool->lock, PS_DEADLINE_NEVER);
    struct ps_error failure = pool->failure;
    ps_mutex_unlock(&pool->lock);
    return failure.status == PS_OK ? PS_OK : ps_fail(error, failure.status, "%s", failure.text);
}

/* In the caller's thread; what is refused stays the caller's. */
static enum ps_status put_here(struct ps_replay_pool *pool, struct ps_journal_row *row,
                               struct ps_error *error)
{
    PS_TRY(pool->options.apply(pool->options.self, &row->record, error));
    ps_journal_row_release(row);
    return PS_OK;
}

/* Waits while the worker's ring is full or too many bytes are under way, and no longer than until
 * something fails: then nothing is taken any more. */
static enum ps_status put_for(struct worker *worker, struct ps_journal_row *row,
                              struct ps_error *error)
{
    struct ps_replay_pool *pool = worker->pool;
    uint64_t bytes = row->record.content.size;
    ps_mutex_lock(&pool->lock);
    while (pool->failure.status == PS_OK && !has_room(worker, bytes))
        /* A worker that took or applied a row signals. */
        (void)ps_condition_wait(&pool->room, &pool->lock, PS_DEADLINE_NEVER);
    enum ps_status status = pool->failure.status;
    if (status == PS_OK) {
        size_t last = (worker->first + worker->count) % PS_REPLAY_QUEUE_ROWS;
        /* The row's bytes change their owner and are not copied. */
        ps_journal_row_move(&worker->rows[last], row);
        worker->count++;
        pool->bytes += bytes;
        pool->rows++;
        ps_condition_signal_all(&worker->work);
    } else {
        (void)ps_fail(error, status, "%s", pool->failure.text);
    }
    ps_mutex_unlock(&pool->lock);
    return status;
}

/* A record above the bound goes when it is alone, or it would never go. */
static bool has_room(const struct worker *worker, uint64_t bytes)
{
    PS_ASSERT(worker->count <= PS_REPLAY_QUEUE_ROWS);
    uint64_t waiting = worker->pool->bytes;
    if (worker->count == PS_REPLAY_QUEUE_ROWS)
        return false;
    return waiting == 0 ||
           (waiting <= PS_REPLAY_BYTES_MAX && bytes <= PS_REPLAY_BYTES_MAX - waiting);
}

/* After a failure rows are still taken and dropped, so that the reader, which may be waiting for
 * room, gets on to its end. */
static void worker_main(void *argument)
{
    struct worker *worker = argument;
    struct ps_replay_pool *pool = worker->pool;
    struct ps_journal_row row;
    bool wanted = false;
    ps_service_enter_thread();
    while (take_row(worker, &row, &wanted)) {
        struct ps_error reason = {0};
        uint64_t bytes = row.record.content.size;
        /* Without the lock: this is what takes the time. */
        if (wanted && pool->options.apply(pool->options.self, &row.record, &reason) == PS_OK)
            reason.status = PS_OK;
        ps_journal_row_release(&row);
        settle(pool, bytes, &reason);
    }
}

/* False when there is no row any more. `*wanted`: nothing has failed so far. The room in the ring
 * counts from now, the bytes until the row was applied. */
static bool take_row(struct worker *worker, struct ps_journal_row *row, bool *wanted)
{
    struct ps_replay_pool *pool = worker->pool;
    ps_mutex_lock(&pool->lock);
    while (worker->count == 0 && !pool->ending)
        (void)ps_condition_wait(&worker->work, &pool->lock, PS_DEADLINE_NEVER);
    bool taken = worker->count > 0;
    if (taken) {
        /* Applying this one may take long; the next can come in meanwhile. */
        if (worker->count == PS_REPLAY_QUEUE_ROWS)
            ps_condition_signal_all(&pool->room);
        ps_journal_row_move(row, &worker->rows[worker->first]);
        worker->first = (worker->first + 1) % PS_REPLAY_QUEUE_ROWS;
        worker->count--;
    }
    /* Asked under the lock, so that no row behind the first failure is applied by a worker that
     * comes later. */
    *wanted = pool->failure.status == PS_OK;
    ps_mutex_unlock(&pool->lock);
    return taken;
}

/* Counted back whatever came of it. */
static void settle(struct ps_replay_pool *pool, uint64_t bytes, const struct ps_error *failure)
{
    ps_mutex_lock(&pool->lock);
    PS_ASSERT(pool->bytes >= bytes && pool->rows > 0);
    pool->bytes -= bytes;
    pool->rows--;
    /* Later failures are mostly consequences: people need the first. */
    if (failure->status != PS_OK && pool->failure.status == PS_OK)
        pool->failure = *failure;
    ps_condition_signal_all(&pool->room);
    ps_mutex_unlock(&pool->lock);
}

/* When this returns no record is being applied any more; the pool may begin anew. The first failure
 * is told and forgotten. */
static enum ps_status finish(void *self, struct ps_error *error)
{
    struct ps_replay_pool *pool = self;
    ps_mutex_lock(&pool->lock);
    pool->ending = true;
    for (uint32_t i = 0; i < pool->worker_count; i++)
        ps_condition_signal_all(&pool->workers[i].work);
    ps_mutex_unlock(&pool->lock);
    for (uint32_t i = 0; i < pool->worker_count; i++)
        ps_thread_join(&pool->workers[i].thread);
    /* Every row was taken and counted back, also those that were dropped. */
    PS_ASSERT(pool->bytes == 0 && pool->rows == 0);
    struct ps_error failure = pool->failure;
    pool->failure = (struct ps_error){0};
    pool->ending = false;
    pool->started = false;
    pool->worker_count = 0;
    if (failure.status == PS_OK)
        return PS_OK;
    return ps_fail(error, failure.status, "%s", failure.text);
}
