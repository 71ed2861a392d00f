/* SPDX-License-Identifier: Apache-2.0 */
/* A reply has room for so much, and a message of a few hundred bytes may ask for all there is: so
 * each pull is asked what it would take before anything is made for it. */
#include "server/core/requests/serve_pull.h"

#include "base/assert.h"
#include "base/bounds.h"
#include "server/core/requests/serve_wait.h"
#include "server/core/requests/service_state.h"

/* Content of one reply; a pull that finds no room must be asked for again. */
enum { REPLY_BYTES_MAX = PS_MESSAGE_BYTES_DEFAULT };

static enum ps_status check_room(struct ps_serve *serve, const struct ps_pull_request *request,
                                 size_t *work);
static enum ps_status bring_values(struct ps_serve *serve, struct ps_pull_request *request,
                                   struct ps_pull *pull, struct ps_pull_wait *wait, bool *may_wait);
static enum ps_status find_values(struct ps_serve *serve, struct ps_pull_request *request,
                                  struct ps_pull *pull, struct ps_pull_wait *wait);
static enum ps_status take_early_values(const struct ps_pull_request *request, struct ps_pull *pull,
                                        struct ps_error *error);
static enum ps_status give_values(struct ps_serve *serve, const struct ps_pull_request *request,
                                  struct ps_pull *pull);
static enum ps_status refuse_full(struct ps_serve *serve);
static size_t take_of_budget(struct ps_serve *serve, size_t size);

/* The order is that of what may go wrong: who asks, room, values, and then whether others are to be
 * waited for. */
bool ps_serve_pull_next(struct ps_serve *serve, const struct ps_serve_turn *turn, size_t *work)
{
    struct ps_served_pull *slot = &serve->pulls[serve->next];
    struct ps_pull_request *request = &serve->request.pulls[serve->next];
    const struct ps_pull_reply *reply = &slot->pull.reply;
    struct ps_pull_wait wait = {.topic = PS_TOPIC_LIFE};
    PS_ASSERT(serve->next < serve->request.pull_count);
    enum ps_status status = ps_serve_ask_guard(serve, request->name, false);
    if (status == PS_OK && request->worker != 0) /* a sign of its life, as its clock is */
        status = ps_serve_ask_guard(serve, request->clocks, true);
    if (status == PS_OK)
        status = check_room(serve, request, work);
    bool may_wait = false;
    if (status == PS_OK)
        status = bring_values(serve, request, &slot->pull, &wait, &may_wait);
    if (may_wait && ps_serve_waits(serve, turn, &wait, &status))
        return false;
    serve->next++;
    *work += PS_SERVE_ITEM_WORK;
    if (status != PS_OK) {
        ps_serve_note_failure(serve, &slot->status, status);
        if (request->held.present && status == PS_ERR_BUSY)
            slot->status.retry_ms = 0; /* at once: only this reply is full */
        return true;
    }
    serve->reply_bytes += reply->content.size;
    *work += (size_t)reply->shared_size;
    if (request->held.present && !request->of_push)
        *work += take_of_budget(serve, reply->content.size);
    return true;
}

/* What has to be made first is not made for a reply that has no room for it. */
static enum ps_status check_room(struct ps_serve *serve, const struct ps_pull_request *request,
                                 size_t *work)
{
    uint64_t reply_bytes;
    size_t used = serve->reply_bytes;
    uint64_t left = used < REPLY_BYTES_MAX ? REPLY_BYTES_MAX - used : 0;
    PS_ASSERT(serve->next < serve->request.pull_count);
    uint64_t extra = ps_service_extra_pull_work(serve->service, request, &reply_bytes);
    if (used > 0 && reply_bytes > left)
        return refuse_full(serve);
    *work += (size_t)extra;
    return PS_OK;
}

/* Finds them and gives them. Room in the device's memory is open for no longer: a pull that waits
 * for others keeps nothing of its client. `*may_wait`: others are to bring what it asks for. */
