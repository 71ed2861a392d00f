/* SPDX-License-Identifier: Apache-2.0 */
/* Spares are files in the journal's folder with a suffix of their own behind epoch and first
 * position, so that no reader takes them for segments. */
#include "checkpoint/journal_spares.h"

#include "base/assert.h"

/* The oldest spare of an epoch, while a folder is listed: taking one must not allocate. */
struct search {
    struct ps_journal_segment from;
    bool found;
    struct ps_journal_segment oldest;
};

static void look_at(void *context, const char *name);

enum ps_status ps_journal_spare_take(const struct ps_files *files, const char *folder,
                                     struct ps_journal_segment from, const char *path, bool *taken,
                                     struct ps_error *error)
{
    PS_ASSERT(files != NULL && folder != NULL && path != NULL && taken != NULL);
    struct search search = {.from = from};
    char spare[PS_JOURNAL_PATH_BYTES];
    *taken = false;
    PS_TRY(files->list(files->self, folder, look_at, &search, error));
    if (!search.found)
        return PS_OK;
    PS_TRY(ps_journal_leftover_path_write(folder, search.oldest, PS_JOURNAL_SPARE_SUFFIX, spare,
                                          error));
    enum ps_status status = files->rename(files->self, spare, path, error);
    /* A sweep has removed it a moment ago. */
    if (status == PS_ERR_NOT_FOUND)
        return PS_OK;
    if (status != PS_OK)
        return status;
    *taken = true;
    /* Before anything is written to it: under the name of the segment that it was, a reader would
     * take the new content for damage. */
    return files->sync_folder(files->self, folder, error);
}

/* The oldest first, so that those of the last sweep but one, should any be left, are used up. */
static void look_at(void *context, const char *name)
{
    struct search *search = context;
    struct ps_journal_segment spare;
    if (!ps_journal_leftover_name_read(name, PS_JOURNAL_SPARE_SUFFIX, &spare) ||
        spare.epoch != search->from.epoch || spare.first < search->from.first)
        return;
    if (!search->found || spare.first < search->oldest.first)
        search->oldest = spare;
    search->found = true;
}

/* Not made durable here: a segment that comes back after a crash is covered all the same. */
enum ps_status ps_journal_spare_keep(const struct ps_files *files, const char *folder,
                                     struct ps_journal_segment segment, struct ps_error *error)
{
    PS_ASSERT(files != NULL && folder != NULL);
    char from[PS_JOURNAL_PATH_BYTES];
    char to[PS_JOURNAL_PATH_BYTES];
    PS_TRY(ps_journal_path_write(folder, segment, from, error));
    PS_TRY(ps_journal_leftover_path_write(folder, segment, PS_JOURNAL_SPARE_SUFFIX, to, error));
    return files->rename(files->self, from, to, error);
}

/* A new file grows with each write, and the disk has its size and its blocks to note as well: that
 * is how the first segments of an epoch are written. A spare that somebody else has open, or under
 * another name, is left to them: it is a backup's, which does not know that it was swept. */
enum ps_status ps_journal_spare_open(const struct ps_files *files, const char *folder,
                                     struct ps_journal_segment from, const char *path, bool direct,
                                     struct ps_file *file, struct ps_error *error)
{
    bool taken = false;
    enum ps_file_mode fresh = direct ? PS_FILE_CREATE_DIRECT : PS_FILE_CREATE_NEW;
    enum ps_file_mode again = direct ? PS_FILE_REUSE_DIRECT : PS_FILE_REUSE;
    (void)files->remove(files->self, path, NULL);
    PS_TRY(ps_journal_spare_take(files, folder, from, path, &taken, error));
    PS_TRY(files->open(files->self, path, taken ? again : fresh, file, error));
    if (!taken || files->is_alone(files->self, *file))
        return PS_OK;
    /* Its content stays with whoever has it: only this name goes, and no other spare is tried,
     * since a backup has all of them or none. */
    files->close(files->self, *file);
    PS_TRY(files->remove(files->self, path, error));
    return files->open(files->self, path, fresh, file, error);
}
