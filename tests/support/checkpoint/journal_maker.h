/* SPDX-License-Identifier: Apache-2.0 */
/* Journals of either format as a server of that version leaves them, for tests of reading: one
 * flush a call, whole segments put into their files at once.
 *
 * Threads:  one.
 * Blocking: for the disk.
 * Errors:   those of the file system when a segment is put; no memory aborts.
 * Memory:   a maker owns its bytes until journal_maker_end.
 */
#ifndef PS_TESTS_SUPPORT_JOURNAL_MAKER_H
#define PS_TESTS_SUPPORT_JOURNAL_MAKER_H

#include "base/file.h"
#include "checkpoint/journal.h"
#include "checkpoint/journal_record.h"

struct journal_maker {
    const struct ps_files *files; /* borrowed */
    const char *folder;           /* borrowed */
    struct ps_journal_facts facts;
    struct ps_journal_life life; /* of the present segment; the next one's salt is one more */
    uint64_t segment_bytes;
    uint64_t first;    /* position of the present segment */
    uint64_t position; /* the last one that was written */
    uint8_t *bytes;    /* owned: the present segment */
    size_t size;
    size_t end; /* of the last record; behind it are only the zeros of its flush */
    size_t capacity;
};

/* Begins the journal of an epoch behind facts->position, in `format`, with a salt that follows from
 * epoch and position. The folder is made. */
PS_MUST_USE enum ps_status journal_maker_begin(struct journal_maker *maker,
                                               const struct ps_files *files, const char *folder,
                                               const struct ps_journal_facts *facts,
                                               uint32_t format, uint64_t segment_bytes,
                                               struct ps_error *error);

/* Writes records as one flush, to a new segment when the present one has its size. */
PS_MUST_USE enum ps_status journal_maker_write(struct journal_maker *maker,
                                               const struct ps_record *records, size_t count,
                                               struct ps_error *error);

/* Puts the last segment into its file, unless that failed before. */
PS_MUST_USE enum ps_status journal_maker_end(struct journal_maker *maker, struct ps_error *error);

/* ---- Parts of it, for segments that no server makes ---- */

/* Adds a record behind the present bytes; it says that `durable` was. */
void journal_maker_add(struct journal_maker *maker, const struct ps_record *record,
                       uint64_t durable);

/* Ends a flush: zeros up to the next block, in format 2. */
void journal_maker_pad(struct journal_maker *maker);

#endif