static enum ps_status bring_values(struct ps_serve *serve, struct ps_pull_request *request,
                                   struct ps_pull *pull, struct ps_pull_wait *wait, bool *may_wait)
{
    const struct ps_serve_content *content = serve->content;
    bool has_room = content != NULL && content->open_room != NULL && !request->of_push;
    request->room = has_room ? content->open_room(content->self, &request->shared) : NULL;
    request->room_size = request->room != NULL ? (size_t)request->shared.size : 0;
    enum ps_status status = find_values(serve, request, pull, wait);
    *may_wait = status == PS_ERR_NOT_READY;
    if (status == PS_OK)
        status = give_values(serve, request, pull);
    if (has_room)
        content->close_room(content->self);
    request->room = NULL;
    return status;
}

/* Before the caller's room is looked for: values of this or of another version, or early ones. */
static enum ps_status find_values(struct ps_serve *serve, struct ps_pull_request *request,
                                  struct ps_pull *pull, struct ps_pull_wait *wait)
{
    PS_ASSERT(request->of_push || (pull->held == NULL && pull->encoded == NULL));
    if (request->of_push)
        return take_early_values(request, pull, serve->error);
    if (serve->request.push_count == 0)
        ps_serve_look_ahead(serve);
    /* 0 would be no limit at all. */
    request->bytes_max = serve->delta_bytes_left > 0 ? serve->delta_bytes_left : 1;
    return ps_service_pull_or_wait(serve->service, request, pull, wait, serve->error);
}

/* The values that the push beside this pull has made, if it has made any, and of the range that was
 * asked for. */
static enum ps_status take_early_values(const struct ps_pull_request *request, struct ps_pull *pull,
                                        struct ps_error *error)
{
    const struct ps_pull_reply *made = &pull->reply;
    bool is_known = pull->held != NULL || pull->encoded != NULL;
    PS_ASSERT(request->of_push);
    if (is_known && ps_bytes_equal(made->name, request->name) &&
        made->range.first == request->range.first && made->range.count == request->range.count)
        return PS_OK;
    ps_pull_release(pull);
    return ps_fail(error, PS_ERR_CONFLICT,
                   "what the gradient makes of this range is not known before all of it is there");
}

/* To the room that the caller has named, or into the reply while that has room. The first content
 * of a reply always has, and may be more than the limit by itself. */
static enum ps_status give_values(struct ps_serve *serve, const struct ps_pull_request *request,
                                  struct ps_pull *pull)
{
    const struct ps_serve_content *content = serve->content;
    enum ps_status status = PS_OK;
    PS_ASSERT(pull->held != NULL || pull->encoded != NULL || pull->spec != NULL);
    /* The room comes before the limit of the reply: content that lies elsewhere takes nothing of
     * the reply. */
    if (content != NULL)
        status = content->give(content->self, &request->shared, &pull->reply, serve->error);
    size_t used = serve->reply_bytes;
    size_t left = used < REPLY_BYTES_MAX ? REPLY_BYTES_MAX - used : 0;
    if (status == PS_OK && used > 0 && pull->reply.content.size > left)
        status = refuse_full(serve);
    if (status != PS_OK)
        ps_pull_release(pull);
    return status;
}

/* Not counted as a refusal: every client of a large model meets it, and asks again. */
static enum ps_status refuse_full(struct ps_serve *serve)
{
    return ps_fail(serve->error, PS_ERR_BUSY,
                   "the reply of this batch is full, at %zu bytes: ask for this one again",
                   serve->reply_bytes);
}

/* The work of a delta: its digests were made. More than is left is taken by a parameter of a single
 * byte only, for which find_values leaves room. */
static size_t take_of_budget(struct ps_serve *serve, size_t size)
{
    PS_ASSERT(size <= serve->delta_bytes_left || size <= 1);
    serve->delta_bytes_left -= size < serve->delta_bytes_left ? size : serve->delta_bytes_left;
    return size;
}
