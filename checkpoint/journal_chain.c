/* SPDX-License-Identifier: Apache-2.0 */
/* Walks from the newest epoch down. The first record of each epoch says which one it goes on from;
 * the epochs between the two are void and are taken out of the list. */
#include "checkpoint/journal_chain.h"

#include "base/assert.h"
#include "checkpoint/journal_first.h"

static enum ps_status read_first(const struct ps_files *files, const char *folder,
                                 struct ps_journal_segment segment, struct ps_journal_first *first,
                                 struct ps_error *error);
static void take_out(struct ps_journal_segments *segments, uint64_t above, uint64_t below);

enum ps_status ps_journal_chain_keep(struct ps_journal_segments *segments,
                                     const struct ps_files *files, const char *folder,
                                     uint64_t wanted, struct ps_error *error)
{
    PS_ASSERT(segments != NULL && files != NULL && folder != NULL);
    /* Only the first segment of an epoch says what it goes on from, so the others are passed over.
     * The walk ends at the epoch in which reading begins: what lies before it is not read by
     * anybody. */
    size_t i = segments->count;
    while (i > 0) {
        i--;
        struct ps_journal_segment first = segments->entries[i];
        if (!ps_journal_segments_first(segments, i))
            continue;
        if (i == 0 || first.first <= wanted)
            return PS_OK;
        struct ps_journal_first record = {0};
        PS_TRY(read_first(files, folder, first, &record, error));
        uint64_t previous = record.facts.previous_epoch;
        size_t count = segments->count;
        /* 0 means "from nothing", or that the record cannot be read. Neither may make segments
         * disappear: damage has to be found and reported by the reader, not hidden by shortening
         * its list. */
        if (previous > 0)
            take_out(segments, previous, first.epoch);
        /* The entries taken out all stood before this one, so its index falls by their number. */
        i -= count - segments->count;
    }
    return PS_OK;
}

/* Each segment for itself: all of an epoch say the same, unless somebody has put one there, and
 * then it is that one which is looked for. A hundred bytes of each file are read for it, in a
 * folder that has as many segments as a server of a large shard writes between two checkpoints, and
 * only when a journal is opened. */
void ps_journal_chain_keep_history(struct ps_journal_segments *segments,
                                   const struct ps_files *files, const char *folder,
                                   const struct ps_history *history)
{
    PS_ASSERT(segments != NULL && history != NULL);
    size_t kept = 0;
    if (!ps_history_known(history))
        return;
    for (size_t i = 0; i < segments->count; i++) {
        struct ps_journal_first first = {0};
        bool is_read = read_first(files, folder, segments->entries[i], &first, NULL) == PS_OK;
        /* A disk may refuse a segment that nobody needs. */
        if (!is_read || !ps_history_differ(&first.facts.history, history))
            segments->entries[kept++] = segments->entries[i];
    }
    segments->count = kept;
}

/* What a segment says of its epoch; zeroed when that cannot be believed. */
static enum ps_status read_first(const struct ps_files *files, const char *folder,
                                 struct ps_journal_segment segment, struct ps_journal_first *first,
                                 struct ps_error *error)
{
    char path[PS_JOURNAL_PATH_BYTES];
    PS_TRY(ps_journal_path_write(folder, segment, path, error));
    enum ps_status status = ps_journal_first_read(files, path, segment, first, error);
    /* The list was made a moment ago. A segment that has gone since was swept by another process,
     * so the list is of no use; the caller may begin again. */
    if (status == PS_ERR_NOT_FOUND)
        return ps_journal_first_gone(segment, error);
    return status;
}

/* Removes the epochs between the two, both excluded, from the list. */
static void take_out(struct ps_journal_segments *segments, uint64_t above, uint64_t below)
{
    size_t kept = 0;
    for (size_t i = 0; i < segments->count; i++) {
        uint64_t epoch = segments->entries[i].epoch;
        if (epoch <= above || epoch >= below)
            segments->entries[kept++] = segments->entries[i];
    }
    segments->count = kept;
}
