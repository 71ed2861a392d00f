/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the folders of shards below a path: the path itself when it holds checkpoints or a journal,
 * or its shard-<i> folders, and those of its jobs (JOB/shard-<i>).
 *
 * Threads:  one.
 * Blocking: for the disk.
 * Errors:   PS_ERR_NOT_FOUND when nothing of the kind is there, those of the file system,
 *           PS_ERR_NO_MEMORY.
 * Memory:   owned until shard_folders_fini.
 */
#ifndef PS_TOOLS_SHARD_FOLDERS_H
#define PS_TOOLS_SHARD_FOLDERS_H

#include "tools/psckpt/toolbox.h"

#define SHARD_FOLDER_PATH_BYTES 900

struct shard_folder {
    char path[SHARD_FOLDER_PATH_BYTES];
    char job[128];  /* "" for none, or not known */
    bool is_named;  /* its name is shard-<index> */
    uint32_t index; /* by its name */
};

struct shard_folders {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct shard_folder *rows;         /* owned; sorted by job, then index */
    size_t count;
};

PS_MUST_USE enum ps_status shard_folders_init(struct shard_folders *folders,
                                              const struct toolbox *box, const char *path,
                                              struct ps_error *error);

/* Accepts a zeroed struct. */
void shard_folders_fini(struct shard_folders *folders);

/* One row, of `path` itself, whatever it is. */
PS_MUST_USE enum ps_status shard_folders_make(struct shard_folders *folders, const char *path,
                                              const struct ps_allocator *memory,
                                              struct ps_error *error);

/* Leaves only the folders of the shard that `text` (a number; NULL: all stay) names.
 *
 * PS_ERR_BAD_INPUT    it is not a number
 * PS_ERR_NOT_FOUND    there is no such folder
 */
PS_MUST_USE enum ps_status shard_folders_choose(struct shard_folders *folders, const char *text,
                                                struct ps_error *error);

#endif
