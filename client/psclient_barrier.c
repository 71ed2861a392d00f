/* SPDX-License-Identifier: Apache-2.0 */
/* psclient_barrier: one flat message, to the server that the name stands for. */
#include "client/psclient.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/random.h"
#include "client/ask.h"
#include "proto/wire.h"

/* The server gives up first, and its text says who is missing. */
enum { MARGIN_MS = 2000 };

/* The same in every repeat that the engine sends, and another one in every call. */
static uint64_t new_token(void)
{
    uint64_t token = 0;
    while (token == 0)
        ps_random_system(&token, sizeof token);
    return token;
}

/* Field numbers of BarrierRequest. The bound of the buffer is above the longest name that a server
 * accepts: a longer one is refused there, in words. */
static void write_request(struct ps_buffer *message, const char *name, uint64_t round,
                          uint32_t member, uint32_t of, uint64_t wait_ms)
{
    ps_wire_put_text(message, 1, name);
    ps_wire_put_uint(message, 2, round);
    ps_wire_put_uint(message, 3, member);
    ps_wire_put_uint(message, 4, of);
    ps_wire_put_uint(message, 5, wait_ms);
    ps_wire_put_uint(message, 6, new_token());
}

/* All members have to come to one server, whatever each of them believes of the others: the number
 * of shards is the job's. */
PS_EXPORT int psclient_barrier(struct psclient *client, const char *name, uint64_t round,
                               uint32_t member, uint32_t of, uint64_t timeout_ms,
                               struct psclient_error *error)
{
    struct ps_buffer message;
    uint32_t shards = psclient_shard_count(client);
    uint32_t shard = shards > 0 ? ps_hash_fnv1a32(ps_bytes_of_text(name)) % shards : 0;
    /* 0 would be the server's word for the call's own deadline. */
    uint64_t wait_ms = timeout_ms > 0 ? timeout_ms : 1;
    ps_buffer_init(&message, ps_allocator_heap(), 1024);
    write_request(&message, name, round, member, of, wait_ms);
    int status =
        ps_client_ask(client, shard, PS_METHOD_BARRIER, &message, NULL, wait_ms + MARGIN_MS, error);
    ps_buffer_fini(&message);
    return status;
}
