/* SPDX-License-Identifier: Apache-2.0 */
/* A step of clocks: with the cut held shared, as a push, and the clocks' lock. What it becomes is
 * decided, its record gets its place in the journal, then it is true. Between the first and the
 * last nobody else looks at the clocks, so that their order is the journal's.
 *
 * A read does not wait for the disk: it may be let go by a clock or an eviction whose record is not
 * durable yet. After a crash that clock is said again by its worker, which had no answer; reads
 * that came before have seen no more of the parameters than any pull sees. */
#include "server/core/requests/clock_calls.h"

#include "base/assert.h"
#include "base/hash.h"
#include "server/core/requests/change_wait.h"
#include "server/core/requests/pull_wait.h"
#include "server/core/requests/service_state.h"
#include "server/core/sessions/fingerprint.h"

#include <inttypes.h>
#include <string.h>

/* One request on its way. SetClocks and Clock differ in what they make of the clocks, and in
 * nothing around that: sessions, the wait for the disk and who is told are one code. */
struct attempt {
    struct ps_service *service;
    struct ps_bytes name;
    uint32_t shard;
    const struct ps_request_id *id;
    uint32_t fingerprint;
    const struct ps_clocks_record *settings; /* either these, which may say that they go */
    struct ps_clock_record said;             /* ... or this */
    uint64_t task;                           /* in which it was said; 0: in any */
    struct ps_clocks_reply reply;
    bool has_moved;    /* the minimum, or the clocks went: others are to be told */
    bool wakes_writer; /* of the journal */
};

static enum ps_status change(struct attempt *attempt, struct ps_clocks_reply *reply,
                             struct ps_push_wait *wait, struct ps_error *error);
static enum ps_status change_once(struct attempt *attempt, struct ps_error *error);
static enum ps_status apply(struct attempt *attempt, struct ps_error *error);
static void answer(struct attempt *attempt);
static enum ps_status set(struct attempt *attempt, struct ps_error *error);
static enum ps_status drop(struct attempt *attempt, struct ps_error *error);
static enum ps_status say(struct attempt *attempt, struct ps_error *error);
static enum ps_status put_clock(struct ps_service *service, struct ps_clock_group *group,
                                const struct ps_clock_record *becomes, const struct attempt *by,
                                bool *wakes_writer, struct ps_error *error);
static enum ps_status put_record(struct ps_service *service, enum ps_record_type type,
                                 struct ps_bytes name, struct ps_bytes content,
                                 const struct attempt *by, uint64_t *position, bool *wakes_writer,
                                 struct ps_error *error);
static struct ps_clock_read read_of(struct ps_service *service,
                                    const struct ps_pull_request *request);
static void note_read(struct ps_service *service, struct ps_clock_worker *worker,
                      const struct ps_clock_look *look, enum ps_status status, uint64_t now_ms);

/* Judged before any lock: whether settings can be does not depend on those that are there. */
enum ps_status ps_service_set_clocks(struct ps_service *service,
                                     const struct ps_set_clocks_request *request,
                                     struct ps_clocks_reply *reply, struct ps_push_wait *wait,
                                     struct ps_error *error)
{
    struct ps_clocks_record settings = {.workers = request->workers,
                                        .consistency = request->consistency,
                                        .staleness = request->staleness,
                                        .straggler = request->straggler,
                                        .ttl_ms = request->ttl_ms,
                                        .speculation = request->speculation,
                                        .task = request->task,
                                        .clock = request->clock,
                                        .has_ranks = request->ranks.size > 0};
    uint8_t said[PS_CLOCKS_RECORD_BYTES_MAX];
    if (request->ranks.size > sizeof settings.ranks)
        return ps_fail(error, PS_ERR_BAD_INPUT, "ranks in %zu bytes, at most %d",
                       request->ranks.size, PS_CLOCK_RANKS_BYTES);
    if (settings.has_ranks)
        memcpy(settings.ranks, request->ranks.data, request->ranks.size);
    /* Who forgets the workers must not remove what others count by, so that it is asked in words
     * of its own. */
    if (!request->removes)
        PS_TRY(ps_clock_settings_check(&settings, error));
    else if (!ps_clocks_record_is_removal(&settings))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "who removes clocks says nothing else of them: no workers, no settings");
    /* As of a Clock; from then on no minimum could rise. */
    if (request->clock > INT64_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "a task cannot begin at clock %" PRIu64 ": is that a negative number?",
                       request->clock);
    /* The record's bytes are what tells two requests under one id apart: they are all of it. */
    size_t size = ps_clocks_record_write(&settings, said);
    struct attempt attempt = {
        .service = service,
        .name = request->name,
        .shard = request->shard,
        .id = &request->request,
        .fingerprint = ps_fingerprint_of_clocks(request->name, (struct ps_bytes){said, size}, true),
        .settings = &settings};
    return change(&attempt, reply, wait, error);
}

