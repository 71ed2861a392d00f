/* SPDX-License-Identifier: Apache-2.0 */
/* prune: removes what no recovery needs any more. Servers prune their own folders; this command is
 * for folders that no server uses any more, or whose disk is nearly full. The files to keep are
 * chosen by the same rule as a server's: whole checkpoints from the newest on, and the journal
 * behind the oldest that stays. Without etcd two must stay, because nobody can be asked which one
 * is published, and the newest may be one that no server ever announced. */
#include "tools/psckpt/psckpt_commands.h"

#include "checkpoint/catalog.h"
#include "checkpoint/journal.h"
#include "checkpoint/journal_segments.h"
#include "server/core/recovery/kept_sets.h"
#include "server/core/recovery/recovery_replay.h"
#include "tools/psckpt/checkpoint_survey.h"
#include "tools/psckpt/folder_histories.h"
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

/* What was found of one checkpoint of the catalog. */
struct finding {
    bool good;      /* a recovery could begin with it */
    bool names_set; /* it was written for a set */
    bool stays;
    bool is_for_set_alone;
};

/* The content of one shard's folder. Catalog and segments are read once and stay as they were,
 * while files go. */
struct folder_content {
    const struct shard_folder *folder; /* borrowed */
    struct ps_catalog catalog;
    struct ps_journal_segments segments;
    struct finding *findings; /* owned; one for each of the catalog */
};

static enum ps_status prune_folder(struct pruning *pruning, const struct shard_folder *folder,
                                   struct ps_error *error);
static enum ps_status prune_checkpoints(struct pruning *pruning, struct folder_content *content,
                                        uint64_t *covered, struct ps_error *error);
static enum ps_status survey_all(const struct pruning *pruning, struct folder_content *content,
                                 struct ps_error *error);
static enum ps_status is_whole(const struct pruning *pruning, const char *path, bool *whole,
                               bool *names_set, struct ps_error *error);
static enum ps_status choose(struct pruning *pruning, struct folder_content *content,
                             struct ps_error *error);
static void keep_bases(struct folder_content *content);
static enum ps_status find_kept(struct pruning *pruning, const struct shard_folder *folder,
                                struct ps_kept_sets *kept, struct ps_error *error);
static enum ps_status prune_journal(struct pruning *pruning, const struct folder_content *content,
                                    uint64_t covered, struct ps_error *error);

/* Folders are pruned one by one, and what is removed is removed: the counts are printed only when
 * all went well, since a failure half-way leaves a state that a second run finishes. */
enum ps_status psckpt_prune(const struct psckpt *tool, struct ps_error *error)
{
    const struct psckpt_options *options = &tool->options;
    struct pruning pruning = {.tool = tool};
    struct shard_folders folders = {0};
    /* Servers without etcd keep their store in the folder itself. */
    const struct published_options wish = psckpt_store_wish(tool, tool->arguments[0]);
    uint64_t least = options->etcd == NULL ? 2 : 1;
    if (options->keep < least)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--keep %" PRIu64 ": at least %" PRIu64 " must stay%s", options->keep, least,
                       options->etcd == NULL ? " when --etcd is not asked" : "");
    enum ps_status status = published_open(&pruning.published, &wish, tool->box.memory, error);
    if (status == PS_OK)
        status = shard_folders_init(&folders, &tool->box, tool->arguments[0], error);
    for (size_t i = 0; i < folders.count && status == PS_OK; i++)
        status = prune_folder(&pruning, &folders.rows[i], error);
    if (status == PS_OK)
        (void)printf(tool->json ? "{\"checkpoints\":%zu,\"segments\":%zu}\n"
                                : "removed %zu checkpoints and %zu journal segments\n",
                     pruning.checkpoints, pruning.segments);
    shard_folders_fini(&folders);
    published_close(&pruning.published);
    return status;
}

/* The checkpoints go first. A journal that was swept before a checkpoint proved whole could be what
 * the only good checkpoint needed. Both lists are released whatever happened. */
