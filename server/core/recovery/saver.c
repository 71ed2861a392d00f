/* SPDX-License-Identifier: Apache-2.0 */
/* The order is everything: file, then pointer, then the files that nobody needs any more (B4). A
 * crash at any step leaves a state from which recovery goes on: before the rename there is a
 * temporary file, which the next sweep removes; before the pointer there is a whole file that
 * nobody names, which recovery finds in the folder; before the sweep there is a file too many. */
#include "server/core/recovery/saver.h"

#include "base/assert.h"
#include "checkpoint/catalog.h"
#include "checkpoint/journal.h"
#include "server/core/recovery/kept_sets.h"
#include "server/core/requests/service_state.h"

#include <string.h>

/* Longest JSON pointer: a path and a few numbers. */
#define POINTER_BYTES_MAX 8192

static enum ps_status put_pointer(const struct ps_saver *saver,
                                  const struct ps_checkpoint_place *place, const struct ps_set *set,
                                  uint64_t deadline_ms, struct ps_error *error);
static void clean_up(const struct ps_saver *saver, uint64_t epoch, bool is_published,
                     uint64_t deadline_ms);
static void sweep(const struct ps_saver *saver, uint64_t epoch, const struct ps_kept_sets *kept);
static void sweep_journal(const struct ps_saver *saver, uint64_t epoch,
                          const struct ps_kept_sets *kept);
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
    enum ps_status status = put_pointer(saver, &place, NULL, deadline_ms, error);
    /* Two answers are clear: it has landed now, or it never will, since our claim is gone and the
     * store compares it. Any other is about this attempt and not about the one that is open: a
     * store that refuses a connection may have the pointer already. */
    if (status != PS_OK && status != PS_ERR_STALE_EPOCH)
        return status;
    if (status == PS_OK)
        ps_service_saved(saver->service, ticket, &place);
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
    /* The file that is there does not name the set: whoever loses the store finds sets by files. */
    struct ps_set wanted;
    bool is_for_set = publish && saver->wish != NULL && ps_set_wish_take(saver->wish, &wanted);
    if (is_for_set || !ps_service_has_nothing_new(saver->service, &ticket, &place))
        return ps_fail(error, PS_ERR_NOT_FOUND, "no checkpoint has the state as it is");
    if (ps_checkpoint_verify(saver->files, place.path, saver->memory, &damage) != PS_OK) {
        PS_LOG(saver->log, PS_LOG_WARN, "saver",
               "the newest checkpoint cannot be read: writing another", PS_FIELD_ERROR(&damage));
        /* It may be the base that is damaged. */
        if (saver->increments != NULL)
            ps_increments_forget(saver->increments);
        return ps_fail(error, PS_ERR_NOT_FOUND, "no checkpoint has the state as it is");
    }
    if (!publish)
        return PS_OK;
    PS_TRY(put_pointer(saver, &place, NULL, deadline_ms, error));
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
    *saving = (struct ps_saving){.start_ms = ps_now_ms(saver->clock)};
    /* Before the instant: of a set that is asked for behind it this snapshot may lack something. */
    if (saver->wish != NULL)
        (void)ps_set_wish_take(saver->wish, &saving->set);
    bool is_marked = saver->increments != NULL && saver->increments->count_max > 0;
    PS_TRY(is_marked ? ps_snapshot_take_marked(saver->service, &saving->snapshot, error)
                     : ps_snapshot_take(saver->service, &saving->snapshot, error));
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

/* What is decided of increments is decided beside pushes, behind the wait for the journal. */
static void choose_base(const struct ps_saver *saver, struct ps_saving *saving)
{
    struct ps_snapshot *snapshot = &saving->snapshot;
    PS_ASSERT(saving->base[0] == '\0');
    if (saver->increments == NULL)
        return;
    /* A set is one file of each shard, which may be taken elsewhere. */
    bool may = saving->set.revision == 0;
    if (ps_increments_prepare(saver->increments, snapshot, ps_ticket_generation(saving->ticket),
                              may, saver->files))
        memcpy(saving->base, snapshot->facts.base, sizeof saving->base);
}

/* The snapshot is released whatever came of the file: a failed save must not keep blocks from being
 * written in place until the next one. */
enum ps_status ps_saver_write(const struct ps_saver *saver, struct ps_saving *saving,
                              struct ps_error *error)
{
    const struct ps_snapshot *snapshot = &saving->snapshot;
    PS_ASSERT(snapshot->held != NULL && snapshot->facts.epoch > 0);
    choose_base(saver, saving);
    struct progress progress = {.saver = saver, .snapshot = &snapshot->watcher};
    const struct ps_checkpoint_watcher watcher = {.written = piece_written, .self = &progress};
    /* A spare has the size of a whole one, and is kept for the next. */
    const struct ps_checkpoint_setup setup = {
        .watcher = &watcher, .behind = saver->behind, .over_spare = saving->base[0] == '\0'};
    /* A copy, since the name lies in `saving`, which the caller may move. */
    struct ps_checkpoint_facts facts = snapshot->facts;
    facts.set = saving->set.name;
    enum ps_status status = ps_checkpoint_write_as(saver->files, saver->folder, &facts,
                                                   snapshot->parameters, snapshot->parameter_count,
                                                   &setup, saver->memory, &saving->place, error);
    ps_snapshot_release(&saving->snapshot);
    /* Also of a failure, behind which the next one is whole. */
    if (saver->increments != NULL)
        ps_increments_written(saver->increments, status == PS_OK ? &saving->place : NULL);
    if (status != PS_OK)
        ps_counter_add(saver->service->metrics.checkpoint_failures, 1);
    return status;
}