/* The rank is held to what a record can say before it becomes one; whether there is such a worker
 * is known with the clocks' lock. */
enum ps_status ps_service_clock(struct ps_service *service, const struct ps_clock_request *request,
                                struct ps_clocks_reply *reply, struct ps_push_wait *wait,
                                struct ps_error *error)
{
    uint8_t said[PS_CLOCK_RECORD_BYTES];
    PS_ASSERT(service != NULL);
    if (request->worker == 0 || request->worker > PS_CLOCK_WORKERS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a clock is a worker's: say 1 + its rank");
    /* -1 of a signed number, as it comes: it would be taken for good, since clocks only rise, and
     * nobody would ever wait for this worker again. */
    if (request->clock > INT64_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "worker %" PRIu32 " cannot have ended %" PRIu64
                       " iterations: is that a negative number?",
                       request->worker - 1, request->clock);
    struct attempt attempt = {.service = service,
                              .name = request->name,
                              .shard = request->shard,
                              .id = &request->request,
                              .said = {.worker = request->worker - 1, .clock = request->clock},
                              .task = request->task};
    ps_clock_record_write(&attempt.said, said);
    attempt.fingerprint =
        ps_fingerprint_of_clocks(request->name, (struct ps_bytes){said, sizeof said}, false);
    return change(&attempt, reply, wait, error);
}

/* The cut is held shared, as by a push: clocks of many workers come beside each other's pushes, and
 * only a snapshot needs all of them to stand still. */
static enum ps_status change(struct attempt *attempt, struct ps_clocks_reply *reply,
                             struct ps_push_wait *wait, struct ps_error *error)
{
    struct ps_service *service = attempt->service;
    PS_ASSERT(reply != NULL && attempt->id != NULL);
    ps_rwlock_read(&service->cut);
    enum ps_status status = ps_change_check_ready(service, attempt->shard, error);
    if (status == PS_OK)
        status = change_once(attempt, error);
    /* What was applied may be acknowledged only by whoever owns the shard. */
    if (status == PS_OK)
        status = ps_service_owns(service, error);
    /* Also of a refused one, whose position is 0: nothing reads it then. */
    ps_change_begin_wait(service, attempt->reply.position, wait, &attempt->reply.durable_position);
    ps_rwlock_unlock(&service->cut);
    /* Without any lock, since the listener may take its own. */
    if (attempt->wakes_writer)
        ps_service_tell_journal_wanted(service);
    /* Told before the record is durable: readers do not wait for the disk, and the slowest worker's
     * own answer is the last thing they need. */
    if (attempt->has_moved)
        ps_pull_wait_tell(service, attempt->name);
    if (status == PS_OK)
        *reply = attempt->reply;
    return status;
}

/* A repeat waits as the first did, for the position of its record; nothing of it is applied. */
static enum ps_status change_once(struct attempt *attempt, struct ps_error *error)
{
    struct ps_service *service = attempt->service;
    struct ps_session_call call = {0};
    if (attempt->id->present)
        PS_TRY(ps_sessions_begin(&service->sessions, attempt->id, attempt->fingerprint,
                                 ps_service_unix_us(service), &call, error));
    /* From the decision to the record one step; the session is asked outside, as by a push. */
    ps_mutex_lock(&service->clocks.lock);
    enum ps_status status = call.is_repeat ? PS_OK : apply(attempt, error);
    if (status == PS_OK)
        answer(attempt);
    ps_mutex_unlock(&service->clocks.lock);
    if (call.is_repeat) {
        attempt->reply.duplicate = true;
        attempt->reply.position = call.answer.position;
        return PS_OK;
    }
    /* Without an id nobody can ask for it again. What changed nothing is remembered as well: it has
     * no record, and after a crash it changes nothing again. */
    if (!attempt->id->present)
        return status;
    PS_ASSERT(!call.is_repeat);
    if (status == PS_OK)
        ps_sessions_commit(&service->sessions, &call,
                           (struct ps_session_answer){.position = attempt->reply.position});
    else
        ps_sessions_abort(&service->sessions, &call);
    return status;
}

/* With the clocks' lock. What is refused has changed nothing, and moves nobody. Whether the minimum
 * has moved is one comparison, so that nobody has to
 * know which steps move it. */
static enum ps_status apply(struct attempt *attempt, struct ps_error *error)
{
    /* Looked up before and behind: a group that comes has the minimum 0 of all that begin. */
    struct ps_clocks *clocks = &attempt->service->clocks;
    const struct ps_clock_group *group = ps_clocks_find(clocks, attempt->name);
    uint64_t before = group != NULL ? ps_clock_group_minimum(group) : 0;
    bool removes = attempt->settings != NULL && ps_clocks_record_removes(attempt->settings);
    if (removes)
        return drop(attempt, error);
    PS_TRY(attempt->settings != NULL ? set(attempt, error) : say(attempt, error));
    /* The group may be one that has just come. */
    group = ps_clocks_find(clocks, attempt->name);
    PS_ASSERT(group != NULL);
    /* Other settings let others read, too: a lower consistency, or a larger staleness. */
    attempt->has_moved |= attempt->settings != NULL || ps_clock_group_minimum(group) != before;
    if (attempt->has_moved)
        ps_service_count_clocks(attempt->service);
    return PS_OK;
}

/* Of what holds now: minimum and clock only rise, so that a repeat hears no less than the first
 * answer said. */
static void answer(struct attempt *attempt)
{
    const struct ps_clock_group *group = ps_clocks_find(&attempt->service->clocks, attempt->name);
    /* Of clocks that were removed, or of a repeat whose clocks are those of a former life of the
     * shard. */
    if (group == NULL)
        return;
    /* A rank that has gone since has no clock to tell. */
    PS_ASSERT(group->settings.workers > 0);
    attempt->reply.minimum = ps_clock_group_minimum(group);
    if (attempt->settings == NULL && ps_clock_group_has(group, attempt->said.worker))
        attempt->reply.clock = ps_clock_group_clock(group, attempt->said.worker);
}

/* The order of a push: everything that may fail, the place in the journal, the change. */
static enum ps_status set(struct attempt *attempt, struct ps_error *error)
{
    struct ps_service *service = attempt->service;
    struct ps_clock_group *group = NULL;
    struct ps_clocks_record settings;
    uint8_t content[PS_CLOCKS_RECORD_BYTES_MAX];
    /* A group that is prepared and not kept is seen by nobody. */
    PS_ASSERT(attempt->reply.position == 0);
    PS_TRY(ps_clocks_prepare(&service->clocks, attempt->name, attempt->settings->workers, &group,
                             error));
    enum ps_status status = ps_clock_group_settle(group, attempt->settings, &settings, error);
    /* Every worker may set them when it starts: of equal ones the first is noted. The answer waits
     * until the settings that it speaks of are as durable as its own would be. */
    if (status == PS_OK && ps_clock_settings_equal(&group->settings, &settings)) {
        attempt->reply.position = group->position;
        return PS_OK;
    }
    if (status == PS_OK) {
        size_t size = ps_clocks_record_write(&settings, content);
        status =
            put_record(service, PS_RECORD_CLOCKS, attempt->name, (struct ps_bytes){content, size},
                       attempt, &attempt->reply.position, &attempt->wakes_writer, error);
    }
    if (status != PS_OK) {
        ps_clocks_give_up(&service->clocks, group);
        return status;
    }
    /* From here on nothing can fail. */
    ps_clock_group_configure(group, &settings, ps_now_ms(service->clock));
    group->position = attempt->reply.position;
    ps_clocks_keep(&service->clocks, group);
    return PS_OK;
}

/* What is not there any more is as good as removed: whoever asks again, maybe from another process,
 * gets the same answer. It waits until the removal that it may speak of is durable. */
static enum ps_status drop(struct attempt *attempt, struct ps_error *error)
{
    struct ps_clocks *clocks = &attempt->service->clocks;
    struct ps_clock_group *group = NULL;
    uint8_t content[PS_CLOCKS_RECORD_BYTES_MAX];
    PS_ASSERT(ps_clocks_record_removes(attempt->settings) && attempt->reply.position == 0);
    enum ps_status status = ps_clocks_get(clocks, attempt->name, &group, error);
    if (status == PS_ERR_NOT_FOUND) {
        attempt->reply.position = clocks->removed_at;
        return PS_OK;
    }
    PS_TRY(status);
    size_t size = ps_clocks_record_write(attempt->settings, content);
    PS_TRY(put_record(attempt->service, PS_RECORD_CLOCKS, attempt->name,
                      (struct ps_bytes){content, size}, attempt, &attempt->reply.position,
                      &attempt->wakes_writer, error));
    /* From here on nothing can fail. Reads that wait by them are told that there are none. */
    ps_clocks_remove(clocks, group, attempt->reply.position);
    attempt->has_moved = true;
    ps_service_count_clocks(attempt->service);
    return PS_OK;
}

/* A worker that says again what it has said is heard of, and waits for the record of the first. */
static enum ps_status say(struct attempt *attempt, struct ps_error *error)
{
    struct ps_service *service = attempt->service;
    struct ps_clock_group *group = NULL;
    struct ps_clock_record becomes;
    uint32_t rank = attempt->said.worker;
    PS_ASSERT(attempt->settings == NULL);
    PS_TRY(ps_clocks_get(&service->clocks, attempt->name, &group, error));
    /* A worker of an earlier task may still be on its way, with the same rank as one of this. Asked
     * first: that its rank has no part now is not what it has done wrong. */
    if (attempt->task != 0 && attempt->task != group->settings.task)
        return ps_fail(error, PS_ERR_MISMATCH,
                       "clocks %.*s are in task %" PRIu64 ", and worker %" PRIu32
                       " has ended an iteration of task %" PRIu64,
                       (int)attempt->name.size, (const char *)attempt->name.data,
                       group->settings.task, rank, attempt->task);
    if (!ps_clock_group_has(group, rank))
        return ps_clock_group_fail_absent(group, rank, error);
    /* Heard of in any case, also where the journal then refuses: it lives. */
    if (ps_clock_group_say(group, rank, attempt->said.clock, ps_now_ms(service->clock), &becomes)) {
        PS_TRY(put_clock(service, group, &becomes, attempt, &attempt->wakes_writer, error));
        /* It frees the keys that it has announced, and reads that it has announced may be due. */
        attempt->has_moved = group->settings.consistency == PS_CONSISTENCY_SPARSE_SSP;
    }
    attempt->reply.position = group->workers[rank].position;
    return PS_OK;
}

/* Writes down what the worker becomes, and makes it so. Who is evicted has not been heard of by
 * that: people are told how long it is silent. */
static enum ps_status put_clock(struct ps_service *service, struct ps_clock_group *group,
                                const struct ps_clock_record *becomes, const struct attempt *by,
                                bool *wakes_writer, struct ps_error *error)
{
    uint8_t content[PS_CLOCK_RECORD_BYTES];
    uint64_t position = 0;
    PS_ASSERT(ps_clock_group_has(group, becomes->worker));
    ps_clock_record_write(becomes, content);
    PS_TRY(put_record(service, PS_RECORD_CLOCK, ps_clock_group_name(group),
                      (struct ps_bytes){content, sizeof content}, by, &position, wakes_writer,
                      error));
    ps_clock_group_apply(group, becomes,
                         becomes->evicted ? group->workers[becomes->worker].heard_ms
                                          : ps_now_ms(service->clock));
    group->workers[becomes->worker].position = position;
    return PS_OK;
}

/* `by` is the request that asks for it; NULL: nobody did. The record is small, and copied. It makes
 * no version of any parameter. */
static enum ps_status put_record(struct ps_service *service, enum ps_record_type type,
                                 struct ps_bytes name, struct ps_bytes content,
                                 const struct attempt *by, uint64_t *position, bool *wakes_writer,
                                 struct ps_error *error)
{
    struct ps_journal_draft draft = {.type = type, .name = name, .content = ps_view_of(&content)};
    struct ps_journal_place place;
    PS_ASSERT(type == PS_RECORD_CLOCKS || type == PS_RECORD_CLOCK);
    PS_ASSERT(name.size > 0 && name.size <= PS_CLOCKS_NAME_BYTES_MAX);
    /* Of an eviction there is no request, so that replay remembers none. */
    if (by != NULL)
        draft.request = *by->id;
    PS_TRY(ps_journal_place_draft(&place, &service->queue, &draft, by != NULL ? by->fingerprint : 0,
                                  service->epoch, error));
    enum ps_status status = ps_journal_queue_put(&place, 0, error);
    if (status == PS_OK) {
        *position = place.position;
        *wakes_writer |= place.is_first;
        /* Counted here, as a definition is: ps_service_check knows every position of the
         * journal. */
        service->position_at_begin++;
    }
    ps_journal_place_release(&place);
    return status;
}

/* ---- Pulls ---- */

/* A look, and whoever is overdue at the minimum is evicted until the read may go or the holder is
 * one that lives. An eviction that finds no room in the journal is tried again with the next look.
 * The mark is left with the clocks' lock: a clock that moves behind it finds the mark. */
enum ps_status ps_clock_pull_check(struct ps_service *service,
                                   const struct ps_pull_request *request, struct ps_pull_wait *wait,
                                   struct ps_error *error)
{
    struct ps_clock_group *group = NULL;
    struct ps_clock_look look;
    struct ps_clock_record becomes;
    /* Most pulls are nobody's in particular, and pay no more than this comparison. */
    if (request->worker == 0)
        return PS_OK;
    PS_ASSERT(!wait->evicted && !wait->announced && !wait->wakes_writer);
    struct ps_clock_read read = read_of(service, request);
    uint64_t now_ms = ps_now_ms(service->clock);
    ps_mutex_lock(&service->clocks.lock);
    enum ps_status status = ps_clocks_get(&service->clocks, request->clocks, &group, error);
    if (status == PS_OK) {
        read.room = ps_clocks_room(&service->clocks);
        status = ps_clock_group_read(group, &read, now_ms, &look, error);
        wait->announced = look.announces;
    }
    /* Who waits for its own next clock waits for nobody else. */
    while (status == PS_ERR_NOT_READY && look.needed > 0 &&
           ps_clock_group_overdue(group, now_ms, &becomes) &&
           put_clock(service, group, &becomes, NULL, &wait->wakes_writer, NULL) == PS_OK) {
        group->evictions++;
        wait->evicted = true;
        ps_counter_add(service->metrics.clock_evictions, 1);
        PS_LOG(service->log, PS_LOG_WARN, "clocks", "a worker is not waited for any more",
               PS_FIELD_UINT("worker", becomes.worker), PS_FIELD_UINT("clock", becomes.clock),
               PS_FIELD_UINT("silent_ms", ps_clock_group_silent_ms(group, becomes.worker, now_ms)));
        status = ps_clock_group_read(group, &read, now_ms, &look, error);
    }
    /* Asked again when the minimum moves, or when the holder may be overdue. */
    if (status == PS_ERR_NOT_READY) {
        wait->topic = ps_pull_await_name(service, request->clocks);
        wait->again_ms = look.again_ms;
    }
    if (status == PS_OK || status == PS_ERR_NOT_READY)
        note_read(service, &group->workers[read.rank], &look, status, now_ms);
    /* Who was let go by an eviction has others beside it that wait for the same. */
    if (wait->evicted)
        ps_service_count_clocks(service);
    ps_mutex_unlock(&service->clocks.lock);
    return status;
}

/* Rows of a table are asked for by their keys, by none where the worker has none at this server;
 * whatever else is pulled has no keys, and is judged as a whole. With the cut held. */
static struct ps_clock_read read_of(struct ps_service *service,
                                    const struct ps_pull_request *request)
{
    const struct ps_parameter *parameter = ps_parameter_table_find(&service->table, request->name);
    PS_ASSERT(request->worker > 0);
    return (struct ps_clock_read){.rank = request->worker - 1,
                                  .clock = request->clock,
                                  .is_sparse = parameter != NULL &&
                                               parameter->spec->settings.table.width > 0,
                                  .table = ps_hash_fnv1a64(request->name),
                                  .keys = request->keys};
}

/* Others may have waited for whom this pull has evicted, or for what it has announced. */
void ps_clock_pull_tell(struct ps_service *service, const struct ps_pull_request *request,
                        const struct ps_pull_wait *wait)
{
    PS_ASSERT(!wait->evicted || request->worker > 0);
    if (wait->wakes_writer)
        ps_service_tell_journal_wanted(service);
    if (wait->evicted || wait->announced)
        ps_pull_wait_tell(service, request->clocks);
}

/* A worker waits in one pull at a time, or in several of one batch: from its first look to the one
 * that lets it go. */
static void note_read(struct ps_service *service, struct ps_clock_worker *worker,
                      const struct ps_clock_look *look, enum ps_status status, uint64_t now_ms)
{
    const struct ps_core_metrics *metrics = &service->metrics;
    PS_ASSERT(status == PS_OK || status == PS_ERR_NOT_READY);
    if (status != PS_OK) {
        if (worker->waits_since_ms == 0)
            worker->waits_since_ms = now_ms;
        return;
    }
    /* The time of a call that was given up counts from there on, until its worker reads again. */
    if (worker->waits_since_ms != 0)
        ps_histogram_observe(metrics->clock_wait_seconds,
                             (double)(now_ms - worker->waits_since_ms) / 1000);
    worker->waits_since_ms = 0;
    /* A histogram of seconds has no buckets for small whole numbers. */
    struct ps_counter *const by_staleness[] = {metrics->clock_reads_0, metrics->clock_reads_1,
                                               metrics->clock_reads_2, metrics->clock_reads_3};
    if (look->staleness < PS_ARRAY_COUNT(by_staleness))
        ps_counter_add(by_staleness[look->staleness], 1);
    else
        ps_counter_add(look->staleness < 8 ? metrics->clock_reads_4 : metrics->clock_reads_8, 1);
}
