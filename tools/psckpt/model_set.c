/* SPDX-License-Identifier: Apache-2.0 */
/* Rows say which file of each shard is the set's, and a mark that all of them are there. A folder
 * that was copied has the files and no store: each file names its set, so that a copy of a whole
 * set is as good, and what is missing shows by the number of shards. */
#include "tools/psckpt/model_set.h"

#include "checkpoint/catalog.h"
#include "etcd/registry_sets.h"
#include "tools/psckpt/paths.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static enum ps_status find_in_store(struct model_set *set, struct published *published,
                                    const struct shard_folders *folders, const char *name,
                                    struct ps_error *error);
static enum ps_status find_in_files(struct model_set *set, const struct psckpt *tool,
                                    const struct shard_folders *folders, const char *name,
                                    struct ps_error *error);
static enum ps_status find_in_folder(struct model_set *set, const struct psckpt *tool,
                                     const struct shard_folder *folder, const char *name,
                                     struct ps_error *error);

/* A name that is none is refused before anything is read: it becomes a key. */
enum ps_status model_set_find(struct model_set *set, const struct psckpt *tool,
                              struct published *published, const struct shard_folders *folders,
                              const char *name, struct ps_error *error)
{
    *set = (struct model_set){.memory = tool->box.memory};
    PS_TRY(ps_set_name_check(name, error));
    /* One job: two of them may each have a set of this name. */
    for (size_t i = 0; i < folders->count; i++)
        if (!folders->rows[i].is_named || strcmp(folders->rows[i].job, folders->rows[0].job) != 0)
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "a set is of all shards of one job: name the folder that has its "
                           "shard-<i> folders, and no other job's");
    if (published_asks(published))
        return find_in_store(set, published, folders, name, error);
    return find_in_files(set, tool, folders, name, error);
}

/* What was found on the way of a failure is released as well. */
void model_set_fini(struct model_set *set)
{
    if (set->memory != NULL)
        ps_release(set->memory, set->places);
    *set = (struct model_set){0};
}

/* The number of shards is the set's own: the folders that are here may be fewer. */
static enum ps_status make_places(struct model_set *set, uint32_t shard_count,
                                  struct ps_error *error)
{
    set->shard_count = shard_count;
    set->places = ps_zeroed_array(set->memory, shard_count, sizeof *set->places);
    return set->places != NULL
               ? PS_OK
               : ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %" PRIu32 " shards", shard_count);
}

/* The folder of the shard comes first: the row's path is as its server saw the disk, on another
 * machine or in a container. Should the file lie elsewhere, the row's own path is tried later. A
 * row of a shard beyond the set's number is nobody's. */
static enum ps_status place_of_row(struct model_set *set, const struct ps_kv_entry *row,
                                   const struct shard_folders *folders, struct ps_error *error)
{
    uint32_t index = 0;
    struct ps_checkpoint_place place;
    char path[sizeof place.path];
    if (!ps_set_row_index(row, set->shard_count, &index))
        return PS_OK;
    PS_TRY(ps_catalog_pointer_read((struct ps_bytes){row->value, row->value_size}, set->memory,
                                   &place, error));
    for (size_t i = 0; i < folders->count; i++) {
        if (folders->rows[i].index != index)
            continue;
        PS_TRY(path_write(path, sizeof path, error, folders->rows[i].path, "%s/%s",
                          folders->rows[i].path, path_name(place.path)));
        /* Swept, or never copied here: the row's own path stays. */
        if (!path_is_free(ps_files_real(), path))
            memcpy(place.path, path, sizeof path);
    }
    set->places[index] = place;
    return PS_OK;
}

/* The mark is read before the rows: a set that is taken away in between lacks rows, and is refused
 * by the count. */
static enum ps_status find_in_store(struct model_set *set, struct published *published,
                                    const struct shard_folders *folders, const char *name,
                                    struct ps_error *error)
{
    struct ps_registry registry;
    struct ps_set mark;
    struct ps_kv_entries rows;
    uint64_t until_ms = published->deadline_ms;
    PS_TRY(ps_registry_init(&registry, published->kv, folders->rows[0].job, error));
    PS_TRY(ps_registry_whole_set(&registry, name, until_ms, &mark, error));
    PS_TRY(ps_registry_set_rows(&registry, name, until_ms, &rows, error));
    enum ps_status status = PS_OK;
    /* Under way, given up, or swept: each has rows at most. */
    if (mark.revision == 0)
        status = ps_fail(error, PS_ERR_NOT_FOUND, "set %s is not whole: %zu shards are there", name,
                         rows.count);
    if (status == PS_OK)
        status = make_places(set, mark.shard_count, error);
    for (size_t i = 0; i < rows.count && status == PS_OK; i++)
        status = place_of_row(set, &rows.entries[i], folders, error);
    ps_kv_entries_release(&rows);
    for (uint32_t i = 0; i < set->shard_count && status == PS_OK; i++)
        if (set->places[i].uuid[0] == '\0')
            status =
                ps_fail(error, PS_ERR_NOT_FOUND, "set %s has no row of shard %" PRIu32, name, i);
    return status;
}

