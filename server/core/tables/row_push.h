/* SPDX-License-Identifier: Apache-2.0 */
/* One push to a table: keys and a gradient for each, as PS_ENCODING_ROWS has them. What can fail is
 * in read and prepare, which change nothing that anybody can see; apply cannot fail.
 *
 *   read      no lock: keys in the order of their hashes, the gradients of one key made into one
 *   scan      of those gradients, for ps_optimizer_prepare
 *   prepare   under the parameter's lock, from here to release: looks the rows up, has memory for
 *             new ones and for copies of pages that are held, and knows what the row limit says
 *   apply     makes new rows, and steps each row once by the rule; a dense parameter of the same
 *             elements would have the same bits
 *
 * Threads:  one push of a table at a time from prepare to release; reading and holding beside it. A
 *           reader sees each row whole, but may see some rows of a push and not yet others.
 * Blocking: for the locks of stripes, each a few microseconds.
 * Errors:   as said at each function.
 * Memory:   ps_row_push_release ends what ps_row_push_read returned. Nothing is borrowed but the
 *           table, which outlives it.
 */
#ifndef PS_SERVER_CORE_ROW_PUSH_H
#define PS_SERVER_CORE_ROW_PUSH_H

#include "base/bytes.h"
#include "optimizer/optimizer.h"
#include "server/core/tables/row_table.h"

struct ps_row_push;

/* Reads each byte once and keeps nothing of `content`, which its sender may be writing to
 * (rpc/shared_content.h): whatever is checked is checked of what is applied.
 *
 * PS_ERR_BAD_INPUT      `content` is no whole number of keys and rows of the table's width
 * PS_ERR_OUT_OF_RANGE   a key of another shard
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_row_push_read(struct ps_row_table *table, struct ps_view content,
                                            struct ps_row_push **push, struct ps_error *error);

/* Keys as they came, and different ones among them. */
size_t ps_row_push_keys(const struct ps_row_push *push);
size_t ps_row_push_rows(const struct ps_row_push *push);

/* Looks at the gradients, one for each different key. The index of an element that is not finite is
 * that in the push as it came, of the first gradient of its key. */
void ps_row_push_scan(const struct ps_row_push *push, const struct ps_optimizer_settings *settings,
                      struct ps_gradient_scan *scan);

/* Behind a scan that has found one: PS_ERR_BAD_INPUT, whose text names the key: the place of one in
 * the push means nothing to who has a client that sends rows in an order of its own. */
PS_MUST_USE enum ps_status ps_row_push_fail_nonfinite(const struct ps_row_push *push,
                                                      const struct ps_gradient_scan *scan,
                                                      struct ps_error *error);

/* bytes_left   so much more the table may take
 *
 * PS_OK                 apply cannot fail; nobody sees a difference yet
 * PS_ERR_TABLE_FULL     more rows than rows_max, or more bytes than bytes_left
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_row_push_prepare(struct ps_row_push *push, uint64_t bytes_left,
                                               struct ps_error *error);

/* After prepare: how many rows apply makes, and how many go for them (PS_TABLE_OLDEST). */
size_t ps_row_push_made(const struct ps_row_push *push);
size_t ps_row_push_evicted(const struct ps_row_push *push);

/* A step that is to be skipped changes nothing. `version` is that of the parameter afterwards. */
void ps_row_push_apply(struct ps_row_push *push, const struct ps_optimizer_step *step,
                       uint64_t version);

/* Behind apply: PS_OK, or PS_ERR_UNAVAILABLE where the device that has the rows is dead; nothing
 * may be acknowledged then. */
PS_MUST_USE enum ps_status ps_row_push_applied(const struct ps_row_push *push,
                                               struct ps_error *error);

/* Takes `push`; NULL is allowed. */
void ps_row_push_release(struct ps_row_push *push);

#endif
