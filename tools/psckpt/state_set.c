/* SPDX-License-Identifier: Apache-2.0 */
/* From a path to states, and from states to a new data folder. Most commands do three things before
 * and after their own work, which are here: find the shards below a path, recover each in the way
 * of a server, and write states as a data folder that servers accept. Files that were passed over
 * on the way are named, because a command that silently worked on less would be believed. */
#include "tools/psckpt/state_set.h"

#include "tools/json_document.h"
#include "tools/psckpt/paths.h"
#include "tools/psckpt/shard_folders.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static enum ps_status load_folders(struct state_set *set, const struct psckpt *tool,
                                   const struct shard_folders *folders, uint64_t to,
                                   struct ps_error *error);
static void say_omissions(const struct shard_folder *folder, const struct recovery *recovery);
static enum ps_status shard_path(const char *folder, const struct ps_checkpoint_facts *facts,
                                 char path[SHARD_FOLDER_PATH_BYTES], struct ps_error *error);
static void say_place(const struct psckpt *tool, struct ps_json_writer *json,
                      const struct ps_checkpoint_place *place);

/* A file alone has no journal and no neighbours; it is read as it is. The set is zeroed first: it
 * may be released whatever happened. */
enum ps_status state_set_load(struct state_set *set, const struct psckpt *tool, const char *path,
                              uint64_t to, struct ps_error *error)
{
    *set = (struct state_set){0};
    struct shard_folders folders = {0};
    enum ps_status status = PS_OK;
    if (path_is_folder(tool->box.files, path)) {
        status = shard_folders_init(&folders, &tool->box, path, error);
        if (status == PS_OK)
            status = load_folders(set, tool, &folders, to, error);
        shard_folders_fini(&folders);
    } else if (to != RECOVERY_TO_END) {
        status = ps_fail(error, PS_ERR_BAD_INPUT, "--to needs a folder: %.150s is one file", path);
    } else {
        status = state_set_make(set, tool->box.memory, 1, error);
        if (status == PS_OK)
            status = shard_state_read(&set->states[0], &tool->box, path, error);
    }
    if (status != PS_OK)
        state_set_fini(set);
    return status;
}

/* Each position belongs to one shard, so one number for several shards names no instant of the job.
 * Each recovered state moves into the set with its service and its rooms; a failure later releases
 * them all. --no-journal gives the checkpoints alone, which is what a backup without its journal
 * would bring back. */
static enum ps_status load_folders(struct state_set *set, const struct psckpt *tool,
                                   const struct shard_folders *folders, uint64_t to,
                                   struct ps_error *error)
{
    if (to != RECOVERY_TO_END && folders->count > 1)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--to is a position of one shard: name one of the %zu folders shard-<i>",
                       folders->count);
    PS_TRY(state_set_make(set, tool->box.memory, folders->count, error));
    const struct recovery_wish wish = {
        .box = &tool->box, .to = to, .journal = tool->options.journal};
    for (size_t i = 0; i < folders->count; i++) {
        struct recovery recovery;
        PS_TRY(recovery_load(&recovery, &wish, folders->rows[i].path, error));
        say_omissions(&folders->rows[i], &recovery);
        set->states[i] = recovery.state;
    }
    return PS_OK;
}

/* Damaged files that were passed over do not fail the command, since a server would pass over them,
 * too; but somebody should look at the disk. The torn end of a journal is normal after a crash and
 * is said all the same: its bytes were never acknowledged, and somebody may wonder about them. */
static void say_omissions(const struct shard_folder *folder, const struct recovery *recovery)
{
    for (size_t i = 0; i < recovery->omission_count && i < RECOVERY_OMISSIONS_MAX; i++)
        (void)fprintf(stderr, "psckpt: passed over %s in %s: %s\n", recovery->omissions[i].what,
                      folder->path, recovery->omissions[i].why);
    if (recovery->cut > 0)
        (void)fprintf(stderr, "psckpt: %s: a torn end of %" PRIu64 " bytes was left out\n",
                      folder->path, recovery->cut);
}

/* Every state is initialised at once, so that fini is right after a failure in the middle. Zero
 * shards make an empty set, which is released like any other. */
enum ps_status state_set_make(struct state_set *set, const struct ps_allocator *memory,
                              size_t count, struct ps_error *error)
{
    *set = (struct state_set){.memory = memory, .count = count};
    set->states = ps_zeroed_array(memory, count, sizeof *set->states);
    if (set->states == NULL) {
        *set = (struct state_set){0};
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu shards", count);
    }
    for (size_t i = 0; i < count; i++)
        shard_state_init(&set->states[i], memory);
    return PS_OK;
}

