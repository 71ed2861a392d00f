/* SPDX-License-Identifier: Apache-2.0 */
/* The segments of one folder, by their names alone. A name says epoch and first position, which is
 * all that is needed to put segments in order and to choose where reading begins; contents are
 * verified by the reader, one file at a time. */
#include "checkpoint/journal_segments.h"

#include "base/assert.h"
#include "checkpoint/checkpoint_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for this many entries at first; it doubles. A folder holds the segments since the older of
 * two checkpoints, mostly fewer than this. */
#define FIRST_CAPACITY 16

/* What gathering entries of a folder needs between calls. */
struct gathering {
    struct ps_journal_segments *segments;
    const char *suffix;
    uint64_t epoch_max;
    size_t capacity;
    bool refused; /* no memory */
};

static enum ps_status gather(struct gathering *gathering, const struct ps_files *files,
                             const char *folder, struct ps_error *error);
static void gather_one(void *context, const char *name);
static bool read_name(const char *name, const char *suffix, struct ps_journal_segment *segment);
static bool make_room(struct gathering *gathering);
static int compare_age(const void *a, const void *b);

/* Lists of one folder differ by suffix alone: segments that count, what was being made, spares. */
enum ps_status ps_journal_segments_init(struct ps_journal_segments *segments,
                                        const struct ps_files *files, const char *folder,
                                        uint64_t epoch_max, const struct ps_allocator *memory,
                                        struct ps_error *error)
{
    PS_ASSERT(segments != NULL && files != NULL && folder != NULL && memory != NULL);
    /* An empty list is a valid one: fini accepts it from here on. */
    *segments = (struct ps_journal_segments){.memory = memory};
    struct gathering gathering = {segments, PS_JOURNAL_SUFFIX, epoch_max, 0, false};
    return gather(&gathering, files, folder, error);
}

/* What no reader looks at: segments under their temporary name, and spares. */
enum ps_status ps_journal_leftovers_init(struct ps_journal_segments *leftovers,
                                         const struct ps_files *files, const char *folder,
                                         const char *suffix, uint64_t epoch_max,
                                         const struct ps_allocator *memory, struct ps_error *error)
{
    PS_ASSERT(leftovers != NULL && suffix != NULL && files != NULL && folder != NULL &&
              memory != NULL);
    *leftovers = (struct ps_journal_segments){.memory = memory};
    struct gathering gathering = {leftovers, suffix, epoch_max, 0, false};
    return gather(&gathering, files, folder, error);
}

/* A folder that is not there has no segments. A list that memory cut short is a failure: a reader
 * with half of the segments would take the gap for damage, or worse, the end for the end. */
static enum ps_status gather(struct gathering *gathering, const struct ps_files *files,
                             const char *folder, struct ps_error *error)
{
    struct ps_journal_segments *segments = gathering->segments;
    enum ps_status status = files->list(files->self, folder, gather_one, gathering, error);
    if (status == PS_ERR_NOT_FOUND)
        return PS_OK;
    if (status == PS_OK && gathering->refused)
        status = ps_fail(error, PS_ERR_NO_MEMORY, "journal: no memory for more than %zu segments",
                         gathering->capacity);
    if (status != PS_OK) {
        ps_journal_segments_fini(segments);
        return status;
    }
    if (segments->count > 0)
        /* readdir gives names in no order. */
        qsort(segments->entries, segments->count, sizeof *segments->entries, compare_age);
    return PS_OK;
}

/* The allocator stays, so that the list may be filled again. */
void ps_journal_segments_fini(struct ps_journal_segments *segments)
{
    if (segments == NULL || segments->memory == NULL)
        return;
    ps_release(segments->memory, segments->entries);
    *segments = (struct ps_journal_segments){.memory = segments->memory};
}

/* Epochs above the reader's own claim are left out: they belong to an owner that came later. */
static void gather_one(void *context, const char *name)
{
    struct gathering *gathering = context;
    struct ps_journal_segment segment = {0};
    /* Temporary names have the suffix of a segment and more behind it, so they never match it. */
    if (!read_name(name, gathering->suffix, &segment) || segment.epoch > gathering->epoch_max)
        return;
    if (!make_room(gathering))
        return;
    gathering->segments->entries[gathering->segments->count++] = segment;
}

