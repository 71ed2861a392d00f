/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to server programs, which no journal remembers: what of them may be sent again after a
 * failure, and to which life of the server.
 *
 * A request names the life that it is for, once its client has been told of one, and another life
 * refuses it. The first requests to a server cannot name any; each of them leaves so once:
 *
 *     not known ──failed, may have run──► only where it is known already ──refused──► it fails
 *         │
 *         └──answered, or refused with the server's life──► named from then on
 *
 * Its repeats go to a life that knows the request by its token, and to no other: that is the one
 * that the first attempt has reached, if any did. So no two lives carry a request out, and what
 * nobody can say is told to the caller instead of being tried.
 *
 * A server that refuses a request for another life has not carried it out. Of a request that has
 * reached no other life either that is proof that nobody has: it goes on, under the life that is
 * there. A status of the server's own that says so is proof, too, unless a life is told with it:
 * then it is the program's own word, and the end. */
#include "base/assert.h"
#include "client/engine/engine_state.h"
#include "proto/program_messages.h"

/* With each attempt, since the one before may have told a life. */
void ps_engine_name_life(struct ps_engine_call *call)
{
    if (call->request.method != PS_METHOD_ASK)
        return;
    uint64_t unknown = call->may_have_run ? PS_EPOCH_BY_TOKEN : 0;
    call->request.ask_epoch = call->life != 0 ? call->life : unknown;
}

/* A refusal may be long on its way, and tell of a life that is gone meanwhile: then the next one
 * tells of the one that is there. */
bool ps_engine_take_life(struct ps_engine_call *call, const struct ps_call_outcome *outcome,
                         enum ps_verdict *verdict)
{
    if (call->request.method != PS_METHOD_ASK || outcome->status == PS_OK)
        return false;
    if (outcome->session != 0 && outcome->status != PS_ERR_ABORTED) {
        *verdict = PS_VERDICT_FAILED;
        return false;
    }
    if (outcome->session == 0) {
        /* Memory may have been short when the answer was there already. */
        call->may_have_run =
            call->may_have_run || !outcome->refused || outcome->status == PS_ERR_NO_MEMORY;
        return false;
    }
    if (call->may_have_run)
        return false;
    call->life = outcome->session;
    *verdict = PS_VERDICT_AGAIN;
    return true;
}
