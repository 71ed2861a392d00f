/* SPDX-License-Identifier: Apache-2.0 */
/* Workers of the job: let in, kept, listed. Nothing is decided here: questions go to the thread
 * with the store, and their calls wait for it as others wait for the disk. */
#include "server/rpc/worker_methods.h"

#include "base/assert.h"
#include "proto/fields.h"
#include "proto/wire.h"
#include "proto/worker_codec.h"
#include "server/rpc/cluster_methods.h"
#include "server/rpc/rpc_context.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A worker that waits for a place is looked after this often. */
enum { LOOK_MS = 500 };

/* The fields of the requests, in the order of the .proto. */
enum {
    JOIN_GROUP = 1,
    JOIN_NAME,
    JOIN_CLIENT,
    JOIN_TTL_MS,
    JOIN_WAIT_MS,
    JOIN_SIZE,
    JOIN_RANK,
    JOIN_ROLE,
    JOIN_JOB,
    JOIN_HOST,
    JOIN_INCARNATION
};
enum { LEAVE_GROUP = 1, LEAVE_CLIENT, LEAVE_JOB };
enum { LIST_GROUP = 1, LIST_REVISION, LIST_WAIT_MS, LIST_JOB };

static bool ask(struct ps_call_answer *answer, const struct ps_worker_question *question);
static uint64_t patience_ms(struct ps_call_answer *answer);
static void encode_place(struct ps_call_answer *answer);
static void encode_list(struct ps_call_answer *answer, const char *group,
                        const struct ps_worker_view *view);

/* ---- JoinWorkers, LeaveWorkers ---- */

/* False: the answer is made. A server of a test, or of a tool, may have no workers. */
static bool read_request(struct ps_call_answer *answer, struct ps_fields *fields, uint32_t job)
{
    if (!ps_cluster_read_request(answer, fields, job))
        return false;
    if (answer->context->cluster.workers == NULL)
        answer->status =
            ps_fail(&answer->error, PS_ERR_UNSUPPORTED, "this server knows no workers");
    return answer->status == PS_OK;
}

/* Without the end of a text that is too long a worker would be another one: it is refused. */
static bool take_text(struct ps_call_answer *answer, const char *text, char *to, size_t size)
{
    /* The lengths of all texts are small: an answer that lists thousands of workers fits a
     * message. */
    if (strlen(text) < size)
        (void)snprintf(to, size, "%s", text);
    else
        answer->status = ps_fail(&answer->error, PS_ERR_BAD_INPUT,
                                 "\"%.40s...\" is longer than %zu bytes", text, size - 1);
    return answer->status == PS_OK;
}

/* An empty name is the usual group, as in the client. */
static bool take_group(struct ps_call_answer *answer, const char *text,
                       struct ps_worker_question *question)
{
    if (!take_text(answer, text[0] != '\0' ? text : "workers", question->group,
                   sizeof question->group))
        return false;
    answer->status = ps_worker_group_check(question->group, &answer->error);
    return answer->status == PS_OK;
}

/* Numbers that are no number of a place; false: the answer says so. */
static bool check_numbers(struct ps_call_answer *answer, const struct ps_fields *fields)
{
    /* A time of less than a second would be lost to a pause of any machine; one of more than an
     * hour is a slip. */
    uint64_t ttl_ms = fields->number[JOIN_TTL_MS];
    uint64_t size = fields->number[JOIN_SIZE];
    /* The wire counts ranks from 1 here, so that the last one is the size. */
    uint64_t end = size != 0 ? size : PS_WORKERS_MAX;
    if (ttl_ms < PS_WORKER_TTL_MS_MIN || ttl_ms > PS_WORKER_TTL_MS_MAX)
        answer->status = ps_fail(&answer->error, PS_ERR_BAD_INPUT, "ttl_ms is %d to %d: %" PRIu64,
                                 PS_WORKER_TTL_MS_MIN, PS_WORKER_TTL_MS_MAX, ttl_ms);
    else if (size > PS_WORKERS_MAX)
        answer->status =
            ps_fail(&answer->error, PS_ERR_BAD_INPUT, "a group has at most %d ranks, not %" PRIu64,
                    PS_WORKERS_MAX, size);
    else if (fields->number[JOIN_RANK] > end)
        answer->status = ps_fail(&answer->error, PS_ERR_BAD_INPUT, "rank %" PRIu64 " of %" PRIu64,
                                 fields->number[JOIN_RANK] - 1, end);
    return answer->status == PS_OK;
}

