/* SPDX-License-Identifier: Apache-2.0 */
/* Where a push gets its position, and two lists of records: those that wait for the writer, and
 * those that the writer has taken. A record stays in the count of the queue until it is on the
 * disk, so that `bytes_max` bounds what would be lost with the process, and not only what nobody
 * has looked at yet. */
#include "server/core/values/journal_queue.h"

#include "base/assert.h"
#include "server/core/values/journal_entry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* For texts: about as long as a disk takes for a part of the queue. */
#define RETRY_HINT_MS 50

/* What a record has beside name, id and content; and what a write takes at least. */
#define RECORD_BYTES 80
#define DISK_BLOCK_BYTES 4096

/* A batch of less than twice this is written as one. */
#define SPLIT_BYTES_LEAST ((uint64_t)256 << 10)

static uint64_t batch_bytes(const struct ps_journal_queue *queue);
static enum ps_status check_room(const struct ps_journal_queue *queue, struct ps_error *error);
static struct ps_journal_entry *cut_waiting(struct ps_journal_queue *queue);
static void count_out(struct ps_journal_queue *queue, const struct ps_journal_entry *entry);
static uint64_t durable_of(const struct ps_journal_queue *queue);
static struct ps_journal_entry *count_written(struct ps_journal_queue *queue, uint64_t position);
static struct ps_journal_entry **end_of(struct ps_journal_entry **list);
static void put_back(struct ps_journal_queue *queue);

/* Generations begin at 1, so that 0 can say "the present one" (ps_journal_queue_saved). */
void ps_journal_queue_init(struct ps_journal_queue *queue, const struct ps_allocator *memory,
                           bool journals, uint64_t bytes_max)
{
    *queue = (struct ps_journal_queue){
        .memory = memory, .journals = journals, .bytes_max = bytes_max, .generation = 1};
    queue->waiting_end = &queue->waiting;
    ps_mutex_init(&queue->lock, PS_RANK_QUEUE);
}

/* Records that the writer has taken are dropped too: whoever ends the queue has ended the writer
 * before. */
void ps_journal_queue_fini(struct ps_journal_queue *queue)
{
    PS_ASSERT(*queue->waiting_end == NULL);
    ps_journal_entries_release(queue->waiting);
    ps_journal_entries_release(queue->taken);
    ps_mutex_fini(&queue->lock);
}

/* ---- A push goes in ---- */

/* Made before any lock is taken, since copying the content of a gradient below
 * PS_JOURNAL_HOLD_BYTES and allocating take longer than everything that happens under the
 * parameter's lock. Larger content is not copied: a reference keeps the message's slices until the
 * record is on the disk. */
enum ps_status ps_journal_place_init(struct ps_journal_place *place, struct ps_journal_queue *queue,
                                     const struct ps_push_request *request, uint32_t fingerprint,
                                     uint64_t epoch, struct ps_error *error)
{
    const struct ps_journal_draft draft = {.type = PS_RECORD_PUSH,
                                           .name = request->name,
                                           .dtype = request->dtype,
                                           .encoding = request->encoding,
                                           .request = request->request,
                                           .content = request->content,
                                           .hold = request->hold};
    return ps_journal_place_draft(place, queue, &draft, fingerprint, epoch, error);
}

enum ps_status ps_journal_place_draft(struct ps_journal_place *place,
                                      struct ps_journal_queue *queue,
                                      const struct ps_journal_draft *draft, uint32_t fingerprint,
                                      uint64_t epoch, struct ps_error *error)
{
    PS_ASSERT(queue != NULL && draft->name.size > 0);
    *place = (struct ps_journal_place){.queue = queue};
    if (!queue->journals)
        return PS_OK;
    /* A short content is copied, since a reference to a message of many items would keep all of it.
     * */
    void *kept = NULL;
    if (draft->content.size >= PS_JOURNAL_HOLD_BYTES && draft->hold.keep != NULL)
        kept = draft->hold.keep(draft->hold.self);
    place->entry = ps_journal_entry_make(queue->memory, draft, kept);
    if (place->entry == NULL) {
        if (kept != NULL)
            draft->hold.drop(kept);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a record of the journal");
    }
    /* The id without a session is not remembered on replay either; a fingerprint without an id
     * would say nothing. */
    place->entry->record.epoch = epoch;
    place->entry->record.fingerprint = draft->request.present ? fingerprint : 0;
    place->copied_bytes = kept != NULL ? 0 : draft->content.size;
    return PS_OK;
}

