/* PUSHING ──all pushed──► SETTLING ──durable as promised──► PULLING ──all pulled──► DONE */
#include "server/rpc/bundle_run.h"

#include "base/assert.h"
#include "base/bounds.h"
#include "proto/arena.h"
#include "proto/bundle_codec.h"
#include "server/rpc/rpc_call.h"
#include "server/rpc/shared_content.h"

#include <grpc/slice.h>
#include <grpc/slice_buffer.h>

#include <stdatomic.h>
#include <string.h>

/* Work of one step, in bytes of content: well below a millisecond. An item costs at least as much
 * as ITEM_WORK of them. */
enum { STEP_WORK = 4 * 1024 * 1024, ITEM_WORK = 16 * 1024 };

/* Content of one reply; what is beyond must be asked for again. */
enum { REPLY_BYTES_MAX = PS_MESSAGE_BYTES_DEFAULT };

/* About as long as a full queue or a full heap takes to have room again. */
enum { RETRY_MS = 50 };

/* So many names are looked up ahead, when there are enough for it to pay. */
enum { EXPECTED = PS_EXPECTED_NAMES_MAX, EXPECTED_MIN = 4 };

enum run_stage { PUSHING, SETTLING, PULLING, DONE };

struct pull_slot {
    struct ps_item_status status;
    struct ps_pull pull;
    size_t head_end; /* in the reply's heads: its content comes there */
};

struct ps_bundle_run {
    struct ps_rpc_context *context; /* borrowed */
    atomic_size_t references;       /* the call's, and each slice's of the reply */
    struct ps_hold hold;            /* of the request's bytes */
    struct ps_decoded decoded;
    struct ps_bundle_request request;
    enum run_stage stage;
    size_t next;              /* push or pull */
    bool applied;             /* some push was: `wait` holds */
    struct ps_push_wait wait; /* of the generation in which the first was applied */
    size_t reply_bytes;
    uint64_t delta_bytes_left; /* of what delta pulls may take of the reply */
    struct ps_arena texts;
    struct pull_slot *pulls;
    struct ps_push_result pushes[]; /* then the pull slots */
};

static size_t push_next(struct ps_bundle_run *run);
static bool settle(struct ps_bundle_run *run);
static bool pull_next(struct ps_bundle_run *run, size_t *work);
static enum ps_status look_at_made(const struct ps_pull_request *request, struct ps_pull *pull,
                                   struct ps_error *error);
static void note_failure(struct ps_bundle_run *run, struct ps_item_status *to,
                         const struct ps_error *error);
static void encode_results(struct ps_bundle_run *run, struct ps_buffer *heads);
static grpc_byte_buffer *make_message(struct ps_bundle_run *run, const struct ps_buffer *heads);
static void drop_reference(void *argument);

/* One block always fits. */
static uint64_t delta_budget(uint64_t wish)
{
    if (wish == 0)
        return PS_DELTA_BYTES_DEFAULT;
    if (wish < PS_BLOCK_BYTES)
        return PS_BLOCK_BYTES;
    return wish < PS_DELTA_BYTES_MAX ? wish : PS_DELTA_BYTES_MAX;
}

void ps_bundle_run_since(struct ps_bundle_run *run)
{
    for (size_t i = 0; i < run->request.pull_count; i++)
        run->request.pulls[i].held.present = true;
}

