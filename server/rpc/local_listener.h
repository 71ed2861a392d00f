/* The unix sockets at which a server takes calls beside its TCP port.
 *
 * One has a random abstract name. Clients that came over TCP are told it and, where they find it,
 * which is in the server's network namespace only, go on through it: it cannot be another server's,
 * and nothing of it is left behind. The other is a file that somebody has named, for clients who
 * name it too. Both are as open as the TCP port of a loopback address: to everybody on the machine,
 * and the file to its owner and group.
 *
 * Threads:  one, before the server is started.
 * Blocking: opening a file waits for another server that opens one in the same folder.
 * Errors:   PS_ERR_EXISTS when a server listens at the file; PS_ERR_IO.
 * Memory:   none. gRPC closes the sockets with its server, and removes the file.
 */
#ifndef PS_SERVER_RPC_LOCAL_LISTENER_H
#define PS_SERVER_RPC_LOCAL_LISTENER_H

#include "base/local_socket.h"
#include "base/status.h"

#include <grpc/grpc.h>

/* Listens under a random name, which is written to `name`. */
PS_MUST_USE enum ps_status ps_local_listener_open(grpc_server *server,
                                                  char name[PS_LOCAL_NAME_BYTES_MAX + 1],
                                                  struct ps_error *error);

/* Listens at the file `path`. One that a dead server has left is replaced; one at which somebody
 * listens, or which is not a socket, stays. */
PS_MUST_USE enum ps_status ps_local_listener_open_file(grpc_server *server, const char *path,
                                                       struct ps_error *error);

#endif
