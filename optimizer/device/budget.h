/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a device's memory, counted before any are asked for.
 *
 * Threads:  any; a few atomic operations.
 * Blocking: never.
 * Errors:   PS_ERR_BUSY with needed, free and budget.
 * Memory:   in place.
 */
#ifndef PS_OPTIMIZER_DEVICE_BUDGET_H
#define PS_OPTIMIZER_DEVICE_BUDGET_H

#include "base/status.h"

#include <stdatomic.h>
#include <stdint.h>

/* Every array of a parameter begins at a multiple of this: no kernel has a misaligned path. */
#define PS_DEVICE_ALIGNMENT 256

struct ps_budget {
    uint64_t limit;
    _Atomic uint64_t used;
    _Atomic uint64_t used_max; /* ever */
};

/* The budget when none was asked for: what is free less max(1 GiB, 5 %), or 0. */
uint64_t ps_budget_default(uint64_t free_bytes);

/* Bytes of one array of `count` elements: whole multiples of the alignment, at least one. The
 * count is one that a parameter can have, so that nothing overflows. */
uint64_t ps_budget_array_bytes(uint64_t count, uint64_t element_size);

/* Counts `bytes` in, or says why not and counts nothing. */
PS_MUST_USE enum ps_status ps_budget_reserve(struct ps_budget *budget, uint64_t bytes,
                                             struct ps_error *error);
void ps_budget_release(struct ps_budget *budget, uint64_t bytes);

#endif
