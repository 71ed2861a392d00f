/* SPDX-License-Identifier: Apache-2.0 */
/* The order is everything: file, then pointer, then the files that nobody needs any more (B4). A
 * crash at any step leaves a state from which recovery goes on: before the rename there is a
 * temporary file, which the next sweep removes; before the pointer there is a whole file that
 * nobody names, which recovery finds in the folder; before the sweep there is a file too many. */
#include "server/core/recovery/saver.h"

#include "base/assert.h"
#include "checkpoint/catalog.h"
#include "checkpoint/journal.h"
#include "server/core/requests/service_state.h"

/* Longest JSON pointer: a path and a few numbers. */
#define POINTER_BYTES_MAX 8192

static enum ps_status put_pointer(const struct ps_saver *saver,
                                  const struct ps_checkpoint_place *place, uint64_t deadline_ms,
                                  struct ps_error *error);
static void sweep(const struct ps_saver *saver, uint64_t epoch);
static void sweep_journal(const struct ps_saver *saver, uint64_t epoch);
static void count_saved(const struct ps_saver *saver, const struct ps_saving *saving);

/* The steps in their order, for tests and tools; a server runs them in two threads with waits
 * between. */
enum ps_status ps_saver_save(const struct ps_saver *saver, uint64_t deadline_ms,
                             struct ps_checkpoint_place *place, struct ps_error *error)
{
    PS_ASSERT(saver->service != NULL && place != NULL);
    struct ps_saving saving;
    enum ps_status status = ps_saver_reuse(saver, true, deadline_ms, error);
    if (status == PS_OK)
        (void)ps_service_last_saved(saver->service, place);
    if (status != PS_ERR_NOT_FOUND)
        return status;
    PS_TRY(ps_saver_begin(saver, &saving, error));
    status = ps_saver_may_write(saver, &saving, error);
    if (status != PS_OK) {
        ps_saver_give_up(&saving);
        return status;
    }
    PS_TRY(ps_saver_write(saver, &saving, error));
    PS_TRY(ps_saver_publish(saver, &saving, deadline_ms, error));
    *place = saving.place;
    return PS_OK;
}

/* A publication that timed out may land at any later time, as long as nothing else was published
 * in this epoch. Until that is settled no other file is written, so that sweeping never takes the
 * one that the pointer may come to name. */
static enum ps_status settle(const struct ps_saver *saver, uint64_t deadline_ms,
                             struct ps_error *error)
{
    PS_ASSERT(saver->service != NULL);
    struct ps_checkpoint_place place;
    struct ps_ticket ticket;
    struct ps_tickets *tickets = &saver->service->tickets;
    if (!ps_tickets_unclear(tickets, &ticket, &place))
        return PS_OK;
    enum ps_status status = put_pointer(saver, &place, deadline_ms, error);
    /* Still open: it may land at any time from now on. */
    if (status == PS_ERR_TIMEOUT)
        return status;
    if (status == PS_OK)
        ps_service_saved(saver->service, ticket, &place);
    /* Any other answer is a clear one: it has landed now, or it never will, since our claim is gone
     * and the store compares it. */
    ps_tickets_clarify(tickets);
    return PS_OK;
}

/* The file is read to the end for this, and not only looked for: whoever asks for a checkpoint when
 * nothing is new wants to know that there is a good one, and a disk that lost it has to be found
 * out before it is needed. */
enum ps_status ps_saver_reuse(const struct ps_saver *saver, bool publish, uint64_t deadline_ms,
                              struct ps_error *error)
{
    struct ps_checkpoint_place place = {0};
    struct ps_ticket ticket = {0};
    struct ps_error damage = {0};
    if (publish)
        PS_TRY(settle(saver, deadline_ms, error));
    PS_ASSERT(saver->files != NULL);
    if (!ps_service_has_nothing_new(saver->service, &ticket, &place))
        return ps_fail(error, PS_ERR_NOT_FOUND, "no checkpoint has the state as it is");
    if (ps_checkpoint_verify(saver->files, place.path, saver->memory, &damage) != PS_OK) {
        PS_LOG(saver->log, PS_LOG_WARN, "saver",
               "the newest checkpoint cannot be read: writing another", PS_FIELD_ERROR(&damage));
        return ps_fail(error, PS_ERR_NOT_FOUND, "no checkpoint has the state as it is");
    }
    if (!publish)
        return PS_OK;
    PS_TRY(put_pointer(saver, &place, deadline_ms, error));
    ps_service_saved(saver->service, ticket, &place);
    PS_LOG(saver->log, PS_LOG_INFO, "saver", "nothing new since the newest checkpoint",
           PS_FIELD_TEXT("path", place.path), PS_FIELD_UINT("position", place.position));
    return PS_OK;
}

