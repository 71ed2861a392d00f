/* SPDX-License-Identifier: Apache-2.0 */
/* The mailbox of a shard: what workers ask of programs, until somebody has answered it. A server
 * program is whoever empties the requests of one app: a taker in another process, or a handler in
 * this one. Both are this one mechanism.
 *
 * Order: of one worker, requests of equal priority are taken in their order, larger priorities
 * first. The order is that of `order`, where a sender numbers its requests, and else that of their
 * coming. A gap is waited for, for `hold_ms` at most.
 *
 * Once: a request with a token is carried out once for as long as this shard lives. Its answer is
 * kept, within bounds; who asks again gets it, or is told PS_ERR_ABORTED when it is not kept any
 * more. Nothing of this survives the shard: it has an epoch, and who names another is told
 * PS_ERR_ABORTED, so that across a crash nothing is carried out twice.
 *
 * A taker that says nothing for its lease is gone. What it had taken fails, PS_ERR_ABORTED, since
 * nobody can say what became of it; or is given to the next, if the taker has said so.
 *
 * Threads:  every function is safe from any thread.
 * Blocking: never.
 * Errors:   each function lists its own; what is refused has changed nothing.
 * Memory:   bounded by struct ps_mailbox_bounds.
 */
#ifndef PS_SERVER_CORE_MAILBOX_H
#define PS_SERVER_CORE_MAILBOX_H

#include "base/thread.h"
#include "server/core/programs/parcel.h"

struct ps_program_request; /* program_request.h */
struct ps_app;

struct ps_mailbox_bounds {
    uint64_t bytes_max;      /* of requests, and of answers that are kept or on their way */
    uint64_t kept_bytes_max; /* of those, of answers that are kept */
    uint32_t kept_max;       /* answers that are kept */
    uint64_t kept_ms;        /* ... for so long */
    uint32_t apps_max;
    uint32_t requests_max; /* of one app that are not answered */
    uint32_t parties_max;  /* takers of one app; as many senders */
    uint64_t lease_ms;     /* of a taker that names none */
    uint64_t hold_ms;      /* that a request waits for one before it */
};

struct ps_mailbox {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct ps_mailbox_bounds bounds;   /* does not change */
    struct ps_mutex lock;              /* PS_RANK_QUEUE; guards all that follows */
    struct ps_app *apps;               /* by their numbers */
    struct ps_program_request *by_handle;
    struct ps_program_request *by_token;
    struct ps_program_request *kept;          /* ended ones with a token, the oldest first */
    struct ps_program_request *oldest_answer; /* of those, the first that has its answer still */
    uint64_t bytes, kept_bytes;
    uint32_t kept_count;
    uint32_t shard; /* for texts */
    uint32_t life;  /* the upper half of every handle, and the epoch */
    uint32_t made;  /* the lower half of the last handle */
};

/* When something happens: on the service's clock, and since 1970 for stamps. */
struct ps_mailbox_now {
    uint64_t ms, unix_ns;
};

/* `memory` is borrowed. `life` is random. */
void ps_mailbox_init(struct ps_mailbox *mailbox, const struct ps_allocator *memory,
                     const struct ps_mailbox_bounds *bounds, uint32_t life);

/* No call waits any more, and no handler has a request. */
void ps_mailbox_fini(struct ps_mailbox *mailbox);

/* Which shard it is from now on, for texts. */
void ps_mailbox_own(struct ps_mailbox *mailbox, uint32_t shard);

/* The shard was lost: every request fails, PS_ERR_ABORTED "the server of shard I is another one",
 * takers are forgotten, and what comes later is of another life. Handlers stay. Whoever waits is to
 * be told. */
void ps_mailbox_lose(struct ps_mailbox *mailbox, uint32_t life, struct ps_mailbox_now now);

/* Ends what has waited too long: takers, gaps in an order, kept answers. True: whoever waits is to
 * be told. */
bool ps_mailbox_sweep(struct ps_mailbox *mailbox, struct ps_mailbox_now now);

uint64_t ps_mailbox_epoch(struct ps_mailbox *mailbox);

/* ---- Asking ---- */

/* Where a worker wants the content of its answer, and how that memory is let go; of size 0:
 * nowhere. */
struct ps_program_room {
    uint8_t *bytes;
    size_t size;
    void (*drop)(void *kept);
    void *kept;
};

/* The request of one call. Zeroed: none. */
struct ps_asking {
    struct ps_program_request *request; /* a reference */
};

/* Takes `question` and what `room` holds in any case. On PS_OK the call has `*asking`, until
 * ps_mailbox_stop_asking. `*wakes`: takers of the app are to be told.
 *
 * PS_ERR_ABORTED    of another epoch: not carried out here, and `error->session` has the present
 *                   one; or it has come before and its answer is not kept: nobody can say
 * PS_ERR_BUSY       bytes, requests or apps; the text names the app
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_mailbox_ask(struct ps_mailbox *mailbox,
                                          const struct ps_ask_request *ask,
                                          struct ps_parcel *question,
                                          const struct ps_program_room *room,
                                          struct ps_mailbox_now now, struct ps_asking *asking,
                                          bool *wakes, struct ps_error *error);

/* Once for each look of a call. On PS_OK the request has an answer, which does not change any more
 * (ps_asking_answer).
 *
 * PS_ERR_NOT_READY  it is not answered; `is_last`: PS_ERR_TIMEOUT instead, with where it stands,
 *                   and if nobody has taken it, it is gone
 * and whatever status the program answered with, or PS_ERR_ABORTED with who is gone. What is not
 * "aborted" has this life's epoch in `error->session`: a "busy" of the program's own is an answer,
 * which a repeat would only get again
 */