/* Everything is judged before the question leaves: what the store is asked to write is well
 * formed. */
static bool read_join(struct ps_call_answer *answer)
{
    struct ps_fields fields;
    if (!read_request(answer, &fields, JOIN_JOB) || !check_numbers(answer, &fields))
        return false;
    struct ps_worker_question question = {
        .task = PS_WORKER_JOIN,
        .size = (uint32_t)fields.number[JOIN_SIZE],
        .rank = (uint32_t)fields.number[JOIN_RANK],
        .incarnation = (int64_t)fields.number[JOIN_INCARNATION],
        .worker = {.client = fields.number[JOIN_CLIENT], .ttl_ms = fields.number[JOIN_TTL_MS]}};
    struct ps_worker *worker = &question.worker;
    if (!take_group(answer, fields.text[JOIN_GROUP], &question) ||
        !take_text(answer, fields.text[JOIN_NAME], worker->name, sizeof worker->name) ||
        !take_text(answer, fields.text[JOIN_ROLE], worker->role, sizeof worker->role) ||
        !take_text(answer, fields.text[JOIN_HOST], worker->host, sizeof worker->host))
        return false;
    /* Words that could be taken for others in the store, or upset a terminal, are refused. */
    answer->status = ps_worker_check(worker, &answer->error);
    if (answer->status != PS_OK)
        return false;
    ps_cluster_set_patience(answer, fields.number[JOIN_WAIT_MS]);
    return ask(answer, &question);
}

/* False: the answer is made. The inquiry before, if there is one, is over. */
static bool ask(struct ps_call_answer *answer, const struct ps_worker_question *question)
{
    struct ps_worker_wait *wait = &answer->worker;
    /* Its question was copied by the caller, if it is to be put again. */
    ps_workers_inquiry_release(wait->inquiry);
    wait->inquiry = NULL;
    wait->is_read = false;
    answer->status =
        ps_workers_ask(answer->context->cluster.workers, question, &wait->inquiry, &answer->error);
    return answer->status == PS_OK;
}

/* False while the answer is not there; then the call is to wait. */
static bool has_answer(struct ps_call_answer *answer)
{
    /* There is one from the first step of the call on. */
    const struct ps_worker_inquiry *inquiry = answer->worker.inquiry;
    answer->topic = PS_TOPIC_WORKERS;
    answer->again_ms = 0;
    /* The flag was set behind everything else of the answer. */
    if (!atomic_load(&inquiry->answered))
        return false;
    answer->status = inquiry->status;
    answer->error = inquiry->error;
    return true;
}

/* Between two looks the call has no question out. A call that waits has no place to lose yet. */
enum ps_serve_progress ps_serve_join_workers(struct ps_call_answer *answer)
{
    struct ps_worker_wait *wait = &answer->worker;
    const struct ps_clock *clock = answer->context->clock;
    if (!answer->asked && !read_join(answer))
        return PS_SERVE_DONE;
    if (!has_answer(answer))
        return PS_SERVE_WAITS;
    /* Everything else would be the same after any wait. */
    bool may_wait = answer->status == PS_ERR_EXISTS ||
                    (answer->status == PS_OK && !wait->inquiry->question.has_joined);
    /* Once for each answer, and not at each wake-up: others' answers wake this call, too. */
    if (!wait->is_read)
        wait->look_ms = ps_deadline_after(clock, LOOK_MS);
    uint64_t left_ms = may_wait ? patience_ms(answer) : 0;
    wait->is_read = true;
    if (left_ms == 0) {
        if (answer->status == PS_OK)
            encode_place(answer);
        return PS_SERVE_DONE;
    }
    uint64_t look_ms = ps_time_left_ms(clock, wait->look_ms);
    if (look_ms > 0) {
        answer->again_ms = left_ms < look_ms ? left_ms : look_ms;
        return PS_SERVE_WAITS;
    }
    /* The answer of a question that has found no place has left the wish as it was. */
    const struct ps_worker_question again = wait->inquiry->question;
    return ask(answer, &again) ? PS_SERVE_WAITS : PS_SERVE_DONE;
}

