/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a question to the health and the reflection service, as LastApplied, as what a
 * server says of the others and of workers, and as the messages of the rendezvous and of server
 * programs. */
#include "fuzz_target.h"

#include "proto/applied_codec.h"
#include "proto/cluster_codec.h"
#include "proto/health_codec.h"
#include "proto/program_codec.h"
#include "proto/reflection_codec.h"
#include "proto/rendezvous_codec.h"
#include "proto/worker_codec.h"

#include <stdlib.h>
#include <string.h>

static enum ps_status take_row(void *self, const struct ps_applied_row *row, struct ps_error *error)
{
    (void)self;
    (void)error;
    if (row->name.size > PS_NAME_BYTES_MAX)
        abort();
    return PS_OK;
}

static void read_applied(struct ps_view view)
{
    struct ps_applied_texts texts;
    struct ps_applied_request request;
    struct ps_applied_reply reply;
    if (ps_decode_applied(view, &texts, &request, NULL) == PS_OK &&
        (request.id.client_id.size > PS_CLIENT_ID_BYTES_MAX ||
         request.after.size > PS_NAME_BYTES_MAX))
        abort();
    enum ps_status status = ps_decode_applied_reply(view, take_row, NULL, &reply, NULL);
    if (status != PS_OK && status != PS_ERR_BAD_INPUT)
        abort();
}

static enum ps_status take_tensor(void *self, const struct ps_received_tensor *received,
                                  struct ps_error *error)
{
    (void)self;
    (void)error;
    if (received->facts.rank > PS_VALUE_RANK_MAX)
        abort();
    return PS_OK;
}

/* Bounds that whoever is handed the structs relies on. */
static void read_rendezvous(struct ps_view view)
{
    struct ps_send_tensor_request send;
    struct ps_recv_tensors_request receive;
    struct ps_decoded decoded;
    uint64_t epoch;
    if (ps_decode_send_tensor(view, ps_allocator_heap(), &send, &decoded, NULL) == PS_OK) {
        if (send.key.size > PS_RENDEZVOUS_KEY_BYTES_MAX || send.facts.rank > PS_VALUE_RANK_MAX ||
            send.content.size > view.size ||
            (send.total != 0 && (send.content.size + send.shared.size > send.total ||
                                 send.offset > send.total - send.content.size - send.shared.size)))
            abort();
        ps_decoded_release(&decoded);
    }
    if (ps_decode_recv_tensors(view, ps_allocator_heap(), &receive, &decoded, NULL) == PS_OK) {
        if (receive.wish_count > PS_RENDEZVOUS_WISHES_MAX ||
            receive.done_count > PS_RENDEZVOUS_WISHES_MAX ||
            receive.give_back_count > PS_RENDEZVOUS_WISHES_MAX ||
            receive.cancel_count > PS_RENDEZVOUS_WISHES_MAX)
            abort();
        ps_decoded_release(&decoded);
    }
    struct ps_send_tensor_reply sent;
    enum ps_status ignored = ps_decode_send_tensor_reply(view, &sent, NULL);
    (void)ignored;
    const struct ps_received_taker taker = {.take = take_tensor};
    enum ps_status status =
        ps_decode_recv_tensors_reply(view, ps_allocator_heap(), &taker, &epoch, NULL);
    if (status != PS_OK && status != PS_ERR_BAD_INPUT)
        abort();
}

/* What their reader does with a payload: contents are where the tensors say, and no more. */
static void check_payload(const struct ps_program_payload *payload, bool is_elsewhere)
{
    uint64_t size = 0;
    for (size_t i = 0; i < payload->tensor_count; i++) {
        size += payload->tensors[i].size;
        if (payload->tensors[i].facts.rank > PS_VALUE_RANK_MAX)
            abort();
    }
    if (payload->tensor_count > PS_PROGRAM_TENSORS_MAX ||
        payload->output_count > PS_PROGRAM_TENSORS_MAX || payload->keys.size % 8 != 0 ||
        payload->lens.size % 4 != 0 || (!is_elsewhere && size != payload->content.size))
        abort();
}

