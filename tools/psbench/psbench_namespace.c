/* SPDX-License-Identifier: Apache-2.0 */
/* A network namespace that lives as long as the processes in it. Loopback inside the namespace is a
 * device of its own, with the congestion control that was asked for: on a machine whose default
 * paces its packets, large messages over loopback run at half their speed, and the figures would be
 * about that. */
#include "tools/psbench/psbench_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define SETTING "/proc/sys/net/ipv4/tcp_congestion_control"

static enum ps_status raise_loopback(struct ps_error *error);

/* There is no way back: the process and everything that it starts stay inside, and the namespace
 * goes with the last of them. A congestion control that is not loaded cannot be chosen from inside;
 * the message says where the list of those is. */
enum ps_status ps_bench_enter_namespace(const char *congestion_control, struct ps_error *error)
{
    if (unshare(CLONE_NEWNET) != 0)
        return ps_fail(error, PS_ERR_DENIED,
                       "--namespace needs root: a network namespace cannot be made (%s)",
                       strerror(errno));
    PS_TRY(raise_loopback(error));
    size_t size = strlen(congestion_control);
    int file = open(SETTING, O_WRONLY | O_CLOEXEC);
    bool chosen = file >= 0 && write(file, congestion_control, size) == (ssize_t)size;
    int why = errno;
    if (file >= 0)
        (void)close(file);
    if (!chosen)
        return ps_fail(error, PS_ERR_UNSUPPORTED,
                       "--namespace %s: cannot choose this congestion control (%s); "
                       "/proc/sys/net/ipv4/tcp_available_congestion_control says which there are",
                       congestion_control, strerror(why));
    return PS_OK;
}

/* A new namespace has loopback down; any datagram socket serves to reach it. errno is kept before
 * the socket is closed, since the reason of the failure is what has to be told. */
static enum ps_status raise_loopback(struct ps_error *error)
{
    struct ifreq loopback = {.ifr_name = "lo"};
    int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool up = any >= 0 && ioctl(any, SIOCGIFFLAGS, &loopback) == 0;
    if (up) {
        /* Flags that are there stay; the kernel gives 127.0.0.1 to the device as it comes up. */
        loopback.ifr_flags = (short)(loopback.ifr_flags | IFF_UP | IFF_RUNNING);
        up = ioctl(any, SIOCSIFFLAGS, &loopback) == 0;
    }
    int why = errno;
    if (any >= 0)
        (void)close(any);
    if (!up)
        return ps_fail(error, PS_ERR_IO, "--namespace: loopback does not come up: %s",
                       strerror(why));
    return PS_OK;
}
