/* SPDX-License-Identifier: Apache-2.0 */
/* verify: names every damaged file, and in it the tensor and the bytes. Reads every byte that a
 * recovery could need and compares it with its checksum. Four kinds of findings come out: a damaged
 * file, with the tensor and the bytes; a journal that does not continue the newest checkpoint; a
 * file that cannot be read; and a journal that is whole in itself but ends before a position that
 * was noted as durable, which is how lost files show. The first two and the last are status 65,
 * because a server would refuse to start; pushes that an operator gave up with publish are status
 * 67, since a server does start. The command only reads and may run beside a server. */
#include "tools/psckpt/psckpt_verify.h"

#include "checkpoint/catalog.h"
#include "checkpoint/checkpoint_name.h"
#include "checkpoint/journal_segments.h"
#include "server/core/update/row_ages_text.h"
#include "tools/psckpt/checkpoint_survey.h"
#include "tools/psckpt/paths.h"
#include "tools/psckpt/shard_folders.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static enum ps_status verify_path(struct verifying *verifying, struct ps_error *error);
static enum ps_status verify_alone(struct verifying *verifying, const char *path,
                                   struct ps_error *error);
static void conclude(const struct verifying *verifying);
static enum ps_status verify_folder(struct verifying *verifying, const struct shard_folder *shard,
                                    struct ps_error *error);
static void verify_checkpoint(struct verifying *verifying, const char *path, char base[37]);
static bool verify_ages(struct verifying *verifying, const char *path,
                        const struct ps_header *header);
static void report_ages(struct verifying *verifying, const char *path, const char *table,
                        const char *why);
static void verify_merge(struct verifying *verifying, const char *path);
static enum ps_status verify_base(struct verifying *verifying, const char *path, const char *base,
                                  struct ps_error *error);
static void report_damage(struct verifying *verifying, const char *path,
                          const struct checkpoint_survey *survey);

/* The document is begun before anything can fail and printed only when all was looked at: half a
 * list of damages would be read as the whole one. Files are counted whole or not, so that "0
 * damaged" of 0 files can be told from 0 of 40. */
enum ps_status psckpt_verify(const struct psckpt *tool, struct ps_error *error)
{
    struct verifying verifying = {.tool = tool};
    json_document_init(&verifying.document);
    struct ps_json_writer *json = &verifying.document.json;
    ps_json_begin_object(json, NULL);
    ps_json_begin_array(json, "damages");
    enum ps_status status = verify_path(&verifying, error);
    progress_end(tool->box.progress);
    ps_json_end_array(json);
    ps_json_uint(json, "files", verifying.file_count);
    ps_json_uint(json, "damaged", verifying.damaged_count);
    ps_json_uint(json, "missing_pushes", verifying.missing_count);
    ps_json_end_object(json);
    if (tool->json && status == PS_OK)
        json_document_print(&verifying.document);
    json_document_fini(&verifying.document);
    if (status == PS_OK)
        conclude(&verifying);
    return status;
}

/* Damage outranks what could not be read, and both outrank pushes that an operator gave up: the
 * exit status names what has to be dealt with first. The way out is named on standard error,
 * because somebody who finds damage at night should not have to look for it: repair begins with a
 * checkpoint that is whole, and refuses where there is none. */
static void conclude(const struct verifying *verifying)
{
    const struct psckpt *tool = verifying->tool;
    const char *path = tool->arguments[0];
    if (!tool->json)
        (void)printf("%zu files, %zu damaged, %" PRIu64 " pushes missing\n", verifying->file_count,
                     verifying->damaged_count, verifying->missing_count);
    if (verifying->is_mixed)
        (void)fprintf(stderr, "psckpt: move the files that do not belong to the shard out of its "
                              "folder; no server serves it before\n");
    else if (verifying->is_store)
        /* First, since no command that writes works before. */
        (void)fprintf(stderr,
                      "psckpt: move %s/store/store out of the way, the servers stopped; "
                      "then ask again\n",
                      path);
    else if (verifying->damaged_count > 0 && path_is_folder(tool->box.files, path))
        (void)fprintf(stderr, "psckpt: %s %s --out NEWDIR\n",
                      verifying->is_salvage
                          ? "a shard has no whole checkpoint; each tensor that is: psckpt salvage"
                          : "the last good state: psckpt repair",
                      path);
    if (verifying->damaged_count > 0)
        *tool->code = EX_DATAERR;
    else if (*tool->code == 0 && verifying->given_up_count > 0)
        *tool->code = PSCKPT_EXIT_MISSING;
}

