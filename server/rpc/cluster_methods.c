/* SPDX-License-Identifier: Apache-2.0 */
/* Where the servers are, and who may initialise: asked by clients that know some server and no
 * store. Nothing is decided here. Views come from the thread with the store as they are; questions
 * go to that thread, and their calls wait for it as others wait for the disk. */
#include "server/rpc/cluster_methods.h"

#include "base/assert.h"
#include "base/bounds.h"
#include "proto/cluster_codec.h"
#include "proto/fields.h"
#include "proto/wire.h"
#include "server/rpc/call_wait.h"
#include "server/rpc/rpc_context.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A trainer that waits for the right is looked after this often: whoever holds it dies without a
 * word to this server. */
enum { LOOK_MS = 500 };

/* No wait is longer: a client asks again, and a deadline that is far away is a slip. */
enum { WAIT_MS_MAX = 600 * 1000 };

/* The fields of the requests, in the order of the .proto. */
enum { CLUSTER_JOB = 1, CLUSTER_REVISION, CLUSTER_WAIT_MS };
enum { BEGIN_CLIENT = 1, BEGIN_TTL_MS, BEGIN_WAIT_MS, BEGIN_RIGHT, BEGIN_JOB, BEGIN_PLACEMENT };
enum { END_CLIENT = 1, END_RIGHT, END_LOST, END_ABANDON, END_JOB };

static void encode_cluster(struct ps_call_answer *answer, const struct ps_cluster_view *view);

/* ---- GetCluster ---- */

/* A server that is alone has no store in which anything could change: what it is itself is the
 * whole answer, under its epoch, which no other process of it has had. */
enum ps_serve_progress ps_serve_cluster(struct ps_call_answer *answer)
{
    struct ps_rpc_context *context = answer->context;
    struct ps_fields fields;
    if (!answer->asked) {
        if (!ps_cluster_read_request(answer, &fields, CLUSTER_JOB))
            return PS_SERVE_DONE;
        answer->cluster.known_revision = fields.number[CLUSTER_REVISION];
        ps_cluster_set_patience(answer, fields.number[CLUSTER_WAIT_MS]);
    }
    struct ps_cluster_view *view = ps_cluster_view(context->cluster.cluster);
    struct ps_status_reply status = {0};
    char uuid[37];
    if (view == NULL)
        ps_service_status(context->service, &status, uuid);
    uint64_t revision = view != NULL ? (uint64_t)view->members.revision : status.epoch;
    bool is_known = view != NULL || (context->cluster.in_memory && status.epoch != 0);
    if (!is_known || revision <= answer->cluster.known_revision) {
        answer->again_ms = ps_cluster_time_left_ms(answer);
        answer->topic = PS_TOPIC_CLUSTER;
        if (answer->again_ms > 0) {
            ps_cluster_view_release(context->cluster.cluster, view);
            return PS_SERVE_WAITS;
        }
    }
    if (is_known)
        encode_cluster(answer, view);
    else
        answer->status = ps_fail(&answer->error, PS_ERR_UNAVAILABLE,
                                 "this server has not heard of the others yet");
    ps_cluster_view_release(context->cluster.cluster, view);
    return PS_SERVE_DONE;
}

/* The row of the server that answers is found by its address, which is published under the index
 * that it owns: a server that has just lost its shard finds none. */
static void encode_member(struct ps_call_answer *answer, uint32_t index,
                          const struct ps_member *row, const struct ps_status_reply *self)
{
    struct ps_cluster_member member = {.epoch = row->epoch};
    member.answers =
        row->address[0] != '\0' && self->index == index && strcmp(row->address, self->address) == 0;
    memcpy(member.address, row->address, sizeof member.address);
    ps_encode_cluster_member(
        index, &member, member.answers ? answer->context->cluster.unix_path : NULL, answer->reply);
}

