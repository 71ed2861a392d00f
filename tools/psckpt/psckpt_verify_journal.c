/* SPDX-License-Identifier: Apache-2.0 */
/* The journal of a folder, as verify judges it: each segment, whether it goes on where the newest
 * checkpoint ends, and whether it comes as far as was noted. */
#include "tools/psckpt/psckpt_verify.h"

#include "checkpoint/catalog.h"
#include "checkpoint/journal.h"
#include "server/core/recovery/recovery_replay.h"
#include "tools/psckpt/journal_survey.h"
#include "tools/psckpt/paths.h"
#include "tools/psckpt/shard_folders.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void verify_segment(struct verifying *verifying, const char *folder,
                           const struct segment_survey *row);
static void verify_end(struct verifying *verifying, const char *folder,
                       const struct ps_catalog_entry *newest);
static void report_no_journal(struct verifying *verifying, const char *folder,
                              const struct ps_catalog_entry *newest);

/* Segments are judged together when the folder is known: whether a bad end is a torn one or damage
 * depends on what follows it. The end of the last segment is kept for verify_end. Of a journal that
 * cannot be read nobody knows where it ends: the file is there, and its owner or its disk is the
 * matter, so that nothing is said to be missing. */
bool psckpt_verify_journal(struct verifying *verifying, const char *path, bool is_folder)
{
    const struct psckpt *tool = verifying->tool;
    struct journal_survey survey;
    struct ps_error why = {0};
    enum ps_status status = is_folder ? journal_survey_init(&survey, &tool->box, path, &why)
                                      : journal_survey_file(&survey, &tool->box, path, &why);
    if (status != PS_OK) {
        verifying->file_count += !is_folder;
        psckpt_verify_unreadable(verifying, path, &why);
        return false;
    }
    /* Segment names are printed with their folder in front, also when a single file was named. */
    const char *name = path_name(path);
    int length = is_folder ? (int)strlen(path) : (int)(name > path ? name - path - 1 : 0);
    char folder[SHARD_FOLDER_PATH_BYTES];
    (void)snprintf(folder, sizeof folder, "%.*s", length, path);
    /* No segment at all: the journal ends at position 0, unless a checkpoint says more. */
    verifying->end = (struct ps_journal_note){0};
    for (size_t i = 0; i < survey.count; i++)
        verify_segment(verifying, folder, &survey.rows[i]);
    if (survey.count > 0)
        verifying->end = (struct ps_journal_note){survey.rows[survey.count - 1].epoch,
                                                  survey.rows[survey.count - 1].last};
    journal_survey_fini(&survey);
    return true;
}

/* A torn end is what a crash leaves and is no damage; nor are bytes behind the place where a later
 * owner began, which nobody reads. The position that should stand at the bad place tells how many
 * updates are lost when the journal ends there. Fenced bytes are listed as such: nobody reads them,
 * and still somebody may wonder. */
static void verify_segment(struct verifying *verifying, const char *folder,
                           const struct segment_survey *row)
{
    struct ps_json_writer *json = &verifying->document.json;
    const char *word = segment_finding_word(row->finding);
    char path[SHARD_FOLDER_PATH_BYTES + PS_JOURNAL_NAME_BYTES + 1];
    (void)snprintf(path, sizeof path, "%s%s%s", folder, folder[0] == '\0' ? "" : "/", row->name);
    /* A record of a later version counts as damage: this program cannot vouch for it. */
    bool damaged = row->finding == SEGMENT_DAMAGED || row->finding == SEGMENT_UNKNOWN;
    verifying->file_count++;
    verifying->damaged_count += damaged;
    if (damaged) {
        ps_json_begin_object(json, NULL);
        json_text(json, "file", path);
        json_text(json, "part", "record");
        ps_json_uint(json, "offset", row->offset);
        ps_json_uint(json, "position", row->position);
        json_text(json, "reason", row->why);
        ps_json_end_object(json);
    }
    if (verifying->tool->json)
        return;
    (void)printf("%-9s %s", word, path);
    if (row->finding != SEGMENT_WHOLE)
        (void)printf(": record at offset %" PRIu64 ", position %" PRIu64 ": %s", row->offset,
                     row->position, row->why);
    (void)puts("");
}

/* The journal must go on where the newest checkpoint ends: a segment that was deleted leaves every
 * other file whole, and the gap shows only here. Checkpoints of an epoch that was overtaken are
 * passed over, as a recovery does. The search for the newest goes through all of them, since the
 * catalog may begin with files of overtaken epochs. */
