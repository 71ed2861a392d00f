/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a journal's reader, shared by the files that it is made of: journal_reader.c reads
 * records and judges what is bad, journal_epochs.c finds the way over segments and epochs. Private
 * to checkpoint/.
 *
 * Threads:  those of the reader.
 * Blocking: for the disk.
 * Errors:   as journal.h says of the reader.
 * Memory:   none beyond the reader's.
 */
#ifndef PS_CHECKPOINT_JOURNAL_READER_STATE_H
#define PS_CHECKPOINT_JOURNAL_READER_STATE_H

#include "checkpoint/journal.h"
#include "checkpoint/journal_record.h"
#include "checkpoint/journal_scan.h"
#include "checkpoint/journal_segments.h"
#include "checkpoint/journal_window.h"

struct ps_journal_reader {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    char *folder;                      /* owned */
    struct ps_journal_segments segments;
    uint64_t *begins; /* owned; of each segment that is the first of its epoch: where that began */
    struct ps_journal_window window;

    size_t at;         /* the present segment */
    bool entered;      /* its first record was read */
    bool ended;        /* there is nothing behind `offset` */
    bool read_again;   /* the record at `offset` was bad, and is read from the disk once more */
    uint64_t offset;   /* of the next record in it */
    uint64_t expected; /* position of that record */
    uint64_t wanted;   /* position of the next record for the caller; more while skipping */
    uint64_t end;      /* where the next epoch begins; UINT64_MAX: nowhere */
    uint64_t epoch;
    uint64_t durable;              /* by what the records say */
    struct ps_journal_notes notes; /* by the folder, and by whoever expects more */
    uint64_t base_epoch;           /* notes of lower ones say nothing */
    uint64_t given_up;             /* noted positions behind the end, by an operator's decision */
    uint64_t cut;
    struct ps_history history; /* of the journal: what was expected, or the first that was read */
    bool has_index;
    uint32_t index;          /* of the shard, by the first segment read */
    struct ps_error failure; /* PS_OK, or what every later call repeats */
    struct ps_journal_damage damage;
};

/* ---- The way (journal_epochs.c) ---- */

/* Fills reader->begins: where each listed epoch begins. Reads the first records of those that begin
 * behind the position to start at. */
PS_MUST_USE enum ps_status ps_journal_reader_find_begins(struct ps_journal_reader *reader,
                                                         struct ps_error *error);

/* Goes to the segment that holds `position`, of the epoch that is current there; that segment is
 * still to be entered. PS_ERR_CORRUPT: there is none. */
PS_MUST_USE enum ps_status ps_journal_reader_choose(struct ps_journal_reader *reader,
                                                    uint64_t position, struct ps_error *error);

/* Opens the present segment and reads its first record. A torn one ends the journal. */
PS_MUST_USE enum ps_status ps_journal_reader_enter(struct ps_journal_reader *reader,
                                                   struct ps_error *error);

/* Whether the next segment of this epoch begins with the expected position. */
bool ps_journal_reader_next_begins(const struct ps_journal_reader *reader);

/* The present segment is used up: on to the next, or to the end. PS_ERR_CORRUPT: a gap. */
PS_MUST_USE enum ps_status ps_journal_reader_next_segment(struct ps_journal_reader *reader,
                                                          struct ps_error *error);

/* ---- Records and what is bad (journal_reader.c) ---- */

/* Reads the head at reader->offset. Sets `*bad` when it is not the expected record's good one. */
PS_MUST_USE enum ps_status ps_journal_reader_head(struct ps_journal_reader *reader,
                                                  struct ps_journal_head *head,
                                                  enum ps_journal_verdict *verdict,
                                                  const char **bad, struct ps_error *error);

/* Takes in how far the journal was durable when this record was written. */
void ps_journal_reader_note_durable(struct ps_journal_reader *reader,
                                    const struct ps_journal_head *head);

/* A segment of that history is entered. PS_ERR_CORRUPT: those before it are of another one. */
PS_MUST_USE enum ps_status ps_journal_reader_see_history(struct ps_journal_reader *reader,
                                                         const struct ps_history *history,
                                                         struct ps_error *error);

/* No record stands at reader->offset: PS_OK when that is the end of the journal, which is ended
 * then, or when the record is to be read once more; PS_ERR_CORRUPT when it is damage; PS_ERR_IO
 * when the segment has gone. */
PS_MUST_USE enum ps_status ps_journal_reader_settle_bad(struct ps_journal_reader *reader,
                                                        uint64_t heads_from, const char *reason,
                                                        struct ps_error *error);

/* Whether the bad bytes at reader->offset are the end of the journal. */
PS_MUST_USE enum ps_status ps_journal_reader_find_ending(struct ps_journal_reader *reader,
                                                         uint64_t heads_from,
                                                         struct ps_journal_ending *ending,
                                                         struct ps_error *error);

/* Fill reader->damage with the present place: PS_ERR_CORRUPT, or PS_ERR_IO when the segment has
 * gone; and PS_ERR_UNSUPPORTED. */
enum ps_status ps_journal_reader_damaged(struct ps_journal_reader *reader, const char *reason,
                                         struct ps_error *error);
enum ps_status ps_journal_reader_unsupported(struct ps_journal_reader *reader,
                                             struct ps_error *error);

#endif
