/* From a path to states, and from states to a new data folder. */
#include "tools/psckpt/state_set.h"

#include "tools/json_document.h"
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

enum ps_status state_set_load(struct state_set *set, const struct psckpt *tool, const char *path,
                              uint64_t to, struct ps_error *error)
{
    *set = (struct state_set){0};
    struct shard_folders folders = {0};
    enum ps_status status = PS_OK;
    if (psckpt_is_folder(tool, path)) {
        status = shard_folders_init(&folders, tool->files, path, tool->memory, error);
        if (status == PS_OK)
            status = load_folders(set, tool, &folders, to, error);
        shard_folders_fini(&folders);
    } else if (to != RECOVERY_TO_END) {
        status = ps_fail(error, PS_ERR_BAD_INPUT, "--to needs a folder: %.150s is one file", path);
    } else {
        status = state_set_make(set, tool->memory, 1, error);
        if (status == PS_OK)
            status = shard_state_read(&set->states[0], tool->files, path, tool->progress, error);
    }
    if (status != PS_OK)
        state_set_fini(set);
    return status;
}

static enum ps_status load_folders(struct state_set *set, const struct psckpt *tool,
                                   const struct shard_folders *folders, uint64_t to,
                                   struct ps_error *error)
{
    if (to != RECOVERY_TO_END && folders->count > 1)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--to is a position of one shard: name one of the %zu folders shard-<i>",
                       folders->count);
    PS_TRY(state_set_make(set, tool->memory, folders->count, error));
    const struct recovery_wish wish = {.files = tool->files,
                                       .memory = tool->memory,
                                       .progress = tool->progress,
                                       .to = to,
                                       .journal = tool->options.journal};
    for (size_t i = 0; i < folders->count; i++) {
        struct recovery recovery;
        PS_TRY(recovery_load(&recovery, &wish, folders->rows[i].path, error));
        say_omissions(&folders->rows[i], &recovery);
        set->states[i] = recovery.state;
    }
    return PS_OK;
}

static void say_omissions(const struct shard_folder *folder, const struct recovery *recovery)
{
    for (size_t i = 0; i < recovery->omission_count && i < RECOVERY_OMISSIONS_MAX; i++)
        (void)fprintf(stderr, "psckpt: passed over %s in %s: %s\n", recovery->omissions[i].what,
                      folder->path, recovery->omissions[i].why);
    if (recovery->cut > 0)
        (void)fprintf(stderr, "psckpt: %s: a torn end of %" PRIu64 " bytes was left out\n",
                      folder->path, recovery->cut);
}

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

void state_set_fini(struct state_set *set)
{
    if (set->memory == NULL)
        return;
    for (size_t i = 0; i < set->count; i++)
        shard_state_fini(&set->states[i]);
    ps_release(set->memory, set->states);
    *set = (struct state_set){0};
}

/* Every folder is looked at before anything is written into one. */
enum ps_status state_set_write(struct state_set *set, const struct psckpt *tool, const char *folder,
                               struct ps_error *error)
{
    char path[SHARD_FOLDER_PATH_BYTES];
    for (size_t i = 0; i < set->count; i++) {
        PS_TRY(shard_path(folder, &set->states[i].facts, path, error));
        PS_TRY(shard_state_check_unused(tool->files, path, set->memory, error));
    }
    struct json_document document;
    enum ps_status status = PS_OK;
    json_document_init(&document);
    ps_json_begin_array(&document.json, NULL);
    for (size_t i = 0; i < set->count && status == PS_OK; i++) {
        struct ps_checkpoint_place place;
        status = shard_path(folder, &set->states[i].facts, path, error);
        if (status == PS_OK)
            status = shard_state_write(&set->states[i], tool->files, path, &place, error);
        if (status == PS_OK)
            say_place(tool, &document.json, &place);
    }
    ps_json_end_array(&document.json);
    if (tool->json && status == PS_OK)
        json_document_print(&document);
    json_document_fini(&document);
    return status;
}

/* As a server names them. */
static enum ps_status shard_path(const char *folder, const struct ps_checkpoint_facts *facts,
                                 char path[SHARD_FOLDER_PATH_BYTES], struct ps_error *error)
{
    int length = snprintf(path, SHARD_FOLDER_PATH_BYTES, "%s%s%s/shard-%" PRIu32, folder,
                          facts->job[0] == '\0' ? "" : "/", facts->job, facts->index);
    if (length < 0 || length >= SHARD_FOLDER_PATH_BYTES)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%.100s...: the path is too long", folder);
    return PS_OK;
}

static void say_place(const struct psckpt *tool, struct ps_json_writer *json,
                      const struct ps_checkpoint_place *place)
{
    ps_json_begin_object(json, NULL);
    ps_json_text(json, "path", ps_bytes_of_text(place->path));
    ps_json_uint(json, "epoch", place->epoch);
    ps_json_uint(json, "position", place->position);
    ps_json_uint(json, "bytes", place->bytes);
    ps_json_end_object(json);
    if (!tool->json)
        (void)printf("wrote %s, position %" PRIu64 ", %" PRIu64 " bytes\n", place->path,
                     place->position, place->bytes);
}

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
