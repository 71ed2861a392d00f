/* SPDX-License-Identifier: Apache-2.0 */
/* Whole-file helpers that work on any file system interface, so that the tests which cut power at
 * every call of a save also cover these two. */
#include "base/file.h"

#include "base/assert.h"

#include <stdio.h>

static enum ps_status read_open_file(const struct ps_files *files, struct ps_file file,
                                     const char *path, size_t size_max,
                                     const struct ps_allocator *memory, uint8_t **content,
                                     size_t *size, struct ps_error *error);
static enum ps_status write_new_file(const struct ps_files *files, const char *path,
                                     struct ps_bytes content, struct ps_error *error);

enum ps_status ps_file_read_all(const struct ps_files *files, const char *path, size_t size_max,
                                const struct ps_allocator *memory, uint8_t **content, size_t *size,
                                struct ps_error *error)
{
    PS_ASSERT(files != NULL && path != NULL && content != NULL && size != NULL);
    struct ps_file file;
    PS_TRY(files->open(files->self, path, PS_FILE_READ, &file, error));
    enum ps_status status =
        read_open_file(files, file, path, size_max, memory, content, size, error);
    files->close(files->self, file);
    return status;
}

/* The size is asked first and bounds the allocation: a folder of checkpoints may be mounted from
 * anywhere, and a file of a terabyte in the place of a small one must not end the process. A file
 * that shrinks meanwhile is short (`got`), one that grows is cut; both are noticed by their
 * checksum. */
static enum ps_status read_open_file(const struct ps_files *files, struct ps_file file,
                                     const char *path, size_t size_max,
                                     const struct ps_allocator *memory, uint8_t **content,
                                     size_t *size, struct ps_error *error)
{
    uint64_t length = 0;
    PS_TRY(files->size(files->self, file, &length, error));
    if (length > size_max)
        return ps_fail(error, PS_ERR_OUT_OF_RANGE, "%s: %llu bytes, more than the limit of %zu",
                       path, (unsigned long long)length, size_max);
    /* One byte more for a NUL, so that text can be handed to parsers that want one. */
    uint8_t *bytes = ps_plain(memory, (size_t)length + 1);
    if (bytes == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "%s: no memory for %llu bytes", path,
                       (unsigned long long)length);
    size_t got = 0;
    enum ps_status status = files->read(files->self, file, 0, bytes, (size_t)length, &got, error);
    if (status != PS_OK) {
        ps_release(memory, bytes);
        return status;
    }
    bytes[got] = 0;
    *content = bytes;
    *size = got;
    return PS_OK;
}

/* Write aside, sync, rename, sync the folder. A crash at any point leaves either the old file or
 * the new one, whole, under the name: rename(2) replaces in one step, the sync before keeps the new
 * name from pointing at data that never reached the disk, and the sync of the folder makes the new
 * name itself survive. A failure of that last sync is reported although the new content may be in
 * place: the caller must not believe in durability that was not confirmed. */
enum ps_status ps_file_replace(const struct ps_files *files, const char *folder, const char *path,
                               struct ps_bytes content, struct ps_error *error)
{
    PS_ASSERT(files != NULL && folder != NULL && path != NULL);
    char temporary[4096];
    int length = snprintf(temporary, sizeof temporary, "%s.tmp", path);
    if (length < 0 || (size_t)length >= sizeof temporary)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s: path too long", path);

    /* A leftover of a crash; not being there is the usual case. */
    (void)files->remove(files->self, temporary, NULL);
    enum ps_status status = write_new_file(files, temporary, content, error);
    if (status == PS_OK)
        status = files->rename(files->self, temporary, path, error);
    if (status != PS_OK) {
        (void)files->remove(files->self, temporary, NULL);
        return status;
    }
    return files->sync_folder(files->self, folder, error);
}

/* PS_FILE_CREATE_NEW refuses an existing file. Should the leftover not have gone (a folder without
 * permission to remove), this fails instead of appending to foreign content. */
static enum ps_status write_new_file(const struct ps_files *files, const char *path,
                                     struct ps_bytes content, struct ps_error *error)
{
    struct ps_file file;
    PS_TRY(files->open(files->self, path, PS_FILE_CREATE_NEW, &file, error));
    enum ps_status status = files->write(files->self, file, content, error);
    if (status == PS_OK)
        status = files->sync(files->self, file, error);
    files->close(files->self, file);
    return status;
}
