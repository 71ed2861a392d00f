/* SPDX-License-Identifier: Apache-2.0 */
/* One call on its way: encoding, gRPC's batch, and what came back. */
#include "client/channel/channel_grpc.h"

#include "base/assert.h"
#include "client/calls/method_table.h"
#include "client/calls/retry.h"
#include "client/calls/thresholds.h"
#include "client/local/unix_break.h"
#include "proto/bundle_codec.h"
#include "proto/shared_range.h"
#include "proto/status_codes.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* gRPC's own deadline comes a little later than ours, so that it is always we who decide. */
#define DEADLINE_SLACK_MS 100

/* What goes behind the head of a plain message: the content, or the keys of a pull. */
static struct ps_view content_of(const struct ps_call_request *request)
{
    if (ps_call_init_of(request) != NULL)
        return ps_call_init_of(request)->content;
    if (request->method == PS_METHOD_PULL)
        return request->pull.keys;
    /* Of most asked calls there is none. */
    if (ps_method_row(request->method)->is_asked)
        return request->ask_content;
    return request->method == PS_METHOD_PUSH ? request->push.content : (struct ps_view){NULL, 0, 0};
}

/* A plain message. What goes through shared memory is told in place of the content, or of room for
 * the reply; the caller's request stays as it is. */
static void encode_plain(const struct ps_flight_part *part, struct ps_buffer *head)
{
    struct ps_call_request told = *part->part.request;
    const struct ps_method_row *row = ps_method_row(told.method);
    if (told.method == PS_METHOD_PUSH)
        told.push = ps_shared_way_push(&part->shared, &told.push);
    else if (told.method == PS_METHOD_PULL)
        told.pull = ps_shared_way_pull(&part->shared, &told.pull);
    else if (row->is_asked)
        ps_shared_way_ask(&part->shared, &told);
    if (row->encode != NULL)
        row->encode(&told, head);
}

/* Runs once more when content moves to shared memory, so encoding only reads the requests. */
void ps_flight_encode(struct ps_flight *flight, struct ps_buffer *head)
{
    if (flight->is_bundle)
        ps_bundle_encode(flight, head);
    else
        encode_plain(&flight->parts[0], head);
}

static struct ps_flight *create_empty(struct ps_grpc_side *side, enum ps_method method,
                                      size_t head_bytes_max)
{
    struct ps_flight *flight = ps_zeroed(side->memory, sizeof *flight);
    if (flight == NULL)
        return NULL;
    flight->kind = PS_TAG_FLIGHT;
    flight->side = side;
    flight->method = method;
    /* Destroy releases the slice, also that of a flight whose batch has never filled it. */
    flight->details = grpc_empty_slice();
    /* The first pin is the batch's: content that gRPC lets go of early does not hand the flight
     * on. */
    atomic_init(&flight->pins, 1);
    ps_buffer_init(&flight->head, side->memory, head_bytes_max);
    return flight;
}

/* Room for what goes before the contents; what is not used of it is never touched. */
static size_t head_bytes_max(const struct ps_call_part *parts, size_t part_count, bool is_bundle)
{
    if (is_bundle)
        return 2 * (part_count + 1) * PS_BUNDLE_ITEM_BYTES_MAX;
    size_t bytes_max = PS_NAME_BYTES_MAX + PS_CONFIG_BYTES_MAX + PS_SHAPE_TEXT_BYTES + 256;
    /* Thousands of receives are one asked message, beyond what names and configurations take. */
    if (ps_method_row(parts[0].request->method)->is_asked)
        bytes_max += parts[0].request->ask.size;
    if (parts[0].request->method == PS_METHOD_SINCE)
        bytes_max += parts[0].request->since.pull_count * PS_BUNDLE_ITEM_BYTES_MAX;
    return bytes_max;
}

/* Mostly there is one part, which needs no memory of its own. */
static bool take_parts(struct ps_flight *flight, const struct ps_call_part *parts, size_t count)
{
    flight->parts = &flight->one;
    if (count > 1)
        flight->parts = ps_zeroed_array(flight->side->memory, count, sizeof *flight->parts);
    if (flight->parts == NULL)
        return false;
    flight->part_count = count;
    for (size_t i = 0; i < count; i++)
        flight->parts[i].part = parts[i];
    return true;
}

/* The head is encoded here, where a refused allocation can still be told to the caller: behind
 * `submit` each call has an outcome, and nothing of the launch may fail. A push and pull in one is
 * a bundle even by itself, since no plain message has room for both. */
