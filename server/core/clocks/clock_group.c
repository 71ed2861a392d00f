/* SPDX-License-Identifier: Apache-2.0 */
/* Progress has the workers that are waited for; who is evicted leaves it, and its clock stays here.
 * So the minimum and the models know nothing of evictions.
 *
 * Three questions are kept apart. May this read go? That is asked of the models, without a change.
 * Who is to be evicted? That is asked only while somebody waits, of the one worker that holds the
 * minimum: silence alone harms nobody. What is so from now on? That is a record, which is applied
 * here when a request has made it and when a journal is replayed, with the same result. */
#include "server/core/clocks/clock_group.h"

#include "base/assert.h"

#include <inttypes.h>
#include <string.h>

/* When an eviction is tried again that found no room in the journal. */
enum { AGAIN_MS = 100 };

static void configure_sparse(struct ps_clock_group *group);
static void join(struct ps_clock_group *group, uint32_t rank, uint64_t clock);
static void leave(struct ps_clock_group *group, uint32_t rank);
static enum ps_status read_rows(struct ps_clock_group *group, const struct ps_clock_read *read,
                                struct ps_clock_look *look, struct ps_error *error);
static enum ps_status read_evicted(const struct ps_clock_group *group,
                                   const struct ps_clock_read *read, struct ps_error *error);
static enum ps_status say_who_is_missing(const struct ps_clock_group *group, uint32_t rank,
                                         uint64_t clock, uint64_t now_ms,
                                         struct ps_clock_look *look, struct ps_error *error);
static uint64_t look_again(const struct ps_clock_group *group, uint64_t now_ms);
static void begin_task(struct ps_clock_group *group, const struct ps_clocks_record *settings,
                       uint64_t now_ms);

/* What comes from outside is judged here, and by name; what comes from the journal was judged so
 * once, and its reader holds it to the same bounds. */
enum ps_status ps_clock_settings_check(const struct ps_clocks_record *settings,
                                       struct ps_error *error)
{
    if (settings->workers == 0 || settings->workers > PS_CLOCK_WORKERS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "clocks have 1 to %d workers, and not %" PRIu32,
                       PS_CLOCK_WORKERS_MAX, settings->workers);
    if (settings->consistency >= PS_CONSISTENCY_COUNT)
        /* A number of a later version is refused: its reads would wait by another rule. */
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "consistency %" PRIu32 ": this server knows ASP, SSP, BSP and SPARSE_SSP",
                       settings->consistency);
    if (settings->straggler >= PS_STRAGGLER_COUNT)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "straggler %" PRIu32 ": this server knows WAIT and EVICT",
                       settings->straggler);
    /* Who is evicted at once is never waited for, which is what ASP is for. */
    if (settings->straggler == PS_STRAGGLER_EVICT && settings->ttl_ms == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "EVICT needs ttl_ms: after which silence others do not wait");
    if (settings->speculation > PS_CLOCK_SPECULATION_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "speculation %" PRIu32 ": at most %d",
                       settings->speculation, PS_CLOCK_SPECULATION_MAX);
    /* Under the other models nobody announces anything: the number would be without effect. */
    if (settings->speculation > 0 && settings->consistency != PS_CONSISTENCY_SPARSE_SSP)
        return ps_fail(error, PS_ERR_BAD_INPUT, "speculation is of SPARSE_SSP");
    if (!ps_clocks_record_ranks_are_possible(settings))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "ranks of workers that take part are below %" PRIu32 ", and at least one",
                       settings->workers);
    return PS_OK;
}

/* Field by field: padding is nobody's to compare. */
bool ps_clock_settings_equal(const struct ps_clocks_record *one,
                             const struct ps_clocks_record *other)
{
    return one->workers == other->workers && one->consistency == other->consistency &&
           one->staleness == other->staleness && one->straggler == other->straggler &&
           one->ttl_ms == other->ttl_ms && one->speculation == other->speculation &&
           one->task == other->task && one->has_ranks == other->has_ranks &&
           memcmp(one->ranks, other->ranks, sizeof one->ranks) == 0;
}

