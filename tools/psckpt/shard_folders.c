/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at most two levels down: DIR/shard-<i> and DIR/JOB/shard-<i>. An operator may name a
 * server's data folder, the folder of one of its jobs, or that of a single shard: all three are
 * usual in scripts. The kind of a folder shows by its content, and only then by its name, because a
 * restored backup may be called anything. */
#include "tools/psckpt/shard_folders.h"

#include "base/bounds.h"
#include "tools/psckpt/paths.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Servers make their folders with this name and the index, in decimal. */
#define PREFIX "shard-"

/* Behind it, what takes the place of a shard's folder in place is called so (in_place.c). */
#define FRESH ".new"

static bool read_index(const char *path, uint32_t *index);
static enum ps_status check_exchange(const struct name_list *names, const char *path,
                                     const char *fresh, struct ps_error *error);
static enum ps_status look_at(struct shard_folders *folders, const struct ps_files *files,
                              const char *path, struct ps_error *error);
static enum ps_status look_inside(struct shard_folders *folders, const struct ps_files *files,
                                  const char *path, const char *job, struct ps_error *error);
static enum ps_status add(struct shard_folders *folders, const char *path, const char *name,
                          const char *job, struct ps_error *error);
static int compare_folders(const void *a, const void *b);

/* The order of the rows is the order of everything that is printed or written later. A path that
 * holds nothing is a failure here: every command that gets this far has something to do with
 * shards. */
enum ps_status shard_folders_init(struct shard_folders *folders, const struct toolbox *box,
                                  const char *path, struct ps_error *error)
{
    *folders = (struct shard_folders){.memory = box->memory};
    enum ps_status status = look_at(folders, box->files, path, error);
    if (status == PS_OK && folders->count == 0)
        status = ps_fail(error, PS_ERR_NOT_FOUND,
                         "%s holds no checkpoint, no journal and no folder shard-<i>", path);
    if (status != PS_OK) {
        shard_folders_fini(folders);
        return status;
    }
    qsort(folders->rows, folders->count, sizeof *folders->rows, compare_folders);
    return PS_OK;
}

/* Rows are plain values; one release frees all. */
void shard_folders_fini(struct shard_folders *folders)
{
    if (folders->memory == NULL)
        return;
    ps_release(folders->memory, folders->rows);
    *folders = (struct shard_folders){0};
}

/* For a command that was given one file: the folder list then has exactly that path. */
enum ps_status shard_folders_make(struct shard_folders *folders, const char *path,
                                  const struct ps_allocator *memory, struct ps_error *error)
{
    *folders = (struct shard_folders){.memory = memory};
    enum ps_status status = add(folders, path, NULL, "", error);
    if (status != PS_OK)
        shard_folders_fini(folders);
    return status;
}

/* The number is read as a part of a folder's name, so that "01" or "1x" cannot mean shard 1. All
 * jobs that have a shard of this number keep it: a data folder with two jobs is rare, and then both
 * were asked for. */
enum ps_status shard_folders_choose(struct shard_folders *folders, const char *text,
                                    struct ps_error *error)
{
    char name[32];
    uint32_t index = 0;
    size_t count = 0;
    if (text == NULL)
        return PS_OK;
    int length = snprintf(name, sizeof name, PREFIX "%s", text);
    if (length < 0 || (size_t)length >= sizeof name || !read_index(name, &index))
        return ps_fail(error, PS_ERR_BAD_INPUT, "--shard %.60s: 0 to %d is wanted", text,
                       PS_SHARDS_MAX - 1);
    /* Rows that stay move to the front; the memory of the others goes with the array. */
    for (size_t i = 0; i < folders->count; i++)
        if (folders->rows[i].is_named && folders->rows[i].index == index)
            folders->rows[count++] = folders->rows[i];
    folders->count = count;
    if (count == 0)
        return ps_fail(error, PS_ERR_NOT_FOUND, "there is no folder " PREFIX "%" PRIu32, index);
    return PS_OK;
}

/* A folder that has a checkpoint or a segment in it is itself a shard, and nothing below it is
 * looked at: a kept folder "shard-1.before-1" inside must not count as another one. A folder called
 * shard-<i> is one even when it is empty: the operator named it so. */
