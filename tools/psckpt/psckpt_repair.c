/* repair: the last good state of every shard, in new folders or in the place of the old ones. */
#include "tools/psckpt/psckpt_commands.h"

#include "tools/psckpt/in_place.h"
#include "tools/psckpt/publication.h"
#include "tools/psckpt/shard_folders.h"

#include <inttypes.h>
#include <stdio.h>

static enum ps_status check_words(const struct psckpt *tool, struct ps_error *error);
static enum ps_status repair(const struct psckpt *tool, struct shard_folders *folders,
                             struct publication *publication, struct ps_error *error);
static enum ps_status load(const struct psckpt *tool, const struct shard_folders *folders,
                           struct state_set *set, struct ps_error *error);
static void say_left_out(const struct shard_folder *folder, const struct recovery *recovery);
static enum ps_status write_in_place(const struct psckpt *tool, const struct shard_folders *folders,
                                     struct state_set *set, struct publication *publication,
                                     struct ps_error *error);
static enum ps_status exchange(const struct psckpt *tool, const char *path,
                               struct shard_state *state, struct pointer_change *change,
                               struct ps_error *error);

int psckpt_repair(const struct psckpt *tool)
{
    struct shard_folders folders = {0};
    struct publication publication = {0};
    struct ps_error error = {0};
    const char *path = tool->arguments[0];
    enum ps_status status = check_words(tool, &error);
    if (status == PS_OK)
        status = shard_folders_init(&folders, tool->files, path, tool->memory, &error);
    if (status == PS_OK)
        status = shard_folders_choose(&folders, tool->options.shard, &error);
    if (status == PS_OK)
        status = publication_open(&publication, tool, path, tool->options.out, &error);
    if (status == PS_OK && tool->options.in_place)
        status = publication_needs_store(&publication, path, &error);
    if (status == PS_OK)
        status = repair(tool, &folders, &publication, &error);
    publication_close(&publication);
    shard_folders_fini(&folders);
    return status == PS_OK ? 0 : psckpt_complain(status, &error);
}

static enum ps_status check_words(const struct psckpt *tool, struct ps_error *error)
{
    if (tool->options.in_place && tool->options.out != NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--in-place or --out NEWDIR, not both");
    return tool->options.in_place ? PS_OK : psckpt_check_out(tool, error);
}

/* Everything is loaded before anything is written: no half of a job comes out. */
static enum ps_status repair(const struct psckpt *tool, struct shard_folders *folders,
                             struct publication *publication, struct ps_error *error)
{
    struct state_set set;
    PS_TRY(state_set_make(&set, tool->memory, folders->count, error));
    enum ps_status status = load(tool, folders, &set, error);
    if (status == PS_OK && publication->to != NULL)
        status = publication_plan(publication, &set, folders, error);
    if (status == PS_OK && tool->options.in_place)
        status = write_in_place(tool, folders, &set, publication, error);
    else if (status == PS_OK)
        status = publication_write(publication, tool, &set, error);
    state_set_fini(&set);
    return status;
}

static enum ps_status load(const struct psckpt *tool, const struct shard_folders *folders,
                           struct state_set *set, struct ps_error *error)
{
    const struct recovery_wish wish = {.files = tool->files,
                                       .memory = tool->memory,
                                       .progress = tool->progress,
                                       .to = RECOVERY_TO_END,
                                       .journal = tool->options.journal,
                                       .salvage = true};
    for (size_t i = 0; i < folders->count; i++) {
        struct recovery recovery;
        struct ps_error why = {0};
        enum ps_status status = recovery_load(&recovery, &wish, folders->rows[i].path, &why);
        if (status == PS_ERR_CORRUPT)
            return ps_fail(error, status, "%.190s; psckpt salvage takes every tensor that is whole",
                           why.text);
        if (status != PS_OK)
            return ps_fail(error, status, "%s", why.text);
        say_left_out(&folders->rows[i], &recovery);
        set->states[i] = recovery.state;
    }
    return PS_OK;
}

/* On standard error: with --output json, standard output belongs to the document. */
static void say_left_out(const struct shard_folder *folder, const struct recovery *recovery)
{
    (void)fprintf(stderr, "%s: %s and %" PRIu64 " records of the journal: position %" PRIu64 "\n",
                  folder->path, recovery->checkpoint, recovery->replayed,
                  recovery->state.facts.position);
    for (size_t i = 0; i < recovery->omission_count && i < RECOVERY_OMISSIONS_MAX; i++)
        (void)fprintf(stderr, "%s: left out: %s: %s\n", folder->path, recovery->omissions[i].what,
                      recovery->omissions[i].why);
    if (recovery->cut > 0)
        (void)fprintf(stderr, "%s: left out: a torn end of %" PRIu64 " bytes\n", folder->path,
                      recovery->cut);
}

static enum ps_status write_in_place(const struct psckpt *tool, const struct shard_folders *folders,
                                     struct state_set *set, struct publication *publication,
                                     struct ps_error *error)
{
    for (size_t i = 0; i < folders->count; i++)
        PS_TRY(exchange(tool, folders->rows[i].path, &set->states[i], &publication->changes[i],
                        error));
    return publication_make(publication, tool, true, error);
}

static enum ps_status exchange(const struct psckpt *tool, const char *path,
                               struct shard_state *state, struct pointer_change *change,
                               struct ps_error *error)
{
    char kept[SHARD_FOLDER_PATH_BYTES];
    struct ps_checkpoint_place place;
    char folder[SHARD_FOLDER_PATH_BYTES];
    PS_TRY(psckpt_from_root(path, folder, sizeof folder, error));
    PS_TRY(in_place_write(state, tool->files, folder, kept, &place, error));
    (void)fprintf(stderr, "%s: what was there is in %s\n", path, kept);
    place.journal = PS_CHECKPOINT_JOURNAL_NONE;
    pointer_change_set(change, &place, place.position);
    return PS_OK;
}
