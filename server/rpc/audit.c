/* SPDX-License-Identifier: Apache-2.0 */
/* What was done by whom, for whoever has to explain later why a model is as it is. Pushes are not
 * among it: there are millions, and the journal has them. */
#include "server/rpc/audit.h"

#include "base/assert.h"
#include "server/rpc/rpc_context.h"

/* NULL: a method that changes nothing, or pushes. */
static const char *const events[PS_METHOD_COUNT] = {
    /* Words that stay: people search for them in logs of years. */
    [PS_METHOD_INIT] = "initialisation begins",
    [PS_METHOD_FINISH] = "initialisation ends",
    [PS_METHOD_SAVE] = "a checkpoint was asked for",
    [PS_METHOD_SAVE_MODEL] = "a snapshot of the model was asked for",
    [PS_METHOD_DRAIN] = "the server was asked to end",
    [PS_METHOD_DEFINE] = "a parameter was defined",
    [PS_METHOD_DROP] = "a parameter was dropped",
    [PS_METHOD_CONFIGURE] = "a parameter was configured",
    [PS_METHOD_SET_CLOCKS] = "clocks were set",
};

/* Who was not let in, or not to this, is counted with the refusals: a stranger must not be able
 * to fill the log. A job has thousands of parameters, which are one event: the first that is
 * taken since the last initialisation ended. */
static bool is_worth_a_line(struct ps_rpc_context *context, enum ps_method method,
                            enum ps_status status)
{
    PS_ASSERT(status < PS_STATUS_COUNT);
    if (status == PS_ERR_UNAUTHENTICATED || status == PS_ERR_DENIED)
        return false;
    if (method == PS_METHOD_INIT)
        return status == PS_OK && !atomic_exchange(&context->init_was_noted, true);
    /* The next parameter that is taken begins another initialisation. */
    if (method == PS_METHOD_FINISH && status == PS_OK)
        atomic_store(&context->init_was_noted, false);
    return true;
}

/* The position is that of the answer: what a checkpoint has that was asked for is in its own
 * line of the log. */
void ps_audit_call(struct ps_rpc_call *call, enum ps_method method, const char *done,
                   enum ps_status status, const struct ps_error *error)
{
    struct ps_rpc_context *context = call->lane->context;
    /* The error of an answer that is none may have a text of an earlier attempt. */
    if (status != PS_OK)
        ps_rpc_call_refused(call, error);
    /* Health has no number, and changes nothing. */
    if ((size_t)method >= PS_METHOD_COUNT || events[method] == NULL ||
        !is_worth_a_line(context, method, status))
        return;
    /* Rare calls: what the status costs does not matter. */
    struct ps_status_reply now = {0};
    char uuid[37] = "";
    ps_service_status(context->service, &now, uuid);
    PS_LOG(context->log, PS_LOG_INFO, "audit", done != NULL ? done : events[method],
           PS_FIELD_TEXT("who", ps_pass_name(&call->pass)),
           PS_FIELD_TEXT("peer", ps_rpc_call_caller(call)->connection),
           PS_FIELD_TEXT("call", ps_method_path(method)), PS_FIELD_UINT("position", now.position),
           PS_FIELD_UINT("epoch", now.epoch), PS_FIELD_TEXT("result", ps_status_word(status)));
}
