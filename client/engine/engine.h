/* SPDX-License-Identifier: Apache-2.0 */
/* Decides what a client does: which calls go to which shard, in which order, what is repeated,
 * when to give up. It only decides: no thread, no network, no clock.
 *
 *     ps_engine_start(engine, &request, now, &batch, &error);
 *     while (ps_engine_next_action(engine, &action))  ... send, cancel, or finished
 *     ps_engine_outcome(engine, action.call, &outcome, now);   ... and ask for actions again
 *     ps_engine_end(engine, batch);
 *
 * Events are start, outcome, member, cancel and tick; after each of them ask for actions until
 * there are none, and tick again at ps_engine_wake_ms. A call goes through
 *
 *   READY ──room on its shard──► TO_SEND ──send──► SENT ──outcome──► DONE
 *     ▲                                             │ │
 *     └──────pause over, or shard moved── PAUSED ◄──┘ └─deadline─► TO_CANCEL ─► CANCELLED ─► DONE
 *
 * and READY, TO_SEND and PAUSED calls are DONE at the deadline, or when their batch is cancelled. A
 * batch is finished when all its calls are: nothing of its memory is in use by the channel then.
 *
 * Exactly once. INIT, DEFINE, DROP, CONFIGURE, FINISH and PUSH carry a request id {client_id,
 * session, sequence}. Each shard gets a client id of its own (the engine's, with the shard's index
 * in its last four bytes by exclusive or): what an old route brings to the server of another shard
 * must not be a repeat there. Sequences are counted per shard, from 1; a call gets its own just
 * before it is sent for the first time and keeps it over all its repetitions, on the same server or
 * on the next one. The server applies an id once, and answers its repeats as it did the first time.
 * So what may have been applied (a call that broke on the way, an answer that could not be read, a
 * push that was told "unavailable") is repeated like what was refused, until the deadline.
 *
 * At the deadline, or when the server rejects it, a call gives its number back; nobody gets that
 * number again. What holds then, for a push:
 *
 *   PS_OK                 applied once, whatever was lost on the way
 *   PS_ERR_TIMEOUT        an attempt may have been applied, and none was answered. It was applied
 *                         once or not at all; one that is still on its way may yet be applied after
 *                         the call has ended, but not twice
 *   PS_ERR_STALE_SESSION  an attempt may have been applied, and the server has forgotten whether it
 *                         was
 *   anything else         the server does not have it: no attempt was applied, or what it was
 *                         applied to is lost (PS_ERR_NOT_READY)
 *
 * Of a parameter that is cut this holds for each range; the item says what became of the first one
 * that failed.
 *
 * The server remembers a window of numbers per client. So the numbers that are in use on a shard
 * never span more than PS_NUMBERING_SPAN_MAX (numbering.h), over all batches: further calls wait
 * until the oldest is given back. A server that does not remember the session at all (it lost its
 * state, or forgot a client that was idle for very long) says so; the shard then begins a new
 * session as soon as no number of the old one is in use, and calls of which nothing was applied go
 * on under a new number, as do INIT and FINISH, which may be applied once more.
 *
 * Messages. Small calls of one batch to one shard go together, up to message_calls_max and 1 MiB:
 * one action, one message, but every call keeps its number, its attempts and its outcome, and is
 * repeated, if it must be, in whatever message comes next. Calls of up to 16 KiB of several batches
 * that leave at the same moment do as well, up to 128 KiB and in the order of their batches; each
 * keeps its deadline, and when one is cancelled, the others of its message are repeated. A call
 * that may wait at the server for other clients (for a version, or at a clock) shares its message
 * with calls of its own batch only: another batch may be what ends the wait. The calls of one
 * message are expected to come back together: what waits for their numbers goes when the last of
 * them has. A server that knows no such messages (outcome.no_bundles) gets its calls one by one.
 *
 * Ranges. A call whose content is large goes in several messages (client/ranges/ranges_call.h), a
 * few at a time, each an action with an id of its own; together they are one call, with one number
 * and one outcome. After other clients' pushes have come between its ranges, so that the server had
 * applied them in vain, some contents go as one, if the server takes them through shared memory
 * (outcome.as_one_bytes_max).
 *
 * Threads:  one at a time.
 * Blocking: never.
 * Errors:   start can fail; the other events cannot. What became of each item stands in the item.
 * Memory:   all of a batch is allocated at its start. Items and what they point to are borrowed
 *           until ps_engine_end.
 */
