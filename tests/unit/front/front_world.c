/* SPDX-License-Identifier: Apache-2.0 */
/* Connections over loopback: the replaced functions are called on descriptors of sockets. */
#include "front_world.h"

#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static void on_refused(void *self, enum ps_front_reason reason, const char *peer)
{
    struct front_world *world = self;
    world->refused[reason]++;
    (void)snprintf(world->last_peer, sizeof world->last_peer, "%s", peer);
}

void front_world_begin(struct front_world *world, const struct ps_front_options *options)
{
    struct ps_front_options wish = *options;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    *world = (struct front_world){.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)};
    ck_assert_int_eq(bind(world->listener, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(world->listener, 100), 0);
    wish.refused = on_refused;
    wish.self = world;
    ps_front_open(&wish);
}

void front_world_end(struct front_world *world)
{
    ps_front_close(world);
    (void)close(world->listener);
}

struct front_pair front_connect(struct front_world *world)
{
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    struct front_pair pair = {.peer = socket(AF_INET, SOCK_STREAM, 0)};
    ck_assert_int_eq(getsockname(world->listener, (struct sockaddr *)&address, &size), 0);
    ck_assert_int_eq(connect(pair.peer, (struct sockaddr *)&address, sizeof address), 0);
    struct sockaddr_storage name;
    size = sizeof name;
    pair.server = accept4(world->listener, (struct sockaddr *)&name, &size, SOCK_CLOEXEC);
    /* The refused one is closed, and the next is looked for: there is none. */
    ck_assert(pair.server >= 0 || errno == EAGAIN);
    ck_assert(pair.server < 0 || name.ss_family == AF_INET);
    return pair;
}

void front_pair_close(struct front_pair *pair)
{
    (void)close(pair->peer);
    if (pair->server >= 0)
        (void)close(pair->server);
    pair->server = -1;
}

/* Through recvmsg, as gRPC reads: in two pieces, of which the first is small. */
static ssize_t read_some(int descriptor)
{
    static char first[7], second[70000];
    struct iovec pieces[2] = {{first, sizeof first}, {second, sizeof second}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    return recvmsg(descriptor, &message, 0);
}

bool front_pair_receives(struct front_pair *pair, const struct frames *frames)
{
    for (size_t sent = 0; sent < frames->size;) {
        size_t part = frames->size - sent < 50000 ? frames->size - sent : 50000;
        ck_assert_int_eq(send(pair->peer, frames->bytes + sent, part, MSG_NOSIGNAL), (ssize_t)part);
        for (size_t read = 0; read < part;) {
            ssize_t got = read_some(pair->server);
            if (got <= 0)
                return false;
            read += (size_t)got;
        }
        sent += part;
    }
    return true;
}

void front_pair_sends(struct front_pair *pair, const struct frames *frames)
{
    struct iovec piece = {(void *)(uintptr_t)frames->bytes, frames->size};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    ck_assert_int_eq(sendmsg(pair->server, &message, MSG_NOSIGNAL), (ssize_t)frames->size);
}

bool front_pair_has_ended(struct front_pair *pair)
{
    struct pollfd wait = {.fd = pair->peer, .events = POLLRDHUP};
    return poll(&wait, 1, 0) == 1;
}
