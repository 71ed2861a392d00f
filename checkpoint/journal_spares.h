/* SPDX-License-Identifier: Apache-2.0 */
/* Segments that no recovery needs and that are kept to be written over: the sweep puts them aside,
 * the writer of the same epoch takes them for its next segments.
 *
 * A write to blocks that were written before changes nothing else on the disk. One to a file that
 * grows changes its size and its map of blocks as well, and takes up to twice as long (the figures
 * are in docs/performance-disk.md). Only segments of the writer's own epoch are kept: a former
 * owner that does not know yet that it is one may go on writing to files of its own epoch.
 *
 * Threads:  any; the writer and the sweep need not know of each other.
 * Blocking: for the disk.
 * Errors:   those of the file system.
 * Memory:   none.
 */
#ifndef PS_CHECKPOINT_JOURNAL_SPARES_H
#define PS_CHECKPOINT_JOURNAL_SPARES_H

#include "checkpoint/journal_segments.h"

#include <stdbool.h>

/* Renames the oldest spare of the epoch of `from`, and of its first position or a later one, to
 * `path`, durably: from then on a crash finds it under no name that a reader looks at. `*taken` is
 * false when there is none. Before it is written over, ask whether it is alone (ps_files.is_alone):
 * a backup may read it, or have it under a name of its own. */
PS_MUST_USE enum ps_status ps_journal_spare_take(const struct ps_files *files, const char *folder,
                                                 struct ps_journal_segment from, const char *path,
                                                 bool *taken, struct ps_error *error);

/* Opens `path`, which is the next segment's until it gets its name, to be written: over a spare
 * that nobody else has, whose blocks are all on the disk, or else from its beginning. `direct`:
 * past the cache. What was at `path`, left by a try that was cut short, goes. */
PS_MUST_USE enum ps_status ps_journal_spare_open(const struct ps_files *files, const char *folder,
                                                 struct ps_journal_segment from, const char *path,
                                                 bool direct, struct ps_file *file,
                                                 struct ps_error *error);

/* Makes a spare of a segment. PS_ERR_NOT_FOUND: it has gone. */
PS_MUST_USE enum ps_status ps_journal_spare_keep(const struct ps_files *files, const char *folder,
                                                 struct ps_journal_segment segment,
                                                 struct ps_error *error);

#endif
