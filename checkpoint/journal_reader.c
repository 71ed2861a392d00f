/* Reads a journal from a position on: over segments, over epochs, up to the first byte that no
 * reader may believe. */
#include "checkpoint/journal.h"

#include "base/assert.h"
#include "checkpoint/journal_chain.h"
#include "checkpoint/journal_record.h"
#include "checkpoint/journal_scan.h"
#include "checkpoint/journal_segments.h"
#include "checkpoint/journal_window.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Begins the text of every PS_ERR_CORRUPT of a journal. */
#define DAMAGED "journal checksum validation failed: "

struct ps_journal_reader {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    char *folder;                      /* owned */
    struct ps_journal_segments segments;
    uint64_t *begins; /* owned; of each segment that is the first of its epoch: where that began */
    struct ps_journal_window window;

    size_t at;         /* the present segment */
    bool entered;      /* its first record was read */
    bool ended;        /* there is nothing behind `offset` */
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
    bool has_index;
    uint32_t index;          /* of the shard, by the first segment read */
    struct ps_error failure; /* PS_OK, or what every later call repeats */
    struct ps_journal_damage damage;
};

static enum ps_status open_at(struct ps_journal_reader *reader, const struct ps_files *files,
                              const char *folder, uint64_t epoch_max, struct ps_error *error);
static enum ps_status find_begins(struct ps_journal_reader *reader, struct ps_error *error);
static enum ps_status find_begin(struct ps_journal_reader *reader, size_t i,
                                 struct ps_error *error);
static enum ps_status choose(struct ps_journal_reader *reader, uint64_t position,
                             struct ps_error *error);
static enum ps_status next_record(struct ps_journal_reader *reader, struct ps_journal_row *row,
                                  struct ps_error *error);
static enum ps_status see_end(struct ps_journal_reader *reader, struct ps_error *error);
static enum ps_status enter(struct ps_journal_reader *reader, struct ps_error *error);
static enum ps_status read_first_record(struct ps_journal_reader *reader,
                                        struct ps_journal_head *head,
                                        struct ps_journal_facts *facts, const char **bad,
                                        struct ps_error *error);
static void note_durable(struct ps_journal_reader *reader, const struct ps_journal_head *head);
static bool next_begins(const struct ps_journal_reader *reader);
static enum ps_status next_segment(struct ps_journal_reader *reader, struct ps_error *error);
static enum ps_status read_record(struct ps_journal_reader *reader, struct ps_journal_row *row,
                                  bool *given, struct ps_error *error);
static const char *read_head(struct ps_journal_reader *reader, struct ps_bytes bytes,
                             struct ps_journal_head *head, enum ps_journal_verdict *verdict);
static enum ps_status read_row(struct ps_journal_reader *reader, const struct ps_journal_head *head,
                               struct ps_journal_row *row, const char **bad,
                               struct ps_error *error);
static enum ps_status settle_bad(struct ps_journal_reader *reader, uint64_t heads_from,
                                 const char *reason, struct ps_error *error);
static enum ps_status is_torn(struct ps_journal_reader *reader, uint64_t heads_from, bool *torn,
                              struct ps_error *error);
static enum ps_status damaged(struct ps_journal_reader *reader, const char *reason,
                              struct ps_error *error);
static enum ps_status unsupported(struct ps_journal_reader *reader, struct ps_error *error);