enum ps_status ps_bundle_run_create(struct ps_rpc_context *context, struct ps_view view,
                                    struct ps_hold hold, struct ps_bundle_run **out,
                                    struct ps_error *error)
{
    struct ps_bundle_request request;
    struct ps_decoded decoded;
    PS_TRY(ps_decode_bundle(view, context->memory, &request, &decoded, error));
    size_t pushes_size = request.push_count * sizeof(struct ps_push_result);
    struct ps_bundle_run *run = ps_zeroed(
        context->memory, sizeof *run + pushes_size + request.pull_count * sizeof(struct pull_slot));
    if (run == NULL) {
        ps_decoded_release(&decoded);
        return ps_fail(error, PS_ERR_NO_MEMORY, "rpc: no memory for a batch");
    }
    run->context = context;
    atomic_init(&run->references, 1);
    run->hold = hold;
    run->decoded = decoded;
    run->request = request;
    run->pulls = (struct pull_slot *)(void *)((uint8_t *)run->pushes + pushes_size);
    run->delta_bytes_left = delta_budget(request.bytes_max);
    ps_arena_init(&run->texts, context->memory,
                  PS_BUNDLE_ITEMS_MAX * sizeof((struct ps_error){0}.text));
    *out = run;
    return PS_OK;
}

enum ps_bundle_progress ps_bundle_run_step(struct ps_bundle_run *run)
{
    size_t work = 0;
    PS_ASSERT(run->stage != DONE);
    if (run->stage == PUSHING) {
        while (run->next < run->request.push_count && work < STEP_WORK)
            work += push_next(run);
        if (run->next < run->request.push_count)
            return PS_BUNDLE_GOES_ON;
        run->stage = SETTLING;
    }
    if (run->stage == SETTLING) {
        if (!settle(run))
            return PS_BUNDLE_WAITS;
        run->stage = PULLING;
        run->next = 0;
    }
    while (run->next < run->request.pull_count) {
        if (work >= STEP_WORK)
            return PS_BUNDLE_GOES_ON;
        if (!pull_next(run, &work))
            return PS_BUNDLE_WAITS;
    }
    run->stage = DONE;
    return PS_BUNDLE_DONE;
}

/* ---- Pushes ---- */

/* Where the pull beside this push waits for what it makes; NULL: there is none. */
static struct ps_pull *room_for(struct ps_bundle_run *run)
{
    if (run->next >= run->request.pull_count || !run->request.pulls[run->next].of_push)
        return NULL;
    struct ps_pull *pull = &run->pulls[run->next].pull;
    pull->reply.encoding = run->request.pulls[run->next].encoding;
    return pull;
}

/* Every so many items, those up to the next time. Pulls behind pushes are mostly of the same names,
 * which were looked up a moment ago. */
static void look_ahead(struct ps_bundle_run *run)
{
    struct ps_bytes names[EXPECTED];
    size_t push_count = run->request.push_count;
    size_t left = (push_count > 0 ? push_count : run->request.pull_count) - run->next;
    if (run->next % EXPECTED != 0 || left < EXPECTED_MIN ||
        (run->stage == PULLING && push_count > 0))
        return;
    size_t count = left < EXPECTED ? left : EXPECTED;
    for (size_t i = 0; i < count; i++)
        names[i] = push_count > 0 ? run->request.pushes[run->next + i].name
                                  : run->request.pulls[run->next + i].name;
    ps_service_expect(run->context->service, names, count);
}

static size_t push_next(struct ps_bundle_run *run)
{
    look_ahead(run);
    struct ps_push_request *request = &run->request.pushes[run->next];
    struct ps_push_result *result = &run->pushes[run->next];
    struct ps_shared_content content;
    struct ps_push_wait wait;
    struct ps_error error;
    request->hold = run->hold;
    result->status.status = ps_shared_content_open(run->context, request, &content, &error);
    size_t work = request->content.size + ITEM_WORK;
    if (result->status.status == PS_OK)
        result->status.status = ps_service_push_range(run->context->service, request,
                                                      &result->reply, &wait, room_for(run), &error);
    ps_shared_content_close(&content);
    run->next++;
    if (result->status.status != PS_OK) {
        note_failure(run, &result->status, &error);
        return ITEM_WORK;
    }
    /* Positions of another generation have nothing to do with these: such pushes are told what the
     * first are told, that they are to be repeated. */
    if (!run->applied)
        run->wait = wait;
    else
        ps_push_wait_join(&run->wait, &wait);
    run->applied = true;
    return work;
}

