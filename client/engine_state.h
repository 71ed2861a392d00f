/* What stands behind `struct ps_engine`. Private to the engine.
 *
 * Threads:  one at a time, with the engine.
 * Blocking: never.
 * Errors:   none.
 * Memory:   the engine owns it.
 */
#ifndef PS_CLIENT_ENGINE_STATE_H
#define PS_CLIENT_ENGINE_STATE_H

#include "base/random.h"
#include "client/batch.h"
#include "client/numbering.h"

struct ps_engine_shard {
    uint64_t epoch; /* of its server; 0: nobody serves it */
    struct ps_client_id client_id;
    struct ps_numbering numbering;
};

struct ps_engine {
    const struct ps_allocator *memory; /* borrowed; outlives the engine */
    struct ps_engine_options options;
    struct ps_random random;
    struct ps_engine_shard *shards; /* owned */
    struct ps_batch *batches;       /* owned; a list, the oldest first */
    struct ps_batch *newest;
    uint32_t batch_number;
    bool room_was_made; /* during this event, on some shard: calls of any batch may wait for it */
    struct ps_engine_counters counters;
};

#endif
