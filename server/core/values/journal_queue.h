/* SPDX-License-Identifier: Apache-2.0 */
/* Where pushes get their positions, and where they wait for the journal.
 *
 * A push takes its place under its parameter's lock, when nothing can fail any more and before the
 * arithmetic: so the order of positions is, for each parameter, the order in which gradients were
 * applied. Without a journal only the number is given out.
 *
 * What is durable: a push is, when its record is in the journal AND there is a checkpoint that
 * recovery can begin with. Before the first checkpoint of a shard is saved nothing is.
 *
 * How far behind: a push that is answered before its record is written (ACK_MEMORY) is not refused
 * when the disk is slower than the pushes, but answered later: while more than half of bytes_max
 * waits (`lags`), each waits until that is less, or until its own record is written. So everybody
 * waits about as long as one write takes. Refused is only what finds the whole of it full.
 *
 * Threads:  every function is safe from any thread, but for init and fini.
 * Blocking: never.
 * Errors:   said at each function.
 * Memory:   bounded by bytes_max and one record more, and by PS_JOURNAL_QUEUE_RECORDS; the content
 *           of larger gradients is not copied but held where it was received.
 */
#ifndef PS_SERVER_CORE_JOURNAL_QUEUE_H
#define PS_SERVER_CORE_JOURNAL_QUEUE_H

#include "base/alloc.h"
#include "base/status.h"
#include "base/thread.h"
#include "checkpoint/journal.h"
#include "proto/messages.h"

/* Most records that wait. */
#define PS_JOURNAL_QUEUE_RECORDS 65536

/* Content of this size and more is held, not copied, when the request says how. */
#define PS_JOURNAL_HOLD_BYTES 4096

/* Records of more than this are not taken in one go, though a single one may be larger: a caller
 * that waits for the disk is told in small steps, and while one batch is written the next is
 * copied. Four records of 1 MiB, with what they have beside their content. */
#define PS_JOURNAL_BATCH_BYTES (((uint64_t)4 << 20) + ((uint64_t)64 << 10))

/* One record with what it needs to live on; private. */
struct ps_journal_entry;

struct ps_journal_queue {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    bool journals;
    uint64_t bytes_max;
    struct ps_mutex lock; /* PS_RANK_QUEUE; guards all that follows */
    uint64_t generation;  /* of the shard in this process, from 1: every reset begins another */
    uint64_t position;    /* the last given out */
    uint64_t written;     /* pushes up to here are in files */
    uint64_t journaled;   /* the same without checkpoints: what the journal alone has, on disk */
    bool has_base;        /* recovery has a checkpoint to begin with */
    bool failed;
    char failure[160];                /* why */
    struct ps_journal_entry *waiting; /* in the order of positions */
    struct ps_journal_entry **waiting_end;
    struct ps_journal_entry *taken; /* in the writer's hands: two batches at most */
    bool taken_is_stale;            /* they are of a former generation */
    size_t count;                   /* of both lists */
    uint64_t bytes;                 /* of both lists */
    /* Of the journal's files, in this generation: what was written, what of that was there when the
     * last snapshot was taken, and what when the one was taken that is saved. */
    uint64_t file_bytes, mark_bytes, saved_bytes;
    bool growth_told; /* since that save */
};

void ps_journal_queue_init(struct ps_journal_queue *queue, const struct ps_allocator *memory,
                           bool journals, uint64_t bytes_max);
void ps_journal_queue_fini(struct ps_journal_queue *queue);

/* Where a push goes in. */
struct ps_journal_place {
    struct ps_journal_queue *queue; /* borrowed */
    struct ps_journal_entry *entry; /* owned until it is queued; NULL without a journal */
    uint64_t position;              /* given by ps_journal_queue_put */
    uint64_t copied_bytes;          /* of the content: 0 when it is held where it was received */
    bool is_first;                  /* nothing waited: the writer is to be told */
};

/* What the record of a request has. All bytes are borrowed. */
struct ps_journal_draft {
    enum ps_record_type type;
    struct ps_bytes name; /* of the parameter */
    enum ps_dtype dtype;
    enum ps_encoding encoding;
    struct ps_request_id request;
    struct ps_bytes head; /* copied, in front of the content */
    struct ps_view content;
    struct ps_hold hold; /* of the content */
};

/* Makes that record with that fingerprint, outside all locks; the rest is as of a push. */
PS_MUST_USE enum ps_status ps_journal_place_draft(struct ps_journal_place *place,
                                                  struct ps_journal_queue *queue,
                                                  const struct ps_journal_draft *draft,
                                                  uint32_t fingerprint, uint64_t epoch,
                                                  struct ps_error *error);

/* Makes the record of a push with that fingerprint, outside all locks. Without a journal there is
 * none. End it with ps_journal_place_release, whether it was queued or not. PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_journal_place_init(struct ps_journal_place *place,
                                                 struct ps_journal_queue *queue,
                                                 const struct ps_push_request *request,
                                                 uint32_t fingerprint, uint64_t epoch,
                                                 struct ps_error *error);
void ps_journal_place_release(struct ps_journal_place *place);

/* Gives the next position to the request that makes `version` of its parameter.
 *
 * PS_ERR_BUSY         the queue is full; the text has the numbers and when to try again
 * PS_ERR_UNAVAILABLE  "journal failed: ..."
 * On either, nothing has changed.
 */
PS_MUST_USE enum ps_status ps_journal_queue_put(struct ps_journal_place *place, uint64_t version,
                                                struct ps_error *error);

/* ---- What is durable ---- */

struct ps_journal_state {
    uint64_t generation;
    uint64_t position;
    uint64_t written; /* pushes up to here are in files */
    uint64_t durable; /* pushes up to here survive a crash */
    uint64_t
        behind_bytes; /* of the journal's files, behind the newest checkpoint: a guess from above */
    uint64_t queued_bytes; /* that wait for the disk */
    bool lags;             /* so much waits for the disk that pushes are to slow down */
    bool failed;
    char failure[160];
};
void ps_journal_queue_look(struct ps_journal_queue *queue, struct ps_journal_state *state);

/* The shard begins with `position` pushes applied, of which recovery knows. */
void ps_journal_queue_begin(struct ps_journal_queue *queue, uint64_t position);

/* One record was replayed. */
void ps_journal_queue_replayed(struct ps_journal_queue *queue);

/* A checkpoint at `position` is saved. `generation` is that of its state; 0: the present one. */
void ps_journal_queue_saved(struct ps_journal_queue *queue, uint64_t generation, uint64_t position);

/* A snapshot is being taken, with no push under way: what is written to files from here on counts
 * as behind it, also the little that was queued before. */
void ps_journal_queue_mark(struct ps_journal_queue *queue);

/* Is there as much as `bytes` behind the newest checkpoint? True once for each that is saved. */
bool ps_journal_queue_grew(struct ps_journal_queue *queue, uint64_t bytes);

/* The shard's state is gone: another generation begins, what waits is dropped. */
void ps_journal_queue_reset(struct ps_journal_queue *queue);

/* ---- The writer: as service.h says ---- */

size_t ps_journal_queue_take(struct ps_journal_queue *queue, struct ps_record *records,
                             size_t record_count_max);
void ps_journal_queue_written(struct ps_journal_queue *queue, uint64_t position,
                              enum ps_status status, const struct ps_error *why);

/* How far the journal on disk goes, for a note beside it: 0 while recovery has nothing to begin
 * with, and without a journal. */
uint64_t ps_journal_queue_journaled(struct ps_journal_queue *queue);

/* Asserts every invariant. */
void ps_journal_queue_check(struct ps_journal_queue *queue);

#endif