static enum ps_status look_at(struct shard_folders *folders, const struct ps_files *files,
                              const char *path, struct ps_error *error)
{
    struct name_list names;
    uint32_t index = 0;
    PS_TRY(name_list_init(&names, files, path, folders->memory, error));
    bool is_shard = read_index(path, &index);
    for (size_t i = 0; i < names.count; i++)
        is_shard |= path_ends_with(names.names[i], ".safetensors") ||
                    path_ends_with(names.names[i], ".journal");
    enum ps_status status = is_shard ? add(folders, path, NULL, "", error)
                                     : look_inside(folders, files, path, "", error);
    for (size_t i = 0; i < names.count && status == PS_OK && !is_shard; i++) {
        char inner[SHARD_FOLDER_PATH_BYTES];
        /* The shards directly below were added by look_inside already; a path too long for us is
         * one that no server made. */
        if (read_index(names.names[i], &index) ||
            path_write(inner, sizeof inner, NULL, path, "%s/%s", path, names.names[i]) != PS_OK)
            continue;
        status = look_inside(folders, files, inner, names.names[i], error);
    }
    name_list_fini(&names);
    return status;
}

/* Adds every shard-<i> in `path`. A path that cannot be listed (a file, most of all) has none. Most
 * entries of a data folder are not folders of jobs: the store, logs, files. Listing one of those
 * fails, which means no more than that. Memory is the one failure that must not be taken for "not a
 * folder". */
static enum ps_status look_inside(struct shard_folders *folders, const struct ps_files *files,
                                  const char *path, const char *job, struct ps_error *error)
{
    struct name_list names = {0};
    enum ps_status status = name_list_init(&names, files, path, folders->memory, NULL);
    if (status == PS_ERR_NO_MEMORY)
        return ps_fail(error, status, "no memory for the names in %s", path);
    if (status != PS_OK)
        return PS_OK;
    for (size_t i = 0; i < names.count && status == PS_OK; i++) {
        uint32_t index;
        status = check_exchange(&names, path, names.names[i], error);
        if (status == PS_OK && read_index(names.names[i], &index))
            status = add(folders, path, names.names[i], job, error);
    }
    name_list_fini(&names);
    return status;
}

/* A command that was killed between the two renames of an exchange leaves shard-<i>.new and no
 * shard-<i>. Whoever then works on the others takes the job for a smaller one, so every command
 * says what to do instead. The kept folder is named, and not the new one: the store still points
 * into what was there. */
static enum ps_status check_exchange(const struct name_list *names, const char *path,
                                     const char *fresh, struct ps_error *error)
{
    char own[32];
    uint32_t index = 0;
    size_t length = strlen(fresh);
    if (!path_ends_with(fresh, FRESH) || length >= sizeof own)
        return PS_OK;
    (void)snprintf(own, sizeof own, "%.*s", (int)(length - (sizeof FRESH - 1)), fresh);
    if (!read_index(own, &index))
        return PS_OK;
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->names[i], own) == 0)
            return PS_OK;
    return ps_fail(error, PS_ERR_NOT_FOUND,
                   "%.120s/%s is not there: a command was broken off. Rename %s.before-N, of the "
                   "highest N, to %s, remove %s" FRESH ", and type it again",
                   path, own, own, own, own);
}

/* Is the last part of a path "shard-<index>"? "shard-007" is refused: servers never write it, and
 * with it two folders could claim one shard. Five digits and the bound keep the number within what
 * strtoul can hold. */
static bool read_index(const char *path, uint32_t *index)
{
    const char *name = path_name(path);
    if (strncmp(name, PREFIX, sizeof PREFIX - 1) != 0)
        return false;
    const char *digits = name + sizeof PREFIX - 1;
    size_t count = strspn(digits, "0123456789");
    if (count == 0 || count > 5 || digits[count] != '\0' || (count > 1 && digits[0] == '0'))
        return false;
    unsigned long value = strtoul(digits, NULL, 10);
    if (value >= PS_SHARDS_MAX)
        return false;
    *index = (uint32_t)value;
    return true;
}

/* The row is complete before it counts. */
static enum ps_status add(struct shard_folders *folders, const char *path, const char *name,
                          const char *job, struct ps_error *error)
{
    struct shard_folder *rows =
        array_with_room(folders->memory, folders->rows, folders->count, sizeof *rows);
    if (rows == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu folders", folders->count + 1);
    folders->rows = rows;
    struct shard_folder *row = &rows[folders->count];
    PS_TRY(path_write(row->path, sizeof row->path, error, path, "%s%s%s", path,
                      name == NULL ? "" : "/", name == NULL ? "" : name));
    PS_TRY(path_write(row->job, sizeof row->job, error, path, "%s", job));
    /* A folder with another name has index 0 and says so: the checkpoint inside knows better. */
    row->is_named = read_index(row->path, &row->index);
    folders->count++;
    return PS_OK;
}

/* By job, then by number: "shard-10" comes behind "shard-9", which the order of names would not
 * give. */
static int compare_folders(const void *a, const void *b)
{
    const struct shard_folder *left = a;
    const struct shard_folder *right = b;
    int jobs = strcmp(left->job, right->job);
    if (jobs != 0)
        return jobs;
    return (left->index > right->index) - (left->index < right->index);
}
