/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a journal from a position on: over segments, over epochs, up to the first byte that no
 * reader may believe.
 *
 * Every record is verified before it is given out, and exactly one thing stands at each position:
 * the record that the owner of that time made durable. What is not such a record is judged once, by
 * settle_bad: at the very end of the journal it may be torn by a crash, and is cut; anywhere else
 * it is damage, which is reported with its place and never skipped. journal_epochs.c chooses the
 * segments.
 *
 * The invariant between two calls: `offset` in the present segment is where the record of position
 * `expected` begins, and `wanted` is the next position that the caller gets. */
#include "checkpoint/journal.h"

#include "base/assert.h"
#include "checkpoint/journal_chain.h"
#include "checkpoint/journal_first.h"
#include "checkpoint/journal_reader_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Begins the text of every PS_ERR_CORRUPT of a journal. */
#define DAMAGED "journal checksum validation failed: "

static enum ps_status open_at(struct ps_journal_reader *reader, const struct ps_files *files,
                              const char *folder, uint64_t epoch_max, struct ps_error *error);
static enum ps_status next_record(struct ps_journal_reader *reader, struct ps_journal_row *row,
                                  struct ps_error *error);
static enum ps_status see_end(struct ps_journal_reader *reader, struct ps_error *error);
static enum ps_status read_record(struct ps_journal_reader *reader, struct ps_journal_row *row,
                                  bool *given, struct ps_error *error);
static enum ps_status read_row(struct ps_journal_reader *reader, const struct ps_journal_head *head,
                               struct ps_journal_row *row, const char **bad,
                               struct ps_error *error);
static enum ps_status see_name(struct ps_journal_reader *reader, struct ps_error *error);
static void note_place(struct ps_journal_reader *reader);

enum ps_status ps_journal_reader_open(const struct ps_files *files, const char *folder,
                                      uint64_t position, uint64_t epoch_max,
                                      const struct ps_allocator *memory,
                                      struct ps_journal_reader **reader, struct ps_error *error)
{
    const struct ps_history any = {{0}};
    return ps_journal_reader_open_of(files, folder, position, epoch_max, &any, memory, reader,
                                     error);
}

enum ps_status ps_journal_reader_open_of(const struct ps_files *files, const char *folder,
                                         uint64_t position, uint64_t epoch_max,
                                         const struct ps_history *history,
                                         const struct ps_allocator *memory,
                                         struct ps_journal_reader **reader, struct ps_error *error)
{
    PS_ASSERT(files != NULL && folder != NULL && memory != NULL && reader != NULL);
    PS_ASSERT(history != NULL);
    struct ps_journal_reader *opened = ps_zeroed(memory, sizeof *opened);
    if (opened == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "journal: no memory for a reader");
    opened->memory = memory;
    opened->history = *history;
    opened->end = UINT64_MAX;
    /* Behind the last position there is none, and position + 1 would wrap. */
    opened->ended = position == UINT64_MAX;
    opened->wanted = opened->ended ? position : position + 1;
    enum ps_status status = open_at(opened, files, folder, epoch_max, error);
    if (status != PS_OK) {
        ps_journal_reader_close(opened);
        return status;
    }
    *reader = opened;
    return PS_OK;
}

/* Parts that were never made are zero and may be ended like the others. */
void ps_journal_reader_close(struct ps_journal_reader *reader)
{
    if (reader == NULL)
        return;
    ps_journal_window_fini(&reader->window);
    ps_journal_segments_fini(&reader->segments);
    ps_release(reader->memory, reader->begins);
    ps_release(reader->memory, reader->folder);
    ps_release(reader->memory, reader);
}

uint64_t ps_journal_reader_epoch(const struct ps_journal_reader *reader)
{
    PS_ASSERT(reader != NULL);
    return reader->epoch;
}

/* The store may know of a later note than the folder, when the folder as a whole went back to an
 * older state (a restored disk). The higher of both counts. */
void ps_journal_reader_expect(struct ps_journal_reader *reader, const struct ps_journal_note *noted,
                              uint64_t base_epoch)
{
    PS_ASSERT(reader != NULL && noted != NULL);
    if (ps_journal_note_after(noted, &reader->notes.highest))
        reader->notes.highest = *noted;
    reader->base_epoch = base_epoch;
}

/* The last line of defence, for whoever reads a folder without having asked whose it is, and for
 * files that come while it is read. Of a segment without a history nobody can say that it does not
 * belong: an older program wrote it. */
enum ps_status ps_journal_reader_see_history(struct ps_journal_reader *reader,
                                             const struct ps_history *history,
                                             struct ps_error *error)
{
    if (ps_history_differ(history, &reader->history))
        return ps_journal_reader_damaged(reader, "the segment is of another history of the shard",
                                         error);
    if (ps_history_known(history))
        reader->history = *history;
    return PS_OK;
}