static enum ps_status prune_folder(struct pruning *pruning, const struct shard_folder *folder,
                                   struct ps_error *error)
{
    const struct psckpt *tool = pruning->tool;
    struct folder_content content = {.folder = folder};
    struct ps_history own;
    /* Which are the newest is not known while some are another shard's: theirs would stay in the
     * place of two that are good. */
    PS_TRY(folder_histories_check(&tool->box, folder->path, &own, error));
    PS_TRY(
        ps_catalog_init(&content.catalog, tool->box.files, folder->path, tool->box.memory, error));
    enum ps_status status = ps_journal_segments_init(
        &content.segments, tool->box.files, folder->path, UINT64_MAX, tool->box.memory, error);
    /* No good checkpoint leaves this value, and with it the whole journal. */
    uint64_t covered = UINT64_MAX;
    if (status == PS_OK)
        status = prune_checkpoints(pruning, &content, &covered, error);
    if (status == PS_OK && covered != UINT64_MAX)
        status = prune_journal(pruning, &content, covered, error);
    ps_release(tool->box.memory, content.findings);
    ps_journal_segments_fini(&content.segments);
    ps_catalog_fini(&content.catalog);
    return status;
}

/* Every file is judged before the first goes. `*covered` becomes the lowest position that stays,
 * which is as far as the journal may go. Each file goes by itself, the newest first, so an
 * interrupted run has removed only what nobody needs, and no base before what adds to it. */
static enum ps_status prune_checkpoints(struct pruning *pruning, struct folder_content *content,
                                        uint64_t *covered, struct ps_error *error)
{
    const struct psckpt *tool = pruning->tool;
    PS_TRY(survey_all(pruning, content, error));
    PS_TRY(choose(pruning, content, error));
    keep_bases(content);
    for (size_t i = 0; i < content->catalog.count; i++) {
        const struct ps_catalog_entry *entry = &content->catalog.entries[i];
        const struct finding *finding = &content->findings[i];
        char path[SHARD_FOLDER_PATH_BYTES + sizeof entry->name + 1];
        (void)snprintf(path, sizeof path, "%s/%s", content->folder->path, entry->name);
        if (!finding->stays) {
            PS_TRY(tool->box.files->remove(tool->box.files->self, path, error));
            pruning->checkpoints++;
        } else if (finding->good && !finding->is_for_set_alone && entry->position < *covered) {
            *covered = entry->position;
        }
    }
    return PS_OK;
}

/* From the oldest on, so that a base is judged before what adds to it: that is as good as both. The
 * same survey tells all, so that each file is read once. */
