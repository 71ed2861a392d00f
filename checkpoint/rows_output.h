/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a table on their way to a checkpoint file. Arrays of one width stand one behind the
 * other there, and their rows are read once for all of them: some rows of the first array, the same
 * of the second, and so on. So a row is done with when it has been read, and not when the table
 * has: whoever holds it need not set it aside for a push any more, and what was set aside has room
 * for others.
 *
 * Threads:  one.
 * Blocking: for the disk, and for whoever gives the rows.
 * Errors:   those of the file system and of the source.
 * Memory:   the buffers of the output.
 */
#ifndef PS_CHECKPOINT_ROWS_OUTPUT_H
#define PS_CHECKPOINT_ROWS_OUTPUT_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/summed_output.h"

/* Writes those arrays of a table with a source that have elements of 8 bytes (`wide`) or of 4; none
 * is fine.
 *
 * index      of the parameter, as the watcher knows it
 * watcher    borrowed; may be NULL. Told of all these arrays when some rows of the last have been
 *            read, so that what it hears of any array is true of the others
 * crc32c     by the number of an array: the sums of these arrays, which are 0 before
 *
 * A row is read once, in steps of some hundred kilobytes in all arrays. What the source says when
 * it fails is returned, and the file is given up.
 */
PS_MUST_USE enum ps_status ps_rows_output_write(struct ps_summed_output *output,
                                                const struct ps_checkpoint_parameter *parameter,
                                                size_t index, bool wide,
                                                const struct ps_checkpoint_watcher *watcher,
                                                uint32_t *crc32c, struct ps_error *error);

#endif
