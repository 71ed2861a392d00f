/* Saves one checkpoint: snapshot, file, pointer in the store, and only then the older files, and
 * the segments of the journal that no recovery needs any more.
 *
 * Threads:  one save of a shard at a time. The two halves may run in different threads: write
 *           touches no store, publish touches the disk only to clean up.
 * Blocking: for the disk and, until the deadline, for the store.
 * Errors:   said at the functions.
 * Memory:   given back before return.
 */
#ifndef PS_SERVER_CORE_SAVER_H
#define PS_SERVER_CORE_SAVER_H

#include "base/file.h"
#include "base/log.h"
#include "etcd/registry.h"
#include "server/core/service.h"

/* How many generations stay. */
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
};

/* A checkpoint that is on the disk and not published yet. */
struct ps_saving {
    struct ps_checkpoint_place place;
    struct ps_ticket ticket; /* what it satisfies once it is published */
    uint64_t start_unix_ns;
};

/* Takes a snapshot and writes it.
 *
 * PS_OK               the file is durable: go on with ps_saver_publish
 * PS_ERR_NOT_READY    there is nothing to save
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

/* Both. */
PS_MUST_USE enum ps_status ps_saver_save(const struct ps_saver *saver, uint64_t deadline_ms,
                                         struct ps_checkpoint_place *place, struct ps_error *error);

#endif
