/* SPDX-License-Identifier: Apache-2.0 */
/* Five kinds of answer become a message: the results of a bundle, small fields alone, small fields
 * with the content of a pull behind them, values of the rendezvous with
 * theirs, and what programs are asked and say. */
#include "server/rpc/unary_reply.h"

#include "base/assert.h"
#include "server/rpc/program_message.h"
#include "server/rpc/program_methods.h"
#include "server/rpc/pull_message.h"
#include "server/rpc/rendezvous_message.h"
#include "server/rpc/rpc_call.h"
#include "server/rpc/rpc_context.h"

/* Has such a call changed something once it was served? Then a failure to answer is not "refused":
 * the client may not take it for "was not done". */
static bool has_changed_something(enum ps_method method)
{
    return method == PS_METHOD_INIT || method == PS_METHOD_FINISH || method == PS_METHOD_PUSH ||
           method == PS_METHOD_SAVE || method == PS_METHOD_DEFINE || method == PS_METHOD_DROP ||
           method == PS_METHOD_CONFIGURE || method == PS_METHOD_SET_CLOCKS ||
           method == PS_METHOD_CLOCK || method == PS_METHOD_ANSWER;
}

/* The request is still there: it goes when the message is made. */
grpc_byte_buffer *ps_unary_reply(struct ps_call_answer *answer, enum ps_method method)
{
    grpc_byte_buffer *message = NULL;
    PS_ASSERT(answer->status == PS_OK);
    if (answer->bundle != NULL) {
        answer->status = ps_bundle_call_reply(answer->bundle, &message, &answer->error);
        return message;
    }
    /* Text that found no memory is the only failure here. After a call that has changed something
     * it must not read as "not applied". */
    struct ps_bytes head = {(const uint8_t *)answer->reply->text, answer->reply->size};
    answer->status = ps_buffer_status(answer->reply, &answer->error);
    if (answer->status != PS_OK) {
        if (has_changed_something(method))
            answer->status = ps_rpc_fail_unanswered(&answer->error);
        return NULL;
    }
    if (ps_program_has_reply(answer)) {
        answer->status = ps_program_message_create(answer, &message);
        /* The program has done what it was asked. */
        if (answer->status != PS_OK)
            answer->status = ps_rpc_fail_unanswered(&answer->error);
        return message;
    }
    if (answer->tensors.receiving.count > 0) {
        answer->status = ps_rendezvous_message_create(answer->context, &answer->tensors,
                                                      answer->reply, &message, &answer->error);
        return message;
    }
    /* From a pull on the content is not copied: the message points at the blocks. */
    if (answer->pull == NULL)
        return ps_rpc_message_of(head);
    answer->status = ps_pull_message_create(head, answer->pull, answer->context->memory, &message,
                                            &answer->error);
    return message;
}

/* A call may end before its answer was made, or after the message has taken what was pulled. */
void ps_unary_reply_release(struct ps_call_answer *answer)
{
    if (answer->single.begun) {
        ps_serve_release_pulls(&answer->single.serve);
        ps_decoded_release(&answer->single.decoded);
        answer->single.begun = false;
    }
    ps_bundle_call_release(answer->bundle);
    answer->bundle = NULL;
    ps_service_leave(answer->context->service, &answer->barrier);
    ps_service_leave_tensors(answer->context->service, &answer->tensors);
    ps_program_call_release(answer);
    ps_cluster_inquiry_release(answer->cluster.inquiry);
    answer->cluster.inquiry = NULL;
    ps_workers_inquiry_release(answer->worker.inquiry);
    answer->worker.inquiry = NULL;
}
