/* SPDX-License-Identifier: Apache-2.0 */
/* The one place where calls touch gRPC's operations: what a slot owns of a call, what keeps a
 * request alive beyond it, and how batches are put together.
 *
 * A request's message has one owner at a time. Mostly that is the call. When the journal, or an
 * update in ranges, keeps the bytes for longer, the message moves to a counted struct of its own,
 * and the last of its holders destroys it; the call is free for the next request meanwhile. */
#include "server/rpc/rpc_call.h"

#include "base/assert.h"
#include "proto/shared_range.h"
#include "proto/status_codes.h"
#include "server/rpc/rpc_context.h"

#include <grpc/slice.h>
#include <grpc/slice_buffer.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static struct ps_bytes share_of_caller(void *self);
static bool may_begin_client(void *self, uint32_t *wait_ms);
static void item_refused(void *self, const struct ps_error *error);
static grpc_slice put_digits(grpc_slice *slice, uint64_t number);

struct ps_rpc_kept {
    atomic_uint references;
    const struct ps_allocator *memory; /* borrowed; outlives this */
    grpc_byte_buffer *message;         /* owned */
    atomic_bool is_counted;            /* by one of its holders */
};

void ps_rpc_call_init(struct ps_rpc_call *call, struct ps_lane *lane)
{
    *call = (struct ps_rpc_call){.lane = lane,
                                 .origin = {.share = share_of_caller,
                                            .may_begin = may_begin_client,
                                            .refused = item_refused,
                                            .self = call}};
    grpc_metadata_array_init(&call->metadata);
}

/* A registered method brings its message with the request, so that a call needs no batch of its own
 * to read one. gRPC refuses this only while the server has not started or after its queue is shut
 * down: both would be bugs of ours. */
void ps_rpc_call_ask(struct ps_rpc_call *call, void *registered, enum ps_rpc_kind kind,
                     struct ps_tag *tag)
{
    struct ps_lane *lane = call->lane;
    grpc_call_error failed = grpc_server_request_registered_call(
        lane->context->server, registered, &call->call, &call->deadline, &call->metadata,
        kind == PS_RPC_UNARY ? &call->request : NULL, lane->queue, lane->queue, tag);
    PS_ASSERT(failed == GRPC_CALL_OK);
}

/* The server counts the call from here on: a drain waits for it. */
void ps_rpc_call_begin(struct ps_rpc_call *call)
{
    PS_ASSERT(call->call != NULL && !call->counted);
    call->counted = true;
    ps_rpc_call_came(call->lane->context);
}

/* The reply goes here and not when its batch is done: slices of it may point at blocks that a pull
 * holds, and this is where the call lets go of everything at once. The slot is then as it was
 * made. */
void ps_rpc_call_clear(struct ps_rpc_call *call)
{
    ps_rpc_call_drop_request(call);
    grpc_byte_buffer_destroy(call->reply);
    grpc_metadata_array_destroy(&call->metadata);
    for (size_t i = 0; i < call->offer_count; i++)
        grpc_slice_unref(call->offers[i].value);
    if (call->call != NULL)
        grpc_call_unref(call->call);
    if (call->counted_bytes > 0)
        ps_budgets_leave(&call->lane->context->budgets, call->budget, PS_SUM_BYTES,
                         call->counted_bytes);
    ps_waiting_leave(call);
    if (call->counted)
        ps_rpc_call_went(call->lane->context);
    /* The rules that the call was held against go with it. */
    ps_pass_release(&call->pass);
    ps_rpc_call_init(call, call->lane);
}

/* gRPC makes a string of the address: 50 ns, so only those calls ask whose share is counted. */
const struct ps_caller *ps_rpc_call_caller(struct ps_rpc_call *call)
{
    if (!call->caller_is_known) {
        char *peer = grpc_call_get_peer(call->call);
        ps_caller_init(&call->caller, peer);
        gpr_free(peer);
        call->caller_is_known = true;
    }
    return &call->caller;
}

/* Small messages are not counted, so that they cost nothing. What is counted is the connection's,
 * by its whole address, under which nothing is left when its calls have ended. A reply to a push is
 * counted without asking: the push was applied, and must be answered. A call that counts for the
 * second time, for its reply, goes on in the entry that it has. */
