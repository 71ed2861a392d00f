/* Several calls in one message: what goes out, and an outcome for each. */
#include "client/channel/channel_grpc.h"

#include "base/assert.h"
#include "client/calls/retry.h"
#include "proto/bundle_codec.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/slice_buffer.h>

#include <string.h>

/* The message that carries calls of this method. */
static enum ps_method bundle_of(enum ps_method method)
{
    if (method == PS_METHOD_PUSH)
        return PS_METHOD_PUSHES;
    if (method == PS_METHOD_PULL)
        return PS_METHOD_PULLS;
    PS_ASSERT(method == PS_METHOD_PUSH_PULL);
    return PS_METHOD_PUSH_PULL;
}

void ps_flight_bundle_encode(struct ps_flight *flight, struct ps_buffer *head)
{
    const struct ps_push_request *first = ps_call_push_of(flight->request);
    const struct ps_request_id base = first != NULL ? first->request : (struct ps_request_id){0};
    if (first != NULL)
        ps_encode_bundle_id(&base, head);
    for (size_t i = 0; i < flight->part_count; i++) {
        struct ps_flight_part *part = &flight->parts[i];
        const struct ps_push_request *push = ps_call_push_of(part->part.request);
        if (push != NULL) {
            const struct ps_push_request told = ps_shared_way_push(&part->shared, push);
            ps_encode_bundle_push(&told, &base, i, head);
        }
        part->head_end = head->size;
    }
    for (size_t i = 0; i < flight->part_count; i++) {
        const struct ps_flight_part *part = &flight->parts[i];
        const struct ps_pull_request *pull = ps_call_pull_of(part->part.request);
        if (pull != NULL) {
            const struct ps_pull_request told = ps_shared_way_pull(&part->shared, pull);
            ps_encode_bundle_pull(&told, head);
        }
    }
}

struct ps_flight *ps_flight_create_bundle(struct ps_grpc_side *side,
                                          const struct ps_call_part *parts, size_t part_count)
{
    PS_ASSERT(part_count > 0 && part_count <= PS_MESSAGE_CALLS_MAX);
    struct ps_flight *flight = ps_flight_create_empty(
        side, bundle_of(parts[0].request->method), 2 * (part_count + 1) * PS_BUNDLE_ITEM_BYTES_MAX);
    if (flight == NULL)
        return NULL;
    flight->request = parts[0].request;
    flight->parts = ps_zeroed_array(side->memory, part_count, sizeof *flight->parts);
    flight->part_count = flight->parts != NULL ? part_count : 0;
    for (size_t i = 0; i < flight->part_count; i++)
        flight->parts[i].part = parts[i];
    ps_flight_bundle_encode(flight, &flight->head);
    if (flight->parts == NULL || ps_buffer_status(&flight->head, NULL) != PS_OK) {
        ps_flight_destroy(flight);
        return NULL;
    }
    return flight;
}

grpc_byte_buffer *ps_flight_bundle_message(struct ps_flight *flight)
{
    grpc_slice head = grpc_slice_from_copied_buffer(flight->head.text, flight->head.size);
    grpc_byte_buffer *message = grpc_raw_byte_buffer_create(NULL, 0);
    grpc_slice_buffer *slices = &message->data.raw.slice_buffer;
    size_t copied_max = flight->part_count > 1 ? PS_COPIED_PART_BYTES_MAX : PS_COPIED_BYTES_MAX;
    size_t done = 0;
    for (size_t i = 0; i < flight->part_count; i++) {
        const struct ps_push_request *push = ps_call_push_of(flight->parts[i].part.request);
        if (push == NULL || push->content.size == 0 || flight->parts[i].shared.push_size > 0)
            continue;
        grpc_slice_buffer_add(slices, grpc_slice_sub(head, done, flight->parts[i].head_end));
        for (size_t k = 0; k < push->content.piece_count; k++)
            grpc_slice_buffer_add(
                slices, ps_flight_content_slice(flight, push->content.pieces[k], copied_max));
        done = flight->parts[i].head_end;
    }
    if (done < flight->head.size)
        grpc_slice_buffer_add(slices, grpc_slice_sub(head, done, flight->head.size));
    grpc_slice_unref(head);
    return message;
}