enum ps_status ps_journal_reader_open(const struct ps_files *files, const char *folder,
                                      uint64_t position, uint64_t epoch_max,
                                      const struct ps_allocator *memory,
                                      struct ps_journal_reader **reader, struct ps_error *error)
{
    PS_ASSERT(files != NULL && folder != NULL && memory != NULL && reader != NULL);
    struct ps_journal_reader *opened = ps_zeroed(memory, sizeof *opened);
    if (opened == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "journal: no memory for a reader");
    opened->memory = memory;
    opened->end = UINT64_MAX;
    /* Behind the last position there is none. */
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

void ps_journal_reader_expect(struct ps_journal_reader *reader, const struct ps_journal_note *noted,
                              uint64_t base_epoch)
{
    PS_ASSERT(reader != NULL && noted != NULL);
    if (ps_journal_note_after(noted, &reader->notes.highest))
        reader->notes.highest = *noted;
    reader->base_epoch = base_epoch;
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
    /* First: what is noted later may be in segments that are not listed here. */
    PS_TRY(ps_journal_notes_read(files, folder, epoch_max, &reader->notes, error));
    PS_TRY(ps_journal_segments_init(&reader->segments, files, folder, epoch_max, reader->memory,
                                    error));
    PS_TRY(ps_journal_chain_keep(&reader->segments, files, folder, reader->wanted, error));
    reader->folder = ps_copy_text(reader->memory, folder, strlen(folder));
    reader->begins =
        ps_zeroed_array(reader->memory, reader->segments.count, sizeof *reader->begins);
    if (reader->folder == NULL || reader->begins == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "journal: no memory for a reader");
    reader->ended = reader->ended || reader->segments.count == 0;
    if (reader->ended)
        return PS_OK;
    PS_TRY(find_begins(reader, error));
    PS_TRY(choose(reader, reader->wanted, error));
    reader->epoch = reader->segments.entries[reader->at].epoch;
    return enter(reader, error);
}

/* By its name, an epoch begins at its first segment or, when that was swept, before it. That is
 * enough for epochs up to the one to begin in; of the later ones the exact place is needed. */
static enum ps_status find_begins(struct ps_journal_reader *reader, struct ps_error *error)
{
    const struct ps_journal_segments *segments = &reader->segments;
    size_t later = 0;
    for (size_t i = 0; i < segments->count; i++) {
        reader->begins[i] = segments->entries[i].first;
        if (segments->entries[i].first <= reader->wanted)
            later = i + 1;
    }
    for (size_t i = later; i < segments->count; i++) {
        if (ps_journal_segments_first(segments, i))
            PS_TRY(find_begin(reader, i, error));
    }
    return PS_OK;
}

/* An epoch whose first record never reached the disk began all the same: its name says where. */
static enum ps_status find_begin(struct ps_journal_reader *reader, size_t i, struct ps_error *error)
{
    struct ps_journal_head head;
    struct ps_journal_facts facts;
    const char *bad = NULL;
    bool torn = false;
    reader->at = i;
    PS_TRY(read_first_record(reader, &head, &facts, &bad, error));
    if (bad == NULL) {
        reader->begins[i] = facts.position + 1;
        return PS_OK;
    }
    PS_TRY(is_torn(reader, PS_JOURNAL_ALIGNMENT, &torn, error));
    return torn ? PS_OK : damaged(reader, bad, error);
}

/* Finds the segment that holds `position`, of the epoch that is current there: the highest that
 * has begun by then. It is current until any higher one begins. */
static enum ps_status choose(struct ps_journal_reader *reader, uint64_t position,
                             struct ps_error *error)
{
    const struct ps_journal_segments *segments = &reader->segments;
    size_t chosen = segments->count;
    uint64_t end = UINT64_MAX;
    for (size_t i = segments->count; i > 0 && chosen == segments->count; i--) {
        if (!ps_journal_segments_first(segments, i - 1))
            continue;
        if (reader->begins[i - 1] <= position)
            chosen = i - 1;
        else if (reader->begins[i - 1] < end)
            end = reader->begins[i - 1];
    }
    reader->at = chosen < segments->count ? chosen : 0;
    reader->offset = 0;
    reader->expected = position;
    if (chosen == segments->count || segments->entries[chosen].first > position)
        return damaged(reader, "the segment that should hold it is missing", error);
    while (!ps_journal_segments_last(segments, reader->at) &&
           segments->entries[reader->at + 1].first <= position)
        reader->at++;
    reader->end = end;
    reader->expected = segments->entries[reader->at].first;
    reader->entered = false;
    return PS_OK;
}

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
        /* Reading on behind it would be reading something else. */
        reader->failure = reason;
        reader->failure.status = status;
    }
    if (damage != NULL)
        *damage = reader->damage;
    return ps_fail(error, status, "%s", reader->failure.text);
}

static enum ps_status next_record(struct ps_journal_reader *reader, struct ps_journal_row *row,
                                  struct ps_error *error)
{
    bool given = false;
    while (!given) {
        if (reader->ended)
            return see_end(reader, error);
        if (!reader->entered)
            PS_TRY(enter(reader, error));
        else if (reader->expected == reader->end)
            PS_TRY(choose(reader, reader->expected, error));
        else if (reader->offset == reader->window.file_bytes || next_begins(reader))
            PS_TRY(next_segment(reader, error));
        else
            PS_TRY(read_record(reader, row, &given, error));
    }
    return PS_OK;
}

