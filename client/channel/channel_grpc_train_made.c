/* A push and the pull behind it as one: each range of the gradient brings back what it makes of its
 * elements, while the next is on its way. That holds when all of them did, and the push got the
 * version that they have said; else the pull goes on as any other. */
#include "client/channel/channel_grpc_train.h"

#include "base/assert.h"

void ps_train_made_begin(struct ps_train *train)
{
    const struct ps_push_request *push = ps_call_push_of(train->request);
    const struct ps_pull_request *pull = train->pull.wish;
    train->made.asks = push != NULL && pull != NULL && ps_train_pull_bytes(pull) > 0 &&
                       push->encoding != PS_ENCODING_TOP_K && pull->dtype == push->dtype &&
                       train->pull.total == train->cut.total;
    if (!train->made.asks)
        return;
    uint64_t part = ps_range_cut_part(pull->encoding, pull->dtype, PS_TRAIN_PART_BYTES);
    train->cut.part = part < train->cut.part ? part : train->cut.part;
}

void ps_train_made_ask(struct ps_train *train, struct ps_call_request *request)
{
    const struct ps_push_request push = request->push;
    request->method = PS_METHOD_PUSH_PULL;
    request->push_pull.push = push;
    request->push_pull.pull = *train->pull.wish;
    request->push_pull.pull.of_push = true;
    ps_train_pull_cut(&request->push_pull.pull, push.range);
    train->made.asked = true;
}

/* The push's own outcome, whatever became of the pull. A server that has no such call has not
 * looked at the range: as if it had let go of it. */
bool ps_train_made_outcome(struct ps_train *train, struct ps_flight *flight,
                           struct ps_call_outcome *outcome)
{
    ps_flight_bundle_outcome(flight, 0, outcome);
    if (outcome->no_bundles) {
        outcome->status = PS_OK;
        outcome->reply.method = PS_METHOD_PUSH_PULL;
        outcome->reply.push_pull.push = (struct ps_push_reply){.staged = true};
    }
    bool is_pushed = flight->status == PS_OK && flight->bundle.pushes[0].status.status == PS_OK;
    bool has_made = is_pushed && outcome->status == PS_OK;
    if (is_pushed && !has_made && flight->bundle.pulls[0].status.status != PS_OK) {
        outcome->status = PS_OK;
        outcome->refused = false;
        outcome->reply.push_pull.push = flight->bundle.pushes[0].reply;
    }
    if (!has_made)
        ps_early_values_miss(&train->made);
    return has_made;
}

bool ps_train_made_note(struct ps_train *train, const struct ps_pull_request *request,
                        const struct ps_pull_reply *reply)
{
    struct ps_early_values *made = &train->made;
    bool fits = ps_train_pull_is_asked_for(request, reply) && reply->total == train->pull.total;
    if (made->version == 0)
        train->outcome.reply.push_pull.pull = *reply;
    return ps_early_values_note(made, reply, fits);
}

void ps_train_made_settle(struct ps_train *train)
{
    struct ps_early_values *made = &train->made;
    PS_ASSERT(train->running == 0 && train->has_reply);
    if (ps_early_values_holds(made, &train->outcome.reply.push_pull.push)) {
        train->pull.in_ranges = true;
        train->pull.version = made->version;
        train->pull.next = train->pull.total;
    }
    made->asked = false;
}
