/* SPDX-License-Identifier: Apache-2.0 */
/* Small fields are one slice, and contents come behind it: of an answer its own, of requests those
 * of all, in order. A slice points into the message that the content has come in, which stays until
 * its last holder lets go of it. */
#include "server/rpc/program_message.h"

#include "base/assert.h"
#include "base/host_id.h"
#include "proto/program_codec.h"
#include "server/rpc/rpc_context.h"
#include "server/rpc/shared_loan.h"

#include <grpc/slice.h>
#include <grpc/slice_buffer.h>

bool ps_program_has_reply(const struct ps_call_answer *answer)
{
    return answer->programs.ask.asking.request != NULL || answer->programs.take.taking.is_in;
}

/* Any of gRPC's threads may drop a slice. */
static void drop(void *parcel)
{
    ps_parcel_release(parcel);
}

/* A reference for each slice, so that none of them has to know of the others. */
static void add_content(struct ps_parcel *parcel, grpc_slice_buffer *slices)
{
    const struct ps_view *content = &parcel->payload.content;
    for (size_t i = 0; i < content->piece_count; i++) {
        const struct ps_bytes *piece = &content->pieces[i];
        /* gRPC's slices are not const, but what is sent is only read. */
        void *bytes = (void *)(uintptr_t)piece->data;
        if (piece->size == 0)
            continue;
        /* What is small is copied into the slice itself, which then needs nobody's count. */
        if (piece->size <= 256)
            grpc_slice_buffer_add(
                slices, grpc_slice_from_copied_buffer((const char *)piece->data, piece->size));
        else
            grpc_slice_buffer_add(slices, grpc_slice_new_with_user_data(bytes, piece->size, drop,
                                                                        ps_parcel_acquire(parcel)));
    }
}

static grpc_byte_buffer *begin_message(const struct ps_buffer *head)
{
    grpc_byte_buffer *made = grpc_raw_byte_buffer_create(NULL, 0);
    if (head->size > 0)
        grpc_slice_buffer_add(&made->data.raw.slice_buffer,
                              grpc_slice_from_copied_buffer(head->text, head->size));
    return made;
}

/* The mailbox has the room of a request, and a handler may have filled it. */
static void use_room(struct ps_call_answer *answer, struct ps_ask_reply *reply)
{
    const struct ps_asking *asking = &answer->programs.ask.asking;
    size_t size = reply->payload.content.size;
    struct ps_program_room room = ps_asking_room(asking);
    if (reply->shared_size != 0 || size == 0 || size > room.size)
        return;
    ps_shared_copy(answer->context, reply->payload.content, room.bytes);
    reply->shared_size = size;
    reply->payload.content = (struct ps_view){0};
}

static enum ps_status answer_message(struct ps_call_answer *answer, grpc_byte_buffer **message)
{
    struct ps_ask_reply reply;
    struct ps_parcel *parcel;
    ps_asking_answer(&answer->programs.ask.asking, &reply, &parcel);
    reply.payload.keys = (struct ps_bytes){0};
    reply.payload.output_count = 0;
    use_room(answer, &reply);
    reply.stamps.host = ps_host_id();
    reply.stamps.ns[3] = ps_unix_ns(answer->context->clock);
    ps_encode_ask_reply(&reply, answer->reply);
    PS_TRY(ps_buffer_status(answer->reply, &answer->error));
    *message = begin_message(answer->reply);
    if (reply.payload.content.size > 0)
        add_content(parcel, &(*message)->data.raw.slice_buffer);
    return PS_OK;
}

/* All of it or nothing: a taker reads one place or the other. */
static bool fill_room(struct ps_call_answer *answer, const struct ps_taking *taking, uint64_t size)
{
    struct ps_shared_loan *loan;
    size_t at = 0;
    if (size == 0 || size > answer->programs.room.size || answer->programs.room.segment == 0 ||
        ps_shared_loan_take(answer->context, &answer->programs.room, &loan, NULL) != PS_OK)
        return false;
    uint8_t *room = (uint8_t *)(uintptr_t)ps_shared_loan_bytes(loan).data;
    for (size_t i = 0; i < taking->row_count; i++) {
        struct ps_view content = taking->rows[i].question->payload.content;
        ps_shared_copy(answer->context, content, room + at);
        at += content.size;
    }
    ps_shared_loan_drop(loan);
    return true;
}

static enum ps_status taken_message(struct ps_call_answer *answer, grpc_byte_buffer **message)
{
    const struct ps_taking *taking = &answer->programs.take.taking;
    uint64_t size = 0;
    for (size_t i = 0; i < taking->row_count; i++) {
        const struct ps_taken_row *row = &taking->rows[i];
        const struct ps_program_taken taken = {.handle = row->handle,
                                               .again = row->again,
                                               .asked = row->asked,
                                               .payload = row->question->payload};
        ps_encode_taken(&taken, answer->reply);
        size += row->question->payload.content.size;
    }
    bool is_shared = fill_room(answer, taking, size);
    ps_encode_take_content(is_shared ? size : 0, is_shared ? 0 : (size_t)size, answer->reply);
    PS_TRY(ps_buffer_status(answer->reply, &answer->error));
    *message = begin_message(answer->reply);
    for (size_t i = 0; i < taking->row_count && !is_shared; i++)
        add_content(taking->rows[i].question, &(*message)->data.raw.slice_buffer);
    return PS_OK;
}

enum ps_status ps_program_message_create(struct ps_call_answer *answer, grpc_byte_buffer **message)
{
    PS_ASSERT(ps_program_has_reply(answer));
    return answer->programs.ask.asking.request != NULL ? answer_message(answer, message)
                                                       : taken_message(answer, message);
}
