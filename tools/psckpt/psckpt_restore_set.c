/* SPDX-License-Identifier: Apache-2.0 */
/* restore-set: all shards of a job go back to one set of the whole model. The folder of each shard
 * is exchanged for one that has the set's checkpoint and nothing else: a server begins with the
 * newest checkpoint that it finds, and with the journal behind that, so that neither may be there.
 * Then the pointers of all shards are replaced at once. Until then the old pointers name files that
 * were moved, and no server starts: a job of which half went back never runs. When the command is
 * broken off it is typed again: a folder that was exchanged has the file that is looked for.
 *
 * Sessions lie in the checkpoints, so that they go back as well: a request that was applied behind
 * the set's instant is not remembered, and its repeat is applied, once; one from before is. */
#include "tools/psckpt/psckpt_commands.h"

#include "etcd/registry_sets.h"
#include "tools/json_document.h"
#include "tools/psckpt/in_place.h"
#include "tools/psckpt/model_set.h"
#include "tools/psckpt/publication.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static enum ps_status restore(const struct psckpt *tool, const struct shard_folders *folders,
                              const struct model_set *set, struct publication *publication,
                              struct ps_error *error);
static enum ps_status read_facts(const struct psckpt *tool, const struct model_set *set,
                                 struct state_set *states, struct ps_error *error);
static enum ps_status exchange_all(const struct psckpt *tool, const struct shard_folders *folders,
                                   const struct model_set *set, struct publication *publication,
                                   struct ps_error *error);
static enum ps_status publish_all(const struct psckpt *tool, struct publication *publication,
                                  struct ps_error *error);

/* The store is needed: only there it is known which files are the set's, and that all of them are
 * there. With a job's etcd that is --etcd; without, the folder's own. */
enum ps_status psckpt_restore_set(const struct psckpt *tool, struct ps_error *error)
{
    struct shard_folders folders = {0};
    struct publication publication = {0};
    struct model_set set = {0};
    const char *path = tool->arguments[0];
    if (tool->options.set == NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "which set? --set NAME is missing");
    enum ps_status status = shard_folders_init(&folders, &tool->box, path, error);
    if (status == PS_OK)
        status = publication_open(&publication, tool, path, NULL, error);
    if (status == PS_OK)
        status = publication_needs_store(&publication, path, error);
    if (status == PS_OK)
        status = model_set_find(&set, tool, &publication.from, &folders, tool->options.set, error);
    if (status == PS_OK)
        status = restore(tool, &folders, &set, &publication, error);
    model_set_fini(&set);
    publication_close(&publication);
    shard_folders_fini(&folders);
    return status;
}

/* Everything that can refuse comes before the first folder is touched: a missing folder, a damaged
 * file, a server that owns a shard. What is left to fail behind that is the disk, and a server that
 * starts meanwhile, which the transaction refuses. */
static enum ps_status restore(const struct psckpt *tool, const struct shard_folders *folders,
                              const struct model_set *set, struct publication *publication,
                              struct ps_error *error)
{
    struct state_set states;
    if (folders->count != set->shard_count || set->shard_count > PS_SET_RESTORE_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "the set has %" PRIu32 " shards, and %zu folders are here: all are needed, "
                       "and %d at most can go back at once",
                       set->shard_count, folders->count, PS_SET_RESTORE_MAX);
    PS_TRY(state_set_make(&states, tool->box.memory, folders->count, error));
    enum ps_status status = read_facts(tool, set, &states, error);
    if (status == PS_OK)
        status = publication_plan(publication, &states, folders, error);
    if (status == PS_OK)
        status = exchange_all(tool, folders, set, publication, error);
    if (status == PS_OK)
        status = publish_all(tool, publication, error);
    state_set_fini(&states);
    return status;
}

/* Each file is read to its end: one that is damaged must be found while nothing has changed. The
 * rows of the folders are sorted by index, so that row i is shard i. */