uint64_t ps_journal_reader_given_up(const struct ps_journal_reader *reader)
{
    PS_ASSERT(reader != NULL);
    return reader->given_up;
}

uint64_t ps_journal_reader_durable(const struct ps_journal_reader *reader)
{
    PS_ASSERT(reader != NULL);
    return reader->durable;
}

static enum ps_status open_at(struct ps_journal_reader *reader, const struct ps_files *files,
                              const char *folder, uint64_t epoch_max, struct ps_error *error)
{
    PS_TRY(ps_journal_window_init(&reader->window, files, reader->memory, error));
    /* Notes first, segments second: what is noted in between may be in segments that are not listed
     * here, and would look as if it were missing. */
    PS_TRY(ps_journal_notes_read(files, folder, epoch_max, &reader->notes, error));
    PS_TRY(ps_journal_segments_init(&reader->segments, files, folder, epoch_max, reader->memory,
                                    error));
    /* Strangers go before void epochs, which they would decide. */
    ps_journal_chain_keep_history(&reader->segments, files, folder, &reader->history);
    /* Void epochs go before anything is chosen: their begins would end epochs that count. */
    PS_TRY(ps_journal_chain_keep(&reader->segments, files, folder, reader->wanted, error));
    reader->folder = ps_copy_text(reader->memory, folder, strlen(folder));
    reader->begins =
        ps_zeroed_array(reader->memory, reader->segments.count, sizeof *reader->begins);
    if (reader->folder == NULL || reader->begins == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "journal: no memory for a reader");
    reader->ended = reader->ended || reader->segments.count == 0;
    if (reader->ended)
        return PS_OK;
    PS_TRY(ps_journal_reader_find_begins(reader, error));
    PS_TRY(ps_journal_reader_choose(reader, reader->wanted, error));
    reader->epoch = reader->segments.entries[reader->at].epoch;
    return ps_journal_reader_enter(reader, error);
}

/* A reader that met damage stays there: reading on behind it would be reading something else, so
 * the same failure is repeated. Failures of the disk or of memory leave everything in place, and
 * the call may be made again. */
enum ps_status ps_journal_next(struct ps_journal_reader *reader, struct ps_journal_row *row,
                               uint64_t *cut, struct ps_journal_damage *damage,
                               struct ps_error *error)
{
    PS_ASSERT(reader != NULL && row != NULL && cut != NULL);
    enum ps_status status = reader->failure.status;
    if (status == PS_OK) {
        struct ps_error reason; /* Not zeroed: this is done for every record. */
        reason.text[0] = '\0';
        status = next_record(reader, row, &reason);
        if (status == PS_OK)
            return PS_OK;
        if (status != PS_ERR_CORRUPT && status != PS_ERR_UNSUPPORTED) {
            *cut = reader->cut;
            return ps_fail(error, status, "%s", reason.text);
        }
        /* The reader keeps the failure, which every later call repeats. */
        reader->failure = reason;
        reader->failure.status = status;
    }
    if (damage != NULL)
        *damage = reader->damage;
    return ps_fail(error, status, "%s", reader->failure.text);
}

/* One step at a time until a record was given: enter a segment, change the epoch, change the
 * segment, or read. The epoch's end is asked for before the segment's, since a former owner's
 * segment may go on behind the takeover. */
static enum ps_status next_record(struct ps_journal_reader *reader, struct ps_journal_row *row,
                                  struct ps_error *error)
{
    bool given = false;
    while (!given) {
        if (reader->ended)
            return see_end(reader, error);
        if (!reader->entered)
            PS_TRY(ps_journal_reader_enter(reader, error));
        else if (reader->expected == reader->end)
            PS_TRY(ps_journal_reader_choose(reader, reader->expected, error));
        else if (ps_journal_reader_next_begins(reader))
            PS_TRY(ps_journal_reader_next_segment(reader, error));
        else
            PS_TRY(read_record(reader, row, &given, error));
    }
    return PS_OK;
}

/* The files end cleanly here, or were torn. Was the journal longer once? A note says how far it was
 * durable; if that is further, acknowledged pushes are missing, however clean the end looks (a file
 * that was cut short at a record's border looks like one that ends there). */
