/* prune: removes what no recovery needs any more. */
#include "tools/psckpt/psckpt_commands.h"

#include "checkpoint/catalog.h"
#include "checkpoint/journal.h"
#include "checkpoint/journal_segments.h"
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

static enum ps_status prune_folder(struct pruning *pruning, const struct shard_folder *folder,
                                   struct ps_error *error);
static enum ps_status prune_checkpoints(struct pruning *pruning, const struct shard_folder *folder,
                                        const struct ps_catalog *catalog, uint64_t *covered,
                                        size_t *whole_count, struct ps_error *error);
static enum ps_status is_whole(const struct pruning *pruning, const char *path, bool *whole,
                               struct ps_error *error);
static enum ps_status prune_journal(struct pruning *pruning, const char *folder, uint64_t covered,
                                    struct ps_error *error);

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
    struct ps_catalog catalog;
    uint64_t covered = UINT64_MAX;
    size_t whole_count = 0;
    PS_TRY(ps_catalog_init(&catalog, tool->files, folder->path, tool->memory, error));
    enum ps_status status =
        prune_checkpoints(pruning, folder, &catalog, &covered, &whole_count, error);
    ps_catalog_fini(&catalog);
    if (status == PS_OK && whole_count > 0)
        status = prune_journal(pruning, folder->path, covered, error);
    return status;
}

/* From the newest on: the first `keep` whole ones stay, and the published one. Damaged ones stay
 * too: what is left of them may be wanted. `*covered` is the lowest position that stays. */
static enum ps_status prune_checkpoints(struct pruning *pruning, const struct shard_folder *folder,
                                        const struct ps_catalog *catalog, uint64_t *covered,
                                        size_t *whole_count, struct ps_error *error)
{
    const struct psckpt *tool = pruning->tool;
    char published[37];
    PS_TRY(published_uuid(&pruning->published, folder->job, folder->index, published, error));
    for (size_t i = 0; i < catalog->count; i++) {
        const struct ps_catalog_entry *entry = &catalog->entries[i];
        char path[SHARD_FOLDER_PATH_BYTES + sizeof entry->name + 1];
        bool whole = false;
        (void)snprintf(path, sizeof path, "%s/%s", folder->path, entry->name);
        PS_TRY(is_whole(pruning, path, &whole, error));
        bool stays =
            !whole || *whole_count < tool->options.keep || strcmp(published, entry->uuid) == 0;
        *whole_count += whole;
        if (!stays) {
            PS_TRY(tool->files->remove(tool->files->self, path, error));
            pruning->checkpoints++;
            continue;
        }
        if (whole && entry->position < *covered)
            *covered = entry->position;
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

static enum ps_status prune_journal(struct pruning *pruning, const char *folder, uint64_t covered,
                                    struct ps_error *error)
{
    const struct psckpt *tool = pruning->tool;
    struct ps_journal_segments segments;
    PS_TRY(
        ps_journal_segments_init(&segments, tool->files, folder, UINT64_MAX, tool->memory, error));
    size_t count = segments.count;
    uint64_t epoch = count > 0 ? segments.entries[count - 1].epoch : 0;
    ps_journal_segments_fini(&segments);
    if (count == 0)
        return PS_OK;
    size_t removed = 0;
    PS_TRY(ps_journal_sweep(tool->files, folder, epoch, covered, tool->memory, &removed, error));
    pruning->segments += removed;
    return PS_OK;
}
