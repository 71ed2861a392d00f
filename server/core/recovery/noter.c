/* Two places, the same rule for both. */
#include "server/core/recovery/noter.h"

#include "base/assert.h"

#include <stdio.h>

static uint64_t put_when_due(struct ps_noter *noter, struct ps_noter_place *place,
                             const struct ps_journal_note *note, uint64_t pace_ms);
static enum ps_status put(struct ps_noter *noter, const struct ps_noter_place *place,
                          const struct ps_journal_note *note, struct ps_error *error);
static enum ps_status put_in_store(struct ps_noter *noter, const struct ps_journal_note *note,
                                   struct ps_error *error);
static void complain(struct ps_noter *noter, struct ps_noter_place *place,
                     const struct ps_error *why);

void ps_noter_begin(struct ps_noter *noter, const char *folder, const struct ps_claim *claim,
                    uint64_t epoch)
{
    PS_ASSERT(folder != NULL && claim != NULL && epoch > 0);
    int length = snprintf(noter->path, sizeof noter->path, "%s", folder);
    /* A journal's paths have the same limit, and there is one. */
    PS_ASSERT(length > 0 && (size_t)length < sizeof noter->path);
    noter->claim = *claim;
    noter->epoch = epoch;
    noter->folder = (struct ps_noter_place){0};
    noter->store = (struct ps_noter_place){0};
}

uint64_t ps_noter_turn(struct ps_noter *noter)
{
    struct ps_journal_note note;
    if (noter->epoch == 0 || !ps_service_journal_note(noter->service, &note) ||
        note.epoch != noter->epoch)
        return PS_DEADLINE_NEVER;
    bool first = noter->folder.noted.position == 0;
    uint64_t folder_ms = put_when_due(noter, &noter->folder, &note, PS_NOTER_FOLDER_MS);
    if (first && noter->folder.noted.position > 0)
        ps_journal_notes_sweep(noter->files, noter->path, noter->epoch);
    if (noter->registry == NULL)
        return folder_ms;
    uint64_t store_ms = put_when_due(noter, &noter->store, &note, PS_NOTER_STORE_MS);
    return folder_ms < store_ms ? folder_ms : store_ms;
}

/* Returns when it will be due again. */
static uint64_t put_when_due(struct ps_noter *noter, struct ps_noter_place *place,
                             const struct ps_journal_note *note, uint64_t pace_ms)
{
    struct ps_error why = {0};
    if (!ps_journal_note_after(note, &place->noted))
        return PS_DEADLINE_NEVER;
    uint64_t now_ms = ps_now_ms(noter->clock);
    if (now_ms < place->due_ms)
        return place->due_ms;
    place->due_ms = now_ms + pace_ms;
    enum ps_status status = put(noter, place, note, &why);
    if (status == PS_OK) {
        place->noted = *note;
        place->failed = false;
        return PS_DEADLINE_NEVER;
    }
    complain(noter, place, &why);
    if (status != PS_ERR_STALE_EPOCH)
        return place->due_ms;
    /* The shard is another's: there is nothing to say about it any more. */
    place->noted = (struct ps_journal_note){noter->epoch, UINT64_MAX};
    return PS_DEADLINE_NEVER;
}

static enum ps_status put(struct ps_noter *noter, const struct ps_noter_place *place,
                          const struct ps_journal_note *note, struct ps_error *error)
{
    if (place == &noter->store)
        return put_in_store(noter, note, error);
    return ps_journal_note_put(noter->files, noter->path, &place->noted, note, error);
}

static enum ps_status put_in_store(struct ps_noter *noter, const struct ps_journal_note *note,
                                   struct ps_error *error)
{
    char json[PS_JOURNAL_NOTE_JSON_BYTES];
    ps_journal_note_write(note, json);
    return ps_registry_publish_note(noter->registry, &noter->claim, ps_bytes_of_text(json),
                                    ps_deadline_after(noter->clock, PS_NOTER_STORE_TIMEOUT_MS),
                                    error);
}

static void complain(struct ps_noter *noter, struct ps_noter_place *place,
                     const struct ps_error *why)
{
    if (!place->failed && why->status != PS_ERR_STALE_EPOCH)
        PS_LOG(noter->log, PS_LOG_WARN, "noter",
               "how far the journal is durable could not be noted: what is acknowledged now is not "
               "missed should the journal's end be damaged",
               PS_FIELD_TEXT("in", place == &noter->store ? "store" : noter->path),
               PS_FIELD_ERROR(why));
    place->failed = true;
}