/* Accepts what a failed load left. */
void state_set_fini(struct state_set *set)
{
    if (set->memory == NULL)
        return;
    for (size_t i = 0; i < set->count; i++)
        shard_state_fini(&set->states[i]);
    ps_release(set->memory, set->states);
    *set = (struct state_set){0};
}

/* Every folder is looked at before anything is written into one. Every folder is looked at before
 * anything is written into one: a shard that exists already is found before the first of a hundred
 * others was written. Shards written before a failure stay: each shard is whole in itself, and the
 * message says which folder failed. A second run refuses the folders that exist, so they have to be
 * removed first. --output json prints one document when all shards are written. */
enum ps_status state_set_write(struct state_set *set, const struct psckpt *tool, const char *folder,
                               struct ps_error *error)
{
    char path[SHARD_FOLDER_PATH_BYTES];
    for (size_t i = 0; i < set->count; i++) {
        PS_TRY(shard_path(folder, &set->states[i].facts, path, error));
        PS_TRY(shard_state_check_unused(tool->box.files, path, set->memory, error));
    }
    struct json_document document;
    enum ps_status status = PS_OK;
    json_document_init(&document);
    ps_json_begin_array(&document.json, NULL);
    for (size_t i = 0; i < set->count && status == PS_OK; i++) {
        /* The place is printed as it was written; the operator copies it into scripts. */
        struct ps_checkpoint_place place;
        status = shard_path(folder, &set->states[i].facts, path, error);
        if (status == PS_OK)
            status = shard_state_write(&set->states[i], tool->box.files, path, &place, error);
        if (status == PS_OK)
            say_place(tool, &document.json, &place);
    }
    ps_json_end_array(&document.json);
    if (tool->json && status == PS_OK)
        json_document_print(&document);
    json_document_fini(&document);
    return status;
}

/* As a server names them. The layout is a server's: DIR/shard-<i> for a job without a name,
 * DIR/JOB/shard-<i> otherwise. A server started with --data-dir DIR finds it there. A job's name is
 * part of the path, so that jobs can share a data folder. */
static enum ps_status shard_path(const char *folder, const struct ps_checkpoint_facts *facts,
                                 char path[SHARD_FOLDER_PATH_BYTES], struct ps_error *error)
{
    return path_write(path, SHARD_FOLDER_PATH_BYTES, error, folder, "%s%s%s/shard-%" PRIu32, folder,
                      facts->job[0] == '\0' ? "" : "/", facts->job, facts->index);
}

/* One line or one object per shard, in the order of the shards. The path is as it was given, not as
 * servers publish it. */
static void say_place(const struct psckpt *tool, struct ps_json_writer *json,
                      const struct ps_checkpoint_place *place)
{
    ps_json_begin_object(json, NULL);
    json_text(json, "path", place->path);
    ps_json_uint(json, "epoch", place->epoch);
    ps_json_uint(json, "position", place->position);
    ps_json_uint(json, "bytes", place->bytes);
    ps_json_end_object(json);
    if (!tool->json)
        (void)printf("wrote %s, position %" PRIu64 ", %" PRIu64 " bytes\n", place->path,
                     place->position, place->bytes);
}

/* strtoull alone takes signs, blanks and overflow; a position that was misread by one digit gives a
 * state of another day, so only digits are taken. The highest number is kept for "no position was
 * given", so it cannot be asked for. */
enum ps_status state_set_number(const char *text, uint64_t fallback, uint64_t *number,
                                struct ps_error *error)
{
    *number = fallback;
    if (text == NULL)
        return PS_OK;
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || text[0] < '0' || text[0] > '9' || *end != '\0' || value == UINT64_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--to %.60s: a whole number is wanted", text);
    *number = value;
    return PS_OK;
}

/* The bound is the one that servers and clients have. */
enum ps_status state_set_shards(const char *text, uint32_t *count, struct ps_error *error)
{
    uint64_t number = 0;
    PS_TRY(state_set_number(text, 0, &number, error));
    if (number == 0 || number > PS_SHARDS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--to %" PRIu64 ": 1 to %d shards go", number,
                       PS_SHARDS_MAX);
    *count = (uint32_t)number;
    return PS_OK;
}
