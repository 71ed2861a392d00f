/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing is removed: what a repair leaves out may be wanted yet. Two renames exchange the folders.
 * Each rename is atomic, the pair is not: a crash between the two leaves the old folder under its
 * kept name and the new one ready beside it, both whole. An exchange of one step (renameat2) is not
 * on every file system that data folders are on. */
#include "tools/psckpt/in_place.h"

#include "tools/psckpt/paths.h"

#include <stdio.h>
#include <string.h>

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
