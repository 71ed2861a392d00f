/* The process's descriptors are looked through: cancelled calls are few. */
#include "client/unix_break.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static bool leads_to(int descriptor, const char *name)
{
    struct sockaddr_un peer;
    int type = 0;
    socklen_t size = sizeof peer, type_size = sizeof type;
    memset(&peer, 0, sizeof peer);
    if (getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &type_size) != 0 ||
        type != SOCK_STREAM || getpeername(descriptor, (struct sockaddr *)&peer, &size) != 0 ||
        peer.sun_family != AF_UNIX)
        return false;
    char path[sizeof peer.sun_path + 1] = {0};
    memcpy(path, peer.sun_path, sizeof peer.sun_path);
    return strcmp(file_name(path), name) == 0;
}

static bool is_full(int descriptor)
{
    struct pollfd writable = {.fd = descriptor, .events = POLLOUT};
    return poll(&writable, 1, 0) == 0;
}

/* gRPC may close a descriptor at any time, and another thread open something under its number: what
 * was looked at and what is shut down is one socket, held by a descriptor of our own. Others than
 * sockets are not held, since closing that descriptor would end a file's locks. */
static void break_one(int descriptor, const char *name)
{
    if (!leads_to(descriptor, name))
        return;
    int held = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (held < 0)
        return;
    if (leads_to(held, name) && is_full(held))
        (void)shutdown(held, SHUT_RDWR);
    (void)close(held);
}

void ps_unix_break(const char *path)
{
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return;
    for (struct dirent *next = readdir(folder); next != NULL; next = readdir(folder)) {
        char *end;
        long descriptor = strtol(next->d_name, &end, 10);
        if (end != next->d_name && *end == '\0')
            break_one((int)descriptor, file_name(path));
    }
    (void)closedir(folder);
}
