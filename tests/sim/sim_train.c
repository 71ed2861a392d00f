/* Ranges of one call: those of the gradient first, then those of what is pulled, unless the first
 * have brought it back (client/ranges/early_values.h is the real one). */
#include "tests/sim/sim_train.h"

#include "base/assert.h"
#include "client/ranges/early_values.h"
#include "client/ranges/range_cut.h"
#include "optimizer/encoded.h"
#include "tests/sim/sim_client_calls.h"
#include "tests/sim/sim_replica.h"

#include <stdio.h>
#include <stdlib.h>

#define WINDOW 4 /* ranges that are out at once */
#define ROUNDS 3 /* so often all ranges leave while the server only puts them by */
#define BEGINS 3 /* after so many versions that went a pull is read in one message */

struct slot {
    struct ps_call_request request;
    struct ps_bytes pieces[PS_RANGE_PIECES_MAX];
    bool busy;
};

struct pull {
    const struct ps_pull_request *wish; /* NULL: there is none */
    struct ps_pull_reply reply;         /* of the whole, once the first range has come */
    struct ps_chain chain;              /* of whom that came from; for the checker */
    size_t next;                        /* bytes that were asked for */
    size_t got;
    bool begun; /* the version is known */
    bool stale; /* and has gone */
    uint32_t begins;
};

/* What the ranges of a gradient have brought of the pull. */
struct bounty {
    struct ps_early_values made;
    struct ps_pull_reply reply; /* of the first */
    struct ps_chain chain;      /* of whom it came from; for the checker */
    size_t bytes;
};

struct sim_train {
    uint64_t call;
    uint32_t shard;
    uint64_t deadline_ms;
    const struct ps_call_request *request; /* borrowed until the outcome */
    struct ps_range_cut cut;               /* of the push or the initialisation; or empty */
    uint32_t rounds;
    size_t running;
    bool failed;
    bool has_reply; /* a range was more than put by: the whole is done */
    struct pull pull;
    struct bounty bounty; /* of the round under way */
    struct ps_call_outcome outcome;
    struct slot slots[WINDOW];
};

static void go_on(struct sim_client *client, struct sim_train *train);
static void ask_for_range(struct sim_client *client, struct sim_train *train, struct slot *slot);
static void end(struct sim_client *client, struct sim_train *train);

static const struct ps_push_request *push_of(const struct ps_call_request *request)
{
    if (request->method == PS_METHOD_PUSH)
        return &request->push;
    return request->method == PS_METHOD_PUSH_PULL ? &request->push_pull.push : NULL;
}

static const struct ps_pull_request *pull_of(const struct ps_call_request *request)
{
    if (request->method == PS_METHOD_PULL)
        return &request->pull;
    return request->method == PS_METHOD_PUSH_PULL ? &request->push_pull.pull : NULL;
}

bool sim_train_carries(const struct sim_client *client, const struct ps_call_request *request)
{
    const struct ps_push_request *push = push_of(request);
    const struct ps_pull_request *pull = pull_of(request);
    size_t size = 0;
    if (request->method == PS_METHOD_INIT)
        size = request->init.content.size;
    else if (push != NULL)
        size = push->content.size;
    else if (pull != NULL)
        size = pull->size_wish;
    return client->part_bytes > 0 && size > client->part_bytes;
}

/* Parts of whole groups where there are groups. */
static void begin_cut(const struct sim_client *client, struct sim_train *train,
                      enum ps_encoding encoding, enum ps_dtype dtype, struct ps_bytes content,
                      uint64_t total)
{
    uint64_t part = client->part_bytes / ps_dtype_size(dtype);
    bool is_native = encoding == PS_ENCODING_NATIVE;
    if (!is_native)
        part += (PS_ENCODING_GROUP - part % PS_ENCODING_GROUP) % PS_ENCODING_GROUP;
    train->cut =
        (struct ps_range_cut){.encoding = encoding,
                              .dtype = dtype,
                              .content = content,
                              .total = is_native ? content.size / ps_dtype_size(dtype) : total,
                              .part = part};
}

