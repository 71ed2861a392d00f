/* SPDX-License-Identifier: Apache-2.0 */
/* The whole of a call in ranges: the ranges of the push or of the initialisation, what an answer
 * says of the whole, and the end. */
#include "client/ranges/ranges_call.h"

#include "base/assert.h"
#include "client/calls/pull_decoder.h"

#include <stdio.h>
#include <string.h>

static void begin_cut(struct ps_ranges_call *ranges, enum ps_encoding encoding, enum ps_dtype dtype,
                      const struct ps_view *content, uint64_t total);
static void fill(struct ps_ranges_call *ranges);
static void fill_slot(struct ps_ranges_call *ranges, struct ps_range_slot *slot);
static bool note(struct ps_ranges_call *ranges, const struct ps_call_request *request,
                 const struct ps_call_outcome *outcome);
static void note_pushed(struct ps_ranges_call *ranges, const struct ps_call_outcome *outcome);
static void go_on(struct ps_ranges_call *ranges);
static void begin_round(struct ps_ranges_call *ranges);
static void end(struct ps_ranges_call *ranges);

/* The larger content decides: a push and pull in one goes in ranges when either half is worth
 * it. */
size_t ps_ranges_bytes(const struct ps_call_request *request)
{
    const struct ps_push_request *push = ps_call_push_of(request);
    const struct ps_pull_request *pull = ps_call_pull_of(request);
    if (ps_call_init_of(request) != NULL)
        return ps_call_init_of(request)->content.size;
    /* The rows of a table have no order in which ranges of them would be the whole. */
    if ((push != NULL && push->encoding == PS_ENCODING_ROWS) ||
        (pull != NULL && pull->keys.size > 0))
        return 0;
    size_t push_bytes = push != NULL ? push->content.size : 0;
    size_t pull_bytes = pull != NULL ? (size_t)ps_ranges_pull_bytes(pull) : 0;
    return push_bytes > pull_bytes ? push_bytes : pull_bytes;
}

/* ---- Beginning ---- */

/* Nothing of an earlier attempt counts: the server may be another one, and what it had staged is
 * gone or will be known by the id. */
void ps_ranges_begin(struct ps_ranges_call *ranges, const struct ps_ranges_options *options,
                     const struct ps_call_request *request)
{
    const struct ps_push_request *push = ps_call_push_of(request);
    PS_ASSERT(ps_ranges_bytes(request) > 0);
    *ranges = (struct ps_ranges_call){.options = options, .request = request};
    ranges->outcome.reply.method = request->method;
    /* Without an id the server could not tell which ranges belong together. */
    if (push != NULL) {
        PS_ASSERT(push->request.present);
        begin_cut(ranges, push->encoding, push->dtype, &push->content, push->total);
    } else if (ps_call_init_of(request) != NULL) {
        PS_ASSERT(request->init.request.present);
        begin_cut(ranges, PS_ENCODING_NATIVE, request->init.dtype, &request->init.content, 0);
    }
    /* The cut, then the pull, then early values: those need the length of both, and may narrow the
     * cut before its first range. */
    ps_ranges_pull_begin(ranges);
    ps_ranges_early_begin(ranges);
    fill(ranges);
    PS_ASSERT(ps_ranges_out(ranges) > 0);
}

/* Content that is cut lies in one piece: it is the caller's memory, or was encoded into one block.
 * Encoded bytes do not say how many elements they are, so `total` is told; native ones do. */
static void begin_cut(struct ps_ranges_call *ranges, enum ps_encoding encoding, enum ps_dtype dtype,
                      const struct ps_view *content, uint64_t total)
{
    PS_ASSERT(content->piece_count == 1);
    size_t range_bytes = ranges->options->range_bytes;
    ranges->cut = (struct ps_range_cut){.encoding = encoding,
                                        .dtype = dtype,
                                        .content = content->pieces[0],
                                        .total = total,
                                        .part = ps_range_cut_part(encoding, dtype, range_bytes)};
    if (encoding == PS_ENCODING_NATIVE)
        ranges->cut.total = content->size / ps_dtype_size(dtype);
}

/* ---- Sending ---- */

/* A range whose answer was taken is not out any more, even while its slot is kept for the
 * content. */
