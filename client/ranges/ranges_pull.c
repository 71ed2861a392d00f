/* SPDX-License-Identifier: Apache-2.0 */
/* A large pull in ranges. The first range says which version it is of, the others ask for the same,
 * and each is put into the caller's memory while it is in the cache and others are on their way.
 * When the version has gone meanwhile, all ranges are asked for again, of the present one. */
#include "base/assert.h"
#include "client/calls/pull_decoder.h"
#include "client/ranges/ranges_call.h"
#include "optimizer/encoded.h"

static void begin_version(struct ps_ranges_pull *pull);
static void ask_for_range(struct ps_ranges_call *ranges, struct ps_range_slot *slot);
static bool note_first(struct ps_ranges_call *ranges, const struct ps_pull_request *request,
                       const struct ps_pull_reply *reply);

/* Pairs have no order that a range could be cut out of, and an encoding of whole numbers is
 * none. */
uint64_t ps_ranges_pull_bytes(const struct ps_pull_request *pull)
{
    bool can = pull->destination != NULL && pull->range.count == 0 &&
               pull->encoding != PS_ENCODING_TOP_K &&
               (pull->encoding == PS_ENCODING_NATIVE || ps_dtype_is_float(pull->dtype)) &&
               pull->size_wish % ps_dtype_size(pull->dtype) == 0;
    return can ? ps_encoding_bytes(pull->encoding, pull->dtype,
                                   pull->size_wish / ps_dtype_size(pull->dtype))
               : 0;
}

/* Elements become bytes twice: as they travel, and as they lie in the caller's memory. */
void ps_ranges_pull_cut(struct ps_pull_request *pull, struct ps_elements range)
{
    pull->range = range;
    pull->size_wish = (size_t)ps_encoding_bytes(pull->encoding, pull->dtype, range.count);
    pull->destination += range.first * ps_pull_element_bytes(pull);
}

/* Where the reply of the whole has its pull depends on whether a push is with it. */
struct ps_pull_reply *ps_ranges_pull_reply(struct ps_ranges_call *ranges)
{
    struct ps_call_reply *reply = &ranges->outcome.reply;
    return ranges->request->method == PS_METHOD_PULL ? &reply->pull : &reply->push_pull.pull;
}

/* Without a pull all of this stays zero, and `wish` NULL says so. */
void ps_ranges_pull_begin(struct ps_ranges_call *ranges)
{
    const struct ps_pull_request *wish = ps_call_pull_of(ranges->request);
    ranges->pull.wish = wish;
    if (wish != NULL)
        ranges->pull.total = wish->size_wish / ps_dtype_size(wish->dtype);
}

/* Only the first range leaves while the version is not known: the others must ask for the same. */
void ps_ranges_pull_fill(struct ps_ranges_call *ranges)
{
    struct ps_ranges_pull *pull = &ranges->pull;
    /* The next version begins when the last range of the old one is back: an answer that came later
     * would be mixed into the new one. */
    if (pull->is_stale && ps_ranges_out(ranges) == 0)
        begin_version(pull);
    for (size_t i = 0; i < PS_RANGES_WINDOW && !pull->is_stale; i++) {
        bool waits_for_version = pull->next > 0 && pull->version == 0;
        if (waits_for_version || pull->next == pull->total)
            return;
        if (ranges->slots[i].state == PS_RANGE_FREE)
            ask_for_range(ranges, &ranges->slots[i]);
    }
}

/* Whatever came of the version that has gone is overwritten by the ranges of the next one. */
static void begin_version(struct ps_ranges_pull *pull)
{
    *pull = (struct ps_ranges_pull){
        .wish = pull->wish, .total = pull->total, .versions = pull->versions + 1};
}

/* A parameter that is pushed to all the time may lose every version before its ranges are read:
 * then all that is left comes in one message, which is always of one version. */
static void ask_for_range(struct ps_ranges_call *ranges, struct ps_range_slot *slot)
{
    struct ps_ranges_pull *pull = &ranges->pull;
    const struct ps_pull_request *wish = pull->wish;
    uint64_t left = pull->total - pull->next;
    uint64_t part = ps_range_cut_part(wish->encoding, wish->dtype, ranges->options->range_bytes);
    uint64_t count = left < part ? left : part;
    if (pull->versions >= PS_RANGES_VERSIONS_MAX ||
        ps_ranges_pull_bytes(wish) <= ranges->options->above_bytes)
        count = left;
    slot->state = PS_RANGE_TO_SEND;
    slot->request = (struct ps_call_request){.method = PS_METHOD_PULL, .pull = *wish};
    /* A pull of everything is asked without a range and without a version: servers answer with the
     * present one. */
    if (count < pull->total) {
        ps_ranges_pull_cut(&slot->request.pull, (struct ps_elements){pull->next, count});
        slot->request.pull.version = pull->version;
        slot->request.pull.life = pull->life;
    }
    pull->next += count;
}

