/* SPDX-License-Identifier: Apache-2.0 */
/* One gradient becomes the next version of a parameter: begin, apply what there is of it, commit.
 *
 *     struct ps_update update;
 *     (void)ps_update_begin(&update, parameter, PS_UPDATE_WHOLE);
 *     status = ps_update_apply(&update, all, gradient, error);
 *     if (status == PS_OK)
 *         status = ps_update_commit(&update, place, &version, error);
 *     ps_update_end(&update);
 *
 * Everything that can fail comes before the push has its place in the journal's order, and what
 * cannot be undone comes behind it. So a push that is refused has changed nothing, and one that has
 * its place is applied. Between these two an update goes one of two ways:
 *
 *   WHOLE   apply takes all of the gradient and looks at it, without a lock. Commit takes the
 *           parameter's lock, prepares the step, looks for overflow, gets memory for blocks that
 *           somebody reads, takes the place, and does the arithmetic: in place where nobody reads.
 *   EARLY   apply takes a range while it is in the cache and does the arithmetic at once: the
 *           values and states of the version that begin found, and the range, in; new blocks out,
 *           which nobody sees. Commit takes the lock and the place and exchanges all blocks at
 *           once. So what is kept of a range that was applied is what the journal needs, or
 *           nothing.
 *
 * An early update is an attempt. If another push was first, what was made of the older version is
 * worth nothing; the gradient then goes the other way, or, when it was not kept, has to come again.
 * So that nobody does that all the time, a parameter pauses after each attempt that came to
 * nothing: the next PS_UPDATE_EARLY_PAUSE pushes in ranges begin no early update. There is none for
 * parameters on a device either; nor where the whole gradient must be looked at before anything is
 * applied (clip_norm, overflow=Fail).
 *
 * Threads:  a WHOLE update belongs to one thread. Ranges of an EARLY one do not overlap, and may be
 *           applied by many threads at once. All while the parameter cannot go (the cut is held).
 * Blocking: begin (EARLY) and commit for pushes of the parameter; none is waited for that is at
 *           work. On a device apply and commit may wait for it.
 * Errors:   said at each function.
 * Memory:   WHOLE: in place; what apply is given is borrowed until the end. EARLY: references to
 *           the old version, and ps_update_early_bytes of new blocks, taken with the first range.
 *           Readers of the old version are not disturbed.
 */
#ifndef PS_SERVER_CORE_UPDATE_H
#define PS_SERVER_CORE_UPDATE_H

#include "proto/messages.h"
#include "server/core/update/parameter.h"
#include "server/core/update/update_arrays.h"

/* Fewer in the simulator, whose shards live for a few pushes. */
#ifndef PS_UPDATE_EARLY_PAUSE
#define PS_UPDATE_EARLY_PAUSE 64
#endif

enum ps_update_mode { PS_UPDATE_WHOLE, PS_UPDATE_EARLY };

/* Private. */
struct ps_update {
    enum ps_update_mode mode;
    bool is_committed;
    struct ps_parameter *parameter; /* borrowed; of an early update not by end */
    struct ps_update_arrays arrays; /* of the host */
    /* WHOLE: a gradient that was looked at. */
    struct ps_gradient gradient;
    bool *touched; /* owned; a flag per block: only these are updated. NULL: all are */
    struct ps_gradient_scan scan;
    struct ps_device_judged *judged; /* owned; it is on the device, which made the scan */
    struct ps_row_push *rows;        /* owned; of a table: the gradient as its rows */
    /* EARLY. */
    struct ps_parameter_version base; /* held: the version that is read */
    struct ps_mutex lock;             /* PS_RANK_QUEUE; for whoever takes the new blocks */
};

/* Begins an update of the present version; end it with ps_update_end in any case. False, never for
 * WHOLE: there is no early update to be had, the parameter pauses, or there is no memory. */
bool ps_update_begin(struct ps_update *update, struct ps_parameter *parameter,
                     enum ps_update_mode mode);

/* The same on the heap of the parameter; NULL for false. End it with ps_update_destroy. */
struct ps_update *ps_update_create_early(struct ps_parameter *parameter);

/* Applies a range of a gradient whose type and length were checked (ps_encoding_check). WHOLE: all
 * of it, once. EARLY: in any encoding but TOP_K, scales checked (ps_gradient_check_range); the same
 * range again does the same.
 *
 * PS_ERR_BAD_INPUT    an element that is not finite, scales or indices that cannot be. Of an early
 *                     update that is not the verdict on the push
 * PS_ERR_NO_MEMORY
 * PS_ERR_UNAVAILABLE  the device is dead
 * On any failure the update has failed, and the parameter is as it was.
 */
PS_MUST_USE enum ps_status ps_update_apply(struct ps_update *update, struct ps_elements range,
                                           struct ps_gradient gradient, struct ps_error *error);

/* Makes what was applied, all of the gradient, the parameter's next version. The push goes in at
 * `place` (NULL: it has its position already, it is replayed) when nothing else can fail.
 *
 * PS_OK                `*version` is the parameter's after it
 * PS_ERR_CONFLICT      EARLY: another push was first, and the update has failed
 * PS_ERR_BAD_INPUT     an element that is not finite
 * PS_ERR_OUT_OF_RANGE  overflow=fail, and an element would overflow
 * PS_ERR_NO_MEMORY     somebody holds the present version and there is no memory for another
 *                      or what ps_journal_queue_put gave: it may be asked again
 * PS_ERR_UNAVAILABLE   the device is dead: nobody may be told anything of this parameter any more
 * On any other failure nothing has changed. On a device the push is queued, and
 * ps_parameter_due says when it is done.
 */
PS_MUST_USE enum ps_status ps_update_commit(struct ps_update *update,
                                            struct ps_journal_place *place, uint64_t *version,
                                            struct ps_error *error);

/* Ends it: without a commit, what was applied is gone. */
void ps_update_end(struct ps_update *update);

/* Takes it; NULL is allowed. */
void ps_update_destroy(struct ps_update *update);

/* All of it: begin, apply, commit and end of a WHOLE update. */
PS_MUST_USE enum ps_status ps_parameter_push(struct ps_parameter *parameter,
                                             struct ps_gradient gradient,
                                             struct ps_journal_place *place, uint64_t *version,
                                             struct ps_error *error);

/* The same of what a round has joined of its rows (server/core/tables/row_join.h), which is taken
 * in any case. The row limit and the limit of memory were asked when its contributions came. */
PS_MUST_USE enum ps_status ps_parameter_push_joined(struct ps_parameter *parameter,
                                                    struct ps_row_push *rows,
                                                    struct ps_journal_place *place,
                                                    uint64_t *version, struct ps_error *error);

/* ---- Of an early update ---- */

/* Of whose parameter. */
const struct ps_parameter_spec *ps_update_early_spec(const struct ps_update *update);

/* What its new blocks take, or will take. */
uint64_t ps_update_early_bytes(const struct ps_update *update);

/* Returns a reference to the values that it makes, and which version they will be; only elements
 * that were applied may be read. Between apply and commit. End it with ps_blocks_release. */
struct ps_blocks *ps_update_early_values(const struct ps_update *update, uint64_t *version);

#endif
