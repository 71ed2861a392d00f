/* A server that runs out of descriptors must refuse the newest connections and go on listening.
 * gRPC 1.51 hands EMFILE to the code that also handles a broken listener, and closes that; the only
 * door in between is the C library's accept4, so this file stands in that door.
 *
 * The idea is old: one descriptor lies in reserve, and is given up for just as long as it takes to
 * accept a connection and close it. The peer sees an end at once instead of a connection that hangs
 * in the backlog until its own timeout, and the backlog does not fill up with the dead.
 *
 * This is the one replacement of a C library function in the tree, and with it the one place with
 * state of the whole process: accept4 has no argument that could carry it. */

/* Without GNU's names the C library's headers do not declare accept4 in their own way. */
#undef _GNU_SOURCE
#define _DEFAULT_SOURCE

#include "server/rpc/accept_guard.h"

#include "base/attributes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Both are atomics and not under a lock: gRPC accepts on any of its threads, and an accept4 that
 * waits for a lock would be a new way in which a listener can stop. */
enum { NO_RESERVE = -1 };

static atomic_int reserve = NO_RESERVE;
static atomic_uint_fast64_t dropped;

PS_EXPORT int accept4(int listener, struct sockaddr *address, socklen_t *size, int flags);

static void keep_reserve(void);
static bool drop_one(int listener);

/* A count since the process began. Whoever shows the metric turns that into steps
 * (rpc_metrics.c). */
uint64_t ps_accept_guard_dropped(void)
{
    return atomic_load(&dropped);
}

/* The reserve is opened before the first failure, for then it is too late: when a process has no
 * descriptor left, there is none for the reserve either.
 *
 * The system call is made directly, because a call of accept4 would lead back to this function. */
PS_EXPORT int accept4(int listener, struct sockaddr *address, socklen_t *size, int flags)
{
    keep_reserve();
    for (;;) {
        int accepted = (int)syscall(SYS_accept4, listener, address, size, flags);
        /* EMFILE is the limit of this process, ENFILE that of the machine. Any other failure is
         * gRPC's to judge, with the errno that it would have seen. */
        if (accepted >= 0 || (errno != EMFILE && errno != ENFILE))
            return accepted;
        if (!drop_one(listener)) {
            /* EAGAIN is the one answer after which gRPC keeps the listener and waits for it
             * again. */
            errno = EAGAIN;
            return -1;
        }
    }
}

/* Opens the reserve unless there is one. An errno of the caller stays as it is. */
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
        (void)close(opened);
    errno = saved;
}

/* Gives the reserve to one waiting connection, ends it, and takes the reserve back. False when
 * nothing waits, or when another thread is doing the same. */
static bool drop_one(int listener)
{
    /* Whoever takes the number out of the reserve is the only thread that may close it: a second
     * close of the same number would end whatever has been opened under it since. */
    int taken = atomic_exchange(&reserve, NO_RESERVE);
    if (taken == NO_RESERVE)
        return false;
    (void)close(taken);
    /* Another thread may take the freed descriptor before this call does. Then no connection is
     * dropped now, and accept4 above answers EAGAIN as if none had waited. */
    int peer = (int)syscall(SYS_accept4, listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (peer >= 0) {
        (void)close(peer);
        atomic_fetch_add(&dropped, 1);
    }
    keep_reserve();
    return peer >= 0;
}
