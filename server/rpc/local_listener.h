/* SPDX-License-Identifier: Apache-2.0 */
/* The unix socket at which a server takes calls beside its TCP port, for clients that name its
 * file. That is open to its owner and group, as far as its folder lets them; to its owner alone
 * where nobody else may come in.
 *
 * Threads:  one, before the server is started.
 * Blocking: waits for another server that opens one in the same folder.
 * Errors:   PS_ERR_EXISTS when a server listens at the file; PS_ERR_IO.
 * Memory:   none. gRPC closes the socket with its server, and removes the file.
 */
#ifndef PS_SERVER_RPC_LOCAL_LISTENER_H
#define PS_SERVER_RPC_LOCAL_LISTENER_H

#include "base/status.h"
#include "server/front/local_users.h"

#include <grpc/grpc.h>

/* Listens at the file `path`, for these users. One that a dead server has left is replaced; one
 * at which somebody listens, or which is not a socket, stays. */
PS_MUST_USE enum ps_status ps_local_listener_open(grpc_server *server, const char *path,
                                                  const struct ps_local_users *users,
                                                  struct ps_error *error);

#endif
