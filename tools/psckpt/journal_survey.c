/* SPDX-License-Identifier: Apache-2.0 */
/* One segment after the other; what follows a segment decides whether its bad end is damage. A
 * recovery reads only what it needs; the survey reads every segment, also those behind a checkpoint
 * and those of owners that were overtaken, because an operator wants to know what is on the disk.
 * The verdicts about bad bytes follow the reader's rules (checkpoint/journal.h): bytes that no
 * reader would take are torn or fenced, everything else that is bad is damage. */
#include "tools/psckpt/journal_survey.h"

#include "checkpoint/journal_chain.h"
#include "checkpoint/journal_first.h"
#include "checkpoint/journal_record.h"
#include "checkpoint/journal_scan.h"
#include "checkpoint/journal_window.h"
#include "tools/psckpt/paths.h"

#include <stdio.h>

#define PART_BYTES ((size_t)1 << 20)

/* A server at work sweeps its journal, mostly once in minutes. */
#define ATTEMPTS_MAX 5

/* The segment that is being read. Everything that is the same for all segments, and what the
 * neighbours of the present one allow. */
struct walk {
    struct ps_journal_window window;
    struct segment_survey *row;
    const char *path;
    bool read_again; /* the record at the row's offset was bad, and is read once more */
    struct progress *progress;
    uint8_t *part;  /* owned: where contents go to be summed */
    uint64_t next;  /* first position of the next segment of this epoch; UINT64_MAX: none */
    uint64_t fence; /* where a higher epoch begins; UINT64_MAX: nowhere */
};

static enum ps_status survey_folder(struct journal_survey *survey, const struct toolbox *box,
                                    const char *folder, struct ps_error *error);
static enum ps_status begin(struct journal_survey *survey, struct walk *walk,
                            const struct toolbox *box, size_t count, struct ps_error *error);
static enum ps_status end(struct journal_survey *survey, struct walk *walk, enum ps_status status);
static void begin_row(struct journal_survey *survey, struct walk *walk,
                      struct ps_journal_segment segment);
static void find_neighbours(struct walk *walk, const struct ps_journal_segments *segments,
                            size_t i);
static enum ps_status survey_segment(struct walk *walk, const char *path, struct ps_error *error);
static struct ps_journal_segment segment_of(const struct segment_survey *row);
static enum ps_status walk_record(struct walk *walk, bool *more, struct ps_error *error);
static enum ps_status learn_life(struct walk *walk, const struct ps_journal_head *head,
                                 struct ps_error *error);
static enum ps_status sum_content(struct walk *walk, const struct ps_journal_head *head,
                                  const char **bad, struct ps_error *error);
static enum ps_status settle(struct walk *walk, uint64_t heads_from, const char *why, bool *more,
                             struct ps_error *error);
static enum ps_status find_ending(struct walk *walk, uint64_t heads_from,
                                  struct ps_journal_ending *ending, struct ps_error *error);
static void settle_bad(struct walk *walk, const struct ps_journal_ending *ending, const char *why);
static void settle_end(struct walk *walk);
static void find(struct walk *walk, enum segment_finding finding, const char *why);

/* A segment that a server has swept since it was listed is found gone, as PS_ERR_IO. Then the
 * survey begins again with a new list. */
enum ps_status journal_survey_init(struct journal_survey *survey, const struct toolbox *box,
                                   const char *folder, struct ps_error *error)
{
    enum ps_status status = PS_ERR_IO;
    for (int i = 0; i < ATTEMPTS_MAX && status == PS_ERR_IO; i++)
        status = survey_folder(survey, box, folder, error);
    return status;
}

/* Segments are taken in the order of epoch and position, so that each knows its neighbours. */
static enum ps_status survey_folder(struct journal_survey *survey, const struct toolbox *box,
                                    const char *folder, struct ps_error *error)
{
    struct ps_journal_segments segments;
    struct walk walk;
    *survey = (struct journal_survey){0};
    PS_TRY(ps_journal_segments_init(&segments, box->files, folder, UINT64_MAX, box->memory, error));
    /* Segments of void epochs, whose owner came to nothing, leave the list, as a recovery leaves
     * them out. */
    enum ps_status status = ps_journal_chain_keep(&segments, box->files, folder, 0, error);
    if (status != PS_OK) {
        ps_journal_segments_fini(&segments);
        return status;
    }
    status = begin(survey, &walk, box, segments.count, error);
    for (size_t i = 0; i < segments.count && status == PS_OK; i++) {
        char path[PS_JOURNAL_PATH_BYTES];
        begin_row(survey, &walk, segments.entries[i]);
        find_neighbours(&walk, &segments, i);
        status = ps_journal_path_write(folder, segments.entries[i], path, error);
        if (status == PS_OK)
            status = survey_segment(&walk, path, error);
    }
    ps_journal_segments_fini(&segments);
    return end(survey, &walk, status);
}

