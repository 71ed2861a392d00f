/* SPDX-License-Identifier: Apache-2.0 */
/* The order of the stages is what clients rely on: a pull of the same message sees its pushes, and
 * nothing is told of a push before what was promised of that push holds. */
#include "server/core/requests/serve.h"

#include "base/assert.h"
#include "base/bounds.h"
#include "server/core/requests/serve_pull.h"
#include "server/core/requests/service_state.h"

#include <string.h>

/* Work of one step, in bytes of content: well below a millisecond. The simulator is built with so
 * little that a message of a few calls takes several steps. */
#ifndef PS_SERVE_STEP_BYTES
#define PS_SERVE_STEP_BYTES (4 * 1024 * 1024)
#endif

enum { STEP_WORK = PS_SERVE_STEP_BYTES };

/* About as long as a full queue or a full heap takes to have room again. */
enum { RETRY_MS = 50 };

/* So many names are looked up ahead, when there are enough for that to pay. */
enum { EXPECTED = PS_EXPECTED_NAMES_MAX, EXPECTED_MIN = 4 };

static bool takes_long(const struct ps_serve *serve);
static bool push_all(struct ps_serve *serve, size_t *work);
static size_t push_next(struct ps_serve *serve);
static bool acknowledge(struct ps_serve *serve);
static enum ps_serve_progress pull_all(struct ps_serve *serve, const struct ps_serve_turn *turn,
                                       size_t work);
static void prove_again(struct ps_serve *serve);

/* One block always fits: a client that allows less would never get on. */
static uint64_t delta_budget(uint64_t wish)
{
    if (wish == 0)
        return PS_DELTA_BYTES_DEFAULT;
    uint64_t most = wish < PS_DELTA_BYTES_MAX ? wish : PS_DELTA_BYTES_MAX;
    return most > PS_BLOCK_BYTES ? most : PS_BLOCK_BYTES;
}

/* Results are zeroed, and a zeroed result reads as success: from here on every item is reached, or
 * the serve is not done. */
void ps_serve_begin(struct ps_serve *serve)
{
    PS_ASSERT(serve->service != NULL && serve->error != NULL);
    PS_ASSERT(serve->pushes != NULL || serve->request.push_count == 0);
    PS_ASSERT(serve->pulls != NULL || serve->request.pull_count == 0);
    /* A message without pushes begins here, too: the stage is over before its first item. */
    serve->stage = PS_SERVE_STAGE_PUSHING;
    serve->next = 0;
    serve->delta_bytes_left = delta_budget(serve->request.bytes_max);
}

/* A message of a few hundred bytes may name a large parameter many times, each time in an encoding
 * that has to be made. The sum may be too large by parameters that do not exist any more when their
 * turn comes; it never wraps, since a message has few items. */
uint64_t ps_serve_extra_work(const struct ps_serve *serve)
{
    const struct ps_bundle_request *request = &serve->request;
    uint64_t reply_bytes, bytes = 0;
    PS_ASSERT(serve->stage == PS_SERVE_STAGE_PUSHING && serve->next == 0);
    /* What the guard refuses takes no work, and its size is nobody's business. */
    for (size_t i = 0; i < request->push_count; i++)
        if (ps_serve_ask_guard(serve, request->pushes[i].name, true) == PS_OK)
            bytes += ps_service_extra_push_work(serve->service, &request->pushes[i]);
    for (size_t i = 0; i < request->pull_count; i++)
        if (ps_serve_ask_guard(serve, request->pulls[i].name, false) == PS_OK)
            bytes += ps_service_extra_pull_work(serve->service, &request->pulls[i], &reply_bytes);
    return bytes;
}

/* Stages follow each other within one step as far as the work allows: a small message is served in
 * one go. Only the wait, a pull that waits and the bound on work end a step early, and each leaves
 * the serve so that the next step goes on there. */