struct ps_flight *ps_flight_create(struct ps_grpc_side *side, const struct ps_call_part *parts,
                                   size_t part_count)
{
    PS_ASSERT(part_count > 0 && part_count <= PS_MESSAGE_CALLS_MAX);
    enum ps_method method = parts[0].request->method;
    enum ps_method bundle = ps_method_row(method)->bundle;
    bool is_bundle = part_count > 1 || method == PS_METHOD_PUSH_PULL;
    PS_ASSERT(!is_bundle || bundle != PS_METHOD_COUNT);
    struct ps_flight *flight = create_empty(side, is_bundle ? bundle : method,
                                            head_bytes_max(parts, part_count, is_bundle));
    if (flight == NULL)
        return NULL;
    flight->is_bundle = is_bundle;
    if (take_parts(flight, parts, part_count)) {
        ps_flight_encode(flight, &flight->head);
        if (!is_bundle)
            flight->content = content_of(parts[0].request);
        PS_ASSERT(flight->content.piece_count <= PS_CONTENT_PIECES_MAX);
        if (ps_buffer_status(&flight->head, NULL) == PS_OK)
            return flight;
    }
    ps_flight_destroy(flight);
    return NULL;
}

const struct ps_call_request *ps_flight_request(const struct ps_flight *flight, size_t i)
{
    return flight->parts[i].part.request;
}

/* The engine's deadline passes first, and its cancellation says why; gRPC's own, a little later,
 * only makes sure that nothing runs for ever. */
void ps_flight_make_call(struct ps_flight *flight)
{
    struct ps_grpc_side *side = flight->side;
    struct ps_connection *connection = flight->connection;
    uint64_t left_ms = ps_time_left_ms(side->clock, flight->deadline_ms);
    gpr_timespec deadline = gpr_inf_future(GPR_CLOCK_MONOTONIC);
    /* A deadline further away than gRPC can be told counts as none. */
    if (left_ms < INT_MAX - DEADLINE_SLACK_MS)
        deadline = ps_grpc_after_ms(left_ms + DEADLINE_SLACK_MS);
    /* From here on a cancellation goes to gRPC. */
    flight->state = PS_FLIGHT_RUNNING;
    atomic_fetch_add(&side->running, 1);
    flight->call = grpc_channel_create_registered_call(
        connection->channel, NULL, GRPC_PROPAGATE_DEFAULTS, side->queue,
        connection->methods[flight->method], deadline, NULL);
}

/* gRPC does not end a call while it writes, and a unix socket may never take what is written: then
 * the socket itself is shut down. */
void ps_flight_end_call(struct ps_flight *flight, grpc_status_code code, const char *text)
{
    if (flight->call == NULL)
        return;
    (void)grpc_call_cancel_with_status(flight->call, code, text, NULL);
    if (flight->connection->is_unix)
        ps_unix_break(flight->connection->address);
}

/* gRPC calls this wherever it lets go, also from within other calls of gRPC: on any thread, and
 * under `side->mutex` when a cancellation lets go. */
static void content_released(void *argument)
{
    PS_TAG_TAKE(argument);
    ps_flight_drop_pin(argument);
}

/* Small content is copied, so that nobody has to know when gRPC has sent it. */
grpc_slice ps_flight_content_slice(struct ps_flight *flight, struct ps_bytes content,
                                   size_t copied_max)
{
    if (content.size <= copied_max)
        return grpc_slice_from_copied_buffer((const char *)content.data, content.size);
    /* The pin is counted before gRPC has the slice: gRPC may let go of it at any time, and a flight
     * without pins is handed on and destroyed. */
    atomic_fetch_add(&flight->pins, 1);
    PS_TAG_GIVE(flight);
    /* gRPC only reads it. */
    return grpc_slice_new_with_user_data((void *)(uintptr_t)content.data, content.size,
                                         content_released, flight);
}

/* Head first, then the content in place: protobuf allows a field's bytes to come last. */
static grpc_byte_buffer *make_message(struct ps_flight *flight)
{
    grpc_slice slices[1 + PS_CONTENT_PIECES_MAX];
    size_t count = 1;
    slices[0] = grpc_slice_from_copied_buffer(flight->head.size > 0 ? flight->head.text : "",
                                              flight->head.size);
    for (size_t i = 0; i < flight->content.piece_count; i++)
        if (flight->content.pieces[i].size > 0)
            slices[count++] =
                ps_flight_content_slice(flight, flight->content.pieces[i], PS_COPIED_BYTES_MAX);
    grpc_byte_buffer *message = grpc_raw_byte_buffer_create(slices, count);
    /* The message holds its own references. Ours would keep the content pinned for ever. */
    for (size_t i = 0; i < count; i++)
        grpc_slice_unref(slices[i]);
    return message;
}