void sim_train_start(struct sim_client *client, uint32_t shard, uint64_t deadline_ms,
                     const struct ps_call_part *call)
{
    const struct ps_call_request *request = call->request;
    const struct ps_push_request *push = push_of(request);
    struct sim_train *train = calloc(1, sizeof *train);
    PS_ASSERT(train != NULL);
    train->call = call->call;
    train->shard = shard;
    train->deadline_ms = deadline_ms;
    train->request = request;
    if (push != NULL)
        begin_cut(client, train, push->encoding, push->dtype, push->content.pieces[0], push->total);
    if (request->method == PS_METHOD_INIT)
        begin_cut(client, train, PS_ENCODING_NATIVE, request->init.dtype,
                  request->init.content.pieces[0], 0);
    train->pull.wish = pull_of(request);
    train->bounty.made.asks = client->asks_made && request->method == PS_METHOD_PUSH_PULL &&
                              push->encoding != PS_ENCODING_TOP_K;
    train->outcome.reply.method = request->method;
    go_on(client, train);
    if (train->running == 0)
        end(client, train);
}

/* ---- Outcomes ---- */

static void fail(struct sim_train *train, enum ps_status status, bool refused, const char *text)
{
    if (train->failed)
        return;
    train->failed = true;
    train->outcome.status = status;
    /* What is out, or was before, may have completed the whole. */
    train->outcome.refused = refused && train->running == 0 && !train->has_reply;
    snprintf(train->outcome.text, sizeof train->outcome.text, "%s", text);
}

static void fail_as(struct sim_train *train, const struct ps_call_outcome *outcome)
{
    fail(train, outcome->status, outcome->refused, outcome->text);
    if (outcome->session > train->outcome.session)
        train->outcome.session = outcome->session;
}

/* The train is gone afterwards. */
static void end(struct sim_client *client, struct sim_train *train)
{
    const struct ps_pull_request *wish = train->pull.wish;
    struct ps_bytes piece = {NULL, 0};
    sim_client_forget_train(client, train);
    if (!train->failed && train->cut.total > 0 && !train->has_reply)
        fail(train, PS_ERR_UNAVAILABLE, false, "the server has lost ranges of this call");
    if (!train->failed && wish != NULL) {
        bool alone = train->request->method == PS_METHOD_PULL;
        struct ps_pull_reply *to =
            alone ? &train->outcome.reply.pull : &train->outcome.reply.push_pull.pull;
        PS_ASSERT(train->pull.got == wish->size_wish);
        piece = (struct ps_bytes){wish->destination, wish->size_wish};
        *to = train->pull.reply;
        to->content = ps_view_of(&piece);
        to->range = (struct ps_elements){0, 0};
        sim_truths_judge(client, wish->name, &train->pull.chain, to);
    }
    ps_engine_outcome(client->engine, train->call, &train->outcome, sim_now(client->world));
    free(train);
}

void sim_train_break(struct sim_client *client, struct sim_train *train, enum ps_status status,
                     const char *text)
{
    fail(train, status, false, text);
    end(client, train);
}

static void note_init(struct sim_train *train, const struct ps_init_reply *came)
{
    if (came->staged)
        return;
    train->has_reply = true;
    train->outcome.reply.init = *came;
}

static void note_push(struct sim_train *train, const struct ps_push_reply *came)
{
    struct ps_call_reply *reply = &train->outcome.reply;
    if (came->staged)
        return;
    train->has_reply = true;
    if (train->request->method == PS_METHOD_PUSH)
        reply->push = *came;
    else
        reply->push_pull.push = *came;
}

static bool is_asked_for(const struct ps_pull_request *asked, const struct ps_pull_reply *reply)
{
    return reply->content.size == asked->size_wish && reply->range.first == asked->range.first &&
           reply->range.count == asked->range.count;
}

