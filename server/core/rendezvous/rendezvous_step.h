/* SPDX-License-Identifier: Apache-2.0 */
/* One step: an unbounded number of channels, each named by a key. A channel has a queue of values
 * that nobody has received yet, or of receives that nothing was sent for yet, never both: whoever
 * comes second completes the pair.
 *
 *   value:    queued ──a receive comes──► the receive's ──done with it──► gone
 *               ▲                              │
 *               └──given back, to the front────┘
 *   receive:  waiting ──a value comes──► has one ──done, or given back──► over
 *               └──its last call leaves──► gone
 *
 * In a strict step (TensorFlow's of before) a key is good for one send and one receive. The mode of
 * a step that nobody has begun yet is the queue, and what waits then is kept when it begins.
 *
 * Private to rendezvous.c, which has the lock.
 *
 * Threads:  with the lock of the rendezvous held.
 * Blocking: never.
 * Errors:   each function lists its own; what is refused has changed nothing.
 * Memory:   bounded by the rendezvous's bounds; values count from their coming until nobody can
 *           receive them any more.
 */
#ifndef PS_SERVER_CORE_RENDEZVOUS_STEP_H
#define PS_SERVER_CORE_RENDEZVOUS_STEP_H

#include "base/status.h"
#include "server/core/rendezvous/held_value.h"

/* uthash takes its memory from `memory`, which is in scope wherever an entry comes or goes, and a
 * refusal leaves the table as it was and sets `refused`. */
#define HASH_NONFATAL_OOM 1
#define uthash_malloc(size) ps_plain(memory, (size))
#define uthash_free(pointer, size) ps_release(memory, (pointer))
#define uthash_nonfatal_oom(entry) (refused = true)
#include <uthash.h>

#define PS_STEP_SESSION_BYTES_MAX 64
#define PS_STEP_TEXT_BYTES 200

struct ps_step_receive;

/* A channel. A queue of a strict step stays until the step ends, and remembers what came. */
struct ps_step_queue {
    UT_hash_handle hh;
    struct ps_held_value *values;    /* owned; the first to be received first */
    struct ps_step_receive *waiting; /* borrowed from the step; the first to be served first */
    uint32_t held;                   /* receives that have a value of this key */
    bool was_sent, was_received;     /* which a strict step allows once */
    size_t key_size;
    char key[];
};

/* A receive of a step, by the client's number for it. */
struct ps_step_receive {
    UT_hash_handle hh;                   /* of the step, by the id */
    struct ps_step_receive *next, *prev; /* among those that wait for this key */
    uint64_t id;
    struct ps_step_queue *queue; /* NULL once it is over */
    struct ps_held_value *value; /* owned; NULL: it waits, or is over */
    uint32_t calls;              /* that wait with it, or have yet to look */
    enum ps_status over;         /* PS_OK: it is not */
};

/* A value that comes in parts, by its sender's token. It is the step's, and nobody's to receive,
 * until it is whole. */
struct ps_step_staged {
    UT_hash_handle hh;
    uint64_t token;
    struct ps_held_value *value; /* owned; counted with all its bytes */
    uint64_t touched_ms;         /* when its last part came */
    size_t key_size;
    char key[];
};

/* Sums over all steps, and what they may come to. */
struct ps_rendezvous_bounds {
    uint64_t bytes_max;      /* values of all steps */
    uint64_t step_bytes_max; /* of one step */
    uint32_t steps_max;
    uint32_t step_entries_max; /* keys and receives of one step */
    uint64_t lifetime_ms;      /* of a step that does not say its own */
};

struct ps_step {
    const struct ps_allocator *memory;         /* borrowed; outlives this */
    const struct ps_rendezvous_bounds *bounds; /* borrowed; outlives this */
    uint64_t *bytes_of_all;                    /* borrowed; outlives this */
    UT_hash_handle hh;                         /* of the rendezvous, by the id */
    uint64_t id;
    uint64_t epoch;                   /* no other step, of any life of the shard, has it */
    struct ps_step_queue *queues;     /* by their keys */
    struct ps_step_receive *receives; /* that are not over */
    struct ps_step_staged *staged;    /* values that are not whole yet */
    uint64_t bytes;
    bool has_begun, is_strict, was_sent_to;
    char session[PS_STEP_SESSION_BYTES_MAX + 1]; /* that began it */
    uint64_t lifetime_ms, touched_ms;
    enum ps_status status; /* PS_OK: not aborted */
    char text[PS_STEP_TEXT_BYTES];
    uint32_t references; /* of the table of steps, and of calls */
};

/* NULL when memory was refused. One reference, for the caller. */
struct ps_step *ps_step_create(const struct ps_allocator *memory,
                               const struct ps_rendezvous_bounds *bounds, uint64_t *bytes_of_all,
                               uint64_t id, uint64_t epoch);

/* Takes a reference; with the last one, the step. */
void ps_step_release(struct ps_step *step);

