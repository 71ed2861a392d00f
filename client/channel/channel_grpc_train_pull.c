/* A large pull in ranges. The first one says which version it is of, the others ask for the same,
 * and each is put into the caller's memory while it is in the cache and others are on their way.
 * When the version has gone meanwhile, all of them are asked for again, of the present one. */
#include "client/channel/channel_grpc_train.h"

#include "base/assert.h"
#include "optimizer/encoded.h"

/* After so many versions that went it is read in one message. */
enum { BEGINS_MAX = 3 };

static void begin_again(struct ps_train *train);
static void ask_for_range(struct ps_train *train, struct ps_train_slot *slot);
static void note_first(struct ps_train *train, const struct ps_pull_request *request,
                       const struct ps_pull_reply *reply);

uint64_t ps_train_pull_bytes(const struct ps_pull_request *pull)
{
    bool can = pull->destination != NULL && pull->range.count == 0 &&
               pull->encoding != PS_ENCODING_TOP_K &&
               (pull->encoding == PS_ENCODING_NATIVE || ps_dtype_is_float(pull->dtype)) &&
               pull->size_wish % ps_dtype_size(pull->dtype) == 0;
    return can ? ps_encoding_bytes(pull->encoding, pull->dtype,
                                   pull->size_wish / ps_dtype_size(pull->dtype))
               : 0;
}

void ps_train_pull_cut(struct ps_pull_request *pull, struct ps_elements range)
{
    pull->range = range;
    pull->size_wish = (size_t)ps_encoding_bytes(pull->encoding, pull->dtype, range.count);
    pull->destination += range.first * ps_dtype_size(pull->dtype);
}

void ps_train_pull_go_on(struct ps_train *train)
{
    struct ps_train_pull *pull = &train->pull;
    if (pull->is_stale && train->running == 0)
        begin_again(train);
    for (size_t i = 0; i < PS_TRAIN_WINDOW && !train->failed && !pull->is_stale; i++) {
        bool waits_for_version = pull->next > 0 && pull->version == 0;
        if (train->slots[i].busy || waits_for_version || pull->next == pull->total)
            continue;
        ask_for_range(train, &train->slots[i]);
    }
}

static void begin_again(struct ps_train *train)
{
    struct ps_train_pull *pull = &train->pull;
    *pull = (struct ps_train_pull){
        .wish = pull->wish, .total = pull->total, .begins = pull->begins + 1};
}

static void ask_for_range(struct ps_train *train, struct ps_train_slot *slot)
{
    struct ps_train_pull *pull = &train->pull;
    const struct ps_pull_request *wish = pull->wish;
    uint64_t left = pull->total - pull->next;
    uint64_t part = ps_range_cut_part(wish->encoding, wish->dtype, PS_TRAIN_PART_BYTES);
    uint64_t count = left < part ? left : part;
    if (pull->begins >= BEGINS_MAX || ps_train_pull_bytes(wish) <= PS_TRAIN_BYTES_MIN)
        count = left;
    slot->request = (struct ps_call_request){.method = PS_METHOD_PULL, .pull = *wish};
    if (count < pull->total) {
        ps_train_pull_cut(&slot->request.pull, (struct ps_elements){pull->next, count});
        slot->request.pull.version = pull->version;
        slot->request.pull.life = pull->life;
    }
    pull->next += count;
    ps_train_launch(train, slot);
}

static void fail_range(struct ps_train *train)
{
    ps_train_fail(train, PS_ERR_INTERNAL, false, "the reply is of another range");
}

void ps_train_pull_note(struct ps_train *train, const struct ps_pull_request *request,
                        const struct ps_call_outcome *outcome)
{
    struct ps_train_pull *pull = &train->pull;
    const struct ps_pull_reply *reply = &outcome->reply.pull;
    if (outcome->status == PS_ERR_CONFLICT && request->version != 0)
        pull->is_stale = true;
    else if (outcome->status != PS_OK)
        ps_train_fail_as(train, outcome);
    else if (pull->version == 0)
        note_first(train, request, reply);
    else if (!ps_train_pull_is_asked_for(request, reply) || reply->version + 1 != pull->version)
        fail_range(train);
}

/* What is not a range (an old server knows none), or one of a parameter of another length or type,
 * is the reply to the whole, and judged as one by whoever asked. */
static void note_first(struct ps_train *train, const struct ps_pull_request *request,
                       const struct ps_pull_reply *reply)
{
    struct ps_train_pull *pull = &train->pull;
    struct ps_pull_reply *whole = train->request->method == PS_METHOD_PULL
                                      ? &train->outcome.reply.pull
                                      : &train->outcome.reply.push_pull.pull;
    *whole = *reply;
    pull->version = reply->version + 1;
    pull->life = reply->life;
    bool is_of_wanted = reply->total == pull->total && reply->dtype == request->dtype;
    pull->in_ranges = is_of_wanted && ps_train_pull_is_asked_for(request, reply);
    if (pull->in_ranges)
        return;
    pull->next = pull->total;
    if (reply->range.count == 0)
        return;
    if (is_of_wanted) {
        fail_range(train);
        return;
    }
    whole->encoding = PS_ENCODING_NATIVE;
    whole->content = (struct ps_view){.size = reply->total * ps_dtype_size(reply->dtype)};
}

bool ps_train_pull_is_asked_for(const struct ps_pull_request *request,
                                const struct ps_pull_reply *reply)
{
    bool is_encoded_so = reply->encoding == request->encoding ||
                         (ps_encoding_is_native(reply->encoding, request->dtype) &&
                          ps_encoding_is_native(request->encoding, request->dtype));
    return request->range.count != 0 && reply->range.first == request->range.first &&
           reply->range.count == request->range.count && reply->dtype == request->dtype &&
           reply->content.size == request->size_wish && is_encoded_so;
}

bool ps_train_pull_keeps(const struct ps_train *train)
{
    return !train->pull.is_stale && train->pull.in_ranges;
}

void ps_train_pull_end(struct ps_train *train, struct ps_bytes *piece)
{
    const struct ps_pull_request *wish = train->pull.wish;
    if (wish == NULL || train->failed || !train->pull.in_ranges)
        return;
    PS_ASSERT(train->pull.next == train->pull.total);
    struct ps_pull_reply *whole = train->request->method == PS_METHOD_PULL
                                      ? &train->outcome.reply.pull
                                      : &train->outcome.reply.push_pull.pull;
    *piece = (struct ps_bytes){wish->destination, wish->size_wish};
    whole->content = ps_view_of(piece);
    whole->encoding = PS_ENCODING_NATIVE;
    whole->range = (struct ps_elements){0, 0};
}
