/* SPDX-License-Identifier: Apache-2.0 */
/* What servers of the rendezvous do: the service's calls over the real codec, and what is noted of
 * values. */
#include "tests/sim/sim_rendezvous.h"

#include "base/assert.h"
#include "proto/fields.h"
#include "proto/rendezvous_codec.h"
#include "proto/wire.h"

/* What it had is lost with it. */
static void drop_values(struct sim_small_server *server, uint32_t first_step, uint32_t last_step)
{
    struct rdv_world *world = sim_rdv_world(server->world);
    for (size_t i = 0; i < world->value_count; i++) {
        struct rdv_value *value = &world->values[i];
        if (value->shard == server->shard && value->step >= first_step &&
            value->step <= last_step && value->is_stored)
            value->is_dropped = true;
    }
}

void sim_rdv_server_end(struct sim_small_server *server)
{
    drop_values(server, 0, RDV_STEPS);
}

/* ---- Sends ---- */

static struct rdv_value *value_of_token(struct rdv_world *world, uint64_t token)
{
    for (size_t i = world->value_count; i > 0; i--)
        if (world->values[i - 1].token == token)
            return &world->values[i - 1];
    return NULL;
}

static enum ps_status serve_send(struct sim_small_server *server, struct ps_view bytes,
                                 struct ps_buffer *answer, struct ps_error *error)
{
    struct rdv_world *world = sim_rdv_world(server->world);
    struct ps_send_tensor_request request;
    struct ps_send_tensor_reply made = {0};
    struct ps_decoded decoded;
    const struct ps_hold none = {.keep = NULL};
    PS_TRY(ps_decode_send_tensor(bytes, &world->small.memory, &request, &decoded, error));
    struct rdv_value *value = value_of_token(world, request.token);
    if (world->small.mutation == SIM_RENDEZVOUS_TOKEN_LOST && request.total == 0)
        request.token = 0;
    enum ps_status status = ps_service_send_tensor(server->service, &request, &none, &made, error);
    ps_decoded_release(&decoded);
    if (status != PS_OK)
        return status;
    PS_ASSERT(value != NULL);
    if (made.is_whole)
        value->is_stored = true;
    ps_encode_send_tensor_reply(&made, answer);
    return PS_OK;
}

/* ---- Receives ---- */

static void append_piece(void *self, struct ps_held_value *holder, struct ps_bytes piece)
{
    PS_ASSERT(holder != NULL);
    ps_buffer_append(self, piece);
}

/* What came of a receive; all other replies are written at once. */
void sim_rdv_write_reply(struct sim_small_server *server, struct sim_small_call *call,
                         struct ps_buffer *answer)
{
    const struct ps_tensor_wait *wait = &call->tensors;
    if (call->method != PS_METHOD_RECV_TENSORS)
        return;
    ps_wire_put_uint(answer, PS_RENDEZVOUS_EPOCH_FIELD, wait->receiving.epoch);
    for (size_t i = 0; i < wait->receiving.count; i++) {
        const struct ps_received *row = &wait->receiving.rows[i];
        struct ps_received_tensor told = {.id = row->id, .status = row->status};
        if (row->status == PS_ERR_NOT_READY)
            continue;
        if (row->value != NULL) {
            told.facts = row->value->facts;
            told.offset = row->offset;
            told.total = row->count < row->value->content.size ? row->value->content.size : 0;
            told.content.size = (size_t)row->count;
        }
        ps_encode_received_tensor(&told, answer);
        uint64_t offset = server->world->mutation == SIM_RENDEZVOUS_RANGE_BENT ? 0 : row->offset;
        if (row->value != NULL)
            ps_held_value_walk(row->value, offset, row->count, append_piece, answer);
    }
}

static enum ps_status serve_receive(struct sim_small_server *server, struct ps_view bytes,
                                    struct sim_small_call *call, struct ps_error *error)
{
    struct ps_recv_tensors_request request;
    struct ps_decoded decoded;
    PS_TRY(ps_decode_recv_tensors(bytes, &server->world->memory, &request, &decoded, error));
    enum ps_status status =
        ps_service_recv_tensors(server->service, &request, request.wait_ms, &call->tensors, error);
    ps_decoded_release(&decoded);
    return status;
}

/* ---- Steps ---- */

static enum ps_status serve_control(struct sim_small_server *server, struct ps_view bytes,
                                    struct ps_buffer *answer, struct ps_error *error)
{
    struct ps_fields fields;
    uint64_t epoch = 0;
    PS_TRY(ps_fields_read(bytes, &fields, error));
    const struct ps_step_request request = {
        .act = (enum ps_step_act)fields.number[PS_STEP_FIELD_ACT],
        .step = fields.number[PS_STEP_FIELD_STEP],
        .epoch = fields.number[PS_STEP_FIELD_EPOCH],
        .shard = (uint32_t)fields.number[PS_STEP_FIELD_SHARD],
        .session = ps_bytes_of_text(fields.text[PS_STEP_FIELD_SESSION]),
        .reason = fields.text[PS_STEP_FIELD_REASON]};
    PS_TRY(ps_service_control_step(server->service, &request, &epoch, error));
    if (request.act == PS_STEP_ABORT || request.act == PS_STEP_CLEANUP)
        drop_values(server, (uint32_t)request.step, (uint32_t)request.step);
    if (request.act == PS_STEP_CLEANUP_ALL)
        drop_values(server, 0, RDV_STEPS);
    ps_wire_put_uint(answer, PS_RENDEZVOUS_EPOCH_FIELD, epoch);
    return PS_OK;
}

/* ---- What comes ---- */

enum ps_status sim_rdv_serve(struct sim_small_server *server, struct sim_small_call *call,
                             struct ps_view bytes, struct ps_buffer *to, struct ps_error *error)
{
    switch (call->method) {
    case PS_METHOD_SEND_TENSOR:
        return serve_send(server, bytes, to, error);
    case PS_METHOD_RECV_TENSORS:
        return serve_receive(server, bytes, call, error);
    default:
        PS_ASSERT(call->method == PS_METHOD_STEP);
        return serve_control(server, bytes, to, error);
    }
}
