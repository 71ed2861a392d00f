/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a folder prove, and what to say when they do not prove enough. Pure, so that
 * each case is one row of a test: what an operator reads at night depends on it. */
#include "server/core/recovery/recovery_verdict.h"

#include "base/assert.h"
#include "server/core/recovery/recovery_replay.h"

/* Generated from the table in the header, so that a cause without an advice does not compile. */
const char *ps_recovery_advice(enum ps_recovery_cause cause)
{
    static const char *const texts[] = {
#define PS_RECOVERY_CAUSE_TEXT(name, advice) [PS_RECOVERY_##name] = advice,
        PS_RECOVERY_CAUSE_TABLE(PS_RECOVERY_CAUSE_TEXT)
#undef PS_RECOVERY_CAUSE_TEXT
    };
    PS_ASSERT(cause < PS_RECOVERY_CAUSE_COUNT);
    return texts[cause];
}

/* The pointer's word counts more than the folder's, since segments may have been removed, and an
 * epoch without a journal may share the folder with one that had it. */
bool ps_recovery_kept_journal(const struct ps_journal_segments *segments,
                              const struct ps_checkpoint_place *place)
{
    PS_ASSERT(segments != NULL && place != NULL);
    if (place->journal != PS_CHECKPOINT_JOURNAL_UNSAID)
        return place->journal == PS_CHECKPOINT_JOURNAL_KEPT;
    return ps_recovery_has_journal(segments, place->epoch);
}

bool ps_recovery_may_bridge(const struct ps_journal_segments *segments,
                            const struct ps_checkpoint_place *place)
{
    PS_ASSERT(segments != NULL && place != NULL);
    return place->journal != PS_CHECKPOINT_JOURNAL_NONE &&
           ps_recovery_has_journal(segments, place->epoch);
}

/* A later epoch's segment is proof enough: its owner has read what was before it and gone on from
 * there. */
bool ps_recovery_journal_is_gone(const struct ps_journal_segments *segments,
                                 const struct ps_checkpoint_place *place)
{
    PS_ASSERT(segments != NULL && place != NULL);
    /* A pointer that says nothing, or that there was none, misses nothing. */
    if (place->journal != PS_CHECKPOINT_JOURNAL_KEPT)
        return false;
    /* One is enough. */
    for (size_t i = 0; i < segments->count; i++)
        if (segments->entries[i].epoch >= place->epoch)
            return false;
    return true;
}
