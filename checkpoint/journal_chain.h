/* SPDX-License-Identifier: Apache-2.0 */
/* Which epochs of a folder's journal count: those that the newest one goes on from, by what the
 * first record of each says.
 *
 * A server that was stopped between its claim and the opening of its journal, and goes on when the
 * shard is another's already, leaves a segment whose epoch lies between the former owner's and the
 * next one's, and may begin before the place up to which the next one read the former's. It is
 * void: the next owner went on from an older epoch, so no push of it was ever part of a state.
 *
 * Threads:  pure but for the file system.
 * Blocking: for the disk.
 * Errors:   said at the function.
 * Memory:   none but the list's.
 */
#ifndef PS_CHECKPOINT_JOURNAL_CHAIN_H
#define PS_CHECKPOINT_JOURNAL_CHAIN_H

#include "checkpoint/history.h"
#include "checkpoint/journal_segments.h"

/* Takes the segments of void epochs out of the list. Looks from the newest epoch down to the one in
 * which reading at `wanted` begins (0: to the oldest). An epoch whose first record cannot be read
 * voids nothing; whether that is damage is for the reader to say.
 *
 * PS_ERR_IO     the list is then of no use
 */
PS_MUST_USE enum ps_status ps_journal_chain_keep(struct ps_journal_segments *segments,
                                                 const struct ps_files *files, const char *folder,
                                                 uint64_t wanted, struct ps_error *error);

/* Takes the segments of other histories than `history` out of the list. Those that say none stay,
 * and so do those that are damaged, have gone or cannot be read: whoever needs one says so. Nothing
 * happens where `history` is not known. Comes before ps_journal_chain_keep, in which a stranger
 * would decide which epochs are void. */
void ps_journal_chain_keep_history(struct ps_journal_segments *segments,
                                   const struct ps_files *files, const char *folder,
                                   const struct ps_history *history);

#endif
