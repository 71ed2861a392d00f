/* Operations that leave together, as long as nobody loses by it. */
#include "client/holding.h"

#include "client/calls/thresholds.h"

/* An operation of more items is a message by itself. */
enum { HELD_ITEMS_MAX = 4 };

/* A caller who comes back at once takes less for all that are held. */
enum { AWAY_NS = 250000 };

enum { REST_MIN = 32, MISSES_MAX = 7 };

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

bool ps_holding_takes(struct ps_holding *holding, const struct ps_batch_request *request)
{
    if (holding->rest > 0) {
        holding->rest--;
        return false;
    }
    return holding->held < PS_HOLDING_MAX - 1 && is_small(request);
}

void ps_holding_add(struct ps_holding *holding, uint64_t now_ns)
{
    if (holding->held++ == 0)
        holding->since_ns = now_ns;
}

void ps_holding_release(struct ps_holding *holding, uint64_t now_ns)
{
    holding->held = 0;
    if (now_ns - holding->since_ns <= AWAY_NS) {
        holding->misses = 0;
        return;
    }
    holding->rest = (uint32_t)REST_MIN << holding->misses;
    if (holding->misses < MISSES_MAX)
        holding->misses++;
}