enum ps_serve_progress ps_serve_step(struct ps_serve *serve, struct ps_serve_turn turn)
{
    size_t work = 0;
    PS_ASSERT(serve->stage != PS_SERVE_STAGE_DONE);
    /* A serve leaves before anything is done, so that the other thread begins where this one would
     * have. */
    if (turn.may_leave && takes_long(serve))
        return PS_SERVE_LEAVES;
    if (serve->stage == PS_SERVE_STAGE_PUSHING) {
        if (!push_all(serve, &work))
            return PS_SERVE_GOES_ON;
        serve->stage = PS_SERVE_STAGE_ACKNOWLEDGING;
    }
    if (serve->stage == PS_SERVE_STAGE_ACKNOWLEDGING) {
        /* The stage stays until every push is acknowledged: a pull that ran before could show
         * values that a crash takes back. */
        /* Pushes wait for the disk only: no topic of other clients is ever theirs. */
        serve->topic = PS_TOPIC_JOURNAL;
        serve->again_ms = 0;
        if (!acknowledge(serve))
            return PS_SERVE_WAITS;
        serve->stage = PS_SERVE_STAGE_PULLING;
        serve->next = 0;
    }
    return pull_all(serve, &turn, work);
}

/* Of the stage of pushes only: later stages count pulls in the same number. */
size_t ps_serve_pushed(const struct ps_serve *serve)
{
    size_t count = serve->request.push_count;
    PS_ASSERT(serve->next <= count || serve->stage != PS_SERVE_STAGE_PUSHING);
    return serve->stage == PS_SERVE_STAGE_PUSHING ? serve->next : count;
}

size_t ps_serve_pulled(const struct ps_serve *serve)
{
    bool begun = serve->stage == PS_SERVE_STAGE_PULLING || serve->stage == PS_SERVE_STAGE_DONE;
    PS_ASSERT(!begun || serve->next <= serve->request.pull_count);
    return begun ? serve->next : 0;
}

/* Also pulls that were not looked at yet, which are zeroed, and room in which early values wait. */
void ps_serve_release_pulls(struct ps_serve *serve)
{
    PS_ASSERT(serve->pulls != NULL || serve->request.pull_count == 0);
    for (size_t i = 0; i < serve->request.pull_count; i++)
        ps_pull_release(&serve->pulls[i].pull);
}

/* Asked of the item with which a step begins: a bundle whose items are small gets through in steps,
 * and one long item is a step of its own. */
static bool takes_long(const struct ps_serve *serve)
{
    const struct ps_bundle_request *request = &serve->request;
    bool is_pushing = serve->stage == PS_SERVE_STAGE_PUSHING && serve->next < request->push_count;
    bool is_pulling = serve->stage == PS_SERVE_STAGE_PULLING ||
                      (serve->stage == PS_SERVE_STAGE_PUSHING && request->push_count == 0);
    if (is_pushing)
        return ps_service_push_work(serve->service, &request->pushes[serve->next]) >=
               PS_SERVE_LONG_BYTES;
    if (!is_pulling || serve->next >= request->pull_count)
        return false;
    const struct ps_pull_request *pull = &request->pulls[serve->next];
    uint64_t reply_bytes;
    PS_ASSERT(ps_serve_pulled(serve) <= request->pull_count);
    return ps_service_pull_work(serve->service, pull) >= PS_SERVE_LONG_BYTES ||
           ps_service_extra_pull_work(serve->service, pull, &reply_bytes) >= PS_SERVE_LONG_BYTES;
}

/* Every so many items, those up to the next time. Pulls behind pushes are mostly of the same names,
 * which were looked up a moment ago. */
void ps_serve_look_ahead(struct ps_serve *serve)
{
    struct ps_bytes names[EXPECTED];
    const struct ps_bundle_request *request = &serve->request;
    bool pushes = request->push_count > 0;
    size_t left = (pushes ? request->push_count : request->pull_count) - serve->next;
    if (serve->next % EXPECTED != 0 || left < EXPECTED_MIN)
        return;
    PS_ASSERT(!pushes || serve->stage == PS_SERVE_STAGE_PUSHING);
    size_t count = left < EXPECTED ? left : EXPECTED;
    for (size_t i = 0; i < count; i++)
        names[i] =
            pushes ? request->pushes[serve->next + i].name : request->pulls[serve->next + i].name;
    ps_service_expect(serve->service, names, count);
}