static bool is_out(const struct ps_range_slot *slot)
{
    return slot->state != PS_RANGE_FREE && slot->state != PS_RANGE_KEEPS;
}

size_t ps_ranges_out(const struct ps_ranges_call *ranges)
{
    size_t count = 0;
    for (size_t i = 0; i < PS_RANGES_WINDOW; i++)
        count += is_out(&ranges->slots[i]) ? 1 : 0;
    return count;
}

/* Everything that may leave now: further ranges of the push, or, when all of them are back, the
 * pull. Early values are settled before the pull begins, since they may leave nothing to pull. */
static void fill(struct ps_ranges_call *ranges)
{
    for (size_t i = 0; i < PS_RANGES_WINDOW; i++) {
        bool has_more = ranges->cut.next < ranges->cut.total;
        if (!has_more || ranges->failed || ranges->is_stopped)
            break;
        /* A slot that is out, or keeps content, still owns its request and its pieces. */
        if (ranges->slots[i].state == PS_RANGE_FREE)
            fill_slot(ranges, &ranges->slots[i]);
    }
    bool is_pushed = ranges->cut.total == 0 || ranges->has_reply;
    if (ranges->pull.wish == NULL || !is_pushed || ranges->failed || ranges->is_stopped)
        return;
    /* A pull that comes whole is the last answer of the call: its content is borrowed. */
    if (ranges->pull.next == 0 && ps_ranges_out(ranges) > 0)
        return;
    if (ranges->early.asked)
        ps_ranges_early_settle(ranges);
    ps_ranges_pull_fill(ranges);
}

/* The request of the whole with other content and a range. All ranges carry the id of the call, by
 * which the server puts them together. */
static void fill_slot(struct ps_ranges_call *ranges, struct ps_range_slot *slot)
{
    const struct ps_push_request *push = ps_call_push_of(ranges->request);
    struct ps_view content;
    struct ps_elements range = ps_range_cut_next(&ranges->cut, slot->pieces, &content);
    slot->state = PS_RANGE_TO_SEND;
    if (push == NULL) {
        slot->request = (struct ps_call_request){.method = ranges->request->method,
                                                 .init = ranges->request->init};
        slot->request.init.content = content;
        slot->request.init.range = range;
        slot->request.init.total = ranges->cut.total;
        return;
    }
    /* The id stays the call's: a range that is sent again after a lost answer is known again. */
    slot->request = (struct ps_call_request){.method = PS_METHOD_PUSH, .push = *push};
    slot->request.push.content = content;
    slot->request.push.range = range;
    if (ranges->early.asks)
        ps_ranges_early_ask(ranges, &slot->request);
}

/* The state changes here, when the range is handed out: whoever asks must send it. */
bool ps_ranges_next(struct ps_ranges_call *ranges, enum ps_ranges_action *action, uint32_t *range)
{
    for (uint32_t i = 0; i < PS_RANGES_WINDOW; i++) {
        struct ps_range_slot *slot = &ranges->slots[i];
        if (slot->state != PS_RANGE_TO_SEND && slot->state != PS_RANGE_TO_CANCEL)
            continue;
        bool sends = slot->state == PS_RANGE_TO_SEND;
        slot->state = sends ? PS_RANGE_SENT : PS_RANGE_CANCELLED;
        *action = sends ? PS_RANGES_SEND : PS_RANGES_CANCEL;
        *range = i;
        return true;
    }
    return false;
}

/* A range that has not left yet is forgotten: there will be no outcome of it. */
static void cancel_all(struct ps_ranges_call *ranges)
{
    for (size_t i = 0; i < PS_RANGES_WINDOW; i++) {
        struct ps_range_slot *slot = &ranges->slots[i];
        if (slot->state == PS_RANGE_TO_SEND)
            slot->state = PS_RANGE_FREE;
        else if (slot->state == PS_RANGE_SENT)
            slot->state = PS_RANGE_TO_CANCEL;
    }
}

/* ---- Answers ---- */

/* The slot stays taken while its content is moved. A range that leaves meanwhile would otherwise
 * write into the request that says where the content belongs. */