/* One file is judged by itself, and with its base where it has one. A segment alone is taken for
 * the last of its epoch, so a torn end of it is no damage. Folders are looked at in the order of
 * jobs and shards; a failure in one (the disk refuses to list it) ends the command, since the
 * verdict would be about less than was asked. */
static enum ps_status verify_path(struct verifying *verifying, struct ps_error *error)
{
    const struct psckpt *tool = verifying->tool;
    const char *path = tool->arguments[0];
    if (!path_is_folder(tool->box.files, path)) {
        if (path_ends_with(path, PS_JOURNAL_SUFFIX))
            (void)psckpt_verify_journal(verifying, path, false);
        else
            return verify_alone(verifying, path, error);
        return PS_OK;
    }
    struct shard_folders folders;
    PS_TRY(shard_folders_init(&folders, &tool->box, path, error));
    psckpt_verify_store(verifying);
    enum ps_status status = PS_OK;
    for (size_t i = 0; i < folders.count && status == PS_OK; i++)
        status = verify_folder(verifying, &folders.rows[i], error);
    shard_folders_fini(&folders);
    return status;
}

/* Whoever names one file asks whether the state is there: the base is looked at as well. In a
 * folder it is looked at anyway, once for all that add to it. */
static enum ps_status verify_alone(struct verifying *verifying, const char *path,
                                   struct ps_error *error)
{
    char base[37];
    verify_checkpoint(verifying, path, base);
    return base[0] == '\0' ? PS_OK : verify_base(verifying, path, base, error);
}

/* Files with other endings are not judged: unfinished ones (.tmp), which no recovery reads, and
 * those that a server found damaged and put aside (.damaged). The notes are read first: a server
 * may be at work there, and then note more than was found when the files were read, which must not
 * look like a loss. */
static enum ps_status verify_folder(struct verifying *verifying, const struct shard_folder *shard,
                                    struct ps_error *error)
{
    const struct psckpt *tool = verifying->tool;
    const char *folder = shard->path;
    struct name_list names;
    size_t checkpoint_count = 0;
    verifying->is_folder = true;
    verifying->whole_count = 0;
    /* First: a server may be at work there, and note more than we then find. */
    PS_TRY(ps_journal_notes_read(tool->box.files, folder, UINT64_MAX, &verifying->notes, error));
    PS_TRY(name_list_init(&names, tool->box.files, folder, tool->box.memory, error));
    for (size_t i = 0; i < names.count; i++) {
        char path[SHARD_FOLDER_PATH_BYTES + 300];
        char base[37];
        (void)snprintf(path, sizeof path, "%s/%s", folder, names.names[i]);
        /* All checkpoints are read, not only the newest: the older ones are what a repair goes back
         * to. */
        if (!path_ends_with(names.names[i], PS_CHECKPOINT_SUFFIX))
            continue;
        size_t files_before = verifying->file_count;
        verify_checkpoint(verifying, path, base);
        checkpoint_count += verifying->file_count - files_before;
    }
    name_list_fini(&names);
    /* Beside what is damaged, and not in its place: of files that are whole nothing else tells that
     * they do not belong together. */
    PS_TRY(psckpt_verify_histories(verifying, shard, error));
    verifying->is_salvage |= checkpoint_count > 0 && verifying->whole_count == 0;
    if (!psckpt_verify_journal(verifying, folder, true))
        return PS_OK;
    return psckpt_verify_chain(verifying, folder, error);
}

/* A file that could not be read counts as a file, and neither as whole nor as damaged. Header and
 * arrays, each against its checksum, and ages by their text; what the numbers mean is not judged.
 * `base` becomes the uuid of the file that this one adds to, "" when it is whole or cannot say. */
