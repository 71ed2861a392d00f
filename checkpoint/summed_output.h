/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes on their way to a checkpoint file, and their sums. Two run at once: CRC-32C of an array, by
 * which a reader finds what is damaged, and CRC-32 of the whole file, which the pointer in the
 * store carries.
 *
 * Threads:  one.
 * Blocking: for the disk, as block_output.h says.
 * Errors:   those of the file system.
 * Memory:   none of its own.
 */
#ifndef PS_CHECKPOINT_SUMMED_OUTPUT_H
#define PS_CHECKPOINT_SUMMED_OUTPUT_H

#include "checkpoint/block_output.h"

struct ps_summed_output {
    struct ps_block_output *blocks; /* borrowed */
    uint32_t crc32;                 /* of everything behind the header */
    uint64_t bytes;                 /* of the file so far */
};

/* Copies bytes, and continues the sum of their array with them. */
PS_MUST_USE enum ps_status ps_summed_output_put(struct ps_summed_output *output,
                                                struct ps_bytes bytes, uint32_t *crc32c,
                                                struct ps_error *error);

/* The same for bytes that were made where the next ones belong (ps_block_output_room). */
PS_MUST_USE enum ps_status ps_summed_output_made(struct ps_summed_output *output,
                                                 struct ps_bytes made, uint32_t *crc32c,
                                                 struct ps_error *error);

#endif