PS_MUST_USE enum ps_status ps_mailbox_await(struct ps_mailbox *mailbox, struct ps_asking *asking,
                                            struct ps_mailbox_now now, bool is_last,
                                            struct ps_error *error);

/* What the reply says; its payload is borrowed from `*parcel` (NULL: there is none), which stays as
 * long as the asking. */
void ps_asking_answer(const struct ps_asking *asking, struct ps_ask_reply *reply,
                      struct ps_parcel **parcel);

/* Where the worker wants the content of the answer; borrowed as long as the asking. */
struct ps_program_room ps_asking_room(const struct ps_asking *asking);

/* The call is over. A request that nobody has taken goes with its last call, unless it has a token,
 * by which its client may ask again within a while. A zeroed one is allowed, which it is
 * afterwards. True: nobody has taken the request, and nobody will. */
bool ps_mailbox_stop_asking(struct ps_mailbox *mailbox, struct ps_asking *asking,
                            struct ps_mailbox_now now);

/* ---- Taking ---- */

/* One request that was taken. */
struct ps_taken_row {
    uint64_t handle;
    bool again;
    struct ps_program_asked asked;
    struct ps_parcel *question; /* a reference */
};

/* A call of a taker. Zeroed: none. */
struct ps_taking {
    uint32_t app;
    uint64_t taker, serial;
    uint32_t *workers;
    size_t worker_count;
    uint32_t max;
    bool partial;
    bool is_in; /* the taker counts it as a call */
    struct ps_taken_row *rows;
    size_t row_count;
};

/* Makes the taker known, or hears of it. A turn that was said before gets what it got then, as far
 * as that is not answered. On PS_OK the call has `*taking`; of a touch or a leave it gets nothing
 * and need not wait. `*wakes`: askers and takers are to be told.
 *
 * PS_ERR_BAD_INPUT  no taker, no turn, or a gang with the same worker twice
 * PS_ERR_ABORTED    the taker has begun a later turn
 * PS_ERR_EXISTS     the app has a handler in the server
 * PS_ERR_BUSY, PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_mailbox_take(struct ps_mailbox *mailbox,
                                           const struct ps_take_request *take,
                                           struct ps_mailbox_now now, struct ps_taking *taking,
                                           bool *wakes, struct ps_error *error);

/* Once for each look. On PS_OK the rows are what was taken: none when the time is over (`is_last`).
 * Of any worker's requests no more is taken than `bytes_max` of content, but for the first.
 *
 * PS_ERR_NOT_READY  nothing, or not the whole gang
 * PS_ERR_CANCELLED  another call of this taker has come
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_mailbox_collect(struct ps_mailbox *mailbox, struct ps_taking *taking,
                                              uint64_t bytes_max, bool is_last,
                                              struct ps_mailbox_now now, struct ps_error *error);

/* The call is over; its rows are given back. What was taken stays the taker's. */
void ps_mailbox_stop_taking(struct ps_mailbox *mailbox, struct ps_taking *taking,
                            struct ps_mailbox_now now);

/* ---- Answering ---- */

struct ps_mailbox_answer {
    uint64_t handle;
    uint64_t taker; /* 0: the handler in this process */
    uint64_t token; /* of the answer: a repeat says the same; 0: repeats are not told from others */
    enum ps_status status;
    struct ps_bytes text;     /* of a failure */
    struct ps_parcel *parcel; /* taken in any case; NULL: a failure, or nothing to say */
    uint64_t room_size;       /* the content lies in the request's room: so many bytes */
};

/* `*wakes`: a call waits for this answer, or gets another now.
 *
 * PS_ERR_EXISTS     it was answered
 * PS_ERR_NOT_FOUND  no such request, any more; or it is another taker's
 */
PS_MUST_USE enum ps_status ps_mailbox_answer(struct ps_mailbox *mailbox,
                                             const struct ps_mailbox_answer *answer,
                                             struct ps_mailbox_now now, bool *wakes);

/* ---- Handlers in this process ---- */

/* From now on the app is this process's. PS_ERR_EXISTS: it has takers or a handler. PS_ERR_BUSY,
 * PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_mailbox_register(struct ps_mailbox *mailbox, uint32_t app,
                                               struct ps_error *error);

/* The next request for the app's handler, as a reference; NULL: there is none, or another thread is
 * about one. The caller calls the handler, releases the reference, and comes again through
 * ps_mailbox_handled. One at a time for an app, so that handlers need no lock. */
struct ps_program_request *ps_mailbox_next(struct ps_mailbox *mailbox, uint32_t app,
                                           struct ps_mailbox_now now);

/* The handler has returned, whether or not it has answered. `*next`: the handle of the next request
 * that waits; 0: none does. True: a call waits for that one. */
bool ps_mailbox_handled(struct ps_mailbox *mailbox, uint32_t app, uint64_t *next);

struct ps_program_request *ps_program_request_acquire(struct ps_mailbox *mailbox,
                                                      struct ps_program_request *request);
void ps_program_request_release(struct ps_mailbox *mailbox, struct ps_program_request *request);

/* ---- Looking ---- */

/* For status: one call of `tell` for each app, with the lock held. */
void ps_mailbox_tell(struct ps_mailbox *mailbox, uint64_t now_ms,
                     void (*tell)(void *self, const struct ps_app_state *state), void *self);

void ps_mailbox_count(struct ps_mailbox *mailbox, uint64_t *apps, uint64_t *bytes);

/* Asserts every invariant. */
void ps_mailbox_check(struct ps_mailbox *mailbox);

#endif
