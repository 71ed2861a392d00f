/* A call whose content is too large for a message goes in ranges, a few at a time, all under its
 * request id: the server puts them together and applies them as one. What comes back is one
 * outcome: that of the range which completed it, or the first failure. Whoever repeats the call
 * sends all ranges again, which is harmless.
 *
 *   ranges ──all answered, one of them not as "staged"──► (the pull of a PUSH_PULL ──►) outcome */
#include "client/channel_grpc.h"

#include "base/assert.h"

#include <stdio.h>
#include <string.h>

/* Ranges of one call that are out at once, and their size: what every gRPC takes. */
enum { WINDOW = 4, PART_BYTES = 4 * 1024 * 1024 - 64 * 1024 };

struct slot {
    struct ps_call_request request;
    struct ps_bytes piece;
    bool busy;
};

struct ps_train {
    struct ps_grpc_side *side; /* borrowed */
    uint64_t id;
    uint32_t shard;
    uint64_t deadline_ms;
    const struct ps_call_request *request; /* borrowed until the outcome */
    struct ps_bytes content;
    size_t element_size;
    size_t next;    /* bytes that have left */
    size_t running; /* flights */
    bool has_pulled;
    bool failed;
    bool has_reply; /* a range was not only staged: the whole is done */
    struct ps_call_outcome outcome;
    struct slot slots[WINDOW];
};

static const struct ps_push_request *push_of(const struct ps_call_request *request)
{
    if (request->method == PS_METHOD_PUSH)
        return &request->push;
    return request->method == PS_METHOD_PUSH_PULL ? &request->push_pull.push : NULL;
}

bool ps_train_carries(const struct ps_call_request *request)
{
    const struct ps_push_request *push = push_of(request);
    if (push != NULL)
        return push->request.present && push->encoding == PS_ENCODING_NATIVE &&
               push->content.size > PS_TRAIN_BYTES_MIN;
    return request->method == PS_METHOD_INIT && request->init.request.present &&
           request->init.content.size > PS_TRAIN_BYTES_MIN;
}

static void fill_part(const struct ps_train *train, struct slot *slot)
{
    const struct ps_push_request *push = push_of(train->request);
    struct ps_elements range = {train->next / train->element_size,
                                slot->piece.size / train->element_size};
    if (push != NULL) {
        slot->request.method = PS_METHOD_PUSH;
        slot->request.push = *push;
        slot->request.push.content = ps_view_of(&slot->piece);
        slot->request.push.range = range;
        return;
    }
    slot->request.method = PS_METHOD_INIT;
    slot->request.init = train->request->init;
    slot->request.init.content = ps_view_of(&slot->piece);
    slot->request.init.range = range;
    slot->request.init.total = train->content.size / train->element_size;
}

/* The first failure is the call's. It was refused only if every failure was a refusal: another
 * range may have completed what an earlier attempt had begun. */
static void fail(struct ps_train *train, enum ps_status status, bool refused, const char *text)
{
    train->outcome.refused = train->outcome.refused && refused;
    if (train->failed)
        return;
    train->failed = true;
    train->outcome.status = status;
    train->outcome.refused = refused;
    (void)snprintf(train->outcome.text, sizeof train->outcome.text, "%s", text);
}

static void launch(struct ps_train *train, struct slot *slot)
{
    struct ps_flight *flight = ps_flight_create(train->side, &slot->request);
    if (flight == NULL) {
        fail(train, PS_ERR_NO_MEMORY, false, "no memory for a range");
        return;
    }
    slot->busy = true;
    train->running++;
    flight->id = train->id;
    flight->train = train;
    ps_flight_begin(train->side, flight, train->shard, train->deadline_ms);
}

/* Sends what may be sent now: further ranges, or, behind the last of them, the pull. */
static void go_on(struct ps_train *train)
{
    for (size_t i = 0; i < WINDOW && !train->failed; i++) {
        struct slot *slot = &train->slots[i];
        if (slot->busy || train->next == train->content.size)
            continue;
        size_t left = train->content.size - train->next;
        slot->piece = (struct ps_bytes){train->content.data + train->next,
                                        left < PART_BYTES ? left : PART_BYTES};
        fill_part(train, slot);
        train->next += slot->piece.size;
        launch(train, slot);
    }
    bool pulls = train->request->method == PS_METHOD_PUSH_PULL && !train->has_pulled;
    if (!pulls || train->failed || !train->has_reply || train->running > 0)
        return;
    train->has_pulled = true;
    train->slots[0].request =
        (struct ps_call_request){.method = PS_METHOD_PULL, .pull = train->request->push_pull.pull};
    launch(train, &train->slots[0]);
}

enum ps_status ps_train_start(struct ps_grpc_side *side, uint64_t id, uint32_t shard,
                              const struct ps_call_request *request, uint64_t deadline_ms)
{
    const struct ps_push_request *push = push_of(request);
    const struct ps_view *content = push != NULL ? &push->content : &request->init.content;
    struct ps_train *train = ps_zeroed(side->memory, sizeof *train);
    if (train == NULL)
        return PS_ERR_NO_MEMORY;
    PS_ASSERT(content->piece_count == 1);
    train->side = side;
    train->id = id;
    train->shard = shard;
    train->deadline_ms = deadline_ms;
    train->request = request;
    train->content = content->pieces[0];
    train->element_size = ps_dtype_size(push != NULL ? push->dtype : request->init.dtype);
    train->outcome.reply.method = request->method;
    go_on(train);
    if (train->running > 0)
        return PS_OK;
    ps_release(side->memory, train);
    return PS_ERR_NO_MEMORY;
}

/* What the answer to a range, or to the pull, says about the whole. */
static void note(struct ps_train *train, const struct ps_call_outcome *outcome)
{
    struct ps_call_reply *reply = &train->outcome.reply;
    if (outcome->status != PS_OK) {
        fail(train, outcome->status, outcome->refused, outcome->text);
        return;
    }
    if (outcome->reply.method == PS_METHOD_PULL) {
        reply->push_pull.pull = outcome->reply.pull;
        return;
    }
    bool is_init = outcome->reply.method == PS_METHOD_INIT;
    if (is_init ? outcome->reply.init.staged : outcome->reply.push.staged)
        return;
    train->has_reply = true;
    if (is_init)
        reply->init = outcome->reply.init;
    else if (train->request->method == PS_METHOD_PUSH)
        reply->push = outcome->reply.push;
    else
        reply->push_pull.push = outcome->reply.push;
}

bool ps_train_took(struct ps_flight *flight, struct ps_call_outcome *outcome)
{
    struct ps_train *train = flight->train;
    const struct ps_allocator *memory = train->side->memory;
    struct ps_call_outcome part;
    ps_flight_outcome(flight, &part);
    for (size_t i = 0; i < WINDOW; i++)
        if (&train->slots[i].request == flight->request)
            train->slots[i].busy = false;
    train->running--;
    bool failed_before = train->failed;
    note(train, &part);
    if (train->failed && !failed_before)
        ps_flight_cancel(train->side, train->id);
    go_on(train);
    if (train->running > 0)
        return false;
    if (!train->has_reply)
        fail(train, PS_ERR_UNAVAILABLE, false, "the server has lost ranges of this call");
    train->outcome.refused = train->outcome.refused && !train->has_reply;
    *outcome = train->outcome;
    ps_release(memory, train);
    return true;
}
