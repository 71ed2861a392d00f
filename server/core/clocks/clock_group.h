/* SPDX-License-Identifier: Apache-2.0 */
/* The clocks of one name: how far its workers are, which of them nobody waits for, and when one of
 * them may read.
 *
 * Whatever changes is one record first: ps_clock_group_say or ps_clock_group_overdue says which,
 * the caller writes it down, ps_clock_group_apply makes it true. Replay of the journal begins at
 * the last of the three, so that state and journal cannot differ.
 *
 * A worker that was evicted comes back with its next clock. When the others have gone on meanwhile
 * it stands with the slowest of them from then on, and is told so: whoever wants to wait for what a
 * straggler has missed does not evict. So the minimum never falls.
 *
 * Clocks may go through tasks, each with a higher number than the one before: with a task other
 * workers take part, and all of them stand at one clock again. Whatever was said in an earlier task
 * is refused by its number.
 *
 * Threads:  belongs to whoever calls.
 * Blocking: never; the time is passed in.
 * Errors:   each function lists its own; what is refused has changed nothing.
 * Memory:   one allocation for the group, and about 50 bytes for each worker.
 */
#ifndef PS_SERVER_CORE_CLOCK_GROUP_H
#define PS_SERVER_CORE_CLOCK_GROUP_H

#include "base/bytes.h"
#include "checkpoint/journal_clocks.h"
#include "server/core/clocks/consistency.h"
#include "server/core/clocks/sparse_ssp.h"

/* The numbers are those of the wire and of the journal. */
enum ps_straggler { PS_STRAGGLER_WAIT, PS_STRAGGLER_EVICT, PS_STRAGGLER_COUNT };

_Static_assert(PS_CONSISTENCY_COUNT - 1 == PS_CLOCKS_CONSISTENCY_MAX, "the journal has them all");
_Static_assert(PS_STRAGGLER_COUNT - 1 == PS_CLOCKS_STRAGGLER_MAX, "the journal has them all");

struct ps_clock_worker {
    uint64_t heard_ms;       /* when it was heard of last; a recovery is a sign of life */
    uint64_t waits_since_ms; /* in a pull; 0: it does not */
    uint64_t position;       /* of the record that says its clock; 0: none does */
    uint64_t left_clock;     /* of an evicted one: its clock. The others' are in `progress` */
    bool is_evicted;
};

struct ps_clock_group {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct ps_clock_group *next;       /* in the table, clocks.h */
    struct ps_clocks_record settings;
    uint64_t position;               /* of the record that has the settings */
    struct ps_progress progress;     /* of those that are waited for */
    struct ps_sparse_ssp sparse;     /* of SparseSSP; volatile: of no record and no checkpoint */
    struct ps_clock_worker *workers; /* by rank; room for as many as `progress` has */
    uint32_t capacity;
    uint64_t evictions; /* that were decided in this process */
    size_t name_size;
    char name[PS_CLOCKS_NAME_BYTES_MAX];
};

/* What a worker reads at a clock. */
struct ps_clock_read {
    uint32_t rank;
    uint64_t clock;
    bool is_sparse; /* rows of a table, by these keys; of another model than SparseSSP: no matter */
    uint64_t table; /* as struct ps_sparse_read has these three */
    struct ps_view keys;
    size_t room;
};

/* What a look at a read has found. */
struct ps_clock_look {
    bool announces;     /* it has said what it reads, which others may wait for */
    uint64_t needed;    /* minimum that the read waits for; 0: it waits for its own worker */
    uint64_t staleness; /* iterations of the slowest that the read may miss */
    uint64_t again_ms;  /* when to look again whatever happens, at least 1; 0: need not be */
};

/* PS_ERR_BAD_INPUT  no workers or too many, or a number that has no meaning; the text says which
 */
PS_MUST_USE enum ps_status ps_clock_settings_check(const struct ps_clocks_record *settings,
                                                   struct ps_error *error);
bool ps_clock_settings_equal(const struct ps_clocks_record *one,
                             const struct ps_clocks_record *other);

/* What the group's settings are to be when these are asked for: whether a task begins by them is
 * said here. `asked->task` 0: the present one goes on.
 * PS_ERR_MISMATCH  the clocks are in a later task */
PS_MUST_USE enum ps_status ps_clock_group_settle(const struct ps_clock_group *group,
                                                 const struct ps_clocks_record *asked,
                                                 struct ps_clocks_record *settings,
                                                 struct ps_error *error);

/* Without workers: ps_clock_group_configure follows. `name` has at most PS_CLOCKS_NAME_BYTES_MAX
 * bytes. On PS_OK the group is the caller's, to be ended with destroy. PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_clock_group_create(const struct ps_allocator *memory,
                                                 struct ps_bytes name,
                                                 struct ps_clock_group **group,
                                                 struct ps_error *error);
void ps_clock_group_destroy(struct ps_clock_group *group);

struct ps_bytes ps_clock_group_name(const struct ps_clock_group *group);

/* Room for so many workers: the next two cannot fail then. PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_clock_group_reserve(struct ps_clock_group *group, uint32_t workers,
                                                  struct ps_error *error);

/* Ranks that come begin at the present minimum, those that are beyond go; when a task begins, all
 * begin at its clock. Settings that were checked, of as many workers as there is room for. */
void ps_clock_group_configure(struct ps_clock_group *group, const struct ps_clocks_record *settings,
                              uint64_t now_ms);

/* The worker has the clock that the record says, and is waited for or not. Of a rank that is
 * there. */
void ps_clock_group_apply(struct ps_clock_group *group, const struct ps_clock_record *record,
                          uint64_t now_ms);

/* What becomes of the worker that says this clock. False: nothing changes, it is only heard of.
 * Of a rank that is there. */
bool ps_clock_group_say(struct ps_clock_group *group, uint32_t rank, uint64_t clock,
                        uint64_t now_ms, struct ps_clock_record *becomes);

/* May the worker read at that clock? It is heard of by asking.
 *
 * PS_OK             now; look->staleness is set
 * PS_ERR_NOT_READY  not yet: `*look` says for what, the text for whom and how long that is silent
 * PS_ERR_NOT_FOUND  there is no such worker
 * PS_ERR_MISMATCH   as ps_consistency_read
 * and of a sparse read what ps_sparse_ssp_announce says.
 */
PS_MUST_USE enum ps_status ps_clock_group_read(struct ps_clock_group *group,
                                               const struct ps_clock_read *read, uint64_t now_ms,
                                               struct ps_clock_look *look, struct ps_error *error);

/* Is the worker that holds the minimum to be evicted? Asked while a read waits. */
bool ps_clock_group_overdue(const struct ps_clock_group *group, uint64_t now_ms,
                            struct ps_clock_record *becomes);

/* Is the rank one that takes part? */
bool ps_clock_group_has(const struct ps_clock_group *group, uint32_t rank);

/* PS_ERR_NOT_FOUND, with the reason, for a rank that takes no part. */
enum ps_status ps_clock_group_fail_absent(const struct ps_clock_group *group, uint32_t rank,
                                          struct ps_error *error);

/* Of a rank that is there. */
uint64_t ps_clock_group_clock(const struct ps_clock_group *group, uint32_t rank);
uint64_t ps_clock_group_silent_ms(const struct ps_clock_group *group, uint32_t rank,
                                  uint64_t now_ms);

/* Iterations that all have ended who are waited for; when nobody is, what the last of them had. It
 * never falls while the workers stay the same. */
uint64_t ps_clock_group_minimum(const struct ps_clock_group *group);

/* Asserts every invariant. */
void ps_clock_group_check(const struct ps_clock_group *group);

#endif
