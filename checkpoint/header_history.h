/* SPDX-License-Identifier: Apache-2.0 */
/* The history out of a checkpoint's header, and nothing else of it: of a shard with a hundred
 * thousand parameters the header is some 35 MB, which take most of a second to be taken apart, and
 * recovery asks every checkpoint of the folder.
 *
 * Threads:  pure but for the file system.
 * Blocking: for the disk.
 * Errors:   said at the function.
 * Memory:   that of the header, given back before return.
 */
#ifndef PS_CHECKPOINT_HEADER_HISTORY_H
#define PS_CHECKPOINT_HEADER_HISTORY_H

#include "base/alloc.h"
#include "base/file.h"
#include "base/status.h"
#include "checkpoint/history.h"

/* Reads the header of the file at `path`, compares its checksum and finds its ps.history. One that
 * says none, or is not laid out as this system writes it, gives PS_OK and "not known".
 *
 * PS_ERR_CORRUPT      the header is damaged; of the arrays nothing is said
 * PS_ERR_NOT_FOUND, PS_ERR_NO_MEMORY, PS_ERR_IO
 */
PS_MUST_USE enum ps_status ps_header_history_read(const struct ps_files *files, const char *path,
                                                  const struct ps_allocator *memory,
                                                  struct ps_history *history,
                                                  struct ps_error *error);

#endif
