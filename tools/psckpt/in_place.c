/* Nothing is removed: what a repair leaves out may be wanted yet. */
#include "tools/psckpt/in_place.h"

#include <stdio.h>
#include <string.h>

/* More repairs of one shard than anybody makes. */
#define KEPT_MAX 1000

static enum ps_status find_kept(const struct ps_files *files, const char *folder,
                                char kept[SHARD_FOLDER_PATH_BYTES], struct ps_error *error);
static enum ps_status exchange(const struct ps_files *files, const char *folder, const char *fresh,
                               const char *kept, struct ps_error *error);

enum ps_status in_place_write(struct shard_state *state, const struct ps_files *files,
                              const char *folder, char kept[SHARD_FOLDER_PATH_BYTES],
                              struct ps_checkpoint_place *place, struct ps_error *error)
{
    char fresh[SHARD_FOLDER_PATH_BYTES];
    int length = snprintf(fresh, sizeof fresh, "%s.new", folder);
    if (length < 0 || (size_t)length >= sizeof fresh)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%.100s...: the path is too long", folder);
    PS_TRY(find_kept(files, folder, kept, error));
    enum ps_status status = shard_state_write(state, files, fresh, place, error);
    if (status == PS_ERR_EXISTS)
        return ps_fail(error, status,
                       "%.150s holds something, of a repair that was broken off: remove it", fresh);
    if (status != PS_OK)
        return status;
    PS_TRY(exchange(files, folder, fresh, kept, error));
    const char *name = strrchr(place->path, '/');
    char path[sizeof place->path];
    length = snprintf(path, sizeof path, "%s%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof path)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%.100s...: the path is too long", folder);
    memcpy(place->path, path, (size_t)length + 1);
    state->place = *place;
    return PS_OK;
}

static void ignore_entry(void *context, const char *name)
{
    (void)context;
    (void)name;
}

static enum ps_status find_kept(const struct ps_files *files, const char *folder,
                                char kept[SHARD_FOLDER_PATH_BYTES], struct ps_error *error)
{
    for (int i = 1; i <= KEPT_MAX; i++) {
        int length = snprintf(kept, SHARD_FOLDER_PATH_BYTES, "%s.before-%d", folder, i);
        if (length < 0 || length >= SHARD_FOLDER_PATH_BYTES)
            return ps_fail(error, PS_ERR_BAD_INPUT, "%.100s...: the path is too long", folder);
        if (files->list(files->self, kept, ignore_entry, NULL, NULL) == PS_ERR_NOT_FOUND)
            return PS_OK;
    }
    return ps_fail(error, PS_ERR_EXISTS, "%.150s.before-1 to -%d are all there: remove some",
                   folder, KEPT_MAX);
}

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