#ifndef PS_CLIENT_ENGINE_H
#define PS_CLIENT_ENGINE_H

#include "base/alloc.h"
#include "base/bounds.h"
#include "base/status.h"
#include "client/calls/call.h"
#include "client/ranges/ranges_call.h"

struct ps_engine;
struct ps_batch;

/* Random, so that no two clients have the same one. */
struct ps_client_id {
    uint8_t bytes[16];
};

struct ps_engine_options {
    const struct ps_allocator *memory; /* borrowed; outlives the engine */
    uint32_t shard_count;              /* 1 to PS_SHARDS_MAX */
    uint64_t split_bytes;              /* larger parameters are cut; 0: 16 MiB */
    uint64_t placement;                /* the job's number; 0: not known yet */
    uint32_t calls_per_shard_max;      /* messages at once, of one batch; 0: 8 */
    uint32_t message_calls_max;        /* small calls in one message; 0: each goes alone */
    struct ps_ranges_options ranges;   /* zeros: content above 2 MiB, in ranges of 512 KiB */
    uint64_t pause_min_ms;             /* before the first repetition; 0: 20 */
    uint64_t pause_max_ms;             /* 0: 2000 */
    uint64_t seed;                     /* of the pauses */
    struct ps_client_id client_id;     /* no two engines that live at the same time share one */
    const char *client_name; /* chosen instead of that (engine_session.h); NULL: none. Borrowed;
                                outlives the engine */
    bool any_shard;          /* requests do not say for which shard's server they are meant */
    uint64_t session; /* of a client_name: when it begins, in microseconds since 1970, above all of
                         an earlier engine of this name; 0: 1. Of a client_id the first is 1 */
};

/* PS_ERR_BAD_INPUT for a shard count out of range, PS_ERR_NO_MEMORY. No shard has a server yet. */
PS_MUST_USE enum ps_status ps_engine_create(const struct ps_engine_options *options,
                                            struct ps_engine **engine, struct ps_error *error);

/* Every batch must have been ended. NULL is allowed. */
void ps_engine_destroy(struct ps_engine *engine);

/* Ever. */
struct ps_engine_counters {
    uint64_t retries;    /* calls that were sent again */
    uint64_t resends;    /* those of them that were pushes which may have been applied already */
    uint64_t duplicates; /* pushes whose answer said that they had been applied before */
};

/* Lives as long as the engine. */
const struct ps_engine_counters *ps_engine_counters(const struct ps_engine *engine);

/* A server's text names a file first and the reason last: both fit. */
#define PS_ITEM_TEXT_MAX 256

/* Takes the answer to a call that concerns no parameter: the engine hands it over as it came, while
 * the reply's memory is there. A status that is not PS_OK fails the item. */
struct ps_answer_taker {
    enum ps_status (*take)(void *self, const struct ps_call_reply *reply, struct ps_error *error);
    void *self;
};

/* A gradient as it is sent, cut into the ranges that its parameter is cut into. */
struct ps_encoded_push {
    enum ps_encoding encoding;
    const struct ps_bytes *ranges;
    struct ps_error error; /* PS_OK, or why it could not be encoded: then the item fails with it */
};

