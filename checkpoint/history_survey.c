/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what each file says, and leaves the judgement to history_mix.c: whoever looks at this file
 * for a reason why a folder was refused will find it there.
 *
 * Nothing is taken from one file for another: a checkpoint that says none beside segments that do
 * is "not known", also where every other file agrees, since somebody may have brought it. */
#include "checkpoint/history_survey.h"

#include "base/assert.h"
#include "checkpoint/header_history.h"
#include "checkpoint/journal_first.h"

#include <stdio.h>
#include <string.h>

static enum ps_status read_files(struct ps_history_survey *survey, const struct ps_files *files,
                                 const char *folder, const struct ps_catalog *catalog,
                                 const struct ps_journal_segments *segments,
                                 struct ps_error *error);
static enum ps_status add_checkpoint(struct ps_history_survey *survey, const struct ps_files *files,
                                     const char *folder, const struct ps_catalog_entry *entry,
                                     struct ps_error *error);
static enum ps_status add_segment(struct ps_history_survey *survey, const struct ps_files *files,
                                  const char *folder, struct ps_journal_segment segment,
                                  struct ps_error *error);
static void choose_own(struct ps_history_survey *survey,
                       const struct ps_checkpoint_place *published);

/* Segments of all epochs, also of those that the caller's epoch does not read: who owns the shard
 * next will read them. */
enum ps_status ps_history_survey_init(struct ps_history_survey *survey,
                                      const struct ps_files *files, const char *folder,
                                      const struct ps_checkpoint_place *published,
                                      const struct ps_allocator *memory, struct ps_error *error)
{
    PS_ASSERT(survey != NULL && folder != NULL && published != NULL);
    struct ps_catalog catalog = {0};
    struct ps_journal_segments segments = {0};
    *survey = (struct ps_history_survey){.memory = memory};
    PS_TRY(ps_catalog_init(&catalog, files, folder, memory, error));
    enum ps_status status =
        ps_journal_segments_init(&segments, files, folder, UINT64_MAX, memory, error);
    if (status == PS_OK) {
        status = read_files(survey, files, folder, &catalog, &segments, error);
        ps_journal_segments_fini(&segments);
    }
    ps_catalog_fini(&catalog);
    if (status != PS_OK) {
        ps_history_survey_fini(survey);
        return status;
    }
    choose_own(survey, published);
    return PS_OK;
}

void ps_history_survey_fini(struct ps_history_survey *survey)
{
    if (survey == NULL || survey->memory == NULL)
        return;
    ps_release(survey->memory, survey->files);
    ps_release(survey->memory, survey->names);
    *survey = (struct ps_history_survey){0};
}