/* Every worker of a task may ask for it: the first begins it, the others find it there. One that is
 * late, and asks for a task that is over, would throw all others back. */
enum ps_status ps_clock_group_settle(const struct ps_clock_group *group,
                                     const struct ps_clocks_record *asked,
                                     struct ps_clocks_record *settings, struct ps_error *error)
{
    const struct ps_clocks_record *present = &group->settings;
    /* A group that is prepared has no workers before it is configured. */
    bool is_fresh = present->workers == 0;
    *settings = *asked;
    if (asked->task != 0 && asked->task < present->task)
        return ps_fail(error, PS_ERR_MISMATCH,
                       "clocks %.*s are in task %" PRIu64 ", and task %" PRIu64 " is over",
                       (int)group->name_size, group->name, present->task, asked->task);
    PS_ASSERT(asked->workers > 0);
    /* A first task has its number and its clock from the same request. Clocks without either begin
     * at 0, and have the short record of those that were set before there were tasks. */
    settings->begins = is_fresh ? asked->task > 0 || asked->clock > 0 : asked->task > present->task;
    if (settings->begins || is_fresh)
        return PS_OK;
    /* Where the task has begun stays what it was: a checkpoint says who stands elsewhere. */
    settings->task = present->task;
    settings->clock = present->clock;
    return PS_OK;
}