/* A range of a push is back, and perhaps what it makes. */
static void note_made(struct sim_client *client, struct sim_train *train, const struct slot *slot,
                      const struct ps_pull_reply *reply, const struct ps_chain *about)
{
    struct bounty *bounty = &train->bounty;
    const struct ps_pull_request *asked = &slot->request.push_pull.pull;
    bool believes = client->world->options.mutation == SIM_MUTATION_MADE_BELIEVED;
    if (reply->range.count == 0) {
        ps_early_values_miss(&bounty->made);
        return;
    }
    if (bounty->made.version == 0) {
        bounty->reply = *reply;
        bounty->chain = *about;
    }
    if (!is_asked_for(asked, reply))
        sim_fail(client->world, "ranges: %s got what another range makes", client->name);
    if (!ps_early_values_note(&bounty->made, reply, is_asked_for(asked, reply)) && !believes)
        return;
    ps_view_copy(reply->content, 0, asked->destination, asked->size_wish);
    bounty->bytes += asked->size_wish;
}

/* All ranges of the push are back: what they brought is the pull's, or nothing. */
static void settle_made(struct sim_client *client, struct sim_train *train)
{
    struct pull *pull = &train->pull;
    struct bounty *bounty = &train->bounty;
    bool believes = client->world->options.mutation == SIM_MUTATION_MADE_BELIEVED &&
                    bounty->bytes == pull->wish->size_wish;
    if (ps_early_values_holds(&bounty->made, &train->outcome.reply.push_pull.push) || believes) {
        sim_trace(client->world, client->name, "believes what its ranges brought as version %llu",
                  (unsigned long long)bounty->reply.version);
        pull->reply = bounty->reply;
        pull->chain = bounty->chain;
        pull->begun = true;
        pull->next = pull->got = pull->wish->size_wish;
    }
    bounty->made.asked = false;
    bounty->bytes = 0;
}

static void note_pull(struct sim_client *client, struct sim_train *train, const struct slot *slot,
                      const struct ps_pull_reply *reply, const struct ps_chain *about)
{
    struct pull *pull = &train->pull;
    const struct ps_pull_request *asked = &slot->request.pull;
    if (!pull->begun) {
        pull->reply = *reply;
        pull->chain = *about;
        pull->begun = true;
    }
    if (reply->version != pull->reply.version || !is_asked_for(asked, reply))
        sim_fail(client->world, "ranges: %s got other elements, or of another version",
                 client->name);
    ps_view_copy(reply->content, 0, asked->destination,
                 reply->content.size < asked->size_wish ? reply->content.size : asked->size_wish);
    pull->got += asked->size_wish;
}

void sim_train_took(struct sim_client *client, const struct sim_attempt *attempt,
                    const struct ps_call_outcome *outcome, const struct ps_chain *about)
{
    struct sim_train *train = attempt->train;
    struct slot *slot = &train->slots[attempt->slot];
    enum ps_method method = slot->request.method;
    bool is_pull = method == PS_METHOD_PULL;
    PS_ASSERT(slot->busy && train->running > 0);
    slot->busy = false;
    train->running--;
    if (is_pull && outcome->status == PS_ERR_CONFLICT && slot->request.pull.version != 0)
        train->pull.stale = true;
    else if (outcome->status != PS_OK)
        fail_as(train, outcome);
    else if (is_pull)
        note_pull(client, train, slot, &outcome->reply.pull, about);
    else if (method == PS_METHOD_INIT)
        note_init(train, &outcome->reply.init);
    else if (method == PS_METHOD_PUSH)
        note_push(train, &outcome->reply.push);
    else
        note_push(train, &outcome->reply.push_pull.push);
    if (method == PS_METHOD_PUSH_PULL && outcome->status == PS_OK)
        note_made(client, train, slot, &outcome->reply.push_pull.pull, about);
    go_on(client, train);
    if (train->failed || train->running == 0)
        end(client, train);
}

/* ---- Sending ---- */

static void launch(struct sim_client *client, struct sim_train *train, struct slot *slot)
{
    const struct ps_call_part part = {train->call, &slot->request};
    slot->busy = true;
    train->running++;
    if (sim_client_send_part(client, train->shard, train->deadline_ms, &part, train,
                             (uint32_t)(slot - train->slots)))
        return;
    slot->busy = false;
    train->running--;
    fail(train, PS_ERR_UNAVAILABLE, train->cut.next <= train->cut.part, "no connection");
}

