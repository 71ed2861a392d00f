/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint that no recovery needs and that is kept to be written over: the sweep puts it aside,
 * the writer of the same epoch makes its next checkpoint of it.
 *
 * A write to blocks that were written before takes about half of the time of one to a file that
 * grows, and removing a large file may keep the disk from everything else for a while (the figures
 * are in docs/performance-disk.md). Only files of the writer's own epoch are kept, as with segments
 * of the journal (journal_spares.h); and one that somebody else reads, or has under another name,
 * is not written over.
 *
 * Threads:  one at a time for each folder.
 * Blocking: for the disk.
 * Errors:   those of the file system.
 * Memory:   none.
 */
#ifndef PS_CHECKPOINT_CHECKPOINT_SPARE_H
#define PS_CHECKPOINT_CHECKPOINT_SPARE_H

#include "base/file.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Makes a spare of the checkpoint of that file name. PS_ERR_NOT_FOUND: it has gone. */
PS_MUST_USE enum ps_status ps_checkpoint_spare_keep(const struct ps_files *files,
                                                    const char *folder, const char *name,
                                                    struct ps_error *error);

/* Renames a spare of `epoch` to `path`, durably, and opens it to be written over from its beginning
 * on: `*file` is the caller's, who makes it as short as what was written. `*taken` is false when
 * there is none that nobody else has open; then there is nothing at `path`. */
PS_MUST_USE enum ps_status ps_checkpoint_spare_take(const struct ps_files *files,
                                                    const char *folder, uint64_t epoch,
                                                    const char *path, struct ps_file *file,
                                                    bool *taken, struct ps_error *error);

#endif
