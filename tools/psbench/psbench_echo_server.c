/* SPDX-License-Identifier: Apache-2.0 */
/* Gives messages back:
 *
 *   WAITING ──message──► ANSWERING ──sent──► WAITING ... */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "tools/psbench/psbench_echo_common.h"
#include "tools/psbench/psbench_echo_process.h"
#include "tools/psbench/psbench_peer_process.h"

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#include <string.h>

/* Lives in ps_bench_echo_serve, which never returns in a good run. */
struct server {
    grpc_server *server;
    grpc_completion_queue *queue;
    void *method;
    struct ps_busy_poll poll;
    uint8_t *answer; /* of another size than the message */
    size_t size_max;
};

/* A fixed number of slots, each of which asks for the next call as soon as its own is over: the
 * same scheme as in a lane of our server. */
struct slot {
    struct server *server;
    bool answering;
    grpc_call *call;
    gpr_timespec deadline;
    grpc_metadata_array metadata;
    grpc_byte_buffer *message;
    int cancelled;
};

static bool listen_on(struct server *server, const struct ps_bench_tls *tls, int *port);
static void wait_for_message(struct slot *slot);
static void answer(struct slot *slot);
static grpc_byte_buffer *make_answer(struct slot *slot);
static uint64_t wanted_size(const grpc_byte_buffer *message);
static void forget_call(struct slot *slot);

/* One thread and one queue. A message that was never sent (the client has gone) shows as an event
 * without success, and its slot begins again. The port is told once the server listens, so the
 * client's first connection finds it. */
void ps_bench_echo_serve(int told, size_t size_max, struct ps_busy_poll_wish busy_poll,
                         const struct ps_bench_tls *tls)
{
    struct server server = {.size_max = size_max};
    struct slot *slots =
        ps_zeroed_array(ps_allocator_heap(), PS_BENCH_ECHO_CALLS_MAX, sizeof *slots);
    int port = 0;
    server.answer = ps_plain(ps_allocator_heap(), size_max);
    if (slots == NULL || server.answer == NULL)
        return;
    memset(server.answer, 0x5a, size_max);
    ps_busy_poll_init(&server.poll, busy_poll);
    if (!listen_on(&server, tls, &port) || !ps_bench_peer_write(told, &port, sizeof port))
        return;
    for (size_t i = 0; i < PS_BENCH_ECHO_CALLS_MAX; i++) {
        slots[i].server = &server;
        wait_for_message(&slots[i]);
    }
    for (;;) {
        grpc_event event = ps_bench_echo_next(server.queue, &server.poll);
        if (event.type != GRPC_OP_COMPLETE)
            return;
        struct slot *slot = event.tag;
        /* A message has come. Otherwise the answer was sent, or the call has ended early: the slot
         * is free in both cases. */
        if (!slot->answering && event.success != 0) {
            answer(slot);
            continue;
        }
        forget_call(slot);
        wait_for_message(slot);
    }
}

/* Registered with its payload: gRPC then reads the message before it reports the call, which saves
 * one event a call. The port is the kernel's choice: two runs on one machine do not meet. */
