/* SPDX-License-Identifier: Apache-2.0 */
/* A wait holds its message's pushes along: their client hears of them with the reply. So nothing
 * waits for what this message itself has failed to bring. */
#include "server/core/requests/serve_wait.h"

#include "base/assert.h"

static bool was_refused(const struct ps_serve *serve);

/* A pull waits while the service is not initialised; but not when gradients came with it, which
 * have failed for the same reason. For other clients it waits whatever came with it: what it waits
 * for may be what its own gradient is part of, unless that was refused. */
bool ps_serve_waits(struct ps_serve *serve, const struct ps_serve_turn *turn,
                    const struct ps_pull_wait *wait, enum ps_status *status)
{
    bool for_others = wait->topic != PS_TOPIC_LIFE;
    PS_ASSERT(*status == PS_ERR_NOT_READY);
    PS_ASSERT(wait->topic < PS_TOPIC_COUNT);
    serve->topic = wait->topic;
    serve->again_ms = wait->again_ms;
    bool is_alone = for_others && was_refused(serve);
    if (turn->may_wait && !is_alone &&
        (for_others ? !turn->is_late : serve->request.push_count == 0))
        return true;
    if (!for_others)
        return false;
    /* The text of a late one stands: it says what is missing. */
    if (is_alone)
        (void)ps_fail(serve->error, PS_ERR_CONFLICT, "its gradient was refused");
    else if (turn->is_late)
        serve->error->status = PS_ERR_TIMEOUT;
    else if (turn->refusal == NULL)
        (void)ps_fail(serve->error, PS_ERR_UNAVAILABLE, "shutting down");
    else
        *serve->error = *turn->refusal;
    PS_ASSERT(serve->error->status != PS_OK && serve->error->status != PS_ERR_NOT_READY);
    *status = serve->error->status;
    return false;
}

/* A contribution to the round that is waited for, which would wait for this very one. A worker that
 * has contributed before (PS_ERR_EXISTS) waits as if it had contributed now. A message has few
 * parameters with rounds, and a pull asks this once before each wait. */
static bool was_refused(const struct ps_serve *serve)
{
    const struct ps_bundle_request *request = &serve->request;
    const struct ps_pull_request *pull = &request->pulls[serve->next];
    PS_ASSERT(serve->next < request->pull_count);
    for (size_t i = 0; i < request->push_count && pull->at_least_version > 0; i++)
        if (serve->pushes[i].status.status != PS_OK &&
            serve->pushes[i].status.status != PS_ERR_EXISTS &&
            ps_bytes_equal(request->pushes[i].name, pull->name))
            return true;
    return false;
}