/* A place that was queued has given its record away and owns nothing any more. */
void ps_journal_place_release(struct ps_journal_place *place)
{
    if (place->entry != NULL)
        ps_journal_entry_release(place->entry);
    place->entry = NULL;
}

/* Position and place in the list are given in one step under one lock: records wait in the order of
 * their positions, without a gap, which is what lets the writer append them as they come and
 * recovery refuse a journal with a hole. The caller holds its parameter's lock, so that the
 * positions of one parameter rise in the order in which its gradients are applied; positions of
 * different parameters may be given in either order, since they do not touch each other. */
enum ps_status ps_journal_queue_put(struct ps_journal_place *place, uint64_t version,
                                    struct ps_error *error)
{
    PS_ASSERT(place->position == 0);
    struct ps_journal_queue *queue = place->queue;
    struct ps_journal_entry *entry = place->entry;
    enum ps_status status = PS_OK;
    ps_mutex_lock(&queue->lock);
    if (entry != NULL)
        status = check_room(queue, error);
    if (status == PS_OK) {
        place->position = ++queue->position;
        /* The one that finds the list empty wakes the writer; the others know that it is awake. */
        place->is_first = entry != NULL && queue->waiting == NULL;
    }
    if (status == PS_OK && entry != NULL) {
        PS_ASSERT(queue->journals);
        entry->record.position = place->position;
        entry->record.version = version;
        *queue->waiting_end = entry;
        queue->waiting_end = &entry->next;
        queue->count++;
        queue->bytes += entry->bytes;
        place->entry = NULL;
    }
    ps_mutex_unlock(&queue->lock);
    return status;
}

/* What is there decides, not what comes: a record that had to fit as well would wait for an empty
 * queue, forever beside many small ones, when it is about as large as the limit. */
static enum ps_status check_room(const struct ps_journal_queue *queue, struct ps_error *error)
{
    if (queue->failed)
        return ps_fail(error, PS_ERR_UNAVAILABLE, "journal failed: %s", queue->failure);
    if (queue->count < PS_JOURNAL_QUEUE_RECORDS && queue->bytes < queue->bytes_max)
        return PS_OK;
    return ps_refuse(error, PS_ERR_BUSY, PS_REFUSED_JOURNAL_QUEUE, RETRY_HINT_MS,
                     "the journal's queue is full: %" PRIu64 " bytes in %zu records wait for the "
                     "disk, limit %" PRIu64 " (--journal-queue-bytes); try again in %d ms",
                     queue->bytes, queue->count, queue->bytes_max, RETRY_HINT_MS);
}

/* ---- What is durable ---- */

/* A journal alone recovers nothing: its records change parameters that only a checkpoint has. */
static uint64_t durable_of(const struct ps_journal_queue *queue)
{
    return queue->has_base ? queue->written : 0;
}

/* While the journal has failed nothing is slowed down, since everything is refused. */
static bool lags(const struct ps_journal_queue *queue)
{
    PS_ASSERT(queue->bytes_max > 0 || queue->bytes == 0);
    return !queue->failed &&
           (queue->bytes > queue->bytes_max / 2 || queue->count > PS_JOURNAL_QUEUE_RECORDS / 2);
}

/* A copy of everything at one moment: callers compare its numbers with each other, and two calls
 * could fall on both sides of a reset. */