/* ---- Pushes ---- */

/* True when all are pushed; false when the step has done enough. */
static bool push_all(struct ps_serve *serve, size_t *work)
{
    PS_ASSERT(serve->stage == PS_SERVE_STAGE_PUSHING);
    while (serve->next < serve->request.push_count) {
        if (*work >= STEP_WORK)
            return false;
        ps_serve_look_ahead(serve);
        *work += push_next(serve);
        serve->next++;
    }
    return true;
}

/* Where the pull beside this push waits for the values that the push makes early; NULL: there is no
 * such pull. */
static struct ps_pull *room_for_early_values(struct ps_serve *serve)
{
    const struct ps_bundle_request *request = &serve->request;
    /* Push and pull of one range stand at the same place in their lists. */
    if (serve->next >= request->pull_count || !request->pulls[serve->next].of_push)
        return NULL;
    struct ps_pull *pull = &serve->pulls[serve->next].pull;
    PS_ASSERT(pull->held == NULL && pull->encoded == NULL);
    pull->reply.encoding = request->pulls[serve->next].encoding;
    return pull;
}

/* From opened to closed content. `*size` becomes the content's, which is known in between only. */
static enum ps_status push_opened(struct ps_serve *serve, struct ps_push_request *request,
                                  struct ps_push_wait *wait, size_t *size)
{
    const struct ps_serve_content *content = serve->content;
    enum ps_status status = PS_OK;
    PS_ASSERT(serve->next < serve->request.push_count);
    request->hold = serve->hold;
    request->request.origin = serve->origin;
    request->request.owner = serve->guard != NULL ? serve->guard->owner : 0;
    if (content != NULL)
        status = content->open(content->self, request, serve->error);
    *size = request->content.size;
    if (status == PS_OK)
        status = ps_service_push_range(serve->service, request, &serve->pushes[serve->next].reply,
                                       wait, room_for_early_values(serve), serve->error);
    /* An opening that failed is closed as well: the other side then knows that nothing is open. */
    if (content != NULL)
        content->close(content->self);
    return status;
}

/* What the push cost is returned: a refused one costs little, whatever its size. */
static size_t push_next(struct ps_serve *serve)
{
    struct ps_push_result *result = &serve->pushes[serve->next];
    struct ps_push_request *request = &serve->request.pushes[serve->next];
    struct ps_push_wait wait;
    size_t size;
    uint64_t extra = 0;
    enum ps_status status = ps_serve_ask_guard(serve, request->name, true);
    if (status == PS_OK) {
        extra = ps_service_extra_push_work(serve->service, request);
        status = push_opened(serve, request, &wait, &size);
    }
    if (status != PS_OK) {
        ps_serve_note_failure(serve, &result->status, status);
        return PS_SERVE_ITEM_WORK;
    }
    PS_ASSERT(wait.generation > 0);
    /* The shard was lost and won back between two steps: what a push of another generation needs
     * cannot be joined to what the first needs. Acknowledging then tells all of them what the first
     * is told, that they are to be repeated. */
    if (!serve->applied)
        serve->wait = wait;
    else
        ps_push_wait_join(&serve->wait, &wait);
    serve->applied = true;
    return size + (size_t)extra + PS_SERVE_ITEM_WORK;
}

/* Each item is asked about by itself: the others of its message go on. */
enum ps_status ps_serve_ask_guard(const struct ps_serve *serve, struct ps_bytes name, bool changes)
{
    const struct ps_serve_guard *guard = serve->guard;
    PS_ASSERT(guard == NULL || guard->check != NULL);
    return guard == NULL ? PS_OK : guard->check(guard->self, name, changes, serve->error);
}

