/* Calls through a unix socket to a server that is on this host. The first calls over TCP ask for
 * the socket's name; it is random and abstract: who can connect to it is in the server's network
 * namespace, and has reached that very server. Only calls that may be repeated go there, since a
 * socket that has broken is found out by the call that breaks on it. The TCP connection stays: it
 * says whether the server is alive, and takes over when this way ends.
 *
 *   no way, asks ──the name, and a socket──► way ──a call broke, or TCP was lost──► no way, asks
 *       └──no name, no such socket, or broken again and again──► no way */
#include "client/channel_grpc.h"

#include "base/assert.h"
#include "base/local_socket.h"
#include "client/retry.h"

#include <grpc/grpc_posix.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

/* So often in a row a way may break without having brought one answer. */
enum { BREAKS_MAX = 3 };

static struct ps_near *open_way(struct ps_grpc_side *side, struct ps_bytes name);
static void drop_reference(struct ps_near *near);

void ps_near_answered(struct ps_grpc_side *side, struct ps_connection *connection,
                      struct ps_bytes name)
{
    /* Another call may have brought the answer before. */
    if (!connection->asks_near || connection->detached || side->stopping)
        return;
    connection->asks_near = false;
    if (name.size > 0 && name.size <= PS_LOCAL_NAME_BYTES_MAX)
        connection->near = open_way(side, name);
}

/* NULL: nobody listens there, as on another machine, or there is no memory. */
static struct ps_near *open_way(struct ps_grpc_side *side, struct ps_bytes name)
{
    grpc_arg list[PS_CHANNEL_ARGS_MAX];
    const grpc_channel_args args = ps_channel_args(list, true);
    int connected;
    if (ps_local_stream_connect(name, &connected, NULL) != PS_OK)
        return NULL;
    int second = fcntl(connected, F_DUPFD_CLOEXEC, 0);
    struct ps_near *near = second >= 0 ? ps_zeroed(side->memory, sizeof *near) : NULL;
    if (near == NULL) {
        (void)close(connected);
        if (second >= 0)
            (void)close(second);
        return NULL;
    }
    near->memory = side->memory;
    near->descriptor = second;
    near->references = 1;
    near->channel =
        grpc_channel_create_from_fd("near", connected, side->credentials, &args); /* takes it */
    for (enum ps_method i = 0; i < PS_METHOD_COUNT; i++)
        near->methods[i] = grpc_channel_register_call(near->channel, ps_method_path(i), NULL, NULL);
    return near;
}

static void drop_reference(struct ps_near *near)
{
    PS_ASSERT(near->references > 0);
    if (--near->references > 0)
        return;
    grpc_channel_destroy(near->channel);
    (void)close(near->descriptor);
    ps_release(near->memory, near);
}

bool ps_near_takes(struct ps_flight *flight)
{
    struct ps_near *near = flight->connection->near;
    if (near == NULL ||
        !(ps_method_is_reading(flight->method) || ps_method_is_numbered(flight->method)))
        return false;
    near->references++;
    flight->near = near;
    atomic_fetch_add(&flight->side->near_calls, 1);
    return true;
}

static void note_break(struct ps_connection *connection)
{
    ps_near_lost(connection, true);
    connection->near_breaks++;
    connection->asks_near = connection->near_breaks < BREAKS_MAX;
}

void ps_near_ended(struct ps_flight *flight)
{
    struct ps_near *near = flight->near;
    struct ps_connection *connection = flight->connection;
    if (near == NULL)
        return;
    flight->near = NULL;
    if (connection->near == near) {
        if (flight->answered)
            connection->near_breaks = 0;
        else if (flight->code == GRPC_STATUS_UNAVAILABLE)
            note_break(connection);
    }
    drop_reference(near);
}

void ps_near_lost(struct ps_connection *connection, bool at_once)
{
    struct ps_near *near = connection->near;
    if (near == NULL)
        return;
    if (at_once)
        (void)shutdown(near->descriptor, SHUT_RDWR);
    connection->near = NULL;
    drop_reference(near);
}

void ps_near_begin_anew(struct ps_grpc_side *side, struct ps_connection *connection)
{
    ps_near_lost(connection, false);
    connection->near_breaks = 0;
    connection->asks_near = side->nears;
}

/* gRPC lets go of content when it is written or the socket has ended, whatever becomes of the call:
 * a server that reads no more would keep the caller's memory. */
void ps_near_break(struct ps_flight *flight)
{
    if (flight->near != NULL && atomic_load(&flight->pins) > 1)
        (void)shutdown(flight->near->descriptor, SHUT_RDWR);
}