static void read_program_requests(struct ps_view view)
{
    const struct ps_allocator *heap = ps_allocator_heap();
    struct ps_ask_request ask;
    struct ps_take_request take;
    struct ps_answer_request answer;
    struct ps_decoded decoded;
    if (ps_decode_ask(view, heap, &ask, &decoded, NULL) == PS_OK)
        check_payload(&ask.payload, ask.payload.content.size == 0);
    ps_decoded_release(&decoded);
    if (ps_decode_take(view, heap, &take, &decoded, NULL) == PS_OK &&
        (take.max > PS_PROGRAM_TAKEN_MAX || take.worker_count > PS_PROGRAM_WORKERS_MAX ||
         take.name.size > PS_PROGRAM_NAME_BYTES_MAX))
        abort();
    ps_decoded_release(&decoded);
    if (ps_decode_answer(view, heap, &answer, &decoded, NULL) == PS_OK) {
        for (size_t i = 0; i < answer.answer_count; i++)
            for (size_t j = 0; j < answer.answers[i].part_count; j++)
                if (answer.answers[i].parts[j].tensor >= answer.tensor_count)
                    abort();
    }
    ps_decoded_release(&decoded);
}

static void read_program_replies(struct ps_view view)
{
    const struct ps_allocator *heap = ps_allocator_heap();
    struct ps_ask_reply reply;
    struct ps_take_reply taken;
    struct ps_decoded decoded;
    const struct ps_app_state *states;
    enum ps_status statuses[4];
    size_t count;
    uint64_t epoch;
    if (ps_decode_ask_reply(view, heap, &reply, &decoded, NULL) == PS_OK)
        check_payload(&reply.payload, reply.shared_size != 0);
    ps_decoded_release(&decoded);
    if (ps_decode_take_reply(view, heap, &taken, &decoded, NULL) == PS_OK)
        for (size_t i = 0; i < taken.taken_count; i++)
            check_payload(&taken.taken[i].payload, taken.shared_size != 0);
    ps_decoded_release(&decoded);
    if (ps_decode_app_states(view, heap, &states, &count, &epoch, &decoded, NULL) == PS_OK)
        for (size_t i = 0; i < count; i++)
            for (size_t j = 0; j < states[i].taker_count; j++)
                if (states[i].takers[j].name.size > PS_PROGRAM_NAME_BYTES_MAX)
                    abort();
    ps_decoded_release(&decoded);
    enum ps_status status = ps_decode_answer_reply(view, statuses, 4, NULL);
    if (status != PS_OK && status != PS_ERR_BAD_INPUT)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ps_bytes bytes = {data, size};
    char service[PS_HEALTH_SERVICE_BYTES_MAX + 1];
    if (ps_decode_health(ps_view_of(&bytes), service, NULL) == PS_OK &&
        strlen(service) > PS_HEALTH_SERVICE_BYTES_MAX)
        abort();

    read_applied(ps_view_of(&bytes));
    read_rendezvous(ps_view_of(&bytes));
    read_program_requests(ps_view_of(&bytes));
    read_program_replies(ps_view_of(&bytes));

    struct ps_cluster_reply cluster = {0};
    if (ps_decode_cluster(ps_view_of(&bytes), ps_allocator_heap(), &cluster, NULL) == PS_OK &&
        cluster.shard_count > PS_SHARDS_MAX)
        abort();
    ps_cluster_reply_release(&cluster);

    struct ps_worker_list workers = {0};
    if (ps_decode_workers(ps_view_of(&bytes), ps_allocator_heap(), &workers, NULL) == PS_OK &&
        workers.count > 2 * PS_WORKERS_LISTED_MAX)
        abort();
    ps_worker_list_release(&workers);

    struct ps_buffer reply;
    ps_buffer_init(&reply, ps_allocator_heap(), PS_REFLECTION_REPLY_BYTES_MAX);
    enum ps_status status = ps_reflection_answer(ps_view_of(&bytes), &reply, NULL);
    if (status != PS_OK && status != PS_ERR_BAD_INPUT)
        abort();
    ps_buffer_fini(&reply);
    return 0;
}
