/* SPDX-License-Identifier: Apache-2.0 */
/* The connections that this process has accepted, by their descriptors; and, under TLS, the plain
 * bytes of each. Inside of server/front: what the replaced functions of the C library call.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   none; what cannot be remembered for want of memory is refused.
 * Memory:   of the heap, freed when a connection is closed.
 */
#ifndef PS_SERVER_FRONT_CONNECTIONS_H
#define PS_SERVER_FRONT_CONNECTIONS_H

#include "server/front/front.h"

#include <sys/socket.h>
#include <sys/uio.h>

struct ps_connection;

/* A descriptor beyond is refused. */
#define PS_FRONT_DESCRIPTORS_MAX (1 << 20)

/* What `listener` has accepted may stay, and is known from here on. False: to be closed. */
bool ps_connections_admit(int descriptor, int listener, const struct sockaddr_storage *peer);

/* NULL unless the descriptor is a connection of gRPC's. What is returned lives until
 * ps_connections_leave of this descriptor; so it is asked for by who uses the descriptor. */
struct ps_connection *ps_connections_find(int descriptor);

/* Bytes came, or were written, in `size` bytes of these pieces. False: the connection has ended,
 * and the caller is to see its end. */
bool ps_connection_received(struct ps_connection *connection, const struct iovec *pieces,
                            size_t count, size_t size);
void ps_connection_sent(struct ps_connection *connection, const struct iovec *pieces, size_t count,
                        size_t size);

/* It was condemned: none of its bytes may go on. */
bool ps_connection_has_ended(const struct ps_connection *connection);

/* The descriptor is about to be closed. For any descriptor; costs a look at the table. */
void ps_connections_leave(int descriptor);

/* The plain bytes of a connection under TLS, which no descriptor is known of; NULL without memory.
 * Ends with ps_connection_forget. */
struct ps_connection *ps_connection_of_tls(void);
void ps_connection_forget(struct ps_connection *connection);

/* A connection was closed for want of a descriptor. */
void ps_connections_dropped(void);

#endif
