/* SPDX-License-Identifier: Apache-2.0 */
/* Notes as names of files, and as JSON in the store.
 *
 * A note has no content, so there is nothing of it that a crash could tear, and moving it on is one
 * rename(2) without a sync. The price of leaving the sync out is that after a crash an older note
 * may be there, which demands less and is never wrong. */
#include "checkpoint/journal_note.h"

#include "base/assert.h"
#include "checkpoint/checkpoint_name.h"
#include "checkpoint/journal_segments.h"
#include "json/json_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define JSON_BYTES_MAX 4096

/* Room for the longest path of a note. */
#define PATH_BYTES PS_JOURNAL_PATH_BYTES

struct reading {
    struct ps_journal_notes *notes;
    uint64_t epoch_max;
};

/* Names that one sweep may remove; what does not fit is left to the next one. A folder gains one
 * name for each epoch, so there are rarely more than two. */
#define SWEPT_MAX 64
struct sweeping {
    uint64_t epoch;
    size_t count;
    char names[SWEPT_MAX][PS_JOURNAL_NAME_BYTES];
};

static void read_one(void *context, const char *name);
static bool read_name(const char *name, const char *suffix, uint64_t *first, uint64_t *second);
static enum ps_status write_path(const char *folder, uint64_t first, uint64_t second,
                                 const char *suffix, char path[PATH_BYTES], struct ps_error *error);
static enum ps_status make_file(const struct ps_files *files, const char *path,
                                struct ps_error *error);
static void choose_swept(void *context, const char *name);

bool ps_journal_note_after(const struct ps_journal_note *note, const struct ps_journal_note *other)
{
    if (note->epoch != other->epoch)
        return note->epoch > other->epoch;
    return note->position > other->position;
}

/* How many noted positions lie behind `end`, and whether an operator has given them up. A decision
 * counts only for the very end that it was made for (given_up_at): if the journal ends elsewhere
 * now, something else is missing than was decided about. A note of a lower epoch than the end's
 * demands nothing, since the end's epoch went on from a state that was whole. */
uint64_t ps_journal_notes_missing(const struct ps_journal_notes *notes,
                                  const struct ps_journal_note *end, uint64_t *given_up)
{
    const struct ps_journal_note *noted = &notes->highest;
    uint64_t missing = 0;
    *given_up = 0;
    if (noted->epoch >= end->epoch && noted->position > end->position)
        missing = noted->position - end->position;
    if (!notes->given_up || notes->given_up_at != end->position)
        return missing;
    *given_up = missing;
    /* More may have been noted when the decision was made than is known now (the store may be empty
     * since); what is reported as given up is the larger of both. */
    if (notes->given_up_noted > end->position + missing)
        *given_up = notes->given_up_noted - end->position;
    return 0;
}

/* ---- In the folder ---- */

enum ps_status ps_journal_notes_read(const struct ps_files *files, const char *folder,
                                     uint64_t epoch_max, struct ps_journal_notes *notes,
                                     struct ps_error *error)
{
    PS_ASSERT(files != NULL && folder != NULL && notes != NULL);
    *notes = (struct ps_journal_notes){0};
    struct reading reading = {notes, epoch_max};
    enum ps_status status = files->list(files->self, folder, read_one, &reading, error);
    return status == PS_ERR_NOT_FOUND ? PS_OK : status;
}

/* Called for each entry of the folder; names of other kinds are passed over. */
static void read_one(void *context, const char *name)
{
    struct reading *reading = context;
    struct ps_journal_notes *notes = reading->notes;
    struct ps_journal_note note = {0};
    uint64_t noted = 0;
    uint64_t position = 0;
    if (read_name(name, PS_JOURNAL_NOTE_SUFFIX, &note.epoch, &note.position) &&
        note.epoch <= reading->epoch_max && ps_journal_note_after(&note, &notes->highest))
        notes->highest = note;
    if (!read_name(name, PS_JOURNAL_GIVEN_UP_SUFFIX, &noted, &position))
        return;
    /* Of two decisions the later one is the one that gave up more: a journal only ever loses its
     * end. */
    if (notes->given_up && notes->given_up_at <= position)
        return;
    notes->given_up = true;
    notes->given_up_noted = noted;
    notes->given_up_at = position;
}

/* Exactly two numbers of 16 digits and the suffix; the length is compared first, so that no index
 * below lies behind the end of the name. */
static bool read_name(const char *name, const char *suffix, uint64_t *first, uint64_t *second)
{
    size_t digits = PS_CHECKPOINT_NUMBER_DIGITS;
    return strlen(name) == digits + 1 + digits + strlen(suffix) &&
           ps_checkpoint_number_read(name, first) && name[digits] == '-' &&
           ps_checkpoint_number_read(name + digits + 1, second) &&
           strcmp(name + digits + 1 + digits, suffix) == 0;
}

static enum ps_status write_path(const char *folder, uint64_t first, uint64_t second,
                                 const char *suffix, char path[PATH_BYTES], struct ps_error *error)
{
    int length = snprintf(path, PATH_BYTES, "%s/%016" PRIx64 "-%016" PRIx64 "%s", folder, first,
                          second, suffix);
    if (length < 0 || length >= PATH_BYTES)
        return ps_fail(error, PS_ERR_IO, "journal: the folder's path is too long");
    return PS_OK;
}

