/* SPDX-License-Identifier: Apache-2.0 */
/* A push and the pull behind it as one: each range of the gradient brings back what it makes of its
 * elements, while the next is on its way. That holds when all ranges did, and the push got the
 * version that they have said; else the pull goes on as any other. */
#include "base/assert.h"
#include "client/ranges/ranges_call.h"

/* Pairs name elements of the whole parameter, so a range of them makes no range of values. The
 * ranges of push and pull must be the same elements: the smaller of the two cuts is taken. What a
 * contribution makes is known when its round is over, and not before. */
void ps_ranges_early_begin(struct ps_ranges_call *ranges)
{
    const struct ps_push_request *push = ps_call_push_of(ranges->request);
    const struct ps_pull_request *pull = ranges->pull.wish;
    ranges->early.asks = !ranges->options->no_early_values && push != NULL && pull != NULL &&
                         ps_ranges_pull_bytes(pull) > 0 && push->encoding != PS_ENCODING_TOP_K &&
                         push->worker == 0 && pull->dtype == push->dtype &&
                         ranges->pull.total == ranges->cut.total;
    if (!ranges->early.asks)
        return;
    /* Neither half of a range is larger than the options say, whichever encoding is the wider. */
    uint64_t part = ps_range_cut_part(pull->encoding, pull->dtype, ranges->options->range_bytes);
    ps_range_cut_narrow(&ranges->cut, part);
}

/* The same range twice: of the gradient, and of the values that come back. */
void ps_ranges_early_ask(struct ps_ranges_call *ranges, struct ps_call_request *request)
{
    const struct ps_push_request push = request->push;
    request->method = PS_METHOD_PUSH_PULL;
    request->push_pull.push = push;
    request->push_pull.pull = *ranges->pull.wish;
    request->push_pull.pull.of_push = true;
    ps_ranges_pull_cut(&request->push_pull.pull, push.range);
    ranges->early.asked = true;
}

/* True: the answer has values that may come true. A push that was done without its pull is no
 * failure of the call: the values are pulled later. */
bool ps_ranges_early_took(struct ps_ranges_call *ranges, const struct ps_pull_request *request,
                          const struct ps_call_outcome *outcome)
{
    struct ps_early_values *early = &ranges->early;
    const struct ps_pull_reply *reply = &outcome->reply.push_pull.pull;
    if (outcome->status != PS_OK || outcome->no_bundles || reply->range.count == 0) {
        ps_early_values_miss(early);
        return false;
    }
    bool fits = ps_ranges_pull_is_asked_for(request, reply) && reply->total == ranges->pull.total;
    /* Only the fields that all ranges have in common count. The content lives no longer than this
     * answer: ps_ranges_pull_end puts the whole in its place. */
    if (early->version == 0)
        ranges->outcome.reply.push_pull.pull = *reply;
    return ps_early_values_note(early, reply, fits) && fits;
}

/* What holds counts as pulled, and the pull has nothing left to ask for. What does not hold is in
 * the caller's memory already, and every byte of it is overwritten by the pull that follows. */
void ps_ranges_early_settle(struct ps_ranges_call *ranges)
{
    struct ps_early_values *early = &ranges->early;
    PS_ASSERT(ps_ranges_out(ranges) == 0);
    PS_ASSERT(ranges->has_reply);
    if (ps_early_values_holds(early, &ranges->outcome.reply.push_pull.push)) {
        ranges->pull.in_ranges = true;
        ranges->pull.version = early->version;
        ranges->pull.next = ranges->pull.total;
    }
    early->asked = false;
}
