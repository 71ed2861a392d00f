/* SPDX-License-Identifier: Apache-2.0 */
/* A message of many items, from its bytes to its reply. The items are served by
 * server/core/requests/serve.c, which does not know gRPC; this file gives it memory before, and
 * makes of the results one message after.
 *
 * The struct counts references to itself, because its parts end at different times and on different
 * threads: the call lets go when the reply is sent, and gRPC drops the slices of the reply one by
 * one, on threads of its own, some of them after the call's slot serves another client. The blocks
 * that slices point at are held until the last slice is gone; a version that a slow client reads is
 * therefore never written under it. */
#include "server/rpc/bundle_call.h"

#include "base/assert.h"
#include "proto/arena.h"
#include "proto/bundle_codec.h"
#include "server/rpc/rpc_call.h"
#include "server/rpc/shared_content.h"

#include <grpc/slice.h>
#include <grpc/slice_buffer.h>

#include <stdatomic.h>

struct ps_bundle_call {
    const struct ps_allocator *memory; /* borrowed */
    atomic_size_t references;          /* the call's, and each slice's of the reply */
    struct ps_decoded decoded;
    struct ps_serve serve;
    struct ps_shared_content content;
    struct ps_error error; /* the serve's */
    struct ps_arena texts;
    size_t *head_ends;              /* of each pull: where in the reply's heads its content comes */
    struct ps_push_result pushes[]; /* then the pulls' results, then the ends of heads */
};

static void lay_out(struct ps_bundle_call *bundle, size_t pushes_size, size_t pulls_size);
static void encode_results(struct ps_bundle_call *bundle, struct ps_buffer *heads);
static grpc_byte_buffer *make_message(struct ps_bundle_call *bundle, const struct ps_buffer *heads);
static void add_content(struct ps_bundle_call *bundle, struct ps_view content,
                        grpc_slice_buffer *slices);
static void drop_reference(void *argument);

/* Requests lie in what was decoded, results behind the struct: a bundle of 500 items costs two
 * allocations as one of two does. The arena takes memory only when an item fails. */
enum ps_status ps_bundle_call_create(struct ps_rpc_context *context, struct ps_view view,
                                     struct ps_hold hold, const struct ps_origin *origin,
                                     struct ps_bundle_call **out, struct ps_error *error)
{
    struct ps_bundle_request request;
    struct ps_decoded decoded;
    PS_TRY(ps_decode_bundle(view, context->memory, &request, &decoded, error));
    size_t pushes_size = request.push_count * sizeof(struct ps_push_result);
    size_t pulls_size = request.pull_count * sizeof(struct ps_served_pull);
    struct ps_bundle_call *bundle =
        ps_zeroed(context->memory, sizeof *bundle + pushes_size + pulls_size +
                                       request.pull_count * sizeof *bundle->head_ends);
    if (bundle == NULL) {
        ps_decoded_release(&decoded);
        return ps_fail(error, PS_ERR_NO_MEMORY, "rpc: no memory for a batch");
    }
    bundle->memory = context->memory;
    /* From here on only drop_reference frees the bundle, and with it what was decoded. */
    atomic_init(&bundle->references, 1);
    bundle->decoded = decoded;
    lay_out(bundle, pushes_size, pulls_size);
    /* Texts of failures are rare and short: the arena is bounded by one for each item, and takes no
     * memory before the first of them fails. */
    ps_arena_init(&bundle->texts, context->memory,
                  PS_BUNDLE_ITEMS_MAX * sizeof((struct ps_error){0}.text));
    ps_shared_content_init(&bundle->content, context);
    bundle->serve.service = context->service;
    bundle->serve.content = &bundle->content.ways;
    bundle->serve.hold = hold;
    bundle->serve.origin = origin;
    bundle->serve.request = request;
    bundle->serve.texts = &bundle->texts;
    bundle->serve.error = &bundle->error;
    ps_serve_begin(&bundle->serve);
    *out = bundle;
    return PS_OK;
}

/* Three arrays stand behind the struct, the ones that need most alignment first: so no gap is
 * needed between them, and the sizes that create has added up are exact. */
static void lay_out(struct ps_bundle_call *bundle, size_t pushes_size, size_t pulls_size)
{
    uint8_t *pulls = (uint8_t *)bundle->pushes + pushes_size;
    _Static_assert(_Alignof(struct ps_served_pull) <= _Alignof(struct ps_push_result) &&
                       _Alignof(size_t) <= _Alignof(struct ps_served_pull),
                   "each array of a bundle begins where the one before ends");
    bundle->serve.pushes = bundle->pushes;
    bundle->serve.pulls = (struct ps_served_pull *)(void *)pulls;
    bundle->head_ends = (size_t *)(void *)(pulls + pulls_size);
}

/* The guard belongs to the call, which outlives every step of the bundle. */
void ps_bundle_call_guard(struct ps_bundle_call *bundle, const struct ps_serve_guard *guard)
{
    PS_ASSERT(bundle->serve.stage == PS_SERVE_STAGE_PUSHING);
    bundle->serve.guard = guard;
}

/* GetParamsSince has the same message as GetParams. A client that holds nothing yet names no
 * version; without this mark its pull would be an ordinary one, whose reply has another form. */
