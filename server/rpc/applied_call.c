/* SPDX-License-Identifier: Apache-2.0 */
/* LastApplied: asked once, then parked until the journal has what the answer says. */
#include "server/rpc/applied_call.h"

#include "proto/applied_codec.h"
#include "server/core/requests/client_applied.h"
#include "server/rpc/rpc_context.h"

/* A client id is its owner's, and an operator's whom rules make an admin of the whole job. The
 * reply is made at once, and sent when what it says is durable. */
static enum ps_status look_applied(struct ps_call_answer *answer)
{
    struct ps_service *service = answer->context->service;
    struct ps_applied_texts texts;
    struct ps_applied_request request;
    struct ps_client_applied applied;
    PS_TRY(ps_decode_applied(answer->request, &texts, &request, &answer->error));
    request.id.origin = answer->origin;
    request.id.owner = answer->guard != NULL ? answer->guard->owner : 0;
    PS_TRY(ps_service_applied(service, &request, &applied, &answer->error));
    answer->wait = applied.wait;
    ps_encode_applied_reply(&applied.reply, answer->reply);
    ps_service_release_applied(service, &applied);
    return PS_OK;
}

enum ps_serve_progress ps_serve_applied(struct ps_call_answer *answer)
{
    struct ps_push_reply unused = {0};
    if (!answer->asked) {
        answer->asked = true;
        answer->status = look_applied(answer);
        if (answer->status != PS_OK)
            return PS_SERVE_DONE;
    }
    answer->status =
        ps_service_acknowledge(answer->context->service, &answer->wait, &unused, &answer->error);
    answer->topic = PS_TOPIC_JOURNAL;
    return answer->status == PS_ERR_NOT_READY ? PS_SERVE_WAITS : PS_SERVE_DONE;
}
