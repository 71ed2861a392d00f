/* SPDX-License-Identifier: Apache-2.0 */
/* A file system is known by the number of its device, which a disk has again when it is mounted
 * again. One that has another number then (NFS) is refused until the server is started anew, which
 * loses nothing: what was acknowledged is on it. */
#include "server/data_files.h"

#include "base/assert.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_BYTES 4096

/* False: nothing of that name is there, or nobody may look. */
static bool device_of(const char *path, uint64_t *device)
{
    struct stat about;
    if (stat(path, &about) != 0)
        return false;
    *device = (uint64_t)about.st_dev;
    return true;
}

/* Cuts the last name off. False: none is above. */
static bool go_up(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path)
        return false;
    *slash = '\0';
    return true;
}

/* Judges by the data directory, and where that has gone by the nearest folder above it, in which it
 * would be made. A job's or a shard's folder within may be a link to another disk, or another
 * disk's. */
static enum ps_status check(const struct ps_data_files *data, struct ps_error *error)
{
    char above[PATH_BYTES];
    uint64_t device = data->device;
    PS_ASSERT(data->files.self == data);
    int length = snprintf(above, sizeof above, "%s", data->folder);
    /* Of a longer path the call itself says that it is too long. */
    if (data->device == 0 || length < 0 || (size_t)length >= sizeof above)
        return PS_OK;
    while (!device_of(above, &device) && go_up(above))
        continue;
    if (device == data->device)
        return PS_OK;
    return ps_fail(error, PS_ERR_IO,
                   "%s is not on the file system that it was on at the start: mount that one "
                   "again, or start the server anew",
                   data->folder);
}

static enum ps_status open_there(void *self, const char *path, enum ps_file_mode mode,
                                 struct ps_file *file, struct ps_error *error)
{
    if (mode != PS_FILE_READ)
        PS_TRY(check(self, error));
    return ps_files_real()->open(ps_files_real()->self, path, mode, file, error);
}

static enum ps_status make_folder_there(void *self, const char *path, struct ps_error *error)
{
    PS_TRY(check(self, error));
    return ps_files_real()->make_folder(ps_files_real()->self, path, error);
}

/* The other calls work on what is open, on what is there, or move it within one file system. */
void ps_data_files_init(struct ps_data_files *data, const char *folder)
{
    PS_ASSERT(data != NULL && folder != NULL);
    *data = (struct ps_data_files){.files = *ps_files_real(), .folder = folder};
    PS_ASSERT(data->files.self == NULL); /* the real ones need none */
    data->files.self = data;
    data->files.open = open_there;
    data->files.make_folder = make_folder_there;
    (void)device_of(folder, &data->device);
}