void ps_bundle_call_since(struct ps_bundle_call *bundle)
{
    PS_ASSERT(bundle->serve.stage == PS_SERVE_STAGE_PUSHING);
    for (size_t i = 0; i < bundle->serve.request.pull_count; i++)
        bundle->serve.request.pulls[i].held.present = true;
}

/* Whoever charges for a bundle does so between its decoding and its first step. */
uint64_t ps_bundle_call_extra_work(const struct ps_bundle_call *bundle)
{
    PS_ASSERT(bundle->serve.stage == PS_SERVE_STAGE_PUSHING);
    return ps_serve_extra_work(&bundle->serve);
}

struct ps_serve *ps_bundle_call_serve(struct ps_bundle_call *bundle)
{
    PS_ASSERT(bundle->serve.stage != PS_SERVE_STAGE_DONE);
    return &bundle->serve;
}

/* ---- The reply ---- */

/* The request goes first: what is decoded of a large message is large itself, and the heads of the
 * reply are made next, so that both together would be the highest point of a call's memory.
 *
 * A bundle of which something was applied must never be answered by "no memory": a client takes
 * that as "not applied" and may give its gradient up. The client is told that the outcome is
 * unknown, and a repeat under the same request ids then finds what was applied. */
enum ps_status ps_bundle_call_reply(struct ps_bundle_call *bundle, grpc_byte_buffer **message,
                                    struct ps_error *error)
{
    struct ps_buffer heads;
    const struct ps_bundle_request *request = &bundle->serve.request;
    size_t items = request->push_count + request->pull_count;
    PS_ASSERT(bundle->serve.stage == PS_SERVE_STAGE_DONE);
    ps_decoded_release(&bundle->decoded);
    ps_buffer_init(&heads, bundle->memory, items * PS_BUNDLE_ITEM_BYTES_MAX);
    encode_results(bundle, &heads);
    enum ps_status status = ps_buffer_status(&heads, error);
    if (status == PS_OK)
        *message = make_message(bundle, &heads);
    else if (bundle->serve.applied)
        status = ps_rpc_fail_unanswered(error);
    ps_buffer_fini(&heads);
    return status;
}

/* Heads of all results come into one buffer, since a slice of gRPC for each would cost more than
 * the head; where each ends is kept, for its content to be put there. */
static void encode_results(struct ps_bundle_call *bundle, struct ps_buffer *heads)
{
    const struct ps_serve *serve = &bundle->serve;
    for (size_t i = 0; i < serve->request.push_count; i++)
        ps_encode_push_result(&serve->pushes[i], heads);
    for (size_t i = 0; i < serve->request.pull_count; i++) {
        const struct ps_pull_result result = {serve->pulls[i].status, serve->pulls[i].pull.reply};
        ps_encode_pull_result(&result, heads);
        bundle->head_ends[i] = heads->size;
    }
}

/* Heads are parts of one slice, contents point at the blocks. The parts of the first slice share
 * its bytes: nothing is copied twice. */
static grpc_byte_buffer *make_message(struct ps_bundle_call *bundle, const struct ps_buffer *heads)
{
    grpc_slice head = grpc_slice_from_copied_buffer(heads->text, heads->size);
    grpc_byte_buffer *message = grpc_raw_byte_buffer_create(NULL, 0);
    grpc_slice_buffer *slices = &message->data.raw.slice_buffer;
    size_t done = 0;
    for (size_t i = 0; i < bundle->serve.request.pull_count; i++) {
        const struct ps_served_pull *served = &bundle->serve.pulls[i];
        if (served->status.status != PS_OK)
            continue;
        grpc_slice_buffer_add(slices, grpc_slice_sub(head, done, bundle->head_ends[i]));
        done = bundle->head_ends[i];
        add_content(bundle, served->pull.reply.content, slices);
    }
    if (done < heads->size)
        grpc_slice_buffer_add(slices, grpc_slice_sub(head, done, heads->size));
    /* Every part of the head that was added has its own reference, so that the first can go. */
    grpc_slice_unref(head);
    return message;
}

/* All references are taken before the first slice exists: gRPC may drop that at once, and a count
 * that reaches zero between two slices would free the blocks that the next one points at. */
static void add_content(struct ps_bundle_call *bundle, struct ps_view content,
                        grpc_slice_buffer *slices)
{
    atomic_fetch_add(&bundle->references, content.piece_count);
    for (size_t k = 0; k < content.piece_count; k++) {
        /* gRPC's slices are not const, but what is sent is only read. */
        void *bytes = (void *)(uintptr_t)content.pieces[k].data;
        grpc_slice_buffer_add(slices, grpc_slice_new_with_user_data(bytes, content.pieces[k].size,
                                                                    drop_reference, bundle));
    }
}

/* Any of gRPC's threads may drop the last slice. The pulls go first, then the texts and the
 * requests that their results point into, then the bundle itself. */
static void drop_reference(void *argument)
{
    struct ps_bundle_call *bundle = argument;
    size_t before = atomic_fetch_sub(&bundle->references, 1);
    PS_ASSERT(before > 0);
    if (before > 1)
        return;
    ps_serve_release_pulls(&bundle->serve);
    ps_arena_release(&bundle->texts);
    ps_decoded_release(&bundle->decoded);
    ps_release(bundle->memory, bundle);
}

/* The call's own reference. The bundle may live on for as long as a client takes to read. */
void ps_bundle_call_release(struct ps_bundle_call *bundle)
{
    if (bundle != NULL)
        drop_reference(bundle);
}
