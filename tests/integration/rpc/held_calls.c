/* SPDX-License-Identifier: Apache-2.0 */
/* Two batches for each call, with the call and its buffer as tags, plucked one by one. */
#include "held_calls.h"

#include "base/assert.h"

#include <grpc/grpc_security.h>
#include <grpc/support/time.h>

#include <stdio.h>
#include <string.h>

static gpr_timespec after_ms(int64_t milliseconds)
{
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                        gpr_time_from_millis(milliseconds, GPR_TIMESPAN));
}

static void send_request(struct held_call *held)
{
    grpc_op ops[3];
    memset(ops, 0, sizeof ops);
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[0].flags = GRPC_INITIAL_METADATA_WAIT_FOR_READY;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = held->sent;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    held->sending = true;
    PS_ASSERT(grpc_call_start_batch(held->call, ops, 3, held, NULL) == GRPC_CALL_OK);
}

static void read_message(struct held_call *held)
{
    grpc_op ops[2];
    memset(ops, 0, sizeof ops);
    ops[0].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[0].data.recv_initial_metadata.recv_initial_metadata = &held->initial;
    ops[1].op = GRPC_OP_RECV_MESSAGE;
    ops[1].data.recv_message.recv_message = &held->received;
    held->reading = true;
    PS_ASSERT(grpc_call_start_batch(held->call, ops, 2, &held->received, NULL) == GRPC_CALL_OK);
}

static void open_call(struct held_calls *all, struct held_call *held, const char *path,
                      struct ps_bytes request, enum held_kind kind)
{
    grpc_slice slice = grpc_slice_from_copied_buffer((const char *)request.data, request.size);
    grpc_slice method = grpc_slice_from_copied_string(path);
    memset(held, 0, sizeof *held);
    grpc_metadata_array_init(&held->initial);
    held->sent = grpc_raw_byte_buffer_create(&slice, 1);
    held->call = grpc_channel_create_call(all->channel, NULL, 0, all->queue, method, NULL,
                                          gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    grpc_slice_unref(slice);
    grpc_slice_unref(method);
    send_request(held);
    if (kind == HELD_READS)
        read_message(held);
}

static bool pluck(struct held_calls *held, void *tag, int64_t wait_ms)
{
    return grpc_completion_queue_pluck(held->queue, tag, after_ms(wait_ms), NULL).type ==
           GRPC_OP_COMPLETE;
}

/* Nobody waits for what is sent: the threads of gRPC, the server's among them, bring it on its
 * way. */
void held_calls_open(struct held_calls *held, uint16_t port, const char *path,
                     struct ps_bytes request, enum held_kind kind, int count)
{
    char address[64];
    /* Without probing, the window of a call stays as small as it is at first. */
    grpc_arg list[] = {{.type = GRPC_ARG_INTEGER,
                        .key = (char *)(uintptr_t)GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL,
                        .value.integer = 1},
                       {.type = GRPC_ARG_INTEGER,
                        .key = (char *)(uintptr_t)GRPC_ARG_HTTP2_BDP_PROBE,
                        .value.integer = 0}};
    const grpc_channel_args arguments = {.num_args = 2, .args = list};
    PS_ASSERT(count <= HELD_CALLS_MAX);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", port);
    grpc_init();
    grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
    held->channel = grpc_channel_create(address, credentials, &arguments);
    grpc_channel_credentials_release(credentials);
    held->queue = grpc_completion_queue_create_for_pluck(NULL);
    held->count = count;
    for (int i = 0; i < count; i++)
        open_call(held, &held->calls[i], path, request, kind);
}

bool held_calls_read(struct held_calls *held, int index, int64_t wait_ms)
{
    struct held_call *call = &held->calls[index];
    PS_ASSERT(call->reading);
    call->reading = !pluck(held, &call->received, wait_ms);
    return !call->reading && call->received != NULL;
}

void held_calls_close(struct held_calls *held)
{
    for (int i = 0; i < held->count; i++) {
        struct held_call *call = &held->calls[i];
        (void)grpc_call_cancel(call->call, NULL);
        if (call->sending)
            (void)pluck(held, call, 60000);
        if (call->reading)
            (void)pluck(held, &call->received, 60000);
        grpc_byte_buffer_destroy(call->sent);
        grpc_byte_buffer_destroy(call->received);
        grpc_metadata_array_destroy(&call->initial);
        grpc_call_unref(call->call);
    }
    grpc_channel_destroy(held->channel);
    grpc_completion_queue_shutdown(held->queue);
    grpc_completion_queue_destroy(held->queue);
    grpc_shutdown();
}