/* One item of a batch: what is asked, and what became of it. */
struct ps_item {
    struct ps_bytes name; /* INIT, DEFINE, DROP, CONFIGURE, PUSH, PULL, PUSH_PULL; LIST: after this
                             name */
    enum ps_dtype dtype;  /* INIT, PUSH, PULL */
    bool any_dtype;       /* PULL: take what the server has, note it in `dtype`; never cut */
    const uint8_t *content; /* INIT, DEFINE, PUSH, PUSH_PULL */
    uint8_t *destination;   /* PULL, PUSH_PULL: as many bytes */
    size_t size;            /* bytes of content or destination */
    struct ps_bytes config; /* INIT, DEFINE; CONFIGURE: the change */
    const uint64_t
        *shape;  /* INIT, DEFINE: lengths, borrowed like the content; NULL: none is given */
    size_t rank; /* INIT, DEFINE: how many */
    enum ps_encoding encoding; /* PULL, PUSH_PULL: that the reply shall have */
    bool as_is;                /* the destination has elements of that encoding; `size` counts as if
                                  they were of `dtype` */
    const struct ps_encoded_push *encoded; /* PUSH, PUSH_PULL: sent instead of content; or NULL */
    /* PUSH, PULL: content or destination is in this memory of a device, borrowed like them; NULL:
     * the host's. A push that a server cannot take so is copied to the host, and goes on under its
     * number; a pull ends with PS_ERR_UNSUPPORTED. */
    const struct ps_device_place *place;
    /* Which server: of DROP, CONFIGURE, FINISH, STATUS, LIST, SAVE, DRAIN, SINCE, SET_CLOCKS, CLOCK
     * and asked calls, and of every item that is of a table. */
    uint32_t shard;
    bool of_table; /* INIT, DEFINE: has no content. PUSH, PUSH_PULL: `encoded` has the rows; PULL,
                      PUSH_PULL: `keys` are wanted, and `size` is that of their rows */
    struct ps_bytes keys;
    /* PUSH, PUSH_PULL of a table: elements of a row in `encoded`. The server refuses another width
     * than its table's, where the same bytes would be rows of other keys. */
    uint32_t row_width;
    union {
        struct {
            struct ps_bytes ask;        /* of PS_ASKED_TABLE: the message ... */
            struct ps_view ask_content; /* ... and what follows it, which is not copied */
            size_t ask_room;            /* content that the reply may have; 0: none is offered */
            uint64_t ask_epoch; /* ASK: the life of the server that it is for; 0: not known */
        };
        uint32_t rows_max;                    /* LIST */
        const struct ps_since_request *since; /* SINCE */
        const struct ps_set_clocks_request *set_clocks;
        const struct ps_clock_request *told_clock; /* CLOCK */
    };
    /* PUSH, PUSH_PULL: whose contribution to which round this is; PULL: who reads, at which clock.
     * Every range of a cut parameter has rounds of its own, and takes part in the one of this
     * number. */
    uint32_t worker; /* 1 + the rank; 0: nobody's */
    float weight;
    uint64_t round;
    uint64_t
        at_least_version; /* PULL, PUSH_PULL: that the values shall have; they are waited for */
    uint64_t clock;
    struct ps_bytes clocks;
    struct ps_bytes prefix; /* LIST: of names that begin so */
    bool with_config;       /* LIST */
    struct ps_answer_taker
        answer; /* DROP, CONFIGURE, STATUS, LIST, SAVE, SINCE, CLOCK; asked calls: `take`
                                      may be NULL */

    enum ps_status status;       /* of the first range that failed */
    bool before;                 /* INIT, FINISH: the server had been initialised before */
    bool existed;                /* DEFINE: every range of it was there, and equal */
    bool no_such_call;           /* PUSH_PULL: a server knows none; nobody looked at that range */
    bool may_be_applied;         /* some range of it was, or may have been */
    uint64_t version;            /* PUSH, PULL, PUSH_PULL (of the push); the lowest of all ranges */
    uint64_t pulled_version;     /* PULL, PUSH_PULL; the lowest of all ranges */
    uint64_t position;           /* PUSH: in the life of its shard; 0 of a cut parameter */
    bool duplicate;              /* PUSH: a range had been applied by an attempt before the last */
    bool held;                   /* PUSH: the round of some range goes on, and makes `version` */
    bool late;                   /* PUSH: the round of some range was over */
    uint32_t retries;            /* of all ranges */
    char text[PS_ITEM_TEXT_MAX]; /* why it failed; empty otherwise */
};

struct ps_batch_request {
    enum ps_method method; /* of every item */
    enum ps_ack ack;       /* PUSH */
    struct ps_item *items; /* borrowed until the batch is ended */
    size_t item_count;     /* 0 is fine: finished at once */
    uint64_t deadline_ms;
    /* One per shard (init_epoch.h), borrowed until the batch is ended; may be NULL. INIT notes
     * there who took the parameters, FINISH sends it and notes a refusal. */
    uint64_t *init_epochs;
    void *owner; /* handed back when the batch is finished */
};