/* Takes `value` on PS_OK. `*wakes`: a receive got it.
 *
 * PS_ERR_ABORTED      "Duplicated send: KEY" (strict), or the status of the step that was aborted
 * PS_ERR_BUSY         bytes, or keys; the text names the step
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_step_send(struct ps_step *step, struct ps_bytes key,
                                        struct ps_held_value *value, bool *wakes,
                                        struct ps_error *error);

/* A part of a value: what all parts say, and this one. */
struct ps_step_part {
    struct ps_bytes key; /* borrowed, as the facts */
    uint64_t token;      /* not 0 */
    const struct ps_value_facts *facts;
    uint64_t total, offset;
    struct ps_held_value *bytes;
};

/* Takes part->bytes when `*is_taken` is set. `*is_whole`: all parts are there, and the value went
 * to a receive (`*wakes`) or into its queue. A part that came before is PS_OK and not taken.
 *
 * PS_ERR_BAD_INPUT    it overlaps another part, or is of another key or length than those before
 * and as for a send: then the parts that came stay, and the same part may come again.
 */
PS_MUST_USE enum ps_status ps_step_send_part(struct ps_step *step, const struct ps_step_part *part,
                                             bool *is_taken, bool *is_whole, bool *wakes,
                                             struct ps_error *error);

/* Values that are not whole, and of which no part came for so long, are let go: their sender is
 * dead, or will send all parts again. */
#define PS_STEP_STAGED_MS ((uint64_t)60 * 1000)
void ps_step_sweep_staged(struct ps_step *step, uint64_t now_ms);

/* Drops every value that is not whole. */
void ps_step_clear_staged(struct ps_step *step);

/* What a key counts for beside its values, and a value that is not whole with its own. */
uint64_t ps_step_key_bytes(size_t key_size);
uint64_t ps_step_staged_bytes(const struct ps_step_staged *staged);

/* Keys, receives and staged values are as many as there may be: PS_ERR_BUSY. */
PS_MUST_USE enum ps_status ps_step_check_entries(const struct ps_step *step,
                                                 struct ps_error *error);

/* So many bytes more would be too many: PS_ERR_BUSY, which names the step. */
PS_MUST_USE enum ps_status ps_step_check_bytes(const struct ps_step *step, uint64_t bytes,
                                               struct ps_error *error);

/* Was a value of this key sent, in a strict step? PS_ERR_ABORTED "Duplicated send: KEY". */
PS_MUST_USE enum ps_status ps_step_check_first_send(const struct ps_step *step, struct ps_bytes key,
                                                    struct ps_error *error);

/* Has the receive of this id a value? Ranges beyond the first are asked for only then. */
bool ps_step_has_value(const struct ps_step *step, uint64_t id);

/* A call comes with a receive, which it leaves with ps_step_leave. One that is there under this id
 * is the same: whatever it has got it still has.
 *
 * PS_ERR_ABORTED      "Duplicated recv: KEY" (strict), or the status of the step
 * PS_ERR_BAD_INPUT    the id is a receive's of another key
 * PS_ERR_BUSY, PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_step_receive(struct ps_step *step, uint64_t id, struct ps_bytes key,
                                           struct ps_step_receive **receive,
                                           struct ps_error *error);

/* The call is over. A receive that still waits, and that no other call waits with, is gone; one
 * that has a value keeps it. */
void ps_step_leave(struct ps_step *step, struct ps_step_receive *receive);

/* The receive is over, and its value with it; a value that is given back goes to the next receive
 * that waits (then `*wakes`), or to the front of its queue. An id that is nobody's changes
 * nothing. */
void ps_step_done(struct ps_step *step, uint64_t id);
void ps_step_give_back(struct ps_step *step, uint64_t id, bool *wakes);

/* The receive is over, unless it has a value: then it keeps that, and this returns false. `*wakes`:
 * somebody waits with it. */
PS_MUST_USE bool ps_step_cancel(struct ps_step *step, uint64_t id, bool *wakes);

/* The step begins, in this mode: receives that wait are kept.
 *
 * PS_ERR_MISMATCH   another session has begun it, or this one in another mode ("Double init"); or
 *                   it is to be strict, and something was sent before
 * PS_ERR_BAD_INPUT  the name is empty or too long
 * and the status of a step that was aborted.
 */
PS_MUST_USE enum ps_status ps_step_begin(struct ps_step *step, struct ps_bytes session,
                                         bool is_strict, uint64_t lifetime_ms, bool *wakes,
                                         struct ps_error *error);

/* The first status stays. Values are dropped, and whoever waits is to be told. `status` is not
 * PS_OK. */
void ps_step_abort(struct ps_step *step, enum ps_status status, const char *text);

/* PS_OK, or the status and text that the step was aborted with. */
PS_MUST_USE enum ps_status ps_step_status(const struct ps_step *step, struct ps_error *error);

/* Of receives that wait for one key all but the first are over, PS_ERR_ABORTED: a strict step would
 * have refused them. `*wakes`: there were such. */
void ps_step_keep_first_receives(struct ps_step *step, bool *wakes);

/* Every receive is over, and every value dropped. Receives that calls have stay theirs. */
void ps_step_clear(struct ps_step *step);

/* Asserts every invariant. */
void ps_step_check(const struct ps_step *step);

#endif