enum ps_status ps_rpc_call_count(struct ps_rpc_call *call, uint64_t bytes, bool refusable,
                                 struct ps_error *error)
{
    struct ps_rpc_context *context = call->lane->context;
    /* No bound is the same as one that nothing reaches. */
    uint64_t max = refusable ? context->client_bytes_max : 0;
    uint64_t before = 0;
    bool fits;
    if (bytes < PS_BUDGET_COUNTED_BYTES)
        return PS_OK;
    if (call->counted_bytes > 0)
        fits = ps_budgets_more(&context->budgets, call->budget, PS_SUM_BYTES, bytes, max, &before);
    else
        fits = ps_budgets_enter(&context->budgets, ps_caller_connection(ps_rpc_call_caller(call)),
                                PS_SUM_BYTES, bytes, max, ps_now_ms(context->clock), &call->budget,
                                &before);
    if (!fits)
        return ps_refuse(error, PS_ERR_BUSY, PS_REFUSED_CLIENT_BYTES, 0,
                         "this client has %" PRIu64 " bytes on their way, of at most %" PRIu64
                         " (--client-bytes): %" PRIu64 " more must wait",
                         before, max, bytes);
    call->counted_bytes += bytes;
    return PS_OK;
}

/* Asked under locks of the core, by large requests and new clients only: what is made here is a
 * text, and a look into a table. */
static struct ps_bytes share_of_caller(void *self)
{
    return ps_caller_share(ps_rpc_call_caller(self));
}

/* Of a message of many items each is refused by itself. */
static void item_refused(void *self, const struct ps_error *error)
{
    ps_rpc_call_refused(self, error);
}

/* A connection begins with few clients, mostly one; a host with those of its machine, or of all
 * machines behind one address. All clients of a unix socket look like one connection, so that they
 * have the pace of a host. */
static bool may_begin_client(void *self, uint32_t *wait_ms)
{
    struct ps_rpc_call *call = self;
    struct ps_rpc_context *context = call->lane->context;
    /* Both paces are looked at with one time: the second must not see an earlier one. */
    const struct ps_caller *caller = ps_rpc_call_caller(call);
    uint64_t now_ms = ps_now_ms(context->clock);
    if (!caller->is_shared && !ps_budgets_take(&context->budgets, ps_caller_connection(caller),
                                               PS_PACE_SESSIONS, now_ms, wait_ms))
        return false;
    return (caller->is_local && !caller->is_shared) ||
           ps_budgets_take(&context->budgets, ps_caller_host(caller), PS_PACE_HOST_SESSIONS, now_ms,
                           wait_ms);
}

/* For serve.h, which knows neither callers nor rules. */
static enum ps_status check_name(void *self, struct ps_bytes name, bool changes,
                                 struct ps_error *error)
{
    const struct ps_rpc_call *call = self;
    return ps_gate_check_name(&call->lane->context->gate, &call->pass, name, changes, error);
}

/* Where the gate stands open not even the address is asked for. The guard is made of the pass when
 * there is one: most servers let everybody in, and their calls pay nothing. */
enum ps_status ps_rpc_call_enter(struct ps_rpc_call *call, enum ps_method method,
                                 const struct ps_serve_guard **guard, struct ps_error *error)
{
    const struct ps_gate *gate = &call->lane->context->gate;
    *guard = NULL;
    /* Health is asked by load balancers and kubelets, which have nothing to show. */
    if (!gate->asks || method == PS_METHOD_COUNT)
        return PS_OK;
    PS_TRY(ps_gate_enter(gate, call->call, &call->metadata, ps_rpc_call_caller(call), method,
                         &call->pass, error));
    /* It points to the call itself, which stays where it is until it is cleared. */
    call->guard = (struct ps_serve_guard){check_name, call->pass.identity.owner, call};
    /* Operators look at the clients of others, and push as nobody but themselves. */
    if (method == PS_METHOD_APPLIED && ps_gate_is_operator(gate, &call->pass))
        call->guard.owner = 0;
    *guard = &call->guard;
    return PS_OK;
}

/* Every refusal passes here on its way to the wire, whoever refused: so each is counted once, with
 * the caller whom only this floor knows. */
