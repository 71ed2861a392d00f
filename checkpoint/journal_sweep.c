/* SPDX-License-Identifier: Apache-2.0 */
/* Removes the segments that no recovery needs.
 *
 * A segment may go when a checkpoint that is kept covers every position in it, and when the
 * sweeping server still owns the shard: a former owner that wakes up late would otherwise remove
 * what its successor relies on. Void epochs go whatever is covered, since no reader looks at
 * them. */
#include "checkpoint/journal.h"

#include "base/assert.h"
#include "checkpoint/journal_chain.h"
#include "checkpoint/journal_segments.h"
#include "checkpoint/journal_spares.h"

#include <inttypes.h>

static enum ps_status sweep_void(const struct ps_files *files, const char *folder,
                                 const struct ps_journal_segments *segments,
                                 const struct ps_allocator *memory, size_t *removed,
                                 struct ps_error *error);
static void sweep_leftovers(const struct ps_files *files, const char *folder, uint64_t epoch,
                            const struct ps_allocator *memory);
static void remove_all(const struct ps_files *files, const char *folder, const char *suffix,
                       uint64_t epoch_max, const struct ps_allocator *memory);
static bool has(const struct ps_journal_segments *segments, struct ps_journal_segment segment);
static uint64_t successor_of(const struct ps_journal_segments *segments, size_t i);
static enum ps_status remove_segment(const struct ps_files *files, const char *folder,
                                     struct ps_journal_segment segment, size_t *removed,
                                     struct ps_error *error);
static enum ps_status keep_segment(const struct ps_files *files, const char *folder,
                                   struct ps_journal_segment segment, size_t *removed,
                                   struct ps_error *error);

enum ps_status ps_journal_sweep(const struct ps_files *files, const char *folder, uint64_t epoch,
                                uint64_t covered, enum ps_journal_swept swept,
                                const struct ps_allocator *memory, size_t *removed,
                                struct ps_error *error)
{
    PS_ASSERT(files != NULL && folder != NULL && memory != NULL && removed != NULL);
    /* Epochs above the sweeper's own are looked for too: their being there is what forbids it. */
    struct ps_journal_segments segments;
    size_t count = 0;
    PS_TRY(ps_journal_segments_init(&segments, files, folder, UINT64_MAX, memory, error));
    enum ps_status result = ps_journal_chain_keep(&segments, files, folder, 0, error);
    /* The list is sorted by epoch, and void epochs are out of it by now, so the last entry is of
     * the newest epoch that counts. */
    if (result == PS_OK && segments.count > 0 && segments.entries[segments.count - 1].epoch > epoch)
        result = ps_fail(error, PS_ERR_STALE_EPOCH,
                         "journal: epoch %" PRIu64 " has taken over from %" PRIu64,
                         segments.entries[segments.count - 1].epoch, epoch);
    /* From the oldest on, so that a failure leaves no gap that a reader could meet. */
    if (result == PS_OK)
        result = sweep_void(files, folder, &segments, memory, &count, error);
    /* Before new spares come: what is there by now was not wanted since the last sweep. */
    if (result == PS_OK)
        sweep_leftovers(files, folder, epoch, memory);
    for (size_t i = 0; i < segments.count && result != PS_ERR_STALE_EPOCH; i++) {
        uint64_t successor = successor_of(&segments, i);
        /* The newest segment has no successor and stays, however much is covered: the writer has it
         * open, and its name says where the epoch began. */
        if (successor == 0 || successor - 1 > covered)
            continue;
        /* Of the own epoch only: nobody else writes to these files, and nobody reads them. */
        bool kept = swept == PS_JOURNAL_KEEP && segments.entries[i].epoch == epoch;
        enum ps_status status =
            kept ? keep_segment(files, folder, segments.entries[i], &count, error)
                 : remove_segment(files, folder, segments.entries[i], &count, error);
        result = status != PS_OK ? status : result;
    }
    *removed = count;
    ps_journal_segments_fini(&segments);
    return result;
}

/* Removes what no reader looks at: the segments in the folder that are not among `segments`, which
 * are those that count. */
