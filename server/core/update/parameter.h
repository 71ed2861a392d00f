/* SPDX-License-Identifier: Apache-2.0 */
/* One parameter: its values, its optimizer's state, and the lock under which both change. Both lie
 * in blocks of the host's memory, or in that of a device (device_store.h).
 *
 * Threads:  push and hold from any thread; create, set and destroy by whoever owns it alone.
 * Blocking: push waits for other pushes of the same parameter, hold as well. On a device push may
 *           wait for it when it is far behind; set and hold_values do.
 * Errors:   said at each function.
 * Memory:   the parameter owns one reference of each array. What hold gives belongs to the caller.
 */
#ifndef PS_SERVER_CORE_PARAMETER_H
#define PS_SERVER_CORE_PARAMETER_H

#include "base/bounds.h"
#include "base/let_by.h"
#include "base/status.h"
#include "base/thread.h"
#include "server/core/update/device_store.h"
#include "server/core/update/gradient_runs.h"
#include "server/core/values/blocks.h"
#include "server/core/values/journal_queue.h"
#include "server/core/values/parameter_spec.h"

#include <stdatomic.h>

struct ps_contributions;
struct ps_row_expiry;
struct ps_row_hold;
struct ps_row_table;

struct ps_parameter {
    struct ps_mutex lock; /* PS_RANK_PARAMETER; guards all that follows but spec */
    /* Pushes go before a sweep that has the lock piece by piece (requests/expire_rows.c). */
    struct ps_let_by pushes;
    struct ps_parameter_spec *spec;
    /* Owned; NULL: not trained in rounds. It has a lock of its own, and is exchanged with the cut
     * held alone. */
    struct ps_contributions *rounds;
    /* Position of the configuration with which its rounds ended, 0: none did here. Versions that
     * they made are told when that is durable. Changed with the cut held alone. */
    uint64_t rounds_ended_at;
    struct ps_resident resident; /* on a device; its store is NULL, and stays so, on the host */
    struct ps_blocks *values;    /* NULL on a device, as all states are */
    struct ps_blocks *states[PS_STATES_MAX]; /* as many as the rule has, then NULL */
    struct ps_row_table *rows;    /* of a table, instead of values and states; NULL: it is none */
    uint64_t row_bytes;           /* of `rows`, as they count in the spec's row_room */
    uint64_t row_count;           /* the same of the rows themselves */
    uint64_t seated_count;        /* those of them whose bodies are on a device */
    uint64_t candidate_count;     /* and of the keys that are counted until they get one */
    struct ps_row_expiry *expiry; /* owned; of a table. Of the one thread that sweeps */
    _Atomic uint64_t row_version; /* the version that readers of rows see; no lock */
    uint64_t version;             /* pushes applied */
    uint64_t step;                /* steps of the optimizer; a skipped push is none */
    atomic_size_t updating; /* bytes that a push is at work on, with the lock; 0: none is. Read
                               without it, by who can do something else meanwhile */
    _Atomic uint32_t early_pause; /* pushes in ranges that begin no early update; without the lock
                                     (update.h) */
};

/* One version of a parameter, held. */
struct ps_parameter_version {
    struct ps_parameter_spec *spec;
    struct ps_blocks *values;
    struct ps_blocks *states[PS_STATES_MAX];
    struct ps_device_store *store; /* on a device, instead of the blocks */
    struct ps_device_snapshot *snapshot;
    struct ps_row_hold *rows; /* of a table, instead of the blocks */
    uint64_t version;
    uint64_t step;
};

/* Returns a parameter whose values are undefined and whose states have their start values, or NULL
 * when memory is refused. `spec` is borrowed; a reference of its own is taken. */
struct ps_parameter *ps_parameter_create(struct ps_parameter_spec *spec);

/* The same with undefined states, for a caller that fills them: writing them twice costs. */
struct ps_parameter *ps_parameter_create_blank(struct ps_parameter_spec *spec);

/* Takes `resident`, which was placed for `spec`: the parameter lives on that device. NULL when
 * memory is refused; then `resident` is still the caller's. */
struct ps_parameter *ps_parameter_create_resident(struct ps_parameter_spec *spec,
                                                  const struct ps_resident *resident);

