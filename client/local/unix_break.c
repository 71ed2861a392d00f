/* SPDX-License-Identifier: Apache-2.0 */
/* The process's descriptors are looked through: cancelled calls are few. */
#include "client/local/unix_break.h"

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

/* Names of the abstract namespace begin with a zero byte and so compare as empty: they belong to
 * nobody's path. The copy has one byte more than the kernel's array, which need not be
 * terminated. */
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
    return strcmp(path, name) == 0;
}

/* A socket that takes bytes will let gRPC finish its write, and end the call by itself. Only one
 * whose buffer stays full is stuck. */
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

/* gRPC knows "unix:PATH" and, with a whole path, "unix://PATH". */
static const char *path_of(const char *address)
{
    static const char scheme[] = "unix:";
    if (strncmp(address, scheme, sizeof scheme - 1) != 0)
        return address;
    const char *path = address + sizeof scheme - 1;
    return strncmp(path, "//", 2) == 0 ? path + 2 : path;
}

void ps_unix_break(const char *address)
{
    const char *path = path_of(address);
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return;
    for (struct dirent *next = readdir(folder); next != NULL; next = readdir(folder)) {
        char *end;
        long descriptor = strtol(next->d_name, &end, 10);
        if (end != next->d_name && *end == '\0')
            break_one((int)descriptor, path);
    }
    (void)closedir(folder);
}
