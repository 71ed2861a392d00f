/* SPDX-License-Identifier: Apache-2.0 */
/* How far the journal was once durable, noted beside it.
 *
 * Records say what was durable when they were written, so the last write of a journal has nobody to
 * speak for it: bad bytes there look like a torn end, and a file that was cut short like one that
 * ends. A note does: "in this epoch, positions up to here were durable". Its owner makes one at a
 * stated pace, after the sync, so a note is never ahead of a journal that is undamaged. It may be
 * behind: then it demands less.
 *
 * In the shard's folder a note is a file without content, and says all in its name:
 * "<epoch>-<position>.durable", both in 16 hexadecimal digits. To move on is one rename, without a
 * sync: a crash leaves the old name or the new one. Each epoch has a note of its own, so that a
 * former owner that goes on after a takeover does not undo its successor's. A second note, as JSON,
 * is in the store, for when the whole folder goes back to what it was.
 *
 * What counts: of a journal that ends in epoch L, a note of a lower epoch says nothing, since what
 * L goes on from has to be whole anyway, and what a former owner wrote behind that never happened.
 *
 * An operator may give up what a note demands: "<noted>-<position>.given-up" says that the state
 * ends at that position and that whatever was noted beyond is not waited for.
 *
 * Threads:  pure but for the file system; one writer of an epoch's note at a time.
 * Blocking: for the disk.
 * Errors:   said at the functions; files that are not notes are passed over.
 * Memory:   fixed size.
 */
#ifndef PS_CHECKPOINT_JOURNAL_NOTE_H
#define PS_CHECKPOINT_JOURNAL_NOTE_H

#include "base/bytes.h"
#include "base/file.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define PS_JOURNAL_NOTE_SUFFIX ".durable"
#define PS_JOURNAL_GIVEN_UP_SUFFIX ".given-up"

/* Zeroed: there is none. */
struct ps_journal_note {
    uint64_t epoch;
    uint64_t position; /* this and all before it were durable */
};

/* What a folder says of its journal's end. */
struct ps_journal_notes {
    struct ps_journal_note highest; /* by epoch, then position */
    bool given_up;
    uint64_t given_up_noted; /* what was noted then; 0: nothing was known */
    uint64_t given_up_at;    /* where the state ends */
};

/* True when `note` is of a higher epoch than `other`, or goes further in the same one. */
bool ps_journal_note_after(const struct ps_journal_note *note, const struct ps_journal_note *other);

/* Reads the notes of epochs up to `epoch_max`. A folder that is not there has none. PS_ERR_IO. */
PS_MUST_USE enum ps_status ps_journal_notes_read(const struct ps_files *files, const char *folder,
                                                 uint64_t epoch_max, struct ps_journal_notes *notes,
                                                 struct ps_error *error);

/* Puts `note` into the folder, in place of `before`: the last one put of that epoch, zeroed for the
 * first. PS_ERR_IO: the one before stays. */
PS_MUST_USE enum ps_status ps_journal_note_put(const struct ps_files *files, const char *folder,
                                               const struct ps_journal_note *before,
                                               const struct ps_journal_note *note,
                                               struct ps_error *error);

/* An operator decides: the state of `folder` ends at `position`, though a note said `noted` (0: not
 * known). Durable when this returns PS_OK. The notes of the folder stay. It holds until a server
 * has begun its journal there (ps_journal_notes_sweep). PS_ERR_IO. */
PS_MUST_USE enum ps_status ps_journal_give_up(const struct ps_files *files, const char *folder,
                                              uint64_t noted, uint64_t position,
                                              struct ps_error *error);

/* Removes what says nothing any more when the journal of `epoch` has begun: notes of lower epochs,
 * and what was given up. What cannot be removed is left to the next time. */
void ps_journal_notes_sweep(const struct ps_files *files, const char *folder, uint64_t epoch);

/* How many noted positions are missing behind `end`: the position where a journal ends, and its
 * last epoch, or that of the checkpoint it goes on from when that is higher. 0: none, or an
 * operator has given them up; then `*given_up` says how many. */
uint64_t ps_journal_notes_missing(const struct ps_journal_notes *notes,
                                  const struct ps_journal_note *end, uint64_t *given_up);

/* The note as the store keeps it: JSON with `epoch` and `position`, as strings of digits. */
#define PS_JOURNAL_NOTE_JSON_BYTES 80
void ps_journal_note_write(const struct ps_journal_note *note,
                           char json[PS_JOURNAL_NOTE_JSON_BYTES]);

/* PS_ERR_CORRUPT when `json` is not such a document; unknown members are ignored.
 * PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_journal_note_read(struct ps_bytes json, struct ps_journal_note *note,
                                                struct ps_error *error);

#endif
