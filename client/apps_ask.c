/* SPDX-License-Identifier: Apache-2.0 */
/* A question without a field: every server answers it, in every state. It changes nothing and waits
 * for nobody, so that the engine may repeat it at will. */
#include "client/apps_ask.h"

#include "client/client_state.h"
#include "client/status_map.h"
#include "proto/program_codec.h"

/* In the engine's turn, while the bytes of the answer are there: apps are told and not kept. The
 * epoch is for clients that ask programs. */
static enum ps_status take(void *self, const struct ps_call_reply *reply, struct ps_error *error)
{
    const struct ps_app_listener *listener = self;
    const struct ps_app_state *states;
    struct ps_decoded decoded;
    size_t count;
    /* Whoever asks programs names it from then on; people have no use for it, and it is passed
     * over here. */
    uint64_t epoch;
    PS_TRY(ps_decode_app_states(reply->ask, ps_allocator_heap(), &states, &count, &epoch, &decoded,
                                error));
    /* Names lie in the message, or in what was decoded: both end with this. */
    for (size_t i = 0; i < count; i++)
        listener->tell(listener->self, &states[i]);
    ps_decoded_release(&decoded);
    return PS_OK;
}

/* Of a server that is older than programs the text says that it does not know the call. */
int ps_client_ask_apps(struct psclient *client, uint32_t index,
                       const struct ps_app_listener *listener, uint64_t timeout_ms,
                       struct psclient_error *error)
{
    /* The engine takes what it may write to. */
    struct ps_app_listener copy = *listener;
    struct ps_error why = {.status = PS_OK};
    /* Without a shard: whoever has this address says what it has. */
    struct ps_item item = {.shard = index, .answer = {take, &copy}};
    const struct ps_batch_request batch =
        ps_client_request(client, PS_METHOD_APPS, &item, 1, timeout_ms);
    enum ps_status status = ps_client_run(client, &batch, &why);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    return ps_client_verdict(client, &item, 1, NULL, error);
}
