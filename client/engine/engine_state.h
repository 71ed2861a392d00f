/* SPDX-License-Identifier: Apache-2.0 */
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
#include "client/calls/retry.h"
#include "client/engine/batch.h"
#include "client/engine/engine_session.h"
#include "client/engine/numbering.h"

struct ps_engine_shard {
    uint64_t epoch; /* of its server; 0: nobody serves it */
    bool single;    /* it knows no bundles: calls go one by one */
    /* So many contents go as one that would go in ranges, if the server takes them; and the largest
     * that it takes so, as the last outcome has said. */
    uint32_t as_one_left;
    size_t as_one_bytes_max;
    bool has_room; /* numbers came back where there were none: calls of any batch may wait */
    struct ps_shard_client client;
    uint64_t confirmed; /* the last session that the server has accepted */
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

/* What became of the present attempt of a call. */
void ps_engine_end_attempt(struct ps_engine *engine, struct ps_batch *batch, uint32_t index,
                           const struct ps_call_outcome *outcome, uint64_t now_ms);

/* A call is over, and its number free. */
void ps_engine_call_done(struct ps_engine *engine, struct ps_batch *batch,
                         struct ps_engine_call *call);

/* Has calls go that waited for numbers which have come back since. */
void ps_engine_fill_rooms(struct ps_engine *engine);

/* ---- engine_end.c ---- */

/* Ends every call of the batch that is not out, and asks for the end of the others. */
void ps_engine_give_up(struct ps_engine *engine, struct ps_batch *batch);

/* Says of a call that has come back after that what became of it. */
void ps_engine_judge_cancelled(struct ps_batch *batch, struct ps_engine_call *call,
                               const struct ps_call_outcome *outcome);

/* ---- engine_device.c ---- */

/* Is the call's content, or room for it, in a device's memory? */
bool ps_engine_on_device(const struct ps_engine_call *call);

/* Copies the content to the host, if this outcome says that it cannot go from where it is. True:
 * the call is to be sent again, at once. */
bool ps_engine_bring_home(struct ps_engine *engine, struct ps_batch *batch,
                          struct ps_engine_call *call, const struct ps_call_outcome *outcome);

/* ---- engine_life.c ---- */

/* The call is about to leave: a request to a program says which life of the server it is for. */
void ps_engine_name_life(struct ps_engine_call *call);

/* Takes what the outcome of an attempt says of lives, and changes the verdict where that decides.
 * True: the call is to be sent again at once, since nobody has carried it out. */
bool ps_engine_take_life(struct ps_engine_call *call, const struct ps_call_outcome *outcome,
                         enum ps_verdict *verdict);

/* ---- engine_ranges.c ---- */

/* Does this attempt of the call go in ranges? Counts it, where contents of this kind are
 * counted. */
bool ps_engine_goes_in_ranges(struct ps_engine *engine, const struct ps_engine_call *call);

/* The call begins to go in ranges; it has just become SENT. */
void ps_engine_begin_ranges(struct ps_engine *engine, struct ps_engine_call *call);

/* The next range of the call to be sent or cancelled, as an action; false when there is none. */
bool ps_engine_next_range(struct ps_engine *engine, struct ps_batch *batch, uint32_t index,
                          struct ps_engine_action *action);

/* Puts the call into the outbox if it has ranges to be sent or cancelled. */
void ps_engine_list_ranges(struct ps_batch *batch, uint32_t index);

/* The deadline has passed while the call was out. */
void ps_engine_stop_ranges(struct ps_engine *engine, struct ps_batch *batch, uint32_t index);

bool ps_engine_range_outcome(struct ps_engine *engine, struct ps_batch *batch, uint64_t call_id,
                             const struct ps_call_outcome *outcome, uint64_t now_ms);
void ps_engine_range_keep(struct ps_engine *engine, struct ps_batch *batch, uint64_t call_id,
                          const struct ps_call_outcome *outcome, uint64_t now_ms);

/* Of the call, without what names a range of it. */
uint32_t ps_engine_index_of(uint64_t call_id);
uint64_t ps_engine_id_of(const struct ps_batch *batch, uint32_t index);

/* A call that was put out is in flight no longer. */
void ps_call_came_back(struct ps_batch *batch, struct ps_engine_call *call);

#endif
