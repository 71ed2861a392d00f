/* SPDX-License-Identifier: Apache-2.0 */
/* Files of unix sockets. A socket's file outlives the process that made it, and bind fails while it
 * is there; so gRPC removes whatever file it finds before it binds. The removal would also take the
 * file away from a living server, whose clients would then reach another one without notice. So
 * whether anybody listens is found out first, and by one server of a folder at a time. */
#include "server/rpc/local_listener.h"

#include <grpc/grpc_security.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* For the owner and the group, as far as the folder lets them; or for the owner. */
#define FILE_MASK (S_IXUSR | S_IXGRP | S_IRWXO)
#define OWNERS_FILE_MASK (S_IXUSR | S_IRWXG | S_IRWXO)

static bool add_port(grpc_server *server, const char *address);
static enum ps_status lock_folder(const char *path, int *folder, struct ps_error *error);
static enum ps_status check_nobody_listens(const struct sockaddr_un *address,
                                           struct ps_error *error);

/* Without credentials of gRPC's own: who may connect is decided by the rights of the file and its
 * folder. */
static bool add_port(grpc_server *server, const char *address)
{
    grpc_server_credentials *credentials = grpc_insecure_server_credentials_create();
    int port = grpc_server_add_http2_port(server, address, credentials);
    grpc_server_credentials_release(credentials);
    return port > 0;
}

/* The lock is held from the question until the socket listens. Without it two servers that start at
 * once could both find the file dead, and the second would remove the file of the first. */
enum ps_status ps_local_listener_open(grpc_server *server, const char *path,
                                      const struct ps_local_users *users, struct ps_error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char text[sizeof address.sun_path + sizeof "unix:"];
    int folder;
    if (strlen(path) >= sizeof address.sun_path)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a socket's path has at most %zu bytes: %.40s...",
                       sizeof address.sun_path - 1, path);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    (void)snprintf(text, sizeof text, "unix:%s", path);
    PS_TRY(lock_folder(path, &folder, error));
    enum ps_status status = check_nobody_listens(&address, error);
    if (status == PS_OK) {
        /* No other thread makes files yet. */
        bool is_own = users->is_restricted && users->count == 1 && users->users[0] == geteuid();
        mode_t before = umask(is_own ? OWNERS_FILE_MASK : FILE_MASK);
        if (!add_port(server, text))
            status = ps_fail(error, PS_ERR_IO, "cannot listen on %s", text);
        (void)umask(before);
    }
    (void)close(folder);
    return status;
}

/* Until `*folder` is closed no other server looks at sockets there. The lock is on the folder,
 * since a file made for it would stay behind, and the socket's own file is what is replaced. The
 * lock ends with the descriptor, also when the process is killed. */
static enum ps_status lock_folder(const char *path, int *folder, struct ps_error *error)
{
    char name[sizeof((struct sockaddr_un){0}.sun_path)];
    const char *slash = strrchr(path, '/');
    size_t size = slash == NULL ? 0 : (size_t)(slash - path);
    (void)snprintf(name, sizeof name, "%.*s", (int)size, path);
    /* No folder in the path: the current one, or the root. */
    if (size == 0)
        (void)snprintf(name, sizeof name, "%s", slash == NULL ? "." : "/");
    *folder = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*folder >= 0 && flock(*folder, LOCK_EX) == 0)
        return PS_OK;
    int reason = errno;
    if (*folder >= 0)
        (void)close(*folder);
    return ps_fail(error, PS_ERR_IO, "folder of the socket %s: %s", path, strerror(reason));
}

/* Asked by connecting, because nothing else tells a living listener from the file of a dead one.
 * The probe does not wait: a server that hangs with a full backlog is alive all the same. */
static enum ps_status check_nobody_listens(const struct sockaddr_un *address,
                                           struct ps_error *error)
{
    struct stat file;
    if (lstat(address->sun_path, &file) != 0)
        return errno == ENOENT
                   ? PS_OK
                   : ps_fail(error, PS_ERR_IO, "socket %s: %s", address->sun_path, strerror(errno));
    /* A typing error in an option must not cost somebody a file. lstat, so that a link is seen as
     * one and not followed. */
    if (!S_ISSOCK(file.st_mode))
        return ps_fail(error, PS_ERR_EXISTS, "%s exists and is not a socket", address->sun_path);
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0)
        return ps_fail(error, PS_ERR_IO, "socket: %s", strerror(errno));
    int failed = connect(probe, (const struct sockaddr *)address, sizeof *address);
    int reason = errno;
    (void)close(probe);
    if (failed != 0 && reason == ECONNREFUSED)
        return PS_OK; /* left by a server that was killed */
    /* EAGAIN: somebody listens, but the backlog is full. */
    if (failed == 0 || reason == EAGAIN)
        return ps_fail(error, PS_ERR_EXISTS, "a server listens on %s already", address->sun_path);
    return ps_fail(error, PS_ERR_IO, "socket %s: %s", address->sun_path, strerror(reason));
}