/* One wait for all of them: the largest position is durable when all are. */
static bool settle(struct ps_bundle_run *run)
{
    struct ps_push_reply together = {0};
    struct ps_error error;
    if (!run->applied)
        return true;
    enum ps_status status = ps_service_settle(run->context->service, &run->wait, &together, &error);
    if (status == PS_ERR_NOT_READY)
        return false;
    for (size_t i = 0; i < run->request.push_count; i++) {
        struct ps_push_result *result = &run->pushes[i];
        if (result->status.status != PS_OK)
            continue;
        result->reply.durable_position = together.durable_position;
        result->status.status = status;
        if (status != PS_OK)
            note_failure(run, &result->status, &error);
    }
    return true;
}

/* ---- Pulls ---- */

/* Waits while the service is not initialised, as a single pull does; but not when gradients came
 * with it, which have failed for the same reason. */
static bool may_wait(const struct ps_bundle_run *run)
{
    return run->request.push_count == 0 && !atomic_load(&run->context->draining);
}

static enum ps_status give_shared(struct ps_bundle_run *run, struct pull_slot *slot,
                                  struct ps_error *error)
{
    const struct ps_shared_range *room = &run->request.pulls[run->next].shared;
    enum ps_status status = ps_shared_content_give(run->context, room, &slot->pull.reply, error);
    if (status != PS_OK)
        ps_pull_release(&slot->pull);
    return status;
}

/* What comes first always has, and may be more than the limit by itself. */
static bool has_room(const struct ps_bundle_run *run, size_t size)
{
    size_t left = run->reply_bytes < REPLY_BYTES_MAX ? REPLY_BYTES_MAX - run->reply_bytes : 0;
    return run->reply_bytes == 0 || size <= left;
}

static bool pull_next(struct ps_bundle_run *run, size_t *work)
{
    struct pull_slot *slot = &run->pulls[run->next];
    struct ps_pull_request *request = &run->request.pulls[run->next];
    struct ps_error error;
    look_ahead(run);
    /* 0 would be no limit at all. */
    request->bytes_max = run->delta_bytes_left > 0 ? run->delta_bytes_left : 1;
    enum ps_status status =
        request->of_push ? look_at_made(request, &slot->pull, &error)
                         : ps_service_pull(run->context->service, request, &slot->pull, &error);
    if (status == PS_ERR_NOT_READY && may_wait(run))
        return false;
    if (status == PS_OK)
        status = give_shared(run, slot, &error);
    run->next++;
    *work += ITEM_WORK + (size_t)slot->pull.reply.shared_size;
    size_t size = status == PS_OK ? slot->pull.reply.content.size : 0;
    if (!has_room(run, size)) {
        ps_pull_release(&slot->pull);
        status = ps_fail(&error, PS_ERR_BUSY,
                         "the reply of this batch is full, at %zu bytes: ask for this one again",
                         run->reply_bytes);
        size = 0;
    }
    run->reply_bytes += size;
    if (request->held.present) {
        run->delta_bytes_left -= size;
        *work += size; /* its digests were made */
    }
    slot->status.status = status;
    if (status != PS_OK)
        note_failure(run, &slot->status, &error);
    if (request->held.present && status == PS_ERR_BUSY)
        slot->status.retry_ms = 0; /* at once: only this reply is full */
    return true;
}

/* What the push has made, if it has, and of what was asked for. */
static enum ps_status look_at_made(const struct ps_pull_request *request, struct ps_pull *pull,
                                   struct ps_error *error)
{
    const struct ps_pull_reply *made = &pull->reply;
    bool is_known = pull->held != NULL || pull->encoded != NULL;
    if (is_known && ps_bytes_equal(made->name, request->name) &&
        made->range.first == request->range.first && made->range.count == request->range.count)
        return PS_OK;
    ps_pull_release(pull);
    return ps_fail(error, PS_ERR_CONFLICT,
                   "what the gradient makes of this range is not known before all of it is there");
}