static void verify_checkpoint(struct verifying *verifying, const char *path, char base[37])
{
    const struct psckpt *tool = verifying->tool;
    struct checkpoint_survey survey;
    struct ps_error why = {0};
    base[0] = '\0';
    verifying->file_count++;
    enum ps_status status = checkpoint_survey_init(&survey, &tool->box, path, true, &why);
    /* Removed by a server since the folder was listed, for a newer one: no finding. */
    if (status == PS_ERR_NOT_FOUND && verifying->is_folder && path_is_gone(tool->box.files, path)) {
        verifying->file_count--;
        return;
    }
    if (status != PS_OK) {
        psckpt_verify_unreadable(verifying, path, &why);
        verifying->whole_count++;
        return;
    }
    /* Also of a damaged file: its base may be whole, and is what is left. */
    if (survey.has_header)
        (void)snprintf(base, 37, "%s", survey.header.facts.base);
    bool is_whole = survey.damage_count == 0;
    /* One that adds to another is of use only with its base, which counts by itself. */
    verifying->whole_count += is_whole && base[0] == '\0';
    if (!is_whole)
        report_damage(verifying, path, &survey);
    else
        is_whole = verify_ages(verifying, path, &survey.header);
    if (is_whole && base[0] != '\0')
        verify_merge(verifying, path);
    else if (is_whole && !tool->json)
        (void)printf("whole     %s\n", path);
    checkpoint_survey_fini(&survey);
}

/* Ages of rows are a text in a header whose checksum fits, and still no server may know how to read
 * it: it would begin them anew, and rows live for one span longer than they were to. The bytes are
 * as they were written, so no tensor is damaged; the function is the one that servers load with. */
static bool verify_ages(struct verifying *verifying, const char *path,
                        const struct ps_header *header)
{
    bool is_read = true;
    for (size_t i = 0; i < header->count; i++) {
        const struct ps_checkpoint_parameter *table = &header->parameters[i].about;
        /* Any time will do: only whether it can be read is asked. */
        const struct ps_row_ages_read read = {.time = ps_row_ages_time(0),
                                              .version = table->version};
        struct ps_row_expiry expiry = {.due = 0};
        struct ps_error why = {0};
        if (table->ages.size == 0 ||
            ps_row_ages_text_read(table->ages, &read, &expiry, &why) == PS_OK)
            continue;
        report_ages(verifying, path, (const char *)table->name.data, why.text);
        is_read = false;
    }
    verifying->damaged_count += !is_read;
    return is_read;
}

/* Without a place in the file: of a header only the whole has a checksum, and the words are easily
 * found by the table's name. What follows from it is said on the line itself, since the way out
 * (repair, which begins the ages anew) is one that a server takes by itself. */
static void report_ages(struct verifying *verifying, const char *path, const char *table,
                        const char *why)
{
    struct ps_json_writer *json = &verifying->document.json;
    ps_json_begin_object(json, NULL);
    json_text(json, "file", path);
    json_text(json, "part", "ages");
    json_text(json, "parameter", table);
    json_text(json, "reason", why);
    ps_json_end_object(json);
    if (verifying->tool->json)
        return;
    (void)printf("damaged   %s: ages of table ", path);
    (void)psckpt_print_text(ps_bytes_of_text(table));
    (void)printf(": %s; a server loads its rows as new\n", why);
}

/* The file is whole, and nothing without its base: that has to be there, and be the one that the
 * file was written for. The base's arrays are judged with the base, which is a file of its own. */
static void verify_merge(struct verifying *verifying, const char *path)
{
    const struct psckpt *tool = verifying->tool;
    struct ps_checkpoint_reader *reader = NULL;
    struct ps_error why = {0};
    enum ps_status status =
        ps_checkpoint_open(tool->box.files, path, tool->box.memory, &reader, &why);
    if (status == PS_OK && !tool->json)
        (void)printf("whole     %s, on %s\n", path, ps_checkpoint_reader_facts(reader)->base);
    ps_checkpoint_close(reader);
    if (status == PS_ERR_CORRUPT) {
        verifying->damaged_count++;
        psckpt_verify_add(verifying, path, "base", why.text);
        if (!tool->json)
            (void)printf("damaged   %s: %s\n", path, why.text);
    } else if (status != PS_OK) {
        psckpt_verify_unreadable(verifying, path, &why);
    }
}