/* Event: a caller wants a batch. An item that is wrong in itself gets its status and no call.
 *
 * PS_OK                `*batch` is to be ended with ps_engine_end once it is finished
 * PS_ERR_NO_MEMORY     nothing was started
 * PS_ERR_OUT_OF_RANGE  more than PS_BATCH_CALLS_MAX calls; nothing was started
 */
#define PS_BATCH_CALLS_MAX (1u << 20)
PS_MUST_USE enum ps_status ps_engine_start(struct ps_engine *engine,
                                           const struct ps_batch_request *request, uint64_t now_ms,
                                           struct ps_batch **batch, struct ps_error *error);

/* Event: the job's number is known. Batches that begin from now on are placed by it. */
void ps_engine_place(struct ps_engine *engine, uint64_t placement);

/* By which number a batch was placed. */
uint64_t ps_batch_placed_by(const struct ps_batch *batch);

/* Event: the server of a shard changed. `epoch` is any number that differs between one server
 * process and the next (also at the same address); 0: nobody serves the shard. Paused calls of a
 * shard that got a server go at once, and so do those whose attempt at a former server fails later
 * (the channel gives it up); other shards are not disturbed. */
void ps_engine_member(struct ps_engine *engine, uint32_t shard, uint64_t epoch);

/* Event: what became of a call that was sent. `outcome` is borrowed for the call.
 *
 * True: it has content of a range. Carry out the actions that there are, so that further ranges
 * leave before the content is moved, and then call ps_engine_keep with the same arguments. */
bool ps_engine_outcome(struct ps_engine *engine, uint64_t call,
                       const struct ps_call_outcome *outcome, uint64_t now_ms);
void ps_engine_keep(struct ps_engine *engine, uint64_t call, const struct ps_call_outcome *outcome,
                    uint64_t now_ms);

/* Is the call of this id a range? Then ask for actions as soon as its outcome was taken, and not
 * only when there are no more outcomes: the next range takes its place. */
bool ps_engine_is_range(uint64_t call);

/* Event: the caller does not want to wait for the batch any longer: as if its deadline were now.
 * The batch is finished when what is out has come back, which the channel is asked to hasten.
 * Nothing happens to a batch that is finished. */
void ps_engine_cancel(struct ps_engine *engine, struct ps_batch *batch);

/* The same for all batches of those methods. */
void ps_engine_cancel_all(struct ps_engine *engine, bool (*is_one)(enum ps_method method));

/* Event: time has passed. */
void ps_engine_tick(struct ps_engine *engine, uint64_t now_ms);

/* When the next tick is due; PS_DEADLINE_NEVER when none is. */
uint64_t ps_engine_wake_ms(const struct ps_engine *engine);

enum ps_engine_action_type {
    PS_ENGINE_SEND,    /* start the call; its outcome must come, some time */
    PS_ENGINE_CANCEL,  /* the outcome of this call should come soon now */
    PS_ENGINE_FINISHED /* every item of `batch` has its result */
};

struct ps_engine_action {
    enum ps_engine_action_type type;
    struct ps_batch *batch;                /* that it belongs to; of its first part */
    void *owner;                           /* FINISHED: of the batch's request */
    uint64_t call;                         /* SEND, CANCEL: names the call; one attempt at a time */
    uint32_t shard;                        /* SEND, CANCEL */
    const struct ps_call_request *request; /* SEND: borrowed until the outcome */
    const struct ps_call_part *parts; /* SEND: what goes in one message, at least the call itself;
                                         the list is valid until the next action */
    size_t part_count;
    uint64_t deadline_ms; /* SEND */
};

/* The next thing to do, in order; false when there is nothing. */
bool ps_engine_next_action(struct ps_engine *engine, struct ps_engine_action *action);

bool ps_batch_is_finished(const struct ps_batch *batch);

/* Forgets a finished batch. */
void ps_engine_end(struct ps_engine *engine, struct ps_batch *batch);

/* Asserts every invariant; tests and the simulator call it after every event. */
void ps_engine_check(const struct ps_engine *engine);

#endif
