/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a checkpoint file: length, JSON header, padding (docs/checkpoint-format.md).
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY, also for a header beyond PS_HEADER_BYTES_MAX.
 * Memory:   the result is in the caller's buffer.
 */
#ifndef PS_CHECKPOINT_HEADER_WRITER_H
#define PS_CHECKPOINT_HEADER_WRITER_H

#include "base/buffer.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/header_entry_writer.h"

/* A section in its place in the file: 0 bytes, there is none. */
struct ps_header_section {
    uint64_t bytes;
    uint32_t crc32c;
};

/* Sets `head`, which must be empty and allow 8 more bytes than PS_HEADER_BYTES_MAX, to everything
 * before the data. `slots` are sorted by ps_header_order and complete. `sections` has one entry for
 * each section. */
PS_MUST_USE enum ps_status ps_header_write(const struct ps_checkpoint_facts *facts,
                                           const struct ps_header_section *sections,
                                           const struct ps_header_slot *slots, size_t slot_count,
                                           const struct ps_allocator *memory,
                                           struct ps_buffer *head, struct ps_error *error);

#endif
