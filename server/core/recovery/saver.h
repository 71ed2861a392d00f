/* SPDX-License-Identifier: Apache-2.0 */
/* Saves a checkpoint: snapshot, journal up to there, file, pointer in the store; and only then the
 * older files go, and the segments of the journal that no recovery needs any more.
 *
 * No checkpoint is ahead of its journal: the file is begun when every push in it is durable in the
 * journal. So when that file turns out to be damaged, the one before and the journal give the same
 * state. The one exception is a journal that has failed: then a checkpoint is all that can make
 * durable what was applied, and until the journal works again there is one checkpoint to go back
 * to.
 *
 * Threads:  one save of a shard at a time. The steps may run in different threads: write touches no
 *           store, publish touches the disk only to clean up.
 * Blocking: for the disk and, until the deadline, for the store. Begin and may_write never.
 * Errors:   said at the functions.
 * Memory:   given back before return.
 */
#ifndef PS_SERVER_CORE_SAVER_H
#define PS_SERVER_CORE_SAVER_H

#include "base/file.h"
#include "base/log.h"
#include "etcd/registry.h"
#include "server/core/recovery/increments.h"
#include "server/core/recovery/set_wish.h"
#include "server/core/recovery/snapshot.h"
#include "server/core/requests/service.h"

/* How many whole checkpoints stay: should the newest turn out to be damaged, the one before and the
 * journal behind it give the same state. */
#define PS_SAVER_KEEP 2

struct ps_saver {
    struct ps_service *service;
    const struct ps_files *files;
    const char *folder;           /* of this shard's checkpoints and journal */
    bool keeps_journal;           /* no segment is ever removed (for audits) */
    struct ps_registry *registry; /* NULL: nothing is published, the folder is all there is */
    const struct ps_claim *claim; /* of the shard; NULL only without a registry */
    uint64_t epoch; /* of the service under this claim (shard_epoch.h); 0: the claim's */
    const struct ps_allocator *memory;
    const struct ps_clock *clock;
    const struct ps_log *log; /* may be NULL */
    /* Called after every piece of the file, at most 1 MiB: may rest, so that pushes have the
     * processors and the memory meanwhile. NULL: the file is written in one go. */
    void (*rest)(void *self);
    void *rest_self;
    struct ps_write_behind *behind;   /* that writes the file meanwhile; NULL: none */
    struct ps_set_wish *wish;         /* which set is to be saved for; NULL: none ever is */
    struct ps_increments *increments; /* borrowed, and of one shard; its memory is the service's.
                                       * NULL: every checkpoint is whole */
};

/* A checkpoint that is not published yet. */
struct ps_saving {
    struct ps_snapshot snapshot; /* held from begin to write or give_up */
    struct ps_checkpoint_place place;
    struct ps_ticket ticket; /* what it satisfies once it is published */
    struct ps_set set;       /* that it is of; revision 0: none */
    char base[37];           /* of a written increment: what it adds to; "": it is whole */
    uint64_t start_ms;
};

/* Is there anything to save? When the checkpoint that was published last has the state as it is,
 * and its file is whole (it is read for that), it is published again, which puts back a pointer
 * that somebody removed, and satisfies the tickets. Without `publish` it is only looked at. For a
 * set another one is always written: its file names the set.
 *
 * Before all that a checkpoint whose publication has timed out is published again: another one may
 * only be written when it is known what became of it.
 *
 * PS_OK               nothing was to be saved
 * PS_ERR_TIMEOUT      what became of the one before is still not known: write none, try again
 * PS_ERR_NOT_FOUND    there is something new, or the file is damaged or gone: save
 * otherwise           as ps_saver_publish: nobody knows whether the pointer is there
 */
PS_MUST_USE enum ps_status ps_saver_reuse(const struct ps_saver *saver, bool publish,
                                          uint64_t deadline_ms, struct ps_error *error);

/* Takes a snapshot; end it with ps_saver_write or ps_saver_give_up.
 *
 * PS_ERR_NOT_READY    there is nothing to save
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_saver_begin(const struct ps_saver *saver, struct ps_saving *saving,
                                          struct ps_error *error);

/* Is the journal durable up to the snapshot?
 *
 * PS_OK               it is, or it has failed, or there is none: go on with ps_saver_write
 * PS_ERR_NOT_READY    not yet: ask again when the service's listener is told `changed`
 * PS_ERR_UNAVAILABLE  the shard was lost since the snapshot: give up
 */
PS_MUST_USE enum ps_status ps_saver_may_write(const struct ps_saver *saver,
                                              const struct ps_saving *saving,
                                              struct ps_error *error);

/* Lets go of the snapshot; there is no file. */
void ps_saver_give_up(struct ps_saving *saving);

/* Writes the snapshot and lets go of it: as an increment where that may be. What is for a set is
 * whole.
 *
 * PS_OK               the file is durable: go on with ps_saver_publish
 * PS_ERR_IO, PS_ERR_NO_MEMORY   there is no new file
 */
PS_MUST_USE enum ps_status ps_saver_write(const struct ps_saver *saver, struct ps_saving *saving,
                                          struct ps_error *error);

/* Publishes what was written, satisfies the tickets, and sweeps older files.
 *
 * PS_OK               saved
 * PS_ERR_STALE_EPOCH  the shard is no longer ours; the file stays: the new owner uses or sweeps it
 * otherwise           not published, or nobody knows; the file stays, no ticket is satisfied, and
 *                     the checkpoint published before stays as well
 */
PS_MUST_USE enum ps_status ps_saver_publish(const struct ps_saver *saver,
                                            const struct ps_saving *saving, uint64_t deadline_ms,
                                            struct ps_error *error);

/* All of it at once, for those who write the journal themselves: PS_ERR_NOT_READY also when that is
 * not durable up to here yet. */
PS_MUST_USE enum ps_status ps_saver_save(const struct ps_saver *saver, uint64_t deadline_ms,
                                         struct ps_checkpoint_place *place, struct ps_error *error);

#endif
