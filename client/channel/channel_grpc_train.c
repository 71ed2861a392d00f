/* A call whose content is large goes in ranges, a few at a time, all under its request id: while
 * one is on the network, the server looks at the one before; it puts them together and applies them
 * as one. A pull comes in ranges, too (channel_grpc_train_pull.c). What comes back is one outcome:
 * that of the range which completed the push, with what the pull has brought, or the first failure.
 * Whoever repeats the call sends all ranges again, which is harmless; the train does so by itself
 * when the server has let go of what was staged.
 *
 *   ranges ──all answered, one not as "staged"──► (ranges of a pull ──►) outcome */
#include "client/channel/channel_grpc_train.h"

#include "base/assert.h"
#include "client/calls/pull_decoder.h"

#include <stdio.h>

size_t ps_train_bytes(const struct ps_call_request *request)
{
    const struct ps_push_request *push = ps_call_push_of(request);
    const struct ps_pull_request *pull = ps_call_pull_of(request);
    if (request->method == PS_METHOD_INIT)
        return request->init.request.present ? request->init.content.size : 0;
    if (push != NULL && !push->request.present)
        return 0;
    size_t push_bytes = push != NULL ? push->content.size : 0;
    size_t pull_bytes = pull != NULL ? (size_t)ps_train_pull_bytes(pull) : 0;
    return push_bytes > pull_bytes ? push_bytes : pull_bytes;
}

size_t ps_train_message_bytes_max(const struct ps_connection *connection)
{
    uint64_t told = ps_shared_link_content_bytes_max(connection->shared);
    size_t max = told < PS_TRAIN_AS_ONE_BYTES_MAX ? (size_t)told : PS_TRAIN_AS_ONE_BYTES_MAX;
    max = max > PS_TRAIN_MESSAGE_SLACK ? max - PS_TRAIN_MESSAGE_SLACK : 0;
    return max > PS_TRAIN_BYTES_MIN ? max : PS_TRAIN_BYTES_MIN;
}

bool ps_train_carries(struct ps_grpc_side *side, uint32_t shard,
                      const struct ps_call_request *request)
{
    size_t bytes = ps_train_bytes(request);
    if (bytes <= PS_TRAIN_BYTES_MIN || bytes > PS_TRAIN_AS_ONE_BYTES_MAX)
        return bytes > PS_TRAIN_BYTES_MIN;
    ps_mutex_lock(&side->mutex);
    struct ps_connection *connection = side->routes[shard];
    bool as_one = connection != NULL && connection->train_rest > 0 &&
                  ps_shared_link_works(connection->shared) &&
                  bytes <= ps_train_message_bytes_max(connection);
    if (as_one)
        connection->train_rest--;
    ps_mutex_unlock(&side->mutex);
    return !as_one;
}

/* Another client's push came first. */
static void rest(struct ps_train *train)
{
    ps_mutex_lock(&train->side->mutex);
    struct ps_connection *connection = train->side->routes[train->shard];
    if (connection != NULL)
        connection->train_rest = PS_TRAIN_REST;
    ps_mutex_unlock(&train->side->mutex);
}

static void fill_part(struct ps_train *train, struct ps_train_slot *slot)
{
    const struct ps_push_request *push = ps_call_push_of(train->request);
    struct ps_view content;
    struct ps_elements range = ps_range_cut_next(&train->cut, slot->pieces, &content);
    if (push != NULL) {
        slot->request.method = PS_METHOD_PUSH;
        slot->request.push = *push;
        slot->request.push.content = content;
        slot->request.push.range = range;
        if (train->made.asks)
            ps_train_made_ask(train, &slot->request);
        return;
    }
    slot->request.method = PS_METHOD_INIT;
    slot->request.init = train->request->init;
    slot->request.init.content = content;
    slot->request.init.range = range;
    slot->request.init.total = train->cut.total;
}

