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
#include "client/engine/batch.h"
#include "client/engine/numbering.h"

struct ps_engine_shard {
    uint64_t epoch; /* of its server; 0: nobody serves it */
    bool single;    /* it knows no bundles: calls go one by one */
    bool has_room;  /* numbers came back where there were none: calls of any batch may wait */
    struct ps_client_id client_id;
    struct ps_numbering numbering;
};

struct ps_engine {
    const struct ps_allocator *memory; /* borrowed; outlives the engine */
    struct ps_engine_options options;
    struct ps_random random;
    struct ps_engine_shard *shards; /* owned */
    struct ps_batch *batches;       /* owned; a list, the oldest first */
    uint32_t batch_number;
    bool room_was_made; /* some shard may have `has_room` */
    struct ps_engine_counters counters;
    struct ps_call_part parts[PS_MESSAGE_CALLS_MAX]; /* of the last action */
};

/* ---- engine_send.c ---- */

/* Moves calls from the lanes' queues to the outbox while there is room. */
void ps_engine_fill_lanes(struct ps_engine *engine, struct ps_batch *batch);
void ps_engine_fill_shard(struct ps_engine *engine, uint32_t shard);
void ps_engine_fill_lane(struct ps_engine *engine, struct ps_batch *batch, uint32_t shard);

/* A call that was put out is in flight no longer. */
void ps_call_came_back(struct ps_batch *batch, struct ps_engine_call *call);

#endif