void ps_parameter_destroy(struct ps_parameter *parameter);

/* Fixed for the life of a parameter; needs no lock. */
bool ps_parameter_on_device(const struct ps_parameter *parameter);

/* Gives the values; `content` has exactly their size. Before the parameter is shared. On the host
 * it cannot fail; on a device PS_ERR_UNAVAILABLE. */
PS_MUST_USE enum ps_status ps_parameter_set(struct ps_parameter *parameter, struct ps_view content,
                                            struct ps_error *error);

/* What must be waited for before the pushes so far may be acknowledged; 0 on the host. */
struct ps_device_due ps_parameter_due(struct ps_parameter *parameter);

/* The present one, which may be old when this returns. */
uint64_t ps_parameter_version(struct ps_parameter *parameter);

/* The contributions that the parameter has under `spec`, its own or one that it shall have:
 * `*rounds` becomes its own where the number of workers is the same, else new ones, or NULL without
 * rounds. With the cut held alone; ps_parameter_take_rounds follows, or ps_contributions_destroy of
 * those that are not its own.
 *
 * PS_ERR_MISMATCH    a round is open, and would have other workers
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_parameter_rounds_under(const struct ps_parameter *parameter,
                                                     const struct ps_parameter_spec *spec,
                                                     struct ps_contributions **rounds,
                                                     struct ps_error *error);

/* Takes them; those that the parameter had, if they are others, go. */
void ps_parameter_take_rounds(struct ps_parameter *parameter, struct ps_contributions *rounds);

/* Bytes of the contributions that wait. With the cut held alone. */
uint64_t ps_parameter_held_bytes(const struct ps_parameter *parameter);

/* Returns a reference to the present values; end it with ps_blocks_release. On the host it cannot
 * fail, and `*ready` is 0; on a device what ps_resident_look says. */
PS_MUST_USE enum ps_status ps_parameter_hold_values(struct ps_parameter *parameter,
                                                    struct ps_blocks **values, uint64_t *version,
                                                    struct ps_device_due *ready,
                                                    struct ps_error *error);

/* Of one on a device: has that copy the present values to `to`, in memory of another process which
 * it has imported and which has room for them. They are there when `*ready` is done. */
PS_MUST_USE enum ps_status ps_parameter_copy_out(struct ps_parameter *parameter, uint8_t *to,
                                                 uint64_t *version, struct ps_device_due *ready,
                                                 struct ps_error *error);

/* The same with the states; end it with ps_parameter_version_release. On a device it is a snapshot
 * (optimizer/device.h), whose memory has to be there already: `held` is as
 * ps_parameter_hold_reserve left it. On the host it may be anything. PS_ERR_UNAVAILABLE: the
 * device. After a failure `held` is zeroed. */
PS_MUST_USE enum ps_status ps_parameter_hold(struct ps_parameter *parameter,
                                             struct ps_parameter_version *held,
                                             struct ps_error *error);

/* Gets the memory that ps_parameter_hold will need; needs no lock. `held` is ended in the same way,
 * whether anything was held or not. PS_ERR_NO_MEMORY, PS_ERR_UNAVAILABLE: `held` is zeroed. */
PS_MUST_USE enum ps_status ps_parameter_hold_reserve(struct ps_parameter *parameter,
                                                     struct ps_parameter_version *held,
                                                     struct ps_error *error);
void ps_parameter_version_release(struct ps_parameter_version *held);

/* Of a version on the host: gives the values and states back now, and the rest with the release. */
void ps_parameter_version_release_arrays(struct ps_parameter_version *held);

/* Bytes of the host's memory that count for it: values and states, or on a device the values, of
 * which readers need a copy. */
uint64_t ps_parameter_host_bytes(const struct ps_parameter *parameter);

/* The same before there is a parameter: of so many arrays on the host. */
uint64_t ps_parameter_spec_host_bytes(const struct ps_parameter_spec *spec, uint32_t array_count);

/* How many state arrays the parameter has. */
uint32_t ps_parameter_state_count(const struct ps_parameter *parameter);

/* Asserts every invariant. */
void ps_parameter_check(struct ps_parameter *parameter);

#endif
