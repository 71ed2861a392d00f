/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint is as large as what it is loaded into, but for the header. The largest shard is
 * taken, since a spare does not know which one it will get; what is made ready and not needed goes
 * back to the system. */
#include "server/forecast.h"

#include "base/assert.h"
#include "checkpoint/catalog.h"

#include <stdio.h>
#include <string.h>

/* Longest path that is looked at. */
#define PATH_BYTES 4352

struct look {
    const struct ps_files *files;
    const char *folder;
    const struct ps_allocator *memory;
    uint64_t bytes; /* the largest so far */
};

static void look_at_shard(void *context, const char *name);
static uint64_t newest_bytes(const struct look *look, const char *folder);
static uint64_t file_bytes(const struct ps_files *files, const char *path);

/* A folder that cannot be listed is a server that begins cold, and no reason not to begin. */
uint64_t ps_forecast_bytes(const struct ps_files *files, const char *folder,
                           const struct ps_allocator *memory)
{
    PS_ASSERT(folder != NULL);
    struct look look = {.files = files, .folder = folder, .memory = memory};
    if (files->list(files->self, folder, look_at_shard, &look, NULL) != PS_OK)
        return 0;
    return look.bytes;
}

/* Only names are looked at here: a folder with another name is not a shard's. */
static void look_at_shard(void *context, const char *name)
{
    PS_ASSERT(context != NULL && name != NULL);
    struct look *look = context;
    char folder[PATH_BYTES];
    int length = snprintf(folder, sizeof folder, "%s/%s", look->folder, name);
    /* A path that does not fit is passed over: a forecast that is too low costs time only. */
    if (strncmp(name, "shard-", 6) != 0 || length < 0 || (size_t)length >= sizeof folder)
        return;
    uint64_t bytes = newest_bytes(look, folder);
    look->bytes = bytes > look->bytes ? bytes : look->bytes;
}

/* The newest is what recovery tries first. */
static uint64_t newest_bytes(const struct look *look, const char *folder)
{
    PS_ASSERT(look->memory != NULL);
    struct ps_catalog catalog = {0};
    uint64_t bytes = 0;
    if (ps_catalog_init(&catalog, look->files, folder, look->memory, NULL) != PS_OK)
        return 0;
    char path[PATH_BYTES + sizeof catalog.entries[0].name];
    /* Newest first. */
    if (catalog.count > 0) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, catalog.entries[0].name);
        bytes = file_bytes(look->files, path);
    }
    ps_catalog_fini(&catalog);
    return bytes;
}

/* The size of the file, which is not opened further: this runs while the server waits for its
 * shard, and must not warm the page cache with a checkpoint that another server may load. */
static uint64_t file_bytes(const struct ps_files *files, const char *path)
{
    PS_ASSERT(path != NULL);
    struct ps_file file;
    uint64_t bytes = 0;
    if (files->open(files->self, path, PS_FILE_READ, &file, NULL) != PS_OK)
        return 0;
    if (files->size(files->self, file, &bytes, NULL) != PS_OK)
        bytes = 0;
    files->close(files->self, file);
    return bytes;
}