static enum ps_status see_end(struct ps_journal_reader *reader, struct ps_error *error)
{
    const struct ps_journal_segments *segments = &reader->segments;
    uint64_t last = segments->count > 0 ? segments->entries[segments->count - 1].epoch : 0;
    /* Of an empty journal the state itself is the end: notes of epochs before it demand nothing. */
    struct ps_journal_note end = {last > reader->base_epoch ? last : reader->base_epoch,
                                  reader->wanted - 1};
    if (segments->count > 0)
        ps_journal_name_write(segments->entries[reader->at], reader->damage.segment);
    uint64_t missing = ps_journal_notes_missing(&reader->notes, &end, &reader->given_up);
    reader->damage.offset = reader->offset;
    reader->damage.position = reader->wanted;
    if (missing == 0)
        return ps_fail(error, PS_ERR_NOT_FOUND, "journal: this is its end");
    return ps_fail(error, PS_ERR_CORRUPT,
                   "journal: %s ends at position %" PRIu64 " (offset %" PRIu64 "), but %" PRIu64
                   " was noted as durable: at least %" PRIu64 " acknowledged pushes are missing",
                   segments->count > 0 ? reader->damage.segment : "it", end.position,
                   reader->offset, end.position + missing, missing);
}

/* The highest counts: an epoch that repeats records begins again with a lower claim. */
void ps_journal_reader_note_durable(struct ps_journal_reader *reader,
                                    const struct ps_journal_head *head)
{
    if (head->durable > reader->durable)
        reader->durable = head->durable;
}

/* Reads the record at `offset`, or behind the zeros there. Records before the wanted position are
 * passed over by their heads: their contents are covered by the checkpoint, and reading them would
 * take most of the time. */
static enum ps_status read_record(struct ps_journal_reader *reader, struct ps_journal_row *row,
                                  bool *given, struct ps_error *error)
{
    struct ps_journal_head head;
    const char *bad = NULL;
    PS_TRY(ps_journal_window_pass_zeros(&reader->window, &reader->offset, error));
    uint64_t left = reader->window.file_bytes - reader->offset;
    /* Only a file that never had blocks made ready ends with its records. */
    if (left == 0)
        return ps_journal_reader_next_segment(reader, error);
    enum ps_journal_verdict verdict = PS_JOURNAL_BAD;
    PS_TRY(ps_journal_reader_head(reader, &head, &verdict, &bad, error));
    if (verdict == PS_JOURNAL_UNKNOWN)
        return ps_journal_reader_unsupported(reader, error);
    if (bad != NULL)
        return ps_journal_reader_settle_bad(reader, reader->offset, bad, error);
    /* The head is whole and its content is not: no other record can begin within the file behind
     * it. */
    if (head.record_bytes > left)
        return ps_journal_reader_settle_bad(reader, reader->window.file_bytes,
                                            "the segment ends within it", error);
    /* Below it the record was whole when a checkpoint was made behind it. */
    if (reader->expected >= reader->wanted) {
        PS_TRY(read_row(reader, &head, row, &bad, error));
        if (bad != NULL)
            return ps_journal_reader_settle_bad(reader, reader->offset + head.record_bytes, bad,
                                                error);
        reader->wanted = reader->expected + 1;
        reader->epoch = head.record.epoch;
        *given = true;
    }
    ps_journal_reader_note_durable(reader, &head);
    reader->offset += head.record_bytes;
    reader->expected++;
    reader->read_again = false;
    return PS_OK;
}

/* A good head of another record is as bad as a damaged one: an old block of the disk, or a file
 * under a wrong name. */
enum ps_status ps_journal_reader_head(struct ps_journal_reader *reader,
                                      struct ps_journal_head *head,
                                      enum ps_journal_verdict *verdict, const char **bad,
                                      struct ps_error *error)
{
    PS_TRY(ps_journal_window_head(&reader->window, reader->offset, head, verdict, error));
    /* The checksum has found bad bits already; these find records in a wrong place. */
    const struct ps_record *record = &head->record;
    bool first = reader->offset == 0;
    if (*verdict == PS_JOURNAL_BAD)
        *bad = "its head is damaged";
    /* Of an unknown one no reason is given: the caller stops with "unsupported", which is not
     * damage. */
    else if (*verdict == PS_JOURNAL_GOOD &&
             (record->epoch != reader->segments.entries[reader->at].epoch ||
              record->position != reader->expected || (record->type == PS_RECORD_SEGMENT) != first))
        *bad = "another record stands there";
    return PS_OK;
}

/* Copies a record into one block of its own, which may travel to another thread. The content comes
 * first, where the heap aligns it for any element: replay hands it to the arithmetic as it lies. */