/* Without a view: what this server is, among the shards that it was told of. */
static void encode_cluster(struct ps_call_answer *answer, const struct ps_cluster_view *view)
{
    const struct ps_cluster_facts *facts = &answer->context->cluster;
    struct ps_status_reply self = {0};
    char uuid[37];
    ps_service_status(answer->context->service, &self, uuid);
    struct ps_cluster_reply reply = {.shard_count = self.shard_count,
                                     .revision = self.epoch,
                                     .split_bytes = PS_SPLIT_BYTES_DEFAULT,
                                     .alone = facts->alone};
    if (view != NULL) {
        reply.shard_count = view->members.shard_count;
        reply.revision = (uint64_t)view->members.revision;
        reply.placement = view->members.placement;
    }
    /* The view may be older than what this server was told by whoever initialised it. */
    if (reply.placement == 0)
        reply.placement = ps_service_placement(answer->context->service);
    ps_encode_cluster(&reply, facts->job, self.program_version, answer->reply);
    struct ps_member own = {.epoch = self.epoch};
    (void)snprintf(own.address, sizeof own.address, "%s", self.address);
    for (uint32_t i = 0; i < reply.shard_count; i++) {
        const struct ps_member none = {0};
        const struct ps_member *row = i == self.index ? &own : &none;
        encode_member(answer, i, view != NULL ? &view->members.rows[i] : row, &self);
    }
}

/* ---- BeginInit, EndInit ---- */

/* False: the answer is made. */
static bool ask(struct ps_call_answer *answer)
{
    struct ps_cluster_wait *wait = &answer->cluster;
    PS_ASSERT(wait->inquiry == NULL);
    answer->status = ps_cluster_ask(answer->context->cluster.cluster, &wait->question,
                                    &wait->inquiry, &answer->error);
    return answer->status == PS_OK;
}

/* False while the answer is not there; then the call is to wait. */
static bool take_answer(struct ps_call_answer *answer)
{
    struct ps_cluster_wait *wait = &answer->cluster;
    answer->topic = PS_TOPIC_INIT;
    answer->again_ms = 0;
    if (!atomic_load(&wait->inquiry->answered))
        return false;
    answer->status = wait->inquiry->status;
    answer->error = wait->inquiry->error;
    if (answer->status == PS_OK)
        wait->question = wait->inquiry->question;
    ps_cluster_inquiry_release(wait->inquiry);
    wait->inquiry = NULL;
    return true;
}

static bool read_begin(struct ps_call_answer *answer)
{
    struct ps_fields fields;
    if (!ps_cluster_read_request(answer, &fields, BEGIN_JOB))
        return false;
    uint64_t ttl_ms = fields.number[BEGIN_TTL_MS];
    if (fields.number[BEGIN_CLIENT] == 0 || ttl_ms < PS_INIT_TTL_MS_MIN ||
        ttl_ms > PS_INIT_TTL_MS_MAX) {
        answer->status =
            ps_fail(&answer->error, PS_ERR_BAD_INPUT,
                    "client is not 0, and ttl_ms %d to %d: %" PRIu64 ", %" PRIu64,
                    PS_INIT_TTL_MS_MIN, PS_INIT_TTL_MS_MAX, fields.number[BEGIN_CLIENT], ttl_ms);
        return false;
    }
    answer->cluster.question =
        (struct ps_init_question){.wish = PS_INIT_BEGIN,
                                  .client = fields.number[BEGIN_CLIENT],
                                  .ttl_ms = ttl_ms,
                                  .right = (int64_t)fields.number[BEGIN_RIGHT],
                                  .placement = fields.number[BEGIN_PLACEMENT]};
    ps_cluster_set_patience(answer, fields.number[BEGIN_WAIT_MS]);
    return ask(answer);
}

/* Between two looks the call has no question out. Each look also keeps the trainer's place, so that
 * a call that waits for longer than ttl_ms does not lose it. */
