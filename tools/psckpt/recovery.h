/* SPDX-License-Identifier: Apache-2.0 */
/* The state of one shard's folder: the newest whole checkpoint and, behind it, the journal.
 *
 * It goes the way that a server goes when it recovers, but changes nothing in the folder, and can
 * stop at a position or before damage.
 *
 * Threads:  one.
 * Blocking: for the disk.
 * Errors:   said at the function.
 * Memory:   owned until recovery_fini.
 */
#ifndef PS_TOOLS_RECOVERY_H
#define PS_TOOLS_RECOVERY_H

#include "tools/psckpt/shard_state.h"
#include "tools/psckpt/toolbox.h"

/* The end, whatever position that is. */
#define RECOVERY_TO_END UINT64_MAX

struct recovery_wish {
    const struct toolbox *box;
    uint64_t to;  /* stop behind this position */
    bool journal; /* false: only the checkpoint */
    bool salvage; /* damage of the journal ends it, and is not a failure */
    /* What `folder` and its journal go on from, put together of what was whole; NULL: its newest
     * checkpoint. Records that are in it already, or have nothing there, are passed over. */
    const char *checkpoint;
};

/* Something that could not be used. */
struct recovery_omission {
    char what[128]; /* file name */
    char why[256];
};

#define RECOVERY_OMISSIONS_MAX 16

struct recovery {
    struct shard_state state;
    char checkpoint[128];      /* the one that was loaded */
    uint64_t begin;            /* its position */
    struct ps_history history; /* of the folder; not known where no file says any */
    uint64_t replayed;         /* records behind it */
    uint64_t cut;              /* bytes of a torn end */
    bool is_moving; /* private: it failed, and another listing may have something */
    size_t omission_count;
    struct recovery_omission omissions[RECOVERY_OMISSIONS_MAX];
};

/* Loads `folder`.
 *
 * PS_ERR_NOT_FOUND    no checkpoint is there, none at or before `to`, or the journal ends before it
 * PS_ERR_CORRUPT      no checkpoint is whole, or the journal is damaged (without `salvage`), or
 *                     files of several histories are there
 * PS_ERR_UNSUPPORTED  something of a later version
 * PS_ERR_NO_MEMORY, PS_ERR_IO
 */
PS_MUST_USE enum ps_status recovery_load(struct recovery *recovery,
                                         const struct recovery_wish *wish, const char *folder,
                                         struct ps_error *error);

/* Says each thing that could not be used of `folder`, on standard error, in a line of its own. */
void recovery_say_left_out(const struct recovery *recovery, const char *folder);

/* Accepts a zeroed recovery. */
void recovery_fini(struct recovery *recovery);

#endif
