/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a checkpoint's reader, shared by the files that it is made of: checkpoint_reader.c
 * reads header and arrays, section_reader.c the records of the sections. Private to checkpoint/.
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

struct ps_checkpoint_reader {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    const struct ps_files *files;      /* borrowed; outlives this */
    struct ps_file file;
    struct ps_header header;
    uint8_t *sessions; /* owned */
};

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