void ps_rpc_call_refused(struct ps_rpc_call *call, const struct ps_error *error)
{
    /* Most failures are no refusals: a name that is wrong, a shard that has moved. */
    if (error->status == PS_OK || error->refusal == PS_REFUSED_NOT)
        return;
    ps_refusals_note(&call->lane->context->refusals, error->refusal, 1,
                     ps_caller_connection(ps_rpc_call_caller(call)), error->text);
}

/* A compressed message is refused and not unpacked: its size would be known too late to bound what
 * it needs. Most requests are of few slices, which need no allocation. */
enum ps_status ps_rpc_call_view(struct ps_rpc_call *call, struct ps_view *view,
                                struct ps_error *error)
{
    PS_ASSERT(call->pieces == NULL);
    if (call->request == NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "the call has no message");
    if (call->request->data.raw.compression != GRPC_COMPRESS_NONE)
        return ps_fail(error, PS_ERR_UNSUPPORTED, "compressed messages are not accepted");
    const grpc_slice_buffer *slices = &call->request->data.raw.slice_buffer;
    call->pieces = call->inline_pieces;
    if (slices->count > PS_RPC_PIECES_INLINE)
        call->pieces =
            ps_zeroed_array(call->lane->context->memory, slices->count, sizeof *call->pieces);
    if (call->pieces == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "rpc: %zu slices", slices->count);
    /* Short slices have their bytes inside themselves: always point into the buffer's own. */
    for (size_t i = 0; i < slices->count; i++)
        call->pieces[i] = (struct ps_bytes){GRPC_SLICE_START_PTR(slices->slices[i]),
                                            GRPC_SLICE_LENGTH(slices->slices[i])};
    *view = (struct ps_view){call->pieces, slices->count, slices->length};
    return PS_OK;
}

/* The first to keep the request gives it an owner of its own, with a reference for the call;
 * without anybody the call alone owns it, and nothing is allocated. */
static void *keep_request(void *self)
{
    struct ps_rpc_call *call = self;
    PS_ASSERT(call->request != NULL);
    if (call->kept == NULL) {
        const struct ps_allocator *memory = call->lane->context->memory;
        struct ps_rpc_kept *kept = ps_zeroed(memory, sizeof *kept);
        if (kept == NULL)
            return NULL;
        kept->memory = memory;
        kept->message = call->request;
        atomic_init(&kept->references, 1);
        call->kept = kept;
    }
    atomic_fetch_add(&call->kept->references, 1);
    return call->kept;
}

/* On any thread: the journal drops what it has written. */
static void drop_kept(void *argument)
{
    struct ps_rpc_kept *kept = argument;
    unsigned before = atomic_fetch_sub(&kept->references, 1);
    PS_ASSERT(before > 0);
    if (before > 1)
        return;
    grpc_byte_buffer_destroy(kept->message);
    ps_release(kept->memory, kept);
}

/* A message of many items may be kept by each of them, and is in memory once. */
static uint64_t count_kept(void *argument)
{
    struct ps_rpc_kept *kept = argument;
    return atomic_exchange(&kept->is_counted, true) ? 0 : grpc_byte_buffer_length(kept->message);
}

/* By whoever counted it; the next holder that comes counts it again. */
static void count_kept_back(void *argument)
{
    struct ps_rpc_kept *kept = argument;
    bool was_counted = atomic_exchange(&kept->is_counted, false);
    PS_ASSERT(was_counted);
}

/* Only a promise: nothing is counted until somebody really keeps the bytes. */
struct ps_hold ps_rpc_call_hold(struct ps_rpc_call *call)
{
    size_t size = call->request != NULL ? grpc_byte_buffer_length(call->request) : 0;
    return (struct ps_hold){.keep = keep_request,
                            .drop = drop_kept,
                            .self = call,
                            .bytes = size,
                            .count = count_kept,
                            .count_back = count_kept_back};
}

/* A request that the journal keeps lives on; the view of it ends here in any case. */
void ps_rpc_call_drop_request(struct ps_rpc_call *call)
{
    if (call->pieces != call->inline_pieces)
        ps_release(call->lane->context->memory, call->pieces);
    call->pieces = NULL;
    if (call->kept != NULL)
        drop_kept(call->kept);
    else
        grpc_byte_buffer_destroy(call->request);
    call->kept = NULL;
    call->request = NULL;
}