/* Once for all parts. What cannot be read was done by the server all the same. */
static void decode(struct ps_flight *flight)
{
    struct ps_error error = {.status = PS_OK};
    struct ps_view view;
    flight->has_bundle = true;
    if (flight->status != PS_OK)
        return;
    enum ps_status status = ps_flight_view_reply(flight, &view, &error);
    if (status == PS_OK)
        status = ps_decode_bundle_reply(view, flight->side->memory, &flight->bundle,
                                        &flight->decoded, &error);
    size_t pushes = ps_call_push_of(flight->request) != NULL ? flight->part_count : 0;
    size_t pulls = ps_call_pull_of(flight->request) != NULL ? flight->part_count : 0;
    if (status == PS_OK &&
        (flight->bundle.push_count != pushes || flight->bundle.pull_count != pulls))
        status = ps_fail(&error, PS_ERR_INTERNAL, "a reply of %zu and %zu results for %zu calls",
                         flight->bundle.push_count, flight->bundle.pull_count, flight->part_count);
    if (status == PS_OK)
        return;
    flight->status = status == PS_ERR_NO_MEMORY ? status : PS_ERR_INTERNAL;
    memcpy(flight->text, error.text, strnlen(error.text, sizeof flight->text - 1));
}

static void note_failure(const struct ps_item_status *status, enum ps_method method, bool applied,
                         struct ps_call_outcome *outcome)
{
    size_t size = status->text.size;
    if (size > sizeof outcome->text - 1)
        size = sizeof outcome->text - 1;
    outcome->status = status->status;
    outcome->session = status->session;
    outcome->refused =
        !applied && status->from_server && ps_retry_is_refusal(method, status->status);
    if (size > 0)
        memcpy(outcome->text, status->text.data, size);
}

/* False: the outcome says what is wrong with the reply. */
static bool find_shared(struct ps_shared_way *way, struct ps_pull_reply *reply,
                        struct ps_call_outcome *outcome)
{
    struct ps_error error = {.status = PS_OK};
    outcome->status = ps_shared_way_found(way, reply, &error);
    memcpy(outcome->text, error.text, strnlen(error.text, sizeof outcome->text - 1));
    return outcome->status == PS_OK;
}

void ps_flight_bundle_outcome(struct ps_flight *flight, size_t i, struct ps_call_outcome *outcome)
{
    const struct ps_call_request *request = flight->parts[i].part.request;
    if (!flight->has_bundle)
        decode(flight);
    ps_flight_outcome_failed(flight, outcome);
    outcome->no_bundles = flight->status == PS_ERR_UNSUPPORTED;
    if (outcome->no_bundles) {
        /* Nobody has looked at it; what is of one kind leaves again, one by one. */
        outcome->refused = true;
        if (flight->method != PS_METHOD_PUSH_PULL)
            outcome->status = PS_ERR_UNAVAILABLE;
    }
    if (flight->status != PS_OK)
        return;
    const struct ps_push_result *push =
        ps_call_push_of(request) != NULL ? &flight->bundle.pushes[i] : NULL;
    struct ps_pull_result *pull =
        ps_call_pull_of(request) != NULL ? &flight->bundle.pulls[i] : NULL;
    outcome->reply.method = request->method;
    if (push != NULL && push->status.status != PS_OK)
        note_failure(&push->status, request->method, false, outcome);
    else if (pull != NULL && pull->status.status != PS_OK)
        note_failure(&pull->status, request->method, push != NULL, outcome);
    else if (pull != NULL && !find_shared(&flight->parts[i].shared, &pull->reply, outcome))
        return;
    else if (request->method == PS_METHOD_PUSH)
        outcome->reply.push = push->reply;
    else if (request->method == PS_METHOD_PULL)
        outcome->reply.pull = pull->reply;
    else {
        outcome->reply.push_pull.push = push->reply;
        outcome->reply.push_pull.pull = pull->reply;
    }
}
