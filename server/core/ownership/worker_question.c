/* SPDX-License-Identifier: Apache-2.0 */
/* Joining is a loop: read the group, choose, write if nothing has changed. Losing a race is not an
 * error, and neither is an answer that was lost: the next reading finds the client's own row. */
#include "server/core/ownership/worker_question.h"

#include "base/assert.h"
#include "server/core/ownership/worker_choice.h"

#include <inttypes.h>
#include <string.h>

/* Turns of the loop: each is lost to somebody who has joined. */
enum { TRIES_MAX = 64 };

/* Leases are counted in whole seconds, and ended a little late. */
enum { LEASE_MARGIN_MS = 2000 };

/* What every step of one question needs. */
struct asking {
    struct ps_registry *registry;
    const struct ps_allocator *memory;
    struct ps_worker_reading *reading;
    struct ps_worker_question *question;
    uint64_t deadline_ms;
};

static enum ps_status keep(const struct asking *asking, struct ps_error *error);
static enum ps_status join(const struct asking *asking, struct ps_error *error);
static enum ps_status leave(const struct asking *asking, struct ps_error *error);
static enum ps_status read_group(const struct asking *asking, struct ps_error *error);
static enum ps_status try_to_join(const struct asking *asking, struct ps_kv_lease *lease,
                                  bool *done, struct ps_error *error);
static enum ps_status go_on(const struct asking *asking, const struct ps_worker_row *row,
                            struct ps_kv_lease *lease, bool *done, struct ps_error *error);
static enum ps_status take(const struct asking *asking, const struct ps_worker_choice *choice,
                           struct ps_kv_lease *lease, bool *done, struct ps_error *error);

/* Which of three it is: a place to keep, which most questions are, one to take, or one to give up.
 * Each may be repeated, whatever became of the first. */
enum ps_status ps_worker_question_ask(struct ps_registry *registry,
                                      const struct ps_allocator *memory,
                                      struct ps_worker_reading *reading,
                                      struct ps_worker_question *question, uint64_t deadline_ms,
                                      struct ps_error *error)
{
    const struct asking asking = {registry, memory, reading, question, deadline_ms};
    PS_ASSERT(question->worker.client != 0 && question->task != PS_WORKER_LIST);
    if (question->task == PS_WORKER_LEAVE)
        return leave(&asking, error);
    PS_ASSERT(question->worker.ttl_ms >= PS_WORKER_TTL_MS_MIN);
    return question->incarnation != 0 ? keep(&asking, error) : join(&asking, error);
}

/* What thousands of workers ask again and again: one key is read, and one lease kept. */
static enum ps_status keep(const struct asking *asking, struct ps_error *error)
{
    struct ps_worker_question *question = asking->question;
    PS_ASSERT(question->incarnation != 0);
    if (question->rank == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "an incarnation without the rank that has it");
    PS_TRY(ps_registry_keep_worker(asking->registry, question->group, question->rank - 1,
                                   question->worker.client, question->incarnation,
                                   asking->deadline_ms, error));
    /* The size is not read: the client has it from the answer that gave the place. */
    question->has_joined = true;
    question->place = question->rank - 1;
    question->count = 0;
    return PS_OK;
}

/* Also in the middle of many questions, when the group has turned out to be another than was
 * read: the next one reads it again. */
void ps_worker_reading_end(struct ps_worker_reading *reading)
{
    PS_ASSERT(reading != NULL);
    ps_worker_rows_release(&reading->rows);
}

/* Only where none is there of this group: a thousand who join at once are let in by one reading,
 * which grows with each of them. */
static enum ps_status read_group(const struct asking *asking, struct ps_error *error)
{
    struct ps_worker_rows *rows = &asking->reading->rows;
    const char *group = asking->question->group;
    PS_ASSERT(rows->group_count <= 1 && group[0] != '\0');
    if (rows->group_count > 0 && strcmp(rows->groups[0].name, group) == 0)
        return PS_OK;
    ps_worker_reading_end(asking->reading);
    return ps_registry_read_workers(asking->registry, group, asking->memory, asking->deadline_ms,
                                    rows, error);
}

