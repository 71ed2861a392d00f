/* SPDX-License-Identifier: Apache-2.0 */
/* The server that misbehaves as told. */
#include "tests/support/client/fake_server.h"

#include "base/thread.h"
#include "proto/status_codes.h"

#include <check.h>
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rule {
    struct fake_answer always, next;
    uint32_t next_count;
    uint32_t calls;
    size_t last_size;
    uint8_t requests[FAKE_REQUESTS_MAX][FAKE_REQUEST_BYTES];
    size_t request_sizes[FAKE_REQUESTS_MAX];
};

struct fake_server {
    grpc_server *server;
    grpc_completion_queue *queue;
    struct ps_thread thread;
    int port;
    char address[32];
    struct ps_mutex mutex;
    struct ps_condition came;
    bool stopping;
    struct rule rules[PS_METHOD_COUNT];
};

/* One call: wait for it, read its message, answer. */
struct fake_call {
    enum { CALL_ASKED, CALL_READING, CALL_ANSWERED } state;
    grpc_call *call;
    grpc_call_details details;
    grpc_metadata_array metadata;
    grpc_byte_buffer *message;
    int cancelled;
};

static void run(void *argument);
static void end_call(struct fake_call *call);

static void ask(struct fake_server *fake)
{
    struct fake_call *call = calloc(1, sizeof *call);
    grpc_call_details_init(&call->details);
    grpc_metadata_array_init(&call->metadata);
    /* Refused only while stopping. */
    if (grpc_server_request_call(fake->server, &call->call, &call->details, &call->metadata,
                                 fake->queue, fake->queue, call) != GRPC_CALL_OK)
        end_call(call);
}

struct fake_server *fake_server_start(int port)
{
    struct fake_server *fake = calloc(1, sizeof *fake);
    ps_mutex_init(&fake->mutex, PS_RANK_LEAF);
    ps_condition_init(&fake->came);
    grpc_init();
    grpc_arg args[3] = {
        {.type = GRPC_ARG_INTEGER, .key = GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, .value.integer = -1},
        {.type = GRPC_ARG_INTEGER, .key = GRPC_ARG_ALLOW_REUSEPORT, .value.integer = 0},
        {.type = GRPC_ARG_INTEGER, .key = GRPC_ARG_HTTP2_MAX_PING_STRIKES, .value.integer = 0}};
    const grpc_channel_args channel_args = {3, args};
    fake->server = grpc_server_create(&channel_args, NULL);
    fake->queue = grpc_completion_queue_create_for_next(NULL);
    grpc_server_register_completion_queue(fake->server, fake->queue, NULL);
    snprintf(fake->address, sizeof fake->address, "127.0.0.1:%d", port);
    grpc_server_credentials *credentials = grpc_insecure_server_credentials_create();
    fake->port = grpc_server_add_http2_port(fake->server, fake->address, credentials);
    grpc_server_credentials_release(credentials);
    ck_assert_int_gt(fake->port, 0);
    snprintf(fake->address, sizeof fake->address, "127.0.0.1:%d", fake->port);
    grpc_server_start(fake->server);
    /* As an older server, which knows no others. */
    const struct fake_answer unknown = {.kind = FAKE_REFUSE, .status = PS_ERR_UNSUPPORTED};
    fake->rules[PS_METHOD_CLUSTER].always = unknown;
    fake->rules[PS_METHOD_BEGIN_INIT].always = unknown;
    fake->rules[PS_METHOD_END_INIT].always = unknown;
    for (int i = 0; i < 64; i++)
        ask(fake);
    ck_assert_int_eq(ps_thread_start(&fake->thread, "fake_server", run, fake, NULL), PS_OK);
    return fake;
}

int fake_server_port(const struct fake_server *fake)
{
    return fake->port;
}

const char *fake_server_address(const struct fake_server *fake)
{
    return fake->address;
}

void fake_server_answer(struct fake_server *fake, enum ps_method method, struct fake_answer answer)
{
    ps_mutex_lock(&fake->mutex);
    fake->rules[method].always = answer;
    ps_mutex_unlock(&fake->mutex);
}

void fake_server_next(struct fake_server *fake, enum ps_method method, uint32_t count,
                      struct fake_answer answer)
{
    ps_mutex_lock(&fake->mutex);
    fake->rules[method].next = answer;
    fake->rules[method].next_count = count;
    ps_mutex_unlock(&fake->mutex);
}

uint32_t fake_server_calls(struct fake_server *fake, enum ps_method method)
{
    ps_mutex_lock(&fake->mutex);
    uint32_t calls = fake->rules[method].calls;
    ps_mutex_unlock(&fake->mutex);
    return calls;
}

size_t fake_server_last_size(struct fake_server *fake, enum ps_method method)
{
    ps_mutex_lock(&fake->mutex);
    size_t size = fake->rules[method].last_size;
    ps_mutex_unlock(&fake->mutex);
    return size;
}

size_t fake_server_request(struct fake_server *fake, enum ps_method method, uint32_t n,
                           uint8_t bytes[FAKE_REQUEST_BYTES])
{
    ck_assert_uint_lt(n, FAKE_REQUESTS_MAX);
    ps_mutex_lock(&fake->mutex);
    const struct rule *rule = &fake->rules[method];
    ck_assert_uint_lt(n, rule->calls);
    size_t size = rule->request_sizes[n];
    memcpy(bytes, rule->requests[n], size);
    ps_mutex_unlock(&fake->mutex);
    return size;
}

void fake_server_await(struct fake_server *fake, enum ps_method method, uint32_t calls)
{
    ps_mutex_lock(&fake->mutex);
    while (fake->rules[method].calls < calls)
        ps_condition_wait(&fake->came, &fake->mutex, 1000);
    ps_mutex_unlock(&fake->mutex);
}

