/* SPDX-License-Identifier: Apache-2.0 */
/* The rendezvous of a shard: values that processes hand to each other by step and key. Steps are
 * found or made by their number; what happens within one is rendezvous_step.h's to say.
 *
 * It is volatile on purpose: a value that nobody has received is lost with the shard. Each step has
 * an epoch that no other step has, of any server: whoever names the epoch that it was told first is
 * told PS_ERR_ABORTED when the step was cleaned up since, or when another server has the shard.
 *
 * A send says a token, the same in each repeat; the last tokens are remembered, and a repeat is
 * answered PS_OK and adds nothing. A receive says an id, and the value that it gets is that
 * receive's until it says that it is done with it: who asks again under the id gets it again. So a
 * reply that is lost neither loses a value nor consumes two. A receive that names no epoch is of
 * the step in which it came first: behind the end of that one a copy of it is PS_ERR_ABORTED, too.
 *
 * Threads:  every function is safe from any thread.
 * Blocking: never.
 * Errors:   each function lists its own; what is refused has changed nothing.
 * Memory:   bounded by struct ps_rendezvous_bounds, and 3 * 24 bytes for each of
 *           PS_RENDEZVOUS_RECENT_MAX numbers.
 */
#ifndef PS_SERVER_CORE_RENDEZVOUS_H
#define PS_SERVER_CORE_RENDEZVOUS_H

#include "base/thread.h"
#include "server/core/rendezvous/recent_ids.h"
#include "server/core/rendezvous/rendezvous_step.h"

#define PS_RENDEZVOUS_RECENT_MAX (128 * 1024)

struct ps_rendezvous {
    const struct ps_allocator *memory;  /* borrowed; outlives this */
    struct ps_rendezvous_bounds bounds; /* does not change */
    struct ps_mutex lock;               /* PS_RANK_QUEUE; guards all that follows */
    struct ps_step *steps;              /* by their numbers */
    uint64_t bytes;                     /* of the values of all steps */
    uint32_t shard;                     /* for texts */
    uint32_t life;                      /* the upper half of every epoch of this life */
    uint32_t steps_made;                /* the lower half of the last */
    struct ps_recent_ids sent;          /* tokens of sends */
    struct ps_recent_ids over;          /* receives that are done with, or gave back */
    struct ps_recent_ids unfenced;      /* receives that named no epoch, and each in its step */
};

/* For which step a request is, and when. */
struct ps_rendezvous_of {
    uint64_t step;
    uint64_t epoch; /* that the caller was told first; 0: it was told none yet */
    uint64_t now_ms;
};

/* What became of a wish: a value, a failure of its own, or nothing yet. */
struct ps_received {
    uint64_t id;
    struct ps_step_receive *receive; /* borrowed from the step; NULL: left, or never there */
    struct ps_held_value *value;     /* a reference; NULL: none was collected */
    enum ps_status status;           /* PS_ERR_NOT_READY: nothing was there */
    uint64_t offset, count;          /* of the value: as wished, and as collected */
};

/* The receives of one call. Zeroed: none. */
struct ps_receiving {
    struct ps_step *step; /* a reference; NULL: the call has left */
    struct ps_received *rows;
    size_t count;
    uint64_t epoch;       /* of the step */
    uint64_t range_bytes; /* most of one value; 0: values come whole */
};

/* What a call is about to ask in one go. */
struct ps_rendezvous_asked {
    const struct ps_rendezvous_wish *wishes;
    size_t wish_count; /* at most PS_RENDEZVOUS_WISHES_MAX */
    const uint64_t *done_with;
    size_t done_count;
    const uint64_t *give_back;
    size_t give_back_count;
    const uint64_t *cancel; /* that are to wait no more, and keep what they have */
    size_t cancel_count;
    uint64_t range_bytes; /* most of one value in the reply; 0: values come whole */
};

/* `memory` is borrowed. `life` is random: the first of the epochs. */
void ps_rendezvous_init(struct ps_rendezvous *rendezvous, const struct ps_allocator *memory,
                        const struct ps_rendezvous_bounds *bounds, uint32_t life);

/* No call has receives any more. */
void ps_rendezvous_fini(struct ps_rendezvous *rendezvous);

/* Which shard it is from now on, for texts. */
void ps_rendezvous_own(struct ps_rendezvous *rendezvous, uint32_t shard);

/* The shard was lost: every step ends, PS_ERR_ABORTED "step N: the server of shard I is another
 * one", and what comes later is of another life. Whoever waits is to be told. */
void ps_rendezvous_lose(struct ps_rendezvous *rendezvous, uint32_t life);