void ps_journal_queue_look(struct ps_journal_queue *queue, struct ps_journal_state *state)
{
    ps_mutex_lock(&queue->lock);
    *state = (struct ps_journal_state){.generation = queue->generation,
                                       .position = queue->position,
                                       .written = queue->written,
                                       .durable = durable_of(queue),
                                       /* From above: what was written while the snapshot was taken
                                        * counts as behind it. */
                                       .behind_bytes = queue->file_bytes - queue->saved_bytes,
                                       .queued_bytes = queue->bytes,
                                       .lags = lags(queue),
                                       .failed = queue->failed};
    if (queue->failed)
        memcpy(state->failure, queue->failure, sizeof state->failure);
    ps_mutex_unlock(&queue->lock);
}

/* What was loaded is durable by definition, since it came from the disk. */
void ps_journal_queue_begin(struct ps_journal_queue *queue, uint64_t position)
{
    ps_mutex_lock(&queue->lock);
    PS_ASSERT(queue->waiting == NULL);
    PS_ASSERT(queue->position == 0);
    PS_ASSERT(!queue->failed && !queue->has_base);
    queue->position = position;
    queue->written = position;
    queue->journaled = position;
    ps_mutex_unlock(&queue->lock);
}

/* What is replayed came from the journal, so all three counts move together. */
void ps_journal_queue_replayed(struct ps_journal_queue *queue)
{
    ps_mutex_lock(&queue->lock);
    PS_ASSERT(queue->waiting == NULL);
    PS_ASSERT(queue->written == queue->position);
    queue->position++;
    queue->written++;
    queue->journaled++;
    ps_mutex_unlock(&queue->lock);
}

/* A checkpoint makes durable what it holds, also what the journal has failed to write. One of a
 * former generation says nothing about this one, whose positions began anew. */
void ps_journal_queue_saved(struct ps_journal_queue *queue, uint64_t generation, uint64_t position)
{
    ps_mutex_lock(&queue->lock);
    if (generation == 0 || generation == queue->generation) {
        PS_ASSERT(position <= queue->position);
        PS_ASSERT(queue->saved_bytes <= queue->mark_bytes);
        queue->has_base = true;
        if (position > queue->written)
            queue->written = position;
        queue->saved_bytes = queue->mark_bytes;
        queue->growth_told = false;
    }
    ps_mutex_unlock(&queue->lock);
}

/* The bytes that were written so far are behind no checkpoint from the next save on; which ones
 * those are is known only now, since no push is under way. */
void ps_journal_queue_mark(struct ps_journal_queue *queue)
{
    ps_mutex_lock(&queue->lock);
    PS_ASSERT(queue->mark_bytes <= queue->file_bytes);
    queue->mark_bytes = queue->file_bytes;
    ps_mutex_unlock(&queue->lock);
}

/* Told once for each save: without that every write of the journal would ask for another checkpoint
 * until the first of them is saved. */
bool ps_journal_queue_grew(struct ps_journal_queue *queue, uint64_t bytes)
{
    ps_mutex_lock(&queue->lock);
    PS_ASSERT(queue->saved_bytes <= queue->file_bytes);
    /* Told under the lock, so that of two writers that ask at once only one hears it. */
    bool grew = !queue->growth_told && queue->file_bytes - queue->saved_bytes >= bytes;
    queue->growth_told = queue->growth_told || grew;
    ps_mutex_unlock(&queue->lock);
    return grew;
}

/* Records that wait are dropped: their pushes were never acknowledged as durable, and the state
 * that they belong to is gone. Those that the writer is just writing cannot be taken from it; they
 * are marked, so that their being written moves no count of the new generation. What is dropped is
 * released outside of the lock, since dropping may give a message back to the network. */
