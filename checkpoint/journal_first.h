/* SPDX-License-Identifier: Apache-2.0 */
/* The first record of a segment, read by itself: which epoch the segment's owner went on from, and
 * which life the file has.
 *
 * Threads:  pure but for the file system.
 * Blocking: for the disk.
 * Errors:   said at the function.
 * Memory:   fixed size.
 */
#ifndef PS_CHECKPOINT_JOURNAL_FIRST_H
#define PS_CHECKPOINT_JOURNAL_FIRST_H

#include "checkpoint/journal_record.h"
#include "checkpoint/journal_segments.h"

struct ps_journal_first {
    bool whole; /* and that of the segment which the file's name promises */
    struct ps_journal_facts facts;
    struct ps_journal_life life;
};

/* Opens and closes `path`, which is the file of `segment`. What cannot be believed leaves `*first`
 * zeroed, which is no failure.
 *
 * PS_ERR_NOT_FOUND    the file has gone since it was listed: it was removed, or taken for another
 *                     segment
 * PS_ERR_IO
 */
PS_MUST_USE enum ps_status ps_journal_first_read(const struct ps_files *files, const char *path,
                                                 struct ps_journal_segment segment,
                                                 struct ps_journal_first *first,
                                                 struct ps_error *error);

/* Whether the file which has the segment's name is still the one that was opened, of life `life`
 * (zeroed: its first record could not be read). The owner of a journal takes files for later
 * segments which a checkpoint covers, so a reader that is not the owner may see such a file change
 * under it: the bytes that it takes for damage are another segment's. Call it when they were read.
 *
 * PS_ERR_IO
 */
PS_MUST_USE enum ps_status ps_journal_first_is_same(const struct ps_files *files, const char *path,
                                                    struct ps_journal_segment segment,
                                                    const struct ps_journal_life *life, bool *same,
                                                    struct ps_error *error);

/* PS_ERR_IO: the segment was listed a moment ago and has gone. The caller may begin again. */
enum ps_status ps_journal_first_gone(struct ps_journal_segment segment, struct ps_error *error);

#endif