/* Without neighbours the segment counts as the last of the only epoch: the mildest verdict, since a
 * torn end is all right there. */
enum ps_status journal_survey_file(struct journal_survey *survey, const struct toolbox *box,
                                   const char *path, struct ps_error *error)
{
    struct ps_journal_segment segment;
    struct walk walk;
    *survey = (struct journal_survey){0};
    if (!ps_journal_name_read(path_name(path), &segment))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "%.150s: a segment's name says its epoch and first position", path);
    enum ps_status status = begin(survey, &walk, box, 1, error);
    if (status == PS_OK) {
        begin_row(survey, &walk, segment);
        status = survey_segment(&walk, path, error);
    }
    return end(survey, &walk, status);
}

void journal_survey_fini(struct journal_survey *survey)
{
    if (survey->memory == NULL)
        return;
    ps_release(survey->memory, survey->rows);
    *survey = (struct journal_survey){0};
}

const char *segment_finding_word(enum segment_finding finding)
{
    static const char *const words[] = {"whole", "torn", "fenced", "damaged", "unknown"};
    return words[finding];
}

/* Both allocations are tried before either is checked: `end` releases what there is, whatever was
 * refused. */
static enum ps_status begin(struct journal_survey *survey, struct walk *walk,
                            const struct toolbox *box, size_t count, struct ps_error *error)
{
    const struct ps_allocator *memory = box->memory;
    *walk = (struct walk){.progress = box->progress, .next = UINT64_MAX, .fence = UINT64_MAX};
    walk->window = (struct ps_journal_window){.memory = memory, .files = box->files};
    walk->part = ps_plain(memory, PART_BYTES);
    *survey = (struct journal_survey){.memory = memory};
    survey->rows = ps_zeroed_array(memory, count, sizeof *survey->rows);
    if (walk->part == NULL || survey->rows == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to read a journal of %zu segments",
                       count);
    return ps_journal_window_init(&walk->window, box->files, memory, error);
}

/* Passes `status` on. A survey that failed half-way is nobody's: what it did not reach would look
 * as if it were not there. */
static enum ps_status end(struct journal_survey *survey, struct walk *walk, enum ps_status status)
{
    progress_end(walk->progress);
    ps_release(walk->window.memory, walk->part);
    ps_journal_window_fini(&walk->window);
    if (status != PS_OK)
        journal_survey_fini(survey);
    return status;
}

/* The row has the segment's facts from its name before a byte is read: a segment whose first bytes
 * are damaged still shows which one it is. */
static void begin_row(struct journal_survey *survey, struct walk *walk,
                      struct ps_journal_segment segment)
{
    walk->row = &survey->rows[survey->count++];
    walk->row->epoch = segment.epoch;
    walk->row->first = segment.first;
    ps_journal_name_write(segment, walk->row->name);
}

/* `next` is where the following segment of the same epoch begins; `fence` the lowest position at
 * which any higher epoch begins. An owner whose lease ran out may have written on after its
 * successor began, and what it wrote behind that place was never acknowledged by a live lease: it
 * is not damage, and nobody reads it. */
static void find_neighbours(struct walk *walk, const struct ps_journal_segments *segments, size_t i)
{
    const struct ps_journal_segment *entries = segments->entries;
    walk->next = UINT64_MAX;
    walk->fence = UINT64_MAX;
    if (!ps_journal_segments_last(segments, i))
        walk->next = entries[i + 1].first;
    for (size_t other = i + 1; other < segments->count; other++)
        if (entries[other].epoch > entries[i].epoch && entries[other].first < walk->fence)
            walk->fence = entries[other].first;
}

