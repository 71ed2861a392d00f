/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to servers: made, replaced, watched, ended. */
#include "client/channel/channel_grpc.h"

#include "base/assert.h"
#include "client/calls/method_table.h"
#include "client/calls/thresholds.h"

#include <grpc/grpc_security.h>
#include <grpc/support/time.h>

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

/* A state watch is renewed after this long. gRPC has no call that ends a watch, and a connection
 * whose watch is under way cannot be given back, so a watch is short. */
#define WATCH_MS 1000

/* Everything that gRPC would decide by itself is switched off: retries, proxies, compression,
 * shared connections. What is left on are the pings that find a server which does not answer. */
static grpc_channel *open_channel(const char *address, grpc_channel_credentials *credentials,
                                  const char *server_name)
{
    grpc_arg list[] = {
        {.key = GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, .value.integer = INT_MAX},
        /* Deadlines are the engine's, sizes are what we asked for, nothing is compressed: no filter
         * is needed for them. */
        {.key = GRPC_ARG_MINIMAL_STACK, .value.integer = 1},
        {.key = GRPC_ARG_ENABLE_RETRIES, .value.integer = 0},
        {.key = GRPC_ARG_ENABLE_CHANNELZ, .value.integer = 0},
        {.key = GRPC_ARG_ENABLE_HTTP_PROXY, .value.integer = 0},
        {.key = GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, .value.integer = 1},
        /* A new connection is a new one, also to the same address. */
        {.key = GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, .value.integer = 1},
        /* Finds servers that are frozen or cut off. The timeout is also the socket's
         * TCP_USER_TIMEOUT: when a server stops reading in the middle of a push, that is what
         * makes gRPC let go of the caller's memory. A unix socket has none: unix_break.h. */
        {.key = GRPC_ARG_KEEPALIVE_TIME_MS, .value.integer = 2000},
        {.key = GRPC_ARG_KEEPALIVE_TIMEOUT_MS, .value.integer = 1500},
        {.key = GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, .value.integer = 1},
        {.key = GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, .value.integer = 0},
        /* A server that comes back is found within about a second. Pauses that grow, as gRPC's own
         * do up to minutes, may outlast the deadlines of the calls that wait. */
        {.key = GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, .value.integer = 100},
        {.key = GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, .value.integer = 1000},
        {.key = GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, .value.integer = 1000},
        {.key = GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, .value.integer = 1000},
        /* Last, and counted only if there is one. */
        {.key = GRPC_SSL_TARGET_NAME_OVERRIDE_ARG},
    };
    size_t count = PS_ARRAY_COUNT(list) - 1;
    for (size_t i = 0; i < count; i++)
        list[i].type = GRPC_ARG_INTEGER;
    if (server_name != NULL) {
        list[count].type = GRPC_ARG_STRING;
        list[count++].value.string = (char *)(uintptr_t)server_name; /* gRPC copies it */
    }
    const grpc_channel_args args = {count, list};
    grpc_channel *channel = grpc_channel_create(address, credentials, &args);
    /* The channel has its own reference. */
    grpc_channel_credentials_release(credentials);
    return channel;
}

/* "Bearer TOKEN", as each call gets it. Only where nobody else reads it: over TLS, or to a server
 * of this host. Elsewhere the server says that it misses a token. */
static void give_token(struct ps_connection *connection, const char *token)
{
    static const char scheme[] = "Bearer ";
    PS_ASSERT(!connection->has_token);
    if (token == NULL || !(connection->is_secure || ps_address_is_local(connection->address)))
        return;
    size_t size = strlen(token);
    connection->has_token = true;
    connection->authorization = grpc_slice_malloc(sizeof scheme - 1 + size);
    uint8_t *bytes = GRPC_SLICE_START_PTR(connection->authorization);
    memcpy(bytes, scheme, sizeof scheme - 1);
    memcpy(bytes + sizeof scheme - 1, token, size);
}

