/* SPDX-License-Identifier: Apache-2.0 */
/* SparseSSP(s, k), bounded staleness by keys, after FlexPS: a worker that is further ahead than the
 * staleness s may read all the same, up to k iterations further, when no slower worker is going to
 * update the keys that it reads.
 *
 * Who updates what is known because each worker announces what it reads ahead of time: an iteration
 * updates no keys but those that it has read. An announcement is a read at a later clock, which
 * waits until the worker has come there. It counts from the moment at which it is here until its
 * worker has ended that iteration, also when it was answered long ago.
 *
 * A read at clock c may miss updates of the last s iterations before c, and no others of its keys:
 *   all have ended c - s iterations                     it may go
 *   not all have ended c - s - k                        it waits for that
 *   a slower worker has not said yet what it reads at
 *   one of the clocks up to c - s - 1                   it waits for that
 *   ... or has said one of the keys                     it waits until that iteration is ended
 * What is not known is waited for. So announcements may be lost, by a crash for example: reads then
 * wait as under SSP(s), until workers have said what they read next.
 *
 * Threads:  belongs to whoever calls.
 * Blocking: never.
 * Errors:   each function lists its own; what is refused has changed nothing.
 * Memory:   8 bytes for each announced key and 24 to 48 in a table, as many as the caller has room
 *           for. Beside that 8 bytes for each worker and clock that may be announced.
 */
#ifndef PS_SERVER_CORE_SPARSE_SSP_H
#define PS_SERVER_CORE_SPARSE_SSP_H

#include "base/bytes.h"
#include "server/core/clocks/key_counts.h"
#include "server/core/clocks/worker_progress.h"

struct ps_announcement;

struct ps_sparse_ssp {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct ps_announcement **slots;    /* of each rank one for each clock it may announce; NULL */
    uint32_t ranks;                    /* below this */
    uint64_t staleness;                /* s */
    uint64_t speculation;              /* k */
    size_t key_count;                  /* of all announcements */
    struct ps_key_counts counts;       /* of (key, clock), of all of them */
};

/* What a worker reads at a clock. */
struct ps_sparse_read {
    uint32_t rank;
    uint64_t clock;
    uint64_t table;      /* tells keys of different tables apart */
    struct ps_view keys; /* 64 bits each, lowest byte first; borrowed for the call */
    size_t room;         /* for so many keys, at this shard */
};

void ps_sparse_ssp_init(struct ps_sparse_ssp *sparse, const struct ps_allocator *memory);
void ps_sparse_ssp_fini(struct ps_sparse_ssp *sparse);

/* From here on for these workers and this rule. Announcements stay when only the staleness is
 * another one; else all go, and are made again by the reads that wait. */
void ps_sparse_ssp_configure(struct ps_sparse_ssp *sparse, uint32_t ranks, uint64_t staleness,
                             uint64_t speculation);

/* The worker, which has ended `own` iterations, is going to read these keys. Said again it changes
 * nothing; `*is_new` says which. One read for a clock: of one table, in one message, with no keys
 * where the worker has none at this server.
 *
 * PS_ERR_BAD_INPUT  half a key
 * PS_ERR_MISMATCH   other keys were said for that clock, it is over, or more than k + 1 ahead: one
 *                   is that of a clock that is on its way
 * PS_ERR_BUSY       there is no room for so many keys
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_sparse_ssp_announce(struct ps_sparse_ssp *sparse, uint64_t own,
                                                  const struct ps_sparse_read *read, bool *is_new,
                                                  struct ps_error *error);

/* May the worker, which is in the progress, read at that clock what it has announced for it? A read
 * that was not announced is judged by the staleness alone.
 *
 * PS_OK             now
 * PS_ERR_NOT_READY  the text says for whom or what to wait; ask again when any of these clocks has
 *                   moved, or somebody has announced something
 */
PS_MUST_USE enum ps_status ps_sparse_ssp_read(const struct ps_sparse_ssp *sparse,
                                              const struct ps_progress *progress, uint32_t rank,
                                              uint64_t clock, struct ps_error *error);

/* The worker has ended so many iterations: what it announced for them counts no more. */
void ps_sparse_ssp_clock(struct ps_sparse_ssp *sparse, uint32_t rank, uint64_t clock);

/* The worker is waited for no more: nothing that it has announced counts. */
void ps_sparse_ssp_leave(struct ps_sparse_ssp *sparse, uint32_t rank);

/* Asserts every invariant. */
void ps_sparse_ssp_check(const struct ps_sparse_ssp *sparse);

#endif