static bool listen_on(struct server *server, const struct ps_bench_tls *tls, int *port)
{
    grpc_arg list[PS_BENCH_ECHO_ARGUMENTS];
    const grpc_channel_args arguments = ps_bench_echo_arguments(list);
    grpc_init();
    server->server = grpc_server_create(&arguments, NULL);
    server->queue = grpc_completion_queue_create_for_next(NULL);
    grpc_server_register_completion_queue(server->server, server->queue, NULL);
    server->method = grpc_server_register_method(server->server, PS_BENCH_ECHO_METHOD, NULL,
                                                 GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
    /* As the servers that are measured: a client shows no certificate in either, which a handshake
     * would make longer and a call would not. */
    grpc_ssl_pem_key_cert_pair pair = {tls != NULL ? tls->key : NULL,
                                       tls != NULL ? tls->certificate : NULL};
    grpc_server_credentials *credentials =
        tls != NULL ? grpc_ssl_server_credentials_create_ex(
                          NULL, &pair, 1, GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE, NULL)
                    : grpc_insecure_server_credentials_create();
    *port = grpc_server_add_http2_port(server->server, "127.0.0.1:0", credentials);
    grpc_server_credentials_release(credentials);
    grpc_server_start(server->server);
    return *port != 0;
}

/* The queue is told twice, for the call's own events and for its arrival. */
static void wait_for_message(struct slot *slot)
{
    struct server *server = slot->server;
    slot->answering = false;
    grpc_metadata_array_init(&slot->metadata);
    grpc_call_error failed = grpc_server_request_registered_call(
        server->server, server->method, &slot->call, &slot->deadline, &slot->metadata,
        &slot->message, server->queue, server->queue, slot);
    PS_ASSERT(failed == GRPC_CALL_OK);
}

/* Close is received in the same batch, so that a call has exactly one event more. Initial metadata,
 * message and status go out in one batch, which gRPC sends as few frames. */
static void answer(struct slot *slot)
{
    grpc_op ops[4];
    memset(ops, 0, sizeof ops);
    grpc_byte_buffer *message = make_answer(slot);
    slot->answering = true;
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = message;
    ops[2].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    /* Whether the client has cancelled is of no interest here, but gRPC wants somebody to receive
     * it. */
    ops[3].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
    ops[3].data.recv_close_on_server.cancelled = &slot->cancelled;
    grpc_call_error failed = grpc_call_start_batch(slot->call, ops, 4, slot, NULL);
    PS_ASSERT(failed == GRPC_CALL_OK);
    /* gRPC holds a reference of its own until the bytes are out. */
    if (message != slot->message)
        grpc_byte_buffer_destroy(message);
}

/* The message itself where the sizes agree. An answer of another size comes from a buffer that was
 * filled at the start; it is never allocated in the measured time. Giving the message itself back
 * avoids even the making of a slice: nothing is cheaper. */
static grpc_byte_buffer *make_answer(struct slot *slot)
{
    uint64_t wanted = wanted_size(slot->message);
    if (slot->message != NULL && wanted == grpc_byte_buffer_length(slot->message))
        return slot->message;
    size_t size = wanted < slot->server->size_max ? (size_t)wanted : slot->server->size_max;
    grpc_slice slice = grpc_slice_from_static_buffer(slot->server->answer, size);
    return grpc_raw_byte_buffer_create(&slice, 1);
}

/* The number that a message begins with; gRPC may have cut the message anywhere. Eight bytes,
 * little-endian as both processes are on one machine. A message shorter than eight bytes gives what
 * it has; the client never sends one. */
static uint64_t wanted_size(const grpc_byte_buffer *message)
{
    uint64_t wanted = 0;
    uint8_t *to = (uint8_t *)&wanted;
    size_t got = 0;
    for (size_t i = 0; message != NULL && i < message->data.raw.slice_buffer.count; i++) {
        const grpc_slice *slice = &message->data.raw.slice_buffer.slices[i];
        size_t size = GRPC_SLICE_LENGTH(*slice);
        size = size < sizeof wanted - got ? size : sizeof wanted - got;
        if (size == 0)
            continue;
        memcpy(to + got, GRPC_SLICE_START_PTR(*slice), size);
        got += size;
    }
    return wanted;
}

/* The metadata came with the call and belong to the slot. Destroying NULL is allowed by gRPC for
 * messages, but not for calls. */
static void forget_call(struct slot *slot)
{
    grpc_byte_buffer_destroy(slot->message);
    grpc_metadata_array_destroy(&slot->metadata);
    if (slot->call != NULL)
        grpc_call_unref(slot->call);
    *slot = (struct slot){.server = slot->server};
}