/* A server that answers with other elements than were asked for is wrong in a way that repeating
 * may not heal: the engine decides. */
static void fail_range(struct ps_ranges_call *ranges)
{
    ps_ranges_fail_with(ranges, PS_ERR_INTERNAL, "the reply is of another range");
}

/* True: the content is of a range of the version that is read. CONFLICT is how a server says that
 * the version which a range asks for has gone. */
bool ps_ranges_pull_took(struct ps_ranges_call *ranges, const struct ps_pull_request *request,
                         const struct ps_call_outcome *outcome)
{
    struct ps_ranges_pull *pull = &ranges->pull;
    const struct ps_pull_reply *reply = &outcome->reply.pull;
    if (outcome->status == PS_ERR_CONFLICT && request->version != 0) {
        pull->is_stale = true;
        return false;
    }
    if (outcome->status != PS_OK) {
        ps_ranges_fail(ranges, outcome);
        return false;
    }
    if (pull->version == 0)
        return note_first(ranges, request, reply);
    if (!ps_ranges_pull_is_asked_for(request, reply) || reply->version + 1 != pull->version)
        fail_range(ranges);
    return !pull->is_stale && pull->in_ranges;
}

/* A reply that is not a range (an old server knows none), or that is of a parameter of another
 * length or type, is the reply to the whole, and the engine judges it as such. */
static bool note_first(struct ps_ranges_call *ranges, const struct ps_pull_request *request,
                       const struct ps_pull_reply *reply)
{
    struct ps_ranges_pull *pull = &ranges->pull;
    struct ps_pull_reply *whole = ps_ranges_pull_reply(ranges);
    *whole = *reply;
    pull->version = reply->version + 1;
    pull->life = reply->life;
    bool is_of_wanted = reply->total == pull->total && reply->dtype == request->dtype;
    pull->in_ranges = is_of_wanted && ps_ranges_pull_is_asked_for(request, reply);
    if (pull->in_ranges)
        return true;
    /* Nothing more is asked for: the reply at hand is all that the engine needs to judge the
     * pull. */
    pull->next = pull->total;
    if (reply->range.count == 0)
        return false;
    if (is_of_wanted) {
        fail_range(ranges);
        return false;
    }
    /* Its size says of which length the parameter is; nobody reads content that is not there. */
    whole->encoding = PS_ENCODING_NATIVE;
    whole->content = (struct ps_view){.size = reply->total * ps_dtype_size(reply->dtype)};
    return false;
}

/* Two names for the same encoding are the same: a server says "native" or names the native one. */
bool ps_ranges_pull_is_asked_for(const struct ps_pull_request *request,
                                 const struct ps_pull_reply *reply)
{
    bool is_encoded_so = reply->encoding == request->encoding ||
                         (ps_encoding_is_native(reply->encoding, request->dtype) &&
                          ps_encoding_is_native(request->encoding, request->dtype));
    return request->range.count != 0 && reply->range.first == request->range.first &&
           reply->range.count == request->range.count && reply->dtype == request->dtype &&
           reply->content.size == request->size_wish && is_encoded_so;
}

/* The ranges lie in the caller's memory already: the reply to the whole says only where. */
void ps_ranges_pull_end(struct ps_ranges_call *ranges)
{
    const struct ps_pull_request *wish = ranges->pull.wish;
    if (wish == NULL || ranges->failed || !ranges->pull.in_ranges)
        return;
    PS_ASSERT(ranges->pull.next == ranges->pull.total);
    struct ps_pull_reply *whole = ps_ranges_pull_reply(ranges);
    /* Held by the call, since the view of the reply points to it after this function. */
    size_t size = (size_t)ranges->pull.total * ps_pull_element_bytes(wish);
    ranges->whole = (struct ps_bytes){wish->destination, size};
    whole->content = ps_view_of(&ranges->whole);
    whole->encoding = wish->as_is ? wish->encoding : PS_ENCODING_NATIVE;
    whole->range = (struct ps_elements){0, 0};
}