/* gRPC does not promise on which clock its deadline is: the conversion makes it the one that nobody
 * sets. */
bool ps_rpc_call_is_late(const struct ps_rpc_call *call)
{
    gpr_timespec deadline = gpr_convert_clock_type(call->deadline, GPR_CLOCK_MONOTONIC);
    return gpr_time_cmp(deadline, gpr_now(GPR_CLOCK_MONOTONIC)) <= 0;
}

void ps_rpc_batch_init(struct ps_rpc_batch *batch, struct ps_rpc_call *call)
{
    memset(batch, 0, sizeof *batch);
    batch->call = call;
    batch->details = grpc_empty_slice();
    batch->digits[0] = grpc_empty_slice();
    batch->digits[1] = grpc_empty_slice();
}

/* An operation is one field of the batch; a batch of more than there is room for is a bug of
 * ours. */
static grpc_op *add(struct ps_rpc_batch *batch, grpc_op_type type)
{
    PS_ASSERT(batch->count < PS_ARRAY_COUNT(batch->ops));
    grpc_op *op = &batch->ops[batch->count++];
    op->op = type;
    return op;
}

/* Offers are answers to questions in the request's metadata. Only a client that does not know the
 * answer yet asks, so that the headers of most replies carry nothing. */
static bool asks_for(const struct ps_rpc_call *call, const char *key)
{
    for (size_t i = 0; i < call->metadata.count; i++) {
        if (grpc_slice_str_cmp(call->metadata.metadata[i].key, key) == 0)
            return true;
    }
    return false;
}

/* Offers go with the reply to a client that asked, and nowhere else: they cost bytes in every
 * header otherwise. */
static void offer(struct ps_rpc_call *call, const char *key, const char *name)
{
    if (name == NULL || !asks_for(call, key))
        return;
    PS_ASSERT(call->offer_count < PS_ARRAY_COUNT(call->offers));
    call->offers[call->offer_count++] = (grpc_metadata){
        .key = grpc_slice_from_static_string(key), .value = grpc_slice_from_copied_string(name)};
}

/* Initial metadata can be sent once. Of a stream the first message brings them. A refusal brings
 * them, too: what a server offers does not depend on what it says to one call. */
void ps_rpc_batch_headers(struct ps_rpc_batch *batch)
{
    struct ps_rpc_call *call = batch->call;
    if (call->headers_sent)
        return;
    grpc_op *op = add(batch, GRPC_OP_SEND_INITIAL_METADATA);
    const struct ps_rpc_context *context = call->lane->context;
    offer(call, PS_SHARED_METADATA_KEY,
          context->shared != NULL ? ps_shared_memory_name(context->shared) : NULL);
    offer(call, PS_MESSAGE_BYTES_METADATA_KEY, context->message_bytes_text);
    op->data.send_initial_metadata.count = call->offer_count;
    op->data.send_initial_metadata.metadata = call->offers;
    call->headers_sent = true;
}

/* The call keeps the message until it is cleared: gRPC reads it until the tag is back. */
void ps_rpc_batch_message(struct ps_rpc_batch *batch, grpc_byte_buffer *message)
{
    grpc_byte_buffer_destroy(batch->call->reply);
    batch->call->reply = message;
    add(batch, GRPC_OP_SEND_MESSAGE)->data.send_message.send_message = message;
}

void ps_rpc_batch_receive(struct ps_rpc_batch *batch)
{
    PS_ASSERT(batch->call->request == NULL);
    add(batch, GRPC_OP_RECV_MESSAGE)->data.recv_message.recv_message = &batch->call->request;
}

/* A failure says three things: a code that every client of gRPC understands, a word of ours that is
 * exact (codes are few), and a text for people. Clients decide by the word. */
