/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that leave together, as long as nobody loses by it. A message costs a client and a
 * server some tens of microseconds each, whatever is in it: sixteen small pushes in one are several
 * times as fast as sixteen messages, if the caller begins them in a row anyway.
 *
 * Whether the caller does is a guess. A caller who stays away would have its operation wait for
 * nothing; so the time between the first that is held and the leaving is measured, and a guess that
 * was wrong turns holding off for a while, twice as long each time. */
#include "client/holding.h"

#include "base/assert.h"
#include "client/calls/thresholds.h"

/* An operation of more items is a message by itself. */
enum { HELD_ITEMS_MAX = 4 };

/* A caller who comes back at once takes less for all that are held; the channel's own thread
 * (tell_idle) comes after 20 ms at the earliest. */
enum { AWAY_NS = 250000 };

/* The longest rest is 32 << 7 operations: 4,096. */
enum { REST_MIN = 32, MISSES_MAX = 7 };

/* Judged by all content of the operation together, and only calls of training: an initialisation or
 * an operator's call is rare, and others wait for it. */
static bool is_small(const struct ps_batch_request *request)
{
    enum ps_method method = request->method;
    if (method != PS_METHOD_PUSH && method != PS_METHOD_PULL && method != PS_METHOD_PUSH_PULL)
        return false;
    if (request->item_count == 0 || request->item_count > HELD_ITEMS_MAX)
        return false;
    size_t bytes = 0;
    for (size_t i = 0; i < request->item_count; i++) {
        if (request->items[i].size > PS_HELD_BYTES_MAX)
            return false;
        bytes += request->items[i].size;
    }
    return bytes <= PS_HELD_BYTES_MAX;
}

/* While resting, each operation that is not held brings the next attempt nearer: a caller that
 * begins many soon tries again, one that begins few hardly loses anything by not trying. */
bool ps_holding_takes(struct ps_holding *holding, const struct ps_batch_request *request)
{
    if (holding->rest > 0) {
        holding->rest--;
        return false;
    }
    /* The bound is one less than the most that may be held: the operation that would fill the
     * message sends it. */
    return holding->held < PS_HOLDING_MAX - 1 && is_small(request);
}

/* The clock is asked for the first one only: how long that one waits is what counts. */
void ps_holding_add(struct ps_holding *holding, uint64_t now_ns)
{
    PS_ASSERT(holding->held < PS_HOLDING_MAX);
    if (holding->held++ == 0)
        holding->since_ns = now_ns;
}

/* Called whatever the reason is for which the operations leave; only the time says whether holding
 * has paid. */
void ps_holding_release(struct ps_holding *holding, uint64_t now_ns)
{
    PS_ASSERT(holding->misses <= MISSES_MAX);
    holding->held = 0;
    if (now_ns - holding->since_ns <= AWAY_NS) {
        holding->misses = 0;
        return;
    }
    holding->rest = (uint32_t)REST_MIN << holding->misses;
    /* Bounds the shift above, too. */
    if (holding->misses < MISSES_MAX)
        holding->misses++;
}