/* The range of the push asks for what it makes, too. */
static void ask_for_made(struct sim_train *train, struct ps_call_request *request)
{
    const struct ps_push_request push = request->push;
    size_t element_size = ps_dtype_size(push.dtype);
    *request = (struct ps_call_request){.method = PS_METHOD_PUSH_PULL};
    request->push_pull.push = push;
    request->push_pull.pull = *train->pull.wish;
    request->push_pull.pull.range = push.range;
    request->push_pull.pull.of_push = true;
    request->push_pull.pull.size_wish = (size_t)push.range.count * element_size;
    request->push_pull.pull.destination += (size_t)push.range.first * element_size;
    train->bounty.made.asked = true;
}

static void send_range(struct sim_client *client, struct sim_train *train, struct slot *slot)
{
    const struct ps_push_request *push = push_of(train->request);
    struct ps_view content;
    const struct ps_elements range = ps_range_cut_next(&train->cut, slot->pieces, &content);
    if (push != NULL) {
        slot->request = (struct ps_call_request){.method = PS_METHOD_PUSH, .push = *push};
        slot->request.push.content = content;
        slot->request.push.range = range;
        if (train->bounty.made.asks)
            ask_for_made(train, &slot->request);
    } else {
        slot->request = *train->request;
        slot->request.init.content = content;
        slot->request.init.range = range;
        slot->request.init.total = train->cut.total;
    }
    launch(client, train, slot);
}

/* Everything was answered and nothing was more than put by: all ranges leave once more. */
static void send_again(struct sim_client *client, struct sim_train *train)
{
    bool is_lost = train->cut.total > 0 && train->cut.next == train->cut.total &&
                   !train->has_reply && train->running == 0;
    if (is_lost && train->rounds + 1 < ROUNDS) {
        train->rounds++;
        ps_range_cut_rewind(&train->cut);
        if (client->world->options.mutation != SIM_MUTATION_MADE_BELIEVED)
            train->bounty = (struct bounty){0};
        train->bounty.made.asks = false;
    }
}

static void pull_again(struct sim_train *train)
{
    struct pull *pull = &train->pull;
    if (pull->stale && train->running == 0)
        *pull = (struct pull){.wish = pull->wish, .begins = pull->begins + 1};
}

/* Whatever may be sent now. */
static void go_on(struct sim_client *client, struct sim_train *train)
{
    struct pull *pull = &train->pull;
    if (train->failed)
        return;
    send_again(client, train);
    pull_again(train);
    if (train->bounty.made.asked && train->has_reply && train->running == 0)
        settle_made(client, train);
    for (size_t i = 0; i < WINDOW && !train->failed; i++) {
        bool is_pushed = train->cut.total == 0 || (train->has_reply && !train->bounty.made.asked);
        if (train->slots[i].busy)
            continue;
        if (train->cut.next < train->cut.total)
            send_range(client, train, &train->slots[i]);
        else if (is_pushed && pull->wish != NULL && !pull->stale &&
                 pull->next < pull->wish->size_wish && (pull->begun || pull->next == 0))
            ask_for_range(client, train, &train->slots[i]);
    }
}

static void ask_for_range(struct sim_client *client, struct sim_train *train, struct slot *slot)
{
    struct pull *pull = &train->pull;
    const struct ps_pull_request *wish = pull->wish;
    size_t element_size = ps_dtype_size(wish->dtype);
    size_t left = wish->size_wish - pull->next;
    size_t size = left < client->part_bytes || pull->begins >= BEGINS ? left : client->part_bytes;
    slot->request = (struct ps_call_request){.method = PS_METHOD_PULL, .pull = *wish};
    struct ps_pull_request *asked = &slot->request.pull;
    asked->size_wish = size;
    asked->destination += pull->next;
    if (size < wish->size_wish) {
        asked->range = (struct ps_elements){pull->next / element_size, size / element_size};
        asked->version = pull->begun ? 1 + pull->reply.version : 0;
        asked->life = pull->begun ? pull->reply.life : 0;
    }
    pull->next += size;
    launch(client, train, slot);
}