static enum ps_status read_facts(const struct psckpt *tool, const struct model_set *set,
                                 struct state_set *states, struct ps_error *error)
{
    /* Large shards take minutes, which is why no server may wait for it: they are all stopped. */
    for (uint32_t i = 0; i < set->shard_count; i++) {
        struct ps_checkpoint_reader *reader = NULL;
        const char *path = set->places[i].path;
        PS_TRY(ps_checkpoint_verify(tool->box.files, path, tool->box.memory, error));
        PS_TRY(ps_checkpoint_open(tool->box.files, path, tool->box.memory, &reader, error));
        const struct ps_checkpoint_facts *facts = ps_checkpoint_reader_facts(reader);
        struct shard_state *state = &states->states[i];
        bool adds = facts->base[0] != '\0';
        bool fits = facts->index == i && facts->shard_count == set->shard_count &&
                    strcmp(facts->uuid, set->places[i].uuid) == 0;
        /* Only the facts go into the plan: values stay on the disk, however large they are. */
        struct ps_bytes job = shard_state_copy(state, ps_bytes_of_text(facts->job), error);
        state->facts = *facts;
        state->facts.job = job.data != NULL ? (const char *)job.data : "";
        state->facts.set = "";
        state->facts.base = "";
        state->facts.sessions = (struct ps_bytes){NULL, 0};
        ps_checkpoint_close(reader);
        if (job.data == NULL)
            return PS_ERR_NO_MEMORY;
        /* Servers write none for a set: copied without its base it would be nothing. */
        if (adds)
            return ps_fail(error, PS_ERR_CORRUPT,
                           "%.150s adds to another checkpoint, and a set's must be whole", path);
        if (!fits)
            return ps_fail(error, PS_ERR_CORRUPT, "%.200s is not shard %" PRIu32 " of the set",
                           path, i);
    }
    return PS_OK;
}

/* The uuid and the name stay, so that the rows of the set go on naming what they named, and the set
 * can be gone back to again. The new folder has no journal, and the pointer says so. */
static enum ps_status exchange_all(const struct psckpt *tool, const struct shard_folders *folders,
                                   const struct model_set *set, struct publication *publication,
                                   struct ps_error *error)
{
    for (uint32_t i = 0; i < set->shard_count; i++) {
        char folder[SHARD_FOLDER_PATH_BYTES];
        char kept[SHARD_FOLDER_PATH_BYTES];
        struct ps_checkpoint_place place = set->places[i];
        /* A folder is missing and another one is there twice, under two jobs' names. */
        if (folders->rows[i].index != i)
            return ps_fail(error, PS_ERR_NOT_FOUND, "no folder of shard %" PRIu32 " is here", i);
        PS_TRY(psckpt_from_root(folders->rows[i].path, folder, sizeof folder, error));
        PS_TRY(in_place_copy(&tool->box, folder, kept, &place, error));
        (void)fprintf(stderr, "%s: what was there is in %s\n", folders->rows[i].path, kept);
        place.journal = PS_CHECKPOINT_JOURNAL_NONE;
        pointer_change_set(&publication->changes[i], &place, place.position);
    }
    return PS_OK;
}

/* As publication_make, but for the last step, which is one for all. The folders are told what is
 * given up before that: a pointer whose folder still claims the missing pushes would have the
 * server refuse them as damage. */
static enum ps_status publish_all(const struct psckpt *tool, struct publication *publication,
                                  struct ps_error *error)
{
    struct json_document page;
    struct ps_checkpoint_place *places =
        ps_zeroed_array(tool->box.memory, publication->count, sizeof *places);
    if (places == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the pointers");
    /* Said before it is made, as everywhere; the document is printed when it is done. */
    json_document_init(&page);
    ps_json_begin_array(&page.json, NULL);
    enum ps_status status = PS_OK;
    for (size_t i = 0; i < publication->count && status == PS_OK; i++) {
        places[i] = publication->changes[i].place;
        pointer_change_say(&publication->changes[i], tool->json ? &page.json : NULL, stdout);
        status = pointer_change_note(&publication->changes[i], error);
    }
    ps_json_end_array(&page.json);
    if (status == PS_OK)
        status = published_restore(publication->to, publication->changes[0].job, tool->options.set,
                                   places, publication->count, error);
    if (status == PS_OK && tool->json)
        json_document_print(&page);
    json_document_fini(&page);
    ps_release(tool->box.memory, places);
    return status;
}