/* Without memory for the text the word alone says it. */
static void note_failure(struct ps_bundle_run *run, struct ps_item_status *to,
                         const struct ps_error *error)
{
    size_t size = strnlen(error->text, sizeof error->text);
    char *text = ps_arena_take(&run->texts, size);
    if (text != NULL) {
        memcpy(text, error->text, size);
        to->text = (struct ps_bytes){(const uint8_t *)text, size};
    }
    if (to->status == PS_ERR_BUSY || to->status == PS_ERR_NO_MEMORY)
        to->retry_ms = RETRY_MS;
    if (to->status == PS_ERR_STALE_SESSION)
        to->session = error->session;
}

/* ---- The reply ---- */

enum ps_status ps_bundle_run_reply(struct ps_bundle_run *run, grpc_byte_buffer **message,
                                   struct ps_error *error)
{
    struct ps_buffer heads;
    size_t items = run->request.push_count + run->request.pull_count;
    PS_ASSERT(run->stage == DONE);
    ps_decoded_release(&run->decoded);
    ps_buffer_init(&heads, run->context->memory, items * PS_BUNDLE_ITEM_BYTES_MAX);
    encode_results(run, &heads);
    enum ps_status status = ps_buffer_status(&heads, error);
    if (status == PS_OK)
        *message = make_message(run, &heads);
    else if (run->applied)
        status = ps_rpc_fail_unanswered(error);
    ps_buffer_fini(&heads);
    return status;
}

static void encode_results(struct ps_bundle_run *run, struct ps_buffer *heads)
{
    for (size_t i = 0; i < run->request.push_count; i++)
        ps_encode_push_result(&run->pushes[i], heads);
    for (size_t i = 0; i < run->request.pull_count; i++) {
        struct pull_slot *slot = &run->pulls[i];
        const struct ps_pull_result result = {slot->status, slot->pull.reply};
        ps_encode_pull_result(&result, heads);
        slot->head_end = heads->size;
    }
}

/* Heads are parts of one slice, contents point at the blocks. */
static grpc_byte_buffer *make_message(struct ps_bundle_run *run, const struct ps_buffer *heads)
{
    grpc_slice head = grpc_slice_from_copied_buffer(heads->text, heads->size);
    grpc_byte_buffer *message = grpc_raw_byte_buffer_create(NULL, 0);
    grpc_slice_buffer *slices = &message->data.raw.slice_buffer;
    size_t done = 0;
    for (size_t i = 0; i < run->request.pull_count; i++) {
        const struct pull_slot *slot = &run->pulls[i];
        if (slot->status.status != PS_OK)
            continue;
        grpc_slice_buffer_add(slices, grpc_slice_sub(head, done, slot->head_end));
        done = slot->head_end;
        struct ps_view content = slot->pull.reply.content;
        atomic_fetch_add(&run->references, content.piece_count);
        for (size_t k = 0; k < content.piece_count; k++) {
            /* gRPC's slices are not const, but what is sent is only read. */
            void *bytes = (void *)(uintptr_t)content.pieces[k].data;
            grpc_slice_buffer_add(slices, grpc_slice_new_with_user_data(
                                              bytes, content.pieces[k].size, drop_reference, run));
        }
    }
    if (done < heads->size)
        grpc_slice_buffer_add(slices, grpc_slice_sub(head, done, heads->size));
    grpc_slice_unref(head);
    return message;
}

/* Any of gRPC's threads may drop the last slice. */
static void drop_reference(void *argument)
{
    struct ps_bundle_run *run = argument;
    if (atomic_fetch_sub(&run->references, 1) > 1)
        return;
    for (size_t i = 0; i < run->request.pull_count; i++)
        ps_pull_release(&run->pulls[i].pull);
    ps_arena_release(&run->texts);
    ps_decoded_release(&run->decoded);
    ps_release(run->context->memory, run);
}

void ps_bundle_run_release(struct ps_bundle_run *run)
{
    if (run != NULL)
        drop_reference(run);
}
