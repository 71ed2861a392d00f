/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of both families in one form, so that hosts can be compared byte by byte, and a host
 * has one share and not one for each way in which it can write its address. */
#include "server/front/peer_host.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

/* What stands before an IPv4 address in its IPv6 form. */
static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

/* A listener for both families names IPv4 peers in the IPv6 way; one for IPv4 alone does not. */
struct ps_peer_host ps_peer_host_of(const struct sockaddr_storage *peer)
{
    struct ps_peer_host host = {{0}};
    if (peer->ss_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)peer;
        memcpy(host.address, mapped, sizeof mapped);
        memcpy(host.address + sizeof mapped, &four->sin_addr, sizeof four->sin_addr);
    } else if (peer->ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)peer;
        memcpy(host.address, &six->sin6_addr, sizeof host.address);
    }
    return host;
}

/* Every byte counts, also of IPv6, where a host may have many addresses: the machines of a cluster
 * often share what stands before the last eight bytes, and one of them would use up all their
 * shares. */
bool ps_peer_host_equal(const struct ps_peer_host *a, const struct ps_peer_host *b)
{
    return memcmp(a->address, b->address, sizeof a->address) == 0;
}

static bool is_unix(const struct ps_peer_host *host)
{
    static const struct ps_peer_host none = {{0}};
    return ps_peer_host_equal(host, &none);
}

/* All of 127.0.0.0/8 is the machine itself, and a unix socket has no other peers. */
bool ps_peer_host_is_local(const struct ps_peer_host *host)
{
    static const struct ps_peer_host six = {{[15] = 1}};
    bool four = memcmp(host->address, mapped, sizeof mapped) == 0 && host->address[12] == 127;
    return four || ps_peer_host_equal(host, &six) || is_unix(host);
}

/* inet_ntop fails only for want of room, which there is. */
void ps_peer_host_text(const struct ps_peer_host *host, char text[PS_PEER_HOST_TEXT_MAX])
{
    bool four = memcmp(host->address, mapped, sizeof mapped) == 0;
    const char *written =
        four ? inet_ntop(AF_INET, host->address + sizeof mapped, text, PS_PEER_HOST_TEXT_MAX)
             : inet_ntop(AF_INET6, host->address, text, PS_PEER_HOST_TEXT_MAX);
    if (written == NULL || is_unix(host))
        (void)snprintf(text, PS_PEER_HOST_TEXT_MAX, "unix");
}
