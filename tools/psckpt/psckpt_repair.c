/* SPDX-License-Identifier: Apache-2.0 */
/* repair: the last good state of every shard, in new folders or in the place of the old ones. The
 * last good state is the newest whole checkpoint and as much of the journal behind it as is whole.
 * With --out it goes into a new folder and nothing old is touched; with --in-place the shard's
 * folder is exchanged for the new one, and the old one stays beside it. The pushes that are given
 * up by going back are named before it happens, from the pointers and the notes in the store. */
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

/* In place a store is needed: the pointer names a file that the exchange moves away, so without a
 * change of it no server would start. One shard alone may be repaired with --shard; the others keep
 * their folders and pointers. */
enum ps_status psckpt_repair(const struct psckpt *tool, struct ps_error *error)
{
    struct shard_folders folders = {0};
    struct publication publication = {0};
    const char *path = tool->arguments[0];
    PS_TRY(check_words(tool, error));
    enum ps_status status = shard_folders_init(&folders, &tool->box, path, error);
    if (status == PS_OK)
        status = shard_folders_choose(&folders, tool->options.shard, error);
    if (status == PS_OK)
        status = publication_open(&publication, tool, path, tool->options.out, error);
    if (status == PS_OK && tool->options.in_place)
        status = publication_needs_store(&publication, path, error);
    if (status == PS_OK)
        status = repair(tool, &folders, &publication, error);
    publication_close(&publication);
    shard_folders_fini(&folders);
    return status;
}

/* The two ways are opposites in what they do to the old folder; one of them by accident would be
 * bad. */
static enum ps_status check_words(const struct psckpt *tool, struct ps_error *error)
{
    if (tool->options.in_place && tool->options.out != NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--in-place or --out NEWDIR, not both");
    return tool->options.in_place ? PS_OK : psckpt_check_out(tool, error);
}

/* Everything is loaded before anything is written: no half of a job comes out. The plan is made
 * between the two, when all positions are known and nothing was changed; a server that owns one of
 * the shards ends the command there. */
static enum ps_status repair(const struct psckpt *tool, struct shard_folders *folders,
                             struct publication *publication, struct ps_error *error)
{
    struct state_set set;
    PS_TRY(state_set_make(&set, tool->box.memory, folders->count, error));
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

/* Damage that no checkpoint survives ends here, with the name of the command that still may help.
 * The journal is taken as far as it is whole (`salvage`), unlike in a server, which refuses to
 * start at damage. */
static enum ps_status load(const struct psckpt *tool, const struct shard_folders *folders,
                           struct state_set *set, struct ps_error *error)
{
    const struct recovery_wish wish = {.box = &tool->box,
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

/* All of this goes to standard error: with --output json, standard output belongs to the
 * document. */
static void say_left_out(const struct shard_folder *folder, const struct recovery *recovery)
{
    (void)fprintf(stderr, "%s: %s and %" PRIu64 " records of the journal: position %" PRIu64 "\n",
                  folder->path, recovery->checkpoint, recovery->replayed,
                  recovery->state.facts.position);
    recovery_say_left_out(recovery, folder->path);
    if (recovery->cut > 0)
        (void)fprintf(stderr, "%s: left out: a torn end of %" PRIu64 " bytes\n", folder->path,
                      recovery->cut);
}

/* The folders are exchanged first and the pointers changed afterwards. Between the two the pointer
 * names a file that was moved away, so a server that starts then refuses, which is safe. A failure
 * at the second shard leaves the first exchanged, with its old folder beside it; what was there is
 * not lost in any case. */
static enum ps_status write_in_place(const struct psckpt *tool, const struct shard_folders *folders,
                                     struct state_set *set, struct publication *publication,
                                     struct ps_error *error)
{
    for (size_t i = 0; i < folders->count; i++)
        PS_TRY(exchange(tool, folders->rows[i].path, &set->states[i], &publication->changes[i],
                        error));
    return publication_make(publication, tool, true, error);
}

/* The new folder has no journal, and the pointer says so: what the old journal had is in the state.
 * The path is made absolute first, because it is published. */
static enum ps_status exchange(const struct psckpt *tool, const char *path,
                               struct shard_state *state, struct pointer_change *change,
                               struct ps_error *error)
{
    char kept[SHARD_FOLDER_PATH_BYTES];
    struct ps_checkpoint_place place;
    char folder[SHARD_FOLDER_PATH_BYTES];
    PS_TRY(psckpt_from_root(path, folder, sizeof folder, error));
    PS_TRY(in_place_write(state, tool->box.files, folder, kept, &place, error));
    (void)fprintf(stderr, "%s: what was there is in %s\n", path, kept);
    place.journal = PS_CHECKPOINT_JOURNAL_NONE;
    pointer_change_set(change, &place, place.position);
    return PS_OK;
}