static grpc_metadata ask_for(const char *key)
{
    return (grpc_metadata){.key = grpc_slice_from_static_string(key),
                           .value = grpc_slice_from_static_string(PS_SHARED_METADATA_ASK)};
}

/* Shared memory first, since it changes what the message says. One batch has everything, in order:
 * the message out, the end of what is sent, then metadata, reply and status. gRPC tells its end
 * once. */
void ps_flight_launch(struct ps_flight *flight)
{
    ps_flight_share(flight);
    /* A flight that cannot leave takes the way of any other: its batch is started, and ends at once
     * with this status. */
    if (ps_flight_is_stranded(flight))
        (void)grpc_call_cancel_with_status(flight->call, GRPC_STATUS_UNAVAILABLE,
                                           "the server takes less in one message", NULL);
    flight->message = flight->is_bundle ? ps_bundle_message(flight) : make_message(flight);
    /* Noted, since the link may have its answer from another call before this one's comes. */
    flight->asks = ps_shared_link_asks(flight->connection->shared);
    grpc_metadata asks[3];
    size_t ask_count = 0;
    if (flight->connection->has_token)
        asks[ask_count++] = (grpc_metadata){.key = grpc_slice_from_static_string("authorization"),
                                            .value = flight->connection->authorization};
    if (flight->asks != 0) {
        asks[ask_count++] = ask_for(PS_SHARED_METADATA_KEY);
        asks[ask_count++] = ask_for(PS_MESSAGE_BYTES_METADATA_KEY);
    }
    grpc_metadata_array_init(&flight->first_metadata);
    grpc_metadata_array_init(&flight->last_metadata);
    grpc_op ops[6];
    memset(ops, 0, sizeof ops);
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[0].flags =
        GRPC_INITIAL_METADATA_WAIT_FOR_READY | GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET;
    ops[0].data.send_initial_metadata.count = ask_count;
    ops[0].data.send_initial_metadata.metadata = asks;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = flight->message;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &flight->first_metadata;
    ops[4].op = GRPC_OP_RECV_MESSAGE;
    ops[4].data.recv_message.recv_message = &flight->reply;
    ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[5].data.recv_status_on_client.trailing_metadata = &flight->last_metadata;
    ops[5].data.recv_status_on_client.status = &flight->code;
    ops[5].data.recv_status_on_client.status_details = &flight->details;
    /* From the start of the batch on, other threads may end, take and destroy the flight: nothing
     * below reads it. */
    grpc_call *call = flight->call;
    PS_TAG_GIVE(flight);
    grpc_call_error failed = grpc_call_start_batch(call, ops, PS_ARRAY_COUNT(ops), flight, NULL);
    PS_ASSERT(failed == GRPC_CALL_OK);
}

/* Whoever drops the last pin hands the flight on: the batch may end before gRPC lets go of the
 * content, or behind it. */
void ps_flight_drop_pin(struct ps_flight *flight)
{
    struct ps_grpc_side *side = flight->side;
    if (atomic_fetch_sub(&flight->pins, 1) != 1)
        return;
    ps_mutex_lock(&side->done_mutex);
    flight->next_done = NULL;
    if (side->done_first == NULL)
        side->done_first = flight;
    else
        side->done_last->next_done = flight;
    side->done_last = flight;
    /* The list has the flight before the poller is woken: a poller that looked first would find
     * nothing, and sleep beside its answer. The two locks are leaves, never held together. */
    ps_mutex_unlock(&side->done_mutex);
    ps_grpc_poll_wake(side);
}

/* What the server said under `key`; empty: nothing. */
static struct ps_bytes find_metadata(const grpc_metadata_array *metadata, const char *key)
{
    for (size_t i = 0; i < metadata->count; i++) {
        const grpc_metadata *entry = &metadata->metadata[i];
        if (grpc_slice_str_cmp(entry->key, key) == 0)
            return (struct ps_bytes){GRPC_SLICE_START_PTR(entry->value),
                                     GRPC_SLICE_LENGTH(entry->value)};
    }
    return (struct ps_bytes){NULL, 0};
}

