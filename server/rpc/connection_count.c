/* Counts connections without help from gRPC, whose C API does not tell when one comes or goes. A
 * connection that was accepted has the name of its listener, a port or the name of a unix socket;
 * the ends of other connections of this process, to etcd for example, have neither of these.
 *
 * The count is a sample: descriptors come and go while the folder is read. A sample is good enough
 * for a gauge, and the way of a call is not burdened with counters that could drift. */
#include "server/rpc/connection_count.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Listeners have the same names as what they accepted. */
static bool is_stream(int descriptor)
{
    int type = 0, listens = 0;
    socklen_t type_size = sizeof type, listens_size = sizeof listens;
    return getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &type_size) == 0 &&
           type == SOCK_STREAM &&
           getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_size) == 0 &&
           listens == 0;
}

/* A unix socket that was connected has no name of its own on the client's end, and the listener's
 * on the server's. */
static void look_at(int descriptor, uint16_t port, struct ps_connection_count *count)
{
    union {
        struct sockaddr head;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
        struct sockaddr_un local;
    } name = {.local = {0}};
    socklen_t size = sizeof name;
    if (!is_stream(descriptor) || getsockname(descriptor, &name.head, &size) != 0)
        return;
    if (name.head.sa_family == AF_INET)
        count->tcp += ntohs(name.four.sin_port) == port;
    else if (name.head.sa_family == AF_INET6)
        count->tcp += ntohs(name.six.sin6_port) == port;
    else if (name.head.sa_family == AF_UNIX)
        /* The client's end of a unix socket has no name: the kernel gives back the family alone. */
        count->local += size > offsetof(struct sockaddr_un, sun_path);
}

/* Descriptors are looked through one by one: some microseconds for each, once per look at the
 * metrics. */
struct ps_connection_count ps_connection_count(uint16_t port)
{
    struct ps_connection_count count = {0};
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return count;
    for (struct dirent *next = readdir(folder); next != NULL; next = readdir(folder)) {
        char *end;
        long descriptor = strtol(next->d_name, &end, 10);
        /* "." and ".." are in the folder as well. */
        if (end != next->d_name && *end == '\0')
            look_at((int)descriptor, port, &count);
    }
    (void)closedir(folder);
    return count;
}