/* The stamps are older than what is read, so that a file which changes in between is read again. */
static enum ps_status make_channel(struct ps_grpc_side *side, struct ps_connection *connection)
{
    struct ps_channel_secrets secrets;
    ps_channel_files_look(&side->files, &connection->stamps);
    connection->seen = connection->stamps;
    enum ps_status status = ps_channel_files_read(&side->files, side->memory, &secrets, NULL);
    if (status == PS_OK) {
        char **texts = secrets.texts;
        connection->is_secure = texts[PS_FILE_CA] != NULL && !connection->is_unix;
        grpc_ssl_pem_key_cert_pair pair = {texts[PS_FILE_KEY], texts[PS_FILE_CERTIFICATE]};
        connection->channel = open_channel(
            connection->address,
            connection->is_secure
                ? grpc_ssl_credentials_create(texts[PS_FILE_CA],
                                              pair.private_key != NULL ? &pair : NULL, NULL, NULL)
                : grpc_insecure_credentials_create(),
            connection->is_secure ? side->files.server_name : NULL);
        give_token(connection, texts[PS_FILE_TOKEN]);
    }
    ps_channel_secrets_release(&secrets, side->memory);
    return status;
}

static void give_back(struct ps_grpc_side *side, struct ps_connection *connection)
{
    ps_device_links_destroy(connection->devices);
    ps_shared_link_destroy(connection->shared);
    if (connection->has_token)
        grpc_slice_unref(connection->authorization);
    ps_release(side->memory, connection);
}

void ps_connection_discard(struct ps_grpc_side *side, struct ps_connection *connection)
{
    if (connection == NULL)
        return;
    ps_connection_retire(connection);
    give_back(side, connection);
}

/* Memory is shared only where TLS was not asked for: TLS says who the server is, and shared memory
 * would go past that. Methods are registered once, so that no call has to look up its path. */
struct ps_connection *ps_connection_create(struct ps_grpc_side *side, uint32_t shard,
                                           const char *address)
{
    struct ps_connection *connection = ps_zeroed(side->memory, sizeof *connection);
    if (connection == NULL)
        return NULL;
    connection->kind = PS_TAG_CONNECTION;
    connection->shard = shard;
    /* A copy: the routing table that the address comes from is replaced while the connection lives,
     * and the unix socket of this address may have to be broken at any time. */
    snprintf(connection->address, sizeof connection->address, "%s", address);
    connection->is_unix = strncmp(address, "unix:", strlen("unix:")) == 0;
    bool made = make_channel(side, connection) == PS_OK;
    if (made && side->shares && !connection->is_secure) {
        connection->shared = ps_shared_link_create(side->memory);
        if (connection->shared != NULL)
            connection->devices = ps_device_links_create(side->memory, connection->shared);
        made = connection->devices != NULL;
    }
    if (!made) {
        ps_connection_discard(side, connection);
        return NULL;
    }
    for (enum ps_method i = 0; i < PS_METHOD_COUNT; i++)
        connection->methods[i] =
            grpc_channel_register_call(connection->channel, ps_method_path(i), NULL, NULL);
    return connection;
}

/* Files that change are written one after the other: only when two looks, which are a watch apart,
 * find the same is the new set taken. One that cannot be read, or is not what it should be, leaves
 * the connection as it is. */
struct ps_connection *ps_connection_renewed(struct ps_grpc_side *side,
                                            struct ps_connection *connection)
{
    bool any = false;
    for (enum ps_channel_file kind = 0; kind < PS_FILE_KINDS; kind++)
        any = any || side->files.paths[kind] != NULL;
    if (!any)
        return NULL;
    PS_ASSERT(connection->watching);
    struct ps_channel_stamps now;
    ps_channel_files_look(&side->files, &now);
    bool steady = ps_channel_stamps_equal(&now, &connection->seen);
    connection->seen = now;
    if (!steady || ps_channel_stamps_equal(&now, &connection->stamps))
        return NULL;
    return ps_connection_create(side, connection->shard, connection->address);
}

/* At the head: order does not matter, and the newest is looked for most. */
void ps_connection_add(struct ps_connection *connection, struct ps_flight *flight)
{
    flight->connection = connection;
    DL_PREPEND(connection->flights, flight);
}

/* A flight that was refused for want of a connection is in no list. */
void ps_connection_remove(struct ps_flight *flight)
{
    if (flight->connection == NULL)
        return;
    DL_DELETE(flight->connection->flights, flight);
    flight->connection = NULL;
}

/* Not more than what the server has said it takes, less what is not content; a server that has not
 * said it takes what no client cuts. */
size_t ps_connection_content_bytes_max(const struct ps_connection *connection)
{
    uint64_t told = ps_shared_link_content_bytes_max(connection->shared);
    size_t max = told < PS_AS_ONE_BYTES_MAX ? (size_t)told : PS_AS_ONE_BYTES_MAX;
    max = max > PS_MESSAGE_SLACK_BYTES ? max - PS_MESSAGE_SLACK_BYTES : 0;
    /* Content up to that size has no other way than in one message, so it is always let through. */
    return max > PS_RANGES_ABOVE_BYTES ? max : PS_RANGES_ABOVE_BYTES;
}

