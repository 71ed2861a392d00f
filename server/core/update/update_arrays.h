/* SPDX-License-Identifier: Apache-2.0 */
/* The arrays of one parameter (its values, then its states) within an update: the version that is
 * read, the version that is made, and the walk over both with a gradient. Private to update.c,
 * which says when an array may be read and written.
 *
 * An update writes in one of two ways. `take` writes in place where nobody else holds a block, and
 * beside it where somebody does; then nothing can be undone, and the whole gradient is applied in
 * one go. `take_new` writes all blocks beside the old ones; then ranges may be applied in any
 * order, by several threads, and all of it may be thrown away.
 *
 * Threads:  the owner serialises; apply_range from several threads, for ranges that do not overlap.
 * Blocking: never; apply may use the threads of the parameter's crew.
 * Errors:   said at each function.
 * Memory:   `from` is borrowed; `to` holds what is new until `put` or `give_back`.
 */
#ifndef PS_SERVER_CORE_UPDATE_ARRAYS_H
#define PS_SERVER_CORE_UPDATE_ARRAYS_H

#include "optimizer/optimizer.h"
#include "proto/messages.h"
#include "server/core/update/gradient_runs.h"
#include "server/core/values/blocks.h"

struct ps_update_arrays {
    struct ps_optimizer_step step; /* the rule's numbers for this update */
    uint64_t version;              /* that is made */
    size_t count;
    struct ps_blocks *from[PS_ARRAYS_MAX];
    struct ps_blocks *to[PS_ARRAYS_MAX]; /* NULL: not taken. The same as `from`: written in place */
};

/* What is read; nothing is taken yet. `states` are as many as the rule of the values has. */
void ps_update_arrays_read(struct ps_update_arrays *arrays, struct ps_blocks *values,
                           struct ps_blocks *const states[PS_STATES_MAX], uint64_t version);

/* False: no memory, and nothing is taken.
 *
 * touched   borrowed; a flag per block: only these will be written. NULL: all
 */
bool ps_update_arrays_take(struct ps_update_arrays *arrays, const bool *touched);
bool ps_update_arrays_take_new(struct ps_update_arrays *arrays);

/* The update comes to nothing: gives back what was taken. Not after ps_update_arrays_apply. */
void ps_update_arrays_give_back(struct ps_update_arrays *arrays);

/* Applies the whole gradient to what `take` took: the blocks that are touched, or all. Scales,
 * indices and elements were checked. */
void ps_update_arrays_apply(const struct ps_update_arrays *arrays, struct ps_gradient gradient,
                            const bool *touched);

/* Applies the gradient of one range, in any encoding but TOP_K, to what `take_new` took; scales
 * were checked. False: an element is not finite where the rule refuses that; then some of the range
 * was written. */
bool ps_update_arrays_apply_range(const struct ps_update_arrays *arrays, struct ps_elements range,
                                  struct ps_gradient gradient);

/* Makes `to` the parameter's arrays; takes its references to `from`. */
void ps_update_arrays_put(struct ps_update_arrays *arrays, struct ps_blocks **values,
                          struct ps_blocks *states[PS_STATES_MAX]);

#endif
