/* SPDX-License-Identifier: Apache-2.0 */
/* Files of several histories in one folder, as verify says it. Each of them may be whole, so that
 * nothing else finds it; a server ends with 65 before it loads any. */
#include "tools/psckpt/psckpt_verify.h"

#include "checkpoint/history_survey.h"
#include "tools/psckpt/published.h"
#include "tools/psckpt/shard_folders.h"

#include <stdio.h>

static void ask_store(const struct psckpt *tool, const struct shard_folder *folder,
                      struct ps_checkpoint_place *place);
static void report(struct verifying *verifying, const struct shard_folder *folder,
                   const struct ps_history_survey *survey, size_t i);

/* The store is asked only where it is needed: verify is for folders that nobody serves as well, and
 * beside a server at work. */
enum ps_status psckpt_verify_histories(struct verifying *verifying,
                                       const struct shard_folder *folder, struct ps_error *error)
{
    const struct psckpt *tool = verifying->tool;
    struct ps_checkpoint_place published = {.uuid = ""};
    struct ps_history_survey survey;
    PS_TRY(ps_history_survey_init(&survey, tool->box.files, folder->path, &published,
                                  tool->box.memory, error));
    if (survey.mixed_count > 0) {
        ask_store(tool, folder, &published);
        ps_history_survey_fini(&survey);
        PS_TRY(ps_history_survey_init(&survey, tool->box.files, folder->path, &published,
                                      tool->box.memory, error));
    }
    /* File by file, since they are to be moved one by one. */
    for (size_t i = 0; i < survey.count; i++)
        report(verifying, folder, &survey, i);
    verifying->is_mixed |= survey.mixed_count > 0;
    ps_history_survey_fini(&survey);
    return PS_OK;
}

/* A store that does not answer leaves the place as it was: both sides are shown then. */
static void ask_store(const struct psckpt *tool, const struct shard_folder *folder,
                      struct ps_checkpoint_place *place)
{
    struct published published = {0};
    struct published_options wish = psckpt_store_wish(tool, tool->arguments[0]);
    struct ps_checkpoint_place found = {.uuid = ""};
    wish.only_pointers = true;
    if (published_open(&published, &wish, tool->box.memory, NULL) == PS_OK &&
        published_place(&published, folder->job, folder->index, &found, NULL) == PS_OK)
        *place = found;
    published_close(&published);
}

/* Where the store has told, the strangers; where nobody has, every file that says a history, since
 * the newest may be the one that was put there. */
static void report(struct verifying *verifying, const struct shard_folder *folder,
                   const struct ps_history_survey *survey, size_t i)
{
    bool mixed = ps_history_survey_place(survey, i) == PS_HISTORY_MIXED;
    char path[SHARD_FOLDER_PATH_BYTES + PS_CHECKPOINT_NAME_BYTES + 1];
    char history[PS_UUID_BYTES];
    char own[PS_UUID_BYTES];
    char why[160];
    ps_history_write(&survey->files[i].history, history);
    ps_history_write(&survey->own, own);
    if (survey->mixed_count == 0 || history[0] == '\0' || (survey->is_told && !mixed))
        return;
    if (survey->is_told)
        (void)snprintf(why, sizeof why, "of history %s, and the shard is of %s", history, own);
    else
        (void)snprintf(why, sizeof why,
                       "of history %s; others here are of another, and no store says whose the "
                       "shard is",
                       history);
    (void)snprintf(path, sizeof path, "%s/%s", folder->path, survey->names[i].text);
    verifying->damaged_count++;
    psckpt_verify_add(verifying, path, "history", why);
    if (!verifying->tool->json)
        (void)printf("mixed     %s: %s\n", path, why);
}
