/* SPDX-License-Identifier: Apache-2.0 */
/* Folders made by mkdtemp and removed by a walk from the leaves up. */
#include "tests/support/temp_folder.h"

#include "base/assert.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

void temp_folder_init(struct temp_folder *folder)
{
    const char *parent = getenv("TMPDIR");
    int length = snprintf(folder->path, sizeof folder->path, "%s/pserver-test-XXXXXX",
                          parent != NULL && parent[0] != '\0' ? parent : "/tmp");
    PS_ASSERT(length > 0 && (size_t)length < sizeof folder->path);
    char *made = mkdtemp(folder->path);
    PS_ASSERT(made != NULL);
}

static int remove_entry(const char *path, const struct stat *facts, int kind, struct FTW *position)
{
    (void)facts;
    (void)kind;
    (void)position;
    return remove(path);
}

void temp_folder_fini(struct temp_folder *folder)
{
    (void)nftw(folder->path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

char *temp_folder_path(const struct temp_folder *folder, const char *name, char *path,
                       unsigned long capacity)
{
    int length = snprintf(path, capacity, "%s/%s", folder->path, name);
    PS_ASSERT(length > 0 && (size_t)length < capacity);
    return path;
}
