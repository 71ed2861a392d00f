/* How much of one client's is on its way: requests that are not answered, and replies that it has
 * not taken. A client is a connection; what it has beyond its limit is refused until it has less.
 *
 * Small calls are not counted: there are at most as many as a connection may have at once.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   PS_ERR_BUSY.
 * Memory:   in place, bounded; peers beyond PS_PEERS_MAX share what is counted.
 */
#ifndef PS_SERVER_RPC_PEER_LIMITS_H
#define PS_SERVER_RPC_PEER_LIMITS_H

#include "base/thread.h"

#include <stddef.h>
#include <stdint.h>

#define PS_PEERS_MAX 1024

/* Below this, a call is small. */
#define PS_PEER_COUNTED_BYTES ((size_t)64 * 1024)

struct ps_peer_limits {
    uint64_t bytes_max; /* 0: no limit */
    struct ps_mutex lock;
    uint64_t bytes[PS_PEERS_MAX]; /* by the hash of the peer's address */
};

void ps_peer_limits_init(struct ps_peer_limits *limits, uint64_t bytes_max);
void ps_peer_limits_fini(struct ps_peer_limits *limits);

/* Counts `bytes` more for the peer. A peer of which nothing is counted may have any amount.
 *
 * PS_OK        end with ps_peer_limits_leave and the same amount
 * PS_ERR_BUSY  it has too much already; nothing is counted
 */
PS_MUST_USE enum ps_status ps_peer_limits_enter(struct ps_peer_limits *limits, uint32_t peer,
                                                size_t bytes, struct ps_error *error);

/* Counts without refusing: what was done already must be answered. Ends with leave as well. */
void ps_peer_limits_add(struct ps_peer_limits *limits, uint32_t peer, size_t bytes);
void ps_peer_limits_leave(struct ps_peer_limits *limits, uint32_t peer, size_t bytes);

#endif
