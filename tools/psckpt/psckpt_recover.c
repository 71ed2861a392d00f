/* replay and repair: a new folder with the state at a position, or with the last good one. */
#include "tools/psckpt/psckpt_commands.h"

#include "tools/psckpt/shard_folders.h"
#include "tools/psckpt/state_set.h"

#include <inttypes.h>
#include <stdio.h>

static enum ps_status check_out(const struct psckpt *tool, struct ps_error *error);
static enum ps_status repair(const struct psckpt *tool, const struct shard_folders *folders,
                             struct ps_error *error);
static void say_left_out(const struct shard_folder *folder, const struct recovery *recovery);

int psckpt_replay(const struct psckpt *tool)
{
    struct state_set set = {0};
    struct ps_error error = {0};
    uint64_t to;
    enum ps_status status = check_out(tool, &error);
    if (status == PS_OK && tool->options.to == NULL)
        status = ps_fail(&error, PS_ERR_BAD_INPUT, "replay needs --to POSITION");
    if (status == PS_OK)
        status = state_set_number(tool->options.to, RECOVERY_TO_END, &to, &error);
    if (status == PS_OK)
        status = state_set_load(&set, tool, tool->arguments[0], to, &error);
    if (status == PS_OK)
        status = state_set_write(&set, tool, tool->options.out, &error);
    state_set_fini(&set);
    return status == PS_OK ? 0 : psckpt_complain(status, &error);
}

static enum ps_status check_out(const struct psckpt *tool, struct ps_error *error)
{
    if (tool->options.out == NULL || tool->options.out[0] == '\0')
        return ps_fail(error, PS_ERR_BAD_INPUT, "where to? --out NEWDIR is missing");
    return PS_OK;
}

int psckpt_repair(const struct psckpt *tool)
{
    struct shard_folders folders = {0};
    struct ps_error error = {0};
    enum ps_status status = check_out(tool, &error);
    if (status == PS_OK)
        status =
            shard_folders_init(&folders, tool->files, tool->arguments[0], tool->memory, &error);
    if (status == PS_OK)
        status = repair(tool, &folders, &error);
    shard_folders_fini(&folders);
    return status == PS_OK ? 0 : psckpt_complain(status, &error);
}

/* Everything is loaded before anything is written: no half of a job comes out. */
static enum ps_status repair(const struct psckpt *tool, const struct shard_folders *folders,
                             struct ps_error *error)
{
    struct state_set set;
    const struct recovery_wish wish = {.files = tool->files,
                                       .memory = tool->memory,
                                       .progress = tool->progress,
                                       .to = RECOVERY_TO_END,
                                       .journal = tool->options.journal,
                                       .salvage = true};
    PS_TRY(state_set_make(&set, tool->memory, folders->count, error));
    enum ps_status status = PS_OK;
    for (size_t i = 0; i < folders->count && status == PS_OK; i++) {
        struct recovery recovery;
        status = recovery_load(&recovery, &wish, folders->rows[i].path, error);
        if (status != PS_OK)
            break;
        say_left_out(&folders->rows[i], &recovery);
        set.states[i] = recovery.state;
    }
    if (status == PS_OK)
        status = state_set_write(&set, tool, tool->options.out, error);
    state_set_fini(&set);
    return status;
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
