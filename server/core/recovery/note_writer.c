/* SPDX-License-Identifier: Apache-2.0 */
/* Two places, the same rule for both: the folder's note is found by whoever has the disk, the
 * store's also when the disk is gone or was put back from a snapshot. A note is allowed to be late
 * and never to be early: one that spoke of more than is durable would make recovery refuse a
 * journal that has everything. */
#include "server/core/recovery/note_writer.h"

#include "base/assert.h"

#include <stdio.h>

static uint64_t put_when_due(struct ps_note_writer *writer, struct ps_note_place *place,
                             const struct ps_journal_note *note, uint64_t pace_ms);
static enum ps_status put(struct ps_note_writer *writer, const struct ps_note_place *place,
                          const struct ps_journal_note *note, struct ps_error *error);
static enum ps_status put_in_store(struct ps_note_writer *writer,
                                   const struct ps_journal_note *note, struct ps_error *error);
static void complain(struct ps_note_writer *writer, struct ps_note_place *place,
                     const struct ps_error *why);

/* The notes of the epoch before stay until the first one of this epoch is there. Were they removed
 * now, a crash before that would find no note at all, and a journal that lost its end would look
 * complete. */
void ps_note_writer_begin(struct ps_note_writer *writer, const char *folder,
                          const struct ps_claim *claim, uint64_t epoch)
{
    PS_ASSERT(folder != NULL && claim != NULL && epoch > 0);
    int length = snprintf(writer->path, sizeof writer->path, "%s", folder);
    /* A journal's paths have the same limit, and there is one. */
    PS_ASSERT(length > 0 && (size_t)length < sizeof writer->path);
    writer->claim = *claim;
    writer->epoch = epoch;
    writer->folder = (struct ps_note_place){0};
    writer->store = (struct ps_note_place){0};
}

/* The first note of an epoch sweeps those of former ones: it says more than all of them. */
uint64_t ps_note_writer_turn(struct ps_note_writer *writer)
{
    PS_ASSERT(writer->service != NULL && writer->files != NULL);
    struct ps_journal_note note;
    if (writer->epoch == 0 || !ps_service_journal_note(writer->service, &note) ||
        note.epoch != writer->epoch)
        return PS_DEADLINE_NEVER;
    PS_ASSERT(note.position > 0);
    bool first = writer->folder.noted.position == 0;
    uint64_t folder_ms = put_when_due(writer, &writer->folder, &note, PS_NOTE_FOLDER_MS);
    if (first && writer->folder.noted.position > 0)
        ps_journal_notes_sweep(writer->files, writer->path, writer->epoch);
    /* A server without a store, and a folder that is the only place. */
    if (writer->registry == NULL)
        return folder_ms;
    uint64_t store_ms = put_when_due(writer, &writer->store, &note, PS_NOTE_STORE_MS);
    return folder_ms < store_ms ? folder_ms : store_ms;
}

/* Returns when it will be due again. The pace is set before the attempt, so that a store which does
 * not answer is asked as seldom as one that does. */
static uint64_t put_when_due(struct ps_note_writer *writer, struct ps_note_place *place,
                             const struct ps_journal_note *note, uint64_t pace_ms)
{
    PS_ASSERT(note->epoch == writer->epoch && pace_ms > 0);
    struct ps_error why = {0};
    if (!ps_journal_note_after(note, &place->noted))
        return PS_DEADLINE_NEVER;
    uint64_t now_ms = ps_now_ms(writer->clock);
    if (now_ms < place->due_ms)
        return place->due_ms;
    place->due_ms = now_ms + pace_ms;
    enum ps_status status = put(writer, place, note, &why);
    if (status == PS_OK) {
        place->noted = *note;
        /* The next failure is the first of a row again, and is logged. */
        place->failed = false;
        return PS_DEADLINE_NEVER;
    }
    complain(writer, place, &why);
    if (status != PS_ERR_STALE_EPOCH)
        return place->due_ms;
    /* The shard is another's: there is nothing to say about it any more. */
    /* Above every position, so that nothing is ever after it and this place is left alone until the
     * next begin. */
    place->noted = (struct ps_journal_note){writer->epoch, UINT64_MAX};
    return PS_DEADLINE_NEVER;
}

static enum ps_status put(struct ps_note_writer *writer, const struct ps_note_place *place,
                          const struct ps_journal_note *note, struct ps_error *error)
{
    PS_ASSERT(place == &writer->store || place == &writer->folder);
    if (place == &writer->store)
        return put_in_store(writer, note, error);
    return ps_journal_note_put(writer->files, writer->path, &place->noted, note, error);
}

/* Under the claim: a former owner's note does not land over the next one's. */
static enum ps_status put_in_store(struct ps_note_writer *writer,
                                   const struct ps_journal_note *note, struct ps_error *error)
{
    PS_ASSERT(writer->registry != NULL);
    char json[PS_JOURNAL_NOTE_JSON_BYTES];
    ps_journal_note_write(note, json);
    return ps_registry_publish_note(writer->registry, &writer->claim, ps_bytes_of_text(json),
                                    ps_deadline_after(writer->clock, PS_NOTE_STORE_TIMEOUT_MS),
                                    error);
}

/* Once for each row of failures. Nothing is refused for want of a note: it is a second line of
 * defence. */
static void complain(struct ps_note_writer *writer, struct ps_note_place *place,
                     const struct ps_error *why)
{
    PS_ASSERT(why->status != PS_OK);
    if (!place->failed && why->status != PS_ERR_STALE_EPOCH)
        PS_LOG(writer->log, PS_LOG_WARN, "noter",
               "how far the journal is durable could not be noted: what is acknowledged now is not "
               "missed should the journal's end be damaged",
               PS_FIELD_TEXT("in", place == &writer->store ? "store" : writer->path),
               PS_FIELD_ERROR(why));
    place->failed = true;
}