/* A set that was given up or made whole meanwhile has no more room for this file, which is a
 * checkpoint like any other then. */
static enum ps_status publish(const struct ps_saver *saver, const struct ps_saving *saving,
                              uint64_t deadline_ms, struct ps_error *error)
{
    PS_ASSERT(saving->set.revision == 0 || saver->wish != NULL);
    if (saving->set.revision == 0)
        return put_pointer(saver, &saving->place, NULL, deadline_ms, error);
    enum ps_status status = put_pointer(saver, &saving->place, &saving->set, deadline_ms, error);
    if (status == PS_OK || status == PS_ERR_CONFLICT)
        ps_set_wish_end(saver->wish, &saving->set);
    /* Should the store not say so at the sweep: without room for it nothing is known any more. */
    if (status == PS_OK && !ps_kept_sets_add(&saver->wish->kept, saving->place.uuid))
        saver->wish->kept_epoch = 0;
    /* Those who wait for a checkpoint have one all the same. */
    if (status == PS_ERR_CONFLICT)
        status = put_pointer(saver, &saving->place, NULL, deadline_ms, error);
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
    enum ps_status status = publish(saver, saving, deadline_ms, error);
    if (status == PS_OK)
        ps_service_saved(saver->service, saving->ticket, &saving->place);
    /* Before the sweep, which may take what an unclear pointer does not protect. */
    if (saver->increments != NULL)
        ps_increments_published(saver->increments, status == PS_OK);
    if (status == PS_ERR_TIMEOUT)
        ps_tickets_note_unclear(&saver->service->tickets, saving->ticket, &saving->place);
    /* After a takeover the folder is the new owner's: it may have loaded even the file that we
     * have just put there, and counts on it, so nothing is removed. */
    if (status != PS_ERR_STALE_EPOCH)
        clean_up(saver, saving->place.epoch, status == PS_OK, deadline_ms);
    if (status != PS_OK) {
        ps_counter_add(saver->service->metrics.checkpoint_failures, 1);
        return status;
    }
    count_saved(saver, saving);
    return PS_OK;
}

/* The transaction demands that the claim's key still has the revision that we were given: a former
 * owner cannot move the pointer back, whenever its request arrives. */
static enum ps_status put_pointer(const struct ps_saver *saver,
                                  const struct ps_checkpoint_place *place, const struct ps_set *set,
                                  uint64_t deadline_ms, struct ps_error *error)
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
    const struct ps_bytes text = {(const uint8_t *)json.text, json.size};
    /* Either way the transaction demands that the shard is ours. */
    if (status == PS_OK && set == NULL)
        status =
            ps_registry_publish_checkpoint(saver->registry, saver->claim, text, deadline_ms, error);
    else if (status == PS_OK)
        status = ps_registry_publish_in_set(saver->registry, saver->claim, set, text, deadline_ms,
                                            error);
    ps_buffer_fini(&json);
    return status;
}

/* Which files belong to sets only the store knows. While it does not answer, what was read last
 * under this claim holds, and what was published since; before the first answer nothing goes. */
static bool find_kept(const struct ps_saver *saver, uint64_t deadline_ms)
{
    struct ps_set_wish *wish = saver->wish;
    PS_ASSERT(saver->claim != NULL);
    struct ps_kept_sets kept;
    struct ps_error reason = {0};
    enum ps_status status = ps_kept_sets_read(saver->registry, saver->claim->index, saver->memory,
                                              deadline_ms, &kept, &reason);
    /* Replaced as a whole: a set that was taken away since is not kept any longer. */
    if (status == PS_OK) {
        wish->kept = kept;
        wish->kept_epoch = saver->claim->epoch;
        return true;
    }
    if (wish->kept_epoch == saver->claim->epoch)
        return true;
    PS_LOG(saver->log, PS_LOG_WARN, "saver",
           "older checkpoints stay: which of them belong to sets is not known",
           PS_FIELD_ERROR(&reason));
    return false;
}

