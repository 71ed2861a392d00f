/* SPDX-License-Identifier: Apache-2.0 */
/* Decode, call the service, wait. What a program is asked, and who gets which request, is the
 * service's to say; the replies are put together in program_message.c.
 *
 * A request is decoded once: what is to stay of it is the mailbox's, and its content stays in the
 * message that has brought it, or in the memory that its client shares with this server.
 *
 * An Ask of an app that has a handler in this process is answered within its first look, in most
 * cases: it is never parked, and its reply goes out on the thread that has read it. */
#include "server/rpc/program_methods.h"

#include "base/assert.h"
#include "base/host_id.h"
#include "proto/fields.h"
#include "proto/program_codec.h"
#include "server/rpc/call_wait.h"
#include "server/rpc/rpc_context.h"
#include "server/rpc/shared_loan.h"

static enum ps_serve_progress follow_ask(struct ps_call_answer *answer);
static enum ps_serve_progress follow_take(struct ps_call_answer *answer);

/* ---- Ask ---- */

/* The room is found before the request is let in: an answer that went another way than its client
 * looks for would be lost. Memory that is gone is none. */
static enum ps_status find_room(struct ps_call_answer *answer, const struct ps_shared_range *range,
                                struct ps_program_room *room)
{
    struct ps_shared_loan *loan;
    *room = (struct ps_program_room){.size = 0};
    /* An answer then comes in the message. */
    if (range->segment == 0)
        return PS_OK;
    enum ps_status status = ps_shared_loan_take(answer->context, range, &loan, &answer->error);
    if (status != PS_OK)
        /* Its client shares this memory no more, and looks for the answer in the message. */
        return status == PS_ERR_UNAVAILABLE ? PS_OK : status;
    /* Where the client will look: it is told how many of them the answer takes. */
    const struct ps_bytes bytes = ps_shared_loan_bytes(loan);
    *room = (struct ps_program_room){.bytes = (uint8_t *)(uintptr_t)bytes.data,
                                     .size = bytes.size,
                                     .drop = ps_shared_loan_drop,
                                     .kept = loan};
    return PS_OK;
}

static enum ps_status ask(struct ps_call_answer *answer, struct ps_ask_request *request)
{
    struct ps_program_room room;
    /* Of the content; the room has a loan of its own. */
    struct ps_shared_loan *loan = NULL;
    struct ps_bytes piece;
    struct ps_hold hold = answer->hold;
    /* Read where it lies, for as long as the request is open. */
    if (request->shared.segment != 0) {
        PS_TRY(ps_shared_loan_take(answer->context, &request->shared, &loan, &answer->error));
        piece = ps_shared_loan_bytes(loan);
        request->payload.content = ps_view_of(&piece);
        hold = ps_shared_loan_hold(loan);
    }
    enum ps_status status = find_room(answer, &request->room, &room);
    if (status == PS_OK)
        status = ps_service_ask(answer->context->service, request, &hold, &room,
                                ps_call_patience_ms(answer, request->wait_ms),
                                &answer->programs.ask, &answer->error);
    /* The parcel has a count of its own by now, if it keeps the content. */
    if (loan != NULL)
        ps_shared_loan_drop(loan);
    return status;
}

enum ps_serve_progress ps_serve_ask(struct ps_call_answer *answer)
{
    struct ps_ask_request request;
    struct ps_decoded decoded;
    /* The second look and all behind it. */
    if (answer->asked) {
        answer->status = ps_service_await_answer(answer->context->service, &answer->programs.ask,
                                                 &answer->error);
        return follow_ask(answer);
    }
    /* What is refused is not asked again. */
    answer->asked = true;
    answer->status =
        ps_decode_ask(answer->request, answer->context->memory, &request, &decoded, &answer->error);
    if (answer->status != PS_OK)
        return PS_SERVE_DONE;
    /* Also where it is none: then nothing is of its size. */
    answer->programs.room = request.room;
    answer->status = ask(answer, &request);
    ps_decoded_release(&decoded);
    return follow_ask(answer);
}

static enum ps_serve_progress follow_ask(struct ps_call_answer *answer)
{
    struct ps_service *service = answer->context->service;
    struct ps_ask_wait *wait = &answer->programs.ask;
    if (answer->status == PS_ERR_NOT_READY) {
        /* Until it is answered, or until the time is over. */
        answer->topic = wait->topic;
        answer->again_ms = ps_service_programs_again_ms(service, wait->until_ms);
        return PS_SERVE_WAITS;
    }
    if (answer->status != PS_OK)
        /* At once, and not first when the call is free: its reply may be long on its way. */
        (void)ps_service_leave_ask(service, wait);
    return PS_SERVE_DONE;
}