/* Whether the set was ever whole no file knows; that every shard has a file of it is as much as can
 * be said, and it is said that this is all. */
static enum ps_status find_in_files(struct model_set *set, const struct psckpt *tool,
                                    const struct shard_folders *folders, const char *name,
                                    struct ps_error *error)
{
    /* Said, because the answer is worth less than the store's. */
    (void)fprintf(stderr, "psckpt: no store is asked: set %s by what its files say\n", name);
    for (size_t i = 0; i < folders->count; i++)
        PS_TRY(find_in_folder(set, tool, &folders->rows[i], name, error));
    if (set->places == NULL)
        return ps_fail(error, PS_ERR_NOT_FOUND, "no file names set %s", name);
    for (uint32_t i = 0; i < set->shard_count; i++)
        if (set->places[i].path[0] == '\0')
            return ps_fail(error, PS_ERR_NOT_FOUND,
                           "set %s is not whole here: no file of shard %" PRIu32 " of %" PRIu32
                           " names it",
                           name, i, set->shard_count);
    return PS_OK;
}

/* Headers alone are read, of a few files. Newest first: a shard that was saved twice for the set
 * has two files that name it, and each is of an instant behind the asking; the newer is the one
 * whose owner put the row, but for a crash right before that. */
static enum ps_status find_in_folder(struct model_set *set, const struct psckpt *tool,
                                     const struct shard_folder *folder, const char *name,
                                     struct ps_error *error)
{
    struct ps_catalog catalog;
    PS_TRY(ps_catalog_init(&catalog, tool->box.files, folder->path, tool->box.memory, error));
    enum ps_status status = PS_OK;
    bool is_found = false;
    for (size_t i = 0; i < catalog.count && status == PS_OK && !is_found; i++) {
        struct ps_checkpoint_reader *reader = NULL;
        char path[SHARD_FOLDER_PATH_BYTES + sizeof catalog.entries[i].name + 1];
        (void)snprintf(path, sizeof path, "%s/%s", folder->path, catalog.entries[i].name);
        /* A damaged header may have been this set's: then the shard is missing, which is said. */
        if (ps_checkpoint_open(tool->box.files, path, tool->box.memory, &reader, NULL) != PS_OK)
            continue;
        /* The file's own index counts, and not the folder's name. */
        const struct ps_checkpoint_facts *facts = ps_checkpoint_reader_facts(reader);
        is_found = strcmp(facts->set, name) == 0;
        if (is_found && set->places == NULL)
            status = make_places(set, facts->shard_count, error);
        is_found = is_found && status == PS_OK && facts->index < set->shard_count;
        if (is_found)
            status = path_write(set->places[facts->index].path, sizeof set->places->path, error,
                                path, "%s", path);
        ps_checkpoint_close(reader);
    }
    ps_catalog_fini(&catalog);
    return status;
}

/* Each file is read with every checksum; the journals are not looked at, since what lies behind a
 * checkpoint in one of them is of no common asking. */
enum ps_status model_set_load(struct state_set *states, const struct psckpt *tool, const char *path,
                              struct ps_error *error)
{
    /* The caller may release it whatever comes. */
    *states = (struct state_set){0};
    struct shard_folders folders = {0};
    struct published published = {0};
    struct model_set set = {0};
    /* --etcd, or the store of the folder itself, or nobody. */
    struct published_options wish = psckpt_store_wish(tool, path);
    wish.only_asks = true;
    enum ps_status status = shard_folders_init(&folders, &tool->box, path, error);
    if (status == PS_OK)
        status = published_open(&published, &wish, tool->box.memory, error);
    if (status == PS_OK)
        status = model_set_find(&set, tool, &published, &folders, tool->options.set, error);
    if (status == PS_OK)
        status = state_set_make(states, tool->box.memory, set.shard_count, error);
    /* In the order of the shards, in which the ranges of cut parameters are joined. */
    for (uint32_t i = 0; i < set.shard_count && status == PS_OK; i++)
        status = shard_state_read(&states->states[i], &tool->box, set.places[i].path, error);
    if (status != PS_OK)
        state_set_fini(states);
    model_set_fini(&set);
    published_close(&published);
    shard_folders_fini(&folders);
    return status;
}