static void note_failure(struct ps_train *train, const struct ps_call_outcome *outcome,
                         const char *text)
{
    train->outcome.refused = train->outcome.refused && outcome->refused;
    if (train->failed)
        return;
    train->failed = true;
    train->outcome.status = outcome->status;
    train->outcome.refused = outcome->refused;
    train->outcome.session = outcome->session;
    (void)snprintf(train->outcome.text, sizeof train->outcome.text, "%s", text);
}

void ps_train_fail(struct ps_train *train, enum ps_status status, bool refused, const char *text)
{
    const struct ps_call_outcome outcome = {.status = status, .refused = refused};
    note_failure(train, &outcome, text);
}

void ps_train_fail_as(struct ps_train *train, const struct ps_call_outcome *outcome)
{
    note_failure(train, outcome, outcome->text);
}

void ps_train_launch(struct ps_train *train, struct ps_train_slot *slot)
{
    const struct ps_call_part part = {train->id, &slot->request};
    struct ps_flight *flight = slot->request.method == PS_METHOD_PUSH_PULL
                                   ? ps_flight_create_bundle(train->side, &part, 1)
                                   : ps_flight_create(train->side, &slot->request);
    if (flight == NULL) {
        ps_train_fail(train, PS_ERR_NO_MEMORY, false, "no memory for a range");
        return;
    }
    slot->busy = true;
    train->running++;
    flight->id = train->id;
    flight->train = train;
    ps_flight_begin(train->side, flight, train->shard, train->deadline_ms);
}

static bool has_more(const struct ps_train *train)
{
    return train->cut.next < train->cut.total;
}

/* Sends what may be sent now: further ranges, or, behind the last of them, the pull. Who cancels
 * the call meets the ranges that are out: none follow once its time is over. */
static void go_on(struct ps_train *train)
{
    if (ps_time_left_ms(train->side->clock, train->deadline_ms) == 0)
        ps_train_fail(train, PS_ERR_UNAVAILABLE, false, "no time for all ranges");
    for (size_t i = 0; i < PS_TRAIN_WINDOW && has_more(train) && !train->failed; i++) {
        struct ps_train_slot *slot = &train->slots[i];
        if (slot->busy)
            continue;
        fill_part(train, slot);
        ps_train_launch(train, slot);
    }
    bool is_pushed = train->cut.total == 0 || train->has_reply;
    if (train->pull.wish == NULL || !is_pushed || train->failed)
        return;
    if (train->made.asked && train->running > 0)
        return;
    if (train->made.asked)
        ps_train_made_settle(train);
    ps_train_pull_go_on(train);
}

static void begin_cut(struct ps_train *train, enum ps_encoding encoding, enum ps_dtype dtype,
                      const struct ps_view *content, uint64_t total)
{
    PS_ASSERT(content->piece_count == 1);
    train->cut =
        (struct ps_range_cut){.encoding = encoding,
                              .dtype = dtype,
                              .content = content->pieces[0],
                              .total = total,
                              .part = ps_range_cut_part(encoding, dtype, PS_TRAIN_PART_BYTES)};
    if (encoding == PS_ENCODING_NATIVE)
        train->cut.total = content->size / ps_dtype_size(dtype);
}

enum ps_status ps_train_start(struct ps_grpc_side *side, uint64_t id, uint32_t shard,
                              const struct ps_call_request *request, uint64_t deadline_ms)
{
    const struct ps_push_request *push = ps_call_push_of(request);
    bool is_init = request->method == PS_METHOD_INIT;
    struct ps_train *train = ps_zeroed(side->memory, sizeof *train);
    if (train == NULL)
        return PS_ERR_NO_MEMORY;
    train->side = side;
    train->id = id;
    train->shard = shard;
    train->deadline_ms = deadline_ms;
    train->request = request;
    if (push != NULL)
        begin_cut(train, push->encoding, push->dtype, &push->content, push->total);
    if (is_init)
        begin_cut(train, PS_ENCODING_NATIVE, request->init.dtype, &request->init.content, 0);
    train->pull.wish = ps_call_pull_of(request);
    if (train->pull.wish != NULL)
        train->pull.total = train->pull.wish->size_wish / ps_dtype_size(train->pull.wish->dtype);
    train->outcome.reply.method = request->method;
    ps_train_made_begin(train);
    go_on(train);
    if (train->running > 0)
        return PS_OK;
    ps_release(side->memory, train);
    return PS_ERR_NO_MEMORY;
}