/* Was it longer once? */
static enum ps_status see_end(struct ps_journal_reader *reader, struct ps_error *error)
{
    const struct ps_journal_segments *segments = &reader->segments;
    uint64_t last = segments->count > 0 ? segments->entries[segments->count - 1].epoch : 0;
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

static void note_durable(struct ps_journal_reader *reader, const struct ps_journal_head *head)
{
    if (head->durable > reader->durable)
        reader->durable = head->durable;
}

/* Opens the present segment and reads its first record. */
static enum ps_status enter(struct ps_journal_reader *reader, struct ps_error *error)
{
    struct ps_journal_head head;
    struct ps_journal_facts facts;
    const char *bad = NULL;
    PS_TRY(read_first_record(reader, &head, &facts, &bad, error));
    if (bad != NULL)
        return settle_bad(reader, PS_JOURNAL_ALIGNMENT, bad, error);
    reader->offset = head.record_bytes;
    reader->entered = true;
    note_durable(reader, &head);
    return PS_OK;
}

/* Sets `*bad` when it is not what the segment's name promises. */
static enum ps_status read_first_record(struct ps_journal_reader *reader,
                                        struct ps_journal_head *head,
                                        struct ps_journal_facts *facts, const char **bad,
                                        struct ps_error *error)
{
    struct ps_journal_segment segment = reader->segments.entries[reader->at];
    reader->offset = 0;
    reader->expected = segment.first;
    char path[PS_JOURNAL_PATH_BYTES];
    PS_TRY(ps_journal_path_write(reader->folder, segment, path, error));
    enum ps_status status = ps_journal_window_open(&reader->window, path, error);
    if (status == PS_ERR_NOT_FOUND)
        return ps_fail(error, PS_ERR_IO, "journal: %s has gone", path);
    if (status != PS_OK)
        return status;
    struct ps_bytes bytes;
    enum ps_journal_verdict verdict = PS_JOURNAL_BAD;
    PS_TRY(ps_journal_window_peek(&reader->window, 0, PS_JOURNAL_HEAD_BYTES_MAX, &bytes, error));
    *bad = read_head(reader, bytes, head, &verdict);
    if (verdict == PS_JOURNAL_UNKNOWN)
        return unsupported(reader, error);
    /* A whole record of something else was not torn by a crash: the file has a wrong name. */
    if (*bad != NULL && verdict == PS_JOURNAL_GOOD)
        return damaged(reader, *bad, error);
    if (*bad != NULL)
        return PS_OK;
    uint8_t content[PS_JOURNAL_SEGMENT_CONTENT_BYTES];
    PS_TRY(ps_journal_window_content(&reader->window, reader->offset, head, content, bad, error));
    if (*bad != NULL)
        return PS_OK;
    ps_journal_segment_read(content, facts);
    if (facts->position >= segment.first || (reader->has_index && facts->index != reader->index))
        return damaged(reader, "the segment belongs to another journal", error);
    reader->has_index = true;
    reader->index = facts->index;
    return PS_OK;
}

/* What the present segment has behind that is of a write that failed, and stands there again. */
static bool next_begins(const struct ps_journal_reader *reader)
{
    const struct ps_journal_segments *segments = &reader->segments;
    return !ps_journal_segments_last(segments, reader->at) &&
           segments->entries[reader->at + 1].first == reader->expected;
}

/* The present segment is used up. */
static enum ps_status next_segment(struct ps_journal_reader *reader, struct ps_error *error)
{
    const struct ps_journal_segments *segments = &reader->segments;
    bool last = ps_journal_segments_last(segments, reader->at);
    if (last && reader->end == UINT64_MAX) {
        reader->ended = true;
        return PS_OK;
    }
    if (last || segments->entries[reader->at + 1].first != reader->expected)
        return damaged(reader, "the segment ends before the next one begins", error);
    reader->at++;
    reader->entered = false;
    return PS_OK;
}

static enum ps_status read_record(struct ps_journal_reader *reader, struct ps_journal_row *row,
                                  bool *given, struct ps_error *error)
{
    uint64_t left = reader->window.file_bytes - reader->offset;
    struct ps_journal_head head;
    struct ps_bytes bytes;
    enum ps_journal_verdict verdict = PS_JOURNAL_BAD;
    PS_TRY(ps_journal_window_peek(&reader->window, reader->offset, PS_JOURNAL_HEAD_BYTES_MAX,
                                  &bytes, error));
    const char *bad = read_head(reader, bytes, &head, &verdict);
    if (verdict == PS_JOURNAL_UNKNOWN)
        return unsupported(reader, error);
    if (bad != NULL)
        return settle_bad(reader, reader->offset, bad, error);
    if (head.record_bytes > left)
        return settle_bad(reader, reader->window.file_bytes, "the segment ends within it", error);
    if (reader->expected >= reader->wanted) {
        PS_TRY(read_row(reader, &head, row, &bad, error));
        if (bad != NULL)
            return settle_bad(reader, reader->offset + head.record_bytes, bad, error);
        reader->wanted = reader->expected + 1;
        reader->epoch = head.record.epoch;
        *given = true;
    }
    note_durable(reader, &head);
    reader->offset += head.record_bytes;
    reader->expected++;
    return PS_OK;
}

/* NULL when the head is good and that of the expected record, otherwise why not. */
static const char *read_head(struct ps_journal_reader *reader, struct ps_bytes bytes,
                             struct ps_journal_head *head, enum ps_journal_verdict *verdict)
{
    *verdict = ps_journal_head_read(bytes, head);
    if (*verdict == PS_JOURNAL_BAD)
        return "its head is damaged";
    if (*verdict == PS_JOURNAL_UNKNOWN)
        return NULL;
    const struct ps_record *record = &head->record;
    bool first = reader->offset == 0;
    if (record->epoch != reader->segments.entries[reader->at].epoch ||
        record->position != reader->expected || (record->type == PS_RECORD_SEGMENT) != first)
        return "another record stands there";
    return NULL;
}

/* One block: the content first, where the heap aligns it for any element. */
static enum ps_status read_row(struct ps_journal_reader *reader, const struct ps_journal_head *head,
                               struct ps_journal_row *row, const char **bad, struct ps_error *error)
{
    const struct ps_record *record = &head->record;
    size_t content_bytes = (size_t)head->content_bytes;
    size_t id_bytes = record->client_id.size;
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
static enum ps_status settle_bad(struct ps_journal_reader *reader, uint64_t heads_from,
                                 const char *reason, struct ps_error *error)
{
    bool torn = false;
    PS_TRY(is_torn(reader, heads_from, &torn, error));
    if (!torn)
        return damaged(reader, reason, error);
    reader->ended = true;
    reader->cut = reader->window.file_bytes - reader->offset;
    return PS_OK;
}

/* What a later segment or a later epoch goes on from was whole once. */
static enum ps_status is_torn(struct ps_journal_reader *reader, uint64_t heads_from, bool *torn,
                              struct ps_error *error)
{
    if (!ps_journal_segments_last(&reader->segments, reader->at) || reader->end != UINT64_MAX) {
        *torn = false;
        return PS_OK;
    }
    struct ps_journal_hole hole = {.offset = reader->offset,
                                   .heads_from = heads_from,
                                   .epoch = reader->segments.entries[reader->at].epoch,
                                   .position = reader->expected};
    return ps_journal_scan(&reader->window, &hole, torn, error);
}

static enum ps_status damaged(struct ps_journal_reader *reader, const char *reason,
                              struct ps_error *error)
{
    ps_journal_name_write(reader->segments.entries[reader->at], reader->damage.segment);
    reader->damage.offset = reader->offset;
    reader->damage.position = reader->expected;
    return ps_fail(error, PS_ERR_CORRUPT,
                   DAMAGED "%s, offset %" PRIu64 ", position %" PRIu64 ": %s",
                   reader->damage.segment, reader->damage.offset, reader->damage.position, reason);
}

static enum ps_status unsupported(struct ps_journal_reader *reader, struct ps_error *error)
{
    (void)damaged(reader, "", NULL);
    return ps_fail(error, PS_ERR_UNSUPPORTED,
                   "journal: %s, offset %" PRIu64 ", position %" PRIu64
                   ": a record that this version does not know",
                   reader->damage.segment, reader->damage.offset, reader->damage.position);
}
