/* The one replacement of a C library function in the tree, and with it the one place with state
 * of the whole process: accept4 has no argument that could carry it. */

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

enum { NO_RESERVE = -1 };

static atomic_int reserve = NO_RESERVE;
static atomic_uint_fast64_t dropped;

PS_EXPORT int accept4(int listener, struct sockaddr *address, socklen_t *size, int flags);

static void keep_reserve(void);
static bool drop_one(int listener);

uint64_t ps_accept_guard_dropped(void)
{
    return atomic_load(&dropped);
}

PS_EXPORT int accept4(int listener, struct sockaddr *address, socklen_t *size, int flags)
{
    keep_reserve();
    for (;;) {
        int accepted = (int)syscall(SYS_accept4, listener, address, size, flags);
        if (accepted >= 0 || (errno != EMFILE && errno != ENFILE))
            return accepted;
        if (!drop_one(listener)) {
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
    int expected = NO_RESERVE;
    if (opened >= 0 && !atomic_compare_exchange_strong(&reserve, &expected, opened))
        (void)close(opened);
    errno = saved;
}

/* Gives the reserve to one waiting connection, ends it, and takes the reserve back. False when
 * nothing waits, or when another thread is doing the same. */
static bool drop_one(int listener)
{
    int taken = atomic_exchange(&reserve, NO_RESERVE);
    if (taken == NO_RESERVE)
        return false;
    (void)close(taken);
    int peer = (int)syscall(SYS_accept4, listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (peer >= 0) {
        (void)close(peer);
        atomic_fetch_add(&dropped, 1);
    }
    keep_reserve();
    return peer >= 0;
}
