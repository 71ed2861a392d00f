/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the way of a journal's reader over segments and epochs: where each epoch begins, which
 * segment holds a position, and what the first record of a segment must say.
 *
 * An epoch begins at one position and is current until a higher one begins. The owner of an epoch
 * went on from the state up to its begin, so whatever a former owner wrote behind that place,
 * before or after the takeover, is part of no state: the reader leaves the former epoch there.
 * Names of segments say nearly everything; the first records are read for the exact begins and to
 * see that each file is what its name promises. */
#include "checkpoint/journal_reader_state.h"

#include "base/assert.h"
#include "checkpoint/journal_first.h"

static enum ps_status find_begin(struct ps_journal_reader *reader, size_t i,
                                 struct ps_error *error);
static enum ps_status read_first_record(struct ps_journal_reader *reader,
                                        struct ps_journal_head *head,
                                        struct ps_journal_facts *facts, const char **bad,
                                        struct ps_error *error);
static enum ps_status open_segment(struct ps_journal_reader *reader,
                                   struct ps_journal_segment segment, struct ps_error *error);

/* By its name, an epoch begins at its first segment or, when that was swept, before it. That is
 * enough for epochs up to the one to begin in. Of the later ones the exact place is needed, since
 * it decides where the reader leaves the epoch before; first records of epochs that are not needed
 * are not read, so damage in them does not matter. */
enum ps_status ps_journal_reader_find_begins(struct ps_journal_reader *reader,
                                             struct ps_error *error)
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

/* Reads where an epoch begins. One whose first record never reached the disk began all the same
 * (the owner may have served nothing yet): its name says where. A bad first record that is not torn
 * is damage, because without it nobody knows how far the former epoch counts. */
static enum ps_status find_begin(struct ps_journal_reader *reader, size_t i, struct ps_error *error)
{
    struct ps_journal_head head;
    struct ps_journal_facts facts;
    const char *bad = NULL;
    struct ps_journal_ending ending = {0};
    reader->at = i;
    PS_TRY(read_first_record(reader, &head, &facts, &bad, error));
    if (bad == NULL) {
        reader->begins[i] = facts.position + 1;
        return PS_OK;
    }
    PS_TRY(ps_journal_reader_find_ending(reader, PS_JOURNAL_ALIGNMENT, &ending, error));
    return ending.damaged ? ps_journal_reader_damaged(reader, bad, error) : PS_OK;
}

/* Finds the segment that holds `position`, of the epoch that is current there: the highest one that
 * has begun by then. That epoch is current until any higher one begins, which is `end`; epochs are
 * looked at from the highest down, so the lowest begin among the higher ones is known when the
 * epoch is found. */
enum ps_status ps_journal_reader_choose(struct ps_journal_reader *reader, uint64_t position,
                                        struct ps_error *error)
{
    const struct ps_journal_segments *segments = &reader->segments;
    size_t chosen = segments->count;
    uint64_t end = UINT64_MAX;
    ps_journal_window_close(&reader->window); /* of the epoch that ends here */
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
    /* The epoch has begun but its oldest segment begins later: the one in between was removed or
     * lost. */
    if (chosen == segments->count || segments->entries[chosen].first > position)
        return ps_journal_reader_damaged(reader, "the segment that should hold it is missing",
                                         error);
    /* Within the epoch: the last segment that begins at the position or before it. */
    while (!ps_journal_segments_last(segments, reader->at) &&
           segments->entries[reader->at + 1].first <= position)
        reader->at++;
    reader->end = end;
    reader->expected = segments->entries[reader->at].first;
    reader->entered = false;
    return PS_OK;
}

/* Opens the present segment and reads its first record. */
enum ps_status ps_journal_reader_enter(struct ps_journal_reader *reader, struct ps_error *error)
{
    struct ps_journal_head head;
    struct ps_journal_facts facts;
    const char *bad = NULL;
    PS_TRY(read_first_record(reader, &head, &facts, &bad, error));
    if (bad == NULL)
        PS_TRY(ps_journal_reader_see_history(reader, &facts.history, error));
    if (bad != NULL)
        /* Another record may begin right behind the first word: a first record has no content to
         * skip. */
        return ps_journal_reader_settle_bad(reader, PS_JOURNAL_ALIGNMENT, bad, error);
    reader->offset = head.record_bytes;
    reader->entered = true;
    ps_journal_reader_note_durable(reader, &head);
    return PS_OK;
}

