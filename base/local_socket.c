/* SPDX-License-Identifier: Apache-2.0 */
/* Unix sockets of the kind SOCK_SEQPACKET, and descriptors in their messages (SCM_RIGHTS, unix(7)).
 *
 * SEQPACKET keeps the borders of messages, so the protocol above needs no lengths and a reader no
 * state. Abstract names leave nothing behind in a file system when a process is killed, and nobody
 * has to agree on a folder; whoever may connect is judged by the peer's credentials instead of by
 * the permissions of a file. */
#include "base/local_socket.h"

#include "base/assert.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Connections that wait to be accepted. */
#define BACKLOG 256

struct address {
    struct sockaddr_un name;
    socklen_t size;
};

/* Aligned as the kernel wants it. Room for one descriptor, and by that alignment for two on
 * machines with 64 bits; a sender of more than fit sets MSG_CTRUNC, which receive refuses. */
union control {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static struct address address_of(struct ps_bytes name);
static enum ps_status open_socket(int *made, struct ps_error *error);
static void take_descriptors(struct msghdr *head, int *passed, size_t *count);

/* The status says what the caller does next, errno's words are for people. */
static enum ps_status fail(struct ps_error *error, enum ps_status status, const char *what)
{
    return ps_fail(error, status, "local socket: %s: %s", what, strerror(errno));
}

enum ps_status ps_local_socket_listen(struct ps_bytes name, int *listener, struct ps_error *error)
{
    struct address address = address_of(name);
    int made;
    PS_TRY(open_socket(&made, error));
    if (bind(made, (const struct sockaddr *)&address.name, address.size) == 0 &&
        listen(made, BACKLOG) == 0) {
        *listener = made;
        return PS_OK;
    }
    /* fail() reads errno, so it runs before close() can change it. */
    enum ps_status status = fail(error, errno == EADDRINUSE ? PS_ERR_EXISTS : PS_ERR_IO, "listen");
    (void)close(made);
    return status;
}

/* A first byte of zero makes the name abstract. The size counts exactly the bytes of the name: an
 * abstract name is not terminated, and a NUL behind it would belong to it. */
static struct address address_of(struct ps_bytes name)
{
    PS_ASSERT(name.size > 0 && name.size <= PS_LOCAL_NAME_BYTES_MAX);
    struct address address = {.name.sun_family = AF_UNIX};
    memcpy(address.name.sun_path + 1, name.data, name.size);
    address.size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + name.size);
    return address;
}

static enum ps_status open_socket(int *made, struct ps_error *error)
{
    *made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return *made >= 0 ? PS_OK : fail(error, PS_ERR_IO, "open");
}

enum ps_status ps_local_socket_accept(int listener, int *peer, struct ps_error *error)
{
    int accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (accepted >= 0) {
        *peer = accepted;
        return PS_OK;
    }
    /* ECONNABORTED: a peer that hung up while it waited. The next one in the queue is not
     * affected. */
    bool nobody = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
    return fail(error, nobody ? PS_ERR_NOT_READY : PS_ERR_IO, "accept");
}

enum ps_status ps_local_socket_connect(struct ps_bytes name, int *peer, struct ps_error *error)
{
    int made;
    PS_TRY(open_socket(&made, error));
    struct address address = address_of(name);
    if (connect(made, (const struct sockaddr *)&address.name, address.size) == 0) {
        *peer = made;
        return PS_OK;
    }
    /* EAGAIN: the backlog is full. A unix socket does not queue further; the caller tries again
     * later or goes without shared memory. */
    bool nobody = errno == ECONNREFUSED || errno == EAGAIN;
    enum ps_status status = fail(error, nobody ? PS_ERR_UNAVAILABLE : PS_ERR_IO, "connect");
    (void)close(made);
    return status;
}

/* One sendmsg carries the message and the descriptor, so neither arrives without the other. The
 * kernel duplicates the descriptor: the sender may close its own at once. MSG_NOSIGNAL, since a
 * peer that has gone must not end this process with SIGPIPE. A SEQPACKET message goes whole or not
 * at all; any other count is a failure. */
