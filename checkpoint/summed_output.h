/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes on their way to a checkpoint file, and their sums. Two run at once: CRC-32C of an array, by
 * which a reader finds what is damaged, and CRC-32 of the whole file, which the pointer in the
 * store carries. Parts of the file that are written at another time have sums of their own, and the
 * file's is joined from all of them.
 *
 * Threads:  one.
 * Blocking: for the disk, as block_output.h says.
 * Errors:   those of the file system; PS_ERR_NO_MEMORY of init.
 * Memory:   16 bytes for each part, taken by init.
 */
#ifndef PS_CHECKPOINT_SUMMED_OUTPUT_H
#define PS_CHECKPOINT_SUMMED_OUTPUT_H

#include "checkpoint/block_output.h"

/* A run of bytes with one sum: what was put between two parts that were left out, or one of those,
 * whose sum is set by whoever writes it. */
struct ps_summed_part {
    uint64_t bytes;
    uint32_t crc32;
};

/* The sum that runs is that of the last part, which goes on with what is put next; the parts before
 * it are closed. */
struct ps_summed_output {
    struct ps_block_output *blocks;    /* borrowed */
    const struct ps_allocator *memory; /* borrowed */
    uint64_t bytes;                    /* of the file so far, parts that are left out included */
    uint64_t begin;                    /* of what `crc32` is the sum of: up to `bytes` */
    uint32_t crc32;
    struct ps_summed_part *parts; /* owned; in the order of the file, what is before `begin` */
    size_t part_count;
    size_t part_capacity;
};

/* For so many parts that are left out. */
PS_MUST_USE enum ps_status ps_summed_output_init(struct ps_summed_output *output,
                                                 struct ps_block_output *blocks, size_t left_out,
                                                 const struct ps_allocator *memory,
                                                 struct ps_error *error);
void ps_summed_output_fini(struct ps_summed_output *output); /* accepts a zeroed one */

/* Copies bytes, and continues the sum of their array with them. */
PS_MUST_USE enum ps_status ps_summed_output_put(struct ps_summed_output *output,
                                                struct ps_bytes bytes, uint32_t *crc32c,
                                                struct ps_error *error);

/* The same for bytes that were made where the next ones belong (ps_block_output_room). */
PS_MUST_USE enum ps_status ps_summed_output_made(struct ps_summed_output *output,
                                                 struct ps_bytes made, uint32_t *crc32c,
                                                 struct ps_error *error);

/* What was put so far does not belong to the file's sum: that begins here. */
void ps_summed_output_begin(struct ps_summed_output *output);

/* The next `bytes` of the file are somebody else's to write: only their sum is counted here, which
 * that one sets in parts[the result] before the end. */
size_t ps_summed_output_leave_out(struct ps_summed_output *output, uint64_t bytes);

/* Of all bytes from where the sum began. */
uint32_t ps_summed_output_crc32(const struct ps_summed_output *output);

#endif
