/* SPDX-License-Identifier: Apache-2.0 */
/* Sends messages and counts what comes back. As thin as a client of gRPC can be: one registered
 * method, one channel, one completion queue, one batch of six operations for a call, messages that
 * are never copied. Any cost of our server above this is our own. */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "tools/psbench/psbench_echo_common.h"
#include "tools/psbench/psbench_echo_process.h"
#include "tools/psbench/psbench_peer_process.h"
#include "tools/psbench/psbench_rows.h"

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#include <stdio.h>
#include <string.h>

/* The memory of one call from its start to its end; gRPC writes into it meanwhile, so it does not
 * move. */
struct slot {
    grpc_call *call;
    grpc_metadata_array first, last;
    grpc_status_code code;
    grpc_slice details;
    grpc_byte_buffer *message, *reply;
    uint64_t start_ns;
};

/* In one allocation, too large for a stack with its histogram. */
struct client {
    grpc_channel *channel;
    grpc_completion_queue *queue;
    void *method;
    struct ps_busy_poll poll;
    uint8_t *content;
    struct ps_bench_echo_order order;
    struct slot slots[PS_BENCH_ECHO_CALLS_MAX];
    struct ps_bench_times times;
};

static void connect_to(struct client *client, int port, const struct ps_bench_tls *tls);
static bool run(struct client *client, struct ps_bench_figures *figures);
static void begin(struct client *client, struct slot *slot);
static bool end(struct client *client, struct slot *slot);

/* Ends by returning when anything goes wrong; the parent sees the end of the socket and says that
 * the reference broke. */
void ps_bench_echo_ask(int orders, int port, size_t size_max, struct ps_busy_poll_wish busy_poll,
                       const struct ps_bench_tls *tls)
{
    struct client *client = ps_zeroed(ps_allocator_heap(), sizeof *client);
    uint8_t *content = ps_plain(ps_allocator_heap(), size_max);
    if (client == NULL || content == NULL)
        return;
    /* The pages must be there before they are timed. */
    memset(content, 0x5a, size_max);
    client->content = content;
    ps_busy_poll_init(&client->poll, busy_poll);
    connect_to(client, port, tls);
    struct ps_bench_figures figures;
    while (ps_bench_peer_read(orders, &client->order, sizeof client->order)) {
        /* Orders come from the parent, which knows what was agreed: another size is a mistake of
         * ours. */
        PS_ASSERT(client->order.request <= size_max);
        PS_ASSERT(client->order.request >= sizeof client->order.reply);
        memcpy(content, &client->order.reply, sizeof client->order.reply);
        if (!run(client, &figures) || !ps_bench_peer_write(orders, &figures, sizeof figures))
            return;
    }
}

/* The same lean arguments as the server's, and a method registered once, so that no path is parsed
 * in each call. */
static void connect_to(struct client *client, int port, const struct ps_bench_tls *tls)
{
    char address[32];
    grpc_arg list[PS_BENCH_ECHO_ARGUMENTS];
    const grpc_channel_args arguments = ps_bench_echo_arguments(list);
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", port);
    grpc_init();
    /* The certificate is its own authority, and 127.0.0.1 is the name in it. */
    grpc_channel_credentials *credentials =
        tls != NULL ? grpc_ssl_credentials_create(tls->certificate, NULL, NULL, NULL)
                    : grpc_insecure_credentials_create();
    client->channel = grpc_channel_create(address, credentials, &arguments);
    grpc_channel_credentials_release(credentials);
    client->queue = grpc_completion_queue_create_for_next(NULL);
    client->method = grpc_channel_register_call(client->channel, PS_BENCH_ECHO_METHOD, NULL, NULL);
}

/* Slots that end after the time are not begun again, and the clock stops when the last has ended:
 * what is counted was answered. Every answer is checked for its size, since an echo that fails fast
 * would be the fastest of all. */
static bool run(struct client *client, struct ps_bench_figures *figures)
{
    memset(&client->times, 0, sizeof client->times);
    uint64_t started_ns = ps_clock_precise_ns();
    uint64_t until_ns = started_ns + client->order.time_ms * 1000000;
    uint64_t in_flight = 0;
    for (; in_flight < client->order.outstanding; in_flight++)
        begin(client, &client->slots[in_flight]);
    while (in_flight > 0) {
        grpc_event event = ps_bench_echo_next(client->queue, &client->poll);
        if (event.type != GRPC_OP_COMPLETE || !end(client, event.tag))
            return false;
        /* Time alone does not end it: a large message within a short time would otherwise be
         * measured once. */
        bool over = ps_clock_precise_ns() >= until_ns;
        if (over && client->times.count >= PS_BENCH_REFERENCE_COUNT_MIN)
            in_flight--;
        else
            begin(client, event.tag);
    }
    *figures = ps_bench_figures_of(client->times.count, ps_clock_precise_ns() - started_ns,
                                   &client->times);
    return true;
}

/* All six operations in one batch, which is the fewest steps that gRPC offers for a call. The
 * message is a slice over the client's buffer, without a copy. The slot is wiped first: what it
 * held of the last call was given back by end. */
static void begin(struct client *client, struct slot *slot)
{
    grpc_op ops[6];
    memset(ops, 0, sizeof ops);
    *slot = (struct slot){.details = grpc_empty_slice(), .start_ns = ps_clock_precise_ns()};
    grpc_metadata_array_init(&slot->first);
    grpc_metadata_array_init(&slot->last);
    grpc_slice slice = grpc_slice_from_static_buffer(client->content, client->order.request);
    slot->message = grpc_raw_byte_buffer_create(&slice, 1);
    /* No deadline: a timer for each call is a cost that the reference should not have. The parent
     * waits with one of its own. */
    slot->call = grpc_channel_create_registered_call(client->channel, NULL, GRPC_PROPAGATE_DEFAULTS,
                                                     client->queue, client->method,
                                                     gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[0].flags =
        /* The first calls begin before the connection is there, and must not fail for it. */
        GRPC_INITIAL_METADATA_WAIT_FOR_READY | GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = slot->message;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &slot->first;
    ops[4].op = GRPC_OP_RECV_MESSAGE;
    ops[4].data.recv_message.recv_message = &slot->reply;
    ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[5].data.recv_status_on_client.trailing_metadata = &slot->last;
    ops[5].data.recv_status_on_client.status = &slot->code;
    ops[5].data.recv_status_on_client.status_details = &slot->details;
    /* Only a wrong use of the interface is refused here. */
    grpc_call_error failed = grpc_call_start_batch(slot->call, ops, 6, slot, NULL);
    PS_ASSERT(failed == GRPC_CALL_OK);
}

/* False when the answer is not what was asked for. Everything that the call received has to be
 * given back, also after an answer that was not right. */
static bool end(struct client *client, struct slot *slot)
{
    bool right = slot->code == GRPC_STATUS_OK && slot->reply != NULL &&
                 grpc_byte_buffer_length(slot->reply) == client->order.reply;
    ps_bench_times_note(&client->times, ps_clock_precise_ns() - slot->start_ns);
    grpc_byte_buffer_destroy(slot->reply);
    grpc_byte_buffer_destroy(slot->message);
    grpc_metadata_array_destroy(&slot->first);
    grpc_metadata_array_destroy(&slot->last);
    grpc_slice_unref(slot->details);
    grpc_call_unref(slot->call);
    return right;
}
