/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoints a folder holds, which one to load, and which ones may go.
 *
 * Threads:  pure but for the file system.
 * Blocking: file calls wait for the disk.
 * Errors:   those of the file system; files that are not checkpoints are passed over.
 * Memory:   a catalog owns its entries until ps_catalog_fini.
 */
#ifndef PS_CHECKPOINT_CATALOG_H
#define PS_CHECKPOINT_CATALOG_H

#include "base/buffer.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_name.h"

struct ps_catalog_entry {
    char name[PS_CHECKPOINT_NAME_BYTES]; /* of the file within the folder */
    char uuid[37];
    char base[37]; /* of the whole checkpoint that this one adds to; "": it is whole itself */
    uint64_t epoch;
    uint64_t position;
};

struct ps_catalog {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct ps_catalog_entry *entries;  /* owned; newest first: by epoch, then position */
    size_t count;
};

struct ps_catalog_uuid {
    char text[37];
};

/* Lists the checkpoints of a folder by their names, newest first. A folder that is not there gives
 * an empty catalog and PS_OK. */
PS_MUST_USE enum ps_status ps_catalog_init(struct ps_catalog *catalog, const struct ps_files *files,
                                           const char *folder, const struct ps_allocator *memory,
                                           struct ps_error *error);
void ps_catalog_fini(struct ps_catalog *catalog);

/* The checkpoint of that uuid, borrowed from the catalog; NULL: there is none. */
const struct ps_catalog_entry *ps_catalog_find(const struct ps_catalog *catalog, const char *uuid);

/* Removes what is older than the newest `keep` whole checkpoints (2 or more), and of those that add
 * to another all but the newest `keep`; never `published_uuid`, nor the base of one that stays; and
 * temporary files older than that one (a newer one may be in the making). Of the checkpoints of
 * `own_epoch` that would go one is kept as a spare (checkpoint_spare.h), and one that the sweep
 * before has kept goes, unless the published one adds to another (then the next whole one has still
 * to take it); own_epoch 0: none is kept, and none goes. Checkpoints of former owners,
 * when a later one has begun with no more (or its journal has), are counted apart, and as many of
 * them stay at most. To be called only after the newest one was published. The folder belongs to
 * one shard: names do not tell shards apart. `*removed` counts, the spare as well. A file that
 * cannot be removed is left and makes the result PS_ERR_IO after the others were tried; one that is
 * gone already is neither. */
PS_MUST_USE enum ps_status ps_catalog_sweep(const struct ps_files *files, const char *folder,
                                            size_t keep, const char *published_uuid,
                                            uint64_t own_epoch, const struct ps_allocator *memory,
                                            size_t *removed, struct ps_error *error);

/* The same, and the checkpoints `kept` stay as well, whatever their age: those of sets. */
PS_MUST_USE enum ps_status
ps_catalog_sweep_but(const struct ps_files *files, const char *folder, size_t keep,
                     const char *published_uuid, uint64_t own_epoch,
                     const struct ps_catalog_uuid *kept, size_t kept_count,
                     const struct ps_allocator *memory, size_t *removed, struct ps_error *error);

/* The JSON of /checkpoints/<i>: uuid, path, crc32, timestamp (the old system's, numbers as it wrote
 * them), and position, epoch, bytes (strings of digits); where they are known, history (a uuid),
 * journal (a boolean) and reached (digits). */
void ps_catalog_pointer_write(const struct ps_checkpoint_place *place, struct ps_buffer *json);

/* PS_ERR_CORRUPT when `json` is not such a document. Unknown members are ignored; position, epoch,
 * bytes and reached may be missing (0), and history and journal, too. A timestamp as a number has
 * the precision of a double. */
PS_MUST_USE enum ps_status ps_catalog_pointer_read(struct ps_bytes json,
                                                   const struct ps_allocator *memory,
                                                   struct ps_checkpoint_place *place,
                                                   struct ps_error *error);

#endif