/* `last` is one before the position that should come next, so an empty segment has first - 1. */
static enum ps_status survey_segment(struct walk *walk, const char *path, struct ps_error *error)
{
    struct segment_survey *row = walk->row;
    enum ps_status status = ps_journal_window_open(&walk->window, path, error);
    if (status == PS_ERR_NOT_FOUND)
        return ps_journal_first_gone(segment_of(row), error);
    if (status != PS_OK)
        return status;
    walk->path = path;
    walk->read_again = false;
    row->bytes = walk->window.file_bytes;
    row->position = row->first;
    progress_begin(walk->progress, row->name, row->bytes);
    bool more = true;
    while (more)
        PS_TRY(walk_record(walk, &more, error));
    row->last = row->position - 1;
    return PS_OK;
}

static struct ps_journal_segment segment_of(const struct segment_survey *row)
{
    return (struct ps_journal_segment){row->epoch, row->first};
}

/* One record a call. Position and epoch stand in every record, so a record that was copied whole
 * from another place in the file, or that an earlier use of the disk block left behind, is found
 * although its checksum fits. `heads_from` says from where on good heads may follow the bad bytes,
 * for the search that tells a torn end from damage. */
static enum ps_status walk_record(struct walk *walk, bool *more, struct ps_error *error)
{
    struct segment_survey *row = walk->row;
    bool opening = row->offset == 0;
    *more = false;
    PS_TRY(ps_journal_window_pass_zeros(&walk->window, &row->offset, error));
    /* A segment ends with its bytes, or where the next one of its epoch takes over: a failed write
     * may have left a copy of records that the next segment has, too. */
    if (!opening && (row->offset == walk->window.file_bytes || row->position == walk->next)) {
        settle_end(walk);
        return PS_OK;
    }
    struct ps_journal_head head;
    enum ps_journal_verdict verdict = PS_JOURNAL_BAD;
    PS_TRY(ps_journal_window_head(&walk->window, row->offset, &head, &verdict, error));
    uint64_t heads_from = opening ? PS_JOURNAL_ALIGNMENT : row->offset;
    if (verdict == PS_JOURNAL_BAD)
        return settle(walk, heads_from, "its head is damaged", more, error);
    if (verdict == PS_JOURNAL_UNKNOWN) {
        find(walk, SEGMENT_UNKNOWN, "a record that this version does not know");
        return PS_OK;
    }
    if (head.record.epoch != row->epoch || head.record.position != row->position ||
        (head.record.type == PS_RECORD_SEGMENT) != opening)
        return settle(walk, heads_from, "another record stands there", more, error);
    /* The whole tail belongs to this record: no head can follow. */
    if (head.record_bytes > walk->window.file_bytes - row->offset)
        return settle(walk, walk->window.file_bytes, "the segment ends within it", more, error);
    const char *bad = NULL;
    PS_TRY(sum_content(walk, &head, &bad, error));
    if (bad != NULL)
        return settle(walk, row->offset + head.record_bytes, bad, more, error);
    if (opening)
        PS_TRY(learn_life(walk, &head, error));
    row->offset += head.record_bytes;
    row->position += !opening;
    walk->read_again = false;
    *more = true;
    return PS_OK;
}

/* The segment's own record was whole: from here on the heads of its life count. Its history is for
 * people, who see by it where files of two folders have come together. */
static enum ps_status learn_life(struct walk *walk, const struct ps_journal_head *head,
                                 struct ps_error *error)
{
    struct ps_journal_facts facts;
    struct ps_bytes content;
    PS_TRY(ps_journal_window_peek(&walk->window, head->head_bytes, (size_t)head->content_bytes,
                                  &content, error));
    ps_journal_segment_read(head, content.data, &facts, &walk->window.life);
    walk->row->history = facts.history;
    return PS_OK;
}

/* Contents are gradients of any size, so they are summed part by part; the padding behind them must
 * be zeros, since a reader skips it without another look and something hidden there would never be
 * found. */
