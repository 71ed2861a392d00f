/* SPDX-License-Identifier: Apache-2.0 */
/* One batch of the engine: its calls, and the lanes (one per shard) in which they queue. Private
 * to the engine.
 *
 * Threads:  one at a time, with the engine.
 * Blocking: never.
 * Errors:   ps_batch_create can fail; the rest cannot.
 * Memory:   five allocations at creation, given back by ps_batch_destroy.
 */
#ifndef PS_CLIENT_BATCH_H
#define PS_CLIENT_BATCH_H

#include "client/engine/engine.h"
#include "client/engine/placement.h"
#include "client/ranges/ranges_call.h"

enum ps_call_state {
    PS_CALL_READY,     /* in its lane's queue */
    PS_CALL_TO_SEND,   /* in the outbox; counts as in flight */
    PS_CALL_SENT,      /* in flight */
    PS_CALL_PAUSED,    /* waits for `wake_ms`, or for another server */
    PS_CALL_TO_CANCEL, /* in flight, and in the outbox */
    PS_CALL_CANCELLED, /* in flight; its outcome should come soon */
    PS_CALL_DONE
};

/* No call: the end of a queue. */
#define PS_NO_CALL UINT32_MAX

/* Of an item, while no reply has brought one; 0 once the batch is finished. */
#define PS_NO_VERSION UINT64_MAX

/* A call without a number has `present` unset in the id of its request. */
struct ps_engine_call {
    enum ps_call_state state;
    uint32_t item;
    uint32_t shard;
    uint32_t next; /* in the lane's queue or in the outbox */
    uint32_t lead; /* of its message: the call that began it, perhaps this one */
    uint32_t out;  /* of a lead: calls of its message that are out */
    uint32_t attempts;
    bool ambiguous;             /* not of readers: an attempt may have been applied */
    enum ps_status last_status; /* why it was paused; PS_OK: never was */
    uint64_t wake_ms;           /* PAUSED */
    uint64_t sent_epoch;        /* of the server that the last attempt went to */
    size_t offset;              /* of its range in the item's content or destination */
    size_t size;
    struct ps_bytes content; /* the one piece of the request's view */
    uint8_t *fetched;        /* owned; the content, once it was copied from a device; or NULL */
    struct ps_call_request request;
    struct ps_ranges_call *ranges; /* of the batch; NULL: its content is too small for ranges */
    bool in_ranges;                /* the present attempt is */
    bool is_listed;    /* in the outbox, because ranges of it are to be sent or cancelled */
    uint64_t life;     /* ASK: of the server that its request is for; 0: not known */
    bool may_have_run; /* ASK: some server may have given it to a program (engine_life.c) */
};

/* A first-in first-out list of calls, linked by `next`. */
struct ps_call_queue {
    uint32_t first, last;
    uint32_t count;
};

struct ps_lane {
    struct ps_call_queue again; /* READY: have their number, or need none; go first */
    struct ps_call_queue ready; /* READY, new: of a method with numbers, each needs one */
    uint32_t in_flight;         /* messages */
};

struct ps_batch {
    uint32_t magic;
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct ps_batch *next, *prev;      /* in the engine's list */
    uint32_t number;                   /* upper half of its call ids */
    struct ps_batch_request request;
    uint64_t wake_ms;              /* no call wakes before; the deadline at the latest */
    struct ps_engine_call *calls;  /* owned */
    struct ps_ranges_call *ranges; /* owned; one for each call that may go in ranges */
    uint32_t call_count;
    uint32_t done_count;
    struct ps_lane *lanes; /* owned; one per shard */
    uint32_t lane_count;
    struct ps_layout layout; /* by which its items were placed */
    char *names;             /* owned; of ranges */
    struct ps_call_queue outbox;
    bool is_given_up;  /* at its deadline, or cancelled */
    bool is_cancelled; /* by its owner */
    bool announced;    /* PS_ENGINE_FINISHED was handed out */
};

/* Judges every item, cuts parameters, and queues every call in its lane. `options` are the
 * engine's. */
PS_MUST_USE enum ps_status ps_batch_create(const struct ps_batch_request *request,
                                           const struct ps_engine_options *options,
                                           struct ps_batch **batch, struct ps_error *error);
void ps_batch_destroy(struct ps_batch *batch);

/* Empties its queues. */
void ps_lane_clear(struct ps_lane *lane);

void ps_call_queue_push(struct ps_batch *batch, struct ps_call_queue *queue, uint32_t call);
/* Takes the call out, wherever it stands; it must be there. */
void ps_call_queue_remove(struct ps_batch *batch, struct ps_call_queue *queue, uint32_t call);
/* PS_NO_CALL when empty. */
uint32_t ps_call_queue_pop(struct ps_batch *batch, struct ps_call_queue *queue);

/* The item's own mistake, if any: PS_ERR_BAD_INPUT, PS_ERR_OUT_OF_RANGE. */
PS_MUST_USE enum ps_status ps_item_check(enum ps_method method, const struct ps_item *item,
                                         uint32_t shard_count, struct ps_error *error);

/* The shape that an initialisation says, of the whole parameter. PS_ERR_BAD_INPUT */
PS_MUST_USE enum ps_status ps_item_shape(const struct ps_item *item, struct ps_shape *shape,
                                         struct ps_error *error);

/* Notes that a range of the item failed; the first one decides. */
void ps_item_fail(struct ps_item *item, enum ps_status status, const char *text);

/* Puts `text` (cut) into the item, without deciding anything. */
void ps_item_note(struct ps_item *item, const char *text);

/* The last touch, when the batch is finished. */
void ps_item_close(struct ps_item *item);

/* Takes the reply of a call that succeeded into its item. PS_ERR_BAD_INPUT when the server's
 * parameter is of another type or length than the caller's memory. */
PS_MUST_USE enum ps_status ps_item_take(struct ps_item *item, const struct ps_engine_call *call,
                                        const struct ps_call_reply *reply, struct ps_error *error);

#endif