/* The lease is granted once for all turns; one that no row lies under in the end is given back. */
static enum ps_status join(const struct asking *asking, struct ps_error *error)
{
    const struct ps_worker_question *question = asking->question;
    struct ps_kv_lease lease = {0};
    enum ps_status status = PS_OK;
    /* By this call or by an earlier one. */
    bool done = false;
    PS_ASSERT(ps_worker_check(&question->worker, NULL) == PS_OK);
    PS_ASSERT(question->incarnation == 0 && question->size <= PS_WORKERS_MAX);
    for (int i = 0; status == PS_OK && !done && i < TRIES_MAX; i++) {
        status = read_group(asking, error);
        if (status == PS_OK)
            status = try_to_join(asking, &lease, &done, error);
        /* What was chosen was chosen of a group that has changed. */
        if (!done || status != PS_OK)
            ps_worker_reading_end(asking->reading);
    }
    /* Whoever asks comes again: workers that start together are let in one by one. */
    if (status == PS_OK && !done)
        status = ps_fail(error, PS_ERR_UNAVAILABLE, "too many workers join at once");
    /* After PS_ERR_TIMEOUT the row may be there: a repeat finds it, or nobody keeps it. */
    if (lease.id != 0 && status != PS_ERR_TIMEOUT) {
        /* Without it the lease would end by itself, later. */
        enum ps_status ignored =
            ps_kv_lease_revoke(asking->registry->kv, lease, asking->deadline_ms, NULL);
        (void)ignored;
    }
    return status;
}

/* By name and host, for a person who looks for the process. The client's number stays here: whoever
 * knew it could take the place. */
static enum ps_status fail_held(struct ps_worker_question *question,
                                const struct ps_worker_row *row, struct ps_error *error)
{
    /* In its own words, which were checked when it came. */
    const struct ps_worker *worker = &row->worker;
    PS_ASSERT(row->incarnation != 0);
    question->holder = row->incarnation;
    question->holder_ttl_ms = worker->ttl_ms;
    return ps_fail(error, PS_ERR_EXISTS,
                   "rank %" PRIu32 " of group %.64s is held by %s on %s, which has not been silent "
                   "for %" PRIu64 " ms yet",
                   row->rank, question->group,
                   worker->name[0] != '\0' ? worker->name : "a worker without a name",
                   worker->host[0] != '\0' ? worker->host : "a host that it did not say",
                   worker->ttl_ms);
}

/* One turn. Done and PS_OK: the question has its answer. */
static enum ps_status try_to_join(const struct asking *asking, struct ps_kv_lease *lease,
                                  bool *done, struct ps_error *error)
{
    struct ps_worker_question *question = asking->question;
    const struct ps_worker_rows *rows = &asking->reading->rows;
    /* Only what decides: role and host are for people. */
    const struct ps_worker_wish wish = {question->worker.name, question->worker.client,
                                        question->size, question->rank};
    PS_ASSERT(rows->group_count == 1);
    struct ps_worker_choice choice = ps_worker_choose(rows, &wish);
    *done = true;
    question->group_size = choice.size;
    question->count = (uint32_t)rows->row_count;
    switch (choice.verdict) {
    case PS_WORKER_OURS:
        return go_on(asking, choice.row, lease, done, error);
    case PS_WORKER_FREE:
        return take(asking, &choice, lease, done, error);
    /* Not an error: the caller may wait for somebody to leave. */
    case PS_WORKER_FULL:
        question->has_joined = false;
        return PS_OK;
    case PS_WORKER_HELD:
        /* The call decides how long that is waited for. */
        return fail_held(question, choice.row, error);
    case PS_WORKER_MISMATCH:
        break;
    }
    return ps_fail(error, PS_ERR_MISMATCH,
                   "the others of group %.64s have said a size of %" PRIu32 ", this one %" PRIu32,
                   question->group, choice.size, question->size);
}

/* Taken by an earlier turn, or by an earlier call whose answer was lost. A row whose lease has
 * ended since it was read is none: the group is read again. */
static enum ps_status go_on(const struct asking *asking, const struct ps_worker_row *row,
                            struct ps_kv_lease *lease, bool *done, struct ps_error *error)
{
    struct ps_worker_question *question = asking->question;
    PS_ASSERT(row->worker.client == question->worker.client);
    /* A lease that the row lies under is not given back in the end. */
    if (row->lease.id == lease->id)
        *lease = (struct ps_kv_lease){0};
    enum ps_status status =
        ps_kv_lease_keep(asking->registry->kv, row->lease, asking->deadline_ms, error);
    *done = status != PS_ERR_LEASE_LOST;
    if (status != PS_OK)
        return *done ? status : PS_OK;
    question->has_joined = true;
    question->place = row->rank;
    question->incarnation = row->incarnation;
    return PS_OK;
}

/* For a group that is new: those in which nobody is make room for it, so that names of groups that
 * come and go fill no store. */
