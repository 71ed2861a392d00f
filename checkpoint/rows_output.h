/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a large table on their way to a checkpoint file. They are read once for all arrays:
 * some rows of the first array, the same of the second, and so on, each to its place in the file.
 * So a row is done with when it has been read, and not when the table has: whoever holds it need
 * not set it aside for a push any more, and what was set aside has room for others.
 *
 * In the file all arrays of 8-byte elements stand before all of 4-byte ones (array_layout.h): of a
 * table the keys long before the clock, and its values with one of the two. The place of the wide
 * ones is left out, and filled when the narrow ones are written.
 *
 * Threads:  one.
 * Blocking: for the disk, and for whoever gives the rows.
 * Errors:   those of the file system and of the source. What is in the file then is undefined.
 * Memory:   the buffers of the output.
 */
#ifndef PS_CHECKPOINT_ROWS_OUTPUT_H
#define PS_CHECKPOINT_ROWS_OUTPUT_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/summed_output.h"

/* Where the wide arrays of a table belong, which were left out: one behind the other. */
struct ps_rows_place {
    uint64_t begin; /* of the first, in the file */
    size_t part;    /* of the output's sums; the next array has the next one */
};

/* What the file's edges and sums have room for: of each large table, and besides. */
#define PS_ROWS_EDGES_EACH 2
#define PS_ROWS_EDGES_BESIDE 8
#define PS_ROWS_PARTS_EACH PS_CHECKPOINT_ARRAYS_MAX

/* Is it a table whose rows are read once? Smaller ones take a buffer or less, and are written array
 * by array as any parameter is: a write for each array of each of ten thousand tables would take
 * longer than all of their bytes. */
bool ps_rows_output_is_large(const struct ps_checkpoint_parameter *parameter);

/* Leaves out the arrays of a large table that have elements of 8 bytes. */
PS_MUST_USE enum ps_status
ps_rows_output_leave_wide(struct ps_summed_output *output,
                          const struct ps_checkpoint_parameter *parameter,
                          struct ps_rows_place *wide, struct ps_error *error);

/* Writes all arrays of a large table: those of 4-byte elements come next in the output.
 *
 * index      of the parameter, as the watcher knows it
 * wide       where the others were left out
 * watcher    borrowed; may be NULL. Told of all arrays when some rows of the last have been read,
 *            so that what it hears of any array is true of the others
 * crc32c     by the number of an array: their sums, which are 0 before
 */
PS_MUST_USE enum ps_status ps_rows_output_write(struct ps_summed_output *output,
                                                const struct ps_checkpoint_parameter *parameter,
                                                size_t index, const struct ps_rows_place *wide,
                                                const struct ps_checkpoint_watcher *watcher,
                                                uint32_t *crc32c, struct ps_error *error);

#endif
