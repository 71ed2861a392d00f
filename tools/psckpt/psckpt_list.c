/* SPDX-License-Identifier: Apache-2.0 */
/* list: every shard's checkpoints and journal segments. Every checkpoint is read in full, because
 * "whole" has to mean that each array fits its checksum: an operator chooses by this column what to
 * go back to. A file that cannot be read gets a row too, and the command goes on: one bad disk
 * sector must not hide the other files. Rows of the table and objects of the document are made in
 * the same place, so both show the same files in the same order. */
#include "tools/psckpt/psckpt_commands.h"

#include "checkpoint/catalog.h"
#include "tools/json_document.h"
#include "tools/psckpt/checkpoint_survey.h"
#include "tools/psckpt/journal_survey.h"
#include "tools/psckpt/paths.h"
#include "tools/psckpt/published.h"
#include "tools/psckpt/shard_folders.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* The state of printing while folders are gone through. Handle of the store and document are opened
 * once for all folders. */
struct listing {
    const struct psckpt *tool;
    struct published published;
    struct json_document document;
    struct ps_history last; /* that was printed of the folder; not known: none was */
};

static enum ps_status list_folder(struct listing *listing, const struct shard_folder *folder,
                                  struct ps_error *error);
static enum ps_status list_checkpoints(struct listing *listing, const struct shard_folder *folder,
                                       struct ps_error *error);
static enum ps_status list_checkpoint(struct listing *listing, const struct shard_folder *folder,
                                      const struct ps_catalog *catalog,
                                      const struct ps_catalog_entry *entry, const char *published,
                                      struct ps_error *error);
static void checkpoint_row(const struct ps_catalog_entry *entry,
                           const struct checkpoint_survey *survey, const char *state,
                           const char *published);
static void say_unknown(const struct psckpt *tool, enum ps_status status,
                        const struct ps_error *why);
static enum ps_status list_journal(struct listing *listing, const struct shard_folder *folder,
                                   struct ps_error *error);
static void segment_json(struct ps_json_writer *json, const struct segment_survey *row);
static void history_row(struct listing *listing, const struct ps_history *history);
static void history_json(struct ps_json_writer *json, const struct ps_history *history);
static void checkpoint_json(struct ps_json_writer *json, const struct ps_catalog_entry *entry,
                            const struct checkpoint_survey *survey, const char *state,
                            const char *published);

/* The store is opened before the folders are looked at: a wrong --etcd should fail at once, not
 * after an hour of reading. The document is made in any case and printed only with --output json:
 * two ways through the loops would drift apart. */
enum ps_status psckpt_list(const struct psckpt *tool, struct ps_error *error)
{
    struct listing listing = {.tool = tool};
    struct shard_folders folders = {0};
    struct published_options wish = psckpt_store_wish(tool, tool->arguments[0]);
    wish.only_pointers = true;
    json_document_init(&listing.document);
    ps_json_begin_array(&listing.document.json, NULL);
    enum ps_status status = published_open(&listing.published, &wish, tool->box.memory, error);
    /* The store of the folder is asked for one column only, and by a copy: where there is no room
     * for one, the rest is worth as much. One that is damaged is a finding. */
    if (status != PS_OK && wish.etcd == NULL) {
        int code = *tool->code;
        say_unknown(tool, status, error);
        if (status != PS_ERR_CORRUPT)
            *tool->code = code;
        status = PS_OK;
    }
    if (status == PS_OK)
        status = shard_folders_init(&folders, &tool->box, tool->arguments[0], error);
    for (size_t i = 0; i < folders.count && status == PS_OK; i++)
        status = list_folder(&listing, &folders.rows[i], error);
    /* A folder that failed half-way leaves objects open: that document is not closed. */
    if (status == PS_OK) {
        ps_json_end_array(&listing.document.json);
        if (tool->json)
            json_document_print(&listing.document);
        else if (!published_asks(&listing.published))
            /* A table of dashes would be taken for one of "no". */
            (void)fprintf(stderr,
                          "psckpt: nobody was asked what is published (-): --etcd URL, or a "
                          "--data-dir with its folder \"store\"\n");
    }
    json_document_fini(&listing.document);
    shard_folders_fini(&folders);
    published_close(&listing.published);
    return status;
}

/* A store that cannot be read or is damaged is nothing that the files below it are to blame for: it
 * is said, and is the exit status, and the column shows that nobody knows. */
static void say_unknown(const struct psckpt *tool, enum ps_status status,
                        const struct ps_error *why)
{
    struct ps_error named;
    (void)ps_fail(&named, status, "%.100s/store, asked what is published: %.140s",
                  tool->arguments[0], why->text);
    *tool->code = psckpt_complain(status, &named);
}

/* One object of the document, one block of the table. A folder that fails ends the command: an
 * answer that silently lacks a shard would be worse than none. The job is empty for a server
 * without one, and the document then says "". The path is printed as it was found, below the path
 * that was asked for. */