/* What a sender brings: a value, or a part of one. */
struct ps_rendezvous_sent {
    struct ps_bytes key;
    uint64_t token;              /* 0: repeats are not told from others, and there are no parts */
    uint64_t total, offset;      /* of a part; total 0: the value is all of it */
    struct ps_held_value *value; /* with the facts of the whole */
};

/* Takes `sent->value` in any case. `*wakes`: a receive that waits has got it. `*epoch` is written
 * on PS_OK. `*is_whole`: all of the value is there, by this or before.
 *
 * PS_ERR_ABORTED    the step is not the one that the caller knew, was aborted, or is strict and has
 *                   had a send of this key
 * PS_ERR_BAD_INPUT  the key is empty or too long; parts that are not of one value, or that have no
 *                   token
 * PS_ERR_BUSY       bytes, keys or steps; the text names the step
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_rendezvous_send(struct ps_rendezvous *rendezvous,
                                              const struct ps_rendezvous_of *of,
                                              const struct ps_rendezvous_sent *sent,
                                              uint64_t *epoch, bool *is_whole, bool *wakes,
                                              struct ps_error *error);

/* Ends and gives back receives, then comes with those that are wished for. On PS_OK the call has
 * `*receiving`, to be collected and then released. A wish that is refused by itself (a second
 * receive of a strict step, a receive that is over) has its status in its row, and refuses no
 * other. `*wakes` is set also when the call is refused: what was given back stays given back.
 *
 * PS_ERR_ABORTED, PS_ERR_BAD_INPUT, PS_ERR_BUSY, PS_ERR_NO_MEMORY  as for a send
 */
PS_MUST_USE enum ps_status ps_rendezvous_receive(struct ps_rendezvous *rendezvous,
                                                 const struct ps_rendezvous_of *of,
                                                 const struct ps_rendezvous_asked *asked,
                                                 struct ps_receiving *receiving, bool *wakes,
                                                 struct ps_error *error);

/* Once for each look of a call. On PS_OK the rows have what is there, of `bytes_max` bytes of
 * content and one value at least, and the call has left: what was not collected waits for another
 * call under its id, or waits no more. `is_last`: the call waits no longer, whatever there is.
 *
 * PS_ERR_NOT_READY  fewer than `wanted` are there
 * PS_ERR_ABORTED    or the status that the step was aborted with; the call has left
 */
PS_MUST_USE enum ps_status ps_rendezvous_collect(struct ps_rendezvous *rendezvous,
                                                 struct ps_receiving *receiving, size_t wanted,
                                                 uint64_t bytes_max, bool is_last,
                                                 struct ps_error *error);

/* Leaves, if the call has not left yet, and gives the rows and their values back. A zeroed one is
 * allowed, which it is afterwards. */
void ps_rendezvous_release(struct ps_rendezvous *rendezvous, struct ps_receiving *receiving);

/* As ps_step_begin, of a step that is found or made. `lifetime_ms` 0: the server's own. */
PS_MUST_USE enum ps_status ps_rendezvous_begin(struct ps_rendezvous *rendezvous,
                                               const struct ps_rendezvous_of *of,
                                               struct ps_bytes session, bool is_strict,
                                               uint64_t lifetime_ms, uint64_t *epoch, bool *wakes,
                                               struct ps_error *error);

/* The step is aborted, with PS_ERR_ABORTED or PS_ERR_INTERNAL: the first one stays. One that is not
 * there is made, so that whoever comes later hears of it. Its waiting calls are to be told. */
PS_MUST_USE enum ps_status ps_rendezvous_abort(struct ps_rendezvous *rendezvous,
                                               const struct ps_rendezvous_of *of,
                                               enum ps_status status, const char *text,
                                               uint64_t *epoch, struct ps_error *error);

/* The step ends, PS_ERR_ABORTED "Cleanup N" for whoever waits. PS_OK also when there is none. */
void ps_rendezvous_cleanup(struct ps_rendezvous *rendezvous, uint64_t step);

/* Every step ends, PS_ERR_ABORTED "Shutdown". */
void ps_rendezvous_cleanup_all(struct ps_rendezvous *rendezvous);

/* Lets go of values that do not become whole, and ends the steps that nobody has touched for their
 * lifetime. True: there were such, and whoever
 * waits is to be told. */
bool ps_rendezvous_sweep(struct ps_rendezvous *rendezvous, uint64_t now_ms);

/* How much there is. */
void ps_rendezvous_look(struct ps_rendezvous *rendezvous, uint64_t *steps, uint64_t *bytes);

/* Asserts every invariant. */
void ps_rendezvous_check(struct ps_rendezvous *rendezvous);

#endif