/* What the answer to a range of the push or the initialisation says about the whole. */
static void note(struct ps_train *train, const struct ps_call_outcome *outcome)
{
    struct ps_call_reply *reply = &train->outcome.reply;
    if (outcome->status != PS_OK) {
        ps_train_fail_as(train, outcome);
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

static struct ps_train_slot *slot_of(struct ps_train *train, const struct ps_flight *flight)
{
    for (size_t i = 0; i < PS_TRAIN_WINDOW; i++)
        if (&train->slots[i].request == flight->request)
            return &train->slots[i];
    PS_ASSERT(false && "a flight of another train");
    return NULL;
}

/* What a range brought: notes it. True: there is content to be kept. */
static bool note_range(struct ps_train *train, struct ps_flight *flight,
                       const struct ps_call_request *request, struct ps_call_outcome *outcome)
{
    bool has_made = false;
    if (request->method == PS_METHOD_PUSH_PULL)
        has_made = ps_train_made_outcome(train, flight, outcome);
    else
        ps_flight_outcome(flight, outcome);
    if (request->method == PS_METHOD_PULL) {
        ps_train_pull_note(train, &request->pull, outcome);
        return outcome->status == PS_OK && ps_train_pull_keeps(train);
    }
    note(train, outcome);
    return has_made &&
           ps_train_made_note(train, &request->push_pull.pull, &outcome->reply.push_pull.pull);
}

/* Puts what came where it belongs. */
static void keep(const struct ps_call_request *request, const struct ps_call_reply *reply)
{
    const struct ps_pull_request *pull = ps_call_pull_of(request);
    const struct ps_pull_reply *from =
        request->method == PS_METHOD_PULL ? &reply->pull : &reply->push_pull.pull;
    size_t size = (size_t)pull->range.count * ps_dtype_size(pull->dtype);
    enum ps_status status = ps_pull_reply_take(from, pull->name, pull->destination, size, NULL);
    PS_ASSERT(status == PS_OK); /* it is what was asked for */
}

/* Further ranges leave before this one's content is moved. */
static void take_range(struct ps_train *train, struct ps_flight *flight)
{
    struct ps_train_slot *slot = slot_of(train, flight);
    struct ps_call_outcome outcome;
    bool failed_before = train->failed;
    train->running--;
    bool has_content = note_range(train, flight, &slot->request, &outcome);
    if (train->failed && !failed_before)
        ps_flight_cancel(train->side, train->id);
    if (has_content && !train->failed) {
        go_on(train);
        keep(&slot->request, &outcome.reply);
    }
    slot->busy = false;
    go_on(train);
}

/* Everything was answered, and nothing was more than staged: all ranges leave once more. */
static void begin_again(struct ps_train *train)
{
    bool is_lost = train->cut.total > 0 && !train->has_reply && !train->failed;
    if (!is_lost || train->running > 0 || train->rounds + 1 >= PS_TRAIN_ROUNDS_MAX)
        return;
    rest(train);
    train->rounds++;
    ps_range_cut_rewind(&train->cut);
    train->made = (struct ps_early_values){0};
    go_on(train);
}

bool ps_train_took(struct ps_flight *flight, struct ps_call_outcome *outcome)
{
    struct ps_train *train = flight->train;
    const struct ps_allocator *memory = train->side->memory;
    take_range(train, flight);
    begin_again(train);
    if (train->running > 0)
        return false;
    if (train->cut.total > 0 && !train->has_reply)
        ps_train_fail(train, PS_ERR_UNAVAILABLE, false, "the server has lost ranges of this call");
    train->outcome.refused = train->outcome.refused && !train->has_reply;
    ps_train_pull_end(train, &flight->whole);
    *outcome = train->outcome;
    ps_release(memory, train);
    return true;
}
