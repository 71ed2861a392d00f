/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient: a server program's answers. Each is one message, repeated under its token until the
 * server has said what became of it; a repeat of an answer that was taken is the same answer, and
 * another one under another token is refused.
 *
 * An answer is judged three times. Here, where sizes that the request does not want go back to the
 * handler that made them. At the server, where a request is answered once: StepMesh never forgets a
 * request, takes a second answer, and its worker counts too many. And at the worker, which trusts
 * neither. Each of the three says to whom it happened what was wrong.
 *
 * A handler that answers after its worker has given up is told so: there is no such request any
 * more. That is no failure of the program, and it goes on. */
#include "client/serving_state.h"

#include "base/assert.h"
#include "base/random.h"
#include "client/psclient.h"
#include "client/status_map.h"
#include "proto/program_codec.h"

#include <inttypes.h>
#include <string.h>

enum { HEAD_BYTES_MAX = 2 * 1024 * 1024 };

/* One Answer on its way. */
struct answering {
    enum ps_status *statuses; /* of each answer; borrowed */
    size_t count;
};

static enum ps_status send(struct ps_serving *serving, struct ps_answer_request *request,
                           enum ps_status *statuses, uint64_t timeout_ms, struct ps_error *error);
static enum ps_status verdict(enum ps_status status, uint64_t handler, struct ps_error *error);

/* The statuses are the caller's memory: the engine has ended with them when ps_client_run
 * returns. */
static enum ps_status take_reply(void *self, const struct ps_call_reply *reply,
                                 struct ps_error *error)
{
    struct answering *answering = self;
    return ps_decode_answer_reply(reply->ask, answering->statuses, answering->count, error);
}

/* What the server has an opinion on is open no more, whatever that is: it is answered, or gone. */
static enum ps_status send(struct ps_serving *serving, struct ps_answer_request *request,
                           enum ps_status *statuses, uint64_t timeout_ms, struct ps_error *error)
{
    struct psclient *client = serving->client;
    struct answering answering = {statuses, request->answer_count};
    struct ps_buffer message;
    PS_TRY(ps_client_check_process(client, error));
    request->app = serving->mailbox;
    request->taker = serving->taker;
    request->shard = client->is_list ? 0 : serving->shard + 1;
    /* The engine repeats the same bytes. By the token the server knows a repeat from a second
     * answer. */
    while (request->token == 0)
        ps_random_system(&request->token, sizeof request->token);
    /* A thousand answers of several parts each fit this; a body comes on top. */
    ps_buffer_init(&message, client->memory, HEAD_BYTES_MAX + PS_PROGRAM_BODY_BYTES_MAX);
    /* Where the content goes is the channel's to say, with each attempt. */
    const struct ps_view content = request->content;
    request->content = (struct ps_view){NULL, 0, 0};
    ps_encode_answer(request, &message);
    struct ps_item item = {.shard = serving->shard,
                           .ask = {(const uint8_t *)message.text, message.size},
                           .ask_content = content,
                           .answer = {take_reply, &answering}};
    /* One call, repeated under its token as long as there is time. */
    const struct ps_batch_request batch =
        ps_client_request(client, PS_METHOD_ANSWER, &item, 1, timeout_ms);
    enum ps_status status = ps_buffer_status(&message, error);
    if (status == PS_OK)
        status = ps_client_run_one(client, &batch, error);
    ps_buffer_fini(&message);
    ps_mutex_lock(&serving->lock);
    for (size_t i = 0; status == PS_OK && i < request->answer_count; i++)
        /* An answer that does not fit leaves the request as it was. */
        if (statuses[i] != PS_ERR_BAD_INPUT)
            ps_serving_drop_taken(serving, request->answers[i].handle);
    ps_mutex_unlock(&serving->lock);
    return status;
}

/* In words, for the statuses that have a meaning here. */
static enum ps_status verdict(enum ps_status status, uint64_t handler, struct ps_error *error)
{
    switch (status) {
    case PS_OK:
        return PS_OK;
    case PS_ERR_NOT_FOUND:
        return ps_fail(error, status, "handler %" PRIu64 ": there is no such request, any more",
                       handler);
    case PS_ERR_EXISTS:
        return ps_fail(error, status, "handler %" PRIu64 " was answered before", handler);
    default:
        return ps_fail(error, status, "handler %" PRIu64 ": %s", handler,
                       ps_status_sentence(status));
    }
}

/* ---- respond and reply ---- */