static enum ps_status make_room(struct ps_registry *registry, const struct ps_allocator *memory,
                                uint64_t deadline_ms, struct ps_error *error)
{
    struct ps_worker_rows all;
    PS_ASSERT(memory != NULL);
    PS_TRY(ps_registry_read_workers(registry, NULL, memory, deadline_ms, &all, error));
    size_t count = all.group_count;
    PS_ASSERT(all.name_count == 0);
    enum ps_status status = PS_OK;
    /* Rows are sorted by group: those of this one begin at `next`. */
    /* Only as many go as have to, in the order of their names; the others keep their memory. */
    size_t next = 0;
    for (uint32_t i = 0; status == PS_OK && i < all.group_count; i++) {
        size_t first = next;
        while (next < all.row_count && all.rows[next].group == i)
            next++;
        if (next > first || count < PS_WORKER_GROUPS_MAX)
            continue;
        /* One that somebody joins at this moment stays, and the job then has a group more than
         * it should. */
        status = ps_registry_forget_group(registry, &all.groups[i], deadline_ms, error);
        count--;
    }
    ps_worker_rows_release(&all);
    if (status == PS_OK && count >= PS_WORKER_GROUPS_MAX)
        status = ps_fail(error, PS_ERR_BUSY, "the job has workers in %d groups, and no more may be",
                         PS_WORKER_GROUPS_MAX);
    return status;
}

/* The row, the name and the size in one transaction. Not `*done`: somebody else has joined since
 * the group was read, or nobody knows, and it is read again. The lease is the row's from then
 * on. */
static enum ps_status take(const struct asking *asking, const struct ps_worker_choice *choice,
                           struct ps_kv_lease *lease, bool *done, struct ps_error *error)
{
    struct ps_worker_question *question = asking->question;
    struct ps_worker_rows *rows = &asking->reading->rows;
    struct ps_worker_row row = {.rank = choice->rank, .worker = question->worker};
    struct ps_worker_group group = rows->groups[0];
    PS_ASSERT(choice->verdict == PS_WORKER_FREE);
    group.size = choice->size;
    /* Rare: once in the life of a group. */
    if (group.revision == 0)
        PS_TRY(make_room(asking->registry, asking->memory, asking->deadline_ms, error));
    if (lease->id == 0)
        PS_TRY(ps_kv_lease_grant(asking->registry->kv, question->worker.ttl_ms, asking->deadline_ms,
                                 lease, error));
    row.lease = *lease;
    *done = false;
    enum ps_status status =
        ps_registry_put_worker(asking->registry, &group, row.rank, &row.worker, row.lease,
                               asking->deadline_ms, done, &row.incarnation, error);
    /* After a timeout it was perhaps done: the next turn looks. */
    if (!*done || status != PS_OK) {
        *done = false;
        return status == PS_ERR_TIMEOUT ? PS_OK : status;
    }
    PS_ASSERT(row.incarnation != 0);
    *lease = (struct ps_kv_lease){0};
    question->has_joined = true;
    question->place = row.rank;
    question->incarnation = row.incarnation;
    question->count = (uint32_t)rows->row_count + 1;
    /* Without memory the next question reads the group itself. */
    if (ps_worker_rows_add(rows, &row, group.size, NULL) != PS_OK)
        ps_worker_reading_end(asking->reading);
    return PS_OK;
}

/* By the client's number: whoever leaves need not know which rank it had. */
static enum ps_status leave(const struct asking *asking, struct ps_error *error)
{
    const struct ps_worker_question *question = asking->question;
    struct ps_worker_rows *rows = &asking->reading->rows;
    PS_ASSERT(question->task == PS_WORKER_LEAVE);
    PS_TRY(read_group(asking, error));
    for (size_t i = 0; i < rows->row_count; i++) {
        if (rows->rows[i].worker.client != question->worker.client)
            continue;
        /* One row at most, since a client that has one is given no other. Out of the reading in any
         * case: after a failure nobody knows, and a row that is there after all is read again. */
        const struct ps_worker_row row = rows->rows[i];
        ps_worker_rows_remove(rows, i);
        enum ps_status status = ps_registry_drop_worker(asking->registry, question->group, &row,
                                                        asking->deadline_ms, error);
        if (status != PS_OK)
            ps_worker_reading_end(asking->reading);
        return status;
    }
    return PS_OK;
}

/* Another holder than before has a time of its own: it has joined while this worker waited. */
uint64_t ps_worker_patience_ms(struct ps_worker_patience *patience,
                               const struct ps_worker_question *question, uint64_t now_ms)
{
    PS_ASSERT(question->holder != 0 && question->holder_ttl_ms <= PS_WORKER_TTL_MS_MAX);
    if (patience->holder != question->holder)
        patience->ends_ms = now_ms + question->holder_ttl_ms + LEASE_MARGIN_MS;
    patience->holder = question->holder;
    return patience->ends_ms > now_ms ? patience->ends_ms - now_ms : 0;
}