void fake_server_stop(struct fake_server *fake)
{
    if (fake == NULL)
        return;
    ps_mutex_lock(&fake->mutex);
    fake->stopping = true;
    ps_mutex_unlock(&fake->mutex);
    grpc_server_shutdown_and_notify(fake->server, fake->queue, NULL);
    grpc_server_cancel_all_calls(fake->server);
    ps_thread_join(&fake->thread);
    grpc_server_destroy(fake->server);
    grpc_completion_queue_destroy(fake->queue);
    grpc_shutdown();
    ps_condition_fini(&fake->came);
    ps_mutex_fini(&fake->mutex);
    free(fake);
}

/* ---- The thread ---- */

static void end_call(struct fake_call *call)
{
    if (call->call != NULL)
        grpc_call_unref(call->call);
    if (call->message != NULL)
        grpc_byte_buffer_destroy(call->message);
    grpc_call_details_destroy(&call->details);
    grpc_metadata_array_destroy(&call->metadata);
    free(call);
}

static void keep_request(struct rule *rule, grpc_byte_buffer *message)
{
    grpc_byte_buffer_reader reader;
    if (rule->calls >= FAKE_REQUESTS_MAX || message == NULL ||
        grpc_byte_buffer_reader_init(&reader, message) == 0)
        return;
    grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
    size_t size = GRPC_SLICE_LENGTH(all);
    size = size < FAKE_REQUEST_BYTES ? size : FAKE_REQUEST_BYTES;
    memcpy(rule->requests[rule->calls], GRPC_SLICE_START_PTR(all), size);
    rule->request_sizes[rule->calls] = size;
    grpc_slice_unref(all);
    grpc_byte_buffer_reader_destroy(&reader);
}

static struct fake_answer choose(struct fake_server *fake, struct fake_call *call)
{
    struct fake_answer answer = {.kind = FAKE_BREAK};
    ps_mutex_lock(&fake->mutex);
    for (enum ps_method i = 0; i < PS_METHOD_COUNT; i++) {
        if (grpc_slice_str_cmp(call->details.method, ps_method_path(i)) != 0)
            continue;
        struct rule *rule = &fake->rules[i];
        keep_request(rule, call->message);
        rule->calls++;
        rule->last_size = call->message == NULL ? 0 : grpc_byte_buffer_length(call->message);
        answer = rule->always;
        if (rule->next_count > 0) {
            rule->next_count--;
            answer = rule->next;
        }
    }
    ps_condition_signal_all(&fake->came);
    ps_mutex_unlock(&fake->mutex);
    return answer;
}

static void answer_call(struct fake_server *fake, struct fake_call *call)
{
    struct fake_answer answer = choose(fake, call);
    grpc_op ops[4];
    memset(ops, 0, sizeof ops);
    size_t count = 0;
    ops[count++].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
    ops[0].data.recv_close_on_server.cancelled = &call->cancelled;
    call->state = CALL_ANSWERED;
    grpc_byte_buffer *reply = NULL;
    grpc_metadata word = {.key = grpc_slice_from_static_string(PS_STATUS_METADATA_KEY),
                          .value = grpc_slice_from_static_string(ps_status_word(answer.status))};
    grpc_slice details = grpc_slice_from_static_string(ps_status_word(answer.status));
    if (answer.kind == FAKE_BREAK)
        grpc_call_cancel(call->call, NULL);
    if (answer.kind == FAKE_REPLY || answer.kind == FAKE_REFUSE) {
        ops[count++].op = GRPC_OP_SEND_INITIAL_METADATA;
        if (answer.kind == FAKE_REPLY) {
            grpc_slice slice = grpc_slice_from_copied_buffer(
                answer.bytes.data == NULL ? "" : (const char *)answer.bytes.data,
                answer.bytes.size);
            reply = grpc_raw_byte_buffer_create(&slice, 1);
            grpc_slice_unref(slice);
            ops[count].op = GRPC_OP_SEND_MESSAGE;
            ops[count++].data.send_message.send_message = reply;
        }
        ops[count].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
        ops[count].data.send_status_from_server.status =
            (grpc_status_code)ps_rpc_code_of_status(answer.status);
        ops[count].data.send_status_from_server.status_details = &details;
        ops[count].data.send_status_from_server.trailing_metadata = &word;
        ops[count].data.send_status_from_server.trailing_metadata_count =
            answer.kind == FAKE_REFUSE ? 1 : 0;
        count++;
    }
    ck_assert_int_eq(grpc_call_start_batch(call->call, ops, count, call, NULL), GRPC_CALL_OK);
    if (reply != NULL)
        grpc_byte_buffer_destroy(reply);
}

static void step(struct fake_server *fake, struct fake_call *call, bool ok)
{
    grpc_op op;
    switch (call->state) {
    case CALL_ASKED:
        if (!ok) {
            end_call(call);
            return;
        }
        ask(fake);
        memset(&op, 0, sizeof op);
        op.op = GRPC_OP_RECV_MESSAGE;
        op.data.recv_message.recv_message = &call->message;
        call->state = CALL_READING;
        ck_assert_int_eq(grpc_call_start_batch(call->call, &op, 1, call, NULL), GRPC_CALL_OK);
        return;
    case CALL_READING:
        answer_call(fake, call);
        return;
    case CALL_ANSWERED:
        end_call(call);
        return;
    }
}

static void run(void *argument)
{
    struct fake_server *fake = argument;
    for (;;) {
        grpc_event event =
            grpc_completion_queue_next(fake->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            return;
        if (event.tag == NULL) {
            grpc_completion_queue_shutdown(fake->queue);
            continue;
        }
        step(fake, event.tag, event.success != 0);
    }
}
