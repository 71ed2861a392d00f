/* SPDX-License-Identifier: Apache-2.0 */
/* A shard's folder is exchanged for a new one that holds one checkpoint; the old one stays beside
 * it, under another name.
 *
 * Threads:  one.
 * Blocking: for the disk.
 * Errors:   those of the disk.
 * Memory:   in place.
 */
#ifndef PS_TOOLS_IN_PLACE_H
#define PS_TOOLS_IN_PLACE_H

#include "tools/psckpt/shard_folders.h"
#include "tools/psckpt/shard_state.h"

/* Writes `state` into FOLDER.new, renames FOLDER to FOLDER.before-<n>, the lowest n that is free,
 * and FOLDER.new to FOLDER. No server may use it.
 *
 * folder              a path from the root, without a slash at its end
 * kept                where the old one is now
 *
 * PS_OK               `*place` says where the checkpoint is; all of it is durable
 * PS_ERR_EXISTS       FOLDER.new holds something, of a repair that was broken off
 * otherwise           FOLDER is as it was, or, when the second renaming failed, at `kept`
 */
PS_MUST_USE enum ps_status in_place_write(struct shard_state *state, const struct ps_files *files,
                                          const char *folder, char kept[SHARD_FOLDER_PATH_BYTES],
                                          struct ps_checkpoint_place *place,
                                          struct ps_error *error);

/* The same with the checkpoint that `place` names, as it is: FOLDER.new gets a copy under the same
 * name. `place` is brought up to date: path, bytes and the checksum of the copy. */
PS_MUST_USE enum ps_status in_place_copy(const struct toolbox *box, const char *folder,
                                         char kept[SHARD_FOLDER_PATH_BYTES],
                                         struct ps_checkpoint_place *place, struct ps_error *error);

#endif
