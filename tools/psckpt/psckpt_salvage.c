/* SPDX-License-Identifier: Apache-2.0 */
/* salvage: a new folder with every tensor that is whole, and what the journal has behind it. The
 * last resort, when repair finds no checkpoint that is whole: tensors are taken one by one from
 * whatever files still have them. The result may be a state that no moment ever had, so everything
 * that is missing or of another age is said on standard error, and the exit status is 1 when
 * anything was left out. */
#include "tools/psckpt/psckpt_commands.h"

#include "tools/psckpt/paths.h"
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

/* A single file is not published anywhere: it may come from a backup, and nothing says that its
 * shard has no newer state. */
enum ps_status psckpt_salvage(const struct psckpt *tool, struct ps_error *error)
{
    struct shard_folders folders = {0};
    struct publication publication = {0};
    size_t left_out_count = 0;
    bool is_folder = false;
    PS_TRY(psckpt_check_out(tool, error));
    enum ps_status status = find_folders(tool, &folders, &is_folder, error);
    if (status == PS_OK && is_folder)
        status = publication_open(&publication, tool, tool->arguments[0], tool->options.out, error);
    if (status == PS_OK)
        status = salvage_all(tool, &folders, is_folder, &publication, &left_out_count, error);
    publication_close(&publication);
    shard_folders_fini(&folders);
    *tool->code = left_out_count > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
    return status;
}

/* One file is as a folder with nothing else in it; --shard has no meaning for it then. */
static enum ps_status find_folders(const struct psckpt *tool, struct shard_folders *folders,
                                   bool *is_folder, struct ps_error *error)
{
    const char *path = tool->arguments[0];
    *is_folder = path_is_folder(tool->box.files, path);
    if (!*is_folder)
        return shard_folders_make(folders, path, tool->box.memory, error);
    PS_TRY(shard_folders_init(folders, &tool->box, path, error));
    return shard_folders_choose(folders, tool->options.shard, error);
}

/* Everything is salvaged before anything is written, as in repair: an operator who interrupts the
 * command finds no half of a job. --shard chooses one shard, and then only its pointer is
 * changed. */
static enum ps_status salvage_all(const struct psckpt *tool, const struct shard_folders *folders,
                                  bool is_folder, struct publication *publication,
                                  size_t *left_out_count, struct ps_error *error)
{
    struct state_set set;
    PS_TRY(state_set_make(&set, tool->box.memory, folders->count, error));
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

/* The order matters. First the tensors, then the journal behind the oldest of them, and only then
 * the question whether all have come to the same instant. A state that is still mixed gets the
 * highest position that any of its tensors had, so that versions which clients have seen are never
 * given out again, and its clients begin new sessions: whether a request was applied can be said of
 * the state as a whole no more. */
static enum ps_status salvage_one(const struct psckpt *tool, const char *path, bool is_folder,
                                  struct shard_state *state, size_t *left_out_count,
                                  struct ps_error *error)
{
    const struct salvage_wish wish = {.box = &tool->box, .report = stderr};
    struct salvage salvage;
    PS_TRY(salvage_load(&salvage, &wish, path, error));
    /* Parameters whose optimizer begins anew are taken, so they do not count here; each has its
     * line in the report. */
    *left_out_count += salvage.parameter_count - salvage.taken_count;
    /* For one file alone there is no journal to go on with. */
    if (is_folder && tool->options.journal) {
        enum ps_status status = go_on(tool, path, &salvage, state, error);
        if (status == PS_OK)
            salvage_end(&salvage, state);
        shard_state_fini(&salvage.state);
        PS_TRY(status);
    } else {
        salvage_end(&salvage, &salvage.state);
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

/* The journal is applied by the service, which reads its state from a file. The service can be
 * filled only from a file, since that is how servers begin; so the salvaged state is written beside
 * the new folder for a moment and removed again. Records that a tensor already contains are passed
 * over one by one, by version. */
static enum ps_status go_on(const struct psckpt *tool, const char *folder,
                            const struct salvage *salvage, struct shard_state *state,
                            struct ps_error *error)
{
    char beside[SHARD_FOLDER_PATH_BYTES];
    struct ps_checkpoint_place place;
    struct shard_state written = salvage->state;
    struct recovery recovery;
    const struct ps_files *files = tool->box.files;
    PS_TRY(path_write(beside, sizeof beside, error, tool->options.out, "%s.salvaged",
                      tool->options.out));
    PS_TRY(shard_state_write(&written, files, beside, &place, error));
    const struct recovery_wish wish = {.box = &tool->box,
                                       .to = RECOVERY_TO_END,
                                       .journal = true,
                                       .salvage = true,
                                       .checkpoint = place.path};
    enum ps_status status = recovery_load(&recovery, &wish, folder, error);
    /* The temporary folder goes in any case. Its removal may fail without harm: a second try
     * refuses to write into it, and says so. */
    (void)files->remove(files->self, place.path, NULL);
    (void)rmdir(beside);
    if (status != PS_OK)
        return status;
    recovery_say_left_out(&recovery, folder);
    *state = recovery.state;
    return PS_OK;
}
