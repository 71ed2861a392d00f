/* SPDX-License-Identifier: Apache-2.0 */
/* One instant of a table, for a checkpoint: pushes go on beside it, and copy each row that they
 * write over, once for a hold. Candidates are a table of their own, and are held by themselves.
 *
 * Threads:  take while nobody pushes; read and release from any one thread.
 * Blocking: take copies which rows there are: about a millisecond for 20 million rows of 16 floats.
 *           Read takes the lock of each page's stripe; release waits for a push that sets aside.
 * Errors:   PS_ERR_NO_MEMORY of take.
 * Memory:   a hold keeps the table, 32 bytes a page, and the old bytes of each row that was pushed
 *           to since, until it is let go or the hold is released.
 */
#ifndef PS_SERVER_CORE_ROW_HOLD_H
#define PS_SERVER_CORE_ROW_HOLD_H

#include "server/core/tables/row_table.h"

#include <stddef.h>

struct ps_row_hold;

/* A hold is about to be taken: gets memory ready for the hold itself, for which all pushes would
 * wait, and for what the first pushes behind it set aside. Beside pushes; takes some milliseconds.
 * Memory that is refused is not missed before it is needed. */
void ps_row_hold_expect(struct ps_row_table *table);

PS_MUST_USE enum ps_status ps_row_hold_take(struct ps_row_table *table, struct ps_row_hold **hold,
                                            struct ps_error *error);

uint64_t ps_row_hold_rows(const struct ps_row_hold *hold);

/* Bytes of one row in an array: 0 the values, 1.. the states, then the keys (8), then the low 32
 * bits of the versions of the last pushes (4). */
uint32_t ps_row_hold_arrays(const struct ps_row_hold *hold);
size_t ps_row_hold_row_bytes(const struct ps_row_hold *hold, uint32_t array);

/* Copies `size` bytes of an array from `offset` on; all arrays have the rows in the same order.
 * What is asked for must lie within rows * row_bytes. Fails only where a device that has rows is
 * dead. */
PS_MUST_USE enum ps_status ps_row_hold_read(struct ps_row_hold *hold, uint32_t array,
                                            uint64_t offset, void *to, size_t size,
                                            struct ps_error *error);

/* Rows before number `end` will not be read again: pushes need not set them aside any more, and the
 * memory of those that they have set aside is the table's again, stripe by stripe. */
void ps_row_hold_let_go(struct ps_row_hold *hold, uint64_t end);

/* Takes `hold`; NULL is allowed. */
void ps_row_hold_release(struct ps_row_hold *hold);

#endif
