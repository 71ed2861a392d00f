/* SPDX-License-Identifier: Apache-2.0 */
/* Unary calls by plucking. */
#include "raw_client.h"

#include "base/assert.h"
#include "proto/shared_range.h"
#include "proto/status_codes.h"

#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void raw_client_open(struct raw_client *client, uint16_t port)
{
    char address[64];
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", port);
    grpc_init();
    grpc_arg list[2] = {
        {.type = GRPC_ARG_INTEGER,
         .key = (char *)(uintptr_t)GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
         .value.integer = -1},
        {.type = GRPC_ARG_INTEGER,
         .key = (char *)(uintptr_t)GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL,
         .value.integer = 1},
    };
    const grpc_channel_args arguments = {.num_args = 2, .args = list};
    grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
    client->channel = grpc_channel_create(address, credentials, &arguments);
    grpc_channel_credentials_release(credentials);
    client->asks = false;
    client->queue = grpc_completion_queue_create_for_pluck(NULL);
}

void raw_client_close(struct raw_client *client)
{
    grpc_channel_destroy(client->channel);
    grpc_completion_queue_shutdown(client->queue);
    grpc_completion_queue_destroy(client->queue);
    grpc_shutdown();
}

static gpr_timespec after_ms(int64_t milliseconds)
{
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                        gpr_time_from_millis(milliseconds, GPR_TIMESPAN));
}

static grpc_byte_buffer *message_of(struct ps_bytes bytes)
{
    grpc_slice slice = grpc_slice_from_copied_buffer((const char *)bytes.data, bytes.size);
    grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return message;
}

void raw_start(struct raw_client *client, struct raw_pending *pending, const char *path,
               struct ps_bytes request, int64_t timeout_ms)
{
    memset(pending, 0, sizeof *pending);
    grpc_metadata_array_init(&pending->initial);
    grpc_metadata_array_init(&pending->trailing);
    pending->sent = message_of(request);
    grpc_slice method = grpc_slice_from_copied_string(path);
    pending->call = grpc_channel_create_call(client->channel, NULL, 0, client->queue, method, NULL,
                                             after_ms(timeout_ms), NULL);
    grpc_slice_unref(method);
    grpc_op ops[6];
    memset(ops, 0, sizeof ops);
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[0].flags = GRPC_INITIAL_METADATA_WAIT_FOR_READY;
    grpc_metadata ask = {.key = grpc_slice_from_static_string(PS_SHARED_METADATA_KEY),
                         .value = grpc_slice_from_static_string(PS_SHARED_METADATA_ASK)};
    ops[0].data.send_initial_metadata.count = client->asks ? 1 : 0;
    ops[0].data.send_initial_metadata.metadata = &ask;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = pending->sent;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &pending->initial;
    ops[4].op = GRPC_OP_RECV_MESSAGE;
    ops[4].data.recv_message.recv_message = &pending->received;
    ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[5].data.recv_status_on_client.status = &pending->code;
    ops[5].data.recv_status_on_client.status_details = &pending->details;
    ops[5].data.recv_status_on_client.trailing_metadata = &pending->trailing;
    grpc_call_error failed = grpc_call_start_batch(pending->call, ops, 6, pending, NULL);
    PS_ASSERT(failed == GRPC_CALL_OK);
}

void raw_cancel(struct raw_pending *pending)
{
    (void)grpc_call_cancel(pending->call, NULL);
}

static void copy_slice(grpc_slice slice, char *text, size_t size_max)
{
    size_t size = GRPC_SLICE_LENGTH(slice);
    size = size < size_max ? size : size_max - 1;
    memcpy(text, GRPC_SLICE_START_PTR(slice), size);
    text[size] = '\0';
}

static void copy_message(grpc_byte_buffer *message, struct raw_answer *answer)
{
    grpc_byte_buffer_reader reader;
    if (message == NULL || grpc_byte_buffer_reader_init(&reader, message) == 0)
        return;
    grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
    answer->size = GRPC_SLICE_LENGTH(all);
    answer->bytes = malloc(answer->size + 1);
    PS_ASSERT(answer->bytes != NULL);
    memcpy(answer->bytes, GRPC_SLICE_START_PTR(all), answer->size);
    grpc_slice_unref(all);
}

bool raw_wait(struct raw_client *client, struct raw_pending *pending, int64_t wait_ms,
              struct raw_answer *answer)
{
    grpc_event event = grpc_completion_queue_pluck(client->queue, pending, after_ms(wait_ms), NULL);
    if (event.type != GRPC_OP_COMPLETE)
        return false;
    memset(answer, 0, sizeof *answer);
    answer->code = (int)pending->code;
    copy_slice(pending->details, answer->text, sizeof answer->text);
    for (size_t i = 0; i < pending->trailing.count; i++) {
        if (grpc_slice_str_cmp(pending->trailing.metadata[i].key, PS_STATUS_METADATA_KEY) == 0)
            copy_slice(pending->trailing.metadata[i].value, answer->word, sizeof answer->word);
    }
    for (size_t i = 0; i < pending->initial.count; i++) {
        if (grpc_slice_str_cmp(pending->initial.metadata[i].key, PS_SHARED_METADATA_KEY) == 0)
            copy_slice(pending->initial.metadata[i].value, answer->name, sizeof answer->name);
    }
    copy_message(pending->received, answer);
    grpc_slice_unref(pending->details);
    grpc_byte_buffer_destroy(pending->sent);
    grpc_byte_buffer_destroy(pending->received);
    grpc_metadata_array_destroy(&pending->initial);
    grpc_metadata_array_destroy(&pending->trailing);
    grpc_call_unref(pending->call);
    return true;
}

void raw_call(struct raw_client *client, const char *path, struct ps_bytes request,
              int64_t timeout_ms, struct raw_answer *answer)
{
    struct raw_pending pending;
    raw_start(client, &pending, path, request, timeout_ms);
    bool ended = raw_wait(client, &pending, timeout_ms + 30000, answer);
    PS_ASSERT(ended);
}

void raw_answer_release(struct raw_answer *answer)
{
    free(answer->bytes);
    answer->bytes = NULL;
}
