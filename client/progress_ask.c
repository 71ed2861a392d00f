/* SPDX-License-Identifier: Apache-2.0 */
/* A question that changes nothing and waits for nobody: the engine may repeat it at will. */
#include "client/progress_ask.h"

#include "client/client_state.h"
#include "client/status_map.h"

/* Where an answer goes while the engine has it. */
struct taker {
    const struct ps_progress_rows *rows;
    struct ps_progress_reply *reply;
};

/* In the engine's turn, while the bytes of the answer are there: rows are handed on and not
 * kept. */
static enum ps_status take(void *self, const struct ps_call_reply *reply, struct ps_error *error)
{
    struct taker *taker = self;
    return ps_decode_progress_reply(reply->ask, taker->rows, taker->reply, error);
}

/* Servers of a list may each be a job of their own, with another index there: only where the store
 * says whose shard it is the message says for whom it is meant. */
int ps_client_ask_progress(struct psclient *client, uint32_t index, struct ps_bytes name,
                           const struct ps_progress_rows *rows, uint64_t timeout_ms,
                           struct ps_progress_reply *reply, struct psclient_error *error)
{
    /* A name and a few numbers always fit. */
    char room[128 + PS_CLOCKS_NAME_BYTES_MAX];
    const struct ps_progress_request request = {.name = name,
                                                .shard = client->etcd != NULL ? index + 1 : 0};
    struct ps_buffer message;
    struct taker taker = {rows, reply};
    struct ps_error why = {.status = PS_OK};
    if (name.size > PS_CLOCKS_NAME_BYTES_MAX)
        return ps_client_fail(error, PS_ERR_BAD_INPUT, "no clocks have so long a name");
    ps_buffer_init_fixed(&message, room, sizeof room);
    ps_encode_progress(&request, &message);
    struct ps_item item = {.shard = index,
                           .ask = {(const uint8_t *)message.text, message.size},
                           .answer = {take, &taker}};
    const struct ps_batch_request batch =
        ps_client_request(client, PS_METHOD_PROGRESS, &item, 1, timeout_ms);
    enum ps_status status = ps_client_run(client, &batch, &why);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    return ps_client_verdict(client, &item, 1, NULL, error);
}
