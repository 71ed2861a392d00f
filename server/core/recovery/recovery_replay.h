/* SPDX-License-Identifier: Apache-2.0 */
/* The second half of recovery: the journal behind a checkpoint that was loaded.
 *
 * Threads:  none inside; the sink may have some.
 * Blocking: reads files.
 * Errors:   said at the functions.
 * Memory:   one record at a time, and what the sink keeps.
 */
#ifndef PS_SERVER_CORE_RECOVERY_REPLAY_H
#define PS_SERVER_CORE_RECOVERY_REPLAY_H

#include "checkpoint/journal_segments.h"
#include "server/core/recovery/recovery_run.h"

/* Does the journal belong to an owner of before? True when `epoch` is lower than `other`. */
bool ps_recovery_is_former(uint64_t epoch, uint64_t other);

/* Had a higher epoch begun before a checkpoint of `epoch` at `position` was taken? */
bool ps_recovery_is_superseded(const struct ps_journal_segments *segments, uint64_t epoch,
                               uint64_t position);

/* Did this epoch run with a journal? */
bool ps_recovery_has_journal(const struct ps_journal_segments *segments, uint64_t epoch);

/* Replays what is behind recovered->place, whose state the service holds, and fills in what
 * ps_recovered says of it, as far as it came.
 *
 * PS_ERR_CORRUPT      the journal is damaged, has a gap, or does not fit the checkpoint
 * otherwise           as ps_recovery_run says
 */
PS_MUST_USE enum ps_status ps_recovery_replay(const struct ps_recovery *recovery,
                                              const struct ps_journal_segments *segments,
                                              struct ps_recovered *recovered,
                                              struct ps_error *error);

#endif