void ps_journal_queue_reset(struct ps_journal_queue *queue)
{
    ps_mutex_lock(&queue->lock);
    PS_ASSERT(queue->generation > 0);
    struct ps_journal_entry *dropped = cut_waiting(queue);
    queue->taken_is_stale = queue->taken != NULL;
    queue->generation++;
    queue->position = 0;
    queue->written = 0;
    queue->journaled = 0;
    queue->has_base = false;
    queue->failed = false;
    queue->file_bytes = queue->mark_bytes = queue->saved_bytes = 0;
    queue->growth_told = false;
    ps_mutex_unlock(&queue->lock);
    ps_journal_entries_release(dropped);
}

/* Takes all that waits out of the queue. Each record leaves the counts, since the sum of the rest
 * is not known. */
static struct ps_journal_entry *cut_waiting(struct ps_journal_queue *queue)
{
    struct ps_journal_entry *cut = queue->waiting;
    for (const struct ps_journal_entry *entry = cut; entry != NULL; entry = entry->next)
        count_out(queue, entry);
    queue->waiting = NULL;
    queue->waiting_end = &queue->waiting;
    return cut;
}

/* Both counts belong to both lists, so that a batch which the writer puts back is not counted
 * twice. */
static void count_out(struct ps_journal_queue *queue, const struct ps_journal_entry *entry)
{
    PS_ASSERT(queue->count > 0);
    PS_ASSERT(queue->bytes >= entry->bytes);
    queue->count--;
    queue->bytes -= entry->bytes;
}

/* ---- The writer ---- */

/* While nothing is being written, half of what waits is enough: it is written while the rest is
 * copied. A batch of all would be answered as a whole, and the disk would have nothing to do until
 * its senders have sent again. Small ones stay together, since two syncs take longer than one. */
static uint64_t batch_bytes(const struct ps_journal_queue *queue)
{
    uint64_t half = queue->bytes / 2;
    if (queue->taken != NULL || half < SPLIT_BYTES_LEAST || half > PS_JOURNAL_BATCH_BYTES)
        return PS_JOURNAL_BATCH_BYTES;
    return half;
}

/* Takes a batch and no more: its records share one sync, and whoever waits for the first of them
 * waits for all. A record above the bound of a batch goes alone rather than never. */
size_t ps_journal_queue_take(struct ps_journal_queue *queue, struct ps_record *records,
                             size_t record_count_max)
{
    size_t count = 0;
    ps_mutex_lock(&queue->lock);
    PS_ASSERT(record_count_max > 0);
    struct ps_journal_entry **end = &queue->waiting;
    uint64_t bytes = 0;
    uint64_t bytes_max = batch_bytes(queue);
    while (*end != NULL && count < record_count_max) {
        bytes += (*end)->bytes;
        if (count > 0 && bytes > bytes_max)
            break;
        records[count++] = (*end)->record;
        end = &(*end)->next;
    }
    if (count > 0) {
        PS_ASSERT(queue->taken == NULL || !queue->taken_is_stale);
        struct ps_journal_entry *rest = *end;
        *end = NULL;
        *end_of(&queue->taken) = queue->waiting;
        queue->taken_is_stale = false;
        queue->waiting = rest;
        if (rest == NULL)
            queue->waiting_end = &queue->waiting;
    }
    ps_mutex_unlock(&queue->lock);
    return count;
}

/* By walking: two batches are taken at most, and the list has no pointer back. */
static struct ps_journal_entry **end_of(struct ps_journal_entry **list)
{
    while (*list != NULL)
        list = &(*list)->next;
    return list;
}

/* A failure leaves the records in front of all others, to be written again in the same order to
 * another file: their pushes are applied, and a later push of the same parameter was computed from
 * them. Until then nothing new is let in and nothing is acknowledged. Of a former generation
 * success and failure are the same: nobody waits for it any more. */