enum ps_status ps_local_socket_send(int peer, struct ps_bytes message, int passed,
                                    struct ps_error *error)
{
    PS_ASSERT(message.size > 0);
    union control control = {.bytes = {0}};
    struct iovec run = {(void *)(uintptr_t)message.data, message.size};
    struct msghdr head = {.msg_iov = &run, .msg_iovlen = 1};
    if (passed != PS_NO_DESCRIPTOR) {
        head.msg_control = control.bytes;
        head.msg_controllen = CMSG_SPACE(sizeof passed);
        struct cmsghdr *entry = CMSG_FIRSTHDR(&head);
        *entry = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof passed)};
        memcpy(CMSG_DATA(entry), &passed, sizeof passed);
    }
    if (sendmsg(peer, &head, MSG_NOSIGNAL) == (ssize_t)message.size)
        return PS_OK;
    return fail(error, PS_ERR_UNAVAILABLE, "send");
}

/* Whatever the message is, descriptors in it are open in this process from recvmsg on. They are
 * therefore collected before anything is judged, and closed on every way out that does not hand
 * them over: a peer that sends bad messages in a loop would otherwise use up this process's
 * descriptors. */
enum ps_status ps_local_socket_receive(int peer, uint8_t *message, size_t size_max, size_t *size,
                                       int *passed, struct ps_error *error)
{
    union control control;
    struct iovec run = {message, size_max};
    struct msghdr head = {.msg_iov = &run,
                          .msg_iovlen = 1,
                          .msg_control = control.bytes,
                          .msg_controllen = sizeof control.bytes};
    ssize_t got = recvmsg(peer, &head, MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return ps_fail(error, PS_ERR_NOT_READY, "local socket: nothing has come");
    if (got < 0)
        return fail(error, PS_ERR_UNAVAILABLE, "receive");

    size_t count = 0;
    int first = PS_NO_DESCRIPTOR;
    take_descriptors(&head, &first, &count);
    /* A message that did not fit was cut by the kernel, and its rest is gone: what is left cannot
     * be trusted to mean what was sent. */
    bool whole = (head.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0 && count <= 1;
    if (whole && got > 0) {
        *size = (size_t)got;
        *passed = first;
        return PS_OK;
    }
    if (first != PS_NO_DESCRIPTOR)
        (void)close(first);
    if (!whole)
        return ps_fail(error, PS_ERR_BAD_INPUT, "local socket: more came than was agreed on");
    return ps_fail(error, PS_ERR_UNAVAILABLE, "local socket: the other side has gone");
}

/* Keeps the first descriptor and closes the others: all of them are open here, wanted or not. They
 * are copied out bytewise, because CMSG_DATA need not be aligned for an int. */
static void take_descriptors(struct msghdr *head, int *passed, size_t *count)
{
    for (struct cmsghdr *entry = CMSG_FIRSTHDR(head); entry != NULL;
         entry = CMSG_NXTHDR(head, entry)) {
        if (entry->cmsg_level != SOL_SOCKET || entry->cmsg_type != SCM_RIGHTS)
            continue;
        size_t here = (entry->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < here; i++) {
            int descriptor;
            memcpy(&descriptor, CMSG_DATA(entry) + i * sizeof descriptor, sizeof descriptor);
            if ((*count)++ == 0)
                *passed = descriptor;
            else
                (void)close(descriptor);
        }
    }
}

/* The kernel recorded these when the peer connected; the peer cannot claim to be somebody else. */
enum ps_status ps_local_socket_peer(int peer, struct ps_local_peer *who, struct ps_error *error)
{
    struct ucred credentials;
    socklen_t size = sizeof credentials;
    if (getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0)
        return fail(error, PS_ERR_IO, "peer");
    *who = (struct ps_local_peer){.user = credentials.uid, .process = credentials.pid};
    return PS_OK;
}
