/* SPDX-License-Identifier: Apache-2.0 */
/* Decode, call the service, encode, wait. What a step means, and who gets which value, is the
 * service's to say.
 *
 * A SendTensor never waits, whoever is to receive: a sender that stood behind its receivers could
 * be what they wait for. A RecvTensors is parked while nothing is there, and holds neither a slot
 * nor a thread; when its client goes away it leaves, and its receives with it. What it has got by
 * then stays theirs, so that a client that has only lost its connection asks again and finds it.
 *
 * The request of a parked call is not looked at again: its receives are the step's, and their keys
 * are there. */
#include "server/rpc/rendezvous_methods.h"

#include "base/assert.h"
#include "proto/fields.h"
#include "proto/rendezvous_codec.h"
#include "proto/wire.h"
#include "server/rpc/call_wait.h"
#include "server/rpc/rpc_context.h"
#include "server/rpc/shared_content.h"

static enum ps_serve_progress follow(struct ps_call_answer *answer);
static enum ps_status send_shared(struct ps_call_answer *answer,
                                  struct ps_send_tensor_request *request,
                                  struct ps_send_tensor_reply *reply);

/* The content is kept where the network has put it, for as long as nobody is done with it. */
enum ps_serve_progress ps_serve_send_tensor(struct ps_call_answer *answer)
{
    struct ps_send_tensor_request request;
    struct ps_decoded decoded;
    struct ps_send_tensor_reply reply = {0};
    answer->status = ps_decode_send_tensor(answer->request, answer->context->memory, &request,
                                           &decoded, &answer->error);
    if (answer->status != PS_OK)
        return PS_SERVE_DONE;
    if (request.shared.size > 0)
        answer->status = send_shared(answer, &request, &reply);
    else
        answer->status = ps_service_send_tensor(answer->context->service, &request, &answer->hold,
                                                &reply, &answer->error);
    ps_decoded_release(&decoded);
    if (answer->status == PS_OK)
        ps_encode_send_tensor_reply(&reply, answer->reply);
    return PS_SERVE_DONE;
}

/* Content of a client on this host. What is held is the server's own: the client may change its
 * memory at any time. */
static enum ps_status send_shared(struct ps_call_answer *answer,
                                  struct ps_send_tensor_request *request,
                                  struct ps_send_tensor_reply *reply)
{
    struct ps_shared_content content;
    /* Opened as the content of a push is; only these fields of one matter. */
    struct ps_push_request push = {.shared = request->shared};
    ps_shared_content_init(&content, answer->context);
    PS_TRY(content.ways.open(content.ways.self, &push, &answer->error));
    request->content = push.content;
    /* Without a handle the value copies what it holds. */
    enum ps_status status = ps_service_send_tensor(answer->context->service, request, &push.hold,
                                                   reply, &answer->error);
    content.ways.close(content.ways.self);
    return status;
}

/* The request is decoded once: its receives are the step's from then on, and its lists go. */
enum ps_serve_progress ps_serve_recv_tensors(struct ps_call_answer *answer)
{
    struct ps_service *service = answer->context->service;
    struct ps_recv_tensors_request request;
    struct ps_decoded decoded;
    /* The second look and all behind it. */
    if (answer->asked) {
        /* Woken by a send, by an end of the step, or because the time is over. */
        answer->status = ps_service_await_tensors(service, &answer->tensors, &answer->error);
        return follow(answer);
    }
    /* What is refused is not asked again. */
    answer->asked = true;
    answer->status = ps_decode_recv_tensors(answer->request, answer->context->memory, &request,
                                            &decoded, &answer->error);
    if (answer->status != PS_OK)
        return PS_SERVE_DONE;
    answer->status =
        ps_service_recv_tensors(service, &request, ps_call_patience_ms(answer, request.wait_ms),
                                &answer->tensors, &answer->error);
    /* The lists were copied into the step; only the call itself stays. */
    ps_decoded_release(&decoded);
    return follow(answer);
}

/* The answers themselves are put together by the reply, which points at the values. */
static enum ps_serve_progress follow(struct ps_call_answer *answer)
{
    struct ps_service *service = answer->context->service;
    if (answer->status == PS_ERR_NOT_READY) {
        /* Until a send, or until the time is over. */
        answer->topic = answer->tensors.topic;
        answer->again_ms = ps_service_tensors_again_ms(service, &answer->tensors);
        return PS_SERVE_WAITS;
    }
    if (answer->status == PS_OK)
        ps_wire_put_uint(answer->reply, PS_RENDEZVOUS_EPOCH_FIELD, answer->tensors.receiving.epoch);
    else
        ps_service_leave_tensors(service, &answer->tensors);
    return PS_SERVE_DONE;
}

/* A flat message. An act of a later version is one that there is not. */
enum ps_serve_progress ps_serve_step_control(struct ps_call_answer *answer)
{
    struct ps_fields fields;
    /* Of a cleanup there is none. */
    uint64_t epoch = 0;
    answer->status = ps_fields_read(answer->request, &fields, &answer->error);
    if (answer->status != PS_OK)
        return PS_SERVE_DONE;
    /* Numbers that are too large for their kind stay wrong, and are not cut to another one. */
    uint64_t act = fields.number[PS_STEP_FIELD_ACT];
    uint64_t shard = fields.number[PS_STEP_FIELD_SHARD];
    const struct ps_step_request request = {
        .act = act <= PS_STEP_CLEANUP_ALL ? (enum ps_step_act)act : PS_STEP_NOTHING,
        .step = fields.number[PS_STEP_FIELD_STEP],
        .epoch = fields.number[PS_STEP_FIELD_EPOCH],
        /* Beyond every bound stays beyond it: such a shard is not ours. */
        .shard = shard < UINT32_MAX ? (uint32_t)shard : UINT32_MAX,
        .session = ps_bytes_of_text(fields.text[PS_STEP_FIELD_SESSION]),
        .is_strict = fields.number[PS_STEP_FIELD_STRICT] != 0,
        .lifetime_ms = fields.number[PS_STEP_FIELD_LIFETIME_MS],
        .reason = fields.text[PS_STEP_FIELD_REASON],
        .is_internal = fields.number[PS_STEP_FIELD_INTERNAL] != 0};
    answer->status =
        ps_service_control_step(answer->context->service, &request, &epoch, &answer->error);
    if (answer->status == PS_OK)
        ps_wire_put_uint(answer->reply, PS_RENDEZVOUS_EPOCH_FIELD, epoch);
    return PS_SERVE_DONE;
}
