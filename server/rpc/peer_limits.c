/* A table of sums under a lock that is held for a moment, by large calls only. Two clients whose
 * numbers fall together share a sum: each is bounded more tightly then, never more loosely. */
#include "server/rpc/peer_limits.h"

#include "base/assert.h"

#include <inttypes.h>
#include <string.h>

void ps_peer_limits_init(struct ps_peer_limits *limits, uint64_t bytes_max)
{
    memset(limits, 0, sizeof *limits);
    limits->bytes_max = bytes_max;
    ps_mutex_init(&limits->lock, PS_RANK_LEAF);
}

void ps_peer_limits_fini(struct ps_peer_limits *limits)
{
    ps_mutex_fini(&limits->lock);
}

/* A client that has nothing on its way is let in whatever the size: one message larger than the
 * limit must be possible, alone. */
enum ps_status ps_peer_limits_enter(struct ps_peer_limits *limits, uint32_t peer, size_t bytes,
                                    struct ps_error *error)
{
    uint64_t *counted = &limits->bytes[peer % PS_PEERS_MAX];
    ps_mutex_lock(&limits->lock);
    uint64_t before = *counted;
    bool fits = limits->bytes_max == 0 || before == 0 || bytes <= limits->bytes_max - before;
    /* A peer that had nothing may have gone beyond by itself, and replies are added without a
     * question. Then `bytes_max - before` above has wrapped around and says nothing. */
    fits = fits && (limits->bytes_max == 0 || before <= limits->bytes_max);
    if (fits)
        *counted = before + bytes;
    ps_mutex_unlock(&limits->lock);
    if (fits)
        return PS_OK;
    return ps_fail(error, PS_ERR_BUSY,
                   "this client has %" PRIu64 " bytes on their way, of at most %" PRIu64
                   ": %zu more must wait",
                   before, limits->bytes_max, bytes);
}

/* For what cannot be refused any more: a reply to something that was done. */
void ps_peer_limits_add(struct ps_peer_limits *limits, uint32_t peer, size_t bytes)
{
    ps_mutex_lock(&limits->lock);
    limits->bytes[peer % PS_PEERS_MAX] += bytes;
    ps_mutex_unlock(&limits->lock);
}

/* A sum below what is taken from it means that two calls were mixed up: from then on the limit
 * would be wrong for the rest of the process. */
void ps_peer_limits_leave(struct ps_peer_limits *limits, uint32_t peer, size_t bytes)
{
    uint64_t *counted = &limits->bytes[peer % PS_PEERS_MAX];
    ps_mutex_lock(&limits->lock);
    PS_ASSERT(*counted >= bytes);
    *counted -= bytes;
    ps_mutex_unlock(&limits->lock);
}