void ps_rpc_batch_status(struct ps_rpc_batch *batch, enum ps_status status, const char *text)
{
    grpc_op *op = add(batch, GRPC_OP_SEND_STATUS_FROM_SERVER);
    op->data.send_status_from_server.status = (grpc_status_code)ps_rpc_code_of_status(status);
    if (status == PS_OK)
        return;
    grpc_metadata *word = batch->call->status_words;
    word->key = grpc_slice_from_static_string(PS_STATUS_METADATA_KEY);
    word->value = grpc_slice_from_static_string(ps_status_word(status));
    op->data.send_status_from_server.trailing_metadata_count = 1;
    if (status == PS_ERR_BUSY) {
        /* gRPC's own word for when to come again; its retrying clients understand it. */
        word[1].key = grpc_slice_from_static_string("grpc-retry-pushback-ms");
        word[1].value = grpc_slice_from_static_string("50");
        op->data.send_status_from_server.trailing_metadata_count = 2;
    }
    op->data.send_status_from_server.trailing_metadata = word;
    batch->details = grpc_slice_from_copied_string(text);
    op->data.send_status_from_server.status_details = &batch->details;
}

/* Behind the words that are there: a program may be busy, too. */
void ps_rpc_batch_suggest_session(struct ps_rpc_batch *batch, uint64_t session)
{
    grpc_op *op = &batch->ops[batch->count - 1];
    PS_ASSERT(op->op == GRPC_OP_SEND_STATUS_FROM_SERVER);
    size_t *count = &op->data.send_status_from_server.trailing_metadata_count;
    if (session == 0 || *count == 0)
        return;
    PS_ASSERT(*count < PS_ARRAY_COUNT(batch->call->status_words));
    batch->call->status_words[(*count)++] =
        (grpc_metadata){.key = grpc_slice_from_static_string(PS_SESSION_METADATA_KEY),
                        .value = put_digits(&batch->digits[0], session)};
}

/* In the place of the pause that ps_rpc_batch_status has put there. */
void ps_rpc_batch_suggest_pause(struct ps_rpc_batch *batch, uint32_t retry_ms)
{
    const grpc_op *op = &batch->ops[batch->count - 1];
    PS_ASSERT(op->op == GRPC_OP_SEND_STATUS_FROM_SERVER);
    if (retry_ms == 0)
        return;
    PS_ASSERT(op->data.send_status_from_server.trailing_metadata_count == 2);
    batch->call->status_words[1].value = put_digits(&batch->digits[1], retry_ms);
}

/* The slice is the batch's, and goes with it. */
static grpc_slice put_digits(grpc_slice *slice, uint64_t number)
{
    char digits[24];
    (void)snprintf(digits, sizeof digits, "%" PRIu64, number);
    *slice = grpc_slice_from_copied_string(digits);
    return *slice;
}

/* Comes back when the client knows the end of the call, or has cancelled it, or its connection is
 * gone. A slot that waited for its reply only could not tell a cancelled call from a finished
 * one. */
void ps_rpc_batch_close(struct ps_rpc_batch *batch)
{
    add(batch, GRPC_OP_RECV_CLOSE_ON_SERVER)->data.recv_close_on_server.cancelled =
        &batch->call->cancelled;
}

/* A batch that gRPC refuses is a bug of ours: a client's doing never makes it refuse one. gRPC has
 * taken references of its own on the two slices when the function returns. */
void ps_rpc_batch_start(struct ps_rpc_batch *batch, struct ps_tag *tag)
{
    grpc_call_error failed =
        grpc_call_start_batch(batch->call->call, batch->ops, batch->count, tag, NULL);
    PS_ASSERT(failed == GRPC_CALL_OK);
    grpc_slice_unref(batch->details);
    grpc_slice_unref(batch->digits[0]);
    grpc_slice_unref(batch->digits[1]);
}

/* "Timed out" is the one status that leaves open whether the request was done; every other would be
 * believed. */
enum ps_status ps_rpc_fail_unanswered(struct ps_error *error)
{
    return ps_fail(error, PS_ERR_TIMEOUT,
                   "no memory for the reply: the request was carried out; repeat it under its "
                   "request id to learn what became of it");
}

/* For small replies: a copy costs less than a count and a callback. */
grpc_byte_buffer *ps_rpc_message_of(struct ps_bytes bytes)
{
    grpc_slice slice = grpc_slice_from_copied_buffer((const char *)bytes.data, bytes.size);
    grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return message;
}
