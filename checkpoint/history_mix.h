/* SPDX-License-Identifier: Apache-2.0 */
/* Files of several histories in one folder: whose the folder is, and which of the strangers are in
 * the way.
 *
 * A stranger is no matter where no recovery of the folder's own history can come to it, which is so
 * of what servers leave that began a life and came to nothing: two of them may have begun the same
 * empty shard, one after the other, each with a number of its own. Any other was put there by
 * somebody, and what it might do depends on which files are damaged tomorrow, or go in the next
 * sweep: it is refused while everything is still there.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_CHECKPOINT_HISTORY_MIX_H
#define PS_CHECKPOINT_HISTORY_MIX_H

#include "checkpoint/history.h"

#include <stddef.h>

/* What one file of a folder says of its life. */
struct ps_history_witness {
    bool is_segment; /* of the journal; otherwise a checkpoint */
    bool is_read;    /* of a segment: the two below are known */
    uint64_t epoch;
    uint64_t position; /* of a checkpoint, or of the first record that may stand in the segment */
    uint64_t begin;    /* of a segment: the position behind which its epoch began */
    uint64_t previous; /* and the epoch that this one went on from; 0: from none */
    struct ps_history history;
};

/* The history of the folder: `told` where the store knows it; otherwise that of the newest
 * checkpoint which says one, by epoch and then position; otherwise that of the newest segment; not
 * known where no file says any. */
struct ps_history ps_history_of_files(const struct ps_history_witness *files, size_t count,
                                      const struct ps_history *told);

enum ps_history_place {
    PS_HISTORY_OWN,  /* of the folder's history, or of none that is known */
    PS_HISTORY_VOID, /* of another one, and behind a place that recovery never comes to */
    PS_HISTORY_MIXED /* of another one, and in the way */
};

/* Where file `i` stands in a folder of history `own`. While nobody has told whose it is, and the
 * newest file has decided, a checkpoint is void only if its owner was before every owner that wrote
 * of `own`: any other may be the one that was to be kept. */
enum ps_history_place ps_history_judge(const struct ps_history_witness *files, size_t count,
                                       size_t i, const struct ps_history *own, bool is_told);

#endif
