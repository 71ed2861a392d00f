/* SPDX-License-Identifier: Apache-2.0 */
/* Recovery: finds the newest whole checkpoint of a shard, fills the service from it, and replays
 * the journal behind it.
 *
 * Candidates are the files of the folder and the one that the pointer in the store names, newest
 * first (by epoch, then position). A damaged one is logged by name and the next older is tried;
 * once an older one was loaded, the damaged files of the folder are renamed to NAME.damaged, so
 * that they neither count among the checkpoints that are kept nor vanish.
 *
 * Former owners: a server that lost its shard may have written a checkpoint after the next owner
 * had begun. It is known by the journal: a segment of a higher epoch begins at or before its
 * position. Such a file is passed over and renamed to NAME.stale. Likewise records behind a
 * checkpoint that are of a lower epoch than it are a former owner's, and are not replayed.
 *
 * Nothing goes missing in silence. When the journal behind a checkpoint is damaged, has a gap, or
 * does not fit, older checkpoints are tried; one is taken only if with the journal it gives at
 * least what was known of the newer ones. Otherwise recovery ends with PS_ERR_CORRUPT, and the text
 * says where. The exception are epochs that ran without a journal, which the pointer says, or there
 * being no segment of them in the folder: when a checkpoint of such an epoch is damaged, the next
 * older one is taken, the loss is counted (ps_service_note_lost) and in ps_recovered. It is bounded
 * by the interval.
 *
 * The published checkpoint itself must be there, damaged or not, and so must the journal that its
 * pointer speaks of: a folder that is older than the pointer (a volume put back from a snapshot) is
 * served only if its journal leads to where the pointer is. Otherwise recovery ends with
 * PS_ERR_CORRUPT until an operator says that what is missing is given up: psckpt publish writes a
 * pointer to what is there, which says how far the shard had come; what is missing counts as lost.
 * What to do is logged by cause (recovery_verdict.h).
 *
 * What can be read of the journal need not be on the disk (checkpoint/journal.h): up to
 * ps_recovered.durable it is, by what checkpoint and records say. The journal of the next epoch
 * begins behind that and repeats the rest, so that nothing is answered on the ground of what a
 * power loss would take back.
 *
 * Threads:  none inside; run it before calls arrive.
 * Blocking: reads files.
 * Errors:   said at the function.
 * Memory:   given back before return, but for what the service loads.
 */
#ifndef PS_SERVER_CORE_RECOVERY_RUN_H
#define PS_SERVER_CORE_RECOVERY_RUN_H

#include "base/file.h"
#include "base/log.h"
#include "server/core/requests/service.h"

/* Who applies the records of the journal: a server spreads them over threads, by parameter. */
struct ps_replay_sink {
    /* Takes `row` on PS_OK; it may be applied later. Anything else ends the replay. */
    enum ps_status (*put)(void *self, struct ps_journal_row *row, struct ps_error *error);
    /* Called once behind the last put, also after a failure: when it returns, no record is being
     * applied any more. Gives the first failure of one that was put. */
    enum ps_status (*finish)(void *self, struct ps_error *error);
    void *self;
};

struct ps_recovery {
    struct ps_service *service; /* owns its shard, still STARTING */
    const struct ps_files *files;
    const char *folder;           /* of this shard's checkpoints and journal */
    struct ps_bytes pointer;      /* JSON of /checkpoints/<index>; empty: there is none */
    struct ps_journal_note noted; /* in the store; zeroed: nothing is */
    const struct ps_allocator *memory;
    const struct ps_log *log;          /* may be NULL */
    const struct ps_replay_sink *sink; /* NULL: each record is applied in this thread */
    const struct ps_crew *crew;        /* reads arrays; NULL: this thread does */
};

/* What was loaded. */
struct ps_recovered {
    struct ps_checkpoint_place place; /* crc32 and bytes only when the pointer said them */
    size_t damaged_count;             /* newer ones that could not be used */
    struct ps_history history;        /* of the shard; not known: no file says any */
    uint64_t missing_count;           /* pushes known of and lost: without a journal, or given up */
    uint64_t position;                /* of the state now: ps_recovery_finish is to be told */
    uint64_t durable; /* up to here it is known to be on the disk: the rest is to be repeated */
    uint64_t epoch;   /* of the last push in it: this epoch's journal goes on from that */
    uint64_t replayed_count; /* records, behind place.position up to position */
    uint64_t cut_bytes;      /* of a torn end of the journal, which no reply ever covered */
    uint64_t
        given_up_count; /* noted pushes behind the end of the journal, which an operator gave up */
    uint64_t load_ms;   /* how long the checkpoint took */
    uint64_t replay_ms; /* and the journal */
};

/* Loads, and tells the service where its newest checkpoint is.
 *
 * PS_OK               the service is RECOVERING; `*loaded` says from what. The caller opens this
 *                     epoch's journal behind recovered->position, then calls
 *                     ps_recovery_finish, or ps_service_give_up_recovery when it cannot
 * PS_ERR_NOT_FOUND    "checkpoint not found in etcd": nothing is there at all, or a journal of
 *                     which nothing was ever acknowledged; the service may begin empty
 * PS_ERR_CORRUPT      there are checkpoints, but none is whole; the text names them. Or the journal
 *                     is damaged; the text says in which segment, at which offset and position.
 *                     Or files of another history are among the shard's (recovery_history.h)
 * PS_ERR_UNSUPPORTED  the newest whole one is of another shard or number of shards, or a format is
 *                     newer than this program
 * PS_ERR_BUSY         it passes the memory limit
 * PS_ERR_NO_MEMORY
 * PS_ERR_IO           a checkpoint or the journal could not be read, or the folder not be listed:
 *                     nothing is said of what is in them, and it may be tried again
 * After any failure the service is STARTING, as empty as before.
 */
PS_MUST_USE enum ps_status ps_recovery_run(const struct ps_recovery *recovery,
                                           struct ps_recovered *recovered, struct ps_error *error);

#endif