/* Where there is none, that was said of the file which needs it. */
static enum ps_status verify_base(struct verifying *verifying, const char *path, const char *base,
                                  struct ps_error *error)
{
    const struct psckpt *tool = verifying->tool;
    struct ps_catalog catalog;
    char folder[SHARD_FOLDER_PATH_BYTES];
    char base_path[SHARD_FOLDER_PATH_BYTES + PS_CHECKPOINT_NAME_BYTES];
    char none[37];
    const char *name = path_name(path);
    (void)snprintf(folder, sizeof folder, "%.*s", name > path ? (int)(name - path - 1) : 1,
                   name > path ? path : ".");
    PS_TRY(ps_catalog_init(&catalog, tool->box.files, folder, tool->box.memory, error));
    const struct ps_catalog_entry *entry = ps_catalog_find(&catalog, base);
    /* A base has none itself, or verify_merge has refused it. */
    if (entry != NULL) {
        (void)snprintf(base_path, sizeof base_path, "%s/%s", folder, entry->name);
        verify_checkpoint(verifying, base_path, none);
    }
    ps_catalog_fini(&catalog);
    return PS_OK;
}

/* A file that was cut off has the reason beside its header and then each array that is lost: what
 * stands before the cut can be salvaged. At most CHECKPOINT_DAMAGES_MAX places are named, so that a
 * disk full of zeros does not print a line for each tensor of a large model; the total is said at
 * the end. Offsets are those of the file, so that dd can look at the place. */
static void report_damage(struct verifying *verifying, const char *path,
                          const struct checkpoint_survey *survey)
{
    struct ps_json_writer *json = &verifying->document.json;
    verifying->damaged_count++;
    for (size_t i = 0; i < survey->damage_count && i < CHECKPOINT_DAMAGES_MAX; i++) {
        const struct checkpoint_damage *damage = &survey->damages[i];
        bool header = damage->tensor[0] == '\0';
        const char *reason = header                        ? survey->why.text
                             : damage->end > survey->bytes ? "the file ends before it does"
                                                           : "its checksum does not fit its bytes";
        ps_json_begin_object(json, NULL);
        json_text(json, "file", path);
        json_text(json, header ? "part" : "tensor", header ? "header" : damage->tensor);
        ps_json_uint(json, "begin", damage->begin);
        ps_json_uint(json, "end", damage->end);
        json_text(json, "reason", reason);
        ps_json_end_object(json);
        if (verifying->tool->json)
            continue;
        (void)printf("damaged   %s: %s", path, header ? "header" : "tensor ");
        (void)psckpt_print_text(ps_bytes_of_text(damage->tensor));
        (void)printf(", bytes %" PRIu64 " to %" PRIu64 ": %s\n", damage->begin, damage->end,
                     reason);
    }
    if (survey->damage_count > CHECKPOINT_DAMAGES_MAX && !verifying->tool->json)
        (void)printf("damaged   %s: %zu tensors in all\n", path, survey->damage_count);
}

/* The line goes to standard error at once, so that it stands beside the progress of the file it is
 * about. */
void psckpt_verify_unreadable(struct verifying *verifying, const char *path,
                              const struct ps_error *why)
{
    psckpt_verify_add(verifying, path, "unreadable", why->text);
    *verifying->tool->code = psckpt_complain(why->status, why);
}

/* A finding without a place in its file. Such a finding is about a folder or a file as a whole. The
 * journal's part of verify adds its findings by it, too, so that all of them have the same members
 * in the same order. */
void psckpt_verify_add(struct verifying *verifying, const char *path, const char *part,
                       const char *reason)
{
    struct ps_json_writer *json = &verifying->document.json;
    ps_json_begin_object(json, NULL);
    json_text(json, "file", path);
    json_text(json, "part", part);
    json_text(json, "reason", reason);
    ps_json_end_object(json);
}
