/* SPDX-License-Identifier: Apache-2.0 */
/* A port of gRPC with TLS, whose certificates are those that the access has at each handshake.
 *
 * Threads:  create and destroy: the server's owner. gRPC asks for certificates on lanes' threads.
 * Blocking: never: files are read elsewhere (security/access.h).
 * Errors:   PS_ERR_NO_MEMORY.
 * Memory:   the access is borrowed and outlives the port; the port outlives gRPC's server.
 */
#ifndef PS_SERVER_RPC_TLS_PORT_H
#define PS_SERVER_RPC_TLS_PORT_H

#include "base/alloc.h"
#include "security/access.h"

#include <grpc/grpc_security.h>

/* Whether clients show certificates. One that is shown is checked against the authorities. */
enum ps_client_auth { PS_CLIENT_AUTH_NONE, PS_CLIENT_AUTH_REQUEST, PS_CLIENT_AUTH_REQUIRE };

struct ps_tls_port;

PS_MUST_USE enum ps_status ps_tls_port_create(struct ps_access *access,
                                              const struct ps_allocator *memory,
                                              struct ps_tls_port **port, struct ps_error *error);

/* Returns credentials for one address, to be released with grpc_server_credentials_release. */
grpc_server_credentials *ps_tls_port_credentials(struct ps_tls_port *port,
                                                 enum ps_client_auth client_auth);

/* NULL is allowed. */
void ps_tls_port_destroy(struct ps_tls_port *port);

#endif
