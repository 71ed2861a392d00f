/* SPDX-License-Identifier: Apache-2.0 */
/* Under which epoch a new owner writes.
 *
 * The epoch is the create revision of the ownership key, which rises for as long as the store
 * lives. A store that was made anew (an etcd whose data was lost, a deleted folder) begins again at
 * 1, while the shard's files still carry the old, higher numbers: the new owner's files would count
 * as older than those, and a later recovery would go back to them. So an owner whose claim is not
 * above every file adds the highest epoch of the files to it. Of two owners the later one has the
 * higher claim, and with it the higher epoch, whatever files there were.
 *
 * Threads:  pure but for the file system.
 * Blocking: listing the folder waits for the disk.
 * Errors:   those of the file system, and PS_ERR_NO_MEMORY.
 * Memory:   given back before return.
 */
#ifndef PS_SERVER_CORE_SHARD_EPOCH_H
#define PS_SERVER_CORE_SHARD_EPOCH_H

#include "base/alloc.h"
#include "base/file.h"
#include "base/status.h"

#include <stdint.h>

/* `claim_epoch` when every checkpoint and journal segment of `folder` is of a lower one; otherwise
 * that and the highest of theirs. A folder that is not there has no files. */
PS_MUST_USE enum ps_status ps_shard_epoch(const struct ps_files *files, const char *folder,
                                          uint64_t claim_epoch, const struct ps_allocator *memory,
                                          uint64_t *epoch, struct ps_error *error);

#endif
