/* SPDX-License-Identifier: Apache-2.0 */
/* The same load over the library's gRPC channel without the engine that decides about retries,
 * splitting and order: one thread keeps every operation in flight. What is faster here than through
 * libpsclient is what the engine and its threads cost. Each run connects anew, within the time that
 * is measured: about a millisecond. The thread is one, like an event loop in a program that calls
 * gRPC itself; each slot has at most one call in flight and belongs to the worker of its number. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "client/channel/channel.h"
#include "tools/psbench/psbench_load_state.h"

/* How long one poll may sleep; every slot has a deadline of its own, far beyond this. */
#define WAIT_MS 1000

/* One operation in flight; belongs to the worker of the same number. */
struct slot {
    struct ps_bench_worker *worker;
    struct ps_call_request request; /* borrowed by the channel until the outcome */
    struct ps_bytes piece;
};

/* Named after a server's lane: one queue, one thread, many calls. */
struct lane {
    struct ps_bench_load *load;
    struct ps_channel channel;
    struct slot *slots; /* owned */
    uint64_t in_flight;
    bool failed;
};

static enum ps_status open_lane(struct lane *lane, struct ps_bench_load *load,
                                struct ps_error *error);
static void begin(struct lane *lane, uint64_t number);
static void submit(struct lane *lane, uint64_t number, enum ps_method method);
static void take_all(struct lane *lane);
static void step(struct lane *lane, const struct ps_delivery *delivery);
static bool keep_pulled(const struct slot *slot, const struct ps_pull_reply *reply);

/* The number in flight comes down to zero by itself when the time is over: each slot that ends then
 * begins nothing more. */
void ps_bench_channel_main(void *argument)
{
    struct ps_bench_worker *first = argument;
    struct lane lane = {0};
    if (open_lane(&lane, first->load, &first->error) != PS_OK)
        return;
    for (uint64_t i = 0; i < first->load->wish.outstanding; i++)
        begin(&lane, i);
    while (lane.in_flight > 0) {
        lane.channel.poll(lane.channel.self, WAIT_MS);
        take_all(&lane);
    }
    /* The channel forgets its counts with its end, and the report wants those of all runs. Added
     * up, since there may be several runs before the report asks. */
    struct ps_channel_shared ways = ps_channel_grpc_shared(&lane.channel);
    lane.load->channel_ways.shared_bytes += ways.bytes;
    lane.channel.destroy(lane.channel.self);
    ps_release(ps_allocator_heap(), lane.slots);
}

/* A failure undoes what was opened, since the caller returns at once. Shared memory is asked for as
 * the options say, so that both ways through this benchmark carry content alike. */