static enum ps_status sweep_void(const struct ps_files *files, const char *folder,
                                 const struct ps_journal_segments *segments,
                                 const struct ps_allocator *memory, size_t *removed,
                                 struct ps_error *error)
{
    struct ps_journal_segments all;
    PS_TRY(ps_journal_segments_init(&all, files, folder, UINT64_MAX, memory, error));
    enum ps_status result = PS_OK;
    for (size_t i = 0; i < all.count; i++) {
        if (has(segments, all.entries[i]))
            continue;
        enum ps_status status = remove_segment(files, folder, all.entries[i], removed, error);
        result = status != PS_OK ? status : result;
    }
    ps_journal_segments_fini(&all);
    return result;
}

/* Removes what no reader looks at: what a crash left of segments that were being made, of former
 * epochs only, since this one's writer may be at work; and spares that the sweep before has put
 * aside and nobody took since. One that cannot be removed is left to the next sweep. */
static void sweep_leftovers(const struct ps_files *files, const char *folder, uint64_t epoch,
                            const struct ps_allocator *memory)
{
    remove_all(files, folder, PS_JOURNAL_SPARE_SUFFIX, epoch, memory);
    if (epoch > 0)
        remove_all(files, folder, PS_JOURNAL_SUFFIX PS_JOURNAL_TEMPORARY, epoch - 1, memory);
}

/* Of epochs above the limit nothing is touched: they are a later owner's. */
static void remove_all(const struct ps_files *files, const char *folder, const char *suffix,
                       uint64_t epoch_max, const struct ps_allocator *memory)
{
    struct ps_journal_segments leftovers;
    char path[PS_JOURNAL_PATH_BYTES];
    if (ps_journal_leftovers_init(&leftovers, files, folder, suffix, epoch_max, memory, NULL) !=
        PS_OK)
        return;
    for (size_t i = 0; i < leftovers.count; i++)
        if (ps_journal_leftover_path_write(folder, leftovers.entries[i], suffix, path, NULL) ==
            PS_OK)
            (void)files->remove(files->self, path, NULL);
    ps_journal_segments_fini(&leftovers);
}

/* A walk for each segment: both lists are short. */
static bool has(const struct ps_journal_segments *segments, struct ps_journal_segment segment)
{
    for (size_t i = 0; i < segments->count; i++)
        if (segments->entries[i].epoch == segment.epoch &&
            segments->entries[i].first == segment.first)
            return true;
    return false;
}

/* The first position that cannot be read from segment `i`, because the next segment of its epoch
 * holds it, or any higher epoch, which may begin before the end of this one. 0: there is none. */
static uint64_t successor_of(const struct ps_journal_segments *segments, size_t i)
{
    const struct ps_journal_segment *entries = segments->entries;
    uint64_t successor = 0;
    for (size_t next = i + 1; next < segments->count; next++) {
        if (successor == 0 || entries[next].first < successor)
            successor = entries[next].first;
    }
    return successor;
}

/* No sync of the folder: a segment that comes back after a crash is covered all the same and goes
 * with the next sweep. */
static enum ps_status remove_segment(const struct ps_files *files, const char *folder,
                                     struct ps_journal_segment segment, size_t *removed,
                                     struct ps_error *error)
{
    char path[PS_JOURNAL_PATH_BYTES];
    PS_TRY(ps_journal_path_write(folder, segment, path, error));
    enum ps_status status = files->remove(files->self, path, error);
    /* Somebody was quicker: it is gone, which is what was wanted. */
    if (status == PS_ERR_NOT_FOUND)
        return PS_OK;
    if (status != PS_OK)
        return PS_ERR_IO;
    (*removed)++;
    return PS_OK;
}

/* No sync of the folder here either: the writer that takes the spare makes one. */
static enum ps_status keep_segment(const struct ps_files *files, const char *folder,
                                   struct ps_journal_segment segment, size_t *removed,
                                   struct ps_error *error)
{
    enum ps_status status = ps_journal_spare_keep(files, folder, segment, error);
    if (status == PS_ERR_NOT_FOUND)
        return PS_OK;
    if (status != PS_OK)
        return PS_ERR_IO;
    (*removed)++;
    return PS_OK;
}
