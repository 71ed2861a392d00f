/* A network namespace that lives as long as the processes in it. */
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

static enum ps_status raise_loopback(struct ps_error *error)
{
    struct ifreq loopback = {.ifr_name = "lo"};
    int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool up = any >= 0 && ioctl(any, SIOCGIFFLAGS, &loopback) == 0;
    if (up) {
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