static enum ps_status read_row(struct ps_journal_reader *reader, const struct ps_journal_head *head,
                               struct ps_journal_row *row, const char **bad, struct ps_error *error)
{
    const struct ps_record *record = &head->record;
    size_t content_bytes = (size_t)head->content_bytes;
    size_t id_bytes = record->client_id.size;
    /* Sizes of a verified head that fits the file, so their sum is bounded by the file's size. */
    uint8_t *block = ps_plain(reader->memory, content_bytes + id_bytes + record->name.size);
    if (block == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "journal: no memory for a record of %zu bytes",
                       content_bytes);
    uint8_t *id = block + content_bytes;
    uint8_t *name = id + id_bytes;
    /* The head lies in the window, which reading the content moves. */
    if (id_bytes > 0)
        memcpy(id, record->client_id.data, id_bytes);
    memcpy(name, record->name.data, record->name.size);
    enum ps_status status =
        ps_journal_window_content(&reader->window, reader->offset, head, block, bad, error);
    if (status != PS_OK || *bad != NULL) {
        ps_release(reader->memory, block);
        return status;
    }
    *row = (struct ps_journal_row){.record = *record, .memory = reader->memory, .block = block};
    row->record.client_id.data = id;
    row->record.name.data = name;
    row->piece = (struct ps_bytes){block, content_bytes};
    row->record.content = ps_view_of(&row->piece);
    return PS_OK;
}

/* No record stands at `offset`: the end of the journal, or damage. */
enum ps_status ps_journal_reader_settle_bad(struct ps_journal_reader *reader, uint64_t heads_from,
                                            const char *reason, struct ps_error *error)
{
    struct ps_journal_ending ending = {0};
    PS_ASSERT(!reader->ended && heads_from >= reader->offset);
    PS_TRY(ps_journal_reader_find_ending(reader, heads_from, &ending, error));
    /* A server at work may have written the record since it was read ahead, and those behind it
     * that now vouch for it. */
    if (ending.damaged && reader->entered && !reader->read_again) {
        ps_journal_window_forget(&reader->window);
        reader->read_again = true;
        return PS_OK;
    }
    if (ending.damaged)
        return ps_journal_reader_damaged(reader, reason, error);
    PS_TRY(see_name(reader, error));
    /* A torn end is an end: later calls say so again, and a writer goes on behind it in a new
     * epoch. */
    reader->ended = true;
    /* How much a crash has torn off, for a log line; nothing in it was acknowledged. */
    reader->cut = ending.cut;
    return PS_OK;
}

/* A segment that another one follows, or an epoch that another one goes on from, was whole once:
 * its owner, or the successor, had read it. Only the last of all can have been torn. */
enum ps_status ps_journal_reader_find_ending(struct ps_journal_reader *reader, uint64_t heads_from,
                                             struct ps_journal_ending *ending,
                                             struct ps_error *error)
{
    if (!ps_journal_segments_last(&reader->segments, reader->at) || reader->end != UINT64_MAX) {
        *ending = (struct ps_journal_ending){.damaged = true};
        return PS_OK;
    }
    struct ps_journal_hole hole = {.offset = reader->offset,
                                   .heads_from = heads_from,
                                   .epoch = reader->segments.entries[reader->at].epoch,
                                   .position = reader->expected};
    return ps_journal_scan(&reader->window, &hole, ending, error);
}

/* PS_ERR_IO when the present segment has gone, since nothing that was read of it can be judged
 * then: its owner may have taken the file for another segment. Only what was read before counts. */
static enum ps_status see_name(struct ps_journal_reader *reader, struct ps_error *error)
{
    struct ps_journal_segment segment = reader->segments.entries[reader->at];
    char path[PS_JOURNAL_PATH_BYTES];
    bool same = true;
    /* After the bytes, not before: a file loses its name first, and is written over then. */
    PS_TRY(ps_journal_path_write(reader->folder, segment, path, error));
    PS_TRY(ps_journal_first_is_same(reader->window.files, path, segment, &reader->window.life,
                                    &same, error));
    return same ? PS_OK : ps_journal_first_gone(segment, error);
}

enum ps_status ps_journal_reader_damaged(struct ps_journal_reader *reader, const char *reason,
                                         struct ps_error *error)
{
    PS_TRY(see_name(reader, error));
    note_place(reader);
    return ps_fail(error, PS_ERR_CORRUPT,
                   DAMAGED "%s, offset %" PRIu64 ", position %" PRIu64 ": %s",
                   reader->damage.segment, reader->damage.offset, reader->damage.position, reason);
}

/* The place goes into the reader, from where ps_journal_next hands it out with every later call. */
static void note_place(struct ps_journal_reader *reader)
{
    ps_journal_name_write(reader->segments.entries[reader->at], reader->damage.segment);
    reader->damage.offset = reader->offset;
    reader->damage.position = reader->expected;
}

enum ps_status ps_journal_reader_unsupported(struct ps_journal_reader *reader,
                                             struct ps_error *error)
{
    note_place(reader);
    return ps_fail(error, PS_ERR_UNSUPPORTED,
                   "journal: %s, offset %" PRIu64 ", position %" PRIu64
                   ": a record that this version does not know",
                   reader->damage.segment, reader->damage.offset, reader->damage.position);
}
