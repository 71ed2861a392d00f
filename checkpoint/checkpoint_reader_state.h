/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a checkpoint's reader, shared by the files that it is made of: checkpoint_reader.c
 * reads header and arrays, section_reader.c the records of the sections; of a file that adds to
 * another checkpoint_base.c opens that other one and merged_arrays.c reads tables out of both.
 * Private to checkpoint/.
 *
 * Threads:  those of the reader.
 * Blocking: for the disk.
 * Errors:   as checkpoint.h says of the reader.
 * Memory:   none beyond the reader's.
 */
#ifndef PS_CHECKPOINT_CHECKPOINT_READER_STATE_H
#define PS_CHECKPOINT_CHECKPOINT_READER_STATE_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/header_reader.h"
#include "checkpoint/merged_rows.h"
#include "checkpoint/merged_sums.h"

/* A parameter as a file and its base have it together. */
struct ps_merged_parameter {
    struct ps_checkpoint_parameter about; /* of the whole; what the file itself has is `carry` */
    size_t own;                           /* in the file's own header */
    size_t base;                          /* in the base's; unless all is the file's own */
    struct ps_merged_rows rows;           /* owned; of PS_CARRY_ROWS */
    struct ps_merged_sums *sums;          /* owned; of PS_CARRY_ROWS, for each array */
};

/* Bytes of a file that are read, or summed, at a time: large enough that system calls do not count,
 * small enough that the checksum finds them in the processor's cache. */
#define PS_CHECKPOINT_PART_BYTES ((size_t)1 << 20)

struct ps_checkpoint_reader {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    const struct ps_files *files;      /* borrowed; outlives this */
    struct ps_file file;
    uint64_t file_bytes; /* when it was opened */
    struct ps_header header;
    uint8_t *sessions; /* owned */
    /* Of a file that adds to another, the other one, opened without its sessions, and the
     * parameters of both; NULL of a whole one. Of a damaged one the base may be missing. */
    struct ps_checkpoint_reader *base;  /* owned */
    struct ps_merged_parameter *merged; /* owned */
    size_t merged_count;
};

/* Opens one file, header only, whatever it adds to. Close it with ps_checkpoint_close(). With
 * `damaged` the file may end before its arrays do, or behind them. */
PS_MUST_USE enum ps_status ps_checkpoint_open_alone(const struct ps_files *files, const char *path,
                                                    bool damaged, const struct ps_allocator *memory,
                                                    struct ps_checkpoint_reader **reader,
                                                    struct ps_error *error);

/* Finds and opens the base of a file that names one, by the folder of `path`, and merges the
 * parameters of both. With `damaged` parameters that cannot be had are left out, and with them all
 * that rely on a base that is not there.
 *
 * PS_ERR_CORRUPT      the base is not there, is damaged, or is not one that the file can add to
 * PS_ERR_NO_MEMORY, PS_ERR_IO
 */
PS_MUST_USE enum ps_status ps_checkpoint_open_base(struct ps_checkpoint_reader *reader,
                                                   const char *path, bool damaged,
                                                   struct ps_error *error);

/* Gives back what ps_checkpoint_open_base took. */
void ps_checkpoint_close_base(struct ps_checkpoint_reader *reader);

/* Says of a failure within the base that it is there: `why` is what failed. */
PS_MUST_USE enum ps_status ps_checkpoint_fail_base(const struct ps_checkpoint_reader *reader,
                                                   enum ps_status status,
                                                   const struct ps_error *why,
                                                   struct ps_error *error);

/* ps_checkpoint_read_part of a table whose rows are in both files. */
PS_MUST_USE enum ps_status ps_merged_read_part(const struct ps_checkpoint_reader *reader,
                                               const struct ps_merged_parameter *merged,
                                               uint32_t array, uint64_t offset,
                                               const struct ps_checkpoint_piece *pieces,
                                               size_t piece_count, uint32_t *crc32c,
                                               struct ps_error *error);

/* ps_checkpoint_forget_part of such a table. */
void ps_merged_forget(const struct ps_checkpoint_reader *reader,
                      const struct ps_merged_parameter *merged, uint32_t array, uint64_t offset,
                      uint64_t bytes);

/* ps_checkpoint_check_array of such a table. Where every byte of the merged array was read once
 * since the last time, nothing is read again. PS_ERR_CORRUPT. */
PS_MUST_USE enum ps_status ps_merged_check(const struct ps_checkpoint_reader *reader,
                                           const struct ps_merged_parameter *merged, uint32_t array,
                                           uint32_t crc32c, struct ps_error *error);

/* Bytes out of the file, with no checksum. PS_ERR_CORRUPT: the file has become shorter. */
PS_MUST_USE enum ps_status ps_checkpoint_read_bytes(const struct ps_checkpoint_reader *reader,
                                                    uint64_t offset, void *to, size_t size,
                                                    struct ps_error *error);

/* Is that the checksum of the array in the file itself? `i` counts in its header. PS_ERR_CORRUPT,
 * with the name of the array. */
PS_MUST_USE enum ps_status ps_checkpoint_check_own(const struct ps_checkpoint_reader *reader,
                                                   size_t i, uint32_t array, uint32_t crc32c,
                                                   struct ps_error *error);

/* PS_ERR_CORRUPT, named after the array. */
PS_MUST_USE enum ps_status ps_checkpoint_fail_array(const struct ps_checkpoint_parameter *parameter,
                                                    uint32_t array, struct ps_error *error);

/* Fills the piece with the file's bytes from `offset` on and adds them to `*crc32c`.
 * PS_ERR_CORRUPT: the file has become shorter. */
PS_MUST_USE enum ps_status ps_checkpoint_read_piece(const struct ps_checkpoint_reader *reader,
                                                    uint64_t offset,
                                                    struct ps_checkpoint_piece piece,
                                                    uint32_t *crc32c, struct ps_error *error);

/* Compares the checksum of a section, of which all bytes were read. PS_ERR_CORRUPT. */
PS_MUST_USE enum ps_status ps_checkpoint_check_section(const struct ps_checkpoint_reader *reader,
                                                       enum ps_checkpoint_section section,
                                                       uint32_t crc32c, struct ps_error *error);

#endif
