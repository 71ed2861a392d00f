/* SPDX-License-Identifier: Apache-2.0 */
/* The segment files of a journal's folder, by their names, and which epochs they belong to.
 *
 * Threads:  pure but for the file system.
 * Blocking: listing a folder waits for the disk.
 * Errors:   those of the file system; files that are not segments are passed over.
 * Memory:   a list owns its entries until ps_journal_segments_fini.
 */
#ifndef PS_CHECKPOINT_JOURNAL_SEGMENTS_H
#define PS_CHECKPOINT_JOURNAL_SEGMENTS_H

#include "base/alloc.h"
#include "base/file.h"
#include "base/status.h"

#define PS_JOURNAL_SUFFIX ".journal"

/* Behind the name of a file that is to become a segment. */
#define PS_JOURNAL_TEMPORARY ".tmp"

/* In the place of a segment's suffix: it is kept to be written over (journal_spares.h). */
#define PS_JOURNAL_SPARE_SUFFIX ".spare"

/* Room for a segment's name, and for its path; NUL included. */
#define PS_JOURNAL_NAME_BYTES 64
#define PS_JOURNAL_PATH_BYTES 1024
#define PS_JOURNAL_TEMPORARY_PATH_BYTES (PS_JOURNAL_PATH_BYTES + sizeof PS_JOURNAL_TEMPORARY)

struct ps_journal_segment {
    uint64_t epoch;
    uint64_t first; /* position of the first record that may stand in it */
};

struct ps_journal_segments {
    const struct ps_allocator *memory;  /* borrowed; outlives this */
    struct ps_journal_segment *entries; /* owned; by epoch, then by first position */
    size_t count;
};

/* Lists the segments of epochs up to `epoch_max`. A folder that is not there gives an empty list
 * and PS_OK. */
PS_MUST_USE enum ps_status ps_journal_segments_init(struct ps_journal_segments *segments,
                                                    const struct ps_files *files,
                                                    const char *folder, uint64_t epoch_max,
                                                    const struct ps_allocator *memory,
                                                    struct ps_error *error);
/* The same for files that are not segments: `suffix` stands behind epoch and first position. */
PS_MUST_USE enum ps_status
ps_journal_leftovers_init(struct ps_journal_segments *leftovers, const struct ps_files *files,
                          const char *folder, const char *suffix, uint64_t epoch_max,
                          const struct ps_allocator *memory, struct ps_error *error);
void ps_journal_segments_fini(struct ps_journal_segments *segments);

/* Segment `i` is the first one of its epoch, or the last. */
bool ps_journal_segments_first(const struct ps_journal_segments *segments, size_t i);
bool ps_journal_segments_last(const struct ps_journal_segments *segments, size_t i);

void ps_journal_name_write(struct ps_journal_segment segment, char name[PS_JOURNAL_NAME_BYTES]);

/* False when `name` is not that of a segment; `*segment` is then unchanged. */
bool ps_journal_name_read(const char *name, struct ps_journal_segment *segment);

/* The same for a file with another suffix. */
bool ps_journal_leftover_name_read(const char *name, const char *suffix,
                                   struct ps_journal_segment *segment);

/* PS_ERR_IO when the path would be too long. */
PS_MUST_USE enum ps_status ps_journal_path_write(const char *folder,
                                                 struct ps_journal_segment segment,
                                                 char path[PS_JOURNAL_PATH_BYTES],
                                                 struct ps_error *error);

PS_MUST_USE enum ps_status ps_journal_leftover_path_write(const char *folder,
                                                          struct ps_journal_segment segment,
                                                          const char *suffix,
                                                          char path[PS_JOURNAL_PATH_BYTES],
                                                          struct ps_error *error);

#endif