void ps_journal_queue_written(struct ps_journal_queue *queue, uint64_t position,
                              enum ps_status status, const struct ps_error *why)
{
    struct ps_journal_entry *done = NULL;
    ps_mutex_lock(&queue->lock);
    PS_ASSERT(queue->taken != NULL);
    if (status == PS_OK || queue->taken_is_stale) {
        PS_ASSERT(status == PS_OK || queue->generation > 1);
        done = count_written(queue, status == PS_OK ? position : UINT64_MAX);
    } else {
        put_back(queue);
        queue->failed = true;
        snprintf(queue->failure, sizeof queue->failure, "%.159s",
                 why != NULL ? why->text : ps_status_sentence(status));
    }
    ps_mutex_unlock(&queue->lock);
    ps_journal_entries_release(done);
}

/* Takes what was written out of the queue, and counts what it takes of the disk. Whole blocks of
 * the disk are counted for each write, since that is what small batches take. */
static struct ps_journal_entry *count_written(struct ps_journal_queue *queue, uint64_t position)
{
    struct ps_journal_entry *done = queue->taken;
    struct ps_journal_entry **end = &queue->taken;
    uint64_t last = 0;
    uint64_t bytes = 0;
    for (; *end != NULL && (*end)->record.position <= position; end = &(*end)->next) {
        const struct ps_record *record = &(*end)->record;
        count_out(queue, *end);
        last = record->position;
        bytes += RECORD_BYTES + record->name.size + record->client_id.size + record->content.size;
    }
    PS_ASSERT(last > 0);
    PS_ASSERT(queue->taken_is_stale || (last > queue->journaled && last <= queue->position));
    queue->taken = *end;
    *end = NULL;
    if (queue->taken_is_stale)
        return done;
    queue->file_bytes += (bytes + DISK_BLOCK_BYTES - 1) / DISK_BLOCK_BYTES * DISK_BLOCK_BYTES;
    queue->failed = false;
    queue->journaled = last;
    if (last > queue->written)
        queue->written = last;
    return done;
}

/* They are written again, before all others, by whoever takes next. */
static void put_back(struct ps_journal_queue *queue)
{
    PS_ASSERT(!queue->taken_is_stale);
    struct ps_journal_entry **end = end_of(&queue->taken);
    *end = queue->waiting;
    if (queue->waiting == NULL)
        queue->waiting_end = end;
    queue->waiting = queue->taken;
    queue->taken = NULL;
}

/* Without a base the note would speak of a journal that recovery cannot use. */
uint64_t ps_journal_queue_journaled(struct ps_journal_queue *queue)
{
    ps_mutex_lock(&queue->lock);
    PS_ASSERT(queue->journaled <= queue->position);
    uint64_t position = queue->journals && queue->has_base ? queue->journaled : 0;
    ps_mutex_unlock(&queue->lock);
    return position;
}

/* Under the lock from the first line to the last: it is one moment that is checked. */
void ps_journal_queue_check(struct ps_journal_queue *queue)
{
    /* Taken and waiting are one list cut in two, but for taken records of a former generation,
     * whose positions have nothing to do with those that wait. */
    size_t count = 0;
    uint64_t bytes = 0;
    uint64_t before = 0;
    ps_mutex_lock(&queue->lock);
    for (const struct ps_journal_entry *entry = queue->taken; entry != NULL; entry = entry->next) {
        count++;
        bytes += entry->bytes;
        before = queue->taken_is_stale ? 0 : entry->record.position;
    }
    for (const struct ps_journal_entry *entry = queue->waiting; entry != NULL;
         entry = entry->next) {
        count++;
        bytes += entry->bytes;
        PS_ASSERT(before == 0 || entry->record.position == before + 1);
        before = entry->record.position;
    }
    PS_ASSERT(before == 0 || before == queue->position);
    PS_ASSERT(*queue->waiting_end == NULL);
    PS_ASSERT(count == queue->count);
    PS_ASSERT(bytes == queue->bytes);
    PS_ASSERT(queue->written <= queue->position);
    PS_ASSERT(queue->journaled <= queue->written);
    PS_ASSERT(!queue->failed || queue->count > 0);
    ps_mutex_unlock(&queue->lock);
}