static enum ps_status open_lane(struct lane *lane, struct ps_bench_load *load,
                                struct ps_error *error)
{
    const struct ps_allocator *memory = ps_allocator_heap();
    lane->load = load;
    lane->slots = ps_zeroed_array(memory, load->wish.outstanding, sizeof *lane->slots);
    if (lane->slots == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the channel's slots");
    /* One server and one connection: more would not be the same load as through the library. */
    enum ps_status status = ps_channel_grpc_create(1, load->wish.busy_poll, ps_clock_real(), memory,
                                                   &lane->channel, error);
    if (status == PS_OK)
        ps_channel_grpc_share(&lane->channel, load->wish.shares);
    if (status == PS_OK && !lane->channel.route(lane->channel.self, 0, load->wish.servers)) {
        lane->channel.destroy(lane->channel.self);
        status = ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a connection");
    }
    if (status != PS_OK) {
        ps_release(memory, lane->slots);
        return status;
    }
    for (uint64_t i = 0; i < load->wish.outstanding; i++)
        lane->slots[i].worker = &load->workers[i];
    return PS_OK;
}

/* Starts the next operation of a slot, if there is to be one. The table keeps operations and
 * methods apart: the load speaks of pushes and pulls, the channel of calls. A failed lane begins
 * nothing more, and comes to its end when the calls in flight have. */
static void begin(struct lane *lane, uint64_t number)
{
    struct ps_bench_load *load = lane->load;
    struct slot *slot = &lane->slots[number];
    if (lane->failed || !ps_bench_load_begin(slot->worker))
        return;
    static const enum ps_method methods[] = {[PS_BENCH_PUSH] = PS_METHOD_PUSH,
                                             [PS_BENCH_PULL] = PS_METHOD_PULL,
                                             [PS_BENCH_PUSH_PULL] = PS_METHOD_PUSH_PULL};
    submit(lane, number, methods[load->operation]);
}

/* The request points into the slot and the load; both stay where they are until the outcome, as the
 * channel demands. A submit is refused only for lack of memory, which ends the run. The deadline is
 * far beyond anything that is measured; it only keeps a dead server from holding the run for
 * ever. */
static void submit(struct lane *lane, uint64_t number, enum ps_method method)
{
    struct slot *slot = &lane->slots[number];
    struct ps_bytes name = ps_bytes_of_text(slot->worker->parameter->name);
    slot->request = (struct ps_call_request){.method = method};
    slot->piece = (struct ps_bytes){lane->load->gradient, lane->load->wish.size};
    const struct ps_push_request push = {
        .name = name, .dtype = PS_F32, .content = ps_view_of(&slot->piece)};
    const struct ps_pull_request pull = {.name = name,
                                         .size_wish = lane->load->wish.size,
                                         .destination = slot->worker->destination,
                                         .dtype = PS_F32};
    if (method == PS_METHOD_PULL) {
        slot->request.pull = pull;
    } else if (method == PS_METHOD_PUSH) {
        slot->request.push = push;
    } else {
        slot->request.push_pull.push = push;
        slot->request.push_pull.pull = pull;
    }
    const struct ps_call_part part = {number, &slot->request};
    uint64_t deadline_ms = ps_deadline_after(ps_clock_real(), PS_BENCH_ANSWER_MS);
    enum ps_status status = lane->channel.submit(lane->channel.self, 0, &part, 1, deadline_ms);
    if (status == PS_OK) {
        lane->in_flight++;
        return;
    }
    lane->failed = true;
    (void)ps_fail(&slot->worker->error, status, "no memory for a call");
}

/* A delivery borrows from the channel until it is released, so its slot is stepped before. */
static void take_all(struct lane *lane)
{
    struct ps_delivery delivery;
    while (lane->channel.take(lane->channel.self, &delivery)) {
        lane->in_flight--;
        step(lane, &delivery);
        lane->channel.release(lane->channel.self, &delivery);
    }
}

/* A call has ended: the operation goes on, or the next one begins. Status and size of the answer
 * are checked here, as a trainer would check them. */
static void step(struct lane *lane, const struct ps_delivery *delivery)
{
    struct slot *slot = &lane->slots[delivery->call];
    const struct ps_call_outcome *outcome = &delivery->outcome;
    enum ps_method method = slot->request.method;
    enum ps_status status = outcome->status;
    const struct ps_pull_reply *pulled = NULL;
    if (method == PS_METHOD_PULL)
        pulled = &outcome->reply.pull;
    else if (method == PS_METHOD_PUSH_PULL)
        pulled = &outcome->reply.push_pull.pull;
    if (status == PS_OK && pulled != NULL && !keep_pulled(slot, pulled))
        status = PS_ERR_CORRUPT;
    if (status != PS_OK) {
        lane->failed = true;
        (void)ps_fail(&slot->worker->error, status, "%s: %s", ps_method_path(method),
                      outcome->text);
        return;
    }
    ps_bench_load_end(slot->worker);
    begin(lane, delivery->call);
}

/* As libpsclient does: into the trainer's memory. The content may be in the trainer's memory
 * already, when the channel received it there. */
static bool keep_pulled(const struct slot *slot, const struct ps_pull_reply *reply)
{
    if (reply->content.size != slot->worker->load->wish.size)
        return false;
    if (reply->content.pieces[0].data != slot->worker->destination)
        ps_view_copy(reply->content, 0, slot->worker->destination, reply->content.size);
    return true;
}