/* The ticket is that of the snapshot: requests for a checkpoint that come later are about later
 * state. */
enum ps_status ps_saver_begin(const struct ps_saver *saver, struct ps_saving *saving,
                              struct ps_error *error)
{
    PS_ASSERT(saver->service != NULL && saver->clock != NULL);
    *saving = (struct ps_saving){.start_unix_ns = ps_unix_ns(saver->clock)};
    PS_TRY(ps_snapshot_take(saver->service, &saving->snapshot, error));
    saving->ticket = saving->snapshot.ticket;
    return PS_OK;
}

/* A file ahead of its journal would be the only place that has its newest pushes; were it found
 * damaged, the one before and the journal would give less than was acknowledged. */
enum ps_status ps_saver_may_write(const struct ps_saver *saver, const struct ps_saving *saving,
                                  struct ps_error *error)
{
    PS_ASSERT(saving->snapshot.held != NULL);
    return ps_service_journal_covers(saver->service, ps_ticket_generation(saving->ticket),
                                     saving->snapshot.facts.position, error);
}

void ps_saver_give_up(struct ps_saving *saving)
{
    PS_ASSERT(saving != NULL);
    ps_snapshot_release(&saving->snapshot);
}

/* What the writer has read is let go first: nobody copies it while we rest. */
struct progress {
    const struct ps_saver *saver;
    const struct ps_checkpoint_watcher *snapshot;
};

/* The rest is what leaves pushes their share of processor and memory: see server/save_task.c. */
static void piece_written(void *self, size_t parameter, uint32_t array, uint64_t bytes)
{
    PS_ASSERT(self != NULL);
    const struct progress *progress = self;
    progress->snapshot->written(progress->snapshot->self, parameter, array, bytes);
    if (progress->saver->rest != NULL)
        progress->saver->rest(progress->saver->rest_self);
}

/* The snapshot is released whatever came of the file: a failed save must not keep blocks from being
 * written in place until the next one. */
enum ps_status ps_saver_write(const struct ps_saver *saver, struct ps_saving *saving,
                              struct ps_error *error)
{
    const struct ps_snapshot *snapshot = &saving->snapshot;
    PS_ASSERT(snapshot->held != NULL && snapshot->facts.epoch > 0);
    struct progress progress = {.saver = saver, .snapshot = &snapshot->watcher};
    const struct ps_checkpoint_watcher watcher = {.written = piece_written, .self = &progress};
    const struct ps_checkpoint_setup setup = {
        .watcher = &watcher, .behind = saver->behind, .over_spare = true};
    enum ps_status status = ps_checkpoint_write_as(saver->files, saver->folder, &snapshot->facts,
                                                   snapshot->parameters, snapshot->parameter_count,
                                                   &setup, saver->memory, &saving->place, error);
    ps_snapshot_release(&saving->snapshot);
    if (status != PS_OK)
        ps_counter_add(saver->service->metrics.checkpoint_failures, 1);
    return status;
}

/* A pointer that may have landed or not (a timeout) is noted: until that is clear no other file is
 * written and nothing that it may name is removed. Tickets are satisfied before older files go,
 * since a slow sweep is nothing that a caller should wait for. */
enum ps_status ps_saver_publish(const struct ps_saver *saver, const struct ps_saving *saving,
                                uint64_t deadline_ms, struct ps_error *error)
{
    PS_ASSERT(saving->place.uuid[0] != '\0');
    PS_ASSERT(saving->snapshot.held == NULL);
    enum ps_status status = put_pointer(saver, &saving->place, deadline_ms, error);
    if (status == PS_OK)
        ps_service_saved(saver->service, saving->ticket, &saving->place);
    if (status == PS_ERR_TIMEOUT)
        ps_tickets_note_unclear(&saver->service->tickets, saving->ticket, &saving->place);
    /* After a takeover the folder is the new owner's: it may have loaded even the file that we
     * have just put there, and counts on it, so nothing is removed. Otherwise older
     * files go, also when the store does not answer: a file per interval would fill the disk. What
     * was published last stays, and so do the newest files, which recovery finds. */
    if (status != PS_ERR_STALE_EPOCH)
        sweep(saver, saving->place.epoch);
    if (status != PS_OK) {
        ps_counter_add(saver->service->metrics.checkpoint_failures, 1);
        return status;
    }
    if (!saver->keeps_journal)
        sweep_journal(saver, saving->place.epoch);
    count_saved(saver, saving);
    return PS_OK;
}

/* The transaction demands that the claim's key still has the revision that we were given: a former
 * owner cannot move the pointer back, whenever its request arrives. */
