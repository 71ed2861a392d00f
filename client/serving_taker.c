/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient: a server program that takes requests from its mailbox, from a process of its own.
 *
 * The mailbox is at the server and not in the program, so that a worker needs to know of servers
 * only, and a request outlives the program that was to answer it. A program that comes back takes
 * what is waiting.
 *
 * A take has a number, its turn. A take whose answer was lost is asked for again under the same
 * turn, within the call or in the next, and brings the same requests: so none is lost between
 * server and program. A turn is over when its answer was read here. */
#include "client/serving_state.h"

#include "base/assert.h"
#include "client/psclient.h"
#include "client/status_map.h"
#include "proto/program_codec.h"

#include <inttypes.h>
#include <string.h>

enum {
    MARGIN_MS = 1000,       /* the server gives up first */
    TAKE_BYTES_MAX = 65536, /* of a request: a thousand workers, and a name */
    MASK_BITS = 64
};

/* One take. */
struct taking {
    struct ps_serving *serving;
    struct ps_serving_batch *batch; /* NULL: the time is over */
    bool is_read;
};

static enum ps_status ask(struct ps_serving *serving, const struct ps_take_request *request,
                          struct ps_answer_taker answer, uint64_t timeout_ms,
                          struct ps_error *error);

/* ---- One message ---- */

/* On the thread that drives the engine, with the client's lock. What a batch cannot be made of, for
 * want of memory, stays this program's: the same turn is asked again. */
static enum ps_status take_reply(void *self, const struct ps_call_reply *reply,
                                 struct ps_error *error)
{
    struct taking *taking = self;
    struct ps_serving *serving = taking->serving;
    struct ps_decoded decoded = {0};
    struct ps_take_reply answer;
    PS_TRY(ps_decode_take_reply(reply->ask, serving->client->memory, &answer, &decoded, error));
    enum ps_status status = PS_OK;
    const struct ps_bytes shared = {reply->ask_room.data, (size_t)answer.shared_size};
    if (answer.shared_size > reply->ask_room.size)
        status = ps_fail(error, PS_ERR_INTERNAL, "the content of what was taken is nowhere");
    /* Copied while the reply is there: it goes with this call. */
    if (status == PS_OK && answer.taken_count > 0)
        status = ps_serving_make_batch(serving, answer.taken, answer.taken_count, shared,
                                       &taking->batch, error);
    ps_mutex_lock(&serving->lock);
    for (size_t i = 0; status == PS_OK && i < answer.taken_count; i++)
        /* Without a note the answer is judged by the worker. */
        (void)ps_serving_note_taken(serving, &answer.taken[i]);
    ps_mutex_unlock(&serving->lock);
    ps_decoded_release(&decoded);
    taking->is_read = status == PS_OK;
    return status;
}

/* What all of a taker's messages have in common is filled in here, so that none of them can forget
 * who it is from. The message waits at the server for at most `wait_ms`, and is given up a little
 * later here: the server's word, that nothing came, is heard. */
static enum ps_status ask(struct ps_serving *serving, const struct ps_take_request *request,
                          struct ps_answer_taker answer, uint64_t timeout_ms,
                          struct ps_error *error)
{
    struct psclient *client = serving->client;
    struct ps_take_request own = *request;
    struct ps_buffer message;
    own.app = serving->mailbox;
    own.taker = serving->taker;
    own.lease_ms = serving->lease_ms;
    /* The word of a program that has died cannot be asked for: each message says it. */
    own.again = serving->again;
    own.name = ps_bytes_of_text(serving->name);
    own.shard = client->is_list ? 0 : serving->shard + 1;
    ps_buffer_init(&message, client->memory, TAKE_BYTES_MAX);
    ps_encode_take(&own, &message);
    /* Room for as much as the last batch had; a touch brings nothing. */
    struct ps_item item = {.shard = serving->shard,
                           .ask = {(const uint8_t *)message.text, message.size},
                           .ask_room = own.turn != 0 ? serving->room_bytes : 0,
                           .answer = answer};
    const struct ps_batch_request batch =
        ps_client_request(client, PS_METHOD_TAKE, &item, 1, timeout_ms);
    enum ps_status status = ps_buffer_status(&message, error);
    if (status == PS_OK)
        status = ps_client_run_one(client, &batch, error);
    ps_buffer_fini(&message);
    return status;
}

/* The answer has nothing: that it came is enough. */
enum ps_status ps_serving_touch(struct ps_serving *serving, bool leaves, uint64_t timeout_ms,
                                struct ps_error *error)
{
    const struct ps_take_request request = {.touch = !leaves, .leave = leaves};
    return ask(serving, &request, (struct ps_answer_taker){0}, timeout_ms, error);
}