/* The most frequent reply: tensors and nothing else. */
PS_EXPORT int ps_serving_respond(struct ps_serving *serving, const struct psclient_tensor *tensors,
                                 size_t count, uint64_t handler, uint64_t timeout_ms,
                                 struct psclient_error *error)
{
    const struct ps_serving_reply reply = {.tensors = tensors, .tensor_count = count};
    return ps_serving_reply(serving, handler, &reply, timeout_ms, error);
}

/* The lists that an answer needs: in one allocation each, of the size of its tensors. */
struct lists {
    struct ps_program_tensor *tensors;
    struct ps_answer_part *parts;
    uint64_t *sizes;
    struct ps_serving_pieces pieces;
};

/* Also of lists that were made in part. */
static void release_lists(struct ps_serving *serving, struct lists *lists)
{
    ps_release(serving->client->memory, lists->tensors);
    ps_release(serving->client->memory, lists->parts);
    ps_release(serving->client->memory, lists->sizes);
    ps_release(serving->client->memory, lists->pieces.copy);
}

/* Every tensor of the answer is a tensor of the message, whole; keys are their places, since a
 * worker matches them by place. What is wrong with a tensor is said before anything is sent. */
static enum ps_status make_lists(struct ps_serving *serving, const struct psclient_tensor *tensors,
                                 size_t count, struct lists *lists, struct ps_error *error)
{
    const struct ps_allocator *memory = serving->client->memory;
    if (count > PS_PROGRAM_TENSORS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "more than %d tensors", PS_PROGRAM_TENSORS_MAX);
    lists->tensors = ps_zeroed_array(memory, count + 1, sizeof *lists->tensors);
    lists->parts = ps_zeroed_array(memory, count + 1, sizeof *lists->parts);
    lists->sizes = ps_zeroed_array(memory, count + 1, sizeof *lists->sizes);
    if (lists->tensors == NULL || lists->parts == NULL || lists->sizes == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for an answer");
    for (size_t i = 0; i < count; i++) {
        PS_TRY(ps_serving_tensor_in(&tensors[i], i, "tensor", i, &lists->tensors[i], error));
        lists->parts[i] = (struct ps_answer_part){.tensor = (uint32_t)i, .key = i};
        lists->sizes[i] = tensors[i].size;
    }
    return ps_serving_gather(memory, tensors, count, &lists->pieces, error);
}

/* A failure that a program gives is one of ours, under which the worker's request fails. It is a
 * final one: a status that says "try again" would have the worker's library ask again, and get the
 * same answer, until its time is over. */
static enum ps_status status_in(int status)
{
    for (enum ps_status own = PS_OK; own < PS_STATUS_COUNT; own++)
        if ((int)ps_client_status_of(own) == status &&
            (own == PS_OK || ps_status_remedy(own) == PS_REMEDY_REJECT))
            return own;
    return PS_ERR_ABORTED;
}

/* Sizes are checked here against what the request wants, so that a handler's mistake comes back to
 * the handler, and the request stays open: it may be answered again, rightly. A failure has no
 * tensors to check. What the server says last counts: the request may have gone with its worker
 * meanwhile. */
PS_EXPORT int ps_serving_reply(struct ps_serving *serving, uint64_t handler,
                               const struct ps_serving_reply *reply, uint64_t timeout_ms,
                               struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    struct lists lists = {0};
    struct ps_program_answered answer = {
        .handle = handler,
        .status = status_in(reply->status),
        .text = ps_bytes_of_text(reply->text),
        .body = {reply->body, reply->body_size},
        .lens = {(const uint8_t *)reply->lens, reply->len_count * sizeof *reply->lens}};
    enum ps_status said = PS_OK, status = PS_OK;
    if (serving->role != PS_SERVING_SERVER)
        return ps_client_fail(error, PS_ERR_BAD_INPUT, "a worker answers nothing");
    if (answer.body.size > PS_PROGRAM_BODY_BYTES_MAX)
        return ps_client_fail(error, PS_ERR_BAD_INPUT, "the body is too long");
    /* A text that is too long is cut: it is for people, and the status stands by itself. */
    if (answer.text.size > PS_PROGRAM_TEXT_BYTES_MAX)
        answer.text.size = PS_PROGRAM_TEXT_BYTES_MAX;
    /* Before the lock is taken: shapes are the program's own, and need no look at the request. */
    status = make_lists(serving, reply->tensors, reply->tensor_count, &lists, &why);
    ps_mutex_lock(&serving->lock);
    if (status == PS_OK && answer.status == PS_OK)
        status = ps_serving_check_answer(serving, handler, lists.sizes, reply->tensor_count, &why);
    ps_mutex_unlock(&serving->lock);
    answer.parts = lists.parts;
    answer.part_count = reply->tensor_count;
    struct ps_answer_request request = {.tensors = lists.tensors,
                                        .tensor_count = reply->tensor_count,
                                        .answers = &answer,
                                        .answer_count = 1,
                                        .content = lists.pieces.view};
    if (status == PS_OK)
        status = send(serving, &request, &said, timeout_ms, &why);
    if (status == PS_OK)
        status = verdict(said, handler, &why);
    release_lists(serving, &lists);
    return status == PS_OK ? ps_client_succeed(error) : ps_client_fail(error, status, why.text);
}

/* ---- respond_vec ---- */

/* The rows of each slice must be of the tensor, and as many bytes as its request wants. A slice
 * that is wrong fails the call before anything is sent. */
static enum ps_status make_slices(struct ps_serving *serving, const struct psclient_tensor *rows,
                                  const struct ps_serving_slice *slices, size_t count,
                                  struct ps_program_answered *answers, struct ps_answer_part *parts,
                                  struct ps_error *error)
{
    /* A tensor without dimensions has no rows that could be cut. */
    uint64_t row_count = rows->rank > 0 ? rows->shape[0] : 0;
    uint64_t row_bytes = row_count > 0 ? rows->size / row_count : 0;
    enum ps_status status = PS_OK;
    ps_mutex_lock(&serving->lock);
    for (size_t i = 0; status == PS_OK && i < count; i++) {
        const struct ps_serving_slice *slice = &slices[i];
        uint64_t size = slice->row_count * row_bytes;
        /* No rows would mean all of them on the wire. */
        if (slice->row_count == 0 || slice->row_begin > row_count ||
            slice->row_count > row_count - slice->row_begin)
            status = ps_fail(error, PS_ERR_BAD_INPUT,
                             "slice %zu: rows %" PRIu64 " to %" PRIu64 " of %" PRIu64, i,
                             slice->row_begin, slice->row_begin + slice->row_count, row_count);
        else
            status = ps_serving_check_answer(serving, slice->handler, &size, 1, error);
        parts[i] = (struct ps_answer_part){.row_begin = slice->row_begin, .rows = slice->row_count};
        answers[i] = (struct ps_program_answered){
            .handle = slice->handler, .parts = &parts[i], .part_count = 1};
    }
    ps_mutex_unlock(&serving->lock);
    return status;
}

/* One message with the tensor once, and for each request which rows of it are its answer: the
 * server cuts, so that a row that several requests want travels once. Requests have a verdict
 * each. One that has gone with its worker must not keep the others from their answers. */
PS_EXPORT int ps_serving_respond_vec(struct ps_serving *serving, const struct psclient_tensor *rows,
                                     struct ps_serving_slice *slices, size_t count,
                                     uint64_t timeout_ms, struct psclient_error *error)
{
    const struct ps_allocator *memory = serving->client->memory;
    const struct ps_bytes content = {rows->content, rows->size};
    struct ps_error why = {.status = PS_OK};
    struct ps_program_tensor tensor;
    if (serving->role != PS_SERVING_SERVER || count > PS_PROGRAM_TAKEN_MAX)
        return ps_client_fail(error, PS_ERR_BAD_INPUT, "a worker, or more than 1024 answers");
    struct ps_program_answered *answers = ps_zeroed_array(memory, count + 1, sizeof *answers);
    struct ps_answer_part *parts = ps_zeroed_array(memory, count + 1, sizeof *parts);
    enum ps_status *said = ps_zeroed_array(memory, count + 1, sizeof *said);
    enum ps_status status = PS_OK;
    if (answers == NULL || parts == NULL || said == NULL)
        status = ps_fail(&why, PS_ERR_NO_MEMORY, "no memory for answers");
    if (status == PS_OK)
        status = ps_serving_tensor_in(rows, 0, "tensor", 0, &tensor, &why);
    if (status == PS_OK)
        status = make_slices(serving, rows, slices, count, answers, parts, &why);
    struct ps_answer_request request = {.tensors = &tensor,
                                        .tensor_count = 1,
                                        .answers = answers,
                                        .answer_count = count,
                                        .content = ps_view_of(&content)};
    if (status == PS_OK && count > 0)
        status = send(serving, &request, said, timeout_ms, &why);
    /* What was never sent has failed for all of them in the same way. */
    enum ps_status first = status;
    for (size_t i = 0; i < count; i++) {
        enum ps_status own = status != PS_OK ? status : said[i];
        slices[i].status = (int)ps_client_status_of(own);
        if (first == PS_OK)
            first = verdict(own, slices[i].handler, &why);
    }
    ps_release(memory, said);
    ps_release(memory, parts);
    ps_release(memory, answers);
    return first == PS_OK ? ps_client_succeed(error) : ps_client_fail(error, first, why.text);
}
