/* SPDX-License-Identifier: Apache-2.0 */
/* The C library's functions through which the bytes of connections pass, replaced for this process.
 * An executable that exports them is preferred by the dynamic linker, also for libgrpc; the symbols
 * are exported because shared libraries refer to them, and ENABLE_EXPORTS makes sure.
 *
 * There is no other way in: gRPC 1.51 has no bound for streams of a peer that does not acknowledge
 * its settings, for resets, for the length of a header, or for connections, and no hook of its own.
 * It also stops listening for ever when accept4 fails with EMFILE (CVE-2023-4785). What stands here
 * depends on which calls libgrpc makes, so a server tries it at its start (front_self_test.c).
 *
 * System calls are made directly, because a call by name would lead back to these functions. Where
 * a sanitizer is built in, its own replacements are not called: it does not see these calls. */

/* Without GNU's names the C library's headers do not declare accept4 in their own way. */
#undef _GNU_SOURCE
#define _DEFAULT_SOURCE

#include "server/front/front_hooks.h"

#include "base/attributes.h"
#include "server/front/connections.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* MSG_ERRQUEUE and MSG_PEEK bring nothing that gRPC reads as bytes of the connection. */
enum { NO_RESERVE = -1, NOT_BYTES = MSG_ERRQUEUE | MSG_PEEK };

/* An atomic and not under a lock: gRPC accepts on any of its threads, and an accept4 that waits for
 * a lock would be a new way in which a listener can stop. */
static atomic_int reserve = NO_RESERVE;

PS_EXPORT int accept4(int listener, struct sockaddr *address, socklen_t *size, int flags);

static int accept_one(int listener, struct sockaddr_storage *peer, socklen_t *peer_size, int flags);
static void keep_reserve(void);
static bool drop_one(int listener);

/* The reserve is there before the first connection, and not first with it. */
void ps_front_hooks_prepare(void)
{
    keep_reserve();
}

/* Whoever is turned away is closed at once and the next one is accepted: peers that may stay must
 * not wait behind those that may not. */
PS_EXPORT int accept4(int listener, struct sockaddr *address, socklen_t *size, int flags)
{
    keep_reserve();
    for (;;) {
        struct sockaddr_storage peer = {0};
        socklen_t peer_size = sizeof peer;
        int accepted = accept_one(listener, &peer, &peer_size, flags);
        if (accepted < 0)
            return -1;
        if (!ps_connections_admit(accepted, listener, &peer)) {
            (void)syscall(SYS_close, accepted);
            continue;
        }
        if (address != NULL && size != NULL) {
            memcpy(address, &peer, *size < peer_size ? *size : peer_size);
            *size = peer_size;
        }
        return accepted;
    }
}

/* EMFILE is the limit of this process, ENFILE that of the machine. Any other failure is gRPC's to
 * judge, with the errno that it would have seen. */
static int accept_one(int listener, struct sockaddr_storage *peer, socklen_t *peer_size, int flags)
{
    for (;;) {
        int accepted = (int)syscall(SYS_accept4, listener, peer, peer_size, flags);
        if (accepted >= 0 || (errno != EMFILE && errno != ENFILE))
            return accepted;
        if (!drop_one(listener)) {
            /* EAGAIN is the one answer after which gRPC keeps the listener and waits for it
             * again. */
            errno = EAGAIN;
            return -1;
        }
        *peer_size = sizeof *peer;
    }
}

/* The descriptor's connection is forgotten before its number can be given to another. */
PS_EXPORT int close(int descriptor)
{
    ps_connections_leave(descriptor);
    return (int)syscall(SYS_close, descriptor);
}

/* What an ended connection still brings is not given to gRPC: the answer is 0, its end. */
PS_EXPORT ssize_t recvmsg(int descriptor, struct msghdr *message, int flags)
{
    ssize_t size = syscall(SYS_recvmsg, descriptor, message, flags);
    if (size <= 0 || (flags & NOT_BYTES) != 0)
        return size;
    /* Files, ends of clients and HTTP are not connections of gRPC: a look at a table, and on. */
    struct ps_connection *connection = ps_connections_find(descriptor);
    if (connection == NULL ||
        ps_connection_received(connection, message->msg_iov, message->msg_iovlen, (size_t)size))
        return size;
    return 0;
}

/* After the call, because only then is it known how much of the message went out. */
PS_EXPORT ssize_t sendmsg(int descriptor, const struct msghdr *message, int flags)
{
    ssize_t size = syscall(SYS_sendmsg, descriptor, message, flags);
    if (size <= 0)
        return size;
    struct ps_connection *connection = ps_connections_find(descriptor);
    if (connection != NULL)
        ps_connection_sent(connection, message->msg_iov, message->msg_iovlen, (size_t)size);
    return size;
}

/* Opens the reserve unless there is one, before the first failure: when a process has no descriptor
 * left, there is none for the reserve either. An errno of the caller stays as it is. */
static void keep_reserve(void)
{
    if (atomic_load(&reserve) != NO_RESERVE)
        return;
    int saved = errno;
    int opened = open("/dev/null", O_RDONLY | O_CLOEXEC);
    /* Two threads may open a reserve at once: the one that loses the exchange closes its own, or
     * each race would leak a descriptor in the very process that is short of them. */
    int expected = NO_RESERVE;
    if (opened >= 0 && !atomic_compare_exchange_strong(&reserve, &expected, opened))
        (void)syscall(SYS_close, opened);
    errno = saved;
}

/* Gives the reserve to one waiting connection, ends it, and takes the reserve back. The peer sees
 * an end at once instead of a connection that hangs in the backlog until its own timeout. False
 * when nothing waits, or when another thread is doing the same. */
static bool drop_one(int listener)
{
    /* Whoever takes the number out of the reserve is the only thread that may close it: a second
     * close of the same number would end whatever has been opened under it since. */
    int taken = atomic_exchange(&reserve, NO_RESERVE);
    if (taken == NO_RESERVE)
        return false;
    (void)syscall(SYS_close, taken);
    /* Another thread may take the freed descriptor before this call does. Then no connection is
     * dropped now, and accept4 above answers EAGAIN as if none had waited. */
    int peer = (int)syscall(SYS_accept4, listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (peer >= 0) {
        (void)syscall(SYS_close, peer);
        ps_connections_dropped();
    }
    keep_reserve();
    return peer >= 0;
}
