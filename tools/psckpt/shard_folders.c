/* Looks at most two levels down: DIR/shard-<i> and DIR/JOB/shard-<i>. */
#include "tools/psckpt/shard_folders.h"

#include "base/bounds.h"
#include "tools/psckpt/name_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "shard-"

static bool ends_with(const char *name, const char *suffix);
static bool read_index(const char *path, uint32_t *index);
static enum ps_status look_at(struct shard_folders *folders, const struct ps_files *files,
                              const char *path, const struct name_list *names,
                              struct ps_error *error);
static enum ps_status look_inside(struct shard_folders *folders, const struct ps_files *files,
                                  const char *path, const char *job, struct ps_error *error);
static enum ps_status add(struct shard_folders *folders, const char *path, const char *name,
                          const char *job, struct ps_error *error);
static int compare_folders(const void *a, const void *b);

enum ps_status shard_folders_init(struct shard_folders *folders, const struct ps_files *files,
                                  const char *path, const struct ps_allocator *memory,
                                  struct ps_error *error)
{
    *folders = (struct shard_folders){.memory = memory};
    struct name_list names = {0};
    PS_TRY(name_list_init(&names, files, path, memory, error));
    enum ps_status status = look_at(folders, files, path, &names, error);
    name_list_fini(&names);
    if (status == PS_OK && folders->count == 0)
        status = ps_fail(error, PS_ERR_NOT_FOUND,
                         "%s holds no checkpoint, no journal and no folder shard-<i>", path);
    if (status != PS_OK) {
        shard_folders_fini(folders);
        return status;
    }
    qsort(folders->rows, folders->count, sizeof *folders->rows, compare_folders);
    return PS_OK;
}

void shard_folders_fini(struct shard_folders *folders)
{
    if (folders->memory == NULL)
        return;
    ps_release(folders->memory, folders->rows);
    *folders = (struct shard_folders){0};
}

enum ps_status shard_folders_make(struct shard_folders *folders, const char *path,
                                  const struct ps_allocator *memory, struct ps_error *error)
{
    *folders = (struct shard_folders){.memory = memory};
    enum ps_status status = add(folders, path, NULL, "", error);
    if (status != PS_OK)
        shard_folders_fini(folders);
    return status;
}

enum ps_status shard_folders_choose(struct shard_folders *folders, const char *text,
                                    struct ps_error *error)
{
    char name[32];
    uint32_t index = 0;
    size_t count = 0;
    if (text == NULL)
        return PS_OK;
    int length = snprintf(name, sizeof name, PREFIX "%s", text);
    if (length < 0 || (size_t)length >= sizeof name || !read_index(name, &index))
        return ps_fail(error, PS_ERR_BAD_INPUT, "--shard %.60s: 0 to %d is wanted", text,
                       PS_SHARDS_MAX - 1);
    for (size_t i = 0; i < folders->count; i++)
        if (folders->rows[i].is_named && folders->rows[i].index == index)
            folders->rows[count++] = folders->rows[i];
    folders->count = count;
    if (count == 0)
        return ps_fail(error, PS_ERR_NOT_FOUND, "there is no folder " PREFIX "%" PRIu32, index);
    return PS_OK;
}

static enum ps_status look_at(struct shard_folders *folders, const struct ps_files *files,
                              const char *path, const struct name_list *names,
                              struct ps_error *error)
{
    uint32_t index = 0;
    bool is_shard = read_index(path, &index);
    for (size_t i = 0; i < names->count; i++)
        is_shard |=
            ends_with(names->names[i], ".safetensors") || ends_with(names->names[i], ".journal");
    if (is_shard)
        return add(folders, path, NULL, "", error);
    PS_TRY(look_inside(folders, files, path, "", error));
    for (size_t i = 0; i < names->count; i++) {
        char inner[SHARD_FOLDER_PATH_BYTES];
        int length = snprintf(inner, sizeof inner, "%s/%s", path, names->names[i]);
        if (length < 0 || (size_t)length >= sizeof inner || read_index(inner, &index))
            continue;
        PS_TRY(look_inside(folders, files, inner, names->names[i], error));
    }
    return PS_OK;
}

/* Adds every shard-<i> in `path`. What cannot be listed (a file, most of all) has none. */
static enum ps_status look_inside(struct shard_folders *folders, const struct ps_files *files,
                                  const char *path, const char *job, struct ps_error *error)
{
    struct name_list names = {0};
    enum ps_status status = name_list_init(&names, files, path, folders->memory, NULL);
    if (status == PS_ERR_NO_MEMORY)
        return ps_fail(error, status, "no memory for the names in %s", path);
    if (status != PS_OK)
        return PS_OK;
    for (size_t i = 0; i < names.count && status == PS_OK; i++) {
        uint32_t index;
        if (read_index(names.names[i], &index))
            status = add(folders, path, names.names[i], job, error);
    }
    name_list_fini(&names);
    return status;
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t size = strlen(name);
    size_t tail = strlen(suffix);
    return size > tail && strcmp(name + size - tail, suffix) == 0;
}

/* Is the last part of a path "shard-<index>"? */
static bool read_index(const char *path, uint32_t *index)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    if (strncmp(name, PREFIX, sizeof PREFIX - 1) != 0)
        return false;
    const char *digits = name + sizeof PREFIX - 1;
    size_t count = strspn(digits, "0123456789");
    if (count == 0 || count > 5 || digits[count] != '\0' || (count > 1 && digits[0] == '0'))
        return false;
    unsigned long value = strtoul(digits, NULL, 10);
    if (value >= PS_SHARDS_MAX)
        return false;
    *index = (uint32_t)value;
    return true;
}

static enum ps_status add(struct shard_folders *folders, const char *path, const char *name,
                          const char *job, struct ps_error *error)
{
    size_t count = folders->count;
    struct shard_folder *rows = ps_zeroed_array(folders->memory, count + 1, sizeof *rows);
    if (rows == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu folders", count + 1);
    if (count > 0)
        memcpy(rows, folders->rows, count * sizeof *rows);
    ps_release(folders->memory, folders->rows);
    folders->rows = rows;

    struct shard_folder *row = &rows[count];
    int length = snprintf(row->path, sizeof row->path, "%s%s%s", path, name == NULL ? "" : "/",
                          name == NULL ? "" : name);
    int job_length = snprintf(row->job, sizeof row->job, "%s", job);
    if (length < 0 || (size_t)length >= sizeof row->path || job_length < 0 ||
        (size_t)job_length >= sizeof row->job)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%.100s...: the path is too long", path);
    row->is_named = read_index(row->path, &row->index);
    folders->count++;
    return PS_OK;
}

static int compare_folders(const void *a, const void *b)
{
    const struct shard_folder *left = a;
    const struct shard_folder *right = b;
    int jobs = strcmp(left->job, right->job);
    if (jobs != 0)
        return jobs;
    return (left->index > right->index) - (left->index < right->index);
}