/* A saver that is told of no sets has none to keep. */
static void clean_up(const struct ps_saver *saver, uint64_t epoch, bool is_published,
                     uint64_t deadline_ms)
{
    static const struct ps_kept_sets none = {.count = 0};
    bool has_sets = saver->wish != NULL && saver->registry != NULL;
    PS_ASSERT(epoch > 0);
    if (has_sets && !find_kept(saver, deadline_ms))
        return;
    const struct ps_kept_sets *kept = has_sets ? &saver->wish->kept : &none;
    sweep(saver, epoch, kept);
    /* Before the pointer is put, recovery may need what is behind an older checkpoint. */
    if (is_published && !saver->keeps_journal)
        sweep_journal(saver, epoch, kept);
}

/* What is not removed costs room on the disk and nothing else, so a failure is a line in the log.
 * */
static void sweep(const struct ps_saver *saver, uint64_t epoch, const struct ps_kept_sets *kept)
{
    PS_ASSERT(saver->folder != NULL);
    struct ps_checkpoint_place published = {0};
    struct ps_error reason = {0};
    size_t removed = 0;
    struct ps_kept_sets all = *kept;
    char named[sizeof published.uuid];
    bool is_own = ps_service_last_saved(saver->service, &published) && published.epoch == epoch;
    ps_service_named(saver->service, named);
    /* Until this owner has published something the store names a file of a former owner, which may
     * be another than the one that was loaded: both stay. */
    if (!is_own && named[0] != '\0' && !ps_kept_sets_add(&all, named))
        return;
    if (ps_catalog_sweep_but(saver->files, saver->folder, PS_SAVER_KEEP, published.uuid, epoch,
                             all.uuids, all.count, saver->memory, &removed, &reason) != PS_OK)
        PS_LOG(saver->log, PS_LOG_WARN, "saver", "older checkpoints stay", PS_FIELD_ERROR(&reason));
}

/* Does a recovery from an increment need this one? The sweep has seen to it that it stays; what is
 * behind it in the journal stays for it, since the increment may turn out to be damaged. */
static bool is_base(const struct ps_catalog *catalog, const char *uuid)
{
    PS_ASSERT(uuid[0] != '\0');
    for (size_t i = 0; i < catalog->count; i++)
        if (strcmp(catalog->entries[i].base, uuid) == 0)
            return true;
    return false;
}

/* Whole ones alone: sweeping counts them apart, and none of the others belongs to a set. */
static size_t count_whole_before(const struct ps_catalog *catalog, size_t i)
{
    size_t count = 0;
    PS_ASSERT(i < catalog->count);
    for (size_t k = 0; k < i; k++)
        count += catalog->entries[k].base[0] == '\0' ? 1 : 0;
    return count;
}

/* One that stays for its set alone: whoever goes back to it wants its instant and no other. */
static bool is_of_set_alone(const struct ps_catalog *catalog, size_t i, const char *published_uuid,
                            const struct ps_kept_sets *kept)
{
    PS_ASSERT(i < catalog->count);
    const char *uuid = catalog->entries[i].uuid;
    size_t newer = count_whole_before(catalog, i);
    /* Of those that sweeping counts and those that were overtaken so many stay without any set. */
    return newer >= 2 * (size_t)PS_SAVER_KEEP && strcmp(uuid, published_uuid) != 0 &&
           ps_kept_sets_have(kept, uuid) && !is_base(catalog, uuid);
}

/* Recovery may begin with any checkpoint of the folder: what is behind the oldest stays. */
static void sweep_journal(const struct ps_saver *saver, uint64_t epoch,
                          const struct ps_kept_sets *kept)
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
    struct ps_checkpoint_place published = {0};
    (void)ps_service_last_saved(saver->service, &published);
    for (size_t i = 0; status == PS_OK && i < catalog.count; i++)
        if (!is_of_set_alone(&catalog, i, published.uuid, kept))
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

/* Not by the wall clock: one that was set ahead in between would stay in the histogram's sum. */
static void count_saved(const struct ps_saver *saver, const struct ps_saving *saving)
{
    const struct ps_core_metrics *metrics = &saver->service->metrics;
    uint64_t taken_ms = ps_now_ms(saver->clock) - saving->start_ms;
    PS_ASSERT(saving->start_ms <= ps_now_ms(saver->clock));
    bool is_increment = saving->base[0] != '\0';
    ps_counter_add(metrics->checkpoints, 1);
    ps_histogram_observe(metrics->checkpoint_seconds, (double)taken_ms / 1e3);
    /* Their share of all shows whether they are worth it; few mean that most are too large. */
    if (is_increment) {
        ps_counter_add(metrics->checkpoint_increments, 1);
        ps_counter_add(metrics->checkpoint_increment_bytes, saving->place.bytes);
    }
    PS_LOG(saver->log, PS_LOG_INFO, "saver", "checkpoint saved",
           PS_FIELD_TEXT("kind", is_increment ? "increment on" : "whole"),
           PS_FIELD_TEXT("base", saving->base), PS_FIELD_TEXT("path", saving->place.path),
           PS_FIELD_UINT("position", saving->place.position),
           PS_FIELD_UINT("bytes", saving->place.bytes), PS_FIELD_UINT("duration_ms", taken_ms));
}
