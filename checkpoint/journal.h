/* SPDX-License-Identifier: Apache-2.0 */
/* The journal of one shard: every push, in the order in which it was applied, on disk.
 * docs/journal-format.md is the format's description.
 *
 * A journal is a row of segment files in the shard's folder, named
 * "<epoch>-<position>.journal" (both in 16 hexadecimal digits; the position is that of the first
 * record that may stand in it). A segment begins with a record of its own that says shard, epoch,
 * first position, and which epoch and position it goes on from. Positions rise by one from record
 * to record, over all segments and epochs of a shard's life.
 *
 * What is current: the epoch of a segment ends where the next higher epoch begins. A former owner
 * that goes on writing after a takeover writes behind that place, into files of its own epoch: no
 * reader ever takes it (promise P4). Epochs that the owners after them did not go on from are not
 * read at all (journal_chain.h).
 *
 * What is whole: a record has a CRC-32C of its head and one of its content, and says which position
 * was durable when it was written. In the last segment of the last epoch, bytes that are no record
 * are the end of the journal, clean or torn, unless a record behind them says that the missing one
 * was durable (journal_scan.h; segments of format 1, which are still read, have one more rule).
 * Then they are damage, as they are in every other segment. Damage is reported with file, offset
 * and position, never skipped. A journal that ends before a position that was noted as durable
 * (journal_note.h) is damaged, too, however clean its end is.
 *
 * Threads:  a writer and a reader each belong to one thread at a time.
 * Blocking: for the disk.
 * Errors:   said at each function.
 * Memory:   said at each function.
 */
#ifndef PS_CHECKPOINT_JOURNAL_H
#define PS_CHECKPOINT_JOURNAL_H

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/dtype.h"
#include "base/encoding.h"
#include "base/file.h"
#include "base/status.h"
#include "checkpoint/history.h"
#include "checkpoint/journal_note.h"

#include <stdbool.h>
#include <stdint.h>

/* Later types get numbers of their own; a reader that meets a type it does not know stops with
 * PS_ERR_UNSUPPORTED. */
enum ps_record_type {
    PS_RECORD_SEGMENT = 1,     /* first of every segment; never given to callers */
    PS_RECORD_PUSH = 2,        /* one SendGrad that was applied */
    PS_RECORD_DEFINE = 3,      /* a parameter that came while training (journal_definition.h) */
    PS_RECORD_DROP = 4,        /* a parameter that went; no content */
    PS_RECORD_CONFIGURE = 5,   /* the configuration that a parameter has from here on, serialized */
    PS_RECORD_HELD = 6,        /* a contribution to the open round (journal_held.h) */
    PS_RECORD_ROUND = 7,       /* a round that ended, and made a version (journal_round.h) */
    PS_RECORD_CLOCKS = 8,      /* the settings of clocks, under their name (journal_clocks.h) */
    PS_RECORD_CLOCK = 9,       /* how far a worker is, under the name of its clocks (the same) */
    PS_RECORD_SWEEP = 10,      /* rows of a table that expired, all at once (journal_rows.h) */
    PS_RECORD_CANDIDATES = 11, /* keys of a table that are counted (journal_candidates.h); in
                                * checkpoints alone */
    PS_RECORD_EXPIRE = 12      /* some rows of a table that expired, by their keys (the same) */
};

/* The highest number of a type that this code knows. What stands in a checkpoint's sections is of
 * some of them (section.c). */
#define PS_RECORD_TYPE_LAST PS_RECORD_EXPIRE

/* Whether a record of that type makes a version of the parameter that it names. */
static inline bool ps_record_makes_version(enum ps_record_type type)
{
    return type == PS_RECORD_PUSH || type == PS_RECORD_ROUND;
}

/* One record. All bytes are borrowed: from the caller when writing, from the row when reading. */
struct ps_record {
    enum ps_record_type type;
    uint64_t position;         /* of this record in the life of the shard, from 1 */
    uint64_t epoch;            /* of the server that applied it */
    struct ps_bytes name;      /* of the parameter, or of the clocks */
    enum ps_dtype dtype;       /* of the gradient, or of what is defined; otherwise 0 */
    enum ps_encoding encoding; /* of the content */
    uint64_t version;          /* of the parameter after it; of one that goes: at its end */
    struct ps_bytes client_id; /* empty: the push carried no request id */
    uint64_t session;
    uint64_t sequence;
    uint32_t fingerprint;   /* of the request; 0: not known */
    struct ps_view content; /* a gradient as it was received, or what the type says */
};

/* ---- Writing ---- */