enum ps_status psckpt_verify_chain(struct verifying *verifying, const char *folder,
                                   struct ps_error *error)
{
    const struct psckpt *tool = verifying->tool;
    struct ps_catalog catalog;
    struct ps_journal_segments segments;
    struct ps_journal_reader *reader = NULL;
    struct ps_error why = {0};
    PS_TRY(ps_catalog_init(&catalog, tool->box.files, folder, tool->box.memory, error));
    enum ps_status status = ps_journal_segments_init(&segments, tool->box.files, folder, UINT64_MAX,
                                                     tool->box.memory, &why);
    const struct ps_catalog_entry *newest = NULL;
    for (size_t i = catalog.count; i > 0 && status == PS_OK; i--) {
        const struct ps_catalog_entry *entry = &catalog.entries[i - 1];
        if (!ps_recovery_is_superseded(&segments, entry->epoch, entry->position))
            newest = entry;
    }
    /* After damage the reader would only say the same thing again, in other words. */
    if (newest != NULL && verifying->damaged_count == 0)
        status = ps_journal_reader_open(tool->box.files, folder, newest->position, UINT64_MAX,
                                        tool->box.memory, &reader, &why);
    /* The catalog still owns what `newest` points to. */
    verify_end(verifying, folder, newest);
    ps_journal_segments_fini(&segments);
    ps_catalog_fini(&catalog);
    ps_journal_reader_close(reader);
    if (status != PS_ERR_CORRUPT)
        return PS_OK;
    verifying->damaged_count++;
    psckpt_verify_add(verifying, folder, "journal", why.text);
    if (!tool->json)
        (void)printf("damaged   %s: behind its newest checkpoint: %s\n", folder, why.text);
    return PS_OK;
}

/* Every file may be whole, and the last ones not there: only the notes of how far the journal was
 * durable tell. Such a loss is what an operator most needs to hear, because a server that started
 * from here would silently repeat positions that clients have seen acknowledged. "At least": notes
 * are written at a pace, so what was acknowledged after the last one is known to nobody. */
static void verify_end(struct verifying *verifying, const char *folder,
                       const struct ps_catalog_entry *newest)
{
    const struct psckpt *tool = verifying->tool;
    struct ps_journal_note end = verifying->end;
    uint64_t given_up = 0;
    report_no_journal(verifying, folder, newest);
    if (newest == NULL)
        /* Without a checkpoint the journal is of no use. */
        end.position = 0; /* nothing that a recovery could begin with */
    else if (newest->position > end.position)
        end.position = newest->position;
    if (newest != NULL && newest->epoch > end.epoch)
        end.epoch = newest->epoch;
    uint64_t missing = ps_journal_notes_missing(&verifying->notes, &end, &given_up);
    verifying->missing_count += missing + given_up;
    verifying->given_up_count += given_up;
    if (given_up > 0 && !tool->json)
        (void)printf("given up  %s: at least %" PRIu64
                     " acknowledged pushes behind position %" PRIu64 "\n",
                     folder, given_up, end.position);
    if (missing == 0)
        return;
    char why[160];
    (void)snprintf(why, sizeof why,
                   "it ends at position %" PRIu64 ", but %" PRIu64
                   " was noted as durable: at least %" PRIu64 " acknowledged pushes are missing",
                   end.position, end.position + missing, missing);
    verifying->damaged_count++;
    psckpt_verify_add(verifying, folder, "journal", why);
    if (!tool->json)
        (void)printf("missing   %s: %s\n", folder, why);
}

/* A note is made by who keeps a journal, so of its epoch there is one, and where no segment of it
 * is left nobody knows how much was behind the newest checkpoint: the note itself may be older than
 * that. A server knows by its pointer that there was one, and refuses to begin without it; what
 * verify says of a folder has to be what its server will say of it. */
static void report_no_journal(struct verifying *verifying, const char *folder,
                              const struct ps_catalog_entry *newest)
{
    const struct ps_journal_note *noted = &verifying->notes.highest;
    char why[200];
    if (noted->epoch <= verifying->end.epoch || verifying->notes.given_up || newest == NULL ||
        newest->epoch > noted->epoch)
        return;
    (void)snprintf(why, sizeof why,
                   "a journal of epoch %" PRIu64
                   " was kept, and none is here: what was acknowledged behind position %" PRIu64
                   " is missing; psckpt publish goes on without it",
                   noted->epoch, newest->position);
    verifying->damaged_count++;
    psckpt_verify_add(verifying, folder, "journal", why);
    if (!verifying->tool->json)
        (void)printf("missing   %s: %s\n", folder, why);
}
