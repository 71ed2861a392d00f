/* SPDX-License-Identifier: Apache-2.0 */
/* Why a shard could not be recovered, what may be done about it, and what the published checkpoint
 * says of files that must be there.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   texts are static.
 */
#ifndef PS_SERVER_CORE_RECOVERY_VERDICT_H
#define PS_SERVER_CORE_RECOVERY_VERDICT_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/journal_segments.h"

/* X(name, what people are told to do). docs/recover.md says more of each. */
#define PS_RECOVERY_CAUSE_TABLE(X)                                                              \
    X(NONE, "")                                                                                 \
    X(ELSEWHERE, "start this server with the --data-dir that the published checkpoint is in, "  \
                 "or mount the volume; nothing was changed")                                    \
    X(ABSENT, "bring the file back, or start with the --data-dir that it is in; to go on "      \
              "without it: psckpt publish DATA-DIR, which says what is given up")               \
    X(JOURNAL_GONE, "bring the journal back; to go on without it: psckpt publish DATA-DIR, "    \
                    "which says what is given up")                                              \
    X(JOURNAL, "psckpt verify DATA-DIR names what is damaged; psckpt repair DATA-DIR "          \
               "--in-place goes back to the last good state, and says what is given up")        \
    X(NO_WHOLE, "psckpt verify DATA-DIR names what is damaged; psckpt salvage DATA-DIR --out "  \
                "NEWDIR takes every tensor that is whole, and lists those that are not")        \
    X(MIXED, "psckpt verify DATA-DIR names the files of each history; move those of another "   \
             "shard, job or run out of the folder, and start again; nothing was changed")       \
    X(NO_CHECKPOINT, "bring a checkpoint of this shard back from a backup: a journal alone is " \
                     "no state")

enum ps_recovery_cause {
#define PS_RECOVERY_CAUSE_ENUM(name, advice) PS_RECOVERY_##name,
    PS_RECOVERY_CAUSE_TABLE(PS_RECOVERY_CAUSE_ENUM)
#undef PS_RECOVERY_CAUSE_ENUM
        PS_RECOVERY_CAUSE_COUNT
};

/* What to do about it; "" for PS_RECOVERY_NONE. */
const char *ps_recovery_advice(enum ps_recovery_cause cause);

/* Was there a journal behind `place`? Its pointer says so; where that does not (a file of the
 * folder, a pointer of an older version), segments of its epoch do. */
bool ps_recovery_kept_journal(const struct ps_journal_segments *segments,
                              const struct ps_checkpoint_place *place);

/* Can the journal of the folder lead to the state of `place`, or beyond, without its file? Only
 * when a segment of its very epoch is there: records of a former owner may have the same positions.
 */
bool ps_recovery_may_bridge(const struct ps_journal_segments *segments,
                            const struct ps_checkpoint_place *place);

/* The pointer says that there was a journal behind `place`, and the folder has no segment of that
 * epoch or a later one. A sweep never removes the newest, so somebody else did. */
bool ps_recovery_journal_is_gone(const struct ps_journal_segments *segments,
                                 const struct ps_checkpoint_place *place);

#endif
