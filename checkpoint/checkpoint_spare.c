/* SPDX-License-Identifier: Apache-2.0 */
/* A spare has the name of the checkpoint that it was, and a suffix of its own behind it, so that
 * nobody takes it for one. */
#include "checkpoint/checkpoint_spare.h"

#include "base/assert.h"
#include "checkpoint/checkpoint_name.h"

#include <stdio.h>

/* Longest path of a folder and a name in it. */
#define PATH_BYTES 1024

/* A spare of an epoch, while a folder is listed. */
struct search {
    uint64_t epoch;
    char name[PS_CHECKPOINT_NAME_BYTES]; /* "": none was found yet */
};

/* Of several any will do: the sweep leaves one, and others are what was broken off. */
static void look_at(void *context, const char *name);
static enum ps_status open_alone(const struct ps_files *files, const char *path,
                                 struct ps_file *file, bool *alone, struct ps_error *error);
/* A name of ours in a folder of the operator's, whose length nobody has asked before. */
static enum ps_status path_of(const char *folder, const char *name, char path[PATH_BYTES],
                              struct ps_error *error);

/* Not made durable here: a checkpoint that comes back after a crash is whole, and whoever takes the
 * spare syncs the folder before writing to it. */
enum ps_status ps_checkpoint_spare_keep(const struct ps_files *files, const char *folder,
                                        const char *name, struct ps_error *error)
{
    PS_ASSERT(files != NULL && folder != NULL && name != NULL);
    uint64_t epoch = 0;
    uint64_t position = 0;
    char uuid[37];
    char base[37];
    char spare[PS_CHECKPOINT_NAME_BYTES];
    char from[PATH_BYTES];
    char to[PATH_BYTES];
    bool is_checkpoint =
        ps_checkpoint_name_read(name, PS_CHECKPOINT_SUFFIX, &epoch, &position, uuid, base);
    PS_ASSERT(is_checkpoint);
    ps_checkpoint_name_write(epoch, position, uuid, base, PS_CHECKPOINT_SPARE_SUFFIX, spare);
    PS_TRY(path_of(folder, name, from, error));
    PS_TRY(path_of(folder, spare, to, error));
    return files->rename(files->self, from, to, error);
}

/* The folder is synced before anything is written: under the name of the checkpoint that it was, a
 * reader would take the new content for damage. */
enum ps_status ps_checkpoint_spare_take(const struct ps_files *files, const char *folder,
                                        uint64_t epoch, const char *path, struct ps_file *file,
                                        bool *taken, struct ps_error *error)
{
    PS_ASSERT(files != NULL && folder != NULL && path != NULL && taken != NULL);
    struct search search = {.epoch = epoch};
    char spare[PATH_BYTES];
    *taken = false;
    PS_TRY(files->list(files->self, folder, look_at, &search, error));
    if (search.name[0] == '\0')
        return PS_OK;
    PS_TRY(path_of(folder, search.name, spare, error));
    PS_TRY(files->rename(files->self, spare, path, error));
    enum ps_status status = files->sync_folder(files->self, folder, error);
    if (status == PS_OK)
        status = open_alone(files, path, file, taken, error);
    if (!*taken)
        (void)files->remove(files->self, path, NULL);
    return status;
}

static void look_at(void *context, const char *name)
{
    struct search *search = context;
    uint64_t epoch = 0;
    uint64_t position = 0;
    char uuid[37];
    char base[37];
    if (ps_checkpoint_name_read(name, PS_CHECKPOINT_SPARE_SUFFIX, &epoch, &position, uuid, base) &&
        epoch == search->epoch)
        (void)snprintf(search->name, sizeof search->name, "%s", name);
}

/* A trainer may have mapped the weights of a checkpoint into its memory, and a backup may have a
 * second name for the file: neither knows that a server has swept it. */
static enum ps_status open_alone(const struct ps_files *files, const char *path,
                                 struct ps_file *file, bool *alone, struct ps_error *error)
{
    PS_TRY(files->open(files->self, path, PS_FILE_REUSE_DIRECT, file, error));
    *alone = files->is_alone(files->self, *file);
    if (!*alone)
        files->close(files->self, *file);
    return PS_OK;
}

static enum ps_status path_of(const char *folder, const char *name, char path[PATH_BYTES],
                              struct ps_error *error)
{
    int length = snprintf(path, PATH_BYTES, "%s/%s", folder, name);
    if (length < 0 || length >= PATH_BYTES)
        return ps_fail(error, PS_ERR_IO, "checkpoint: the folder's path is too long");
    return PS_OK;
}