bool ps_ranges_took(struct ps_ranges_call *ranges, uint32_t range,
                    const struct ps_call_outcome *outcome)
{
    struct ps_range_slot *slot = &ranges->slots[range];
    PS_ASSERT(range < PS_RANGES_WINDOW);
    PS_ASSERT(is_out(slot) && slot->state != PS_RANGE_TO_SEND);
    /* Taken at once: a second outcome of the same range would fail the assertion above. */
    slot->state = PS_RANGE_KEEPS;
    bool has_content = note(ranges, &slot->request, outcome) && !ranges->failed;
    /* The slot stays taken, so that the others leave while its content is moved. */
    if (has_content)
        fill(ranges);
    else
        ps_ranges_keep(ranges, range, NULL);
    return has_content;
}

/* With the request's own sizes: content that does not fit was not said to be kept. */
static void move(const struct ps_call_request *request, const struct ps_call_reply *reply)
{
    const struct ps_pull_request *pull = ps_call_pull_of(request);
    const struct ps_pull_reply *from =
        request->method == PS_METHOD_PULL ? &reply->pull : &reply->push_pull.pull;
    size_t count = (size_t)pull->range.count;
    enum ps_status status;
    if (pull->as_is)
        status = ps_pull_reply_take_as_is(from, pull->encoding, pull->name, pull->destination,
                                          count, NULL);
    else
        status = ps_pull_reply_take(from, pull->name, pull->destination,
                                    count * ps_dtype_size(pull->dtype), NULL);
    PS_ASSERT(status == PS_OK);
}

/* Without a reply there is nothing to move, and the slot is free at once. */
void ps_ranges_keep(struct ps_ranges_call *ranges, uint32_t range,
                    const struct ps_call_reply *reply)
{
    struct ps_range_slot *slot = &ranges->slots[range];
    PS_ASSERT(slot->state == PS_RANGE_KEEPS);
    if (reply != NULL)
        move(&slot->request, reply);
    slot->state = PS_RANGE_FREE;
    go_on(ranges);
}

/* What an answer says of the whole. True: its content belongs to what is wanted. A server that
 * knows no push and pull in one has not looked at the range: as if it had let go of it. */
static bool note(struct ps_ranges_call *ranges, const struct ps_call_request *request,
                 const struct ps_call_outcome *outcome)
{
    if (request->method == PS_METHOD_PULL)
        return ps_ranges_pull_took(ranges, &request->pull, outcome);
    if (request->method != PS_METHOD_PUSH_PULL) {
        note_pushed(ranges, outcome);
        return false;
    }
    if (!outcome->no_bundles)
        note_pushed(ranges, outcome);
    return ps_ranges_early_took(ranges, &request->push_pull.pull, outcome);
}

/* An answer that is only "staged" says nothing of the whole. The other one is kept as the reply of
 * the call, whichever range it came with: the server may complete the whole with any of them. */
static void note_pushed(struct ps_ranges_call *ranges, const struct ps_call_outcome *outcome)
{
    const struct ps_call_reply *came = &outcome->reply;
    struct ps_call_reply *reply = &ranges->outcome.reply;
    const struct ps_push_reply *push =
        came->method == PS_METHOD_PUSH ? &came->push : &came->push_pull.push;
    bool is_init = ps_call_init_of(ranges->request) != NULL;
    if (outcome->status != PS_OK && !outcome->pushed) {
        ps_ranges_fail(ranges, outcome);
        return;
    }
    if (is_init ? came->init.staged : push->staged)
        return;
    /* From here on the push is applied: no later failure may be told as a refusal (see end). */
    ranges->has_reply = true;
    if (is_init)
        reply->init = came->init;
    else if (ranges->request->method == PS_METHOD_PUSH)
        reply->push = *push;
    else
        reply->push_pull.push = *push;
}

/* ---- Failing and ending ---- */

/* Later failures are mostly consequences of the first: ranges that were cancelled for it. They
 * only count against the refusal. */
void ps_ranges_fail(struct ps_ranges_call *ranges, const struct ps_call_outcome *outcome)
{
    struct ps_call_outcome *to = &ranges->outcome;
    /* Before the return: a later range that was not refused may have been applied. */
    to->refused = to->refused && outcome->refused;
    if (ranges->failed)
        return;
    ranges->failed = true;
    to->status = outcome->status;
    to->refused = outcome->refused;
    to->session = outcome->session;
    memcpy(to->text, outcome->text, sizeof to->text);
    cancel_all(ranges);
}