static enum ps_status list_folder(struct listing *listing, const struct shard_folder *folder,
                                  struct ps_error *error)
{
    struct ps_json_writer *json = &listing->document.json;
    ps_json_begin_object(json, NULL);
    json_text(json, "folder", folder->path);
    json_text(json, "job", folder->job);
    listing->last = (struct ps_history){{0}};
    if (!listing->tool->json) {
        (void)psckpt_print_text(ps_bytes_of_text(folder->path));
        (void)puts("");
    }
    ps_json_begin_array(json, "checkpoints");
    PS_TRY(list_checkpoints(listing, folder, error));
    ps_json_end_array(json);
    ps_json_begin_array(json, "journal");
    PS_TRY(list_journal(listing, folder, error));
    ps_json_end_array(json);
    ps_json_end_object(json);
    return PS_OK;
}

/* The pointer is read once per shard. A shard whose pointer is not there has "no" in every row;
 * without a store to ask the column shows "-", which is not the same: then nobody knows. Newest
 * first, as a recovery tries them. */
static enum ps_status list_checkpoints(struct listing *listing, const struct shard_folder *folder,
                                       struct ps_error *error)
{
    const struct psckpt *tool = listing->tool;
    char published[37];
    struct ps_error why = {0};
    enum ps_status asked =
        published_uuid(&listing->published, folder->job, folder->index, published, &why);
    if (asked != PS_OK && tool->options.etcd != NULL)
        return ps_fail(error, asked, "%s", why.text);
    if (asked != PS_OK)
        say_unknown(tool, asked, &why);
    bool is_known = listing->published.kv != NULL && asked == PS_OK;
    struct ps_catalog catalog;
    PS_TRY(ps_catalog_init(&catalog, tool->box.files, folder->path, tool->box.memory, error));
    if (!tool->json && catalog.count > 0)
        /* The names of columns have no spaces, so that awk and sort can work on the table. */
        (void)printf("  %-10s %12s %12s %-20s %14s %8s %-10s %-9s %s\n", "KIND", "EPOCH",
                     "POSITION", "TIME", "BYTES", "PARAMS", "STATE", "PUBLISHED", "NAME");
    enum ps_status status = PS_OK;
    for (size_t i = 0; i < catalog.count && status == PS_OK; i++)
        status = list_checkpoint(listing, folder, &catalog, &catalog.entries[i],
                                 is_known ? published : NULL, error);
    ps_catalog_fini(&catalog);
    return status;
}

/* Four states: "whole" was read and fits, "damaged" was read and does not, "unreadable" could not
 * be read (the disk, the rights), "no-base" is whole and adds to one that is not in the folder.
 * Only what could not be read changes the exit status, since damage is an answer here and a failure
 * to read is not; verify is the command that judges. The content of the row comes from the file
 * itself, the epoch and the position from its name: where the two disagree the survey finds damage.
 * */
static enum ps_status list_checkpoint(struct listing *listing, const struct shard_folder *folder,
                                      const struct ps_catalog *catalog,
                                      const struct ps_catalog_entry *entry, const char *published,
                                      struct ps_error *error)
{
    const struct psckpt *tool = listing->tool;
    char path[SHARD_FOLDER_PATH_BYTES + sizeof entry->name + 1];
    (void)snprintf(path, sizeof path, "%s/%s", folder->path, entry->name);
    struct checkpoint_survey survey;
    struct ps_error why = {0};
    enum ps_status status = checkpoint_survey_init(&survey, &tool->box, path, true, &why);
    /* Listed, and gone since: a server has removed it for a newer one. */
    if (status == PS_ERR_NOT_FOUND && path_is_gone(tool->box.files, path))
        return PS_OK;
    /* Without memory the next file would fail too: that ends the command. */
    if (status == PS_ERR_NO_MEMORY)
        return ps_fail(error, status, "%s", why.text);
    if (status != PS_OK)
        *tool->code = psckpt_complain(status, &why);
    /* By the names, as a recovery looks for it. A base that is damaged has a row of its own, in
     * which that is said. */
    bool is_baseless = entry->base[0] != '\0' && ps_catalog_find(catalog, entry->base) == NULL;
    const char *state = status != PS_OK           ? "unreadable"
                        : survey.damage_count > 0 ? "damaged"
                        : is_baseless             ? "no-base"
                                                  : "whole";
    const char *word = published == NULL ? "-" : strcmp(published, entry->uuid) == 0 ? "yes" : "no";
    if (tool->json)
        checkpoint_json(&listing->document.json, entry, &survey, state, word);
    else {
        /* Of a damaged header nobody knows it, and the line above goes on to hold. */
        if (survey.has_header)
            history_row(listing, &survey.header.facts.history);
        checkpoint_row(entry, &survey, state, word);
    }
    checkpoint_survey_fini(&survey);
    return PS_OK;
}

/* Times are in UTC with a Z, as in servers' logs: two machines in different zones must sort alike.
 * The columns of numbers are right-aligned and wide enough for a 64-bit value that is in use; the
 * name, which has any length, comes last. */
