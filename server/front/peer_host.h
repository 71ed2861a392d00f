/* SPDX-License-Identifier: Apache-2.0 */
/* The host at the other end of a connection: its address without the port.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   in place.
 */
#ifndef PS_SERVER_FRONT_PEER_HOST_H
#define PS_SERVER_FRONT_PEER_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* Room for any address as text. */
#define PS_PEER_HOST_TEXT_MAX 64

/* IPv4 as IPv6 writes it (::ffff:10.0.0.1), so that a host is one host on either kind of listener.
 * All zero for a unix socket. */
struct ps_peer_host {
    uint8_t address[16];
};

struct ps_peer_host ps_peer_host_of(const struct sockaddr_storage *peer);

bool ps_peer_host_equal(const struct ps_peer_host *a, const struct ps_peer_host *b);

/* The machine itself: all workers of a job on one machine are one host, and not a stranger. */
bool ps_peer_host_is_local(const struct ps_peer_host *host);

/* "10.0.0.1", "fe80::1", or "unix". */
void ps_peer_host_text(const struct ps_peer_host *host, char text[PS_PEER_HOST_TEXT_MAX]);

#endif
