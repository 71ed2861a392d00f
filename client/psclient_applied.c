/* SPDX-License-Identifier: Apache-2.0 */
/* psclient_last_applied: what an earlier process of this client has done, server by server. */
#include "client/psclient_applied.h"

#include "client/client_state.h"
#include "client/engine/engine_session.h"
#include "client/status_map.h"

#include <string.h>

static int ask_page(struct psclient *client, uint32_t index,
                    const struct ps_applied_request *request, uint64_t timeout_ms,
                    struct ps_applied_reply *reply, struct ps_applied_rows *rows,
                    struct psclient_error *error);
static int ask_own(struct psclient *client, uint32_t index, uint64_t timeout_ms,
                   struct psclient_last_applied *applied, struct ps_applied_rows *rows,
                   struct psclient_error *error);
static int hand_out(struct ps_applied_rows *rows, struct psclient_last_applied *applied,
                    struct psclient_error *error);

/* The answers of all servers, or none: a trainer that knew half of them would push the other half
 * once more. */
PS_EXPORT int psclient_last_applied(struct psclient *client, uint64_t timeout_ms,
                                    struct psclient_last_applied *out, struct psclient_error *error)
{
    uint64_t deadline_ms = ps_deadline_after(client->clock, timeout_ms);
    /* Of the client's own memory, which tests refuse and count. */
    struct ps_applied_rows rows = {.memory = client->memory};
    struct psclient_last_applied applied = {.whole = 1};
    /* Nothing is asked under a random id: the answer would be empty, and look like a fresh
     * start. */
    if (client->client_id == NULL)
        return ps_client_fail(error, PS_ERR_BAD_INPUT,
                              "this client was opened without a client_id: nobody was it before");
    int status = PSCLIENT_OK;
    for (uint32_t i = 0; i < client->shard_count && status == PSCLIENT_OK; i++)
        status =
            ask_own(client, i, ps_time_left_ms(client->clock, deadline_ms), &applied, &rows, error);
    /* Also after a failure: the rows are released in either case. */
    ps_applied_rows_join(&rows);
    if (status == PSCLIENT_OK)
        status = hand_out(&rows, &applied, error);
    ps_applied_rows_fini(&rows);
    if (status == PSCLIENT_OK)
        *out = applied;
    return status;
}

/* Of the C library's heap: the caller may give it back after the client is closed. */
static int hand_out(struct ps_applied_rows *rows, struct psclient_last_applied *applied,
                    struct psclient_error *error)
{
    /* Rows without what joining them needed: the public struct has a size for good. */
    applied->count = rows->count;
    applied->rows = ps_zeroed_array(ps_allocator_heap(), rows->count, sizeof applied->rows[0]);
    if (applied->rows == NULL)
        return ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for what was applied");
    for (size_t i = 0; i < rows->count; i++)
        applied->rows[i] = rows->parts[i].row;
    return ps_client_succeed(error);
}

/* Accepts a zeroed struct, and one that was released already. */
PS_EXPORT void psclient_last_applied_release(struct psclient_last_applied *applied)
{
    ps_release(ps_allocator_heap(), applied->rows);
    *applied = (struct psclient_last_applied){.count = 0};
}

/* The session that the server has begun is the one to go on with, whatever the clock here says. */
static int ask_own(struct psclient *client, uint32_t index, uint64_t timeout_ms,
                   struct psclient_last_applied *applied, struct ps_applied_rows *rows,
                   struct psclient_error *error)
{
    struct ps_applied_reply head;
    /* The id does not change while the client is open, so that no lock is needed to read it. */
    struct ps_bytes id = ps_engine_client_of(client->engine, index);
    int status = ps_client_ask_applied(client, index, id, true, timeout_ms, &head, rows, error);
    if (status != PSCLIENT_OK)
        return status;
    /* The engine belongs to whoever has the mutex, pushes of other threads included. */
    ps_mutex_lock(&client->mutex);
    bool is_adopted = ps_engine_adopt_session(client->engine, index, head.begun);
    ps_mutex_unlock(&client->mutex);
    if (!is_adopted)
        return ps_client_fail(error, PS_ERR_INTERNAL,
                              "pushes of this client are under way: ask before the first of them");
    /* Known to one server is known; whole is only what all servers call whole. */
    applied->known |= head.is_known;
    applied->whole &= head.is_whole;
    return PSCLIENT_OK;
}

/* Only the first page ends the session: what follows reads on in what cannot change any more. */
int ps_client_ask_applied(struct psclient *client, uint32_t index, struct ps_bytes client_id,
                          bool begins, uint64_t timeout_ms, struct ps_applied_reply *head,
                          struct ps_applied_rows *rows, struct psclient_error *error)
{
    uint64_t deadline_ms = ps_deadline_after(client->clock, timeout_ms);
    /* Servers of a list may each be a job of their own, with another index there. */
    struct ps_applied_request request = {.id = {.client_id = client_id},
                                         .begins = begins,
                                         .shard = client->etcd != NULL ? index + 1 : 0};
    int status = ask_page(client, index, &request, timeout_ms, head, rows, error);
    bool more = status == PSCLIENT_OK && head->more;
    while (status == PSCLIENT_OK && more) {
        /* Copied: the row lies in memory that the next page may move. */
        char after[PS_NAME_BYTES_MAX + 1];
        struct ps_applied_reply page;
        size_t before = rows->count;
        memcpy(after, rows->parts[rows->count - 1].row.name, sizeof after);
        /* From the last name on; a page without a name was the last. */
        request.begins = false;
        request.after = ps_bytes_of_text(after);
        status = ask_page(client, index, &request, ps_time_left_ms(client->clock, deadline_ms),
                          &page, rows, error);
        /* A server that says "more" and sends nothing would be asked for ever. */
        more = status == PSCLIENT_OK && page.more && rows->count > before;
    }
    return status;
}

/* Where an answer goes while the engine has it. */
struct page_taker {
    struct ps_applied_reply *reply;
    struct ps_applied_rows *rows;
};

/* In the engine's turn, while the bytes of the answer are there. */
static enum ps_status take_page(void *self, const struct ps_call_reply *reply,
                                struct ps_error *error)
{
    /* Rows of a page that is malformed further on stay: the call fails, and nobody sees them. */
    struct page_taker *taker = self;
    PS_TRY(ps_decode_applied_reply(reply->ask, ps_applied_rows_take, taker->rows, taker->reply,
                                   error));
    taker->reply->more = taker->reply->more && taker->reply->row_count > 0;
    return PS_OK;
}

/* A call like an operator's, repeated by the engine until it is answered. A repeat whose first
 * attempt was served ends the session that this one began: nothing was sent under it yet. */
static int ask_page(struct psclient *client, uint32_t index,
                    const struct ps_applied_request *request, uint64_t timeout_ms,
                    struct ps_applied_reply *reply, struct ps_applied_rows *rows,
                    struct psclient_error *error)
{
    /* A name, an id and three numbers always fit. */
    char room[1024];
    struct ps_buffer message;
    struct page_taker taker = {reply, rows};
    struct ps_error why = {.status = PS_OK};
    ps_buffer_init_fixed(&message, room, sizeof room);
    ps_encode_applied(request, &message);
    struct ps_item item = {.shard = index,
                           .ask = {(const uint8_t *)message.text, message.size},
                           .answer = {take_page, &taker}};
    const struct ps_batch_request batch =
        ps_client_request(client, PS_METHOD_APPLIED, &item, 1, timeout_ms);
    enum ps_status status = ps_client_run(client, &batch, &why);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    return ps_client_verdict(client, &item, 1, NULL, error);
}