/* Room for every file that was listed: those that have gone since only leave some of it. */
static enum ps_status read_files(struct ps_history_survey *survey, const struct ps_files *files,
                                 const char *folder, const struct ps_catalog *catalog,
                                 const struct ps_journal_segments *segments, struct ps_error *error)
{
    size_t capacity = catalog->count + segments->count;
    survey->files = ps_zeroed_array(survey->memory, capacity, sizeof *survey->files);
    survey->names = ps_zeroed_array(survey->memory, capacity, sizeof *survey->names);
    if (survey->files == NULL || survey->names == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to look at %zu files", capacity);
    for (size_t i = 0; i < catalog->count; i++)
        PS_TRY(add_checkpoint(survey, files, folder, &catalog->entries[i], error));
    for (size_t i = 0; i < segments->count; i++)
        PS_TRY(add_segment(survey, files, folder, segments->entries[i], error));
    PS_ASSERT(survey->count <= capacity);
    return PS_OK;
}

/* A damaged checkpoint counts as a file that says none, and so does one that the disk refuses: the
 * loader tries the next older one, and does not end for what it has no need of.
 * Of a file that was cut off the header may still be whole. Epoch and position are those of the
 * name, as for everybody who sorts checkpoints. */
static enum ps_status add_checkpoint(struct ps_history_survey *survey, const struct ps_files *files,
                                     const char *folder, const struct ps_catalog_entry *entry,
                                     struct ps_error *error)
{
    char path[sizeof((struct ps_checkpoint_place *)NULL)->path];
    struct ps_error why = {0};
    struct ps_history_witness file = {.epoch = entry->epoch, .position = entry->position};
    /* A path that does not fit is cut, and then there is no such file. */
    (void)snprintf(path, sizeof path, "%s/%s", folder, entry->name);
    enum ps_status status =
        ps_header_history_read(files, path, survey->memory, &file.history, &why);
    if (status == PS_ERR_NO_MEMORY)
        return ps_fail(error, status, "%s", why.text);
    if (status == PS_ERR_NOT_FOUND)
        return PS_OK;
    struct ps_history_name *name = &survey->names[survey->count];
    memcpy(name->text, entry->name, sizeof name->text);
    memcpy(name->uuid, entry->uuid, sizeof name->uuid);
    survey->files[survey->count++] = file;
    return PS_OK;
}

/* Also without its first record it is a file of its epoch, which its name says: it may be what
 * voids another, or be judged by a neighbour. What it would say of its history is not guessed. */
static enum ps_status add_segment(struct ps_history_survey *survey, const struct ps_files *files,
                                  const char *folder, struct ps_journal_segment segment,
                                  struct ps_error *error)
{
    char path[PS_JOURNAL_PATH_BYTES];
    struct ps_journal_first first = {0};
    struct ps_error why = {0};
    PS_TRY(ps_journal_path_write(folder, segment, path, error));
    enum ps_status status = ps_journal_first_read(files, path, segment, &first, &why);
    /* Swept since the folder was listed. */
    if (status == PS_ERR_NOT_FOUND)
        return PS_OK;
    bool is_read = status == PS_OK && first.whole;
    ps_journal_name_write(segment, survey->names[survey->count].text);
    survey->files[survey->count++] = (struct ps_history_witness){
        .is_segment = true,
        .is_read = is_read,
        .epoch = segment.epoch,
        .position = segment.first,
        .begin = is_read ? first.facts.position : 0,
        .previous = is_read ? first.facts.previous_epoch : 0,
        .history = is_read ? first.facts.history : (struct ps_history){{0}}};
    return PS_OK;
}

/* Counted here once, so that everybody who asks whether there is something in the way sees the same
 * number as whoever lists it. A pointer of an older program names a file, which may say more than
 * the pointer. */
static void choose_own(struct ps_history_survey *survey,
                       const struct ps_checkpoint_place *published)
{
    struct ps_history told = published->history;
    for (size_t i = 0; i < survey->count && !ps_history_known(&told); i++)
        if (published->uuid[0] != '\0' && strcmp(survey->names[i].uuid, published->uuid) == 0)
            told = survey->files[i].history;
    survey->is_told = ps_history_known(&told);
    survey->own = ps_history_of_files(survey->files, survey->count, &told);
    for (size_t i = 0; i < survey->count; i++) {
        enum ps_history_place place = ps_history_survey_place(survey, i);
        survey->mixed_count += place == PS_HISTORY_MIXED;
        survey->void_count += place == PS_HISTORY_VOID;
    }
}

/* Anew each time: a folder has tens of files, and each is asked about two or three times. */
enum ps_history_place ps_history_survey_place(const struct ps_history_survey *survey, size_t i)
{
    return ps_history_judge(survey->files, survey->count, i, &survey->own, survey->is_told);
}

enum ps_history_place ps_history_survey_checkpoint(const struct ps_history_survey *survey,
                                                   const char *name)
{
    PS_ASSERT(name != NULL);
    for (size_t i = 0; i < survey->count; i++)
        if (!survey->files[i].is_segment && strcmp(survey->names[i].text, name) == 0)
            return ps_history_survey_place(survey, i);
    return PS_HISTORY_OWN;
}