/* "Busy" says that a request was certainly not carried out, by which its client may ask anybody
 * else. */
void ps_ask_refuse_to_wait(struct ps_call_answer *answer)
{
    if (!ps_service_leave_ask(answer->context->service, &answer->programs.ask))
        answer->status = PS_ERR_CANCELLED;
}

/* ---- Take ---- */

enum ps_serve_progress ps_serve_take(struct ps_call_answer *answer)
{
    struct ps_service *service = answer->context->service;
    struct ps_take_request request;
    struct ps_decoded decoded;
    if (answer->asked) {
        answer->status = ps_service_await_requests(service, answer->programs.room.size,
                                                   &answer->programs.take, &answer->error);
        return follow_take(answer);
    }
    answer->asked = true;
    answer->status = ps_decode_take(answer->request, answer->context->memory, &request, &decoded,
                                    &answer->error);
    if (answer->status != PS_OK)
        return PS_SERVE_DONE;
    answer->programs.room = request.room;
    answer->status =
        ps_service_take(service, &request, ps_call_patience_ms(answer, request.wait_ms),
                        request.room.size, &answer->programs.take, &answer->error);
    ps_decoded_release(&decoded);
    return follow_take(answer);
}

/* The requests themselves are put together by the reply, which points at their contents. */
static enum ps_serve_progress follow_take(struct ps_call_answer *answer)
{
    struct ps_service *service = answer->context->service;
    struct ps_take_wait *wait = &answer->programs.take;
    if (answer->status == PS_ERR_NOT_READY) {
        answer->topic = wait->topic;
        answer->again_ms = ps_service_programs_again_ms(service, wait->until_ms);
        return PS_SERVE_WAITS;
    }
    if (answer->status != PS_OK)
        ps_service_leave_take(service, wait);
    return PS_SERVE_DONE;
}

/* ---- Answer ---- */

enum ps_serve_progress ps_serve_answer(struct ps_call_answer *answer)
{
    /* Four kilobytes, since a message has a bound on its answers. */
    enum ps_status statuses[PS_PROGRAM_TAKEN_MAX];
    struct ps_answer_request request;
    struct ps_decoded decoded;
    struct ps_shared_loan *loan = NULL;
    struct ps_bytes piece;
    struct ps_hold hold = answer->hold;
    answer->status = ps_decode_answer(answer->request, answer->context->memory, &request, &decoded,
                                      &answer->error);
    if (answer->status != PS_OK)
        return PS_SERVE_DONE;
    /* As large as it may be: it is copied into the parcels of the answers, and no further. */
    if (request.shared.segment != 0) {
        answer->status =
            ps_shared_loan_take(answer->context, &request.shared, &loan, &answer->error);
        if (answer->status == PS_OK) {
            /* Copied: the taker may use its memory for the next answer as soon as it has a reply,
             * and the worker may fetch this one later. */
            piece = ps_shared_loan_bytes(loan);
            request.content = ps_view_of(&piece);
            hold = (struct ps_hold){0};
        }
    }
    if (answer->status == PS_OK)
        answer->status = ps_service_answer_taken(answer->context->service, &request, &hold,
                                                 statuses, &answer->error);
    if (answer->status == PS_OK)
        /* Each answer has its own status: one that came too late harms no other. */
        ps_encode_answer_reply(statuses, request.answer_count, answer->reply);
    if (loan != NULL)
        ps_shared_loan_drop(loan);
    ps_decoded_release(&decoded);
    return PS_SERVE_DONE;
}

/* ---- ListApps ---- */

static void tell_app(void *self, const struct ps_app_state *state)
{
    /* Names are the mailbox's, and are written while its lock is held. */
    ps_encode_app_state(state, self);
}

/* In every state of the service: an operator asks because something is wrong. */
enum ps_serve_progress ps_serve_apps(struct ps_call_answer *answer)
{
    struct ps_rpc_context *context = answer->context;
    /* Nothing of the request is looked at: it has nothing to say. */
    struct ps_mailbox *mailbox = ps_service_mailbox(context->service);
    ps_mailbox_tell(mailbox, ps_now_ms(context->clock), tell_app, answer->reply);
    ps_encode_apps_epoch(ps_mailbox_epoch(mailbox), answer->reply);
    answer->status = PS_OK;
    return PS_SERVE_DONE;
}

void ps_program_call_release(struct ps_call_answer *answer)
{
    (void)ps_service_leave_ask(answer->context->service, &answer->programs.ask);
    ps_service_leave_take(answer->context->service, &answer->programs.take);
}