struct ps_journal_facts {
    uint32_t index;
    uint32_t shard_count;
    uint64_t epoch;
    uint64_t position;       /* behind which the epoch begins: the first record has position + 1 */
    uint64_t previous_epoch; /* whose journal (or checkpoint) this goes on from; 0: from nothing */
    struct ps_history history; /* of the shard; not known of segments of older programs */
    /* Records of former epochs up to here, that could be read but are not known to be on the disk,
     * are the first of this one. Not above position: there are none. Not in the file. */
    uint64_t repeat_to;
};

/* Default size at which a segment is closed and another begun. */
#define PS_JOURNAL_SEGMENT_BYTES ((uint64_t)64 << 20)

/* How a writer writes. All zero: the defaults, through the system's cache, by the caller alone. */
struct ps_journal_setup {
    uint64_t segment_bytes; /* 0: PS_JOURNAL_SEGMENT_BYTES */
    size_t buffer_bytes;    /* 0: block_output.h; a multiple of 4,096 */
    bool direct;            /* past the system's cache, where the file system can */
    bool behind;            /* with a thread that writes while the caller fills the next buffer */
    bool ahead;             /* with blocks made ready for small flushes */
};

struct ps_journal_writer;

/* Begins the journal of an epoch: its first segment is durable when this returns PS_OK, with the
 * records behind facts->position up to facts->repeat_to in it. Syncing the file that these were
 * read from would not do: a process that was killed leaves bytes that can be read but are not on
 * the disk yet, and after a sync that failed they may never get there, while the next sync, by
 * whomever, says that all is well. `folder` is made when missing, and copied; so is `setup`.
 *
 * PS_ERR_EXISTS       a segment of that epoch and position is there already
 * PS_ERR_CORRUPT      a record to be repeated is not there
 * PS_ERR_OUT_OF_RANGE facts->position is the highest number
 * PS_ERR_IO, PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_journal_writer_open(const struct ps_files *files, const char *folder,
                                                  const struct ps_journal_facts *facts,
                                                  const struct ps_journal_setup *setup,
                                                  const struct ps_allocator *memory,
                                                  struct ps_journal_writer **writer,
                                                  struct ps_error *error);

/* Closes without syncing: what was not flushed is lost. NULL is allowed. */
void ps_journal_writer_close(struct ps_journal_writer *writer);

/* Copies records to the end of the journal; they are durable when they were flushed and waited for.
 * Their positions go on from the last one without a gap, their epoch is the writer's: anything
 * else aborts. The call after the one that filled a segment begins the next.
 *
 * PS_OK               all of them were copied
 * otherwise           nobody knows which of the records behind ps_journal_writer_position() are on
 *                     the disk. The writer is dead: every later call gives the same error, and the
 *                     file is never synced again, until it is revived. The same for the two below
 */
PS_MUST_USE enum ps_status ps_journal_append(struct ps_journal_writer *writer,
                                             const struct ps_record *records, size_t record_count,
                                             struct ps_error *error);

/* Waits until what was flushed before is durable, then begins to make durable what was appended
 * since: one sync for all. The next append may follow while that is under way. */
PS_MUST_USE enum ps_status ps_journal_flush(struct ps_journal_writer *writer,
                                            struct ps_error *error);

/* PS_OK: all that was flushed is durable. */
PS_MUST_USE enum ps_status ps_journal_wait(struct ps_journal_writer *writer,
                                           struct ps_error *error);

/* The three in a row: PS_OK: the records are durable. */
PS_MUST_USE enum ps_status ps_journal_write(struct ps_journal_writer *writer,
                                            const struct ps_record *records, size_t record_count,
                                            struct ps_error *error);

/* A dead writer goes on in a new file, behind the last position that is durable: the records that
 * it failed to write are to be written again, with all that follow. A reader leaves the former file
 * there, whatever that has behind it.
 *
 * PS_OK               the writer lives
 * PS_ERR_IO, PS_ERR_NO_MEMORY   it is dead as before: revive it again later
 */
PS_MUST_USE enum ps_status ps_journal_writer_revive(struct ps_journal_writer *writer,
                                                    struct ps_error *error);

/* The last position that is known to be durable. */
uint64_t ps_journal_writer_position(const struct ps_journal_writer *writer);

/* Is the present segment still there under its name? If not, somebody has removed it, or moved the
 * folder: what it had is lost to recovery, though writes to it go well. Then the next append begins
 * another, for which the folder is made again. True also when nobody can tell. */
bool ps_journal_writer_look(struct ps_journal_writer *writer);

/* What becomes of swept segments of the sweeper's own epoch. */
enum ps_journal_swept {
    PS_JOURNAL_REMOVE, /* they go, and so does what was kept of earlier ones */
    PS_JOURNAL_KEEP    /* they are kept for the writer of that epoch to write over: a file whose
                        * blocks are there takes half of the time (journal_spares.h). What the
                        * writer has not used since the sweep before is removed */
};

