/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of a customer: begun, finished by whoever drives the client's engine, waited for, and
 * collected.
 *
 * ps-lite's customer waits until as many answers have come as it expects: for ever if one of them
 * never comes, and also if one comes too often. Here every request is a batch of the engine, which
 * has a deadline, repeats what was lost under the same token, and ends: then every node has its
 * word, an answer or why there is none. So a wait never outlives its deadline, and its text can
 * say which node it was.
 *
 * The order of requests is the caller's, for each server. Two messages may overtake each other on
 * the network, and one that was lost comes late; so each says its place in the line of its server,
 * and from which place on the line is still open. The server waits with a request until those
 * before it have come. ps-lite promised this once, and lost it with its queue of priorities.
 *
 * What a program does is in no journal. So a request names the life of the server that it is meant
 * for, as its answers have told it, and another life refuses it: a repeat after a crash is never
 * carried out a second time, and its caller is told that nobody can say whether it was once. What
 * the first ones do, which know of no life, is the engine's to decide (engine_life.c).
 *
 * Two locks meet here. The engine works under the client's lock, and tells of answers and of ends
 * from there; within it the customer's lock is taken for a moment. So nothing of the client is
 * called with the customer's lock held, and what needs both takes the client's first.
 *
 * Why a request is not collected where it ends: ending a batch takes the client's lock, and the
 * end is told under it. It is put on a list instead, of which the next call takes it. What it had
 * borrowed of the program is free before that, since a batch that is finished looks at nothing of
 * its items any more. */
#include "client/program_customer.h"

#include "base/assert.h"
#include "base/random.h"
#include "proto/program_codec.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

enum {
    GIVE_UP_MS_MAX = 500,        /* a server gives up so much before its client, to say why */
    HEAD_BYTES_MAX = 1024 * 1024 /* of a request, beside keys, lengths and body */
};

/* What one node was asked. */
struct ps_asked_part {
    struct ps_asked *of;
    size_t i;
    struct ps_program_node node;
    struct ps_buffer message;
    struct ps_asked_line *line; /* NULL: in none */
    uint64_t order;
    struct ps_asked_part *next, *prev; /* in its line */
};

static struct ps_asked *make(struct ps_customer *customer, const struct ps_ask_wish *wishes,
                             size_t count, const struct ps_ask_call *call);
static void destroy(struct ps_asked *asked);
static enum ps_status number(struct ps_asked *asked, const struct ps_ask_wish *wishes,
                             struct ps_error *error);
static enum ps_status write_part(struct ps_asked_part *part, const struct ps_ask_wish *wish,
                                 uint64_t timeout_ms, struct ps_error *error);
static void leave_lines(struct ps_asked *asked);
static enum ps_status take_answer(void *self, const struct ps_call_reply *reply,
                                  struct ps_error *error);
static void told_finished(struct ps_client_job *job);
static void name_missing(struct ps_customer *customer, int64_t timestamp, char *text, size_t size);

/* All memory of requests is the client's, so that tests which refuse allocations reach all
 * of it. */
static const struct ps_allocator *memory_of(const struct ps_customer *customer)
{
    return customer->client->memory;
}

/* ---- Begin ---- */

/* The number is given out and the places in the lines are taken under one lock, so that the order
 * of timestamps is that of the places. After that the request is open, and from the moment in which
 * the engine has it another thread may end and collect it: nothing of it is looked at here any
 * more. */
