/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing is removed: what a repair leaves out may be wanted yet. Two renames exchange the folders.
 * Each rename is atomic, the pair is not: a crash between the two leaves the old folder under its
 * kept name and the new one ready beside it, both whole. An exchange of one step (renameat2) is not
 * on every file system that data folders are on. */
#include "tools/psckpt/in_place.h"

#include "checkpoint/checksum.h"
#include "tools/psckpt/paths.h"

#include <stdio.h>
#include <string.h>

/* As much as is copied at a time. */
#define COPY_BYTES ((size_t)1 << 20)

/* More repairs of one shard than anybody makes. */
#define KEPT_MAX 1000

static enum ps_status find_kept(const struct ps_files *files, const char *folder,
                                char kept[SHARD_FOLDER_PATH_BYTES], struct ps_error *error);
static enum ps_status exchange(const struct ps_files *files, const char *folder, const char *fresh,
                               const char *kept, struct ps_error *error);

/* The new state is written and durable before the old folder is moved: a full disk is found while
 * nothing has changed. When the second rename fails the old state is at `kept`, whole, and the
 * message of the failure names the paths. */
enum ps_status in_place_write(struct shard_state *state, const struct ps_files *files,
                              const char *folder, char kept[SHARD_FOLDER_PATH_BYTES],
                              struct ps_checkpoint_place *place, struct ps_error *error)
{
    char fresh[SHARD_FOLDER_PATH_BYTES];
    PS_TRY(path_write(fresh, sizeof fresh, error, folder, "%s.new", folder));
    PS_TRY(find_kept(files, folder, kept, error));
    enum ps_status status = shard_state_write(state, files, fresh, place, error);
    if (status == PS_ERR_EXISTS)
        return ps_fail(error, status,
                       "%.150s holds something, of a repair that was broken off: remove it", fresh);
    if (status != PS_OK)
        return status;
    PS_TRY(exchange(files, folder, fresh, kept, error));
    /* The checkpoint was written below the new folder's first name, and has to be published under
     * the final one. */
    char path[sizeof place->path];
    PS_TRY(path_write(path, sizeof path, error, folder, "%s/%s", folder, path_name(place->path)));
    memcpy(place->path, path, sizeof path);
    state->place = *place;
    return PS_OK;
}

/* Read and written by hand: a link would leave one file with two names, and a server that sweeps
 * one of them may write over it. The checksum is that of what was read, and the copy is verified by
 * itself afterwards. */
static enum ps_status copy_file(const struct toolbox *box, const char *to,
                                struct ps_checkpoint_place *place, struct ps_error *error)
{
    const struct ps_files *files = box->files;
    /* A short read is the end of the file. */
    struct ps_file in = {0};
    struct ps_file out = {0};
    size_t got = COPY_BYTES;
    uint8_t *part = ps_plain(box->memory, COPY_BYTES);
    if (part == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to copy %.150s", place->path);
    enum ps_status status = files->open(files->self, place->path, PS_FILE_READ, &in, error);
    bool is_in = status == PS_OK;
    if (status == PS_OK)
        status = files->open(files->self, to, PS_FILE_CREATE_NEW, &out, error);
    bool is_out = is_in && status == PS_OK;
    place->bytes = 0;
    place->crc32 = 0;
    /* The offset is what was copied so far. */
    while (status == PS_OK && got == COPY_BYTES) {
        status = files->read(files->self, in, place->bytes, part, COPY_BYTES, &got, error);
        const struct ps_bytes bytes = {part, got};
        if (status == PS_OK && got > 0)
            status = files->write(files->self, out, bytes, error);
        if (status == PS_OK) {
            place->crc32 = ps_checksum_crc32(place->crc32, bytes);
            place->bytes += got;
        }
    }
    if (status == PS_OK)
        status = files->sync(files->self, out, error);
    if (is_out)
        files->close(files->self, out);
    if (is_in)
        files->close(files->self, in);
    ps_release(box->memory, part);
    return status;
}

/* As in_place_write: the copy is whole and durable before anything is renamed. */
enum ps_status in_place_copy(const struct toolbox *box, const char *folder,
                             char kept[SHARD_FOLDER_PATH_BYTES], struct ps_checkpoint_place *place,
                             struct ps_error *error)
{
    const struct ps_files *files = box->files;
    char fresh[SHARD_FOLDER_PATH_BYTES];
    char path[sizeof place->path];
    /* Both names are settled before anything is made. */
    PS_TRY(path_write(fresh, sizeof fresh, error, folder, "%s.new", folder));
    PS_TRY(find_kept(files, folder, kept, error));
    /* An empty one is what a command leaves that failed before the copy. */
    if (shard_state_check_unused(files, fresh, box->memory, NULL) != PS_OK)
        return ps_fail(error, PS_ERR_EXISTS,
                       "%.150s holds something, of a command that was broken off: remove it",
                       fresh);
    PS_TRY(path_write(path, sizeof path, error, fresh, "%s/%s", fresh, path_name(place->path)));
    /* The disk may be full: the old folder is in its place until the copy is on it. */
    PS_TRY(files->make_folder(files->self, fresh, error));
    PS_TRY(copy_file(box, path, place, error));
    PS_TRY(files->sync_folder(files->self, fresh, error));
    PS_TRY(ps_checkpoint_verify(files, path, box->memory, error));
    /* From here on the file has its last name, by which it is published. */
    PS_TRY(exchange(files, folder, fresh, kept, error));
    return path_write(place->path, sizeof place->path, error, folder, "%s/%s", folder,
                      path_name(path));
}

/* Earlier repairs are kept, too: the lowest number that is free. */
static enum ps_status find_kept(const struct ps_files *files, const char *folder,
                                char kept[SHARD_FOLDER_PATH_BYTES], struct ps_error *error)
{
    for (int i = 1; i <= KEPT_MAX; i++) {
        PS_TRY(path_write(kept, SHARD_FOLDER_PATH_BYTES, error, folder, "%s.before-%d", folder, i));
        if (path_is_free(files, kept))
            return PS_OK;
    }
    return ps_fail(error, PS_ERR_EXISTS, "%.150s.before-1 to -%d are all there: remove some",
                   folder, KEPT_MAX);
}

/* The parent folder is synced last; without that a power cut may undo either rename. */
static enum ps_status exchange(const struct ps_files *files, const char *folder, const char *fresh,
                               const char *kept, struct ps_error *error)
{
    char parent[SHARD_FOLDER_PATH_BYTES];
    const char *slash = strrchr(folder, '/');
    int length = slash == NULL ? 1 : (int)(slash - folder);
    (void)snprintf(parent, sizeof parent, "%.*s", length, slash == NULL ? "." : folder);
    PS_TRY(files->rename(files->self, folder, kept, error));
    PS_TRY(files->rename(files->self, fresh, folder, error));
    return files->sync_folder(files->self, parent, error);
}
