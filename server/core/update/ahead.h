/* One push's update in the making. The ranges of a large push are applied as they come, while they
 * are in the cache: the values and states of the version that the push found, and the range, in;
 * new blocks out, which nobody sees. When the last range was applied, the new blocks take the place
 * of the old ones, all at once, as any push's do. So what is kept of a range that was applied is
 * what the journal needs, or nothing.
 *
 * It is an attempt. If another push was first, what was made of the older version is worth nothing;
 * the push is then applied from its ranges, or, when they were not kept, they have to come again.
 * So that nobody does that all the time, a parameter rests after each attempt that came to nothing:
 * the next PS_AHEAD_REST pushes in ranges are put together first (staging.h).
 *
 * Ranges of one attempt do not overlap, and may be applied by many threads at once. There is none
 * for parameters on a device; nor where the whole gradient must be looked at before anything is
 * applied (clip_norm, overflow=Fail).
 *
 * Threads:  as said; begin, apply and commit while the parameter cannot go (the cut is held).
 * Blocking: begin and commit for pushes of the parameter; none is waited for that is at work.
 * Errors:   said at each function.
 * Memory:   references to the old version; ps_ahead_bytes of new blocks, taken with the first
 *           range. Readers of the old version are not disturbed.
 */
#ifndef PS_SERVER_CORE_AHEAD_H
#define PS_SERVER_CORE_AHEAD_H

#include "base/bytes.h"
#include "proto/messages.h"
#include "server/core/update/gradient_runs.h"
#include "server/core/update/parameter.h"

/* Fewer in the simulator, whose lives are short. */
#ifndef PS_AHEAD_REST
#define PS_AHEAD_REST 64
#endif

struct ps_ahead;

/* Returns an attempt on the present version of `parameter`, which is borrowed, but not by release.
 * NULL: there is none to be had, the parameter rests, or there is no memory. */
struct ps_ahead *ps_ahead_begin(struct ps_parameter *parameter);

/* Takes it; what it has made is gone, unless it was committed. NULL is allowed. */
void ps_ahead_release(struct ps_ahead *ahead);

/* Of whose parameter. */
const struct ps_parameter_spec *ps_ahead_spec(const struct ps_ahead *ahead);

/* What its new blocks take, or will take. */
uint64_t ps_ahead_bytes(const struct ps_ahead *ahead);

/* Applies a range of a gradient, in any encoding but TOP_K, whose content was checked
 * (ps_gradient_check_range). Borrowed. Again with the same: the same.
 *
 * PS_ERR_BAD_INPUT    an element is not finite: not for this attempt to decide. It has failed
 * PS_ERR_NO_MEMORY    it has failed
 */
PS_MUST_USE enum ps_status ps_ahead_apply(struct ps_ahead *ahead, struct ps_elements range,
                                          struct ps_gradient gradient);

/* Returns a reference to the values that it makes, and which version they will be; only elements
 * that were applied may be read. After ps_ahead_apply. End it with ps_blocks_release. */
struct ps_blocks *ps_ahead_made(const struct ps_ahead *ahead, uint64_t *version);

/* Makes what was applied the parameter's next version; all elements were. Once. `place` as in
 * ps_parameter_push.
 *
 * PS_ERR_CONFLICT     another push was first: the attempt has failed, and nothing changed
 * or what ps_journal_queue_put gave: nothing changed, and it may be asked again
 */
PS_MUST_USE enum ps_status ps_ahead_commit(struct ps_ahead *ahead, struct ps_journal_place *place,
                                           uint64_t *version, struct ps_error *error);

#endif