static enum ps_status sum_content(struct walk *walk, const struct ps_journal_head *head,
                                  const char **bad, struct ps_error *error)
{
    uint64_t at = walk->row->offset + head->head_bytes;
    uint64_t end = at + head->content_bytes;
    uint32_t crc32c = 0;
    while (at < end) {
        size_t size = end - at < PART_BYTES ? (size_t)(end - at) : PART_BYTES;
        PS_TRY(ps_journal_window_copy(&walk->window, at, walk->part, size, &crc32c, error));
        progress_add(walk->progress, size);
        at += size;
    }
    if (crc32c != head->content_crc32c) {
        *bad = "its content is damaged";
        return PS_OK;
    }
    struct ps_bytes padding;
    PS_TRY(ps_journal_window_peek(&walk->window, end, ps_journal_padding(head->content_bytes),
                                  &padding, error));
    for (size_t i = 0; i < padding.size; i++)
        if (padding.data[i] != 0)
            *bad = "the zeros behind it are damaged";
    return PS_OK;
}

/* Bad bytes at `offset`. The same rules as a reader's (checkpoint/journal.h). Three answers, in
 * this order. Behind the fence nobody reads. Within the chain, with a successor of the same epoch,
 * any bad byte is damage. At the very end of the newest epoch it depends: when no good record of
 * this epoch follows, a crash tore the last write, which was therefore never acknowledged, or there
 * was none; when one follows, bytes in the middle have gone bad. `*more`: the record is to be read
 * once more, since a server at work may have written it after it was read ahead. */
static enum ps_status settle(struct walk *walk, uint64_t heads_from, const char *why, bool *more,
                             struct ps_error *error)
{
    struct segment_survey *row = walk->row;
    bool same = true;
    struct ps_journal_ending ending = {.damaged = true};
    if (walk->next == UINT64_MAX)
        PS_TRY(find_ending(walk, heads_from, &ending, error));
    *more = ending.damaged && row->offset > 0 && !walk->read_again;
    walk->read_again = *more;
    if (*more) {
        ps_journal_window_forget(&walk->window);
        return PS_OK;
    }
    PS_TRY(ps_journal_first_is_same(walk->window.files, walk->path, segment_of(row),
                                    &walk->window.life, &same, error));
    if (!same)
        return ps_journal_first_gone(segment_of(row), error);
    settle_bad(walk, &ending, why);
    return PS_OK;
}

static enum ps_status find_ending(struct walk *walk, uint64_t heads_from,
                                  struct ps_journal_ending *ending, struct ps_error *error)
{
    const struct segment_survey *row = walk->row;
    const struct ps_journal_hole hole = {.offset = row->offset,
                                         .heads_from = heads_from,
                                         .epoch = row->epoch,
                                         .position = row->position};
    return ps_journal_scan(&walk->window, &hole, ending, error);
}

static void settle_bad(struct walk *walk, const struct ps_journal_ending *ending, const char *why)
{
    struct segment_survey *row = walk->row;
    bool last = walk->next == UINT64_MAX;
    /* Nothing of this segment's life follows: its records end here, as those of most segments of
     * format 2 do. An empty file is not such an end, since even its first record is missing. */
    if (!ending->damaged && ending->cut == 0 && row->offset > 0)
        settle_end(walk);
    else if (last && row->position >= walk->fence)
        find(walk, SEGMENT_FENCED, why);
    else if (ending->damaged || walk->fence != UINT64_MAX)
        find(walk, SEGMENT_DAMAGED, why);
    else {
        /* A file of format 2 may have more behind, of a former life. */
        row->bytes = row->offset + ending->cut;
        find(walk, SEGMENT_TORN, why);
    }
}

/* The segment ends with a whole record, or the next one has again what a failed write left here.
 * The good records may also end too early: a gap before the next segment or the next epoch means
 * that a file in between is missing or was cut off. */
static void settle_end(struct walk *walk)
{
    struct segment_survey *row = walk->row;
    bool last = walk->next == UINT64_MAX;
    /* The file is as long as the longest segment that it was. */
    if (walk->window.life.format == PS_JOURNAL_FORMAT)
        row->bytes = row->offset;
    if (!last && row->position != walk->next)
        find(walk, SEGMENT_DAMAGED, "it ends before the next segment begins");
    else if (last && walk->fence != UINT64_MAX && row->position < walk->fence)
        find(walk, SEGMENT_DAMAGED, "it ends before the next epoch begins");
}

/* The text is for the operator and is kept in the row, which outlives the walk. Called once for
 * each segment at most: a walk ends with the first finding. */
static void find(struct walk *walk, enum segment_finding finding, const char *why)
{
    walk->row->finding = finding;
    (void)snprintf(walk->row->why, sizeof walk->row->why, "%s", why);
}