/* Its arrays come with its settings, since only those say how many workers there are. */
enum ps_status ps_clock_group_create(const struct ps_allocator *memory, struct ps_bytes name,
                                     struct ps_clock_group **group, struct ps_error *error)
{
    PS_ASSERT(name.size > 0 && name.size <= PS_CLOCKS_NAME_BYTES_MAX);
    struct ps_clock_group *fresh = ps_zeroed(memory, sizeof *fresh);
    if (fresh == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for clocks");
    /* The name is copied: it outlives the message that brought it. */
    fresh->memory = memory;
    ps_progress_init(&fresh->progress, memory);
    ps_sparse_ssp_init(&fresh->sparse, memory);
    memcpy(fresh->name, name.data, name.size);
    fresh->name_size = name.size;
    *group = fresh;
    return PS_OK;
}

/* NULL is allowed, as for every end of a life. */
void ps_clock_group_destroy(struct ps_clock_group *group)
{
    if (group == NULL)
        return;
    PS_ASSERT(group->memory != NULL);
    ps_progress_fini(&group->progress);
    ps_sparse_ssp_fini(&group->sparse);
    ps_release(group->memory, group->workers);
    ps_release(group->memory, group);
}

/* Of the group itself, so that it lives as long: a request's own bytes go with its message. */
struct ps_bytes ps_clock_group_name(const struct ps_clock_group *group)
{
    PS_ASSERT(group->name_size > 0);
    return (struct ps_bytes){(const uint8_t *)group->name, group->name_size};
}

/* The rows of workers grow to just as many: settings change rarely, and mostly once. Those of the
 * progress are grown first, so that whatever is refused leaves both usable. */
enum ps_status ps_clock_group_reserve(struct ps_clock_group *group, uint32_t workers,
                                      struct ps_error *error)
{
    PS_TRY(ps_progress_reserve(&group->progress, workers, error));
    if (workers <= group->capacity)
        return PS_OK;
    struct ps_clock_worker *rows = ps_zeroed_array(group->memory, workers, sizeof *rows);
    if (rows == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %" PRIu32 " workers", workers);
    /* What the rows beyond `settings.workers` say is of workers that have gone: it is written anew
     * when they come. */
    if (group->capacity > 0)
        memcpy(rows, group->workers, group->capacity * sizeof *rows);
    ps_release(group->memory, group->workers);
    group->workers = rows;
    group->capacity = workers;
    return PS_OK;
}

/* The minimum is read before anybody comes or goes: newcomers among themselves would else each
 * begin at another, and who goes may have held it. */
void ps_clock_group_configure(struct ps_clock_group *group, const struct ps_clocks_record *settings,
                              uint64_t now_ms)
{
    /* An evicted worker stays evicted through a change of settings, also of the policy: its next
     * clock brings it back. */
    uint64_t minimum = ps_clock_group_minimum(group);
    struct ps_clocks_record before = group->settings;
    PS_ASSERT(settings->workers <= group->capacity);
    if (settings->begins) {
        begin_task(group, settings, now_ms);
        return;
    }
    /* Who goes leaves first, so that nobody who comes is counted beside the same rank. */
    for (uint32_t rank = 0; rank < before.workers; rank++)
        if (ps_clocks_record_has(&before, rank) && !ps_clocks_record_has(settings, rank))
            leave(group, rank);
    group->settings = *settings;
    configure_sparse(group);
    for (uint32_t rank = 0; rank < settings->workers; rank++)
        if (ps_clocks_record_has(settings, rank) && !ps_clocks_record_has(&before, rank)) {
            group->workers[rank] = (struct ps_clock_worker){.heard_ms = now_ms};
            join(group, rank, minimum);
        }
}

/* All anew: who was evicted is waited for again, and nobody has announced anything. */
static void begin_task(struct ps_clock_group *group, const struct ps_clocks_record *settings,
                       uint64_t now_ms)
{
    /* The rows of ranks that take no part are cleared as well: they may take part later. */
    for (uint32_t rank = 0; rank < group->settings.workers; rank++)
        leave(group, rank);
    PS_ASSERT(group->progress.count == 0);
    group->settings = *settings;
    configure_sparse(group);
    for (uint32_t rank = 0; rank < settings->workers; rank++) {
        group->workers[rank] = (struct ps_clock_worker){.heard_ms = now_ms};
        if (ps_clocks_record_has(settings, rank))
            join(group, rank, settings->clock);
    }
}

/* Under another model nobody announces anything, and nothing is kept for it. */
static void configure_sparse(struct ps_clock_group *group)
{
    /* Asked with every change of settings: what is the same stays. */
    const struct ps_clocks_record *settings = &group->settings;
    bool is_sparse = settings->consistency == PS_CONSISTENCY_SPARSE_SSP;
    PS_ASSERT(settings->speculation == 0 || is_sparse);
    ps_sparse_ssp_configure(&group->sparse, is_sparse ? settings->workers : 0, settings->staleness,
                            settings->speculation);
}

/* There is room, and the rank is not there: what could be refused was asked by the caller. */
static void join(struct ps_clock_group *group, uint32_t rank, uint64_t clock)
{
    PS_ASSERT(!ps_progress_has(&group->progress, rank));
    enum ps_status status = ps_progress_join(&group->progress, rank, clock, NULL);
    PS_ASSERT(status == PS_OK);
}

/* An evicted worker has left the progress before; its row stays, as that of nobody, until its rank
 * comes again. */
static void leave(struct ps_clock_group *group, uint32_t rank)
{
    group->workers[rank].is_evicted = false;
    group->workers[rank].left_clock = 0;
    ps_sparse_ssp_leave(&group->sparse, rank);
    if (!ps_progress_has(&group->progress, rank))
        return;
    enum ps_status status = ps_progress_leave(&group->progress, rank, NULL);
    PS_ASSERT(status == PS_OK);
}

/* The record is what was decided, so that nothing is decided anew: a worker leaves with whatever
 * clock it has and comes with that of the record. Only the journal of a checkpoint that was put
 * together of parts says a clock which is lower than the present one. */
void ps_clock_group_apply(struct ps_clock_group *group, const struct ps_clock_record *record,
                          uint64_t now_ms)
{
    uint32_t rank = record->worker;
    PS_ASSERT(ps_clock_group_has(group, rank));
    struct ps_clock_worker *worker = &group->workers[rank];
    bool only_rises = !record->evicted && !worker->is_evicted &&
                      record->clock >= ps_progress_clock(&group->progress, rank);
    worker->heard_ms = now_ms;
    /* The way of nearly all of them: a heap whose one entry sinks. */
    if (only_rises) {
        enum ps_status status = ps_progress_advance(&group->progress, rank, record->clock, NULL);
        PS_ASSERT(status == PS_OK);
        /* Its updates of those iterations are in: nobody has to wait for their keys. */
        ps_sparse_ssp_clock(&group->sparse, rank, record->clock);
        return;
    }
    /* Out, and in again where it belongs: a heap whose entry rises is nobody's business here. */
    leave(group, rank);
    worker->is_evicted = record->evicted;
    worker->left_clock = record->evicted ? record->clock : 0;
    if (!record->evicted)
        join(group, rank, record->clock);
}

/* Set-max, so that a repeat and a message that was overtaken change nothing. An evicted worker
 * comes back in any case: it lives. */
bool ps_clock_group_say(struct ps_clock_group *group, uint32_t rank, uint64_t clock,
                        uint64_t now_ms, struct ps_clock_record *becomes)
{
    uint64_t own = ps_clock_group_clock(group, rank);
    PS_ASSERT(becomes != NULL && rank < PS_CLOCK_WORKERS_MAX);
    bool comes_back = group->workers[rank].is_evicted;
    group->workers[rank].heard_ms = now_ms;
    if (clock < own)
        clock = own;
    /* Nobody waits for what it has missed. */
    uint64_t minimum = ps_clock_group_minimum(group);
    if (comes_back && clock < minimum)
        clock = minimum;
    PS_ASSERT(clock >= own);
    *becomes = (struct ps_clock_record){.worker = rank, .clock = clock};
    return comes_back || clock > own;
}

/* The question of the models, for those who are waited for. An evicted worker was among the slowest
 * when it left, and the minimum has only risen: no model would let it wait at its own clock. One
 * that reads beyond it has ended more than this shard knows. */
enum ps_status ps_clock_group_read(struct ps_clock_group *group, const struct ps_clock_read *read,
                                   uint64_t now_ms, struct ps_clock_look *look,
                                   struct ps_error *error)
{
    /* The models know what to wait for; who is evicted, and how long others are patient, is said
     * here. */
    const struct ps_consistency consistency = {
        .model = (enum ps_consistency_model)group->settings.consistency,
        .staleness = group->settings.staleness};
    uint32_t rank = read->rank;
    struct ps_error why = {0};
    *look = (struct ps_clock_look){0};
    if (!ps_clock_group_has(group, rank))
        return ps_clock_group_fail_absent(group, rank, error);
    /* Who is evicted announces nothing: others do not wait for its updates. */
    bool is_sparse = read->is_sparse && consistency.model == PS_CONSISTENCY_SPARSE_SSP &&
                     !group->workers[rank].is_evicted;
    enum ps_status status = PS_OK;
    if (is_sparse)
        status = read_rows(group, read, look, &why);
    /* Also by a read that is to wait: a worker that waits for others is not silent. What was
     * announced ahead waits by itself, and says nothing of its worker. */
    if (!is_sparse || look->announces || read->clock <= ps_clock_group_clock(group, rank))
        group->workers[rank].heard_ms = now_ms;
    if (group->workers[rank].is_evicted)
        return read_evicted(group, read, error);
    /* Of the moment at which it asks; a read that waits is asked again, and counts by its last. */
    look->staleness = ps_consistency_staleness(&group->progress, read->clock);
    if (!is_sparse)
        status = ps_consistency_read(&consistency, &group->progress, rank, read->clock,
                                     &look->needed, &why);
    if (status == PS_ERR_NOT_READY && !is_sparse)
        return say_who_is_missing(group, rank, read->clock, now_ms, look, error);
    /* A read ahead waits for its own worker, whose next clock asks it again. */
    if (status == PS_ERR_NOT_READY && look->needed > 0)
        look->again_ms = look_again(group, now_ms);
    if (status != PS_OK)
        return ps_fail(error, status, "clocks %.*s: %.200s", (int)group->name_size, group->name,
                       why.text);
    return PS_OK;
}

/* Announced first, so that a read which waits is known to others. One at an earlier clock than its
 * worker's was announced then, or never: the staleness alone decides. */
static enum ps_status read_rows(struct ps_clock_group *group, const struct ps_clock_read *read,
                                struct ps_clock_look *look, struct ps_error *error)
{
    uint64_t own = ps_clock_group_clock(group, read->rank);
    /* Borrowed for the call: what is announced is copied. */
    const struct ps_sparse_read sparse = {.rank = read->rank,
                                          .clock = read->clock,
                                          .table = read->table,
                                          .keys = read->keys,
                                          .room = read->room};
    if (read->clock >= own)
        PS_TRY(ps_sparse_ssp_announce(&group->sparse, own, &sparse, &look->announces, error));
    /* The minimum at which it goes whatever others have announced. */
    if (read->clock <= own && read->clock > group->settings.staleness)
        look->needed = read->clock - group->settings.staleness;
    PS_ASSERT(look->needed <= own);
    return ps_sparse_ssp_read(&group->sparse, &group->progress, read->rank, read->clock, error);
}

/* In the words of the models. */
static enum ps_status read_evicted(const struct ps_clock_group *group,
                                   const struct ps_clock_read *read, struct ps_error *error)
{
    uint32_t rank = read->rank;
    uint64_t clock = read->clock;
    uint64_t own = group->workers[rank].left_clock;
    PS_ASSERT(group->workers[rank].is_evicted);
    if (group->settings.consistency == PS_CONSISTENCY_ASP || clock <= own)
        return PS_OK;
    /* It announces nothing before its next clock has brought it back; the read waits for that. */
    if (group->settings.consistency == PS_CONSISTENCY_SPARSE_SSP && read->is_sparse &&
        clock - own <= group->settings.speculation + (uint64_t)1)
        return ps_fail(error, PS_ERR_NOT_READY,
                       "clocks %.*s: worker %" PRIu32 " is evicted, and reads at clock %" PRIu64,
                       (int)group->name_size, group->name, rank, clock);
    return ps_fail(error, PS_ERR_MISMATCH,
                   "clocks %.*s: worker %" PRIu32 " reads at clock %" PRIu64
                   ", and has ended %" PRIu64 " iterations",
                   (int)group->name_size, group->name, rank, clock, own);
}

/* One of those that hold the minimum is named, with the time that it has been silent: that is whom
 * people look at first. */
static enum ps_status say_who_is_missing(const struct ps_clock_group *group, uint32_t rank,
                                         uint64_t clock, uint64_t now_ms,
                                         struct ps_clock_look *look, struct ps_error *error)
{
    uint32_t holder = ps_progress_holder(&group->progress);
    uint64_t silent_ms = ps_clock_group_silent_ms(group, holder, now_ms);
    PS_ASSERT(holder != rank);
    look->again_ms = look_again(group, now_ms);
    return ps_fail(error, PS_ERR_NOT_READY,
                   "clocks %.*s: worker %" PRIu32 " reads at clock %" PRIu64
                   " and waits until all have ended %" PRIu64 " iterations: worker %" PRIu32
                   " has ended %" PRIu64 ", and is silent for %" PRIu64 ".%01" PRIu64 " s",
                   (int)group->name_size, group->name, rank, clock, look->needed, holder,
                   ps_progress_minimum(&group->progress), silent_ms / 1000, silent_ms / 100 % 10);
}

/* The silence of whoever holds the minimum is what may end a wait without any call. */
static uint64_t look_again(const struct ps_clock_group *group, uint64_t now_ms)
{
    uint32_t holder = ps_progress_holder(&group->progress);
    uint64_t silent_ms = ps_clock_group_silent_ms(group, holder, now_ms);
    uint64_t ttl_ms = group->settings.ttl_ms;
    if (group->settings.straggler != PS_STRAGGLER_EVICT)
        return 0;
    return silent_ms < ttl_ms ? ttl_ms - silent_ms : AGAIN_MS;
}

/* One at a time: who follows at the minimum is asked about in the next look, which the caller takes
 * at once. Of several that stand there one that speaks is enough to wait for, so no other is
 * looked at. */
bool ps_clock_group_overdue(const struct ps_clock_group *group, uint64_t now_ms,
                            struct ps_clock_record *becomes)
{
    /* Nobody is left to be evicted: the holder is no rank then. */
    uint32_t holder = ps_progress_holder(&group->progress);
    if (group->settings.straggler != PS_STRAGGLER_EVICT || holder >= group->settings.workers ||
        ps_clock_group_silent_ms(group, holder, now_ms) < group->settings.ttl_ms)
        return false;
    *becomes = (struct ps_clock_record){
        .worker = holder, .evicted = true, .clock = ps_progress_clock(&group->progress, holder)};
    return true;
}

/* Whoever began a task with some of the ranks hears of it what the others then do wrong; else it is
 * the number that is wrong. */
enum ps_status ps_clock_group_fail_absent(const struct ps_clock_group *group, uint32_t rank,
                                          struct ps_error *error)
{
    PS_ASSERT(!ps_clock_group_has(group, rank));
    if (rank < group->settings.workers)
        return ps_fail(error, PS_ERR_NOT_FOUND,
                       "clocks %.*s: worker %" PRIu32 " takes no part in task %" PRIu64,
                       (int)group->name_size, group->name, rank, group->settings.task);
    return ps_fail(error, PS_ERR_NOT_FOUND,
                   "clocks %.*s: worker %" PRIu32 " is not among the %" PRIu32 " there are",
                   (int)group->name_size, group->name, rank, group->settings.workers);
}

/* A rank from a message, which may be of any size. */
bool ps_clock_group_has(const struct ps_clock_group *group, uint32_t rank)
{
    PS_ASSERT(group->settings.workers <= group->capacity);
    return ps_clocks_record_has(&group->settings, rank);
}

/* One of two places has it, so that no two can differ. */
uint64_t ps_clock_group_clock(const struct ps_clock_group *group, uint32_t rank)
{
    PS_ASSERT(ps_clock_group_has(group, rank));
    const struct ps_clock_worker *worker = &group->workers[rank];
    return worker->is_evicted ? worker->left_clock : ps_progress_clock(&group->progress, rank);
}

/* A clock of the machine that went back counts as no silence at all. */
uint64_t ps_clock_group_silent_ms(const struct ps_clock_group *group, uint32_t rank,
                                  uint64_t now_ms)
{
    PS_ASSERT(ps_clock_group_has(group, rank));
    /* Of this server's own clock: workers have others, and no two of them agree. */
    uint64_t heard_ms = group->workers[rank].heard_ms;
    return now_ms > heard_ms ? now_ms - heard_ms : 0;
}

/* A look at all workers is needed only where nobody is left: then the last to be evicted stood at
 * the minimum, and nobody who went before it stood higher. */
uint64_t ps_clock_group_minimum(const struct ps_clock_group *group)
{
    uint64_t highest = 0;
    if (group->progress.count > 0)
        return ps_progress_minimum(&group->progress);
    PS_ASSERT(group->settings.workers <= group->capacity);
    for (uint32_t rank = 0; rank < group->settings.workers; rank++)
        if (group->workers[rank].left_clock > highest)
            highest = group->workers[rank].left_clock;
    return highest;
}

/* Every rank that takes part is in the progress or evicted, and never both; no other is. */
void ps_clock_group_check(const struct ps_clock_group *group)
{
    /* Nothing in the progress beyond the ranks of the settings: the sum would be too low. */
    uint32_t waited_for = 0;
    PS_ASSERT(group->name_size > 0 && group->name_size <= PS_CLOCKS_NAME_BYTES_MAX);
    PS_ASSERT(group->settings.workers <= group->capacity);
    ps_progress_check(&group->progress);
    ps_sparse_ssp_check(&group->sparse);
    for (uint32_t rank = 0; rank < group->settings.workers; rank++) {
        const struct ps_clock_worker *worker = &group->workers[rank];
        bool takes_part = ps_clock_group_has(group, rank);
        PS_ASSERT((worker->is_evicted || ps_progress_has(&group->progress, rank)) == takes_part);
        PS_ASSERT(!worker->is_evicted || !ps_progress_has(&group->progress, rank));
        PS_ASSERT(worker->is_evicted || worker->left_clock == 0);
        waited_for += takes_part && !worker->is_evicted;
    }
    PS_ASSERT(waited_for == group->progress.count);
}
