/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the notes of how far the journal is durable (checkpoint/journal_note.h): one in the shard's
 * folder, one in the store.
 *
 * At a pace, not per push. The first push after a quiet time is noted at once; while pushes go on,
 * every PS_NOTE_FOLDER_MS in the folder and every PS_NOTE_STORE_MS in the store; and what came
 * last is noted when that time is over. So of what was acknowledged no more than one such time is
 * ever not covered. The store's is the longer one, since each write stays in its history until that
 * is compacted.
 *
 * Threads:  one at a time.
 * Blocking: a turn, for the disk (no sync) and up to PS_NOTE_STORE_TIMEOUT_MS for the store.
 * Errors:   none: a note that cannot be put is tried again after the same time; the first failure
 *           of a row is logged.
 * Memory:   fixed size.
 */
#ifndef PS_SERVER_CORE_NOTE_WRITER_H
#define PS_SERVER_CORE_NOTE_WRITER_H

#include "base/log.h"
#include "checkpoint/journal_segments.h"
#include "etcd/registry.h"
#include "server/core/requests/service.h"

#define PS_NOTE_FOLDER_MS 1000
#define PS_NOTE_STORE_MS 30000
#define PS_NOTE_STORE_TIMEOUT_MS 2000

/* One place where notes go. */
struct ps_note_place {
    struct ps_journal_note noted; /* the last one that is there, of this epoch */
    uint64_t due_ms;              /* not before that */
    bool failed;                  /* the last try */
};

/* Fill in the first part; the rest zeroed. */
struct ps_note_writer {
    struct ps_service *service;
    const struct ps_files *files;
    struct ps_registry *registry; /* NULL: no note in the store */
    const struct ps_clock *clock;
    const struct ps_log *log; /* may be NULL */

    uint64_t epoch; /* of the service under the claim; 0: nothing is noted */
    struct ps_claim claim;
    char path[PS_JOURNAL_PATH_BYTES]; /* of the shard's folder */
    struct ps_note_place folder;
    struct ps_note_place store;
};

/* The journal of `epoch` has begun in `folder`. What was noted before is left alone until the first
 * note of this epoch is there, and says nothing any more then: it is removed. */
void ps_note_writer_begin(struct ps_note_writer *writer, const char *folder,
                          const struct ps_claim *claim, uint64_t epoch);

/* Puts what is due. Returns when the next turn is due: PS_DEADLINE_NEVER when all is noted, which
 * holds until the service says that something changed. */
uint64_t ps_note_writer_turn(struct ps_note_writer *writer);

#endif