/* One wait for all of them: the largest position is durable when all are. False: not yet. */
static bool acknowledge(struct ps_serve *serve)
{
    struct ps_push_reply together = {0};
    PS_ASSERT(serve->stage == PS_SERVE_STAGE_ACKNOWLEDGING &&
              serve->next == serve->request.push_count);
    if (!serve->applied)
        return true;
    enum ps_status status =
        ps_service_acknowledge(serve->service, &serve->wait, &together, serve->error);
    if (status == PS_ERR_NOT_READY)
        return false;
    for (size_t i = 0; i < serve->request.push_count; i++) {
        struct ps_push_result *result = &serve->pushes[i];
        /* A push that was refused keeps its own reason, whatever became of the others. */
        if (result->status.status != PS_OK)
            continue;
        result->reply.durable_position = together.durable_position;
        if (status != PS_OK)
            ps_serve_note_failure(serve, &result->status, status);
    }
    return true;
}

/* ---- Pulls ---- */

/* The bound on work is looked at before a pull and not after it: a message of one pull is served in
 * one step, however long that takes. */
static enum ps_serve_progress pull_all(struct ps_serve *serve, const struct ps_serve_turn *turn,
                                       size_t work)
{
    PS_ASSERT(serve->stage == PS_SERVE_STAGE_PULLING);
    while (serve->next < serve->request.pull_count) {
        bool enough = work >= STEP_WORK;
        if (enough || !ps_serve_pull_next(serve, turn, &work)) {
            serve->in_turns = true;
            return enough ? PS_SERVE_GOES_ON : PS_SERVE_WAITS;
        }
    }
    if (serve->in_turns)
        prove_again(serve);
    serve->stage = PS_SERVE_STAGE_DONE;
    return PS_SERVE_DONE;
}

/* Between two turns the lease may end, and a reply speaks for the shard when it leaves (P4): what
 * was acknowledged or read in an earlier turn is asked again when the shard has another owner by
 * then. A message that is served in one go was proved a moment ago. */
static void prove_again(struct ps_serve *serve)
{
    struct ps_push_reply together;
    enum ps_status status = ps_service_owns(serve->service, serve->error);
    if (status == PS_OK && serve->applied)
        status = ps_service_acknowledge(serve->service, &serve->wait, &together, serve->error);
    if (status == PS_OK)
        return;
    for (size_t i = 0; i < serve->request.push_count; i++)
        if (serve->pushes[i].status.status == PS_OK)
            ps_serve_note_failure(serve, &serve->pushes[i].status, status);
    for (size_t i = 0; i < serve->request.pull_count; i++) {
        if (serve->pulls[i].status.status != PS_OK)
            continue;
        ps_pull_release(&serve->pulls[i].pull);
        ps_serve_note_failure(serve, &serve->pulls[i].status, status);
    }
}

/* Without memory for the text the word alone says it. */
void ps_serve_note_failure(struct ps_serve *serve, struct ps_item_status *to, enum ps_status status)
{
    PS_ASSERT(status != PS_OK);
    to->status = status;
    if (status == PS_ERR_BUSY || status == PS_ERR_NO_MEMORY)
        to->retry_ms = RETRY_MS;
    if (status == PS_ERR_BUSY && serve->error->retry_ms > 0)
        to->retry_ms = serve->error->retry_ms;
    if (status == PS_ERR_STALE_SESSION)
        to->session = serve->error->session;
    /* The failure of a request that is alone is the call's, and is told there. */
    if (serve->texts == NULL)
        return;
    if (serve->origin != NULL)
        serve->origin->refused(serve->origin->self, serve->error);
    /* The text is copied, since the next item that fails writes over it. */
    size_t size = strnlen(serve->error->text, sizeof serve->error->text);
    char *text = ps_arena_take(serve->texts, size);
    if (text == NULL)
        return;
    memcpy(text, serve->error->text, size);
    to->text = (struct ps_bytes){(const uint8_t *)text, size};
}