/* The callback cannot fail, so a refusal is remembered; see catalog.c for the same. */
static bool make_room(struct gathering *gathering)
{
    struct ps_journal_segments *segments = gathering->segments;
    if (gathering->refused)
        return false;
    if (segments->count < gathering->capacity)
        return true;
    /* Doubling keeps the copying in proportion to the number of files. */
    size_t capacity = gathering->capacity == 0 ? FIRST_CAPACITY : gathering->capacity * 2;
    struct ps_journal_segment *entries =
        ps_zeroed_array(segments->memory, capacity, sizeof *entries);
    gathering->refused = entries == NULL;
    if (entries == NULL)
        return false;
    if (segments->count > 0)
        memcpy(entries, segments->entries, segments->count * sizeof *entries);
    ps_release(segments->memory, segments->entries);
    segments->entries = entries;
    gathering->capacity = capacity;
    return true;
}

/* Oldest first, in the order of reading; the catalog of checkpoints is sorted the other way. */
static int compare_age(const void *a, const void *b)
{
    const struct ps_journal_segment *first = a;
    const struct ps_journal_segment *second = b;
    if (first->epoch != second->epoch)
        return first->epoch < second->epoch ? -1 : 1;
    /* By comparison, since a difference of 64-bit numbers does not fit in an int. */
    return (first->first > second->first) - (first->first < second->first);
}

/* The list is sorted, so the segments of one epoch stand side by side. */
bool ps_journal_segments_first(const struct ps_journal_segments *segments, size_t i)
{
    PS_ASSERT(i < segments->count);
    return i == 0 || segments->entries[i - 1].epoch != segments->entries[i].epoch;
}

/* The last segment of an epoch is the only one that may end anywhere. */
bool ps_journal_segments_last(const struct ps_journal_segments *segments, size_t i)
{
    PS_ASSERT(i < segments->count);
    return i + 1 == segments->count || segments->entries[i + 1].epoch != segments->entries[i].epoch;
}

/* All files of a journal are named alike, and told apart by what stands behind the numbers.
 * Sixteen digits each, so that `ls` shows segments in the order of reading. */
static void write_name(struct ps_journal_segment segment, const char *suffix,
                       char name[PS_JOURNAL_NAME_BYTES])
{
    int length = snprintf(name, PS_JOURNAL_NAME_BYTES, "%016" PRIx64 "-%016" PRIx64 "%s",
                          segment.epoch, segment.first, suffix);
    PS_ASSERT(length > 0 && length < PS_JOURNAL_NAME_BYTES);
}

/* Segments have the one suffix that readers look for. */
void ps_journal_name_write(struct ps_journal_segment segment, char name[PS_JOURNAL_NAME_BYTES])
{
    write_name(segment, PS_JOURNAL_SUFFIX, name);
}

/* For tools, which show what lies in a folder. */
bool ps_journal_name_read(const char *name, struct ps_journal_segment *segment)
{
    PS_ASSERT(name != NULL && segment != NULL);
    return read_name(name, PS_JOURNAL_SUFFIX, segment);
}

/* For those who make and remove what no reader looks at. */
bool ps_journal_leftover_name_read(const char *name, const char *suffix,
                                   struct ps_journal_segment *segment)
{
    PS_ASSERT(name != NULL && suffix != NULL && segment != NULL);
    return read_name(name, suffix, segment);
}

/* Strict, and the length first: whatever else lies in the folder is not ours to read or to
 * remove. */
static bool read_name(const char *name, const char *suffix, struct ps_journal_segment *segment)
{
    struct ps_journal_segment read = {0};
    size_t digits = PS_CHECKPOINT_NUMBER_DIGITS;
    if (strlen(name) != digits + 1 + digits + strlen(suffix))
        return false;
    /* The caller's struct is written only when all of it is right. */
    if (!ps_checkpoint_number_read(name, &read.epoch) || name[digits] != '-' ||
        !ps_checkpoint_number_read(name + digits + 1, &read.first) ||
        strcmp(name + digits + 1 + digits, suffix) != 0)
        return false;
    *segment = read;
    return true;
}

/* Whether there is a file of that name is for the caller to find out. */
enum ps_status ps_journal_path_write(const char *folder, struct ps_journal_segment segment,
                                     char path[PS_JOURNAL_PATH_BYTES], struct ps_error *error)
{
    return ps_journal_leftover_path_write(folder, segment, PS_JOURNAL_SUFFIX, path, error);
}

/* A path that does not fit is refused; cut, it would name another file. */
enum ps_status ps_journal_leftover_path_write(const char *folder, struct ps_journal_segment segment,
                                              const char *suffix, char path[PS_JOURNAL_PATH_BYTES],
                                              struct ps_error *error)
{
    char name[PS_JOURNAL_NAME_BYTES];
    write_name(segment, suffix, name);
    int length = snprintf(path, PS_JOURNAL_PATH_BYTES, "%s/%s", folder, name);
    if (length < 0 || length >= PS_JOURNAL_PATH_BYTES)
        return ps_fail(error, PS_ERR_IO, "journal: the folder's path is too long");
    return PS_OK;
}
