/* SPDX-License-Identifier: Apache-2.0 */
/* Several calls in one message: what goes out, and an outcome for each. */
#include "client/channel/channel_grpc.h"

#include "base/assert.h"
#include "client/calls/retry.h"
#include "client/calls/thresholds.h"
#include "proto/bundle_codec.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/slice_buffer.h>

#include <string.h>

/* All pushes come before all pulls, as in the message. Where a content belongs is noted as a place
 * in the head, so that the message can be put together without copying the content. */
void ps_bundle_encode(struct ps_flight *flight, struct ps_buffer *head)
{
    const struct ps_push_request *first = ps_call_push_of(ps_flight_request(flight, 0));
    const struct ps_request_id base = first != NULL ? first->request : (struct ps_request_id){0};
    if (first != NULL)
        ps_encode_bundle_id(&base, head);
    for (size_t i = 0; i < flight->part_count; i++) {
        struct ps_flight_part *part = &flight->parts[i];
        const struct ps_push_request *push = ps_call_push_of(part->part.request);
        if (push != NULL) {
            /* The caller's request stays as it is: it may be sent again another way. */
            const struct ps_push_request told = ps_shared_way_push(&part->shared, push);
            ps_encode_bundle_push(&told, &base, i, head);
        }
        /* Noted for parts without content, too. Nothing of a later part stands before this place,
         * so the content of a push comes right behind the fields that announce it. */
        part->head_end = head->size;
    }
    for (size_t i = 0; i < flight->part_count; i++) {
        struct ps_flight_part *part = &flight->parts[i];
        const struct ps_pull_request *pull = ps_call_pull_of(part->part.request);
        if (pull != NULL) {
            const struct ps_pull_request told = ps_shared_way_pull(&part->shared, pull);
            ps_encode_bundle_pull(&told, head);
        }
        /* The keys of a pull from a table follow its fields, as the content of a push does. */
        part->keys_at = head->size;
    }
}

/* A message that is put together: slices of one head, with contents between them. */
struct bundle_slices {
    struct ps_flight *flight;
    grpc_slice head;
    grpc_slice_buffer *to;
    size_t done; /* of the head */
};

/* The head up to where the content comes, and the content. Contents of many parts are kept track of
 * together, so copying a part pays only below a smaller bound. */
static void add_content(struct bundle_slices *slices, const struct ps_view *content, size_t at)
{
    bool is_alone = slices->flight->part_count == 1;
    size_t copied_max = is_alone ? PS_COPIED_BYTES_MAX : PS_COPIED_PART_BYTES_MAX;
    if (content->size == 0)
        return;
    grpc_slice_buffer_add(slices->to, grpc_slice_sub(slices->head, slices->done, at));
    for (size_t k = 0; k < content->piece_count; k++)
        grpc_slice_buffer_add(
            slices->to, ps_flight_content_slice(slices->flight, content->pieces[k], copied_max));
    slices->done = at;
}

/* In the order of the head: what the pushes bring, then what the pulls ask for. */
grpc_byte_buffer *ps_bundle_message(struct ps_flight *flight)
{
    grpc_byte_buffer *message = grpc_raw_byte_buffer_create(NULL, 0);
    struct bundle_slices slices = {
        .flight = flight,
        .head = grpc_slice_from_copied_buffer(flight->head.text, flight->head.size),
        .to = &message->data.raw.slice_buffer};
    for (size_t i = 0; i < flight->part_count; i++) {
        const struct ps_flight_part *part = &flight->parts[i];
        const struct ps_push_request *push = ps_call_push_of(part->part.request);
        if (push != NULL && part->shared.push_size == 0)
            add_content(&slices, &push->content, part->head_end);
    }
    for (size_t i = 0; i < flight->part_count; i++) {
        const struct ps_pull_request *pull = ps_call_pull_of(flight->parts[i].part.request);
        if (pull != NULL)
            add_content(&slices, &pull->keys, flight->parts[i].keys_at);
    }
    /* What is left: pulls without keys, and pushes whose content is not in the message. */
    if (slices.done < flight->head.size)
        grpc_slice_buffer_add(slices.to,
                              grpc_slice_sub(slices.head, slices.done, flight->head.size));
    /* The slices of the head hold references of their own. */
    grpc_slice_unref(slices.head);
    return message;
}