/* Digits; 0 for anything else, and for more than a number holds. */
static uint64_t number_of(struct ps_bytes digits)
{
    uint64_t number = 0;
    for (size_t i = 0; i < digits.size; i++) {
        unsigned digit = digits.data[i] - (unsigned)'0';
        if (digit > 9 || number > (UINT64_MAX - digit) / 10)
            return 0;
        number = number * 10 + digit;
    }
    return number;
}

/* gRPC refuses a message that is too large before the server sees any of it, in words that say
 * nothing of what to do. What may go in ranges or through shared memory has gone there. */
static void explain_size(struct ps_flight *flight)
{
    unsigned long long bytes, bytes_max;
    if (sscanf(flight->text, "Received message larger than max (%llu vs. %llu)", &bytes,
               &bytes_max) != 2)
        return;
    (void)snprintf(flight->text, sizeof flight->text,
                   "a message of %llu bytes, and the server takes %llu (--message-bytes); shared "
                   "memory on one host has no such bound",
                   bytes, bytes_max);
}

/* Only a status that the server itself has set may be a refusal. What gRPC says by itself, the
 * server may have done all the same. */
static void note_status(struct ps_flight *flight)
{
    bool from_server;
    struct ps_bytes word = find_metadata(&flight->last_metadata, PS_STATUS_METADATA_KEY);
    flight->status = ps_status_of_reply((uint32_t)flight->code, word, &from_server);
    flight->answered = from_server;
    /* A refusal needs the server's own word. */
    flight->refused = from_server && ps_retry_is_refusal(flight->method, flight->status);
    flight->session = number_of(find_metadata(&flight->last_metadata, PS_SESSION_METADATA_KEY));
    /* Whatever gRPC calls it: the call broke on the way. */
    if (!from_server && flight->status == PS_ERR_INTERNAL)
        flight->status = PS_ERR_UNAVAILABLE;

    size_t size = GRPC_SLICE_LENGTH(flight->details);
    if (size > sizeof flight->text - 1)
        size = sizeof flight->text - 1;
    memcpy(flight->text, GRPC_SLICE_START_PTR(flight->details), size);
    flight->text[size] = '\0';
    /* A server of ours has words of its own, which stay as they are. */
    if (!from_server)
        explain_size(flight);
}

/* Both ways together, since either may fill the network. */
static bool is_small(const struct ps_flight *flight)
{
    size_t bytes = grpc_byte_buffer_length(flight->message);
    if (flight->reply != NULL)
        bytes += grpc_byte_buffer_length(flight->reply);
    return bytes <= PS_SMALL_MESSAGE_BYTES;
}

/* What outlives the batch is noted, everything else goes back to gRPC. The call is taken away
 * under the lock, since a cancellation looks at it there. */
void ps_flight_ended(struct ps_flight *flight)
{
    struct ps_grpc_side *side = flight->side;
    /* The batch has ended, so only this thread changes the flight until the last pin is dropped; a
     * cancellation reads the call beside it, hence the lock below. */
    atomic_fetch_sub(&side->running, 1);
    side->role.small = is_small(flight);
    note_status(flight);
    if (flight->is_stuck)
        ps_flight_note_stuck(flight);
    if (flight->asks != 0 && flight->answered)
        ps_shared_link_answered(
            flight->connection->shared, flight->asks,
            find_metadata(&flight->first_metadata, PS_SHARED_METADATA_KEY),
            find_metadata(&flight->first_metadata, PS_MESSAGE_BYTES_METADATA_KEY));
    if (ps_shared_link_works(flight->connection->shared))
        flight->as_one_bytes_max = ps_connection_content_bytes_max(flight->connection);
    /* Behind the status: a slot is used again only if the server itself has answered. */
    ps_flight_shared_ended(flight);

    ps_mutex_lock(&side->mutex);
    grpc_call *call = flight->call;
    flight->call = NULL;
    ps_mutex_unlock(&side->mutex);
    /* gRPC's memory for the call goes at once; the reply is counted by itself. */
    grpc_call_unref(call);
    grpc_metadata_array_destroy(&flight->first_metadata);
    grpc_metadata_array_destroy(&flight->last_metadata);
    grpc_byte_buffer_destroy(flight->message);
    flight->message = NULL;

    /* Nothing reads the flight behind this: another thread may have taken and destroyed it. While
     * gRPC still reads content, gRPC's own pin keeps the flight from `take`, and so the caller's
     * memory from being given back. */
    ps_flight_drop_pin(flight);
}

