/* SPDX-License-Identifier: Apache-2.0 */
/* Under which client id and session a shard's requests go, and what becomes of their numbers. */
#include "client/engine/engine_session.h"

#include "base/assert.h"
#include "client/calls/method_table.h"
#include "client/engine/engine_state.h"

#include <stdio.h>
#include <string.h>

/* The name goes into journals, to terminals and into the words of errors. */
enum ps_status ps_client_name_check(const char *name, struct ps_error *error)
{
    size_t size = strlen(name);
    if (size == 0 || size > PS_CLIENT_NAME_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a client id of %zu bytes; 1 to %d go", size,
                       PS_CLIENT_NAME_BYTES_MAX);
    for (size_t i = 0; i < size; i++)
        if (name[i] <= ' ' || name[i] > '~')
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "a client id is of letters, digits and marks of ASCII, without spaces");
    return PS_OK;
}

/* The shard's number makes the ids of one client differ from server to server, as with random
 * ids. */
void ps_client_name_id(const char *name, uint32_t shard, struct ps_shard_client *client)
{
    char text[PS_CLIENT_ID_BYTES_MAX + 1];
    int size = snprintf(text, sizeof text, "@%s#%u", name, (unsigned)shard);
    PS_ASSERT(shard < PS_SHARDS_MAX);
    PS_ASSERT(size > 0 && (size_t)size <= sizeof client->id);
    memcpy(client->id, text, (size_t)size);
    client->size = (size_t)size;
}

/* Each shard gets a client id of its own. What an old route brings to the server of another shard
 * would otherwise have a number that this server may already have remembered for another
 * request. A random id was never used before, so its first session may be the lowest of all: the
 * clock of this machine is not asked, for a session ahead of the server's clock would be refused
 * until that clock has come so far. A server that has forgotten clients names a higher one. */
void ps_engine_init_session(struct ps_engine *engine, uint32_t index)
{
    struct ps_engine_shard *shard = &engine->shards[index];
    const struct ps_engine_options *options = &engine->options;
    PS_ASSERT(index < options->shard_count);
    bool is_chosen = options->client_name != NULL && options->session > 0;
    ps_numbering_init(&shard->numbering, is_chosen ? options->session : 1);
    if (options->client_name != NULL) {
        ps_client_name_id(options->client_name, index, &shard->client);
        return;
    }
    size_t size = sizeof options->client_id.bytes;
    memcpy(shard->client.id, options->client_id.bytes, size);
    shard->client.size = size;
    for (size_t i = 0; i < sizeof index; i++)
        shard->client.id[size - 1 - i] ^= (uint8_t)(index >> 8 * i);
}

/* Also for questions about the client, which must name it as its pushes do. */
struct ps_bytes ps_engine_client_of(const struct ps_engine *engine, uint32_t shard)
{
    PS_ASSERT(shard < engine->options.shard_count);
    const struct ps_shard_client *client = &engine->shards[shard].client;
    return (struct ps_bytes){client->id, client->size};
}

/* A number in use is of the session that has just ended: what became of its push nobody could say
 * any more. */
bool ps_engine_adopt_session(struct ps_engine *engine, uint32_t index, uint64_t session)
{
    struct ps_engine_shard *shard = &engine->shards[index];
    PS_ASSERT(session > 0);
    if (shard->numbering.oldest != shard->numbering.next)
        return false;
    ps_numbering_init(&shard->numbering, session);
    shard->confirmed = session;
    return true;
}

/* Only a client that has chosen its id can have a second process: of a random one the server has
 * forgotten the client. */
bool ps_engine_is_taken_over(const struct ps_engine *engine, struct ps_engine_call *call,
                             enum ps_status status)
{
    const struct ps_engine_shard *shard = &engine->shards[call->shard];
    const struct ps_request_id *id = ps_call_request_id(&call->request);
    return status == PS_ERR_STALE_SESSION && engine->options.client_name != NULL && id != NULL &&
           id->present && id->session == shard->confirmed;
}

/* From now on a server that calls the session stale has heard of a later one. */
void ps_engine_confirm_session(struct ps_engine *engine, struct ps_engine_call *call)
{
    const struct ps_request_id *id = ps_call_request_id(&call->request);
    if (id != NULL && id->present)
        engine->shards[call->shard].confirmed = id->session;
}

/* Room that was made is only noted: it is filled when the message of this call is complete, so
 * that calls which wait leave together. */
void ps_engine_give_number_back(struct ps_engine *engine, struct ps_engine_call *call)
{
    struct ps_request_id *id = ps_call_request_id(&call->request);
    if (id == NULL || !id->present)
        return;
    struct ps_engine_shard *shard = &engine->shards[call->shard];
    PS_ASSERT(id->session == shard->numbering.session);
    if (ps_numbering_give_back(&shard->numbering, id->sequence)) {
        shard->has_room = true;
        engine->room_was_made = true;
    }
    id->present = false;
}

/* The server will not apply the old number any more, or doing so once more does no harm. The doubt
 * was about the old number, so it ends with that number. */
void ps_engine_renumber(struct ps_engine *engine, struct ps_engine_call *call)
{
    ps_engine_give_number_back(engine, call);
    call->ambiguous = false;
}

/* Calls without a number do not belong to the session, so what a server says of it does not
 * concern them. */
void ps_engine_end_session(struct ps_engine *engine, struct ps_engine_call *call, uint64_t later)
{
    if (ps_call_request_id(&call->request) != NULL)
        ps_numbering_end_session(&engine->shards[call->shard].numbering, later);
}