static enum ps_status put_pointer(const struct ps_saver *saver,
                                  const struct ps_checkpoint_place *place, uint64_t deadline_ms,
                                  struct ps_error *error)
{
    if (saver->registry == NULL)
        return PS_OK;
    PS_ASSERT(saver->claim != NULL);
    /* The claim may have changed hands, and come back under another epoch, since the snapshot. */
    uint64_t epoch = saver->epoch != 0 ? saver->epoch : saver->claim->epoch;
    if (place->epoch != epoch)
        return ps_fail(error, PS_ERR_STALE_EPOCH, "the checkpoint is of an earlier ownership");
    /* Recovery must know whether to expect a journal behind the checkpoint: without one, pushes
     * since are lost by agreement; with one, its absence is a loss. */
    struct ps_checkpoint_place said = *place;
    said.journal = ps_service_journals(saver->service) ? PS_CHECKPOINT_JOURNAL_KEPT
                                                       : PS_CHECKPOINT_JOURNAL_NONE;
    PS_ASSERT(place->path[0] != '\0' && place->uuid[0] != '\0');
    struct ps_buffer json;
    ps_buffer_init(&json, saver->memory, POINTER_BYTES_MAX);
    ps_catalog_pointer_write(&said, &json);
    enum ps_status status = ps_buffer_status(&json, error);
    if (status == PS_OK)
        status = ps_registry_publish_checkpoint(
            saver->registry, saver->claim, (struct ps_bytes){(const uint8_t *)json.text, json.size},
            deadline_ms, error);
    ps_buffer_fini(&json);
    return status;
}

/* What is not removed costs room on the disk and nothing else, so a failure is a line in the log.
 * */
static void sweep(const struct ps_saver *saver, uint64_t epoch)
{
    PS_ASSERT(saver->folder != NULL);
    struct ps_checkpoint_place published = {0};
    struct ps_error reason = {0};
    size_t removed = 0;
    (void)ps_service_last_saved(saver->service, &published);
    if (ps_catalog_sweep(saver->files, saver->folder, PS_SAVER_KEEP, published.uuid, epoch,
                         saver->memory, &removed, &reason) != PS_OK)
        PS_LOG(saver->log, PS_LOG_WARN, "saver", "older checkpoints stay", PS_FIELD_ERROR(&reason));
}

/* Recovery may begin with any checkpoint of the folder: what is behind the oldest stays. */
static void sweep_journal(const struct ps_saver *saver, uint64_t epoch)
{
    PS_ASSERT(epoch > 0);
    struct ps_catalog catalog = {0};
    struct ps_error reason = {0};
    size_t removed = 0;
    /* The oldest checkpoint decides, and not the newest: should the newest turn out to be damaged,
     * recovery begins with an older one and needs everything behind that. */
    uint64_t covered = UINT64_MAX;
    enum ps_status status =
        ps_catalog_init(&catalog, saver->files, saver->folder, saver->memory, &reason);
    for (size_t i = 0; status == PS_OK && i < catalog.count; i++)
        covered = catalog.entries[i].position < covered ? catalog.entries[i].position : covered;
    if (status == PS_OK && catalog.count > 0)
        status = ps_journal_sweep(saver->files, saver->folder, epoch, covered, PS_JOURNAL_KEEP,
                                  saver->memory, &removed, &reason);
    if (catalog.memory != NULL)
        ps_catalog_fini(&catalog);
    if (status != PS_OK)
        PS_LOG(saver->log, PS_LOG_WARN, "saver", "older segments of the journal stay",
               PS_FIELD_ERROR(&reason));
}

/* By the wall clock, which may be set back in between: then the time is 0 rather than a very large
 * number. */
static void count_saved(const struct ps_saver *saver, const struct ps_saving *saving)
{
    PS_ASSERT(saving->start_unix_ns > 0);
    const struct ps_core_metrics *metrics = &saver->service->metrics;
    uint64_t now = ps_unix_ns(saver->clock);
    uint64_t taken_ns = now > saving->start_unix_ns ? now - saving->start_unix_ns : 0;
    ps_counter_add(metrics->checkpoints, 1);
    ps_histogram_observe(metrics->checkpoint_seconds, (double)taken_ns / 1e9);
    PS_LOG(saver->log, PS_LOG_INFO, "saver", "checkpoint saved",
           PS_FIELD_TEXT("path", saving->place.path),
           PS_FIELD_UINT("position", saving->place.position),
           PS_FIELD_UINT("bytes", saving->place.bytes),
           PS_FIELD_UINT("duration_ms", taken_ns / 1000000));
}