/* What is left of the call's own patience, and of that with whoever is in the way. */
static uint64_t patience_ms(struct ps_call_answer *answer)
{
    struct ps_worker_wait *wait = &answer->worker;
    uint64_t left_ms = ps_cluster_time_left_ms(answer);
    /* A full group is waited for as long as the client likes: somebody may leave at any time. */
    if (answer->status != PS_ERR_EXISTS)
        return left_ms;
    uint64_t holder_ms = ps_worker_patience_ms(&wait->patience, &wait->inquiry->question,
                                               ps_now_ms(answer->context->clock));
    return left_ms < holder_ms ? left_ms : holder_ms;
}

/* Of a call that has waited in vain the turn is 0, and the number of members says why. */
static void encode_place(struct ps_call_answer *answer)
{
    const struct ps_worker_question *question = &answer->worker.inquiry->question;
    ps_wire_put_uint(answer->reply, 1, question->has_joined ? 1 : 0);
    ps_wire_put_uint(answer->reply, 2, question->place);
    ps_wire_put_uint(answer->reply, 3, question->group_size);
    ps_wire_put_uint(answer->reply, 4, (uint64_t)question->incarnation);
    ps_wire_put_uint(answer->reply, 5, question->count);
}

/* May be repeated: a place that is gone is given up already. */
enum ps_serve_progress ps_serve_leave_workers(struct ps_call_answer *answer)
{
    struct ps_fields fields;
    if (!answer->asked) {
        if (!read_request(answer, &fields, LEAVE_JOB))
            return PS_SERVE_DONE;
        /* No incarnation: who gives its place up gives up whichever it has. */
        struct ps_worker_question question = {.task = PS_WORKER_LEAVE,
                                              .worker = {.client = fields.number[LEAVE_CLIENT]}};
        if (!take_group(answer, fields.text[LEAVE_GROUP], &question))
            return PS_SERVE_DONE;
        answer->status = ps_worker_check(&question.worker, &answer->error);
        if (answer->status != PS_OK || !ask(answer, &question))
            return PS_SERVE_DONE;
    }
    return has_answer(answer) ? PS_SERVE_DONE : PS_SERVE_WAITS;
}

/* ---- ListWorkers ---- */

/* The list is read for every call, or for many that come at once: whoever has just joined finds
 * itself in it. A change is waited for behind that reading. */
static bool read_list(struct ps_call_answer *answer, struct ps_fields *fields)
{
    const struct ps_worker_question question = {.task = PS_WORKER_LIST};
    if (!read_request(answer, fields, LIST_JOB))
        return false;
    /* What a call that waits needs of its request. */
    answer->cluster.known_revision = fields->number[LIST_REVISION];
    ps_cluster_set_patience(answer, fields->number[LIST_WAIT_MS]);
    return ask(answer, &question);
}

/* First the reading, then the wait for another revision than the client knows. The view is never
 * NULL behind a reading that went well: publishing keeps the former one when memory is refused, and
 * only then may there be none. */
enum ps_serve_progress ps_serve_list_workers(struct ps_call_answer *answer)
{
    struct ps_fields fields;
    struct ps_workers *workers = answer->context->cluster.workers;
    if (!answer->asked && !read_list(answer, &fields))
        return PS_SERVE_DONE;
    if (!has_answer(answer))
        return PS_SERVE_WAITS;
    if (answer->status != PS_OK)
        return PS_SERVE_DONE;
    struct ps_worker_view *view = ps_workers_view(workers);
    if (view == NULL) {
        answer->status = ps_fail(&answer->error, PS_ERR_NO_MEMORY, "no memory for the workers");
        return PS_SERVE_DONE;
    }
    /* At a server that drains there is none left: the client asks another. */
    answer->again_ms = ps_cluster_time_left_ms(answer);
    if ((uint64_t)view->revision <= answer->cluster.known_revision && answer->again_ms > 0) {
        ps_workers_view_release(workers, view);
        return PS_SERVE_WAITS;
    }
    /* The request's bytes are there as long as the call: only a number of it was kept. */
    answer->status = ps_fields_read(answer->request, &fields, &answer->error);
    if (answer->status == PS_OK)
        encode_list(answer, fields.text[LIST_GROUP], view);
    ps_workers_view_release(workers, view);
    return PS_SERVE_DONE;
}