/* Reads the first record of the present segment. `*bad` is set when the bytes may be torn, which
 * the caller judges. A whole record that is not what the segment's name promises is no crash's
 * doing: the file was copied, renamed or belongs to another shard, and is reported as damage at
 * once. */
static enum ps_status read_first_record(struct ps_journal_reader *reader,
                                        struct ps_journal_head *head,
                                        struct ps_journal_facts *facts, const char **bad,
                                        struct ps_error *error)
{
    struct ps_journal_segment segment = reader->segments.entries[reader->at];
    reader->offset = 0;
    reader->expected = segment.first;
    enum ps_journal_verdict verdict = PS_JOURNAL_BAD;
    PS_TRY(open_segment(reader, segment, error));
    PS_TRY(ps_journal_reader_head(reader, head, &verdict, bad, error));
    if (verdict == PS_JOURNAL_UNKNOWN)
        return ps_journal_reader_unsupported(reader, error);
    /* A whole record of something else was not torn by a crash: the file has a wrong name. */
    if (*bad != NULL && verdict == PS_JOURNAL_GOOD)
        return ps_journal_reader_damaged(reader, *bad, error);
    if (*bad != NULL)
        return PS_OK;
    uint8_t content[PS_JOURNAL_SEGMENT_CONTENT_BYTES];
    PS_TRY(ps_journal_window_content(&reader->window, reader->offset, head, content, bad, error));
    if (*bad != NULL)
        return PS_OK;
    ps_journal_segment_read(head, content, facts, &reader->window.life);
    /* The segment begins where its name says or goes on behind its epoch's begin. The index of the
     * shard is not known to the reader in advance: the first segment read sets it for all
     * others. */
    if (facts->position >= segment.first || (reader->has_index && facts->index != reader->index))
        return ps_journal_reader_damaged(reader, "the segment belongs to another journal", error);
    reader->has_index = true;
    reader->index = facts->index;
    return PS_OK;
}

/* The file was listed a moment ago. Reading again from the start would see a consistent list. */
static enum ps_status open_segment(struct ps_journal_reader *reader,
                                   struct ps_journal_segment segment, struct ps_error *error)
{
    char path[PS_JOURNAL_PATH_BYTES];
    PS_TRY(ps_journal_path_write(reader->folder, segment, path, error));
    enum ps_status status = ps_journal_window_open(&reader->window, path, error);
    return status == PS_ERR_NOT_FOUND ? ps_journal_first_gone(segment, error) : status;
}

/* The present segment may have more behind the expected position: the remains of a write that
 * failed. The writer was revived in a new segment from that position on, and wrote the records
 * there again. */
bool ps_journal_reader_next_begins(const struct ps_journal_reader *reader)
{
    const struct ps_journal_segments *segments = &reader->segments;
    return !ps_journal_segments_last(segments, reader->at) &&
           segments->entries[reader->at + 1].first == reader->expected;
}

/* The present segment is used up. The end of the last segment of the last epoch is the journal's
 * end; anywhere else the next segment must begin exactly here, or records are missing. */
enum ps_status ps_journal_reader_next_segment(struct ps_journal_reader *reader,
                                              struct ps_error *error)
{
    const struct ps_journal_segments *segments = &reader->segments;
    bool last = ps_journal_segments_last(segments, reader->at);
    if (last && reader->end == UINT64_MAX) {
        reader->ended = true;
        return PS_OK;
    }
    if (last || segments->entries[reader->at + 1].first != reader->expected)
        return ps_journal_reader_damaged(reader, "the segment ends before the next one begins",
                                         error);
    reader->at++;
    reader->entered = false;
    return PS_OK;
}
