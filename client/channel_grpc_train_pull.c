/* A large pull in ranges. The first one says which version it is of, the others ask for the same,
 * and each is put into the caller's memory while it is in the cache and others are on their way.
 * When the version has gone meanwhile, all of them are asked for again, of the present one. */
#include "client/channel_grpc_train.h"

#include "base/assert.h"

/* After so many versions that went it is read in one message. */
enum { BEGINS_MAX = 3 };

static void begin_again(struct ps_train *train);
static void ask_for_range(struct ps_train *train, struct ps_train_slot *slot);
static void note_first(struct ps_train *train, const struct ps_pull_request *request,
                       const struct ps_pull_reply *reply);

bool ps_train_pull_carries(const struct ps_pull_request *pull)
{
    return pull->destination != NULL && pull->encoding == PS_ENCODING_NATIVE &&
           pull->range.count == 0 && pull->size_wish > PS_TRAIN_BYTES_MIN &&
           pull->size_wish % ps_dtype_size(pull->dtype) == 0;
}

void ps_train_pull_go_on(struct ps_train *train)
{
    struct ps_train_pull *pull = &train->pull;
    if (pull->is_stale && train->running == 0)
        begin_again(train);
    for (size_t i = 0; i < PS_TRAIN_WINDOW && !train->failed && !pull->is_stale; i++) {
        bool waits_for_version = pull->next > 0 && pull->version == 0;
        if (train->slots[i].busy || waits_for_version || pull->next == pull->wish->size_wish)
            continue;
        ask_for_range(train, &train->slots[i]);
    }
}

static void begin_again(struct ps_train *train)
{
    struct ps_train_pull *pull = &train->pull;
    *pull = (struct ps_train_pull){.wish = pull->wish, .begins = pull->begins + 1};
}

static void ask_for_range(struct ps_train *train, struct ps_train_slot *slot)
{
    struct ps_train_pull *pull = &train->pull;
    const struct ps_pull_request *wish = pull->wish;
    size_t left = wish->size_wish - pull->next;
    size_t size = left < PS_TRAIN_PART_BYTES ? left : PS_TRAIN_PART_BYTES;
    if (pull->begins >= BEGINS_MAX || !ps_train_pull_carries(wish))
        size = left;
    slot->request = (struct ps_call_request){.method = PS_METHOD_PULL, .pull = *wish};
    if (size < wish->size_wish) {
        size_t element_size = ps_dtype_size(wish->dtype);
        struct ps_pull_request *range = &slot->request.pull;
        range->range = (struct ps_elements){pull->next / element_size, size / element_size};
        range->version = pull->version;
        range->life = pull->life;
        range->size_wish = size;
        range->destination += pull->next;
    }
    pull->next += size;
    ps_train_launch(train, slot);
}

void ps_train_pull_note(struct ps_train *train, const struct ps_pull_request *request,
                        const struct ps_call_outcome *outcome)
{
    struct ps_train_pull *pull = &train->pull;
    const struct ps_pull_reply *reply = &outcome->reply.pull;
    if (outcome->status == PS_ERR_CONFLICT && request->version != 0)
        pull->is_stale = true;
    else if (outcome->status != PS_OK)
        ps_train_fail(train, outcome->status, outcome->refused, outcome->text);
    else if (pull->version == 0)
        note_first(train, request, reply);
    else if (!ps_train_pull_is_asked_for(request, reply) || reply->version + 1 != pull->version)
        ps_train_fail(train, PS_ERR_INTERNAL, false, "the reply is of another range");
}

/* What is not a range of what is wanted (an old server knows no ranges; the parameter is of another
 * length or type) is the reply to the whole, and judged as one by whoever asked. */
static void note_first(struct ps_train *train, const struct ps_pull_request *request,
                       const struct ps_pull_reply *reply)
{
    struct ps_train_pull *pull = &train->pull;
    const struct ps_pull_request *wish = pull->wish;
    struct ps_pull_reply *whole = train->request->method == PS_METHOD_PULL
                                      ? &train->outcome.reply.pull
                                      : &train->outcome.reply.push_pull.pull;
    *whole = *reply;
    pull->version = reply->version + 1;
    pull->life = reply->life;
    pull->in_ranges = ps_train_pull_is_asked_for(request, reply) &&
                      reply->total == wish->size_wish / ps_dtype_size(wish->dtype);
    if (pull->in_ranges)
        return;
    pull->next = wish->size_wish;
    if (reply->range.count != 0)
        whole->content = (struct ps_view){.size = reply->total * ps_dtype_size(reply->dtype)};
}

bool ps_train_pull_is_asked_for(const struct ps_pull_request *request,
                                const struct ps_pull_reply *reply)
{
    return request->range.count != 0 && reply->range.first == request->range.first &&
           reply->range.count == request->range.count && reply->dtype == request->dtype &&
           reply->content.size == request->size_wish && reply->encoding == PS_ENCODING_NATIVE;
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
    PS_ASSERT(train->pull.next == wish->size_wish);
    struct ps_pull_reply *whole = train->request->method == PS_METHOD_PULL
                                      ? &train->outcome.reply.pull
                                      : &train->outcome.reply.push_pull.pull;
    *piece = (struct ps_bytes){wish->destination, wish->size_wish};
    whole->content = ps_view_of(piece);
    whole->range = (struct ps_elements){0, 0};
}