/* Does the client want to hear of this group? */
static bool is_wanted(const char *wish, const char *group)
{
    return wish[0] == '\0' || strcmp(wish, "all") == 0 || strcmp(wish, group) == 0;
}

/* The servers as a group, by the view that GetCluster tells. One that is alone knows itself only,
 * and is no group. */
static void encode_servers(struct ps_call_answer *answer)
{
    /* Without etcd there is no view: such a server has nobody to list. */
    struct ps_cluster *cluster = answer->context->cluster.cluster;
    struct ps_cluster_view *view = ps_cluster_view(cluster);
    for (uint32_t i = 0; view != NULL && i < view->members.shard_count; i++) {
        const struct ps_member *row = &view->members.rows[i];
        const struct ps_worker_info info = {.rank = i,
                                            .group = "servers",
                                            .name = row->address,
                                            .role = "server",
                                            .incarnation = row->epoch};
        /* A shard without an owner has nobody to list. */
        if (row->epoch != 0)
            ps_encode_worker(&info, answer->reply);
    }
    if (view != NULL)
        ps_encode_worker_group("servers", view->members.shard_count, answer->reply);
    ps_cluster_view_release(cluster, view);
}

/* How long it has been silent only that server knows which it calls. */
static void encode_row(struct ps_call_answer *answer, const struct ps_worker_row *row,
                       const char *group)
{
    /* Texts are borrowed from the view until they are in the message. */
    struct ps_worker_info info = {.rank = row->rank,
                                  .group = group,
                                  .name = row->worker.name,
                                  .role = row->worker.role,
                                  .host = row->worker.host,
                                  .joined_unix_ms = row->worker.joined_unix_ms,
                                  .ttl_ms = row->worker.ttl_ms,
                                  .incarnation = (uint64_t)row->incarnation};
    /* By this server's own clock; the moment of joining is by the clock of the server that let it
     * in. */
    info.is_heard =
        ps_workers_silence(answer->context->cluster.workers, row->incarnation, &info.silent_ms);
    ps_encode_worker(&info, answer->reply);
}

/* A list that would be longer than a message may be is cut, and says so. */
static void encode_list(struct ps_call_answer *answer, const char *group,
                        const struct ps_worker_view *view)
{
    /* The view is the caller's reference, and stays as it is. */
    const struct ps_worker_rows *rows = &view->rows;
    /* Of those that are wanted. */
    uint32_t count = 0;
    bool more = false;
    if (strcmp(group, "servers") == 0 || strcmp(group, "all") == 0)
        encode_servers(answer);
    for (size_t i = 0; i < rows->row_count; i++) {
        const char *name = rows->groups[rows->rows[i].group].name;
        if (!is_wanted(group, name))
            continue;
        /* The rows that are sent are the first of the order, so that a client knows what is
         * missing. */
        more = ++count > PS_WORKERS_LISTED_MAX;
        if (more)
            break;
        encode_row(answer, &rows->rows[i], name);
    }
    for (size_t i = 0; i < rows->group_count; i++)
        /* A key that somebody wrote by hand is not a group. */
        if (rows->groups[i].revision != 0 && is_wanted(group, rows->groups[i].name))
            ps_encode_worker_group(rows->groups[i].name, rows->groups[i].size, answer->reply);
    ps_wire_put_uint(answer->reply, 2, (uint64_t)view->revision);
    /* Behind the rows: fields come in any order. */
    ps_wire_put_uint(answer->reply, 4, more ? 1 : 0);
}
