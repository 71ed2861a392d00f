/* SPDX-License-Identifier: Apache-2.0 */
/* Who makes a call: the connection that it came through, and the host of that connection.
 *
 * The key of the connection is the whole peer string of gRPC ("ipv4:10.0.0.7:51982"): what is
 * counted under it ends when its calls end. The share key is under which a caller's share of
 * something is counted: the host, so that many connections have no more than one. Of this machine,
 * and through a unix socket, it is the connection: a whole job may run here, and be one host.
 *
 * Threads:  a caller is a value; any.
 * Blocking: never.
 * Errors:   none; a key that is too long is cut.
 * Memory:   in place.
 */
#ifndef PS_SERVER_RPC_CALLER_H
#define PS_SERVER_RPC_CALLER_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>

/* An IPv6 address with a zone and a port, percent signs included, has 80 at most. */
enum { PS_CALLER_KEY_BYTES_MAX = 95 };

struct ps_caller {
    char connection[PS_CALLER_KEY_BYTES_MAX + 1];
    size_t connection_size;
    size_t host_size; /* of `connection`, from its start */
    bool is_local;    /* from this machine */
    bool is_shared;   /* other connections have the same key: those of a unix socket */
};

/* `peer` is a peer string of gRPC; NULL: nothing is known, which is a caller as well. */
void ps_caller_init(struct ps_caller *caller, const char *peer);

/* Borrowed from the caller. */
struct ps_bytes ps_caller_connection(const struct ps_caller *caller);
struct ps_bytes ps_caller_host(const struct ps_caller *caller);
struct ps_bytes ps_caller_share(const struct ps_caller *caller);

#endif