enum ps_status ps_journal_note_put(const struct ps_files *files, const char *folder,
                                   const struct ps_journal_note *before,
                                   const struct ps_journal_note *note, struct ps_error *error)
{
    PS_ASSERT(files != NULL && folder != NULL && before != NULL && note != NULL);
    /* Both paths are made before anything is done: a folder whose name is too long changes
     * nothing. */
    char from[PATH_BYTES];
    char to[PATH_BYTES];
    PS_TRY(
        write_path(folder, before->epoch, before->position, PS_JOURNAL_NOTE_SUFFIX, from, error));
    PS_TRY(write_path(folder, note->epoch, note->position, PS_JOURNAL_NOTE_SUFFIX, to, error));
    enum ps_status status = PS_ERR_NOT_FOUND;
    /* Only a note of the same epoch is moved on. That of a former epoch stays until it is swept:
     * its owner may still be alive and rename it, and would otherwise take ours. */
    if (before->epoch == note->epoch && before->position > 0)
        status = files->rename(files->self, from, to, error);
    /* The first of its epoch, or somebody has removed the one before. */
    return status == PS_ERR_NOT_FOUND ? make_file(files, to, error) : status;
}

/* A file that is there already says the same thing. */
static enum ps_status make_file(const struct ps_files *files, const char *path,
                                struct ps_error *error)
{
    struct ps_file file;
    enum ps_status status = files->open(files->self, path, PS_FILE_CREATE_NEW, &file, error);
    if (status == PS_OK)
        files->close(files->self, file);
    return status == PS_ERR_EXISTS ? PS_OK : status;
}

enum ps_status ps_journal_give_up(const struct ps_files *files, const char *folder, uint64_t noted,
                                  uint64_t position, struct ps_error *error)
{
    PS_ASSERT(files != NULL && folder != NULL);
    char path[PATH_BYTES];
    PS_TRY(write_path(folder, noted, position, PS_JOURNAL_GIVEN_UP_SUFFIX, path, error));
    PS_TRY(make_file(files, path, error));
    /* A decision of an operator, unlike a note, must survive a crash: the server that starts next
     * relies on it. */
    return files->sync_folder(files->self, folder, error);
}

/* Names are collected first and removed afterwards: removing entries while a folder is being listed
 * may make readdir skip others. Failures are ignored, since a leftover note of a lower epoch
 * demands nothing. */
void ps_journal_notes_sweep(const struct ps_files *files, const char *folder, uint64_t epoch)
{
    PS_ASSERT(files != NULL && folder != NULL);
    struct sweeping sweeping = {.epoch = epoch};
    if (files->list(files->self, folder, choose_swept, &sweeping, NULL) != PS_OK)
        return;
    for (size_t i = 0; i < sweeping.count; i++) {
        char path[PATH_BYTES];
        int length = snprintf(path, sizeof path, "%s/%s", folder, sweeping.names[i]);
        if (length > 0 && (size_t)length < sizeof path)
            (void)files->remove(files->self, path, NULL);
    }
}

/* Decisions hold until a server has begun its journal here, and this is called when one has. */
static void choose_swept(void *context, const char *name)
{
    struct sweeping *sweeping = context;
    uint64_t first = 0;
    uint64_t second = 0;
    /* Decisions of any epoch go, and notes of former epochs. */
    bool goes =
        read_name(name, PS_JOURNAL_GIVEN_UP_SUFFIX, &first, &second) ||
        (read_name(name, PS_JOURNAL_NOTE_SUFFIX, &first, &second) && first < sweeping->epoch);
    if (goes && sweeping->count < SWEPT_MAX)
        (void)snprintf(sweeping->names[sweeping->count++], PS_JOURNAL_NAME_BYTES, "%s", name);
}

/* ---- In the store ---- */

/* Strings of digits, like etcd's own 64-bit numbers: many JSON readers turn numbers into
 * doubles. */
void ps_journal_note_write(const struct ps_journal_note *note,
                           char json[PS_JOURNAL_NOTE_JSON_BYTES])
{
    PS_ASSERT(note != NULL && json != NULL);
    int length = snprintf(json, PS_JOURNAL_NOTE_JSON_BYTES,
                          "{\"epoch\":\"%" PRIu64 "\",\"position\":\"%" PRIu64 "\"}", note->epoch,
                          note->position);
    PS_ASSERT(length > 0 && length < PS_JOURNAL_NOTE_JSON_BYTES);
}

enum ps_status ps_journal_note_read(struct ps_bytes json, struct ps_journal_note *note,
                                    struct ps_error *error)
{
    PS_ASSERT(note != NULL);
    struct ps_json *document = NULL;
    struct ps_journal_note read = {0};
    enum ps_status status = ps_json_parse(json, JSON_BYTES_MAX, &document, error);
    if (status == PS_ERR_BAD_INPUT)
        return ps_fail(error, PS_ERR_CORRUPT, "note of the journal: no JSON");
    if (status != PS_OK)
        return status;
    /* Unknown members are let be, so that a later version may note more. */
    bool whole = ps_json_is_object(document) &&
                 ps_json_uint_of(ps_json_member(document, "epoch"), &read.epoch) &&
                 ps_json_uint_of(ps_json_member(document, "position"), &read.position);
    ps_json_destroy(document);
    if (!whole)
        return ps_fail(error, PS_ERR_CORRUPT,
                       "note of the journal: epoch or position is missing or malformed");
    *note = read;
    return PS_OK;
}