enum ps_status ps_asking_begin(struct ps_customer *customer, const struct ps_ask_wish *wishes,
                               size_t count, const struct ps_ask_call *call, int64_t *timestamp,
                               struct ps_error *error)
{
    PS_TRY(ps_client_check_process(customer->client, error));
    /* What has ended since the last call is given back here, so that a program which never
     * waits has no more in memory than what is open. */
    ps_asking_collect(customer);
    if (call->call != NULL && call->call->callback != NULL)
        PS_TRY(ps_asking_start_callbacks(customer, error));
    struct ps_asked *asked = make(customer, wishes, count, call);
    if (asked == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a request");
    uint64_t timeout_ms = asked->how.timeout_ms != 0 ? asked->how.timeout_ms : customer->timeout_ms;
    asked->stamps[0] = ps_unix_ns(customer->client->clock);
    enum ps_status status = number(asked, wishes, error);
    for (size_t i = 0; status == PS_OK && i < count; i++)
        status = write_part(&asked->parts[i], &wishes[i], timeout_ms, error);
    /* Read before the engine has it: afterwards the request may be gone. */
    int64_t given = asked->timestamp;
    const struct ps_batch_request request =
        ps_client_request(customer->client, PS_METHOD_ASK, asked->items, count, timeout_ms);
    if (status == PS_OK)
        status = ps_client_begin(customer->client, &request, &asked->job, error);
    if (status == PS_OK) {
        *timestamp = given;
        return PS_OK;
    }
    ps_mutex_lock(&customer->lock);
    leave_lines(asked);
    if (given >= 0) {
        ps_request_tracker_forget(&customer->tracker, given);
        DL_DELETE(customer->open, asked);
    }
    ps_mutex_unlock(&customer->lock);
    /* What came with the call is still the caller's. */
    asked->call.release = NULL;
    destroy(asked);
    return status;
}

/* NULL when memory is refused. Nothing of it is known to anybody yet. */
static struct ps_asked *make(struct ps_customer *customer, const struct ps_ask_wish *wishes,
                             size_t count, const struct ps_ask_call *call)
{
    const struct ps_allocator *memory = memory_of(customer);
    struct ps_asked *asked = ps_zeroed(memory, sizeof *asked);
    if (asked == NULL)
        return NULL;
    asked->customer = customer;
    asked->timestamp = -1;
    asked->count = count;
    asked->call = *call;
    if (call->call != NULL)
        asked->how = *call->call;
    /* A request without a callback has nothing to wait for behind its last answer. */
    asked->is_called = asked->how.callback == NULL;
    asked->job.told = told_finished;
    /* An empty request has arrays, too: of no bytes would be NULL with some allocators. */
    asked->items = ps_zeroed_array(memory, count + 1, sizeof *asked->items);
    asked->parts = ps_zeroed_array(memory, count + 1, sizeof *asked->parts);
    if (asked->items == NULL || asked->parts == NULL) {
        asked->call.release = NULL;
        asked->count = 0;
        destroy(asked);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        struct ps_asked_part *part = &asked->parts[i];
        size_t bytes =
            wishes[i].payload.keys.size + wishes[i].payload.lens.size + wishes[i].payload.body.size;
        part->of = asked;
        part->i = i;
        part->node = wishes[i].node;
        ps_buffer_init(&part->message, memory, bytes + HEAD_BYTES_MAX);
    }
    return asked;
}

/* Gives back what the request has, and what its caller gave with it. */
static void destroy(struct ps_asked *asked)
{
    const struct ps_allocator *memory = memory_of(asked->customer);
    for (size_t i = 0; i < asked->count; i++)
        ps_buffer_fini(&asked->parts[i].message);
    if (asked->call.release != NULL)
        asked->call.release(asked->call.self);
    ps_release(memory, asked->items);
    ps_release(memory, asked->parts);
    ps_release(memory, asked);
}

/* A request to a worker's mailbox has no line: mailboxes of several workers are several apps, and a
 * customer that asks them does so rarely. They are in the order in which they arrive. */
static enum ps_status number(struct ps_asked *asked, const struct ps_ask_wish *wishes,
                             struct ps_error *error)
{
    struct ps_customer *customer = asked->customer;
    ps_mutex_lock(&customer->lock);
    enum ps_status status =
        ps_request_tracker_begin(&customer->tracker, asked->count, asked, &asked->timestamp, error);
    if (status == PS_OK)
        DL_APPEND(customer->open, asked);
    for (size_t i = 0; status == PS_OK && i < asked->count; i++) {
        struct ps_asked_part *part = &asked->parts[i];
        if (wishes[i].node.is_worker)
            continue;
        part->line = &customer->lines[wishes[i].node.rank];
        /* Given out under the lock that gives out timestamps: both have one order. */
        part->order = ++part->line->last;
        DL_APPEND(part->line->first, part);
    }
    ps_mutex_unlock(&customer->lock);
    return status;
}

/* As much as the answer has if it is what is wanted. A tensor of any size is not counted: its
 * answer comes in the message. */
static size_t room_of(const struct ps_program_payload *payload)
{
    uint64_t size = 0;
    for (size_t i = 0; i < payload->output_count; i++)
        size += payload->outputs[i].size < SIZE_MAX / 8192 ? payload->outputs[i].size : 0;
    return (size_t)size;
}

/* The oldest that is open in the line is asked for here, behind the lock under which the place was
 * taken: an older one that has ended since is one that the server need not wait for. */
static enum ps_status write_part(struct ps_asked_part *part, const struct ps_ask_wish *wish,
                                 uint64_t timeout_ms, struct ps_error *error)
{
    struct ps_asked *asked = part->of;
    struct ps_customer *customer = asked->customer;
    struct psclient *client = customer->client;
    uint32_t shard = ps_program_mailbox_shard(part->node, customer->server_count);
    uint64_t epoch = 0;
    uint64_t give_up_ms = timeout_ms / 10 < GIVE_UP_MS_MAX ? timeout_ms / 10 : GIVE_UP_MS_MAX;
    struct ps_ask_request request = {
        .asked = {.app = ps_program_mailbox(customer->app, part->node),
                  .worker = customer->rank,
                  .customer = customer->number,
                  .kind = asked->call.kind,
                  .command = asked->how.command,
                  .priority = asked->how.priority,
                  .timestamp = (uint64_t)asked->timestamp,
                  .stamps = {.host = customer->host, .ns = {asked->stamps[0], asked->stamps[1]}}},
        .payload = wish->payload,
        .wait_ms = timeout_ms > give_up_ms ? timeout_ms - give_up_ms : 1,
        .shard = client->is_list ? 0 : shard + 1};
    asked->stamps[1] = ps_unix_ns(client->clock);
    request.asked.stamps.ns[1] = asked->stamps[1];
    while (request.token == 0)
        ps_random_system(&request.token, sizeof request.token);
    if (part->line != NULL) {
        ps_mutex_lock(&customer->lock);
        request.sender = customer->sender;
        request.order = part->order;
        request.order_from = part->line->first->order;
        epoch = part->line->epoch;
        ps_mutex_unlock(&customer->lock);
    }
    /* Where the content goes is the channel's to say, with each attempt. */
    request.payload.content = (struct ps_view){NULL, 0, 0};
    /* Which life it is for is the engine's to say, with each attempt. */
    ps_encode_ask(&request, &part->message);
    /* A body, keys and lengths were counted when the room was made; this fails for want of
     * memory only. */
    PS_TRY(ps_buffer_status(&part->message, error));
    asked->items[part->i] =
        (struct ps_item){.shard = shard,
                         .ask = {(const uint8_t *)part->message.text, part->message.size},
                         .ask_epoch = epoch,
                         .ask_content = wish->payload.content,
                         .ask_room = room_of(&wish->payload),
                         .answer = {take_answer, part}};
    return PS_OK;
}

/* With the lock. */
static void leave_lines(struct ps_asked *asked)
{
    for (size_t i = 0; i < asked->count; i++) {
        struct ps_asked_part *part = &asked->parts[i];
        if (part->line != NULL)
            DL_DELETE(part->line->first, part);
        part->line = NULL;
    }
}

/* ---- Answers ---- */

/* On the thread that drives the engine, with the client's lock. An answer that the caller refuses
 * counts when the batch is finished, with its failure. */
static enum ps_status take_answer(void *self, const struct ps_call_reply *reply,
                                  struct ps_error *error)
{
    struct ps_asked_part *part = self;
    struct ps_asked *asked = part->of;
    struct ps_customer *customer = asked->customer;
    struct ps_decoded decoded = {0};
    struct ps_ask_reply answer;
    PS_TRY(ps_decode_ask_reply(reply->ask, memory_of(customer), &answer, &decoded, error));
    enum ps_status status = PS_OK;
    const struct ps_bytes shared = {reply->ask_room.data, (size_t)answer.shared_size};
    if (answer.shared_size > reply->ask_room.size) {
        ps_decoded_release(&decoded);
        return ps_fail(error, PS_ERR_INTERNAL, "the answer's content is nowhere");
    }
    if (answer.shared_size > 0)
        answer.payload.content = ps_view_of(&shared);
    if (asked->call.take != NULL)
        status = asked->call.take(asked->call.self, asked->timestamp, part->i, &answer, error);
    /* Its views are looked at no more: what was wanted of them has been copied. */
    ps_decoded_release(&decoded);
    if (status != PS_OK)
        return status;
    ps_mutex_lock(&customer->lock);
    (void)ps_request_tracker_answer(&customer->tracker, asked->timestamp, part->i, NULL);
    if (part->line != NULL)
        part->line->epoch = answer.epoch;
    ps_mutex_unlock(&customer->lock);
    return PS_OK;
}

/* The request cannot go meanwhile: an answer of it is being taken. */
const uint64_t *ps_asking_stamps(struct ps_customer *customer, int64_t timestamp)
{
    ps_mutex_lock(&customer->lock);
    const struct ps_asked *asked = ps_request_tracker_owner(&customer->tracker, timestamp);
    ps_mutex_unlock(&customer->lock);
    return asked != NULL ? asked->stamps : NULL;
}

/* "server 1 (127.0.0.1:7000)"; of a worker also the server that has its mailbox. With the client's
 * lock. */
static int name_node(struct ps_customer *customer, struct ps_program_node node, char *text,
                     size_t size)
{
    uint32_t shard = ps_program_mailbox_shard(node, customer->server_count);
    const char *address = customer->client->routes[shard].address;
    if (address[0] == '\0')
        address = "nobody serves it";
    return snprintf(text, size,
                    node.is_worker ? "worker %" PRIu32 " (through %s)" : "server %" PRIu32 " (%s)",
                    node.rank, address);
}

/* Every node has its word now: those whose answers were taken have said it already. The nodes stand
 * in the text, since the engine's own says what happened and not to whom. */
static void note_ends(struct ps_asked *asked)
{
    struct ps_customer *customer = asked->customer;
    for (size_t i = 0; i < asked->count; i++) {
        const struct ps_item *item = &asked->items[i];
        struct ps_error why = {.status = PS_OK};
        if (item->status != PS_OK) {
            char node[160];
            /* A server that was there until the end, and one that never was, look the same when the
             * time is over: nobody can say whether the program has had the request. */
            enum ps_status status =
                item->status == PS_ERR_UNAVAILABLE ? PS_ERR_TIMEOUT : item->status;
            /* It may be that the server is another one now, which the next answer will tell. */
            if (status == PS_ERR_ABORTED && asked->parts[i].line != NULL)
                asked->parts[i].line->epoch = 0;
            (void)name_node(customer, asked->parts[i].node, node, sizeof node);
            enum ps_status ignored =
                ps_fail(&why, status, "request %" PRId64 ": %.80s: %.150s", asked->timestamp, node,
                        item->text[0] != '\0' ? item->text : ps_status_sentence(item->status));
            (void)ignored;
        }
        (void)ps_request_tracker_answer(&customer->tracker, asked->timestamp, i, &why);
    }
}

/* The batch is finished: from now on nothing of the caller's memory is in use. */
static void told_finished(struct ps_client_job *job)
{
    struct ps_asked *asked = (struct ps_asked *)job;
    struct ps_customer *customer = asked->customer;
    ps_mutex_lock(&customer->lock);
    PS_ASSERT(!asked->is_over);
    note_ends(asked);
    leave_lines(asked);
    /* From here on collect may take it, once nobody waits and the callback has returned. */
    asked->is_over = true;
    DL_DELETE(customer->open, asked);
    DL_APPEND(customer->over, asked);
    if (!asked->is_called)
        ps_condition_signal_all(&customer->changed);
    ps_mutex_unlock(&customer->lock);
}

/* ---- Wait ---- */

/* A request that is over and nobody's is out of the tracker before its batch is ended, so that no
 * other thread finds it meanwhile. */
void ps_asking_collect(struct ps_customer *customer)
{
    struct ps_asked *asked, *next, *ended = NULL;
    ps_mutex_lock(&customer->lock);
    DL_FOREACH_SAFE(customer->over, asked, next) {
        if (asked->waiters > 0 || !asked->is_called)
            continue;
        DL_DELETE(customer->over, asked);
        ps_request_tracker_forget(&customer->tracker, asked->timestamp);
        DL_APPEND(ended, asked);
    }
    ps_mutex_unlock(&customer->lock);
    DL_FOREACH_SAFE(ended, asked, next) {
        ps_client_end(customer->client, &asked->job);
        destroy(asked);
    }
}

/* Several threads may wait for one request: the last of them lets it go. Its result is read under
 * the lock, while it is still tracked. */
enum ps_status ps_asking_await(struct ps_customer *customer, int64_t timestamp,
                               uint64_t deadline_ms, struct ps_error *error)
{
    struct ps_error why;
    PS_TRY(ps_client_check_process(customer->client, error));
    ps_mutex_lock(&customer->lock);
    enum ps_tracked_state state = ps_request_tracker_look(&customer->tracker, timestamp, &why);
    struct ps_asked *asked = ps_request_tracker_owner(&customer->tracker, timestamp);
    if (asked != NULL)
        asked->waiters++;
    ps_mutex_unlock(&customer->lock);
    if (state == PS_TRACKED_NONE)
        return ps_fail(error, PS_ERR_NOT_FOUND, "there is no request %" PRId64, timestamp);
    bool is_over = asked == NULL;
    if (asked != NULL) {
        /* The engine is driven by this thread meanwhile, if no other does it. */
        is_over = ps_client_await(customer->client, &asked->job, true, deadline_ms);
        ps_mutex_lock(&customer->lock);
        PS_ASSERT(!is_over || asked->is_over);
        is_over = is_over && ps_asking_await_callback(customer, asked, deadline_ms);
        (void)ps_request_tracker_look(&customer->tracker, timestamp, &why);
        asked->waiters--;
        ps_mutex_unlock(&customer->lock);
        ps_asking_collect(customer);
    }
    if (!is_over) {
        char missing[200];
        name_missing(customer, timestamp, missing, sizeof missing);
        return ps_fail(error, PS_ERR_TIMEOUT, "request %" PRId64 ": %s", timestamp, missing);
    }
    if (why.status != PS_OK && error != NULL)
        *error = why;
    return why.status;
}

/* As many nodes as there is room for. */
static void name_missing(struct ps_customer *customer, int64_t timestamp, char *text, size_t size)
{
    /* Room for one more name is kept free, so that none is cut in the middle. */
    size_t used = (size_t)snprintf(text, size, "no answer yet from ");
    /* Both locks, in their order: addresses are the client's, answers the customer's. */
    size_t missing = 0;
    ps_mutex_lock(&customer->client->mutex);
    ps_mutex_lock(&customer->lock);
    const struct ps_asked *asked = ps_request_tracker_owner(&customer->tracker, timestamp);
    for (size_t i = 0; asked != NULL && i < asked->count; i++) {
        if (ps_request_tracker_has_answered(&customer->tracker, timestamp, i))
            continue;
        char node[160];
        int length = name_node(customer, asked->parts[i].node, node, sizeof node);
        if (used + (size_t)length + 8 < size)
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s", missing > 0 ? ", " : "", node);
        missing++;
    }
    ps_mutex_unlock(&customer->lock);
    ps_mutex_unlock(&customer->client->mutex);
    if (missing == 0)
        (void)snprintf(text, size, "everybody has answered, and the callback has not returned");
}