enum ps_serve_progress ps_serve_begin_init(struct ps_call_answer *answer)
{
    struct ps_cluster_wait *wait = &answer->cluster;
    const struct ps_clock *clock = answer->context->clock;
    if (!answer->asked && !read_begin(answer))
        return PS_SERVE_DONE;
    uint64_t left_ms = ps_cluster_time_left_ms(answer);
    uint64_t look_ms = ps_time_left_ms(clock, wait->look_ms);
    if (wait->inquiry == NULL && look_ms == 0 && left_ms > 0 && !ask(answer))
        return PS_SERVE_DONE;
    if (wait->inquiry != NULL) {
        if (!take_answer(answer))
            return PS_SERVE_WAITS;
        if (answer->status != PS_OK)
            return PS_SERVE_DONE;
        look_ms = wait->question.ttl_ms / 3 < LOOK_MS ? wait->question.ttl_ms / 3 : LOOK_MS;
        wait->look_ms = ps_deadline_after(clock, look_ms);
    }
    if (wait->question.turn == PS_INIT_WAIT && left_ms > 0) {
        answer->again_ms = left_ms < look_ms ? left_ms : look_ms;
        return PS_SERVE_WAITS;
    }
    ps_wire_put_uint(answer->reply, 1, (uint64_t)wait->question.turn);
    ps_wire_put_uint(answer->reply, 2, (uint64_t)wait->question.right);
    ps_wire_put_uint(answer->reply, 3, (uint64_t)wait->question.lost);
    ps_wire_put_uint(answer->reply, 4, wait->question.placement);
    return PS_SERVE_DONE;
}

enum ps_serve_progress ps_serve_end_init(struct ps_call_answer *answer)
{
    struct ps_fields fields;
    if (!answer->asked) {
        if (!ps_cluster_read_request(answer, &fields, END_JOB))
            return PS_SERVE_DONE;
        if (fields.number[END_CLIENT] == 0) {
            answer->status = ps_fail(&answer->error, PS_ERR_BAD_INPUT, "client is 0");
            return PS_SERVE_DONE;
        }
        bool abandons = fields.number[END_ABANDON] != 0;
        answer->cluster.question =
            (struct ps_init_question){.wish = abandons ? PS_INIT_ABANDON : PS_INIT_FINISH,
                                      .client = fields.number[END_CLIENT],
                                      .right = (int64_t)fields.number[END_RIGHT],
                                      .lost = (int64_t)fields.number[END_LOST]};
        if (!ask(answer))
            return PS_SERVE_DONE;
    }
    return take_answer(answer) ? PS_SERVE_DONE : PS_SERVE_WAITS;
}

/* ---- What they have in common with those of worker_methods.c ---- */

/* A client that names a job means that one: under another the same names are other parameters. A
 * server without a name is whatever job its client takes it for. */
bool ps_cluster_read_request(struct ps_call_answer *answer, struct ps_fields *fields, uint32_t job)
{
    const struct ps_cluster_facts *facts = &answer->context->cluster;
    answer->asked = true;
    answer->status = ps_fields_read(answer->request, fields, &answer->error);
    if (answer->status == PS_OK && facts->cluster == NULL)
        answer->status = ps_fail(&answer->error, PS_ERR_UNSUPPORTED, "this server knows no others");
    if (answer->status == PS_OK && facts->job[0] != '\0' && fields->text[job][0] != '\0' &&
        strcmp(fields->text[job], facts->job) != 0)
        answer->status = ps_fail(&answer->error, PS_ERR_NOT_FOUND,
                                 "this server is of job \"%.80s\", not \"%.80s\"", facts->job,
                                 fields->text[job]);
    return answer->status == PS_OK;
}

void ps_cluster_set_patience(struct ps_call_answer *answer, uint64_t wait_ms)
{
    wait_ms = wait_ms < WAIT_MS_MAX ? wait_ms : WAIT_MS_MAX;
    answer->cluster.until_ms = ps_deadline_after(answer->context->clock, wait_ms);
}

/* A server that is going lets nobody wait. */
uint64_t ps_cluster_time_left_ms(const struct ps_call_answer *answer)
{
    if (atomic_load(&answer->context->draining))
        return 0;
    return ps_time_left_ms(answer->context->clock, answer->cluster.until_ms);
}