static void checkpoint_row(const struct ps_catalog_entry *entry,
                           const struct checkpoint_survey *survey, const char *state,
                           const char *published)
{
    char when[32] = "-";
    if (survey->has_header) {
        time_t seconds = (time_t)(survey->header.facts.unix_ns / 1000000000u);
        struct tm parts;
        if (gmtime_r(&seconds, &parts) != NULL)
            (void)strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &parts);
    }
    (void)printf("  %-10s %12" PRIu64 " %12" PRIu64 " %-20s %14" PRIu64 " %8zu %-10s %-9s %s\n",
                 "checkpoint", entry->epoch, entry->position, when, survey->bytes,
                 survey->has_header ? survey->header.count : 0, state, published, entry->name);
}

/* The moment stays in nanoseconds here, since a program can format it and could not get the digits
 * back. Members about the content are left out when the header is damaged, instead of showing zeros
 * that look like facts. `published` is missing where nobody was asked, instead of being false. */
static void checkpoint_json(struct ps_json_writer *json, const struct ps_catalog_entry *entry,
                            const struct checkpoint_survey *survey, const char *state,
                            const char *published)
{
    ps_json_begin_object(json, NULL);
    json_text(json, "name", entry->name);
    json_text(json, "uuid", entry->uuid);
    /* Missing of a whole one. */
    if (entry->base[0] != '\0')
        json_text(json, "base", entry->base);
    ps_json_uint(json, "epoch", entry->epoch);
    ps_json_uint(json, "position", entry->position);
    ps_json_uint(json, "bytes", survey->bytes);
    if (survey->has_header) {
        ps_json_uint(json, "unix_ns", survey->header.facts.unix_ns);
        ps_json_uint(json, "parameters", survey->header.count);
        history_json(json, &survey->header.facts.history);
        /* As the file says; which file is the set's the store knows. */
        if (survey->header.facts.set[0] != '\0')
            json_text(json, "set", survey->header.facts.set);
    }
    json_text(json, "state", state);
    if (published[0] != '-')
        ps_json_bool(json, "published", published[0] == 'y');
    ps_json_end_object(json);
}

/* Torn bytes are the part of a segment behind its last good record: what a crash in the middle of a
 * write leaves, and what a recovery leaves out. Segments are in the order of replay, so gaps can be
 * seen by eye from FIRST and LAST. */
static enum ps_status list_journal(struct listing *listing, const struct shard_folder *folder,
                                   struct ps_error *error)
{
    const struct psckpt *tool = listing->tool;
    struct journal_survey survey;
    PS_TRY(journal_survey_init(&survey, &tool->box, folder->path, error));
    if (!tool->json && survey.count > 0)
        (void)printf("  %-10s %12s %12s %12s %14s %12s %-9s %s\n", "KIND", "EPOCH", "FIRST", "LAST",
                     "BYTES", "TORN_BYTES", "STATE", "NAME");
    for (size_t i = 0; i < survey.count; i++) {
        const struct segment_survey *row = &survey.rows[i];
        if (tool->json)
            segment_json(&listing->document.json, row);
        else {
            history_row(listing, &row->history);
            (void)printf("  %-10s %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %14" PRIu64
                         " %12" PRIu64 " %-9s %s\n",
                         "journal", row->epoch, row->first, row->last, row->bytes,
                         row->bytes - row->offset, segment_finding_word(row->finding), row->name);
        }
    }
    journal_survey_fini(&survey);
    return PS_OK;
}

/* The member names are those of the table's columns in lower case; see docs/psckpt.md. `first` and
 * `last` are positions; last is first - 1 for a segment without a record. */
static void segment_json(struct ps_json_writer *json, const struct segment_survey *row)
{
    ps_json_begin_object(json, NULL);
    json_text(json, "name", row->name);
    ps_json_uint(json, "epoch", row->epoch);
    ps_json_uint(json, "first", row->first);
    ps_json_uint(json, "last", row->last);
    ps_json_uint(json, "bytes", row->bytes);
    ps_json_uint(json, "torn_bytes", row->bytes - row->offset);
    history_json(json, &row->history);
    json_text(json, "state", segment_finding_word(row->finding));
    ps_json_end_object(json);
}

/* A line of its own, above the first file that it is of, and again where another begins: a column
 * would say the same 36 letters in every row of nearly every folder. */
static void history_row(struct listing *listing, const struct ps_history *history)
{
    char text[PS_UUID_BYTES];
    bool is_new = ps_history_known(history) &&
                  (!ps_history_known(&listing->last) || ps_history_differ(history, &listing->last));
    if (!is_new)
        return;
    ps_history_write(history, text);
    (void)printf("  %-10s %s\n", "history", text);
    listing->last = *history;
}

/* Missing of files of older programs, which say none. */
static void history_json(struct ps_json_writer *json, const struct ps_history *history)
{
    char text[PS_UUID_BYTES];
    ps_history_write(history, text);
    if (text[0] != '\0')
        json_text(json, "history", text);
}
