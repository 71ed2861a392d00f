/* Recovery: finds the newest whole checkpoint of a shard and fills the service from it.
 *
 * Candidates are the files of the folder and the one that the pointer in the store names, newest
 * first (by epoch, then position). A damaged one is logged by name and the next older is tried;
 * once an older one was loaded, the damaged files of the folder are renamed to NAME.damaged, so
 * that they neither count as generations to keep nor vanish.
 *
 * Threads:  none inside; run it before calls arrive.
 * Blocking: reads files.
 * Errors:   said at the function.
 * Memory:   given back before return, but for what the service loads.
 */
#ifndef PS_SERVER_CORE_LOADER_H
#define PS_SERVER_CORE_LOADER_H

#include "base/file.h"
#include "base/log.h"
#include "server/core/service.h"

struct ps_loader {
    struct ps_service *service; /* owns its shard, still STARTING */
    const struct ps_files *files;
    const char *folder;      /* of this shard's checkpoints */
    struct ps_bytes pointer; /* JSON of /checkpoints/<index>; empty: there is none */
    const struct ps_allocator *memory;
    const struct ps_log *log; /* may be NULL */
};

/* What was loaded. */
struct ps_loaded {
    struct ps_checkpoint_place place; /* crc32 and bytes only when the pointer said them */
    size_t damaged_count;             /* newer ones that could not be used */
    uint64_t position;                /* of the state now: begin_recovered is to be told */
};

/* Loads, and tells the service where its newest checkpoint is.
 *
 * PS_OK               the service is RECOVERING; `*loaded` says from what. The caller opens this
 *                     epoch's journal behind loaded->position, then calls
 *                     ps_service_begin_recovered, or ps_service_give_up_recovery when it cannot
 * PS_ERR_NOT_FOUND    "checkpoint not found in etcd": nothing is there at all; the service may
 *                     begin empty
 * PS_ERR_CORRUPT      there are checkpoints, but none is whole; the text names them
 * PS_ERR_UNSUPPORTED  the newest whole one is of another shard or number of shards
 * PS_ERR_BUSY         it passes the memory limit
 * PS_ERR_NO_MEMORY, PS_ERR_IO   the folder could not be listed
 */
PS_MUST_USE enum ps_status ps_loader_load(const struct ps_loader *loader, struct ps_loaded *loaded,
                                          struct ps_error *error);

#endif