/* ---- get_batch ---- */

/* One take at a time: turns follow each other. */
static enum ps_status enter(struct ps_serving *serving, uint64_t deadline_ms,
                            struct ps_error *error)
{
    enum ps_status status = PS_OK;
    ps_mutex_lock(&serving->lock);
    while (serving->is_taking && status == PS_OK) {
        uint64_t left_ms = ps_time_left_ms(serving->client->clock, deadline_ms);
        if (left_ms == 0)
            status = ps_fail(error, PS_ERR_TIMEOUT, "another thread takes, and nothing came");
        else
            (void)ps_condition_wait(&serving->changed, &serving->lock, left_ms);
    }
    serving->is_taking = serving->is_taking || status == PS_OK;
    ps_mutex_unlock(&serving->lock);
    return status;
}

/* A turn that brought an answer is over. One that brought none is asked again by the next take,
 * under the same number, and has what the server may have given out for it. */
static void leave(struct ps_serving *serving, bool is_over)
{
    ps_mutex_lock(&serving->lock);
    /* Whoever waits for its turn looks again. */
    serving->is_taking = false;
    serving->turn += is_over ? 1 : 0;
    ps_condition_signal_all(&serving->changed);
    ps_mutex_unlock(&serving->lock);
}

/* A gang as a list, which is how it travels: also that of a mask. */
static enum ps_status list_gang(const struct ps_serving_wish *wish, uint32_t *room,
                                struct ps_take_request *request, struct ps_error *error)
{
    request->workers = room;
    if (wish->worker_count > PS_PROGRAM_WORKERS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a gang has at most %d workers, not %zu",
                       PS_PROGRAM_WORKERS_MAX, wish->worker_count);
    if (wish->worker_count > 0 && wish->workers == NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "the workers of the gang are missing");
    for (size_t i = 0; i < wish->worker_count; i++)
        room[request->worker_count++] = wish->workers[i];
    /* The mask has no bit for a worker of rank 64 or more: those are named in a list. */
    for (uint32_t i = 0; wish->worker_count == 0 && i < MASK_BITS; i++)
        if ((wish->worker_mask >> i & 1) != 0)
            room[request->worker_count++] = i;
    if (wish->max > PS_PROGRAM_TAKEN_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "at most %d requests are taken at once",
                       PS_PROGRAM_TAKEN_MAX);
    return PS_OK;
}

/* A gang of a thousand workers is a list of 4 KiB, which lies on the stack. The time that the
 * caller gives is the server's to wait with; the deadline of the message is behind it. An empty
 * answer is that time's end, and nothing else: nothing was taken, whatever has come of the gang
 * stays where it is. */
PS_EXPORT int ps_serving_get_batch(struct ps_serving *serving, const struct ps_serving_wish *wish,
                                   uint64_t timeout_ms, struct ps_serving_batch **batch,
                                   struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    uint32_t workers[PS_PROGRAM_WORKERS_MAX];
    const struct ps_serving_wish any = {0};
    const struct ps_serving_wish *asked = wish != NULL ? wish : &any;
    struct ps_take_request request = {.max = asked->max,
                                      .partial = asked->partial != 0,
                                      .wait_ms = timeout_ms > 0 ? timeout_ms : 1};
    struct taking taking = {.serving = serving};
    uint64_t deadline_ms = ps_deadline_after(serving->client->clock, timeout_ms);
    if (serving->role != PS_SERVING_SERVER)
        return ps_client_fail(error, PS_ERR_BAD_INPUT, "a worker takes nothing");
    enum ps_status status = ps_client_check_process(serving->client, &why);
    if (status == PS_OK)
        status = list_gang(asked, workers, &request, &why);
    if (status == PS_OK)
        status = enter(serving, deadline_ms, &why);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    /* Only this thread changes it, between enter and leave. */
    request.turn = serving->turn;
    status = ask(serving, &request, (struct ps_answer_taker){take_reply, &taking},
                 timeout_ms + MARGIN_MS, &why);
    leave(serving, taking.is_read);
    if (status == PS_OK && taking.batch == NULL)
        status = ps_fail(&why, PS_ERR_TIMEOUT, "nothing came in time%s",
                         request.worker_count > 0 ? " of all workers of the gang" : "");
    if (status != PS_OK) {
        ps_serving_batch_release(taking.batch);
        return ps_client_fail(error, status, why.text);
    }
    *batch = taking.batch;
    return ps_client_succeed(error);
}