/* Once for all parts. What cannot be read was done by the server all the same. */
static void decode(struct ps_flight *flight)
{
    struct ps_error error = {.status = PS_OK};
    struct ps_view view;
    /* Also when decoding fails: the failure is then the outcome of every part. */
    flight->has_bundle = true;
    if (flight->status != PS_OK)
        return;
    enum ps_status status = ps_flight_view_reply(flight, &view, &error);
    if (status == PS_OK)
        status = ps_decode_bundle_reply(view, flight->side->memory, &flight->bundle,
                                        &flight->decoded, &error);
    /* All parts of a message are of one method, so the first says what each must be answered
     * with. */
    size_t pushes = ps_call_push_of(ps_flight_request(flight, 0)) != NULL ? flight->part_count : 0;
    size_t pulls = ps_call_pull_of(ps_flight_request(flight, 0)) != NULL ? flight->part_count : 0;
    /* Outcomes are looked up by their part: a reply with fewer results would be read behind its
     * end. */
    if (status == PS_OK &&
        (flight->bundle.push_count != pushes || flight->bundle.pull_count != pulls))
        status = ps_fail(&error, PS_ERR_INTERNAL, "a reply of %zu and %zu results for %zu calls",
                         flight->bundle.push_count, flight->bundle.pull_count, flight->part_count);
    if (status == PS_OK)
        return;
    flight->status = status == PS_ERR_NO_MEMORY ? status : PS_ERR_INTERNAL;
    memcpy(flight->text, error.text, strnlen(error.text, sizeof flight->text - 1));
}

/* A push that was applied makes the whole no refusal, whatever its pull was told. */
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

/* A server that knows no bundles has not looked at this one. Calls of one kind leave again, one by
 * one; a push and pull in one has no other form, and fails as what it is. */
static void note_unsupported(const struct ps_flight *flight, struct ps_call_outcome *outcome)
{
    outcome->no_bundles = true;
    outcome->refused = true;
    if (flight->method != PS_METHOD_PUSH_PULL)
        outcome->status = PS_ERR_UNAVAILABLE;
}

/* Three ways: the push failed, only the pull failed, or both are there. */
static void push_pull_outcome(struct ps_flight *flight, size_t i, struct ps_call_outcome *outcome)
{
    const struct ps_push_result *push = &flight->bundle.pushes[i];
    struct ps_pull_result *pull = &flight->bundle.pulls[i];
    /* The push is judged first: once a push was applied, the call must not be repeated as a whole
     * under another id, whatever became of the pull. */
    outcome->reply.push_pull.push = push->reply;
    if (push->status.status != PS_OK) {
        note_failure(&push->status, PS_METHOD_PUSH_PULL, false, outcome);
    } else if (pull->status.status != PS_OK) {
        /* What the server said of the push is in the reply. */
        outcome->pushed = true;
        note_failure(&pull->status, PS_METHOD_PUSH_PULL, true, outcome);
    } else if (find_shared(&flight->parts[i].shared, &pull->reply, outcome)) {
        outcome->reply.push_pull.pull = pull->reply;
    }
}

/* The message was decoded once for all parts; each outcome looks only at its own results. */
void ps_bundle_outcome(struct ps_flight *flight, size_t i, struct ps_call_outcome *outcome)
{
    enum ps_method method = ps_flight_request(flight, i)->method;
    if (!flight->has_bundle)
        decode(flight);
    /* Behind the decoding, whose failure changes the status that each outcome begins with. */
    ps_flight_outcome_failed(flight, outcome);
    if (flight->status == PS_ERR_UNSUPPORTED)
        note_unsupported(flight, outcome);
    if (flight->status != PS_OK)
        return;
    outcome->reply.method = method;
    if (method == PS_METHOD_PUSH_PULL) {
        push_pull_outcome(flight, i, outcome);
        return;
    }
    if (method == PS_METHOD_PUSH) {
        const struct ps_push_result *push = &flight->bundle.pushes[i];
        outcome->reply.push = push->reply;
        if (push->status.status != PS_OK)
            note_failure(&push->status, method, false, outcome);
        return;
    }
    struct ps_pull_result *pull = &flight->bundle.pulls[i];
    if (pull->status.status != PS_OK)
        note_failure(&pull->status, method, false, outcome);
    else if (find_shared(&flight->parts[i].shared, &pull->reply, outcome))
        outcome->reply.pull = pull->reply;
}