/* A failure that is noticed here and not said by a server is never a refusal. */
void ps_ranges_fail_with(struct ps_ranges_call *ranges, enum ps_status status, const char *text)
{
    struct ps_call_outcome outcome = {.status = status};
    (void)snprintf(outcome.text, sizeof outcome.text, "%s", text);
    ps_ranges_fail(ranges, &outcome);
}

/* Ranges that are out may still complete the whole, and then the call is done after all. */
void ps_ranges_stop(struct ps_ranges_call *ranges)
{
    ranges->is_stopped = true;
    cancel_all(ranges);
    go_on(ranges);
}

/* Called after every event. The end is looked for twice, since a round that begins anew is not
 * over. */
static void go_on(struct ps_ranges_call *ranges)
{
    fill(ranges);
    if (!ps_ranges_is_over(ranges))
        return;
    /* Only now, when nothing is out: an answer of the old round would be counted in the new one. */
    begin_round(ranges);
    if (ps_ranges_is_over(ranges))
        end(ranges);
}

/* Everything was answered, and nothing was more than staged: another client's push made the server
 * let go of what it had. All ranges leave once more, now without asking for early values, which
 * came to nothing. */
static void begin_round(struct ps_ranges_call *ranges)
{
    bool is_lost = ranges->cut.total > 0 && !ranges->has_reply && !ranges->failed;
    /* The rounds are bounded: where clients overtake each other all the time, the call fails, and
     * the engine may send the content as one. */
    if (!is_lost || ranges->is_stopped || ranges->rounds + 1 >= PS_RANGES_ROUNDS_MAX)
        return;
    ranges->was_overtaken = true;
    ranges->rounds++;
    ps_range_cut_rewind(&ranges->cut);
    ps_early_values_reset(&ranges->early);
    fill(ranges);
}

/* Also a slot that keeps content counts: the call must not end before its content is in place. */
bool ps_ranges_is_over(const struct ps_ranges_call *ranges)
{
    for (size_t i = 0; i < PS_RANGES_WINDOW; i++)
        if (ranges->slots[i].state != PS_RANGE_FREE)
            return false;
    return true;
}

/* The outcome of the whole: done only when the push has its answer and nothing of the pull is
 * missing. A call whose push was done is never refused, whatever failed behind it. */
static void end(struct ps_ranges_call *ranges)
{
    const struct ps_ranges_pull *pull = &ranges->pull;
    bool is_pushed = ranges->cut.total == 0 || ranges->has_reply;
    bool is_pulled = pull->wish == NULL || (!pull->is_stale && pull->next == pull->total);
    if (ranges->is_stopped && !ranges->failed && !(is_pushed && is_pulled))
        ps_ranges_fail_with(ranges, PS_ERR_UNAVAILABLE, "no time for all ranges");
    if (!is_pushed && !ranges->failed)
        ps_ranges_fail_with(ranges, PS_ERR_UNAVAILABLE, "the server has lost ranges of this call");
    ranges->outcome.refused = ranges->outcome.refused && !ranges->has_reply;
    ps_ranges_pull_end(ranges);
}

/* A call that failed or was stopped has nothing that is about to leave. */
void ps_ranges_check(const struct ps_ranges_call *ranges)
{
    PS_ASSERT(ranges->request != NULL && ranges->options != NULL);
    PS_ASSERT(ranges->cut.next <= ranges->cut.total);
    PS_ASSERT(ranges->pull.next <= ranges->pull.total);
    PS_ASSERT(ranges->rounds < PS_RANGES_ROUNDS_MAX);
    PS_ASSERT(ranges->pull.wish != NULL || ranges->pull.total == 0);
    for (size_t i = 0; i < PS_RANGES_WINDOW; i++) {
        bool leaves = ranges->slots[i].state == PS_RANGE_TO_SEND;
        PS_ASSERT(!leaves || (!ranges->failed && !ranges->is_stopped));
    }
}