static enum ps_status survey_all(const struct pruning *pruning, struct folder_content *content,
                                 struct ps_error *error)
{
    const struct psckpt *tool = pruning->tool;
    const struct ps_catalog *catalog = &content->catalog;
    content->findings =
        ps_zeroed_array(tool->box.memory, catalog->count, sizeof *content->findings);
    if (content->findings == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu files", catalog->count);
    for (size_t i = catalog->count; i > 0; i--) {
        const struct ps_catalog_entry *entry = &catalog->entries[i - 1];
        struct finding *finding = &content->findings[i - 1];
        char path[SHARD_FOLDER_PATH_BYTES + sizeof entry->name + 1];
        (void)snprintf(path, sizeof path, "%s/%s", content->folder->path, entry->name);
        PS_TRY(is_whole(pruning, path, &finding->good, &finding->names_set, error));
        finding->good &=
            !ps_recovery_is_superseded(&content->segments, entry->epoch, entry->position);
        if (entry->base[0] == '\0')
            continue;
        /* No younger than what adds to it, so that it was judged before; with the name of a younger
         * one it is not good yet, and the file neither counts nor goes. */
        const struct ps_catalog_entry *base = ps_catalog_find(catalog, entry->base);
        finding->good &= base != NULL && content->findings[base - catalog->entries].good;
    }
    return PS_OK;
}

/* From the newest on: the first `keep` good whole ones stay, and the published one, wherever it
 * stands; of those that add to another the first `keep` that are not behind all these. A file that
 * is damaged, or of an epoch that was overtaken, neither counts nor goes: no recovery begins with
 * it, and a salvage may want its whole tensors. */
static enum ps_status choose(struct pruning *pruning, struct folder_content *content,
                             struct ps_error *error)
{
    const struct shard_folder *folder = content->folder;
    const uint64_t keep = pruning->tool->options.keep;
    size_t whole_count = 0;
    size_t adding_count = 0;
    char published[37];
    struct ps_kept_sets kept;
    PS_TRY(published_uuid(&pruning->published, folder->job, folder->index, published, error));
    PS_TRY(find_kept(pruning, folder, &kept, error));
    for (size_t i = 0; i < content->catalog.count; i++) {
        const struct ps_catalog_entry *entry = &content->catalog.entries[i];
        struct finding *finding = &content->findings[i];
        /* Counted apart, as servers do: of those that add any number may be younger than the second
         * whole one, and one damaged base is the end of them all. */
        size_t *like_it = entry->base[0] == '\0' ? &whole_count : &adding_count;
        bool is_published = strcmp(published, entry->uuid) == 0;
        bool is_new = whole_count < keep && *like_it < keep;
        /* Where nobody is asked, a file that names a set may be one that somebody counts on. */
        bool is_of_set = published_asks(&pruning->published) ? ps_kept_sets_have(&kept, entry->uuid)
                                                             : finding->names_set;
        finding->stays = !finding->good || is_new || is_published || is_of_set;
        /* Whoever goes back to a set wants its instant, and no journal behind it. Of those that
         * stay for other reasons the journal behind them may be wanted. */
        finding->is_for_set_alone = is_of_set && !is_new && !is_published;
        *like_it += finding->good;
    }
    return PS_OK;
}

/* A base of what stays, also of a damaged file, for the sake of what a salvage can make of both.
 * The journal behind it stays as well: a recovery that finds damage in what adds begins with the
 * base. */
static void keep_bases(struct folder_content *content)
{
    const struct ps_catalog *catalog = &content->catalog;
    for (size_t i = 0; i < catalog->count; i++) {
        const struct ps_catalog_entry *entry = &catalog->entries[i];
        if (!content->findings[i].stays || entry->base[0] == '\0')
            continue;
        const struct ps_catalog_entry *base = ps_catalog_find(catalog, entry->base);
        if (base != NULL)
            content->findings[base - catalog->entries].stays = true;
    }
}

/* As servers keep them: by the rows of the shard in the store, of sets that are whole and of the
 * one under way. Without a store nothing is known here, and the files are asked. A store that is
 * asked and does not answer ends the command: nothing may be removed on a guess. */
static enum ps_status find_kept(struct pruning *pruning, const struct shard_folder *folder,
                                struct ps_kept_sets *kept, struct ps_error *error)
{
    struct ps_registry registry;
    /* A checkpoint's sets are those of its own job: names of sets are not unique among jobs. */
    kept->count = 0;
    if (!published_asks(&pruning->published))
        return PS_OK;
    PS_TRY(ps_registry_init(&registry, pruning->published.kv, folder->job, error));
    return ps_kept_sets_read(&registry, folder->index, pruning->tool->box.memory,
                             pruning->published.deadline_ms, kept, error);
}

/* Reading everything before removing anything is slow, and the point: an older file must not be
 * removed for the sake of a newer one that turns out damaged. A file that cannot be read fails the
 * command: nothing may be removed on a guess. */
static enum ps_status is_whole(const struct pruning *pruning, const char *path, bool *whole,
                               bool *names_set, struct ps_error *error)
{
    struct checkpoint_survey survey;
    PS_TRY(checkpoint_survey_init(&survey, &pruning->tool->box, path, true, error));
    *whole = survey.damage_count == 0;
    /* A damaged file neither counts nor goes, whatever it says. */
    *names_set = survey.has_header && survey.header.facts.set[0] != '\0';
    checkpoint_survey_fini(&survey);
    return PS_OK;
}

/* Only segments whose every position is at or before the oldest checkpoint that stays go, and never
 * the newest of the last epoch: ps_journal_sweep is what servers call, too. */
static enum ps_status prune_journal(struct pruning *pruning, const struct folder_content *content,
                                    uint64_t covered, struct ps_error *error)
{
    const struct psckpt *tool = pruning->tool;
    const struct ps_journal_segments *segments = &content->segments;
    if (segments->count == 0)
        return PS_OK;
    size_t removed = 0;
    PS_TRY(ps_journal_sweep(tool->box.files, content->folder->path,
                            segments->entries[segments->count - 1].epoch, covered,
                            PS_JOURNAL_REMOVE, tool->box.memory, &removed, error));
    pruning->segments += removed;
    return PS_OK;
}
