/* prune: removes what no recovery needs any more. */
#include "tools/psckpt/psckpt_commands.h"

#include "checkpoint/catalog.h"
#include "checkpoint/journal.h"
#include "checkpoint/journal_segments.h"
#include "server/core/recovery/recovery_replay.h"
#include "tools/psckpt/checkpoint_survey.h"
#include "tools/psckpt/published.h"
#include "tools/psckpt/shard_folders.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct pruning {
    const struct psckpt *tool;
    struct published published;
    size_t checkpoints; /* removed */
    size_t segments;    /* removed */
};

/* What one shard's folder holds. */
struct folder_content {
    const struct shard_folder *folder; /* borrowed */
    struct ps_catalog catalog;
    struct ps_journal_segments segments;
};

static enum ps_status prune_folder(struct pruning *pruning, const struct shard_folder *folder,
                                   struct ps_error *error);
static enum ps_status prune_checkpoints(struct pruning *pruning, struct folder_content *content,
                                        uint64_t *covered, struct ps_error *error);
static enum ps_status is_whole(const struct pruning *pruning, const char *path, bool *whole,
                               struct ps_error *error);
static enum ps_status prune_journal(struct pruning *pruning, const struct folder_content *content,
                                    uint64_t covered, struct ps_error *error);

int psckpt_prune(const struct psckpt *tool)
{
    const struct psckpt_options *options = &tool->options;
    struct pruning pruning = {.tool = tool};
    struct shard_folders folders = {0};
    struct ps_error error = {0};
    const struct published_options wish = {.etcd = options->etcd,
                                           .user = options->etcd_user,
                                           .password = options->etcd_password,
                                           .timeout_ms = options->timeout_ms};
    enum ps_status status = PS_OK;
    uint64_t least = options->etcd == NULL ? 2 : 1;
    if (options->keep < least)
        status = ps_fail(&error, PS_ERR_BAD_INPUT,
                         "--keep %" PRIu64 ": at least %" PRIu64 " must stay%s", options->keep,
                         least, options->etcd == NULL ? " when --etcd is not asked" : "");
    if (status == PS_OK)
        status = published_open(&pruning.published, &wish, tool->memory, &error);
    if (status == PS_OK)
        status =
            shard_folders_init(&folders, tool->files, tool->arguments[0], tool->memory, &error);
    for (size_t i = 0; i < folders.count && status == PS_OK; i++)
        status = prune_folder(&pruning, &folders.rows[i], &error);
    if (status == PS_OK && tool->json)
        (void)printf("{\"checkpoints\":%zu,\"segments\":%zu}\n", pruning.checkpoints,
                     pruning.segments);
    else if (status == PS_OK)
        (void)printf("removed %zu checkpoints and %zu journal segments\n", pruning.checkpoints,
                     pruning.segments);
    shard_folders_fini(&folders);
    published_close(&pruning.published);
    return status == PS_OK ? 0 : psckpt_complain(status, &error);
}

static enum ps_status prune_folder(struct pruning *pruning, const struct shard_folder *folder,
                                   struct ps_error *error)
{
    const struct psckpt *tool = pruning->tool;
    struct folder_content content = {.folder = folder};
    PS_TRY(ps_catalog_init(&content.catalog, tool->files, folder->path, tool->memory, error));
    enum ps_status status = ps_journal_segments_init(&content.segments, tool->files, folder->path,
                                                     UINT64_MAX, tool->memory, error);
    uint64_t covered = UINT64_MAX;
    if (status == PS_OK)
        status = prune_checkpoints(pruning, &content, &covered, error);
    if (status == PS_OK && covered != UINT64_MAX)
        status = prune_journal(pruning, &content, covered, error);
    ps_journal_segments_fini(&content.segments);
    ps_catalog_fini(&content.catalog);
    return status;
}

/* From the newest on: the first `keep` good ones stay, and the published one. What is damaged, or
 * of a life that did not happen, neither counts nor goes: what is left of it may be wanted.
 * `*covered` becomes the lowest position that stays. */
static enum ps_status prune_checkpoints(struct pruning *pruning, struct folder_content *content,
                                        uint64_t *covered, struct ps_error *error)
{
    const struct psckpt *tool = pruning->tool;
    const struct shard_folder *folder = content->folder;
    size_t good_count = 0;
    char published[37];
    PS_TRY(published_uuid(&pruning->published, folder->job, folder->index, published, error));
    for (size_t i = 0; i < content->catalog.count; i++) {
        const struct ps_catalog_entry *entry = &content->catalog.entries[i];
        char path[SHARD_FOLDER_PATH_BYTES + sizeof entry->name + 1];
        bool good = false;
        (void)snprintf(path, sizeof path, "%s/%s", folder->path, entry->name);
        PS_TRY(is_whole(pruning, path, &good, error));
        good &= !ps_recovery_is_superseded(&content->segments, entry->epoch, entry->position);
        bool stays =
            !good || good_count < tool->options.keep || strcmp(published, entry->uuid) == 0;
        good_count += good;
        if (!stays) {
            PS_TRY(tool->files->remove(tool->files->self, path, error));
            pruning->checkpoints++;
        } else if (good && entry->position < *covered) {
            *covered = entry->position;
        }
    }
    return PS_OK;
}

static enum ps_status is_whole(const struct pruning *pruning, const char *path, bool *whole,
                               struct ps_error *error)
{
    const struct psckpt *tool = pruning->tool;
    struct checkpoint_survey survey;
    PS_TRY(checkpoint_survey_init(&survey, tool->files, path, true, tool->progress, tool->memory,
                                  error));
    *whole = survey.damage_count == 0;
    checkpoint_survey_fini(&survey);
    return PS_OK;
}

static enum ps_status prune_journal(struct pruning *pruning, const struct folder_content *content,
                                    uint64_t covered, struct ps_error *error)
{
    const struct psckpt *tool = pruning->tool;
    const struct ps_journal_segments *segments = &content->segments;
    if (segments->count == 0)
        return PS_OK;
    size_t removed = 0;
    PS_TRY(ps_journal_sweep(tool->files, content->folder->path,
                            segments->entries[segments->count - 1].epoch, covered, tool->memory,
                            &removed, error));
    pruning->segments += removed;
    return PS_OK;
}
