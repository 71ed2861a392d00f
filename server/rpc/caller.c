/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a peer string. Its forms are gRPC's: "ipv4:1.2.3.4:5", "ipv6:%5B::1%5D:5",
 * "unix:" for every client of a unix socket alike, "unix:PATH", "fd:N". */
#include "server/rpc/caller.h"

#include "base/assert.h"

#include <string.h>

static bool begins_with(const struct ps_caller *caller, const char *start);
static size_t host_size_of(const struct ps_caller *caller);

/* A string of an unknown form is a host of its own: then a share is bounded more loosely than
 * meant, and nobody is taken for somebody else. */
void ps_caller_init(struct ps_caller *caller, const char *peer)
{
    size_t size = peer != NULL ? strlen(peer) : 0;
    if (size > PS_CALLER_KEY_BYTES_MAX)
        size = PS_CALLER_KEY_BYTES_MAX;
    /* memcpy of nothing from NULL is not allowed. A key that was cut may be that of two
     * callers, which then share what one may have. */
    if (size > 0)
        memcpy(caller->connection, peer, size);
    caller->connection[size] = '\0';
    caller->connection_size = size;
    caller->host_size = host_size_of(caller);
    caller->is_shared = begins_with(caller, "unix:");
    caller->is_local = caller->is_shared || begins_with(caller, "ipv4:127.") ||
                       begins_with(caller, "ipv6:%5B::1%5D:") || begins_with(caller, "ipv6:[::1]:");
    PS_ASSERT(caller->host_size <= caller->connection_size);
}

/* An empty caller begins with nothing but the empty text. */
static bool begins_with(const struct ps_caller *caller, const char *start)
{
    return strncmp(caller->connection, start, strlen(start)) == 0;
}

/* Up to the last colon, where there is a port behind it. */
static size_t host_size_of(const struct ps_caller *caller)
{
    const char *colon = strrchr(caller->connection, ':');
    /* A path of a unix socket may have colons, and has no port. */
    bool has_port = begins_with(caller, "ipv4:") || begins_with(caller, "ipv6:");
    if (!has_port || colon == NULL || colon - caller->connection < (ptrdiff_t)strlen("ipv4:"))
        return caller->connection_size;
    return (size_t)(colon - caller->connection);
}

/* What is counted under the whole string ends with the calls of the connection: a port that is used
 * again later begins with nothing, and is nobody else's meanwhile. */
struct ps_bytes ps_caller_connection(const struct ps_caller *caller)
{
    return (struct ps_bytes){(const uint8_t *)caller->connection, caller->connection_size};
}

/* A prefix of the same text, so that a caller is copied as one piece. */
struct ps_bytes ps_caller_host(const struct ps_caller *caller)
{
    return (struct ps_bytes){(const uint8_t *)caller->connection, caller->host_size};
}

/* Every local client of a unix socket has the same string, and so the same share: such clients were
 * let in by their user. */
struct ps_bytes ps_caller_share(const struct ps_caller *caller)
{
    return caller->is_local ? ps_caller_connection(caller) : ps_caller_host(caller);
}
