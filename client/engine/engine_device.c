/* SPDX-License-Identifier: Apache-2.0 */
/* Contents that are in a device's memory, and what is done where a server cannot reach them: one
 * that is elsewhere, has no device or another one, or would have to copy too much. */
#include "base/assert.h"
#include "client/engine/engine_state.h"

bool ps_engine_on_device(const struct ps_engine_call *call)
{
    const struct ps_push_request *push = ps_call_push_of(&call->request);
    const struct ps_pull_request *pull = ps_call_pull_of(&call->request);
    return (push != NULL && push->place != NULL) || (pull != NULL && pull->place != NULL);
}

/* The push keeps its number: attempts that broke before may have been applied, and the server knows
 * them by it. From here on it is a push like any other, ranges included. */
bool ps_engine_bring_home(struct ps_engine *engine, struct ps_batch *batch,
                          struct ps_engine_call *call, const struct ps_call_outcome *outcome)
{
    if (outcome->status != PS_ERR_UNSUPPORTED || call->request.method != PS_METHOD_PUSH ||
        !ps_engine_on_device(call) || batch->is_given_up)
        return false;
    struct ps_push_request *push = &call->request.push;
    const struct ps_device_place *place = push->place;
    PS_ASSERT(call->fetched == NULL && push->content.pieces == &call->content);
    call->fetched = ps_plain(engine->memory, call->content.size);
    if (call->fetched == NULL ||
        !place->fetch(place->self, call->fetched, call->content.data, call->content.size))
        return false;
    /* The request's view is of this one piece. */
    call->content.data = call->fetched;
    push->place = NULL;
    return true;
}
