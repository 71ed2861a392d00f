/* SPDX-License-Identifier: Apache-2.0 */
/* Applies the pairs of a TOP_K gradient to the elements that they name, and touches no other.
 *
 * Threads:  as safe as the memory it is given.
 * Blocking: never.
 * Errors:   none.
 * Memory:   nothing is allocated.
 */
#ifndef PS_SERVER_CORE_SPARSE_APPLY_H
#define PS_SERVER_CORE_SPARSE_APPLY_H

#include "optimizer/optimizer.h"
#include "server/core/update/gradient_pairs.h"

/* Applies to elements [first, first + count) all pairs that name one of them and were not given
 * yet. The bits are those of applying each by itself.
 *
 * arrays   where element `first` of each array lies; `array_count` are set
 */
void ps_sparse_apply(const struct ps_optimizer_step *step, uint64_t first, uint64_t count,
                     void *const arrays[PS_ARRAYS_MAX], size_t array_count,
                     struct ps_gradient_pairs *pairs);

#endif