/* Repeating a call that is neither read nor numbered could do something twice. */
static bool is_repeatable(enum ps_method method)
{
    return ps_method_row(method)->reads || ps_method_row(method)->numbered;
}

static void give_up_call(struct ps_flight *flight)
{
    ps_flight_end_call(flight, GRPC_STATUS_UNAVAILABLE, "the connection was given up");
}

/* Moves from an old connection to a new one. What the new server would know again by its request
 * id, or what changes nothing, is asked again there; a call that is neither is left to end by
 * itself while its connection works. */
static void leave(struct ps_connection *old, struct ps_connection *connection)
{
    bool works = grpc_channel_check_connectivity_state(old->channel, 0) == GRPC_CHANNEL_READY;
    struct ps_flight *flight, *next;
    /* A flight that moves leaves this list, so the next flight is noted beforehand. */
    DL_FOREACH_SAFE(old->flights, flight, next) {
        if (flight->state == PS_FLIGHT_WAITING) {
            ps_connection_remove(flight);
            ps_connection_add(connection, flight);
        } else if (!works || is_repeatable(flight->method)) {
            give_up_call(flight);
        }
    }
}

/* Older connections of the shard that are still there leave, too: flights may have stayed behind
 * at an earlier move. */
void ps_connection_replace(struct ps_grpc_side *side, uint32_t shard,
                           struct ps_connection *connection)
{
    struct ps_connection *old = side->routes[shard];
    if (old != NULL)
        old->detached = true;
    /* New calls go the new way from here on. */
    side->routes[shard] = connection;
    /* Without a successor the calls stay: those that run may still be answered, and those that wait
     * go to the next server of the shard. */
    if (connection == NULL)
        return;
    for (struct ps_connection *it = side->connections; it != NULL; it = it->next) {
        if (it->shard == shard && it->channel != NULL)
            leave(it, connection);
    }
    /* The list has every connection that a flight may still be on. */
    LL_PREPEND(side->connections, connection);
    /* The flights have moved before the watch is asked for, so that its event finds them. */
    ps_connection_watch(side, connection,
                        grpc_channel_check_connectivity_state(connection->channel, 1));
}

/* gRPC's channel lives on until its calls have ended; they come back through the queue. */
void ps_connection_retire(struct ps_connection *connection)
{
    /* Whoever still looks at it sees that it is nobody's way any more. */
    connection->detached = true;
    for (struct ps_flight *flight = connection->flights; flight != NULL; flight = flight->next)
        give_up_call(flight);
    if (connection->reason.call != NULL)
        (void)grpc_call_cancel(connection->reason.call, NULL);
    if (connection->channel != NULL)
        grpc_channel_destroy(connection->channel);
    connection->channel = NULL;
}

/* A connection goes when nobody can meet it: no flight, no watch, not the shard's. */
void ps_connection_reap(struct ps_grpc_side *side)
{
    struct ps_connection *it, *next;
    LL_FOREACH_SAFE(side->connections, it, next) {
        /* A watch's tag is the connection, and a flight's end reads it: memory given back before
         * either has come would be read by the thread in the queue. */
        if (!it->detached || it->flights != NULL || it->watching || it->reason.call != NULL)
            continue;
        LL_DELETE(side->connections, it);
        ps_connection_retire(it);
        give_back(side, it);
    }
}

/* A time without end, as a signed number, would be negative: a moment that has passed. */
gpr_timespec ps_grpc_after_ms(uint64_t time_ms)
{
    int64_t bounded_ms = time_ms > INT_MAX ? INT_MAX : (int64_t)time_ms;
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                        gpr_time_from_millis(bounded_ms, GPR_TIMESPAN));
}

/* One watch at a time: the tag is the connection, so the ends of two could not be told apart. None
 * once the channel stops, or the queue would never be empty. */
void ps_connection_watch(struct ps_grpc_side *side, struct ps_connection *connection,
                         grpc_connectivity_state state)
{
    if (connection->watching || connection->channel == NULL || side->stopping)
        return;
    connection->watching = true;
    connection->watched = state;
    PS_TAG_GIVE(connection);
    grpc_channel_watch_connectivity_state(connection->channel, state, ps_grpc_after_ms(WATCH_MS),
                                          side->queue, connection);
}
