/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a table out of a checkpoint's file: read in pieces, verified, and put where their
 * keys belong.
 *
 * Threads:  the crew's; each takes the next piece of the rows.
 * Blocking: for the disk.
 * Errors:   as said at the function.
 * Memory:   up to 4 MiB for each thread while it lasts.
 */
#ifndef PS_SERVER_CORE_RECOVERY_ROWS_H
#define PS_SERVER_CORE_RECOVERY_ROWS_H

#include "checkpoint/checkpoint.h"
#include "server/core/update/parameter.h"
#include "server/core/values/crew.h"

/* Reads each array once, from its beginning to its end, and verifies it against the checksum that
 * the file has for it. What was read is let go of at once.
 *
 * `crew` may be NULL: this thread does it alone.
 * Fills `parameter`, a table without rows that nobody else has, from parameter `i` of the file.
 *
 * PS_ERR_CORRUPT    a checksum, or rows that this table cannot have
 * PS_ERR_BUSY       they take more than `bytes_left`
 * PS_ERR_IO, PS_ERR_NO_MEMORY
 * After any of them the parameter is to be destroyed.
 */
PS_MUST_USE enum ps_status ps_recovery_fill_rows(struct ps_checkpoint_reader *reader, size_t i,
                                                 struct ps_parameter *parameter,
                                                 uint64_t bytes_left, const struct ps_crew *crew,
                                                 const struct ps_allocator *memory,
                                                 struct ps_error *error);

#endif
