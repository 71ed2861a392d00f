/* salvage: a new folder with every tensor that is whole, and what the journal has behind it. */
#include "tools/psckpt/psckpt_commands.h"

#include "tools/psckpt/publication.h"
#include "tools/psckpt/salvage.h"
#include "tools/psckpt/session_summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static enum ps_status find_folders(const struct psckpt *tool, struct shard_folders *folders,
                                   bool *is_folder, struct ps_error *error);
static enum ps_status salvage_all(const struct psckpt *tool, const struct shard_folders *folders,
                                  bool is_folder, struct publication *publication,
                                  size_t *left_out_count, struct ps_error *error);
static enum ps_status salvage_one(const struct psckpt *tool, const char *path, bool is_folder,
                                  struct shard_state *state, size_t *left_out_count,
                                  struct ps_error *error);
static enum ps_status go_on(const struct psckpt *tool, const char *folder,
                            const struct salvage *salvage, struct shard_state *state,
                            struct ps_error *error);

int psckpt_salvage(const struct psckpt *tool)
{
    struct shard_folders folders = {0};
    struct publication publication = {0};
    struct ps_error error = {0};
    size_t left_out_count = 0;
    bool is_folder = false;
    enum ps_status status = psckpt_check_out(tool, &error);
    if (status == PS_OK)
        status = find_folders(tool, &folders, &is_folder, &error);
    if (status == PS_OK && is_folder)
        status =
            publication_open(&publication, tool, tool->arguments[0], tool->options.out, &error);
    if (status == PS_OK)
        status = salvage_all(tool, &folders, is_folder, &publication, &left_out_count, &error);
    publication_close(&publication);
    shard_folders_fini(&folders);
    if (status != PS_OK)
        return psckpt_complain(status, &error);
    return left_out_count > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* One file is as a folder with nothing else in it. */
static enum ps_status find_folders(const struct psckpt *tool, struct shard_folders *folders,
                                   bool *is_folder, struct ps_error *error)
{
    const char *path = tool->arguments[0];
    *is_folder = psckpt_is_folder(tool, path);
    if (!*is_folder)
        return shard_folders_make(folders, path, tool->memory, error);
    PS_TRY(shard_folders_init(folders, tool->files, path, tool->memory, error));
    return shard_folders_choose(folders, tool->options.shard, error);
}

static enum ps_status salvage_all(const struct psckpt *tool, const struct shard_folders *folders,
                                  bool is_folder, struct publication *publication,
                                  size_t *left_out_count, struct ps_error *error)
{
    struct state_set set;
    PS_TRY(state_set_make(&set, tool->memory, folders->count, error));
    enum ps_status status = PS_OK;
    for (size_t i = 0; i < folders->count && status == PS_OK; i++)
        status = salvage_one(tool, folders->rows[i].path, is_folder, &set.states[i], left_out_count,
                             error);
    if (status == PS_OK && publication->to != NULL)
        status = publication_plan(publication, &set, folders, error);
    if (status == PS_OK)
        status = publication_write(publication, tool, &set, error);
    state_set_fini(&set);
    return status;
}

static enum ps_status salvage_one(const struct psckpt *tool, const char *path, bool is_folder,
                                  struct shard_state *state, size_t *left_out_count,
                                  struct ps_error *error)
{
    const struct salvage_wish wish = {
        .files = tool->files, .memory = tool->memory, .progress = tool->progress, .report = stderr};
    struct salvage salvage;
    PS_TRY(salvage_load(&salvage, &wish, path, error));
    *left_out_count += salvage.parameter_count - salvage.taken_count;
    if (is_folder && tool->options.journal) {
        enum ps_status status = go_on(tool, path, &salvage, state, error);
        shard_state_fini(&salvage.state);
        PS_TRY(status);
    } else {
        *state = salvage.state;
    }
    if (salvage.is_mixed && state->facts.position < salvage.newest) {
        (void)fprintf(
            stderr,
            "%s: the journal does not go on to position %" PRIu64
            ": parameters are of different instants, and all clients begin new sessions\n",
            path, salvage.newest);
        state->facts.position = salvage.newest;
        PS_TRY(session_summary_forget(state, error));
    }
    (void)fprintf(stderr, "%s: %zu of %zu parameters, position %" PRIu64 "\n", path,
                  salvage.taken_count, salvage.parameter_count, state->facts.position);
    return PS_OK;
}

/* The journal is applied by the service, which reads its state from a file. */
static enum ps_status go_on(const struct psckpt *tool, const char *folder,
                            const struct salvage *salvage, struct shard_state *state,
                            struct ps_error *error)
{
    char beside[SHARD_FOLDER_PATH_BYTES];
    struct ps_checkpoint_place place;
    struct shard_state written = salvage->state;
    struct recovery recovery;
    int length = snprintf(beside, sizeof beside, "%s.salvaged", tool->options.out);
    if (length < 0 || (size_t)length >= sizeof beside)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%.100s...: the path is too long",
                       tool->options.out);
    PS_TRY(shard_state_write(&written, tool->files, beside, &place, error));
    const struct recovery_wish wish = {.files = tool->files,
                                       .memory = tool->memory,
                                       .progress = tool->progress,
                                       .to = RECOVERY_TO_END,
                                       .journal = true,
                                       .salvage = true,
                                       .checkpoint = place.path};
    enum ps_status status = recovery_load(&recovery, &wish, folder, error);
    (void)tool->files->remove(tool->files->self, place.path, NULL);
    (void)rmdir(beside);
    if (status != PS_OK)
        return status;
    for (size_t i = 0; i < recovery.omission_count && i < RECOVERY_OMISSIONS_MAX; i++)
        (void)fprintf(stderr, "%s: left out: %s: %s\n", folder, recovery.omissions[i].what,
                      recovery.omissions[i].why);
    *state = recovery.state;
    return PS_OK;
}
