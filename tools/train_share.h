/* SPDX-License-Identifier: Apache-2.0 */
/* The rows that one worker trains, and their order in each epoch.
 *
 * Shares are alike whatever the order of the file, and no row is in two of them. The order of an
 * epoch depends on seed, number and epoch alone: a worker that begins anew in the middle of a run
 * finds the batch of its step again.
 *
 * Threads:  one share belongs to one thread.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY at init.
 * Memory:   its rows, from init to fini.
 */
#ifndef PS_TOOLS_TRAIN_SHARE_H
#define PS_TOOLS_TRAIN_SHARE_H

#include "base/random.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct ps_train_share {
    size_t *rows; /* owned; numbers of rows, in the order of the epoch */
    size_t row_count;
    uint64_t number, count, seed;
    struct ps_random random;
    uint64_t shuffles; /* so far: one for each epoch that was begun */
};

/* Share `number` of `count`, of a file of `row_count` rows. `share` may be released with fini
 * afterwards in any case. */
PS_MUST_USE enum ps_status ps_train_share_init(struct ps_train_share *share, uint64_t number,
                                               uint64_t count, size_t row_count, uint64_t seed);
void ps_train_share_fini(struct ps_train_share *share);

/* Puts the rows into the order of an epoch. */
void ps_train_share_begin(struct ps_train_share *share, uint64_t epoch);

/* The rows of a step of the epoch, `batch` of them or what is left; 0: none is. */
size_t ps_train_share_batch(const struct ps_train_share *share, uint64_t step, size_t batch,
                            const size_t **rows);

/* Steps of an epoch over so many rows. */
uint64_t ps_train_share_steps(size_t row_count, size_t batch);

#endif