/* Accepts a flight of which only a part was made. One that still has room in shared memory gives
 * it back, and says whether the server has answered, so that nobody writes there any more. */
void ps_flight_destroy(struct ps_flight *flight)
{
    const struct ps_allocator *memory = flight->side->memory;
    ps_flight_shared_release(flight);
    ps_decoded_release(&flight->decoded);
    ps_release(memory, flight->pieces);
    if (flight->parts != &flight->one)
        ps_release(memory, flight->parts);
    if (flight->reply != NULL)
        grpc_byte_buffer_destroy(flight->reply);
    grpc_slice_unref(flight->details);
    ps_buffer_fini(&flight->head);
    ps_release(memory, flight);
}

/* The reply as a view over gRPC's slices. */
enum ps_status ps_flight_view_reply(struct ps_flight *flight, struct ps_view *view,
                                    struct ps_error *error)
{
    *view = (struct ps_view){NULL, 0, 0};
    const grpc_byte_buffer *reply = flight->reply;
    if (reply == NULL || reply->type != GRPC_BB_RAW ||
        reply->data.raw.compression != GRPC_COMPRESS_NONE)
        return ps_fail(error, PS_ERR_INTERNAL, "the reply has no message");

    const grpc_slice_buffer *slices = &reply->data.raw.slice_buffer;
    flight->pieces = ps_zeroed_array(flight->side->memory, slices->count, sizeof *flight->pieces);
    if (flight->pieces == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a reply");
    for (size_t i = 0; i < slices->count; i++) {
        flight->pieces[i] = (struct ps_bytes){GRPC_SLICE_START_PTR(slices->slices[i]),
                                              GRPC_SLICE_LENGTH(slices->slices[i])};
        view->size += flight->pieces[i].size;
    }
    view->pieces = flight->pieces;
    view->piece_count = slices->count;
    return PS_OK;
}

/* The view goes through gRPC's slices, so that content is copied once, into the caller's memory. */
static enum ps_status decode(struct ps_flight *flight, struct ps_call_reply *reply,
                             struct ps_error *error)
{
    struct ps_view view;
    PS_TRY(ps_flight_view_reply(flight, &view, error));
    reply->method = ps_flight_request(flight, 0)->method;
    const struct ps_method_row *row = ps_method_row(reply->method);
    if (row->decode != NULL)
        PS_TRY(row->decode(view, flight->side->memory, reply, &flight->decoded, error));
    const struct ps_shared_way *way = &flight->parts[0].shared;
    /* Where in the room each value is only its reader knows: a reply may have several. */
    if (row->shares && way->pull_size > 0)
        reply->ask_room = (struct ps_bytes){way->slot.bytes + way->room_at, way->pull_size};
    if (reply->method != PS_METHOD_PULL)
        return PS_OK;
    return ps_shared_way_found(&flight->parts[0].shared, &reply->pull, error);
}

/* What the outcomes of all parts have in common: what became of their message. */
void ps_flight_outcome_failed(const struct ps_flight *flight, struct ps_call_outcome *outcome)
{
    memset(outcome, 0, sizeof *outcome);
    outcome->status = flight->status;
    outcome->refused = flight->refused;
    outcome->session = flight->session;
    outcome->as_one_bytes_max = flight->as_one_bytes_max;
    memcpy(outcome->text, flight->text, sizeof outcome->text);
}

/* A reply that cannot be read is not a refusal: the server has done what was asked. */
void ps_flight_outcome(struct ps_flight *flight, size_t i, struct ps_call_outcome *outcome)
{
    if (flight->is_bundle) {
        ps_bundle_outcome(flight, i, outcome);
        return;
    }
    PS_ASSERT(i == 0);
    ps_flight_outcome_failed(flight, outcome);
    if (flight->status != PS_OK)
        return;
    struct ps_error error = {.status = PS_OK};
    if (decode(flight, &outcome->reply, &error) == PS_OK)
        return;
    /* The server did it, only its answer cannot be read. */
    outcome->status = error.status == PS_ERR_NO_MEMORY ? PS_ERR_NO_MEMORY : PS_ERR_INTERNAL;
    memcpy(outcome->text, error.text, strnlen(error.text, sizeof outcome->text - 1));
}