/* Removes segments that no recovery needs: those whose every position is <= `covered` (the position
 * of the oldest checkpoint kept) and that are not the newest segment of `epoch`. `*removed` counts
 * them, kept or not.
 *
 * PS_ERR_STALE_EPOCH  a higher epoch has begun, the caller has no say: none was removed
 * PS_ERR_IO           one could not be removed; the others were tried
 */
PS_MUST_USE enum ps_status ps_journal_sweep(const struct ps_files *files, const char *folder,
                                            uint64_t epoch, uint64_t covered,
                                            enum ps_journal_swept swept,
                                            const struct ps_allocator *memory, size_t *removed,
                                            struct ps_error *error);

/* ---- Reading ---- */

struct ps_journal_reader;

/* Where a reader found damage, for people and for psckpt. */
struct ps_journal_damage {
    char segment[128]; /* file name */
    uint64_t offset;   /* of the first bad byte's record */
    uint64_t position; /* that should stand there */
};

/* Reads on from `position`: the first record is position + 1, of whichever epoch is current there.
 * Looks only at epochs up to `epoch_max` (the reader's own claim; UINT64_MAX: all). Returns the
 * reader in `*reader`; close it with ps_journal_reader_close().
 *
 * A folder without segments, or with none beyond `position`, is an empty journal: PS_OK.
 * PS_ERR_CORRUPT      the first record of the segment to begin in, or of a later epoch, is damaged;
 *                     or the first segment begins behind position + 1: records are missing
 */
PS_MUST_USE enum ps_status ps_journal_reader_open(const struct ps_files *files, const char *folder,
                                                  uint64_t position, uint64_t epoch_max,
                                                  const struct ps_allocator *memory,
                                                  struct ps_journal_reader **reader,
                                                  struct ps_error *error);
void ps_journal_reader_close(struct ps_journal_reader *reader);

/* The same of one history, where it is known: segments of others are passed over as if they were
 * not there. With the function above the first segment that says a history decides, and one of
 * another, where reading comes to it, is damage: two never meet in one reader. */
PS_MUST_USE enum ps_status
ps_journal_reader_open_of(const struct ps_files *files, const char *folder, uint64_t position,
                          uint64_t epoch_max, const struct ps_history *history,
                          const struct ps_allocator *memory, struct ps_journal_reader **reader,
                          struct ps_error *error);

/* One record and the memory that it lies in. */
struct ps_journal_row {
    struct ps_record record;
    struct ps_bytes piece;             /* what record.content views */
    const struct ps_allocator *memory; /* borrowed */
    void *block;                       /* owned */
};

/* Reads the next record, verified, into `*row`; release it with ps_journal_row_release(). The row
 * may be handed to another thread.
 *
 * PS_ERR_NOT_FOUND    the end: the last record was the one before. `*cut` says how many bytes of a
 *                     torn end were left out
 * PS_ERR_CORRUPT      damage; `*damage` (may be NULL) and the text say where. Or the end comes
 *                     before what was noted, and nobody has given that up: the text says how many
 *                     are missing
 * PS_ERR_UNSUPPORTED  a type or format that this version does not know; `*damage` says where
 * PS_ERR_IO, PS_ERR_NO_MEMORY   nothing was consumed: the call may be repeated. PS_ERR_IO also when
 *                     the segment has gone, which a server at work has swept: open the reader anew
 */
PS_MUST_USE enum ps_status ps_journal_next(struct ps_journal_reader *reader,
                                           struct ps_journal_row *row, uint64_t *cut,
                                           struct ps_journal_damage *damage,
                                           struct ps_error *error);

/* Accepts NULL, a zeroed row, and one released already. Moving a row by assignment moves its piece:
 * use ps_journal_row_move, which overwrites `to` and zeroes `from`. */
void ps_journal_row_release(struct ps_journal_row *row);
void ps_journal_row_move(struct ps_journal_row *to, struct ps_journal_row *from);

/* Before the first record is read: `noted` was noted elsewhere (zeroed: nothing was), and the state
 * that reading goes on from is of `base_epoch`: notes of lower epochs say nothing. Without this
 * call the notes of the folder count, of any epoch. */
void ps_journal_reader_expect(struct ps_journal_reader *reader, const struct ps_journal_note *noted,
                              uint64_t base_epoch);

/* At the end: how many positions behind it were noted and then given up by an operator. */
uint64_t ps_journal_reader_given_up(const struct ps_journal_reader *reader);

/* The highest position that a record read (or passed over on the way) calls durable: its writer had
 * synced that far. What was read behind it may be on the disk or not. */
uint64_t ps_journal_reader_durable(const struct ps_journal_reader *reader);

/* The epoch of the last record read, or of the segment that reading began in; 0: none. */
uint64_t ps_journal_reader_epoch(const struct ps_journal_reader *reader);

#endif
