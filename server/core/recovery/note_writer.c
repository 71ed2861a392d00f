/* Two places, the same rule for both. */
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

uint64_t ps_note_writer_turn(struct ps_note_writer *writer)
{
    struct ps_journal_note note;
    if (writer->epoch == 0 || !ps_service_journal_note(writer->service, &note) ||
        note.epoch != writer->epoch)
        return PS_DEADLINE_NEVER;
    bool first = writer->folder.noted.position == 0;
    uint64_t folder_ms = put_when_due(writer, &writer->folder, &note, PS_NOTE_FOLDER_MS);
    if (first && writer->folder.noted.position > 0)
        ps_journal_notes_sweep(writer->files, writer->path, writer->epoch);
    if (writer->registry == NULL)
        return folder_ms;
    uint64_t store_ms = put_when_due(writer, &writer->store, &note, PS_NOTE_STORE_MS);
    return folder_ms < store_ms ? folder_ms : store_ms;
}

/* Returns when it will be due again. */
static uint64_t put_when_due(struct ps_note_writer *writer, struct ps_note_place *place,
                             const struct ps_journal_note *note, uint64_t pace_ms)
{
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
        place->failed = false;
        return PS_DEADLINE_NEVER;
    }
    complain(writer, place, &why);
    if (status != PS_ERR_STALE_EPOCH)
        return place->due_ms;
    /* The shard is another's: there is nothing to say about it any more. */
    place->noted = (struct ps_journal_note){writer->epoch, UINT64_MAX};
    return PS_DEADLINE_NEVER;
}

static enum ps_status put(struct ps_note_writer *writer, const struct ps_note_place *place,
                          const struct ps_journal_note *note, struct ps_error *error)
{
    if (place == &writer->store)
        return put_in_store(writer, note, error);
    return ps_journal_note_put(writer->files, writer->path, &place->noted, note, error);
}

static enum ps_status put_in_store(struct ps_note_writer *writer,
                                   const struct ps_journal_note *note, struct ps_error *error)
{
    char json[PS_JOURNAL_NOTE_JSON_BYTES];
    ps_journal_note_write(note, json);
    return ps_registry_publish_note(writer->registry, &writer->claim, ps_bytes_of_text(json),
                                    ps_deadline_after(writer->clock, PS_NOTE_STORE_TIMEOUT_MS),
                                    error);
}

static void complain(struct ps_note_writer *writer, struct ps_note_place *place,
                     const struct ps_error *why)
{
    if (!place->failed && why->status != PS_ERR_STALE_EPOCH)
        PS_LOG(writer->log, PS_LOG_WARN, "noter",
               "how far the journal is durable could not be noted: what is acknowledged now is not "
               "missed should the journal's end be damaged",
               PS_FIELD_TEXT("in", place == &writer->store ? "store" : writer->path),
               PS_FIELD_ERROR(why));
    place->failed = true;
}
